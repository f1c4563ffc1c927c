import { address, get } from "./api.js";
import { useEffect, useMemo, useState } from "../vendor/hooks.js";

/**
 * What is new, with every part that is as it was being the same object as before: what is drawn of it can stay.
 * @param {any} before @param {any} now of JSON
 */
function kept(before, now) {
  if (before === now || typeof now !== "object" || typeof before !== "object" || !now || !before) return now;
  if (Array.isArray(now)) return keptList(before, now);
  const names = Object.keys(now);
  let same = names.length === Object.keys(before).length;
  for (const name of names) {
    now[name] = kept(before[name], now[name]);
    same &&= name in before && now[name] === before[name];
  }
  return same ? before : now;
}

/** Rows change places: each is compared with the one of its id. */
function keptList(before, now) {
  if (!Array.isArray(before)) return now;
  const byId = new Map(before.map((each, i) => [each?.id ?? i, each]));
  const list = now.map((each, i) => kept(byId.get(each?.id ?? i), each));
  return list.length === before.length && list.every((each, i) => each === before[i]) ? before : list;
}

/** How long after an answer that was no stream the next attempt is made, in milliseconds. */
const RETRY = 2000;

/**
 * The newest snapshot, told to whoever listens. `status` is `connecting` until the first one is there, `live`, or
 * `offline` while the daemon does not answer; the snapshot from before stays then.
 */
class LiveStore {
  #source = null;
  #retry = 0;
  #listeners = new Set();
  #waiting = [];
  #key = "";
  state = { snapshot: null, key: null, status: "connecting" };

  constructor() {
    // a browser has six connections to a host: tabs that nobody looks at give theirs back
    document.addEventListener("visibilitychange", () => this.#open());
  }

  /** The page of tasks that the snapshots shall have. @param {Record<string, unknown>} params */
  ask(params) {
    const key = address("/events", params);
    if (key === this.#key) return;
    this.#key = key;
    this.#open();
  }

  /** @param {(state: object) => void} listener @returns {() => void} to stop */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * A snapshot now, after an action: the stream looks for changes once in a second only. A new stream begins with one;
   * read beside the stream it could be older than what that says next, or be undone unseen.
   */
  async refresh() {
    this.#open();
    if (this.#source) await new Promise((resolve) => this.#waiting.push(resolve));
  }

  #set(change) {
    this.state = { ...this.state, ...change };
    for (const listener of [...this.#listeners]) listener(this.state);
  }

  #close() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = null;
  }

  #told() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #open() {
    this.#close();
    if (!this.#key || document.hidden) return this.#told();
    const key = this.#key;
    const source = new EventSource(key);
    this.#source = source;
    source.addEventListener("open", () => this.#set({ status: this.state.snapshot ? "live" : this.state.status }));
    source.addEventListener("snapshot", (event) => {
      this.#set({ snapshot: kept(this.state.snapshot, JSON.parse(event.data)), key, status: "live" });
      this.#told();
    });
    source.addEventListener("error", () => {
      this.#set({ status: "offline" });
      this.#told();
      if (source.readyState === EventSource.CLOSED) this.#retry = setTimeout(() => this.#open(), RETRY);
    });
  }
}

/** The one store of the page. */
export const live = new LiveStore();

/**
 * The newest snapshot with a page of tasks of one's own.
 * @param {Record<string, unknown>} [params] `taskLimit`, `taskOffset`, `taskState`, `taskContextId`, `taskServerId`
 * @returns {{snapshot: object | null, tasks: object[] | null, taskTotal: number, status: string}} `tasks` is null until
 * those that were asked for are there
 */
export function useLive(params = {}) {
  const key = useMemo(() => address("/events", { taskLimit: 1, ...params }), [JSON.stringify(params)]);
  const [state, setState] = useState(live.state);
  useEffect(() => live.listen(setState), []);
  useEffect(() => live.ask({ taskLimit: 1, ...params }), [key]);
  const mine = state.key === key ? state.snapshot : null;
  return {
    snapshot: state.snapshot,
    tasks: mine?.tasks ?? null,
    taskTotal: mine?.taskTotal ?? 0,
    status: state.status,
  };
}

/** The newest snapshot and the connection's state, whatever the tasks in it. @returns {{snapshot: object | null, status: string}} */
export function useSnapshot() {
  const [state, setState] = useState(live.state);
  useEffect(() => live.listen(setState), []);
  return state;
}

/**
 * Something that is read again and again, while the page is looked at.
 * @param {string} path below `/a2a/api`
 * @param {number} milliseconds between two reads
 * @returns {any} null until it is there; what was read last while the daemon is gone
 */
export function usePolled(path, milliseconds) {
  const [value, setValue] = useState(null);
  useEffect(() => {
    const controller = new AbortController();
    const read = async () => {
      if (document.hidden || live.state.status === "offline") return;
      try {
        setValue(await get(path, {}, { signal: controller.signal }));
      } catch {
        // the next one may succeed
      }
    };
    read();
    const timer = setInterval(read, milliseconds);
    return () => {
      clearInterval(timer);
      controller.abort();
    };
  }, [path, milliseconds]);
  return value;
}
