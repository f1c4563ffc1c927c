import { follow, get } from "../lib/api.js";
import { useEffect, useState } from "../lib/html.js";
import { withFrames } from "./tasks-frames.js";

/** How long after a break the next attempt is made, and how often what has come is shown, in milliseconds. */
const RETRY = 2000;
const SHOWN = 100;
/** Of a timeline's entries, the newest that are kept beside its first one. */
const STEPS = 200;
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
  /** What has come and is not in the task yet, and the newest status of all: statuses up to it are told already. */
  #frames = [];
  #last = 1;

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
      this.#absorb();
      this.#last = newest(timeline, this.#last);
      const task = this.#state.task;
      this.#set({ task: bounded({ ...task, ...rest, timeline: merged(task.timeline, timeline) }) });
    } catch (error) {
      if (error.status === 404 && !signal.aborted) this.#set({ missing: true });
    }
  }

  async #run(signal) {
    while (!signal.aborted && !this.#state.missing) {
      try {
        const task = await this.#read(signal);
        this.#absorb();
        this.#last = newest(task.timeline, this.#last);
        const { timeline = [], left } = this.#state.task ?? {};
        this.#set({ task: bounded({ ...task, left, timeline: merged(timeline, task.timeline) }), error: null });
        if (hasEnded(task)) return;
        await this.#follow(signal);
        this.#absorb();
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
    const lastEventId = String(this.#last);
    for await (const { event, id, data } of follow("/task/events", { id: this.#id }, { signal, lastEventId })) {
      if (event === "frame") this.#take(Number(id), data);
      if (event === "end") return;
    }
  }

  #take(frame, data) {
    if (data.statusUpdate && frame <= this.#last) return;
    if (data.statusUpdate) this.#last = frame;
    this.#frames.push({ frame, data });
    this.#timer ||= setTimeout(() => this.#show(), SHOWN);
  }

  #show() {
    this.#timer = 0;
    const { state } = this.#state.task;
    this.#absorb();
    this.#tell(this.#state);
    // a question, an answer or an end: there is more to it than the frame
    if (this.#state.task.state !== state) this.look();
  }

  /** Put what has come into the task. */
  #absorb() {
    if (!this.#frames.length) return;
    const { task } = this.#state;
    const { timeline, left } = withSteps(task, this.#frames);
    const after = withFrames(task, this.#frames.map(({ data }) => data));
    this.#frames = [];
    this.#state = { ...this.#state, task: { ...after, timeline, left } };
  }

  #set(change) {
    this.#state = { ...this.#state, ...change };
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#tell(this.#state);
  }
}

/** The newest status that a timeline has, where it is newer than the one that is known. */
const newest = (timeline, known) => timeline.reduce((last, step) => Math.max(last, step.frame ?? 1), known);

function withSteps(task, frames) {
  let after = { timeline: [...task.timeline], left: task.left };
  for (const { frame, data } of frames) {
    addStep(after.timeline, frame, data);
    if (after.timeline.length > 2 * STEPS) after = bounded(after);
  }
  return bounded(after);
}

function addStep(timeline, frame, { statusUpdate, artifactUpdate }) {
  if (statusUpdate) timeline.push(stepOf(frame, statusUpdate.status));
  if (!artifactUpdate) return;
  const { artifactId, name } = artifactUpdate.artifact;
  const until = new Date().toISOString();
  const known = timeline.findIndex((step) => step.artifactId === artifactId);
  if (known >= 0) timeline[known] = { ...timeline[known], until };
  else timeline.push({ kind: "artifact", at: until, artifactId, ...(name ? { name } : {}), until });
}

function stepOf(frame, { timestamp, state, message }) {
  const text = (message?.parts ?? []).map((part) => part.text).filter(Boolean).join("\n");
  return { kind: "status", frame, at: timestamp, state, ...(text ? { message: text } : {}) };
}

/** Its first step and the newest; `left` is how many there were between them. */
function bounded(task) {
  const { timeline, left = 0 } = task;
  const over = timeline.length - 1 - STEPS;
  if (over <= 0) return { ...task, left };
  return { ...task, left: left + over, timeline: [timeline[0], ...timeline.slice(-STEPS)] };
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
