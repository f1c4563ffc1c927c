import { useLive } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { Empty, PageHead, State, Table, Text, html } from "../lib/ui.js";

/** The inbound page. @param {id: string, params: Record<string, string>} props what follows `#/inbound/` */
export default function Inbound() {
  const { snapshot } = useLive();
  const rows = snapshot?.inbounds ?? [];
  const columns = [
    { key: "name", label: t("inbound.name"), render: (row) => html`<${Text} value=${row.name} />` },
    { key: "state", label: t("inbound.state"), render: (row) => html`<${State} value=${row.error ? "error" : row.enabled ? "serving" : "disabled"} />` },
  ];
  return html`<${PageHead} title=${t("inbound.title")} lead=${t("inbound.lead")} />
    <${Table} caption=${t("inbound.title")} columns=${columns} rows=${rows}
      empty=${html`<${Empty} title=${t("inbound.none")} />`} />`;
}
