import { act } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { t, tx } from "../lib/i18n.js";
import { duration, exactTime, shortId } from "../lib/format.js";
import { Question } from "../lib/question.js";
import { Button, Card, Copy, Empty, Facts, LinkButton, LongText, Notice, PageHead, State, Text, Time, explain, href, html,
  useConfirm, useEffect, useRef, useState } from "../lib/ui.js";
import { hasEnded, useTask } from "./tasks-follow.js";
import { Messages, Metadata, Results, Timeline } from "./tasks-parts.js";

/** How often a running task's duration is counted on, in milliseconds. */
const SECOND = 1000;

/** One task: what it is, what it has said, what it asks. @param {{id: string, params: Record<string, string>}} props */
export default function TaskPage({ id, params }) {
  const { snapshot, tasks, taskTotal } = useLive();
  const { task, missing, error, look } = useTask(id);
  const inbound = task && snapshot.inbounds.find((each) => each.id === task.serverId);
  const isOrphan = Boolean(task && !inbound);
  useEffect(() => {
    if (isOrphan && !missing) look();
  }, [isOrphan]);
  useOnFewer(tasks ? taskTotal : null, look);
  if (!task) return html`<${NotThere} id=${id} params=${params} missing=${missing} error=${error} />`;
  return html`<${Head} task=${task} params=${params} missing=${missing} />
    <${Asked} task=${task} missing=${missing} />
    <${About} task=${task} inbound=${inbound} />
    <${Results} task=${task} />
    <${Messages} history=${task.history} />
    <${Timeline} task=${task} />
    <${Metadata} metadata=${task.metadata} />`;
}

/** Some tasks have been deleted, perhaps this one: what has ended is followed no more. */
function useOnFewer(total, look) {
  const last = useRef(0);
  useEffect(() => {
    if (total === null) return;
    if (total < last.current) look();
    last.current = total;
  }, [total]);
}

function NotThere({ id, params, missing, error }) {
  return html`<${PageHead} title=${t("tasks.one", { id: shortId(id) })}><${BackLink} params=${params} /></${PageHead}>
    ${missing ? html`<${Card}><${Empty} title=${t("tasks.unknown")}>
        <p>${tx("tasks.unknown.help", { id: html`<${Text} value=${id} class="mono" />` })}</p></${Empty}></${Card}>`
      : error ? html`<${Notice} notice=${{ kind: "failed", text: explain(error) }} />`
        : html`<p class="muted" role="status" aria-busy="true">${t("app.loading")}</p>`}`;
}

const BackLink = ({ params }) => html`<${LinkButton} kind="quiet" href=${href("tasks", "", params)}>${t("tasks.all")}</${LinkButton}>`;

function Head({ task, params, missing }) {
  const [ask, dialog] = useConfirm();
  const cancel = () => ask({
    title: t("tasks.cancel.title"),
    lost: t("tasks.cancel.lost"),
    action: t("tasks.cancel"),
    run: () => act("task.cancel", { id: task.id }),
  });
  const title = html`<${Text} value=${task.summary || t("tasks.one", { id: shortId(task.id) })} class="one-line" />`;
  return html`<${PageHead} title=${title} lead=${html`<span role="status"><${State} value=${task.state} /></span>`}>
      <${BackLink} params=${params} />
      ${!hasEnded(task) && !missing && html`<${Button} onClick=${cancel} aria-haspopup="dialog">${t("tasks.cancel")}</${Button}>`}
    </${PageHead}>
    ${dialog}
    ${missing && html`<${Notice} notice=${{ kind: "failed", text: t("tasks.gone") }} />`}
    ${task.error && task.error !== task.state && html`<section class="notice failed" aria-label=${t("tasks.error")}><${LongText} value=${task.error} name="error.txt" /></section>`}`;
}

function Asked({ task, missing }) {
  const [notice, setNotice] = useState(null);
  const answered = ({ message }) => setNotice({ kind: "done", text: message });
  const asks = task.question && !hasEnded(task) && !missing;
  return html`<${Notice} notice=${notice} onClose=${() => setNotice(null)} />
    ${asks && html`<${Card} title=${t("tasks.question")} class="asked">
      <${Question} key=${task.left + task.timeline.length} taskId=${task.id} question=${task.question} onAnswered=${answered} /></${Card}>`}`;
}

function About({ task, inbound }) {
  const id = (value, label) => html`<span class="with-copy"><${Text} value=${value} class="mono" /><${Copy} text=${value} label=${label} /></span>`;
  return html`<${Card} title=${t("tasks.about")}><${Facts} items=${[
    [t("tasks.server"), html`<a href=${href("inbound", task.serverId)}><${Text} value=${inbound?.name ?? task.serverId} class="one-line" /></a>`],
    [t("tasks.skill"), html`<${Text} value=${task.skill} class="one-line" />`],
    [t("tasks.executor"), html`<${Text} value=${task.executor} />`],
    [t("tasks.id"), id(task.id, t("tasks.id.copy"))],
    [t("tasks.context"), html`${id(task.contextId, t("tasks.context.copy"))}
      <a class="beside" href=${href("tasks", "", { context: task.contextId })}>${t("tasks.context.tasks")}</a>`],
    [t("tasks.created"), html`${exactTime(task.createdAt)} <span class="muted">(<${Time} at=${task.createdAt} />)</span>`],
    [t("tasks.started"), task.startedAt ? exactTime(task.startedAt) : t(hasEnded(task) ? "tasks.started.not" : "tasks.started.yet")],
    task.endedAt && [t("tasks.ended"), exactTime(task.endedAt)],
    task.startedAt && [t(task.endedAt ? "tasks.duration" : "tasks.running"), html`<${Elapsed} from=${task.startedAt} to=${task.endedAt} />`],
  ]} /></${Card}>`;
}

function Elapsed({ from, to }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (to) return undefined;
    const timer = setInterval(() => setNow(Date.now()), SECOND);
    return () => clearInterval(timer);
  }, [to]);
  const spent = Math.max(0, (to ? Date.parse(to) : now) - Date.parse(from));
  return duration(to ? spent : Math.floor(spent / SECOND) * SECOND);
}
