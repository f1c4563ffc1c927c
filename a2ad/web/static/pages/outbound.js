import { useLive } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { Empty, PageHead, State, Table, Text, html } from "../lib/ui.js";

/** The outbound page. @param {id: string, params: Record<string, string>} props what follows `#/outbound/` */
export default function Outbound() {
  const { snapshot } = useLive();
  const rows = snapshot?.outbounds ?? [];
  const columns = [
    { key: "name", label: t("outbound.name"), render: (row) => html`<${Text} value=${row.name} />` },
    { key: "state", label: t("outbound.state"), render: (row) => html`<${State} value=${row.state} />` },
  ];
  return html`<${PageHead} title=${t("outbound.title")} lead=${t("outbound.lead")} />
    <${Table} caption=${t("outbound.title")} columns=${columns} rows=${rows}
      empty=${html`<${Empty} title=${t("outbound.none")} />`} />`;
}
