import { currentLanguage, t } from "../lib/i18n.js";
import { clockTime, exactTime, shortId, shortState } from "../lib/format.js";
import { Choices, optionsOf } from "../lib/question.js";
import { Artifact, Button, Copy, LongText, Notice, Parts, State, Text, Tree, href, html, textOf, useAction, useMemo,
  useState } from "../lib/ui.js";

/** Of a turn's statuses and artifacts, the newest that are shown at first. */
const NOTES = 4;
const ARTIFACTS = 50;
/** What other states say is shown at length. */
const PROGRESS = new Set(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"]);

/**
 * One turn of the chat: what was sent, and what came of it.
 * @param {{turn: object, version: number, conversation: object, name: string, onAnswered: () => void}} props it is
 * drawn anew only where the version or the language is another one
 */
export function TurnView({ turn, version, conversation, name, onAnswered }) {
  return useMemo(() => html`<article class="turn" data-phase=${turn.phase} data-task=${turn.taskId}>
    <div class="sent"><span class="sr-only">${t("inbound.chat.you")}</span><${LongText} value=${turn.text} first=${2000} /></div>
    <${Came} turn=${turn} conversation=${conversation} name=${name} onAnswered=${onAnswered} />
  </article>`, [turn, version, conversation, name, currentLanguage()]);
}

function Came({ turn, conversation, name, onAnswered }) {
  const { busy, notice, run, clear } = useAction();
  const cancel = () => run(async () => ({ ...(await conversation.cancel(turn)), message: "" }));
  const text = turn.busy ? "" : turn.answer;
  const cancelable = turn.taskId && (turn.phase === "running" || turn.waiting);
  return html`<div class="came" aria-busy=${turn.busy && !turn.waiting ? "true" : undefined}>
    <header class="came-head"><${Text} value=${name} class="one-line" />
      ${turn.answered ? html`<span class="muted">${t("inbound.chat.answered")}</span>` : turn.status && html`<${State} value=${turn.status.state} />`}
      ${turn.phase === "sending" && html`<span class="muted">${t("inbound.chat.sending")}</span>`}
      ${turn.taskId && html`<a class="id mono" href=${href("tasks", turn.taskId)} title=${turn.taskId}>${shortId(turn.taskId)}</a>`}
      ${text && html`<${Copy} text=${text} label=${t("inbound.chat.copy")} />`}
      ${cancelable && html`<${Button} small busy=${busy} onClick=${cancel}>${t("inbound.chat.cancel")}</${Button}>`}
    </header>
    <div class="came-body"><${Said} turn=${turn} /><${Notes} turn=${turn} /></div>
    <${Question} turn=${turn} conversation=${conversation} onAnswered=${onAnswered} />
    ${turn.phase === "lost" && html`<${Notice} notice=${{ kind: "failed", text: t("inbound.chat.lost") }} />`}
    ${turn.error !== null && html`<${Notice} notice=${{ kind: "failed", text: turn.error }} />`}
    <${Notice} notice=${notice} onClose=${clear} />
  </div>`;
}

function Said({ turn }) {
  const [limit, setLimit] = useState(ARTIFACTS);
  const artifacts = [...turn.artifacts.values()];
  const hidden = Math.max(0, artifacts.length - limit);
  const shown = artifacts.slice(hidden);
  return html`<div class="said">
    ${hidden > 0 && html`<${Button} small onClick=${() => setLimit(limit * 4)}>${t("inbound.chat.earlier", { n: hidden })}</${Button}>`}
    ${shown.map((each) => html`<${Artifact} key=${each.artifactId} artifact=${each} live=${turn.busy && !each.closed}
      plain=${each.artifactId === "result"} />`)}
    ${turn.reply && html`<${Parts} parts=${turn.reply.parts} /><p class="muted">${t("inbound.chat.direct")}</p>`}
    <${Closing} turn=${turn} />
  </div>`;
}

/** What the last status says, where it says why the task has ended. */
function Closing({ turn }) {
  const parts = turn.status?.message?.parts;
  if (!turn.ended || !parts) return null;
  const bad = turn.state === "FAILED" || turn.state === "REJECTED";
  return html`<div class="closing ${bad ? "bad" : ""}"><${Parts} parts=${parts} /></div>`;
}

/** The statuses that came, aside. */
function Notes({ turn }) {
  const [all, setAll] = useState(false);
  const { notes, noteCount } = turn;
  if (!notes.length) return null;
  const shown = all ? notes : notes.slice(-NOTES);
  return html`<aside class="notes" aria-label=${t("inbound.chat.statuses")}>
    ${notes.length > shown.length && html`<${Button} kind="quiet" small onClick=${() => setAll(true)}>${t("inbound.chat.statuses.all", { n: noteCount })}</${Button}>`}
    ${all && noteCount > notes.length && html`<p class="muted">${t("inbound.chat.statuses.kept", { n: notes.length })}</p>`}
    <ul>${shown.map((status, i) => html`<li key=${noteCount - shown.length + i}>
      <time datetime=${status.timestamp} title=${exactTime(status.timestamp)}>${clockTime(status.timestamp)}</time>${" "}
      <span>${t(`state.${shortState(status.state)}`)}</span>
      ${status.message && PROGRESS.has(status.state) && html` <${Text} value=${textOf(status.message.parts)} class="one-line" />`}</li>`)}</ul>
  </aside>`;
}

/** What the task asks. Options are answered here, a text where messages are written. */
function Question({ turn, conversation, onAnswered }) {
  const asked = turn.question;
  if (!asked) return null;
  if (turn.answered) return html`<${Parts} parts=${asked.parts} />`;
  const options = optionsOf(asked);
  const choose = (option) => {
    conversation.send(option.id, { shown: option.name });
    onAnswered();
  };
  return html`<div class="asked" data-question=${turn.taskId}>
    <p class="asked-what">${t(turn.state === "AUTH_REQUIRED" ? "inbound.chat.auth" : "inbound.chat.asks")}</p>
    <${Parts} parts=${asked.parts} />
    ${asked.tool && html`<${Tree} value=${asked.tool} open=${3} />`}
    ${asked.deadline && html`<p class="muted">${t("overview.answer.deadline", { at: exactTime(asked.deadline) })}</p>`}
    ${options.length > 0 ? html`<${Choices} options=${options} choose=${choose} />`
      : html`<p class="muted">${t("inbound.chat.answer.where")}</p>`}
  </div>`;
}
