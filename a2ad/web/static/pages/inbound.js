import { get } from "../lib/api.js";
import { live, useLive } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { brief } from "../lib/format.js";
import { Card, Empty, LinkButton, Notice, PageHead, State, Table, Text, explain, href, html, useAction, useEffect,
  useState } from "../lib/ui.js";
import { Detail } from "./inbound-detail.js";
import { Create } from "./inbound-form.js";
import { cardAddress, CopiedAddress, stateOf, Switch, tokenState } from "./inbound-row.js";

/** In the place of an id: the form for a new one. Ids end in eight hexadecimal digits. */
const NEW = "new";

/** The published agents. @param {{id: string, params: Record<string, string>}} props what follows `#/inbound/` */
export default function Inbound({ id, params }) {
  const one = id && id !== NEW;
  const { snapshot, tasks, taskTotal } = useLive(one ? { taskServerId: id } : {});
  const [notice, setNotice] = useNotice(id);
  const presets = usePresets(Boolean(id));
  if (id === NEW) return html`<${New} presets=${presets} onNotice=${setNotice} />`;
  if (!one) return html`<${All} rows=${snapshot.inbounds} notice=${notice} onNotice=${setNotice} />`;
  const inbound = snapshot.inbounds.find((each) => each.id === id);
  if (!inbound) return html`<${Unknown} />`;
  return html`<${Detail} key=${id} inbound=${inbound} tab=${params.tab} tasks=${tasks && taskTotal} presets=${presets.list ?? []}
    notice=${notice} onNotice=${setNotice} />`;
}

/** What became of an action that led to another place of this page: it stands there until that is left. */
function useNotice(id) {
  const [notice, setNotice] = useState(null);
  useEffect(() => setNotice((old) => (old?.at === id ? old : null)), [id]);
  return [notice?.at === id ? notice : null, setNotice];
}

/** What an agent can be made of, read when it is wanted. */
function usePresets(wanted) {
  const [presets, setPresets] = useState({ list: null, error: "" });
  useEffect(() => {
    if (!wanted) return undefined;
    const controller = new AbortController();
    get("/presets", {}, { signal: controller.signal }).then(
      (list) => setPresets({ list, error: "" }),
      (error) => error.name !== "AbortError" && setPresets((old) => ({ ...old, error: explain(error) })),
    );
    return () => controller.abort();
  }, [wanted]);
  return presets;
}

function New({ presets, onNotice }) {
  const done = async (answer) => {
    await live.refresh();
    onNotice({ kind: "done", text: answer.message, at: answer.id });
    location.hash = href("inbound", answer.id);
  };
  return html`<nav class="crumbs" aria-label=${t("inbound.crumbs")}><a href=${href("inbound")}>${t("inbound.title")}</a></nav>
    <${PageHead} title=${t("inbound.new")} lead=${t("inbound.new.lead")} />
    ${presets.error && html`<${Notice} notice=${{ kind: "failed", text: presets.error }} />`}
    <${Card}>${presets.list
      ? html`<${Create} presets=${presets.list} onDone=${done} onCancel=${() => { location.hash = href("inbound"); }} />`
      : html`<p class="muted" aria-busy=${presets.error ? undefined : "true"}>${t("app.loading")}</p>`}</${Card}>`;
}

function Unknown() {
  return html`<${PageHead} title=${t("inbound.unknown")} />
    <${Card}><${Empty} title=${t("inbound.unknown.help")}><${LinkButton} href=${href("inbound")}>${t("inbound.all")}</${LinkButton}></${Empty}></${Card}>`;
}

function All({ rows, notice, onNotice }) {
  const { busy, notice: done, run, clear } = useAction();
  const [switched, setSwitched] = useState("");
  const runOn = (row) => (work) => {
    setSwitched(row.id);
    return run(work);
  };
  const columns = [
    { key: "name", label: t("inbound.name"), class: "wide", render: (row) => html`<a href=${href("inbound", row.id)}><${Text} value=${row.name} class="one-line" /></a>
      ${row.error ? html`<p class="row-error"><${Text} value=${row.error} class="one-line" /></p>`
        : html`<span class="row-about muted"><${Text} value=${row.description} class="one-line" /></span>`}` },
    { key: "state", label: t("inbound.state"), render: (row) => html`<${State} value=${stateOf(row)} />` },
    { key: "card", label: t("inbound.card"), class: "wide", render: (row) => html`<${CopiedAddress} value=${cardAddress(row)} label=${t("inbound.card.address.copy.name", { name: brief(row.name) })} />` },
    { key: "token", label: t("inbound.token"), render: (row) => (row.tokenSet || row.authTokenEnv ? tokenState(row) : t("inbound.token.none")) },
    { key: "actions", label: t("inbound.actions"), class: "actions", render: (row) => html`
      <${LinkButton} small href=${href("inbound", row.id, { tab: "try" })} aria-label=${t("inbound.try.name", { name: brief(row.name) })}>${t("inbound.tab.try")}</${LinkButton}>
      <${Switch} small inbound=${row} busy=${busy && switched === row.id} run=${runOn(row)} />` },
  ];
  const none = html`<${Empty} title=${t("inbound.none")}><p>${t("inbound.none.help")}</p>
    <${LinkButton} kind="primary" href=${href("inbound", NEW)}>${t("inbound.new")}</${LinkButton}></${Empty}>`;
  return html`<${PageHead} title=${t("inbound.title")} lead=${t("inbound.lead")}>
      ${rows.length > 0 && html`<${LinkButton} kind="primary" href=${href("inbound", NEW)}>${t("inbound.new")}</${LinkButton}>`}</${PageHead}>
    <${Notice} notice=${notice} onClose=${() => onNotice(null)} />
    <${Notice} notice=${done} onClose=${clear} />
    <${Card}><${Table} caption=${t("inbound.title")} columns=${columns} rows=${rows} empty=${none} /></${Card}>`;
}
