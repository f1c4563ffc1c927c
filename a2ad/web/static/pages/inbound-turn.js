import { shortState } from "../lib/format.js";
import { textOf } from "../lib/parts.js";

/** Statuses that are kept of a turn. */
const NOTES = 200;
const ENDED = new Set(["COMPLETED", "FAILED", "CANCELED", "REJECTED"]);
const WAITING = new Set(["INPUT_REQUIRED", "AUTH_REQUIRED"]);

/** A text in pieces that were appended: a part like others, whose text is joined as it grows. */
const isPlain = (part) => typeof part?.text === "string" && Object.keys(part).length === 1;

/**
 * What was sent, and what came of it so far: the frames of one stream, put together. `phase` is `sending` until there is
 * a task, then `running`, and at last `rest` (the task has ended or waits), `lost` (the daemon has gone away) or `failed`
 * (there is an error).
 */
export class Turn {
  /** @param {string} text what was sent @param {{id: string} | null} continued the task that it answers */
  constructor(text, continued) {
    this.text = text;
    this.continued = Boolean(continued);
    this.taskId = continued?.id ?? "";
    this.contextId = "";
    this.answered = false;
    this.state = "";
    this.phase = "sending";
    this.error = null;
    this.reply = null;
    this.status = null;
    this.notes = [];
    this.noteCount = 0;
    this.artifacts = new Map();
    this.version = 0;
    this.controller = new AbortController();
  }

  /** Whether the task waits for an answer, and this turn is where it is given. */
  get waiting() {
    return this.phase !== "failed" && !this.answered && WAITING.has(this.state);
  }

  get ended() {
    return this.reply !== null || ENDED.has(this.state);
  }

  get busy() {
    return this.phase === "sending" || this.phase === "running" || this.phase === "lost";
  }

  /** What the task asks, or has asked where it is answered: `{parts, options, deadline?, tool?}`. */
  get question() {
    return this.waiting || this.answered ? questionOf(this.status?.message?.parts ?? []) : null;
  }

  /** The texts that came, as one. */
  get answer() {
    const parts = this.reply ? this.reply.parts : [...this.artifacts.values()].flatMap((each) => each.parts);
    return textOf(parts);
  }

  /**
   * Take in one frame. @param {{task?: object, statusUpdate?: object, artifactUpdate?: object, message?: object}} frame
   * @param {{whole?: boolean}} [options] `whole`: a task in it has all that there is, whatever came before
   */
  apply({ task, statusUpdate, artifactUpdate, message }, { whole = false } = {}) {
    if (task) this.#take(task, whole);
    else if (statusUpdate) this.#note(statusUpdate.status);
    else if (artifactUpdate) this.#add(artifactUpdate);
    else if (message) this.reply = message;
    if (this.phase === "sending" && this.taskId) this.phase = "running";
  }

  #take(task, whole) {
    this.taskId = task.id;
    this.contextId = task.contextId;
    this.state = shortState(task.status.state);
    this.status = task.status;
    // what a task had before it was answered stands with the turn before
    if (this.continued && !whole) return;
    this.artifacts = new Map((task.artifacts ?? []).map((each) => [each.artifactId, { ...each, parts: [...each.parts], closed: true }]));
  }

  #note(status) {
    this.state = shortState(status.state);
    this.status = status;
    this.noteCount += 1;
    this.notes.push(status);
    if (this.notes.length > NOTES) this.notes.shift();
  }

  #add({ artifact, append = false, lastChunk = false }) {
    const known = append ? this.artifacts.get(artifact.artifactId) : undefined;
    if (!known) {
      this.artifacts.set(artifact.artifactId, { ...artifact, parts: [...(artifact.parts ?? [])], closed: !append && lastChunk });
      return;
    }
    for (const part of artifact.parts ?? []) {
      const last = known.parts.at(-1);
      if (isPlain(part) && isPlain(last)) known.parts[known.parts.length - 1] = { text: last.text + part.text };
      else known.parts.push(part);
    }
    known.closed = lastChunk;
  }
}

/** As the daemon reads it of a status (`question_of` of its engine). @param {object[]} parts */
function questionOf(parts) {
  const asked = parts.map((part) => part.data).find((data) => typeof data?.question === "string" && Array.isArray(data.options));
  if (!asked) return { parts, options: [] };
  return { ...asked, parts: [{ text: asked.question }], options: asked.options.filter((each) => typeof (each?.id ?? each?.name) === "string") };
}
