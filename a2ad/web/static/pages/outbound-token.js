import { act } from "../lib/api.js";
import { t, tx } from "../lib/i18n.js";
import { Button, Card, Field, Form, Text, html, useConfirm, useForm } from "../lib/ui.js";

/** Sets and clears the token, which is never shown. @param {{row: object}} props a connection of the snapshot */
export function Token({ row }) {
  const [ask, dialog] = useConfirm();
  const form = useForm({ token: "" }, async ({ token }) => {
    const answer = await act("outbound.setAuth", { id: row.id, token });
    form.set("token", "");
    return answer;
  });
  const clear = () => ask({
    title: t("outbound.token.clear.title"),
    lost: [t("outbound.token.clear.lost"), ...(row.bearerTokenEnv ? [t("outbound.token.clear.variable")] : [])],
    action: t("outbound.token.clear"),
    run: () => act("outbound.setAuth", { id: row.id }),
  });
  return html`<${Card} title=${t("outbound.token")} aside=${t(row.tokenSet ? "outbound.token.set" : "outbound.token.unset")}>
    <p class="muted">${t("outbound.token.help")} ${row.bearerTokenEnv
      && tx("outbound.token.before", { variable: html`<${Text} value=${row.bearerTokenEnv} class="mono" />` })}</p>
    ${dialog}
    <${Form} form=${form} submit=${t("outbound.token.do")} kind="plain">
      <${Field} ...${form.field("token")} type="password" autocomplete="new-password" label=${t("outbound.token.new")} required />
    </${Form}>
    ${row.tokenSet && html`<div><${Button} onClick=${clear} aria-haspopup="dialog">${t("outbound.token.clear")}</${Button}></div>`}
  </${Card}>`;
}
