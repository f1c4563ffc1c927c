import { useEffect, useState } from "../vendor/hooks.js";
import en from "./en.js";
import zh from "./zh.js";

const STORED = "a2ad.language";
const STRINGS = { en, zh };
/** The languages there are, by their own names. */
export const LANGUAGES = { en: "English", zh: "中文" };
const TAGS = { en: "en", zh: "zh-CN" };
const listeners = new Set();
let language = initial();
apply();

function initial() {
  const stored = remembered(STORED);
  if (stored in STRINGS) return stored;
  for (const wanted of navigator.languages ?? [navigator.language]) {
    const short = wanted.toLowerCase().split("-")[0];
    if (short in STRINGS) return short;
  }
  return "en";
}

function apply() {
  document.documentElement.lang = TAGS[language];
}

/** What was stored in this browser; empty where nothing was, or nothing may be. @param {string} key */
export function remembered(key) {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** Store a choice in this browser, where that may be. @param {string} key @param {string} value */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // it holds until the page is left
  }
}

/** The language as a BCP 47 tag, for `Intl`. */
export const locale = () => TAGS[language];

const formats = new Map();

/**
 * A formatter of `Intl` for the language chosen. To make one takes far longer than to use it: each is made once.
 * @template T
 * @param {new (locale: string, options: object) => T} kind such as `Intl.NumberFormat`
 * @param {object} [options]
 * @returns {T}
 */
export function format(kind, options = {}) {
  const key = `${kind.name} ${language} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new kind(locale(), options));
  return formats.get(key);
}

/** @returns {"en" | "zh"} */
export const currentLanguage = () => language;

/** Choose the language, for now and the next time. @param {"en" | "zh"} chosen */
export function setLanguage(chosen) {
  language = chosen;
  remember(STORED, chosen);
  apply();
  for (const listener of listeners) listener(chosen);
}

/** Renders its component anew when the language changes. @returns {"en" | "zh"} */
export function useLanguage() {
  const [chosen, setChosen] = useState(language);
  useEffect(() => {
    listeners.add(setChosen);
    return () => listeners.delete(setChosen);
  }, []);
  return chosen;
}

/**
 * A text in the language chosen. `{name}` in it is `params.name`; with a number `params.n`, the keys `key.one` and
 * `key.other` go before `key`, as the language counts.
 * @param {string} key
 * @param {Record<string, unknown>} [params]
 * @returns {string}
 */
export function t(key, params = {}) {
  return pattern(key, params).replace(/\{(\w+)\}/g, (whole, name) => (name in params ? shown(params[name]) : whole));
}

/**
 * As {@link t}, with elements as parameters.
 * @param {string} key
 * @param {Record<string, unknown>} params
 * @returns {unknown[]} children for an element
 */
export function tx(key, params) {
  return pattern(key, params).split(/(\{\w+\})/).map((piece) => {
    const name = /^\{(\w+)\}$/.exec(piece)?.[1];
    return name !== undefined && name in params ? params[name] : piece;
  });
}

/** Whether there is such a text. @param {string} key */
export const has = (key) => key in STRINGS[language];

function pattern(key, params) {
  const strings = STRINGS[language];
  if (typeof params.n === "number") {
    const counted = strings[`${key}.${format(Intl.PluralRules).select(params.n)}`] ?? strings[`${key}.other`];
    if (counted !== undefined) return counted;
  }
  return strings[key] ?? STRINGS.en[key] ?? key;
}

const shown = (value) => (typeof value === "number" ? format(Intl.NumberFormat).format(value) : String(value));
