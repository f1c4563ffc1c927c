import { useLive, usePolled } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { duration, exactTime, number, shortId } from "../lib/format.js";
import { Chart } from "../lib/chart.js";
import { Guard } from "../lib/guard.js";
import { Question } from "../lib/question.js";
import { Card, Empty, LinkButton, LongText, PageHead, State, Table, Text, Time, href, html } from "../lib/ui.js";

/** How often the figures are read, in milliseconds, and how many of the running tasks are shown. */
const METRICS = 5000;
const RUNNING = 10;
/** Of what is wrong, in characters at first. */
const MESSAGE = 600;

/** What is going on, and what somebody has to see to. */
export default function Overview() {
  const { snapshot, tasks, taskTotal } = useLive({ taskState: "TASK_STATE_WORKING", taskLimit: RUNNING });
  const metrics = usePolled("/metrics", METRICS);
  const { health, attention, inbounds, plugins } = snapshot;
  const lead = metrics && t("overview.lead", { version: health.version, uptime: duration(metrics.uptimeSeconds * 1000) });
  return html`<${PageHead} title=${t("overview.title")} lead=${lead ?? `a2ad ${health.version}`}><${State} value=${health.status} /></${PageHead}>
    ${!health.store.ok && html`<${StoreTrouble} store=${health.store} />`}
    ${!inbounds.length && html`<${First} />`}
    <${Figures} metrics=${metrics} />
    <${Attention} attention=${attention} snapshot=${snapshot} />
    <${Hour} history=${metrics?.history} />
    <${Running} tasks=${tasks} total=${taskTotal} inbounds=${inbounds} />
    ${plugins.length > 0 && html`<${Plugins} plugins=${plugins} />`}`;
}

const Loading = () => html`<p class="muted" aria-busy="true">${t("app.loading")}</p>`;

const StoreTrouble = ({ store }) => html`<div class="notice failed" role="alert"><p>
  ${t("overview.store", { error: store.error })}<br />${t("overview.store.since", { since: exactTime(store.since) })}</p></div>`;

const First = () => html`<${Card} class="first"><${Empty} title=${t("overview.first")}><p>${t("overview.first.help")}</p>
  <${LinkButton} kind="primary" href=${href("inbound")}>${t("overview.first.go")}</${LinkButton}></${Empty}></${Card}>`;

function Figures({ metrics }) {
  if (!metrics) return html`<${Loading} />`;
  const { tasks } = metrics;
  const waiting = (tasks.TASK_STATE_INPUT_REQUIRED ?? 0) + (tasks.TASK_STATE_AUTH_REQUIRED ?? 0);
  const figures = [
    ["overview.running", metrics.runs, t("overview.running.of", { limit: metrics.runsLimit })],
    ["overview.queued", metrics.queued, t("overview.queued.of", { limit: metrics.queuedLimit })],
    ["overview.waiting", waiting, t("overview.waiting.of", { n: waiting })],
    ["overview.open", metrics.peers, t("overview.open.of", {
      streams: t("overview.open.streams", { n: metrics.streams }), sessions: t("overview.open.sessions", { n: metrics.sessions }) })],
  ];
  return html`<dl class="figures">${figures.map(([key, value, of]) => html`<div key=${key}>
    <dt>${t(key)}</dt><dd><strong>${number(value)}</strong><span>${of}</span></dd></div>`)}</dl>`;
}

function Hour({ history }) {
  if (!history) return html`<${Card} title=${t("overview.hour")}><${Loading} /></${Card}>`;
  const minutes = (count) => history.map((each) => ({ at: each.at, n: count(each) }));
  return html`<${Card} title=${t("overview.hour")}>
    <div class="charts">
      <${Chart} tone="good" label=${t("overview.chart.ended")} minutes=${minutes((each) => each.completed)} />
      <${Chart} tone="bad" label=${t("overview.chart.failed")} minutes=${minutes((each) => each.failed + each.rejected)} />
    </div></${Card}>`;
}

function Attention({ attention, snapshot }) {
  if (!attention.length) return html`<p class="calm">${t("overview.attention.none")}</p>`;
  return html`<${Card} title=${t("overview.attention")} aside=${attention.length} class="attention">
    <ul>${attention.map((each) => html`<li key=${`${each.kind} ${each.id}`} data-id=${each.id} data-kind=${each.kind}>
      <${Guard}><${Matter} matter=${each} name=${nameOf(each, snapshot)} /></${Guard}></li>`)}</ul></${Card}>`;
}

function Matter({ matter, name }) {
  const page = matter.kind === "question" ? "tasks" : matter.kind;
  const label = t(matter.kind === "question" ? "overview.attention.look" : "overview.attention.mend");
  return html`<div class="matter-head"><span class="tag">${t(`overview.attention.${matter.kind}`)}</span>
      <${Name} kind=${matter.kind} id=${matter.id} name=${name} />
      ${matter.kind !== "plugin" && html`<${LinkButton} small href=${href(page, matter.id)}>${label}</${LinkButton}>`}</div>
    ${matter.summary && html`<p class="muted"><${Text} value=${matter.summary} class="one-line" /></p>`}
    ${matter.kind === "question" ? html`<${Question} taskId=${matter.taskId} question=${matter} />`
      : html`<${LongText} value=${matter.message} first=${MESSAGE} />`}
    ${matter.kind === "plugin" && html`<p class="muted">${t("overview.attention.plugin.help")}</p>`}`;
}

const Name = ({ kind, id, name }) => html`<strong><${Text} value=${name} class="one-line" /></strong>
  ${kind === "question" && html`<span class="mono muted" title=${id}><${Text} value=${shortId(id)} /></span>`}`;

function nameOf({ kind, id, serverId }, snapshot) {
  const rows = kind === "outbound" ? snapshot.outbounds : kind === "plugin" ? [] : snapshot.inbounds;
  const wanted = serverId ?? id;
  return rows.find((row) => row.id === wanted)?.name ?? wanted;
}

function Running({ tasks, total, inbounds }) {
  const names = new Map(inbounds.map((inbound) => [inbound.id, inbound.name]));
  const columns = [
    { key: "task", label: t("overview.task"), class: "wide", render: (task) => html`<a href=${href("tasks", task.id)}>
      <${Text} value=${task.summary || t("overview.task.untitled")} class="one-line" /></a>` },
    { key: "server", label: t("overview.task.server"), render: (task) => html`<${Text} value=${names.get(task.serverId) ?? task.serverId} class="one-line" />` },
    { key: "since", label: t("overview.task.since"), render: (task) => html`<${Time} at=${task.createdAt} />` },
  ];
  const all = html`<a href=${href("tasks")}>${t("overview.now.all")}</a>`;
  return html`<${Card} title=${t("overview.now")} aside=${all}>
    <${Table} caption=${t("overview.now")} columns=${columns} rows=${tasks ?? []}
      empty=${tasks ? html`<p class="muted">${t("overview.now.none")}</p>` : html`<${Loading} />`} />
    ${total > RUNNING && html`<p class="muted">${t("overview.now.more", { n: total - RUNNING })}</p>`}</${Card}>`;
}

function Plugins({ plugins }) {
  return html`<${Card} title=${t("overview.plugins")}><ul class="plugins">${plugins.map((plugin) => html`<li key=${plugin.name}>
    <${Text} value=${plugin.name} /> <span class="muted"><${Text} value=${plugin.version} /></span> <${State} value=${plugin.state} /></li>`)}</ul></${Card}>`;
}
