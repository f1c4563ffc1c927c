import { t } from "./i18n.js";
import { beginning, short, visible } from "./format.js";
import { html, useMemo, useState } from "./html.js";
import { Button } from "./controls.js";

/** Entries of one node that are shown at first, and a string's characters. */
const ENTRIES = 100;
const CHARACTERS = 500;

/**
 * JSON to look into: nodes open on a press, and only what is open is rendered.
 * @param {{value: unknown, open?: number}} props `open` is how many levels are open at first
 */
export const Tree = ({ value, open = 2 }) => html`<div class="tree" dir="ltr"><${Node} value=${value} open=${open} /></div>`;

function Node({ name, value, open }) {
  if (value !== null && typeof value === "object") return html`<${Branch} name=${name} value=${value} open=${open} />`;
  return html`<div class="tree-leaf"><${Name} name=${name} /><${Scalar} value=${value} /></div>`;
}

function Branch({ name, value, open }) {
  const [isOpen, setOpen] = useState(open > 0);
  const [limit, setLimit] = useState(ENTRIES);
  const { entries, count } = useMemo(() => entriesOf(value, limit), [value, limit]);
  const brackets = Array.isArray(value) ? "[]" : "{}";
  const label = `${brackets[0]} ${count} ${brackets[1]}`;
  if (!count) return html`<div class="tree-leaf"><${Name} name=${name} /><span class="muted">${brackets}</span></div>`;
  return html`<details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary><${Name} name=${name} /><span class="muted">${label}</span></summary>
    ${isOpen && html`<div class="tree-entries">
      ${entries.map(([key, each]) => html`<${Node} key=${key} name=${key} value=${each} open=${open - 1} />`)}
      ${count > limit && html`<${Button} small onClick=${() => setLimit(limit * 4)}>
        ${t("tree.more", { n: count - limit })}</${Button}>`}
    </div>`}
  </details>`;
}

/** The first entries, and how many there are. */
function entriesOf(value, limit) {
  const keys = Array.isArray(value) ? value.slice(0, limit).map((_, i) => i) : Object.keys(value);
  return {
    entries: keys.slice(0, limit).map((key) => [String(key), value[key]]),
    count: Array.isArray(value) ? value.length : keys.length,
  };
}

const Name = ({ name }) => (name === undefined ? null : html`<bdi class="tree-name">${short(name)}</bdi><span class="muted">: </span>`);

function Scalar({ value }) {
  const [all, setAll] = useState(false);
  if (typeof value !== "string") return html`<span class="tree-${value === null ? "null" : typeof value}">${String(value)}</span>`;
  const cut = !all && value.length > CHARACTERS;
  const limit = all ? CHARACTERS * 200 : CHARACTERS;
  return html`<bdi class="tree-string">"${visible(beginning(value, limit))}${value.length > limit ? "…" : ""}"</bdi>
    ${cut && html` <${Button} small onClick=${() => setAll(true)}>${t("text.more")}</${Button}>`}`;
}
