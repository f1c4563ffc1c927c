import { format, has, t } from "../lib/i18n.js";
import { exactTime, number, plain } from "../lib/format.js";
import { Guard } from "../lib/guard.js";
import { Artifact, Button, Card, Empty, Facts, LongText, Parts, State, Text, Tree, html, textOf, useState } from "../lib/ui.js";
import { hasEnded, keyOf } from "./tasks-follow.js";

/** Of messages and of artifacts, how many are shown at first; the last ones, the first ones. */
const FIRST = 20;
/** Of what was used, how many figures are facts; the others are in the tree. */
const FIGURES = 20;

/** What came of a task. @param {{task: object}} props */
export function Results({ task }) {
  const { artifacts } = task;
  const [limit, setLimit] = useState(FIRST);
  if (!artifacts.length && hasEnded(task)) return html`<${Card} title=${t("tasks.artifacts")}><${Empty} title=${t("tasks.artifacts.none")} /></${Card}>`;
  if (!artifacts.length) return null;
  return html`<${Card} title=${t("tasks.artifacts")} aside=${number(artifacts.length)} class="results">
    ${artifacts.slice(0, limit).map((artifact) => html`<${Result} key=${artifact.artifactId} artifact=${artifact} />`)}
    ${artifacts.length > limit && html`<${Button} small onClick=${() => setLimit(limit * 4)}>${t("tree.more", { n: artifacts.length - limit })}</${Button}>`}
  </${Card}>`;
}

function Result({ artifact }) {
  const [raw, setRaw] = useState(false);
  const written = textOf(artifact.parts);
  return html`<div class="result">
    ${raw ? html`<section class="artifact named" data-artifact=${artifact.artifactId}>
        <h3><${Text} value=${artifact.name || artifact.artifactId} class="one-line" /></h3>
        <${LongText} code value=${written} name="artifact.txt" /></section>` : html`<${Artifact} artifact=${artifact} live=${Boolean(artifact.open)} />`}
    ${artifact.open && html`<span class="tag">${t("tasks.artifact.open")}</span>`}
    ${written && !artifact.open && html`<${Button} small kind="quiet" class="switch" aria-pressed=${raw ? "true" : "false"}
      onClick=${() => setRaw(!raw)}>${t("tasks.raw")}</${Button}>`}
  </div>`;
}

/** What was said, in its order. @param {{history: object[]}} props */
export function Messages({ history }) {
  const [limit, setLimit] = useState(FIRST);
  if (!history.length) return null;
  const hidden = Math.max(0, history.length - limit);
  return html`<${Card} title=${t("tasks.messages")} aside=${number(history.length)}>
    ${hidden > 0 && html`<${Button} small onClick=${() => setLimit(limit * 4)}>${t("tasks.messages.earlier", { n: hidden })}</${Button}>`}
    <ol class="messages">${history.slice(hidden).map((message, i) => html`<${Guard} key=${message.messageId ?? hidden + i}><${Message} message=${message} /></${Guard}>`)}</ol>
  </${Card}>`;
}

function Message({ message }) {
  const who = message.role === "ROLE_USER" ? "user" : "agent";
  return html`<li class="message ${who}" data-role=${who}>
    <p class="who">${t(`tasks.from.${who}`)}</p>
    <div class="said"><${Parts} parts=${message.parts} /></div></li>`;
}

/** When it came, the states that it went through and what it said of them, what it delivered. @param {{task: object}} props */
export function Timeline({ task: { timeline, left, startedAt } }) {
  return html`<${Card} title=${t("tasks.timeline")} aside=${number(left + timeline.length)}>
    ${left > 0 && html`<p class="muted">${t("tasks.timeline.left", { n: left })}</p>`}
    <ol class="timeline">${timeline.map((step) => html`<li key=${keyOf(step)} data-kind=${step.kind} data-frame=${step.frame}>
      <time datetime=${step.at} title=${exactTime(step.at)}>${clock(step.at)}</time>
      <div class="step"><${Step} step=${step} startedAt=${startedAt} /></div>
      ${step.frame && html`<span class="muted frame" title=${t("tasks.frame", { n: step.frame })}>#${step.frame}</span>`}</li>`)}</ol>
  </${Card}>`;
}

function Step({ step, startedAt }) {
  const { kind, at, until, artifactId, name, state, message } = step;
  if (kind === "created") return html`<p class="muted">${t(at === startedAt ? "tasks.created.started" : "tasks.created")}</p>`;
  if (kind === "artifact") {
    const came = clock(until) === clock(at) ? t("tasks.came") : t("tasks.came.until", { time: clock(until) });
    return html`<p class="muted"><${Text} value=${name || artifactId} class=${name ? "" : "mono"} /> ${came}</p>`;
  }
  return html`<${State} value=${state} />${message && html`<${LongText} value=${message} first=${600} />`}`;
}

/** With seconds: much happens within a minute. */
const clock = (at) => format(Intl.DateTimeFormat, { timeStyle: "medium" }).format(new Date(at));

/** What the agent has added: what it used and why it stopped, in words; the rest as it is. @param {{metadata: object}} props */
export function Metadata({ metadata }) {
  const { usage, stopReason, ...rest } = metadata ?? {};
  const used = usage && typeof usage === "object" ? Object.entries(usage) : [];
  const simple = used.filter(([, value]) => typeof value === "number").slice(0, FIGURES);
  const odd = used.filter((each) => !simple.includes(each));
  const others = { ...rest, ...(odd.length ? { usage: Object.fromEntries(odd) } : {}) };
  if (!used.length && stopReason === undefined && !Object.keys(rest).length) return null;
  return html`<${Card} title=${t("tasks.metadata")}>
    ${(simple.length > 0 || stopReason !== undefined) && html`<${Facts} items=${[
      stopReason !== undefined && [t("tasks.stop"), named("tasks.stop", stopReason)],
      ...simple.map(([name, value]) => [named("tasks.usage", name), number(value)]),
    ]} />`}
    ${Object.keys(others).length > 0 && html`<${Tree} value=${others} open=${3} />`}
  </${Card}>`;
}

/** In words where there are some for it. */
function named(prefix, name) {
  const key = `${prefix}.${plain(name)}`;
  return has(key) ? t(key) : html`<${Text} value=${name} />`;
}
