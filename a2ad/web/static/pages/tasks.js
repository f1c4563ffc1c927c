import { useLive } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { Empty, PageHead, State, Table, Text, html } from "../lib/ui.js";

/** The tasks page. @param {id: string, params: Record<string, string>} props what follows `#/tasks/` */
export default function Tasks() {
  const { tasks } = useLive({ taskLimit: 50 });
  const rows = tasks ?? [];
  const columns = [
    { key: "name", label: t("tasks.name"), render: (row) => html`<${Text} value=${row.summary} />` },
    { key: "state", label: t("tasks.state"), render: (row) => html`<${State} value=${row.state} />` },
  ];
  return html`<${PageHead} title=${t("tasks.title")} lead=${t("tasks.lead")} />
    <${Table} caption=${t("tasks.title")} columns=${columns} rows=${rows}
      empty=${html`<${Empty} title=${t("tasks.none")} />`} />`;
}
