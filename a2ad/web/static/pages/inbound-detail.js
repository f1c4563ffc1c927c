import { act, get } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { brief, number } from "../lib/format.js";
import { Button, Card, Facts, Notice, PageHead, State, Tabs, Text, href, html, useAction, useConfirm } from "../lib/ui.js";
import { AgentCard } from "./inbound-card.js";
import { Chat } from "./inbound-chat.js";
import { forgetConversation } from "./inbound-conversation.js";
import { Edit } from "./inbound-form.js";
import { cardAddress, CopiedAddress, stateOf, Switch, tokenState } from "./inbound-row.js";
import { Token } from "./inbound-token.js";

const TABS = ["try", "card", "edit", "token"];

/**
 * One inbound server: what it is, and what can be done with it.
 * @param {{inbound: object, tab?: string, tasks: number | null, presets: object[], notice: object | null,
 *   onNotice: (notice: object | null) => void}} props `tasks` is how many it has, null where that is not known yet;
 * `notice` is what became of what led here
 */
export function Detail({ inbound, tab, tasks, presets, notice, onNotice }) {
  const panels = {
    try: () => html`<${Chat} inbound=${inbound} />`,
    card: () => html`<${Card}><${AgentCard} inbound=${inbound} /></${Card}>`,
    edit: () => html`<${Card}><${Edit} inbound=${inbound} presets=${presets} /></${Card}>`,
    token: () => html`<${Card}><${Token} inbound=${inbound} /></${Card}>`,
  };
  const select = (id) => location.replace(href("inbound", inbound.id, { tab: id }));
  return html`<nav class="crumbs" aria-label=${t("inbound.crumbs")}><a href=${href("inbound")}>${t("inbound.title")}</a></nav>
    <${Head} inbound=${inbound} tasks=${tasks} onRemoved=${onNotice} />
    <${Notice} notice=${notice} onClose=${() => onNotice(null)} />
    <${About} inbound=${inbound} tasks=${tasks} presets=${presets} />
    <${Tabs} label=${t("inbound.tabs")} selected=${tab} onSelect=${select}
      tabs=${TABS.map((id) => ({ id, label: t(`inbound.tab.${id}`), render: panels[id] }))} />`;
}

function Head({ inbound, tasks, onRemoved }) {
  const { busy, notice, run, clear } = useAction();
  const [ask, dialog] = useConfirm();
  const remove = async () => ask({
    title: t("inbound.remove.title", { name: brief(inbound.name) }),
    lost: await lost(inbound, tasks),
    action: t("inbound.remove"),
    run: () => act("inbound.remove", { id: inbound.id }),
    done: (answer) => {
      forgetConversation(inbound.id);
      onRemoved({ kind: "done", text: answer.message, at: "" });
      location.hash = href("inbound");
    },
  });
  return html`<${PageHead} title=${html`<${Text} value=${inbound.name} class="one-line" />`} lead=${html`<${Text} value=${inbound.description} class="one-line" />`}>
      <${Switch} inbound=${inbound} busy=${busy} run=${run} />
      <${Button} aria-haspopup="dialog" onClick=${remove}>${t("inbound.remove.ask")}</${Button}>
    </${PageHead}>
    <${Notice} notice=${notice} onClose=${clear} />${dialog}`;
}

/** What goes with it: its tasks by number, where that can be found out. */
async function lost(inbound, known) {
  let tasks = known;
  try {
    tasks = (await get("", { taskServerId: inbound.id, taskLimit: 1 })).taskTotal;
  } catch {
    // to remove it will say that the daemon is gone
  }
  return [
    t("inbound.remove.lost"),
    tasks === null ? t("inbound.remove.tasks") : tasks === 0 ? t("inbound.remove.tasks.none") : t("inbound.remove.tasks.count", { n: tasks }),
    t("inbound.remove.final"),
  ];
}

function About({ inbound, tasks, presets }) {
  const preset = presets.find((each) => each.id === inbound.preset)?.name ?? inbound.preset;
  return html`<${Card} class="about">
    ${inbound.error && html`<${Notice} notice=${{ kind: "failed", text: inbound.error }} />`}
    <${Facts} items=${[
      [t("inbound.state"), html`<${State} value=${stateOf(inbound)} />`],
      [t("inbound.address"), html`<${CopiedAddress} value=${inbound.cardUrl} label=${t("inbound.address.copy")} />`],
      [t("inbound.card"), html`<${CopiedAddress} value=${cardAddress(inbound)} label=${t("inbound.card.address.copy")} />`],
      [t("inbound.token"), tokenState(inbound)],
      [t("inbound.preset"), html`<${Text} value=${preset} class="one-line" />`],
      [t("inbound.skills"), inbound.skills.length ? inbound.skills.map(({ id, name }) => html`<span class="tag" key=${id}><${Text} value=${name} class="one-line" /></span> `) : "–"],
      [t("inbound.version"), html`<${Text} value=${inbound.version} class="one-line" />`],
      tasks !== null && [t("inbound.tasks"), html`<a href=${href("tasks", "", { server: inbound.id })}>${number(tasks)}</a>`],
    ]} /></${Card}>`;
}
