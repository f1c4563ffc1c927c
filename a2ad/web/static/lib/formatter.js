/** How long a text may take, in milliseconds: on a busy machine, 100 kB of prose takes half of it. */
const DEADLINE = 1000;

/** Formats texts one after the other, each in a time that is bounded, while the page goes on. */
class Formatter {
  #waiting = [];
  #job = null;
  #worker = null;
  #timer = 0;

  /**
   * @param {string} text Markdown
   * @param {(made: {html: string, tags: number} | null) => void} done called once, not before this returns: with HTML
   * that is yet to be made safe, or null where the text takes too long or gives too much
   * @returns {() => void} withdraws it: `done` is not called any more
   */
  ask(text, done) {
    const job = { text, done };
    this.#waiting.push(job);
    this.#next();
    return () => {
      job.done = () => {};
      this.#waiting = this.#waiting.filter((each) => each !== job);
    };
  }

  #next() {
    if (this.#job || !this.#waiting.length) return;
    this.#job = this.#waiting.shift();
    if (this.#worker) this.#send();
    else this.#start();
  }

  #start() {
    const worker = new Worker(new URL("./markdown-worker.js", import.meta.url), { type: "module" });
    this.#worker = worker;
    worker.onmessage = ({ data }) => {
      if (worker !== this.#worker) return;
      if (data.ready) this.#send();
      else this.#end(data.made);
    };
    worker.onerror = () => worker === this.#worker && this.#stop();
  }

  #send() {
    this.#worker.postMessage(this.#job.text);
    this.#timer = setTimeout(() => this.#stop(), DEADLINE);
  }

  #stop() {
    this.#worker.terminate();
    this.#worker = null;
    this.#end(null);
  }

  #end(made) {
    clearTimeout(this.#timer);
    const { done } = this.#job;
    this.#job = null;
    done(made);
    this.#next();
  }
}

/** The page's one. */
export const formatter = new Formatter();
