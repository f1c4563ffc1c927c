/**
 * @typedef {object} SseEvent
 * @property {string} event its name, `message` where none was sent
 * @property {string} id the last id that was sent, empty where none was
 * @property {string} data
 */

/**
 * The events of a body of server-sent events, as they come. Comments are skipped; an event that the end cuts off is
 * dropped, as the HTML standard has it.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<SseEvent>}
 */
export async function* readSse(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  const parser = new Parser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

class Parser {
  #pieces = [];
  #afterReturn = false;
  #event = "";
  #id = "";
  #data = [];

  /** The events that this text completes. @param {string} text @returns {Generator<SseEvent>} */
  *feed(text) {
    let rest = text;
    if (this.#afterReturn && rest) {
      if (rest[0] === "\n") rest = rest.slice(1);
      this.#afterReturn = false;
    }
    const lines = rest.split(/\r\n|\r|\n/);
    this.#afterReturn = rest.endsWith("\r");
    for (const [i, line] of lines.entries()) {
      this.#pieces.push(line);
      if (i === lines.length - 1) return;
      const event = this.#line(this.#pieces.join(""));
      this.#pieces = [];
      if (event) yield event;
    }
  }

  #line(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }

  #dispatch() {
    const [event, data] = [this.#event || "message", this.#data];
    this.#event = "";
    this.#data = [];
    return data.length ? { event, id: this.#id, data: data.join("\n") } : null;
  }
}
