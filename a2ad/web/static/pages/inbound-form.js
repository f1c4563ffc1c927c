import { act } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { visible } from "../lib/format.js";
import { Field, Form, html, useEdit, useForm } from "../lib/ui.js";

const FIRST = { name: "", description: "", version: "1.0.0", endpointPath: "", authTokenEnv: "", enabled: true };
const EDITED = ["name", "description", "version", "endpointPath", "preset", "authTokenEnv"];

/**
 * A new inbound server.
 * @param {{presets: object[], onDone: (answer: object) => Promise<void>, onCancel: () => void}} props
 */
export function Create({ presets, onDone, onCancel }) {
  const preset = presets.find((each) => each.isDefault)?.id ?? presets[0]?.id ?? "";
  const form = useForm({ ...FIRST, preset }, async (values) => {
    const answer = await act("inbound.create", filled(values));
    await onDone(answer);
    return answer;
  });
  return html`<${Form} form=${form} submit=${t("inbound.create")} onCancel=${onCancel}>
    <${Fields} form=${form} presets=${presets} pathHint=${t("inbound.form.path.new")} />
    <${Field} ...${form.field("enabled")} type="checkbox" label=${t("inbound.form.enabled")} hint=${t("inbound.form.enabled.hint")} />
  </${Form}>`;
}

/** One that there is. @param {{inbound: object, presets: object[]}} props */
export function Edit({ inbound, presets }) {
  const present = Object.fromEntries(EDITED.map((name) => [name, inbound[name] ?? ""]));
  const form = useEdit(present, (changed) => act("inbound.update", { id: inbound.id, ...changed }));
  return html`<${Form} form=${form} submit=${t("inbound.save")}>
    <${Fields} form=${form} presets=${presets} pathHint=${t("inbound.form.path.edit")} />
  </${Form}>`;
}

function Fields({ form, presets, pathHint }) {
  const { preset } = form.values;
  const known = presets.find((each) => each.id === preset);
  const options = presets.map((each) => ({ value: each.id, label: visible(each.name) }));
  if (!known) options.unshift({ value: preset, label: t("inbound.form.preset.gone", { preset: visible(preset) }) });
  return html`
    <${Field} ...${form.field("name")} label=${t("inbound.name")} required autocomplete="off" />
    <${Field} ...${form.field("description")} type="textarea" label=${t("inbound.description")} hint=${t("inbound.form.description.hint")} required />
    <${Field} ...${form.field("version")} label=${t("inbound.version")} required autocomplete="off" />
    <${Field} ...${form.field("preset")} type="select" label=${t("inbound.preset")} options=${options}
      hint=${visible(known?.description) || t("inbound.form.preset.hint")} />
    <${Field} ...${form.field("endpointPath")} label=${t("inbound.path")} hint=${pathHint} autocomplete="off" spellcheck=${false} />
    <${Field} ...${form.field("authTokenEnv")} label=${t("inbound.variable")} hint=${t("inbound.form.variable.hint")} autocomplete="off" spellcheck=${false} />`;
}

/** Without what was left open: the daemon has its own values for that. */
const filled = ({ endpointPath, authTokenEnv, preset, ...rest }) => ({
  ...rest, ...(endpointPath && { endpointPath }), ...(authTokenEnv && { authTokenEnv }), ...(preset && { preset }),
});
