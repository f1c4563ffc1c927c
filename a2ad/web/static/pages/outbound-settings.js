import { act } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { Card, Field, Form, html, useEdit } from "../lib/ui.js";
import { PresetField, Timeout, milliseconds, usePresets } from "./outbound-connect.js";

/** What the daemon takes in another form than a field has it. */
const read = ({ timeoutMs, tokenOrigins }) => ({
  ...(timeoutMs !== undefined && { timeoutMs: milliseconds(timeoutMs) }),
  ...(tokenOrigins !== undefined && { tokenOrigins: tokenOrigins.split(/\s+/).filter(Boolean) }),
});

/** What can be changed of a connection. @param {{row: object}} props a connection of the snapshot */
export function Settings({ row }) {
  const presets = usePresets();
  const first = {
    name: row.name, timeoutMs: String(row.timeoutMs), bearerTokenEnv: row.bearerTokenEnv ?? "", preset: row.preset ?? "",
    tokenOrigins: row.tokenOrigins.join("\n"),
  };
  const form = useEdit(first, (changed) => act("outbound.update", { id: row.id, ...changed, ...read(changed) }));
  return html`<${Card} title=${t("outbound.settings")}>
    <${Form} form=${form} submit=${t("outbound.settings.save")} kind="plain">
      <${Field} ...${form.field("name")} label=${t("outbound.name")} hint=${t("outbound.name.hint")} required autocomplete="off" />
      <${Timeout} form=${form} />
      <${Field} ...${form.field("bearerTokenEnv")} label=${t("outbound.variable")} hint=${t("outbound.variable.hint")}
        autocomplete="off" spellcheck=${false} />
      <${Field} ...${form.field("tokenOrigins")} type="textarea" label=${t("outbound.origins")} hint=${t("outbound.origins.hint")}
        spellcheck=${false} rows="2" class="mono origins" />
      <${PresetField} form=${form} presets=${presets} />
    </${Form}></${Card}>`;
}
