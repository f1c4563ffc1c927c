import { useEffect, useState } from "../vendor/hooks.js";

/** The first one is where the panel opens. */
export const PAGES = ["overview", "inbound", "outbound", "tasks", "sessions"];

/**
 * The address of a page.
 * @param {string} page
 * @param {string} [id] of one thing on it
 * @param {Record<string, unknown>} [params] what is empty is left out
 * @returns {string} such as `#/tasks/1234?x=1`
 */
export function href(page, id = "", params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ""}${query.size ? `?${query}` : ""}`;
}

/**
 * Where the panel is now, from `location.hash`.
 * @returns {{page: string, id: string, params: Record<string, string>}}
 */
export function currentRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  const known = PAGES.includes(page);
  return {
    page: known ? page : PAGES[0],
    id: known ? decoded(rest.join("/")) : "",
    params: Object.fromEntries(new URLSearchParams(query ?? "")),
  };
}

/** {@link currentRoute}, rendered anew when it changes. */
export function useRoute() {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const changed = () => setRoute(currentRoute());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
