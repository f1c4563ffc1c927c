import { useEffect, useLayoutEffect, useReducer, useRef } from "../lib/html.js";

/**
 * Rows that stay as they are while a text in them is being selected, and catch up afterwards.
 * @param {object[]} rows
 * @param {{current: Element | null}} element where they are shown
 * @param {string} key of what is shown: another one is shown at once
 * @returns {object[]}
 */
export function useSteady(rows, element, key) {
  const [, again] = useReducer((n) => n + 1, 0);
  const shown = useRef({ rows, key });
  const late = useRef(false);
  late.current = shown.current.key === key && shown.current.rows !== rows && isSelecting(element.current);
  if (!late.current) shown.current = { rows, key };
  useEffect(() => {
    const changed = () => late.current && !isSelecting(element.current) && again();
    document.addEventListener("selectionchange", changed);
    return () => document.removeEventListener("selectionchange", changed);
  }, []);
  return shown.current.rows;
}

function isSelecting(element) {
  const selection = getSelection();
  return Boolean(element && selection && !selection.isCollapsed && element.contains(selection.anchorNode));
}

/**
 * Keeps the focus where it is when rows change places: an element that is moved loses it. Where its row has gone, the
 * focus goes to what holds the rows.
 * @param {{current: HTMLElement | null}} element of the rows, with a `tabindex`
 */
export function useFocusKept(element) {
  const focused = element.current?.contains(document.activeElement) ? document.activeElement : null;
  useLayoutEffect(() => {
    if (!focused || focused === document.activeElement) return;
    (focused.isConnected ? focused : element.current)?.focus({ preventScroll: true });
  });
}
