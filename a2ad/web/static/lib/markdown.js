import DOMPurify from "../vendor/purify.js";
import { Marked } from "../vendor/marked.js";
import { visible } from "./format.js";
import { html, useMemo } from "./html.js";
import { LongText } from "./text.js";

/** A text that is longer is shown as it is: to format it would hold the page up. */
const LONGEST = 100_000;
/** A run of what an e-mail address may be made of: marked looks ahead over the rest of it at each of its characters. */
const RUNS = /[\w.!#$%&'*+/=?`{|}~-]+/g;
const LONGEST_RUN = 2000;
const LINKS = /^(https?:|mailto:)/i;
const ALLOWED = {
  ALLOWED_TAGS: ["a", "b", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
  ALLOWED_ATTR: ["href", "rel", "target", "start", "title"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};
const escaped = (text) => text.replace(/[&<>"']/g, (each) => `&#${each.charCodeAt(0)};`);
const link = (address, content) => (LINKS.test(address)
  ? `<a href="${escaped(address)}" rel="noopener noreferrer" target="_blank">${content}</a>` : content);

// markup in the text stays text, a picture becomes a link to it: nothing is fetched for having been named
const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escaped(text),
    link({ href, tokens }) {
      return link(href, this.parser.parseInline(tokens));
    },
    image: ({ href, text }) => link(href, escaped(text || href)),
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + 2);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

/**
 * A text as Markdown, made safe. One that is very long, or that cannot be formatted, is shown as plain text.
 * @param {{text: string}} props
 */
export function Markdown({ text }) {
  const source = String(text ?? "");
  const made = useMemo(() => formatted(source), [source]);
  if (made === null) return html`<${LongText} value=${source} />`;
  return html`<div class="markdown foreign" dir="auto" dangerouslySetInnerHTML=${{ __html: made }} />`;
}

/** Null where it would take too long, or where marked gives up: it runs out of stack in what is nested deeply. */
function formatted(source) {
  if (source.length > LONGEST || source.match(RUNS)?.some((run) => run.length > LONGEST_RUN)) return null;
  try {
    return DOMPurify.sanitize(marked.parse(visible(source), { async: false }), ALLOWED);
  } catch {
    return null;
  }
}
