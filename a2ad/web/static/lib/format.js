import { format, t } from "./i18n.js";

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const BYTE_UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"];
/**
 * Controls, overrides of the direction, what is invisible: what could make a text look like another one. The joiners and
 * U+FE0F belong to scripts and pictures.
 */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f]|[\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/gu;

/**
 * Whatever JSON has where a text is expected, as a text: an object may not be turned into one.
 * @param {unknown} value @returns {string}
 */
export function plain(value) {
  if (value === null || typeof value !== "object") return String(value ?? "");
  return Array.isArray(value) ? "[…]" : "{…}";
}

/**
 * A text of somebody else's, with what is hidden in it shown as `⟨U+202E⟩`. Line ends and tabs stay.
 * @param {unknown} text
 * @returns {string}
 */
export function visible(text) {
  return plain(text).replaceAll("\r\n", "\n").replace(HIDDEN, (found) => {
    const code = found.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/**
 * The beginning of a text, which never ends within a character.
 * @param {string} text @param {number} length in UTF-16 units
 */
export function beginning(text, length) {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/** Of a name, a description or an address, what is drawn at most, in characters: those that are taken are no longer. */
const SHORT = 10_000;

/** A short text of somebody else's, as {@link visible}; one that is none is cut. @param {unknown} value @returns {string} */
export function short(value) {
  const text = plain(value);
  return text.length > SHORT ? `${visible(beginning(text, SHORT))}…` : visible(text);
}

/** Of a name within a sentence or a list of options, in characters. */
const NAME = 80;

/** A name of somebody else's as far as it fits into a sentence. @param {string} name @returns {string} */
export function brief(name) {
  const text = plain(name);
  return `${visible(beginning(text, NAME))}${text.length > NAME ? "…" : ""}`;
}

/** `3 minutes ago`. @param {string} iso @param {number} [now] in milliseconds */
export function relativeTime(iso, now = Date.now()) {
  const seconds = Math.round((dateOf(iso) - now) / 1000);
  if (!Number.isFinite(seconds)) return short(iso);
  if (Math.abs(seconds) < 5) return t("time.now");
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each);
  return format(Intl.RelativeTimeFormat, { numeric: "auto", style: "short" }).format(
    Math.trunc(seconds / size), unit);
}

/** Date and time to the second, with the zone. @param {string} iso */
export function exactTime(iso) {
  const date = dateOf(iso);
  if (Number.isNaN(date.getTime())) return short(iso);
  return format(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "long" }).format(date);
}

/** Hour and minute. @param {string} iso */
export function clockTime(iso) {
  const date = dateOf(iso);
  return Number.isNaN(date.getTime()) ? short(iso) : format(Intl.DateTimeFormat, { hour: "2-digit", minute: "2-digit" }).format(date);
}

const dateOf = (iso) => new Date(typeof iso === "string" || typeof iso === "number" ? iso : NaN);

/** `340 ms`, `12.5 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`. @param {number} milliseconds */
export function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) return short(milliseconds);
  const seconds = milliseconds / 1000;
  if (seconds < 1) return unit(Math.round(milliseconds), "millisecond");
  if (seconds < 60) return unit(seconds, "second", seconds < 10 ? 1 : 0);
  const [large, small] = seconds < 3600 ? [["minute", 60], ["second", 1]]
    : seconds < 86400 ? [["hour", 3600], ["minute", 60]] : [["day", 86400], ["hour", 3600]];
  const whole = Math.floor(seconds / large[1]);
  const rest = Math.floor((seconds % large[1]) / small[1]);
  return rest ? `${unit(whole, large[0])} ${unit(rest, small[0])}` : unit(whole, large[0]);
}

/** `1.4 MB`. @param {number} count */
export function bytes(count) {
  if (!Number.isFinite(count)) return short(count);
  const power = Math.min(BYTE_UNITS.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3));
  return unit(count / 1000 ** power, BYTE_UNITS[power], power ? 1 : 0);
}

/** @param {number} value */
export const number = (value) => typeof value !== "number" ? short(value) : format(Intl.NumberFormat).format(value);

function unit(value, name, digits = 0) {
  return format(Intl.NumberFormat, {
    style: "unit", unit: name, unitDisplay: name === "byte" ? "long" : "short", maximumFractionDigits: digits,
  }).format(value);
}

/** A state's name without its prefix: `WORKING`, `connected`. @param {string} state */
export const shortState = (state) => plain(state).replace(/^TASK_STATE_/, "");

/** A long id's end, for those of one minute begin alike; the whole belongs into a title. @param {string} id */
export function shortId(id) {
  const text = plain(id);
  return text.length > 14 ? `…${text.slice(-8).replace(/^[\udc00-\udfff]/, "")}` : text;
}
