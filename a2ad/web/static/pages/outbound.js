import { act } from "../lib/api.js";
import { live, useLive } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { brief } from "../lib/format.js";
import { Button, Card, Empty, LinkButton, Notice, PageHead, Pager, State, Table, Text, href, html, useAction,
  useState } from "../lib/ui.js";
import Connect from "./outbound-connect.js";
import Connection from "./outbound-one.js";

/** Connections that are shown at once. */
const ROWS = 50;

/** The connections to remote agents, or one of them. @param {{id: string, params: Record<string, string>}} props */
export default function Outbound({ id, params }) {
  const { snapshot } = useLive();
  if (id) return html`<${Connection} key=${id} id=${id} outbounds=${snapshot.outbounds} />`;
  return html`<${PageHead} title=${t("outbound.title")} lead=${t("outbound.lead")}>
      ${!params.new && html`<${LinkButton} kind="primary" href=${href("outbound", "", { new: 1 })}>${t("outbound.new")}</${LinkButton}>`}
    </${PageHead}>
    ${params.new && html`<${Connect} />`}
    <${List} rows=${snapshot.outbounds} />`;
}

function List({ rows }) {
  const [offset, setOffset] = useState(0);
  const { busy, notice, run, clear } = useAction();
  const from = Math.min(offset, Math.max(0, Math.floor((rows.length - 1) / ROWS) * ROWS));
  const [changed, setChanged] = useState("");
  const change = (action, { id }) => run(async () => {
    setChanged(`${action} ${id}`);
    const answer = await act(`outbound.${action}`, { id });
    await live.refresh();
    return answer;
  });
  const columns = [
    { key: "name", label: t("outbound.name"), class: "wide", render: (row) => html`<${Name} row=${row} />` },
    { key: "state", label: t("outbound.state"), render: (row) => html`<${State} value=${row.state} />` },
    { key: "agent", label: t("outbound.agent"), render: (row) => (row.card
      ? html`<${Text} value=${row.card.name} class="one-line" />` : html`<span class="muted">–</span>`) },
    { key: "tools", label: t("outbound.tools"), class: "number", render: (row) =>
      t("outbound.tools.of", { tools: row.toolCount, skills: row.skillCount }) },
    { key: "actions", label: t("outbound.actions"), class: "actions", render: (row) => html`
      ${row.enabled && html`<${Button} small busy=${busy && changed === `refresh ${row.id}`} onClick=${() => change("refresh", row)}
        aria-label=${t("outbound.refresh.of", { name: brief(row.name) })}>${t("outbound.refresh")}</${Button}>`}
      <${Button} small busy=${busy && changed.endsWith(`able ${row.id}`)} onClick=${() => change(row.enabled ? "disable" : "enable", row)}
        aria-label=${t(row.enabled ? "outbound.disable.of" : "outbound.enable.of", { name: brief(row.name) })}>
        ${t(row.enabled ? "outbound.disable" : "outbound.enable")}</${Button}>` },
  ];
  return html`<${Card} title=${t("outbound.list")} aside=${rows.length || null} class="connections">
    <${Notice} notice=${notice} onClose=${clear} />
    <${Table} caption=${t("outbound.list")} columns=${columns} rows=${rows.slice(from, from + ROWS)}
      empty=${html`<${Empty} title=${t("outbound.none")}><p>${t("outbound.none.help")}</p></${Empty}>`} />
    <${Pager} offset=${from} limit=${ROWS} total=${rows.length} onChange=${setOffset} /></${Card}>`;
}

const Name = ({ row }) => html`<a href=${href("outbound", row.id)} ><${Text} value=${row.name} class="one-line" /></a>
  ${row.lastError ? html`<p class="row-error"><${Text} value=${row.lastError} class="one-line" /></p>`
    : html`<p class="where"><${Text} value=${row.agentCardUrl} class="mono one-line" /></p>`}`;
