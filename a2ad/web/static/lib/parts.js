import { has, t } from "./i18n.js";
import { brief, bytes, plain, short, visible } from "./format.js";
import { Guard } from "./guard.js";
import { html, useState } from "./html.js";
import { Button } from "./controls.js";
import { Markdown } from "./markdown.js";
import { LongText, save, Text } from "./text.js";
import { Tree } from "./tree.js";

/** What a browser draws and never runs. */
const PICTURES = /^image\/(png|jpeg|gif|webp|avif|bmp)$/i;
/** A picture that is larger is a file like any other, in characters of base64. */
const LARGEST_PICTURE = 12_000_000;
/** While a text is still coming, one that is longer is shown by its end alone: to format all of it anew takes too long. */
const LONGEST_FORMATTED = 8000;
const END = 4000;
/** A text of another kind than these is set as it is. */
const FORMATTED = /^text\/(plain|markdown|x-markdown)\b/i;
const ADDRESS = /^https?:\/\//i;
/** Parts of one artifact that are shown at first. */
const FIRST = 50;

/**
 * The parts of a message or an artifact: text as Markdown, data as a tree, pictures, files and links. Nothing is fetched.
 * @param {{parts: object[], live?: boolean}} props A2A parts; `live` while more of them is coming
 */
export function Parts({ parts, live = false }) {
  const [limit, setLimit] = useState(FIRST);
  const shown = parts.slice(0, limit);
  return html`<div class="parts">
    ${shown.map((part, i) => html`<${Part} key=${i} part=${part} live=${live && i === parts.length - 1} />`)}
    ${parts.length > limit && html`<${Button} small onClick=${() => setLimit(limit * 4)}>${t("tree.more", { n: parts.length - limit })}</${Button}>`}
  </div>`;
}

function Part({ part, live }) {
  if (typeof part.text === "string") return html`<${Said} text=${part.text} type=${part.mediaType} live=${live} />`;
  if (typeof part.raw === "string") return html`<${Attached} part=${part} />`;
  if (typeof part.url === "string") return html`<${Elsewhere} part=${part} />`;
  return html`<${Tree} value=${part.data} />`;
}

function Said({ text, type, live }) {
  if (live && text.length > LONGEST_FORMATTED) {
    return html`<pre class="foreign prose" dir="auto">…${visible(text.slice(-END).replace(/^[\udc00-\udfff]/, ""))}</pre>`;
  }
  if (type && !FORMATTED.test(type)) return html`<${LongText} code value=${text} />`;
  return html`<${Markdown} text=${text} />`;
}

function Attached({ part }) {
  const [broken, setBroken] = useState(false);
  const type = plain(part.mediaType);
  if (broken || !PICTURES.test(type) || part.raw.length > LARGEST_PICTURE) return html`<${File} part=${part} type=${type} />`;
  return html`<figure class="picture">
    <img src="data:${type};base64,${part.raw}" alt=${short(part.filename ?? t("parts.picture"))} decoding="async"
      onError=${() => setBroken(true)} />
    <figcaption><${File} part=${part} type=${type} /></figcaption></figure>`;
}

function File({ part, type }) {
  const name = part.filename || t("parts.unnamed");
  const size = bytes(sizeOf(part.raw));
  return html`<span class="file"><${Text} value=${name} class="file-name" />
    <span class="muted">${type && html`<${Text} value=${type} /> · `}${size}</span>
    <${Button} small onClick=${() => save(decoded(part.raw), brief(name))} aria-label=${t("parts.save", { name: brief(name), size })}>
      ${t("parts.save.short")}</${Button}></span>`;
}

function Elsewhere({ part }) {
  const name = part.filename || part.url;
  const address = html`<${Text} value=${name} class="file-name" />`;
  return html`<span class="file">${ADDRESS.test(part.url)
    ? html`<a href=${part.url} rel="noopener noreferrer" target="_blank">${address}</a>` : address}
    <span class="muted">${part.mediaType && html`<${Text} value=${part.mediaType} /> · `}${part.filename
      ? html`<${Text} value=${part.url} class="mono" />` : t("parts.elsewhere")}</span></span>`;
}

/**
 * One artifact with its name, or a tool call in a line.
 * @param {{artifact: {artifactId: string, name?: string, description?: string, parts: object[]}, live?: boolean,
 *   plain?: boolean}} props `plain` leaves the name out where the artifact has none of its own
 */
export const Artifact = (props) => html`<${Guard}><${Delivered} ...${props} /></${Guard}>`;

function Delivered({ artifact, live = false, plain: isPlain = false }) {
  const call = toolCall(artifact);
  if (call) return html`<${Called} call=${call} id=${artifact.artifactId} />`;
  const named = artifact.name || !isPlain;
  return html`<section class="artifact ${named ? "named" : ""}" data-artifact=${artifact.artifactId}>
    ${named && html`<h3><${Text} value=${artifact.name || artifact.artifactId} class="one-line" /></h3>`}
    ${artifact.description && html`<p class="muted"><${Text} value=${artifact.description} class="one-line" /></p>`}
    <${Parts} parts=${artifact.parts} live=${live} />
  </section>`;
}

/** What a `tool-call-*` artifact says of a tool call; null where it is none. @param {object} artifact */
export function toolCall({ artifactId, parts }) {
  const data = parts.length === 1 ? parts[0].data : null;
  return String(artifactId).startsWith("tool-call-") && typeof data?.name === "string" ? data : null;
}

function Called({ call, id }) {
  const [open, setOpen] = useState(false);
  const status = short(call.status);
  const known = `parts.call.${status}`;
  return html`<details class="tool-call" data-artifact=${id} data-status=${status} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary><span class="muted">${t("parts.call")}</span> <${Text} value=${call.name} class="mono" />
      <span class="tag ${status === "failed" ? "bad" : ""}">${has(known) ? t(known) : status}</span></summary>
    ${open && html`<div class="tool-call-body">
      <h4>${t("parts.call.arguments")}</h4><${Value} value=${call.arguments} />
      ${call.result != null && html`<h4>${t("parts.call.result")}</h4><${Value} value=${call.result} />`}</div>`}
  </details>`;
}

const Value = ({ value }) => (typeof value === "string"
  ? html`<${LongText} value=${value} first=${1000} />` : html`<${Tree} value=${value} open=${1} />`);

/** The text parts as one text. @param {object[]} parts @returns {string} */
export const textOf = (parts) =>
  parts.filter((part) => typeof part.text === "string").map((part) => part.text).join("\n\n");

const sizeOf = (base64) => Math.floor((base64.replace(/=+$/, "").length * 3) / 4);

function decoded(base64) {
  const text = atob(base64.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (each) => each.charCodeAt(0));
}
