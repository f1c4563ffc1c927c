import { act, actStream, ApiError, follow } from "../lib/api.js";
import { explain } from "../lib/ui.js";
import { live } from "../lib/live.js";
import { Turn } from "./inbound-turn.js";
import { Wire } from "./inbound-wire.js";

/** How long after the daemon has gone away it is asked for the task again, and how often then, in milliseconds. */
const AGAIN = 1500;
const conversations = new Map();

/** The conversation with a published agent, which stays while the panel is open. @param {string} inboundId */
export function conversationWith(inboundId) {
  if (!conversations.has(inboundId)) conversations.set(inboundId, new Conversation(inboundId));
  return conversations.get(inboundId);
}

/** Of an agent that is no more. @param {string} inboundId */
export function forgetConversation(inboundId) {
  conversations.get(inboundId)?.restart();
  conversations.delete(inboundId);
}

/** Turns in one context, and the wire that they went over. Whoever listens is told at most once for each frame drawn. */
class Conversation {
  #listeners = new Set();
  #drawing = false;
  #inboundId;

  constructor(inboundId) {
    this.#inboundId = inboundId;
    this.#clear();
  }

  #clear() {
    this.contextId = "";
    this.draft = "";
    this.turns = [];
    this.wire = new Wire();
  }

  /** @param {() => void} listener @returns {() => void} to stop */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get last() {
    return this.turns.at(-1);
  }

  get busy() {
    return this.last?.busy ?? false;
  }

  /** A new one: what runs goes on without it. */
  restart() {
    for (const turn of this.turns) turn.controller.abort();
    this.#clear();
    this.#tell();
  }

  /**
   * Send a text: the answer to what the last turn asks, or else the next message of the context.
   * @param {string} text @param {{skill?: string, shown?: string}} [options] `shown` is what stands for the text
   */
  async send(text, { skill = "", shown = text } = {}) {
    const before = this.last?.waiting ? this.last : null;
    const turn = new Turn(shown, before && { id: before.taskId });
    if (before) {
      before.answered = true;
      before.controller.abort();
      this.#changed(before);
    }
    this.turns.push(turn);
    this.draft = "";
    this.#changed(turn);
    const to = before ? { taskId: before.taskId } : { ...(skill && { skill }), ...(this.contextId && { contextId: this.contextId }) };
    await this.#read(turn, { id: this.#inboundId, text, ...to });
    if (turn.phase === "failed" && !turn.state) this.#giveBack(turn, before, text);
    if (turn.phase === "lost") await this.#recover(turn);
  }

  /** @param {Turn} turn @returns {Promise<any>} the answer; throws `ApiError` */
  cancel(turn) {
    return act("task.cancel", { id: turn.taskId });
  }

  async #read(turn, fields) {
    try {
      for await (const event of actStream("inbound.sendTest", fields, { signal: turn.controller.signal })) {
        if (event.event === "request") this.wire.add("sent", event.raw, event.data.method);
        else if (event.event === "frame") this.#frame(turn, event);
        else if (event.event === "result") turn.phase = "rest";
        this.#changed(turn);
      }
    } catch (error) {
      this.#broken(turn, error);
    }
    this.#changed(turn);
  }

  #frame(turn, { id, data, raw }) {
    const { result } = data;
    this.wire.add("received", raw, result ? Object.keys(result)[0] : "error", id);
    if (!result) return;
    turn.apply(result);
    const contextId = turn.contextId || result.message?.contextId;
    if (contextId) this.contextId = contextId;
  }

  #broken(turn, error) {
    if (error.name === "AbortError") {
      turn.phase = "rest";
    } else if (error instanceof ApiError && error.status === 0 && turn.state) {
      turn.phase = "lost";
    } else {
      if (!(error instanceof ApiError)) console.error(error);
      turn.phase = "failed";
      turn.error = explain(error);
    }
  }

  /** Nothing has come of it: the text is there to be sent again, and the question to be answered. */
  #giveBack(turn, before, text) {
    if (turn.text === text) this.draft ||= text;
    if (before) before.answered = false;
    // what it answers has perhaps been answered elsewhere, or has ended
    if (before) this.#recover(before, new AbortController());
    this.#tell();
  }

  /** Read the task as it is, and on until it rests, as soon as the daemon is there. */
  async #recover(turn, controller = turn.controller) {
    turn.controller = controller;
    const { signal } = controller;
    while (!signal.aborted) {
      try {
        await this.#catchUp(turn, signal);
        break;
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 0)) {
          this.#broken(turn, error);
          break;
        }
      }
      await daemonBack();
    }
    this.#changed(turn);
  }

  async #catchUp(turn, signal) {
    for await (const { event, data } of follow("/task/events", { id: turn.taskId }, { signal })) {
      if (event === "frame") {
        turn.apply(data, { whole: true });
        if (turn.phase === "lost") turn.phase = "running";
      }
      if (turn.waiting || turn.ended || event === "end") {
        turn.phase = "rest";
        return;
      }
      this.#changed(turn);
    }
    throw new ApiError("", 0);
  }

  #changed(turn) {
    turn.version += 1;
    this.#tell();
  }

  #tell() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      for (const listener of [...this.#listeners]) listener();
    });
  }
}

/** Waits, and then for as long as the page knows that the daemon is gone. */
function daemonBack() {
  return new Promise((resolve) => {
    const look = () => (live.state.status === "offline" ? setTimeout(look, AGAIN) : resolve());
    setTimeout(look, AGAIN);
  });
}
