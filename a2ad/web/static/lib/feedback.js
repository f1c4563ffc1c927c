import { ApiError } from "./api.js";
import { live } from "./live.js";
import { t } from "./i18n.js";
import { visible } from "./format.js";
import { html, uniqueId, useEffect, useRef, useState } from "./html.js";
import { Button, Icon } from "./controls.js";

/** The daemon begins its messages with the field that they are about; nobody has typed this one. */
const UNSEEN = /^id: /;

/**
 * What became of an action, where it was started.
 * @param {{notice: {kind: "done" | "failed", text: string} | null, onClose?: () => void}} props
 */
export function Notice({ notice, onClose }) {
  if (!notice) return null;
  return html`<div class="notice ${notice.kind}" role=${notice.kind === "failed" ? "alert" : "status"}>
    <${Icon} name=${notice.kind === "failed" ? "warning" : "check"} />
    <p class="foreign" dir="auto">${visible(notice.text)}</p>
    ${onClose && html`<button type="button" class="icon-button" onClick=${onClose} aria-label=${t("notice.close")}>
      <${Icon} name="close" /></button>`}
  </div>`;
}

/** An error as a text for whoever looks at the page. @param {unknown} error */
export function explain(error) {
  if (error instanceof ApiError && error.status === 0) return t("error.unreachable");
  return (error?.message ?? "").replace(UNSEEN, "") || t("error.unknown");
}

/**
 * Runs an action and keeps what became of it.
 * @returns {{busy: boolean, notice: object | null, errors: Record<string, string[]>, run: (work: () => Promise<any>) =>
 *   Promise<any>, clear: () => void}} `run` returns what the work returned, or undefined where it failed; the `message`
 * of the answer becomes the notice. A work that is started while another one runs is not
 */
export function useAction() {
  const [state, setState] = useState({ busy: false, notice: null, errors: {} });
  const mounted = useRef(true);
  const running = useRef(false);
  useEffect(() => () => { mounted.current = false; }, []);
  const set = (change) => mounted.current && setState((old) => ({ ...old, ...change }));
  const run = async (work) => {
    if (running.current) return undefined;
    running.current = true;
    set({ busy: true, notice: null, errors: {} });
    try {
      const answer = (await work()) ?? {};
      set({ notice: answer.message ? { kind: "done", text: answer.message } : null });
      live.refresh();
      return answer;
    } catch (error) {
      if (error.name !== "AbortError") set({ notice: { kind: "failed", text: explain(error) }, errors: error.errors ?? {} });
      return undefined;
    } finally {
      running.current = false;
      set({ busy: false });
    }
  };
  return { ...state, run, clear: () => set({ notice: null, errors: {} }) };
}

/**
 * Asks before something is lost.
 * @returns {[(question: {title: string, lost: string | string[], action: string, run: () => Promise<any>,
 *   done?: (answer: object) => void}) => void, object]} a function that opens the dialog; and the dialog, to be rendered
 * where the message of the action shall stand. The dialog stays open with the reason where `run` fails
 */
export function useConfirm() {
  const [question, setQuestion] = useState(null);
  const [notice, setNotice] = useState(null);
  const ask = (next) => {
    setNotice(null);
    setQuestion(next);
  };
  const done = (answer) => {
    setQuestion(null);
    setNotice(answer.message ? { kind: "done", text: answer.message } : null);
    question.done?.(answer);
  };
  return [ask, html`<${Notice} notice=${notice} onClose=${() => setNotice(null)} />
    ${question && html`<${Confirm} question=${question} onDone=${done} onClose=${() => setQuestion(null)} />`}`];
}

function Confirm({ question, onDone, onClose }) {
  const { busy, notice, run } = useAction();
  const confirm = async () => {
    const answer = await run(question.run);
    if (answer) onDone(answer);
  };
  return html`<${Dialog} title=${question.title} onClose=${onClose}>
    ${[question.lost].flat().map((text) => html`<p>${text}</p>`)}
    <${Notice} notice=${notice?.kind === "failed" ? notice : null} />
    <div class="dialog-actions">
      <${Button} onClick=${onClose}>${t("dialog.back")}</${Button}>
      <${Button} kind="danger" busy=${busy} onClick=${confirm}>${question.action}</${Button}>
    </div>
  </${Dialog}>`;
}

/**
 * A modal dialog; Escape closes it, and the focus goes back to where it was.
 * @param {{title: string, onClose: () => void, children?: unknown}} props
 */
export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  const [id] = useState(() => uniqueId("dialog"));
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const onCancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${element} aria-labelledby=${id} onCancel=${onCancel}>
    <h2 id=${id}>${title}</h2>${children}</dialog>`;
}
