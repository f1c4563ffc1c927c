import { useLive } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { brief, exactTime, number, visible } from "../lib/format.js";
import { Button, Card, Empty, Field, PageHead, Pager, State, Table, Text, Time, href, html, useEffect, useRef,
  useState } from "../lib/ui.js";
import { useFocusKept, useSteady } from "./tasks-steady.js";

export const STATES = ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED", "COMPLETED", "FAILED", "CANCELED", "REJECTED"];
const SIZES = [25, 50, 100, 200];
const DEFAULT_SIZE = 50;
/** How long after the last key what was typed counts, in milliseconds. */
const TYPED = 400;

/** All tasks, the newest change first. @param {{params: Record<string, string>}} props the filters, as in the address */
export default function TaskList({ params }) {
  const wanted = understood(params);
  const { snapshot, tasks, taskTotal } = useLive({
    taskLimit: wanted.size, taskOffset: wanted.offset, taskServerId: wanted.server, taskContextId: wanted.context,
    taskState: wanted.state && `TASK_STATE_${wanted.state}`,
  });
  const shown = useLast(tasks && { tasks, total: taskTotal });
  useEffect(() => {
    if (tasks && !tasks.length && wanted.offset) go({ ...wanted, offset: lastOffset(taskTotal, wanted.size) });
  }, [tasks, taskTotal]);
  const change = (some) => go({ ...wanted, offset: 0, ...some });
  return html`<${PageHead} title=${t("tasks.title")} lead=${t("tasks.lead")} />
    <${Card} title=${t("tasks.list")} aside=${tasks && t("tasks.total", { n: taskTotal })}>
      <${Filters} wanted=${wanted} inbounds=${snapshot.inbounds} onChange=${change} />
      ${shown ? html`<${Rows} shown=${shown} waiting=${!tasks} wanted=${wanted} inbounds=${snapshot.inbounds} onChange=${change} />`
        : html`<p class="muted" role="status" aria-busy="true">${t("app.loading")}</p>`}
      ${shown && html`<${Pages} wanted=${wanted} total=${shown.total} onChange=${change} />`}
    </${Card}>`;
}

/** What the address asks for; the daemon refuses a page that it does not understand. */
function understood({ state = "", server = "", context = "", offset, size }) {
  return {
    state: STATES.includes(state) ? state : "", server, context,
    offset: /^\d{1,9}$/.test(offset ?? "") ? Number(offset) : 0,
    size: SIZES.includes(Number(size)) ? Number(size) : DEFAULT_SIZE,
  };
}

/** The filters stay in the address: to be kept, sent, and gone back to. */
const addressOf = ({ offset, size, ...filters }) =>
  href("tasks", "", { ...filters, offset: offset || "", size: size === DEFAULT_SIZE ? "" : size });

const go = (wanted) => location.replace(addressOf(wanted));

const lastOffset = (total, size) => Math.max(0, Math.floor((total - 1) / size) * size);

/** What there was last, until there is something again. */
function useLast(value) {
  const last = useRef(value);
  if (value) last.current = value;
  return last.current;
}

function Filters({ wanted, inbounds, onChange }) {
  const [context, setContext] = useState(wanted.context);
  const timer = useRef(0);
  useEffect(() => {
    setContext(wanted.context);
    return () => clearTimeout(timer.current);
  }, [wanted.context]);
  const settle = (text) => {
    clearTimeout(timer.current);
    if (text.trim() !== wanted.context) onChange({ context: text.trim() });
  };
  const type = (text) => {
    setContext(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => settle(text), TYPED);
  };
  const submit = (event) => {
    event.preventDefault();
    settle(context);
  };
  const states = [{ value: "", label: t("tasks.any") }, ...STATES.map((value) => ({ value, label: t(`state.${value}`) }))];
  return html`<form class="filters" role="search" aria-label=${t("tasks.filters")} onSubmit=${submit}>
    <${Field} name="state" type="select" label=${t("tasks.state")} options=${states} value=${wanted.state}
      onInput=${(state) => onChange({ state })} />
    <${Field} name="server" type="select" label=${t("tasks.server")} options=${servers(inbounds, wanted.server)}
      value=${wanted.server} onInput=${(server) => onChange({ server })} />
    <${Field} name="context" label=${t("tasks.context")} value=${context} onInput=${type} autocomplete="off"
      spellcheck=${false} class="mono" placeholder=${t("tasks.any")} />
    ${isFiltered(wanted) && html`<${Button} kind="quiet" onClick=${() => onChange({ state: "", server: "", context: "" })}>
      ${t("tasks.clear")}</${Button}>`}
  </form>`;
}

const isFiltered = ({ state, server, context }) => Boolean(state || server || context);

function servers(inbounds, chosen) {
  const known = inbounds.map(({ id, name }) => ({ value: id, label: brief(name) }));
  if (chosen && !inbounds.some(({ id }) => id === chosen)) known.push({ value: chosen, label: visible(chosen) });
  return [{ value: "", label: t("tasks.any") }, ...known];
}

function Rows({ shown, waiting, wanted, inbounds, onChange }) {
  const element = useRef(null);
  const rows = useSteady(shown.tasks, element, addressOf(wanted));
  useFocusKept(element);
  const names = new Map(inbounds.map((inbound) => [inbound.id, inbound.name]));
  const columns = [
    { key: "task", label: t("tasks.task"), class: "wide", render: (task) => html`<${Summary} task=${task} params=${wanted} />` },
    { key: "state", label: t("tasks.state"), render: (task) => html`<${State} value=${task.state} />` },
    { key: "server", label: t("tasks.server"), render: (task) => html`<a href=${href("inbound", task.serverId)} class="server">
      <${Text} value=${names.get(task.serverId) ?? task.serverId} class="one-line" /></a>` },
    { key: "skill", label: t("tasks.skill"), render: (task) => html`<${Text} value=${task.skill} class="one-line" />` },
    { key: "when", label: t("tasks.when"), render: (task) => html`<span title=${t("tasks.when.both",
      { created: exactTime(task.createdAt), updated: exactTime(task.updatedAt) })}><${Time} at=${task.updatedAt} /></span>` },
  ];
  return html`<div class="task-rows ${waiting ? "waiting" : ""}" ref=${element} tabindex="-1" aria-busy=${waiting ? "true" : "false"}>
    <${Table} caption=${t("tasks.list")} columns=${columns} rows=${rows} shown=${[addressOf(wanted), inbounds]}
      empty=${html`<${None} filtered=${isFiltered(wanted)} onChange=${onChange} />`} /></div>`;
}

const Summary = ({ task, params }) => html`<a class="summary" href=${href("tasks", task.id, back(params))}>
  <${Text} value=${task.summary || t("tasks.untitled")} class="one-line" /></a>
  ${task.error && task.error !== task.state && html`<p class="row-error"><${Text} value=${task.error} class="one-line" /></p>`}`;

/** A task's page leads back to where it was found. */
const back = ({ state, server, context, offset, size }) =>
  ({ state, server, context, offset: offset || "", size: size === DEFAULT_SIZE ? "" : size });

const None = ({ filtered, onChange }) => (filtered
  ? html`<${Empty} title=${t("tasks.none.filtered")}><p>${t("tasks.none.filtered.help")}</p>
      <${Button} onClick=${() => onChange({ state: "", server: "", context: "" })}>${t("tasks.clear")}</${Button}></${Empty}>`
  : html`<${Empty} title=${t("tasks.none")}><p>${t("tasks.none.help")}</p></${Empty}>`);

const Pages = ({ wanted, total, onChange }) => total > SIZES[0] && html`<div class="task-pages">
  <${Pager} offset=${wanted.offset} limit=${wanted.size} total=${total} onChange=${(offset) => onChange({ offset })} />
  <${Field} name="size" type="select" label=${t("tasks.size")} value=${String(wanted.size)}
    options=${SIZES.map((size) => ({ value: String(size), label: number(size) }))}
    onInput=${(size) => onChange({ size: Number(size), offset: Math.floor(wanted.offset / Number(size)) * Number(size) })} />
</div>`;
