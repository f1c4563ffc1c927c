import { currentLanguage, t } from "../lib/i18n.js";
import { bytes, number } from "../lib/format.js";
import { Button, Card, Copy, Empty, LongText, Pager, html, save, useMemo, useState } from "../lib/ui.js";

/** What is kept of the wire, in characters; what is dropped for it, in entries at a time. */
const MOST = 64_000_000;
const AT_ONCE = 100;
/** Entries on one page. */
const PAGE = 25;
/** A JSON text that is longer is shown as it came. */
const LONGEST_INDENTED = 200_000;

/** What was sent and what came, as it came. */
export class Wire {
  entries = [];
  dropped = 0;
  #size = 0;
  #started = 0;

  /** @param {"sent" | "received"} way @param {string} raw @param {string} kind what is in it @param {string} [frame] */
  add(way, raw, kind, frame = "") {
    const now = performance.now();
    if (way === "sent") this.#started = now;
    this.#size += raw.length;
    this.entries.push({ n: this.dropped + this.entries.length + 1, way, raw, kind, frame, after: now - this.#started });
    while (this.#size > MOST && this.entries.length > 1) this.#drop();
  }

  #drop() {
    const gone = this.entries.splice(0, Math.min(AT_ONCE, this.entries.length - 1));
    this.dropped += gone.length;
    for (const { raw } of gone) this.#size -= raw.length;
  }

  /** All that is kept, a line of JSON each. */
  get text() {
    return this.entries.map(({ raw }) => `${raw}\n`).join("");
  }
}

/**
 * The JSON-RPC as it goes over the wire. The newest page is followed until another one is looked at.
 * @param {{wire: Wire}} props
 */
export function WireView({ wire }) {
  const total = wire.entries.length;
  const newest = Math.max(0, Math.floor((total - 1) / PAGE) * PAGE);
  const [page, setPage] = useState(null);
  const offset = page === null ? newest : Math.min(page, newest);
  return html`<${Card} class="wire" title=${t("inbound.wire")} aside=${total > 0 && html`
      <span class="wire-count">${t("inbound.wire.count", { n: total + wire.dropped })}</span>
      <${Button} small onClick=${() => save(wire.text, "json-rpc.jsonl", "application/json")}>${t("inbound.wire.save")}</${Button}>`}>
    ${wire.dropped > 0 && html`<p class="muted">${t("inbound.wire.dropped", { n: wire.dropped })}</p>`}
    ${total === 0 ? html`<${Empty} title=${t("inbound.wire.none")}><p>${t("inbound.wire.help")}</p></${Empty}>` : html`
      <ol class="wire-entries">${wire.entries.slice(offset, offset + PAGE).map((entry) => html`<${Entry} key=${entry.n} entry=${entry} />`)}</ol>
      <${Pager} offset=${offset} limit=${PAGE} total=${total} onChange=${(next) => setPage(next >= newest ? null : next)} />`}
  </${Card}>`;
}

function Entry({ entry }) {
  const [open, setOpen] = useState(false);
  const { way, kind, frame, raw, after } = entry;
  return useMemo(() => html`<li class="wire-entry" data-way=${way} data-kind=${kind} data-frame=${frame}>
    <details onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary><span class="wire-way" aria-hidden="true">${way === "sent" ? "→" : "←"}</span>${" "}
        <span class="sr-only">${t(`inbound.wire.${way}`)}</span> <span class="mono">${kind}</span>${" "}
        <span class="muted">${frame && `#${frame} · `}${bytes(raw.length)}${way === "received" && ` · +${number(Math.round(after))} ms`}</span></summary>
      ${open && html`<div class="wire-raw"><${Copy} text=${raw} label=${t("inbound.wire.copy")} />
        <${LongText} code value=${indented(raw)} name="frame.json" /></div>`}
    </details></li>`, [entry, open, currentLanguage()]);
}

/** A JSON text with line ends and indentation between its tokens, each of which stays as it is. @param {string} json */
export function indented(json) {
  if (json.length > LONGEST_INDENTED) return json;
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return json.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (/^\s/.test(token)) return "";
    if (token === "{" || token === "[") {
      depth += 1;
      return token + line();
    }
    if (token === "}" || token === "]") {
      depth -= 1;
      return line() + token;
    }
    if (token === ",") return token + line();
    return token === ":" ? ": " : token;
  });
}
