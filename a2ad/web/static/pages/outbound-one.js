import { act } from "../lib/api.js";
import { live } from "../lib/live.js";
import { t, tx } from "../lib/i18n.js";
import { brief, duration, exactTime } from "../lib/format.js";
import { Address, Button, Card, Copy, Empty, Facts, LinkButton, LongText, Notice, PageHead, State, Text, href, html, useAction,
  useConfirm, useRef } from "../lib/ui.js";
import Call from "./outbound-call.js";
import { CardFacts } from "./outbound-preview.js";
import { Settings } from "./outbound-settings.js";
import { Skills } from "./outbound-skills.js";
import { Token } from "./outbound-token.js";

/** One connection: what it is, its skills, a call, its settings. @param {{id: string, outbounds: object[]}} props */
export default function Connection({ id, outbounds }) {
  const found = outbounds.find((each) => each.id === id);
  const last = useRef(found);
  if (found) last.current = found;
  if (!found) return html`<${Gone} id=${id} last=${last.current} />`;
  return html`<${Head} row=${found} />
    <${About} row=${found} />
    ${found.card && html`<${Call} row=${found} />`}
    ${found.card && html`<${Skills} row=${found} />`}
    <${Settings} row=${found} />
    <${Token} row=${found} />`;
}

const BackLink = () => html`<${LinkButton} kind="quiet" href=${href("outbound")}>${t("outbound.all")}</${LinkButton}>`;

function Gone({ id, last }) {
  const name = html`<${Text} value=${last?.name ?? id} class="one-line ${last ? "" : "mono"}" />`;
  return html`<${PageHead} title=${name}><${BackLink} /></${PageHead}>
    <${Card}><${Empty} title=${t(last ? "outbound.gone" : "outbound.unknown")}>
      <p role="status">${tx(last ? "outbound.gone.help" : "outbound.unknown.help", { name })}</p></${Empty}></${Card}>`;
}

function Head({ row }) {
  const { busy, notice, run, clear } = useAction();
  const [ask, dialog] = useConfirm();
  const change = (action) => run(async () => {
    const answer = await act(`outbound.${action}`, { id: row.id });
    await live.refresh();
    return answer;
  });
  const remove = () => ask({
    title: t("outbound.remove.title", { name: brief(row.name) }),
    lost: [t("outbound.remove.lost"), ...(row.toolCount ? [t("outbound.remove.tools", { n: row.toolCount })] : [])],
    action: t("outbound.remove"),
    run: () => act("outbound.remove", { id: row.id }),
    done: () => { location.hash = href("outbound"); },
  });
  return html`<${PageHead} title=${html`<${Text} value=${row.name} class="one-line" />`}
      lead=${html`<span role="status"><${State} value=${row.state} /></span>`}>
      <${BackLink} />
      ${row.enabled && html`<${Button} busy=${busy} onClick=${() => change("refresh")}>${t("outbound.refresh")}</${Button}>`}
      <${Button} busy=${busy} onClick=${() => change(row.enabled ? "disable" : "enable")}>${t(row.enabled ? "outbound.disable" : "outbound.enable")}</${Button}>
      <${Button} onClick=${remove} aria-haspopup="dialog">${t("outbound.remove")}</${Button}>
    </${PageHead}>
    ${dialog}
    <${Notice} notice=${notice} onClose=${clear} />
    ${row.lastError && html`<section class="notice failed" aria-label=${t("outbound.error")}><${LongText} value=${row.lastError} first=${1000} /></section>`}`;
}

function About({ row }) {
  const { card } = row;
  const url = html`<span class="with-copy"><${Address} value=${row.agentCardUrl} /><${Copy} text=${row.agentCardUrl} label=${t("outbound.url.copy")} /></span>`;
  const more = [
    [t("outbound.url.card"), url],
    [t("outbound.timeout.short"), duration(row.timeoutMs)],
    [t("outbound.token"), t(row.tokenSet ? "outbound.token.set" : "outbound.token.unset")],
    row.preset && [t("outbound.preset"), html`<${Text} value=${row.preset} />`],
    [t("outbound.created"), exactTime(row.createdAt)],
  ];
  if (!card) return html`<${Card} title=${t("outbound.about")}><p class="muted">${t("outbound.card.none")}</p><${Facts} items=${more} /></${Card}>`;
  return html`<${Card} title=${html`<${Text} value=${card.name} class="one-line" />`} aside=${card.version && html`<${Text} value=${card.version} class="one-line" />`}>
    ${card.description && html`<${LongText} value=${card.description} first=${500} />`}
    <${CardFacts} card=${card} more=${more} /></${Card}>`;
}
