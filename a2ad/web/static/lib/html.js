import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "../vendor/hooks.js";
export { render } from "../vendor/preact.js";

/** Elements from a template: `html\`<p class="x">${text}</p>\``. Values are text, never markup. */
export const html = htm.bind(h);

let last = 0;

/** An id that no other element has. @param {string} prefix */
export const uniqueId = (prefix) => `${prefix}-${++last}`;
