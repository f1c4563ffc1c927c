import { act } from "../lib/api.js";
import { live } from "../lib/live.js";
import { t } from "../lib/i18n.js";
import { brief, visible } from "../lib/format.js";
import { Button, Card, Copy, Empty, Field, Form, Notice, Pager, Text, html, useAction, useForm, useState } from "../lib/ui.js";

/** Skills that are shown at once. */
const ROWS = 20;

/** The skills of an agent, each a tool: which are offered, and under which words. @param {{row: object}} props */
export function Skills({ row }) {
  const [offset, setOffset] = useState(0);
  const { busy, notice, run, clear } = useAction();
  const { skills } = row.card;
  const from = Math.min(offset, Math.max(0, Math.floor((skills.length - 1) / ROWS) * ROWS));
  // what is sent next builds on what is stored now: the snapshot has to have it before
  const update = async (fields) => {
    const answer = await act("outbound.update", { id: row.id, ...fields });
    await live.refresh();
    return answer;
  };
  const turn = (skill, on) => run(() => {
    const others = row.disabledSkills.filter((each) => each !== skill.id);
    return update({ disabledSkills: on ? others : [...others, skill.id] });
  });
  const off = skills.filter((skill) => row.disabledSkills.includes(skill.id)).length;
  return html`<${Card} title=${t("outbound.skills")} aside=${t("outbound.skills.on", { on: skills.length - off, all: skills.length })} class="skills">
    <p class="muted">${t("outbound.skills.help")}</p>
    <${Notice} notice=${notice} onClose=${clear} />
    ${skills.length ? html`<ul class="skill-list">${skills.slice(from, from + ROWS).map((skill) => html`
      <${Skill} key=${skill.id} skill=${skill} row=${row} busy=${busy} turn=${turn} update=${update} />`)}</ul>`
      : html`<${Empty} title=${t("outbound.skills.none")} />`}
    <${Pager} offset=${from} limit=${ROWS} total=${skills.length} onChange=${setOffset} /></${Card}>`;
}

function Skill({ skill, row, busy, turn, update }) {
  const [editing, setEditing] = useState(false);
  const [done, setDone] = useState(null);
  const override = row.skillOverrides[skill.id] ?? {};
  const on = !row.disabledSkills.includes(skill.id);
  const name = override.name || skill.name;
  const description = override.description ?? skill.description;
  const saved = (answer) => {
    setEditing(false);
    setDone({ kind: "done", text: answer.message });
  };
  return html`<li class="skill ${on ? "" : "off"}" data-id=${skill.id}>
    <div class="skill-head">
      <h3><${Text} value=${name} class="one-line" /></h3>
      ${(override.name || override.description) && html`<span class="tag">${t("outbound.override.tag")}</span>`}
      <label class="offered"><input type="checkbox" checked=${on} disabled=${busy} aria-label=${t("outbound.skill.on.of", { name: brief(name) })}
        onChange=${(event) => turn(skill, event.currentTarget.checked)} /><span>${t("outbound.skill.on")}</span></label>
    </div>
    ${description && description !== name && html`<p><${Text} value=${description} class="one-line" /></p>`}
    <p class="tool"><${Text} value=${row.tools?.[skill.id] ?? ""} class="mono" />
      <${Copy} text=${row.tools?.[skill.id] ?? ""} label=${t("outbound.tool.copy", { name: brief(name) })} />
      ${!editing && html`<${Button} small kind="quiet" onClick=${() => (setDone(null), setEditing(true))}
        aria-label=${t("outbound.override.of", { name: brief(name) })}>${t("outbound.override")}</${Button}>`}</p>
    <${Notice} notice=${done} onClose=${() => setDone(null)} />
    ${editing && html`<${Override} skill=${skill} row=${row} update=${update} onDone=${saved} onCancel=${() => setEditing(false)} />`}
  </li>`;
}

function Override({ skill, row, update, onDone, onCancel }) {
  const override = row.skillOverrides[skill.id] ?? {};
  const form = useForm({ name: override.name ?? "", description: override.description ?? "" }, async (values) => {
    const { [skill.id]: _, ...others } = row.skillOverrides;
    const own = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, value.trim()]).filter(([, value]) => value));
    const skillOverrides = Object.keys(own).length ? { ...others, [skill.id]: own } : others;
    onDone(await update({ skillOverrides }).catch(refused(skill.id)));
  });
  return html`<${Form} form=${form} submit=${t("outbound.override.save")} onCancel=${onCancel} class="override">
    <p class="muted">${t("outbound.override.help")}</p>
    <${Field} ...${form.field("name")} label=${t("outbound.override.name")} placeholder=${visible(skill.name)} autocomplete="off" />
    <${Field} ...${form.field("description")} type="textarea" label=${t("outbound.override.description")} placeholder=${visible(skill.description)} />
  </${Form}>`;
}

/** The daemon names a field by its place among all overrides; here there is one. */
function refused(skillId) {
  const prefix = `skillOverrides.${skillId}.`;
  return (error) => {
    const own = (path) => (path.startsWith(prefix) ? path.slice(prefix.length) : path);
    error.errors = Object.fromEntries(Object.entries(error.errors ?? {}).map(([path, texts]) => [own(path), texts]));
    throw error;
  };
}
