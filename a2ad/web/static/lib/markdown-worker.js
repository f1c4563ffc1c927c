/** Formats Markdown beside the page: for some texts marked takes minutes, and the page ends this worker then. */
import { Marked } from "../vendor/marked.js";

/** What is larger would hold the page up where it is drawn: characters of HTML, and tags. */
const LONGEST = 400_000;
const TAGS = 5000;
const LINKS = /^(https?:|mailto:)/i;
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

/** Null where it is too much to draw, or where marked gives up: it runs out of stack in what is nested deeply. */
function formatted(text) {
  try {
    const made = marked.parse(text, { async: false });
    const tags = made.split("<").length;
    return made.length > LONGEST || tags > TAGS ? null : { html: made, tags };
  } catch {
    return null;
  }
}

addEventListener("message", ({ data }) => postMessage({ made: formatted(data) }));
postMessage({ ready: true });
