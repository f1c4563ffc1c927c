import { t, has } from "./i18n.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { short as bounded, shortState } from "./format.js";

/** How long "copied" is shown, in milliseconds. */
const COPIED = 1600;
const TONES = {
  WORKING: "active", connecting: "active", busy: "active", COMPLETED: "good", connected: "good", loaded: "good",
  ok: "good", serving: "good", FAILED: "bad", REJECTED: "bad", error: "bad", failed: "bad", INPUT_REQUIRED: "waiting",
  AUTH_REQUIRED: "waiting", degraded: "bad", stopping: "waiting",
};
const PATHS = {
  overview: "M3 11.5 12 4l9 7.5M6 10v9.5h4.5V14h3v5.5H18V10",
  inbound: "M4 12h11m-4-4.5 4.5 4.5-4.5 4.5M14 4h4.5A1.5 1.5 0 0 1 20 5.5v13a1.5 1.5 0 0 1-1.5 1.5H14",
  outbound: "M20 12H9m7-4.5 4.5 4.5-4.5 4.5M10 4H5.5A1.5 1.5 0 0 0 4 5.5v13A1.5 1.5 0 0 0 5.5 20H10",
  tasks: "M9 6.5h11M9 12h11M9 17.5h11M4 6.5l1 1 1.8-2M4 12l1 1 1.8-2M4 17.5l1 1 1.8-2",
  sessions: "M4 6.5A1.5 1.5 0 0 1 5.5 5h9A1.5 1.5 0 0 1 16 6.5v5a1.5 1.5 0 0 1-1.5 1.5H9l-3.5 3v-3A1.5 1.5 0 0 1 4 11.5z"
    + "M19 9.5a1.5 1.5 0 0 1 1.5 1.5v4.5a1.5 1.5 0 0 1-1.5 1.5v2.5L16 17h-3.5",
  copy: "M9 9h9.5v10.5H9zM6 15H5V4.5h9.5V6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  warning: "M12 4.5 21 19.5H3zM12 10.5v4M12 17.2v.1",
  close: "M6 6l12 12M18 6 6 18",
};

/** A drawing that says nothing by itself. @param {{name: keyof typeof PATHS}} props */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

const still = (event) => event.preventDefault();

/**
 * A button. While `busy` it cannot be pressed and says so, and keeps the focus.
 * @param {{kind?: "plain" | "primary" | "danger" | "quiet", busy?: boolean, disabled?: boolean, type?: string,
 *   small?: boolean, onClick?: (event: Event) => void, children?: unknown}} props others go to the element
 */
export function Button({ kind = "plain", busy = false, disabled = false, type = "button", small = false, onClick,
  children, class: more = "", ...rest }) {
  return html`<button ...${rest} type=${type} disabled=${disabled} aria-disabled=${busy ? "true" : undefined} onClick=${busy ? still : onClick} aria-busy=${busy ? "true" : undefined}
    class="button ${kind} ${small ? "small" : ""} ${busy ? "busy" : ""} ${more}"><span class="button-text">${children}</span></button>`;
}

/** A link that looks like a button. @param {{href: string, kind?: string, small?: boolean, children?: unknown}} props */
export function LinkButton({ kind = "plain", small = false, children, ...rest }) {
  return html`<a ...${rest} class="button ${kind} ${small ? "small" : ""}"><span class="button-text">${children}</span></a>`;
}

/**
 * A state, by word and colour: `TASK_STATE_*`, `connected`, `busy`, `serving` …
 * @param {{value: string}} props
 */
export function State({ value }) {
  const short = shortState(value);
  const text = has(`state.${short}`) ? t(`state.${short}`) : bounded(short);
  return html`<span class="state ${Object.hasOwn(TONES, short) ? TONES[short] : "neutral"}" data-state=${bounded(value)}>${text}</span>`;
}

/**
 * A button that copies a text.
 * @param {{text: string, label?: string}} props `label` says what is copied
 */
export function Copy({ text, label = t("copy.text") }) {
  const [copied, setCopied] = useState(false);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const onClick = async () => {
    setCopied(await copy(text));
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setCopied(false), COPIED);
  };
  return html`<button type="button" class="copy ${copied ? "copied" : ""}" onClick=${onClick} title=${label}>
    <${Icon} name=${copied ? "check" : "copy"} /><span class="sr-only" role="status">${copied ? t("copy.done") : ""}</span>
    <span class="sr-only">${label}</span></button>`;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
