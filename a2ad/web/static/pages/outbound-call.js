import { actStream } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { brief, shortId } from "../lib/format.js";
import { Button, Card, Copy, Field, LongText, Markdown, Notice, State, Text, explain, html, useConfirm, useEffect, useRef,
  useState } from "../lib/ui.js";

const ASKS = new Set(["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"]);

/** Calls a skill, in a conversation that goes on. @param {{row: object}} props a connection of the snapshot, with its card */
export default function Call({ row }) {
  const { turns, context, waiting, busy, send, stop, forget, leave } = useCalls(row.id);
  const [skill, setSkill] = useState("");
  const [text, setText] = useState("");
  const box = useRef(null);
  const guard = useLeaveGuard(busy, stop);
  const submit = async (event) => {
    event?.preventDefault();
    if (busy || !text.trim()) return box.current.querySelector("textarea").focus();
    setText("");
    await send({ text, skill });
    box.current?.querySelector("textarea").focus();
  };
  const onKeyDown = (event) => (event.key === "Enter" && (event.ctrlKey || event.metaKey) ? submit(event) : undefined);
  return html`<${Card} title=${t("outbound.call")} aside=${context && html`<${Context} id=${context} onForget=${forget} busy=${busy} />`} class="call">
    ${guard}
    ${turns.length > 0 && html`<ol class="turns" aria-label=${t("outbound.call.turns")}>${turns.map((turn, i) => html`<${Turn} key=${i} turn=${turn} />`)}</ol>`}
    <p class="sr-only" role="status">${said(turns, busy)}</p>
    <form class="call-form" ref=${box} onSubmit=${submit} onKeyDown=${onKeyDown}>
      ${waiting ? html`<${Waiting} taskId=${waiting} onLeave=${leave} busy=${busy} />`
        : html`<${Field} name="skill" type="select" label=${t("outbound.call.skill")} value=${skill} onInput=${setSkill} options=${choices(row)} />`}
      <${Field} name="text" type="textarea" label=${t(waiting ? "outbound.call.answer" : "outbound.call.text")} value=${text} onInput=${setText}
        disabled=${!row.enabled} hint=${t(row.enabled ? "outbound.call.keys" : "outbound.call.disabled")} />
      <div class="form-actions">
        <${Button} type="submit" kind="primary" busy=${busy} disabled=${!row.enabled}>${t(waiting ? "outbound.call.reply" : "outbound.call.send")}</${Button}>
        ${busy && html`<${Button} onClick=${stop}>${t("outbound.call.stop")}</${Button}>
          <span class="muted leaving">${t("outbound.call.leaving")}</span>`}
      </div>
    </form></${Card}>`;
}

function choices(row) {
  const named = row.card.skills.filter((skill) => !row.disabledSkills.includes(skill.id))
    .map((skill) => ({ value: skill.id, label: brief(row.skillOverrides[skill.id]?.name || skill.name) }));
  return [{ value: "", label: t("outbound.call.any") }, ...named];
}

const Context = ({ id, onForget, busy }) => html`<span class="context">${t("outbound.call.context")}
  <span title=${id}><${Text} value=${shortId(id)} class="mono" /></span><${Copy} text=${id} label=${t("outbound.call.context.copy")} />
  <${Button} small disabled=${busy} onClick=${onForget}>${t("outbound.call.new")}</${Button}></span>`;

const Waiting = ({ taskId, onLeave, busy }) => html`<p class="waits">${t("outbound.call.waits")} <span title=${taskId} class="muted">
  (<${Text} value=${shortId(taskId)} class="mono" />)</span> <${Button} small kind="quiet" disabled=${busy} onClick=${onLeave}>${t("outbound.call.leave")}</${Button}></p>`;

/** For those who hear the page: what became of the call, not each of its pieces. */
function said(turns, busy) {
  const last = turns.at(-1);
  if (!last) return "";
  return busy ? t("outbound.call.going") : t(last.error || last.stopped ? "outbound.call.failed" : "outbound.call.answered");
}

function Turn({ turn }) {
  const { asked, text, state, note, error, stopped, going, taskId } = turn;
  return html`<li class="turn" data-state=${state ?? ""}>
    <div class="asked-text"><span class="sr-only">${t("outbound.call.you")}</span><${LongText} value=${asked} first=${2000} /></div>
    <div class="answer" aria-busy=${going ? "true" : "false"}>
      ${text && (going ? html`<${LongText} value=${text} />` : html`<${Spoken} text=${text} />`)}
      ${going && note && html`<p class="muted"><${Text} value=${note} class="one-line" /></p>`}
      ${going && !text && !note && html`<p class="muted">${t("outbound.call.going")}</p>`}
      ${stopped && html`<p class="muted">${t("outbound.call.stopped")}</p>`}
      ${error && !text?.includes(error) && html`<${Notice} notice=${{ kind: "failed", text: error }} />`}
      ${!going && !text && !error && !stopped && html`<p class="muted">${t("outbound.call.nothing")}</p>`}
      ${(state || taskId) && html`<p class="turn-foot">${state && html`<${State} value=${state} />`}
        ${taskId && html`<span class="muted" title=${taskId}>${t("outbound.call.task")} <${Text} value=${shortId(taskId)} class="mono" /></span>
          <${Copy} text=${taskId} label=${t("outbound.call.task.copy")} />`}</p>`}
    </div></li>`;
}

function Spoken({ text }) {
  const [raw, setRaw] = useState(false);
  return html`${raw ? html`<${LongText} code value=${text} name="answer.txt" />` : html`<${Markdown} text=${text} />`}
    <${Button} small kind="quiet" class="switch" aria-pressed=${raw ? "true" : "false"} onClick=${() => setRaw(!raw)}>${t("outbound.call.raw")}</${Button}>`;
}

/** The calls of this page, one after the other; they end with it. */
function useCalls(id) {
  const [turns, setTurns] = useState([]);
  const [context, setContext] = useState("");
  const [waiting, setWaiting] = useState("");
  const [busy, setBusy] = useState(false);
  const current = useRef(null);
  useEffect(() => () => current.current?.abort(), []);
  const change = (some) => setTurns((old) => [...old.slice(0, -1), { ...old.at(-1), ...some }]);

  const send = async ({ text, skill }) => {
    const controller = new AbortController();
    current.current = controller;
    setBusy(true);
    setTurns((old) => [...old, { asked: text, going: true }]);
    const fields = { id, text, ...(context ? { contextId: context } : {}), ...(waiting ? { taskId: waiting } : skill ? { skill } : {}) };
    const shown = gathered(change);
    try {
      for await (const { event, data } of actStream("outbound.call", fields, { signal: controller.signal })) {
        if (event === "progress") shown.add(data);
        else if (event === "result") settle(data);
      }
    } catch (error) {
      fail(error, controller.signal);
    } finally {
      shown.stop();
      change({ going: false });
      setBusy(false);
    }
    function settle(answer) {
      shown.stop();
      remember(answer);
      change({ text: answer.text, state: answer.state, taskId: answer.taskId });
    }
    function fail(error, signal) {
      shown.stop();
      if (signal.aborted) return change({ stopped: true });
      remember(error.body ?? {});
      return change({ error: explain(error), state: error.body?.state, taskId: error.body?.taskId,
        ...(error.body?.text !== undefined ? { text: error.body.text } : {}) });
    }
  };
  const remember = ({ contextId, state, taskId }) => {
    if (contextId) setContext(contextId);
    if (contextId || state) setWaiting(ASKS.has(state) && taskId ? taskId : "");
  };
  const forget = () => {
    setContext("");
    setWaiting("");
  };
  return { turns, context, waiting, busy, send, stop: () => current.current?.abort(), forget, leave: () => setWaiting("") };
}

/** Shows what comes once in a frame, however many pieces it came in. */
function gathered(change) {
  let [text, rest, frame] = ["", {}, 0];
  const show = () => {
    frame = 0;
    change({ ...rest, ...(text ? { text } : {}) });
  };
  return {
    add(piece) {
      if (piece.text !== undefined) text += piece.text;
      else rest = { state: piece.state, note: piece.message };
      frame ||= requestAnimationFrame(show);
    },
    stop: () => cancelAnimationFrame(frame),
  };
}

/**
 * Asks before a link of the panel is followed while a call goes on, and has the browser ask before the panel is left.
 * @returns {unknown} the dialog
 */
function useLeaveGuard(busy, stop) {
  const [ask, dialog] = useConfirm();
  useEffect(() => {
    if (!busy) return undefined;
    const onUnload = (event) => event.preventDefault();
    const onClick = (event) => {
      const link = event.target.closest?.("a[href^='#/']");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || link.target === "_blank") return;
      event.preventDefault();
      ask({
        title: t("outbound.leave.title"), lost: t("outbound.leave.lost"), action: t("outbound.leave"),
        run: async () => stop(), done: () => { location.hash = link.getAttribute("href"); },
      });
    };
    addEventListener("beforeunload", onUnload);
    document.addEventListener("click", onClick, true);
    return () => {
      removeEventListener("beforeunload", onUnload);
      document.removeEventListener("click", onClick, true);
    };
  }, [busy]);
  return dialog;
}
