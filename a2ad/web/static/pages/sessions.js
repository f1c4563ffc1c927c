import { act } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { shortId } from "../lib/format.js";
import { Button, Card, Copy, Empty, PageHead, State, Table, Text, Time, href, html, useConfirm } from "../lib/ui.js";

/** Who is connected, and which conversations are live. */
export default function Sessions() {
  const { snapshot } = useLive();
  const names = new Map(snapshot.inbounds.map((inbound) => [inbound.id, inbound.name]));
  return html`<${PageHead} title=${t("sessions.title")} lead=${t("sessions.lead")} />
    <${Peers} rows=${snapshot.peers} names=${names} />
    <${Live} rows=${snapshot.sessions} names=${names} />`;
}

function Peers({ rows, names }) {
  const [ask, dialog] = useConfirm();
  const disconnect = (peer) => ask({
    title: t("sessions.disconnect.title", { source: peer.source }),
    lost: t("sessions.disconnect.lost"),
    action: t("sessions.disconnect"),
    run: () => act("inbound.close", { id: peer.id }),
  });
  const columns = [
    { key: "source", label: t("sessions.source"), render: (peer) => html`<${Text} value=${peer.source} class="mono" />` },
    { key: "method", label: t("sessions.method"), render: (peer) => html`<${Text} value=${peer.method} /> <span class="tag">${t(peer.streaming ? "sessions.kind.stream" : "sessions.kind.request")}</span>` },
    { key: "server", label: t("sessions.server"), render: (peer) => server(peer.serverId, names) },
    { key: "tasks", label: t("sessions.tasks"), render: (peer) => peer.taskIds.length ? peer.taskIds.map(task) : "–" },
    { key: "since", label: t("sessions.since"), render: (peer) => html`<${Time} at=${peer.connectedAt} />` },
    { key: "actions", label: t("sessions.actions"), class: "actions", render: (peer) =>
      html`<${Button} small onClick=${() => disconnect(peer)}>${t("sessions.disconnect")}</${Button}>` },
  ];
  return html`<${Card} title=${t("sessions.peers")} aside=${rows.length || null}>
    ${dialog}
    <${Table} caption=${t("sessions.peers")} columns=${columns} rows=${rows}
      empty=${html`<${Empty} title=${t("sessions.peers.none")}><p>${t("sessions.peers.help")}</p></${Empty}>`} /></${Card}>`;
}

function Live({ rows, names }) {
  const [ask, dialog] = useConfirm();
  const end = (session, what, lost) => ask({
    title: t(`sessions.${what}.title`),
    lost,
    action: t(`sessions.${what}`),
    run: () => act(`session.${what}`, { id: session.contextId, serverId: session.serverId }),
  });
  const cancel = (session) => end(session, "cancel", t("sessions.cancel.lost"));
  const close = (session) => end(session, "close",
    [t("sessions.close.lost"), ...(session.taskId ? [t("sessions.close.busy")] : [])]);
  const columns = [
    { key: "context", label: t("sessions.context"), render: (session) => html`<span class="with-copy">
      <span class="id" title=${session.contextId}><${Text} value=${shortId(session.contextId)} class="mono" /></span>
      <${Copy} text=${session.contextId} label=${t("sessions.context.copy")} /></span>` },
    { key: "server", label: t("sessions.server"), render: (session) => server(session.serverId, names) },
    { key: "agent", label: t("sessions.agent"), render: (session) => html`<${Text} value=${session.agent} class="one-line" />` },
    { key: "state", label: t("sessions.state"), render: (session) => html`<${State} value=${session.state} />
      ${session.taskId && html` ${task(session.taskId)}`}` },
    { key: "turns", label: t("sessions.turns"), class: "number", render: (session) => session.turns },
    { key: "active", label: t("sessions.active"), render: (session) => html`<${Time} at=${session.lastActiveAt} />` },
    { key: "actions", label: t("sessions.actions"), class: "actions", render: (session) => html`
      ${session.taskId && html`<${Button} small onClick=${() => cancel(session)}>${t("sessions.cancel")}</${Button}>`}
      <${Button} small onClick=${() => close(session)}>${t("sessions.close")}</${Button}>` },
  ];
  return html`<${Card} title=${t("sessions.live")} aside=${rows.length || null}>
    ${dialog}
    <${Table} caption=${t("sessions.live")} columns=${columns} rows=${rows}
      rowId=${(session) => session.contextId} rowKey=${(session) => `${session.serverId} ${session.contextId}`}
      empty=${html`<${Empty} title=${t("sessions.live.none")}><p>${t("sessions.live.help")}</p></${Empty}>`} /></${Card}>`;
}

const task = (id) => html`<a key=${id} class="id mono" href=${href("tasks", id)} title=${id}>${shortId(id)}</a> `;

const server = (id, names) => html`<a href=${href("inbound", id)}><${Text} value=${names.get(id) ?? id} class="one-line" /></a>`;
