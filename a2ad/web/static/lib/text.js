import { t } from "./i18n.js";
import { beginning, bytes, exactTime, plain, relativeTime, short, visible } from "./format.js";
import { html, useEffect, useMemo, useState } from "./html.js";
import { Button } from "./controls.js";

/** How much of a long text is shown at first, and how many times more with each press. */
const FIRST = 4000;
const MORE = 4;
/** How much of a text the page shows at most: the rest is copied or saved. */
const MOST = 1_000_000;
/** How often "3 minutes ago" is made anew, in milliseconds. */
const TICK = 10_000;

/** Of a text that is cut at two lines, what is drawn and what is said on hovering, in characters. */
const [DRAWN, SAID] = [600, 2000];
/** One that is shorter has room in two lines of any column. */
const SHORT = 16;

/**
 * A short text of somebody else's: a name, a description. It keeps its direction to itself.
 * @param {{value: unknown, class?: string}} props with the class `one-line` it is cut, and whole on hovering
 */
export function Text({ value, class: name = "" }) {
  const text = plain(value);
  if (!/\bone-line\b/.test(name) || text.length <= SHORT) return html`<bdi class="foreign ${name}">${short(text)}</bdi>`;
  return html`<bdi class="foreign ${name}" title=${visible(beginning(text, SAID))}>${visible(beginning(text, DRAWN))}</bdi>`;
}

/**
 * An address; where it has to be broken, at a slash.
 * @param {{value: string}} props
 */
export const Address = ({ value }) => html`<bdi class="foreign mono">${short(value).split(/(?<=\/)(?=[^/])/)
  .map((piece, i) => html`${i > 0 && html`<wbr />`}${piece}`)}</bdi>`;

/** The time now, in milliseconds, rendered anew every ten seconds. @returns {number} */
export function useNow() {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    clocks.add(setNow);
    return () => clocks.delete(setNow);
  }, []);
  return now;
}

const clocks = new Set();
setInterval(() => {
  for (const tell of clocks) tell(Date.now());
}, TICK);

/** A moment: how long ago, and exactly on hovering. @param {{at?: string | null}} props ISO 8601 */
export function Time({ at }) {
  const now = Math.max(useNow(), Date.now());
  if (!at) return html`<span class="muted">–</span>`;
  return html`<time datetime=${at} title=${exactTime(at)}>${relativeTime(at, now)}</time>`;
}

/**
 * A text of any length: its beginning, and more on asking. 10 MB do not hold the page up.
 * @param {{value: string, first?: number, code?: boolean, name?: string}} props `code` sets it in a fixed width; `name`
 * is that of the file it is saved as
 */
export function LongText({ value, first = FIRST, code = false, name = "text.txt" }) {
  const text = plain(value);
  const [length, setLength] = useState(first);
  const shown = useMemo(() => visible(beginning(text, length)), [text, length]);
  const cut = text.length > length;
  return html`<div class="long-text">
    <pre class="foreign ${code ? "code" : "prose"}" dir="auto">${shown}${cut ? "…" : ""}</pre>
    ${cut && html`<p class="more">
      <span class="muted">${t("text.part", { part: bytes(length), all: bytes(text.length) })}</span>
      ${length < MOST && html`<${Button} small onClick=${() => setLength(Math.min(MOST, length * MORE))}>${t("text.more")}</${Button}>`}
      <${Button} small onClick=${() => save(text, name)}>${t("text.save")}</${Button}>
    </p>`}
  </div>`;
}

/** Have the browser save something as a file. @param {BlobPart} content @param {string} name @param {string} [type] */
export function save(content, name, type = "application/octet-stream") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), TICK);
}
