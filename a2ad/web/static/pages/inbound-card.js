import { get } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { Copy, Facts, LongText, Notice, Table, Text, explain, html, useEffect, useState } from "../lib/ui.js";

const list = (value) => (Array.isArray(value) ? value : []);
const words = (values) => html`<${Text} value=${list(values).join(", ") || "–"} />`;

/** The card as clients see it. @param {{inbound: object}} props */
export function AgentCard({ inbound }) {
  const [{ card, error }, setState] = useState({ card: null, error: "" });
  const row = JSON.stringify(inbound);
  useEffect(() => {
    const controller = new AbortController();
    get("/card", { id: inbound.id }, { signal: controller.signal }).then(
      (found) => setState({ card: found, error: "" }),
      (thrown) => thrown.name !== "AbortError" && setState((old) => ({ ...old, error: explain(thrown) })),
    );
    return () => controller.abort();
  }, [row]);
  const failed = error && html`<${Notice} notice=${{ kind: "failed", text: error }} />`;
  if (!card) return failed || html`<p class="muted" aria-busy="true">${t("app.loading")}</p>`;
  return html`<div class="agent-card">${failed}
    ${(!inbound.enabled || inbound.error) && html`<p class="muted">${t("inbound.card.not")}</p>`}
    <${Readable} card=${card} />
    <${Raw} card=${card} />
  </div>`;
}

function Readable({ card }) {
  const capabilities = card.capabilities ?? {};
  return html`<${Facts} items=${[
      [t("inbound.name"), html`<${Text} value=${card.name} />`],
      [t("inbound.version"), html`<${Text} value=${card.version} />`],
      [t("inbound.card.provider"), html`<${Text} value=${card.provider?.organization} /> <${Text} value=${card.provider?.url} class="mono" />`],
      [t("inbound.description"), html`<${Text} value=${card.description} />`],
      ...list(card.supportedInterfaces).map((each) => [t("inbound.card.interface"), html`<${Text} value=${each.url} class="mono" />${" "}
        <${Text} value=${`${each.protocolBinding} ${each.protocolVersion}`} />`]),
      [t("inbound.card.capabilities"), words(Object.keys(capabilities).filter((name) => capabilities[name] === true))],
      [t("inbound.card.input"), words(card.defaultInputModes)],
      [t("inbound.card.output"), words(card.defaultOutputModes)],
      [t("inbound.card.security"), t(list(card.securityRequirements).length ? "inbound.card.security.token" : "inbound.card.security.none")],
    ]} />
    <h3>${t("inbound.skills")}</h3>
    <${Table} caption=${t("inbound.skills")} rows=${list(card.skills)} columns=${[
      { key: "id", label: t("inbound.card.skill.id"), render: (skill) => html`<${Text} value=${skill.id} class="mono" />` },
      { key: "name", label: t("inbound.name"), render: (skill) => html`<${Text} value=${skill.name} class="one-line" />` },
      { key: "description", label: t("inbound.description"), render: (skill) => html`<${Text} value=${skill.description} />` },
      { key: "tags", label: t("inbound.card.skill.tags"), render: (skill) => words(skill.tags) },
    ]} />`;
}

function Raw({ card }) {
  const [open, setOpen] = useState(false);
  const text = JSON.stringify(card, null, 2);
  return html`<details class="raw-card" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${t("inbound.card.raw")}</summary>
    ${open && html`<div><${Copy} text=${text} label=${t("inbound.card.copy")} /><${LongText} code value=${text} name="agent-card.json" /></div>`}
  </details>`;
}
