import DOMPurify from "../vendor/purify.js";
import { visible } from "./format.js";
import { formatter } from "./formatter.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { LongText } from "./text.js";

/** A text that is longer is shown as it is: to format it would hold the page up. */
const LONGEST = 100_000;
/** Of all texts on the page, how many tags they are formatted with: those beyond are shown as they are. */
const MOST_TAGS = 20_000;
const ALLOWED = {
  ALLOWED_TAGS: ["a", "b", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
  ALLOWED_ATTR: ["href", "rel", "target", "start", "title"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};
let drawn = 0;

/**
 * A text as Markdown, made safe: plain until it is formatted, which happens beside the page. One that is very long, or
 * that cannot be formatted in time, stays plain.
 * @param {{text: string}} props
 */
export function Markdown({ text }) {
  const source = typeof text === "string" ? text : "";
  const made = useFormatted(source);
  if (made === null) return html`<${LongText} value=${source} />`;
  return html`<div class="markdown foreign" dir="auto" dangerouslySetInnerHTML=${{ __html: made }} />`;
}

/** Null while there is nothing to show but the text itself. While more of a text comes, its beginning as formatted last. */
function useFormatted(source) {
  const [made, setMade] = useState({ source: "", html: null });
  const under = useRef({ withdraw: null, tags: 0 }).current;
  useEffect(() => () => {
    under.withdraw?.();
    drawn -= under.tags;
  }, []);
  useEffect(() => {
    if (under.withdraw || made.source === source || isHopeless(made, source)) return;
    const shown = source.length > LONGEST ? source : visible(source);
    if (shown.length > LONGEST) return setMade({ source, html: null });
    under.withdraw = formatter.ask(shown, (formatted) => {
      under.withdraw = null;
      setMade({ source, html: counted(formatted, under) });
    });
  });
  return source.length <= LONGEST && source.startsWith(made.source) ? made.html : null;
}

/** A text that could not be formatted cannot be once there is more of it. */
const isHopeless = (made, source) => made.html === null && made.source !== "" && source.startsWith(made.source);

/** Safe HTML, where the page has room for it. */
function counted(formatted, under) {
  drawn -= under.tags;
  const fits = formatted !== null && drawn + formatted.tags <= MOST_TAGS;
  under.tags = fits ? formatted.tags : 0;
  drawn += under.tags;
  return fits ? DOMPurify.sanitize(formatted.html, ALLOWED) : null;
}
