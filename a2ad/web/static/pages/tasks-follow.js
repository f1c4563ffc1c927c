import { follow, get } from "../lib/api.js";
import { useEffect, useState } from "../lib/html.js";
import { withFrame } from "./tasks-frames.js";

/** How long after a break the next attempt is made, and how often what has come is shown, in milliseconds. */
const RETRY = 2000;
const SHOWN = 100;
const TERMINAL = new Set(["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"]);

/** Whether nothing will change it any more. @param {{state: string}} task */
export const hasEnded = ({ state }) => TERMINAL.has(state);

/**
 * A task as it is, and as it goes on.
 * @param {string} id
 * @returns {{task: object | null, missing: boolean, error: Error | null, look: () => void}} `task` is as `GET /task` has
 * it, null until it is there; its `timeline` goes on with what comes while it is followed. `missing` where there is no such task, or no more. `look` reads it again
 */
export function useTask(id) {
  const [state, setState] = useState({ task: null, missing: false, error: null });
  const [follower] = useState(() => new Follower(id, setState));
  useEffect(() => {
    const turn = () => (document.hidden ? follower.stop() : follower.start());
    turn();
    // a browser has six connections to a host: a page that nobody looks at gives its one back
    document.addEventListener("visibilitychange", turn);
    return () => {
      document.removeEventListener("visibilitychange", turn);
      follower.stop();
    };
  }, [follower]);
  return { ...state, look: () => follower.look() };
}

class Follower {
  #id;
  #tell;
  #state = { task: null, missing: false, error: null };
  #timer = 0;
  #controller = null;

  constructor(id, tell) {
    this.#id = id;
    this.#tell = tell;
  }

  start() {
    this.stop();
    this.#controller = new AbortController();
    this.#run(this.#controller.signal);
  }

  stop() {
    this.#controller?.abort();
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  /** Read what its frames do not tell: what was answered, its times; and whether it is still there. */
  async look() {
    const signal = this.#controller.signal;
    try {
      const { artifacts: _, timeline, ...rest } = await this.#read(signal);
      const task = this.#state.task;
      this.#set({ task: { ...task, ...rest, timeline: merged(task.timeline, timeline) } });
    } catch (error) {
      if (error.status === 404 && !signal.aborted) this.#set({ missing: true });
    }
  }

  async #run(signal) {
    while (!signal.aborted && !this.#state.missing) {
      try {
        const task = await this.#read(signal);
        const known = this.#state.task?.timeline ?? [];
        this.#set({ task: { ...task, timeline: merged(known, task.timeline) }, error: null });
        if (hasEnded(task)) return;
        await this.#follow(signal);
        if (hasEnded(this.#state.task)) continue;
      } catch (error) {
        if (signal.aborted) return;
        this.#set(error.status === 404 ? { missing: true } : { error });
      }
      await pause(RETRY, signal);
    }
  }

  #read(signal) {
    return get("/task", { id: this.#id }, { signal });
  }

  async #follow(signal) {
    const lastEventId = String(lastFrame(this.#state.task));
    for await (const { event, id, data } of follow("/task/events", { id: this.#id }, { signal, lastEventId })) {
      if (event === "frame") this.#take(Number(id), data);
      if (event === "end") return;
    }
  }

  #take(frame, data) {
    const before = this.#state.task;
    if (data.statusUpdate && frame <= lastFrame(before)) return;
    const task = withFrame(before, data);
    this.#set({ task: { ...task, timeline: withStep(before.timeline, frame, data) } }, SHOWN);
    // a question, an answer or an end: there is more to it than the frame
    if (data.statusUpdate && task.state !== before.state) this.look();
  }

  #set(change, delay = 0) {
    this.#state = { ...this.#state, ...change };
    if (!delay) {
      clearTimeout(this.#timer);
      this.#timer = 0;
      this.#tell(this.#state);
    } else if (!this.#timer) {
      this.#timer = setTimeout(() => {
        this.#timer = 0;
        this.#tell(this.#state);
      }, delay);
    }
  }
}

/** The newest status that is known of: frames up to it are told already. */
const lastFrame = (task) => task.timeline.reduce((last, step) => Math.max(last, step.frame ?? 1), 1);

function withStep(timeline, frame, { statusUpdate, artifactUpdate }) {
  if (statusUpdate) return [...timeline, stepOf(frame, statusUpdate.status)];
  if (!artifactUpdate) return timeline;
  const { artifactId, name } = artifactUpdate.artifact;
  const until = new Date().toISOString();
  const known = timeline.findIndex((step) => step.artifactId === artifactId);
  if (known >= 0) return timeline.with(known, { ...timeline[known], until });
  return [...timeline, { kind: "artifact", at: until, artifactId, ...(name ? { name } : {}), until }];
}

function stepOf(frame, { timestamp, state, message }) {
  const text = (message?.parts ?? []).map((part) => part.text).filter(Boolean).join("\n");
  return { kind: "status", frame, at: timestamp, state, ...(text ? { message: text } : {}) };
}

/** What tells one step of a timeline from another. @param {object} step @returns {string} */
export const keyOf = ({ kind, frame, artifactId }) => `${kind} ${artifactId ?? frame ?? ""}`;

/** What was read, and around it what it does not have: what is older than it reaches back, and what came meanwhile. */
function merged(known, [created, ...read]) {
  const there = new Set(read.map(keyOf));
  const isThere = (step) => there.has(keyOf(step));
  const rest = known.filter(({ kind }) => kind !== "created");
  const first = rest.findIndex(isThere);
  const [older, newer] = first < 0 ? [rest, []] : [rest.slice(0, first), rest.slice(first)];
  return [created, ...older, ...read, ...newer.filter((step) => !isThere(step))];
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
