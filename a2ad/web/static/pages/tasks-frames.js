/** Of a task's messages, the newest that are kept while it is followed. */
const MESSAGES = 1000;

/**
 * A task after some more of its frames. Nothing of the task that is given changes; it is copied once, however many the
 * frames are.
 * @param {object} task as `GET /a2a/api/task` has it
 * @param {{task?: object, statusUpdate?: object, artifactUpdate?: object}[]} frames A2A StreamResponses
 * @returns {object} an artifact that more may be added to has `open: true`
 */
export function withFrames(task, frames) {
  const taken = new Taken(task);
  for (const frame of frames) taken.take(frame);
  return taken.task();
}

class Taken {
  #task;
  #artifacts;
  #history;
  #known;
  /** Artifacts whose parts are copies. */
  #own = new Set();

  constructor(task) {
    this.#begin(task);
  }

  #begin(task) {
    this.#task = { ...task };
    this.#artifacts = new Map((task.artifacts ?? []).map((each) => [each.artifactId, each]));
    this.#history = [...(task.history ?? [])];
    this.#known = new Set(this.#history.map((each) => each.messageId));
  }

  task() {
    return { ...this.#task, artifacts: [...this.#artifacts.values()], history: this.#history.slice(-MESSAGES) };
  }

  take({ task, statusUpdate, artifactUpdate }) {
    if (artifactUpdate) this.#add(artifactUpdate);
    else if (statusUpdate) this.#turn(statusUpdate);
    else if (task) {
      const { status, artifacts = [], history = this.#history, metadata = this.#task.metadata } = task;
      this.#begin({ ...this.#task, status, state: status.state, artifacts, history, metadata });
    }
  }

  #turn({ status, metadata }) {
    const { message } = status;
    if (message && !this.#known.has(message.messageId)) {
      this.#known.add(message.messageId);
      this.#history.push(message);
    }
    Object.assign(this.#task, { status, state: status.state });
    if (metadata) this.#task.metadata = { ...this.#task.metadata, ...metadata };
  }

  #add({ artifact, append = false, lastChunk = false }) {
    const { artifactId, parts = [] } = artifact;
    const before = append ? this.#artifacts.get(artifactId) : undefined;
    if (before && this.#own.has(before)) {
      join(before.parts, parts);
      before.open = !lastChunk;
      return;
    }
    const whole = { ...(before ?? artifact), parts: [...(before?.parts ?? [])], open: append && !lastChunk };
    join(whole.parts, parts);
    this.#own.add(whole);
    this.#artifacts.set(artifactId, whole);
  }
}

/** Streamed text comes in pieces: neighbours are one text. */
function join(parts, more) {
  for (const part of more) {
    const last = parts.at(-1);
    if (isPlain(part) && isPlain(last)) parts[parts.length - 1] = { text: last.text + part.text };
    else parts.push(part);
  }
}

const isPlain = (part) => typeof part?.text === "string" && Object.keys(part).length === 1;
