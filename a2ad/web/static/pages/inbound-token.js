import { act } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { brief, visible } from "../lib/format.js";
import { Button, Copy, Field, Form, html, useConfirm, useForm, useState } from "../lib/ui.js";
import { tokenState } from "./inbound-row.js";

/** How random a token is that is made here, in bytes. */
const RANDOM = 32;

/** The token that clients have to send: set it, or clear it. It is never shown. @param {{inbound: object}} props */
export function Token({ inbound }) {
  const [made, setMade] = useState("");
  const [ask, dialog] = useConfirm();
  const form = useForm({ token: "" }, async ({ token }) => {
    const answer = await act("inbound.setAuth", { id: inbound.id, token: required(token) });
    form.set("token", "");
    setMade("");
    return answer;
  });
  const field = form.field("token");
  const type = (token) => {
    setMade("");
    field.onInput(token);
  };
  const make = () => {
    const token = randomToken();
    form.set("token", token);
    setMade(token);
  };
  const clear = () => ask({
    title: t("inbound.token.clear.title", { name: brief(inbound.name) }),
    lost: t(inbound.authTokenEnv ? "inbound.token.clear.variable" : "inbound.token.clear.open", { variable: visible(inbound.authTokenEnv) }),
    action: t("inbound.token.clear"),
    run: () => act("inbound.setAuth", { id: inbound.id, token: null }),
  });
  return html`<div class="token">
    <p>${tokenState(inbound)}</p>
    ${dialog}
    <${Form} form=${form} submit=${t(inbound.tokenSet ? "inbound.token.replace" : "inbound.token.set")} autocomplete="off">
      <${Field} ...${field} onInput=${type} type="password" autocomplete="off" spellcheck=${false} label=${t("inbound.token.new")}
        hint=${t("inbound.token.hint")} />
      <div class="token-make"><${Button} onClick=${make}>${t("inbound.token.make")}</${Button}></div>
      ${made && html`<div class="made" role="status"><p>${t("inbound.token.made")}</p>
        <p class="made-token"><code>${made}</code> <${Copy} text=${made} label=${t("inbound.token.copy")} /></p></div>`}
    </${Form}>
    ${inbound.tokenSet && html`<p><${Button} aria-haspopup="dialog" onClick=${clear}>${t("inbound.token.clear")}</${Button}></p>`}
  </div>`;
}

/** `setAuth` takes an empty token for none: to clear it is another button. */
function required(token) {
  if (token) return token;
  const error = new Error(t("inbound.token.empty"));
  error.errors = { token: [error.message] };
  throw error;
}

function randomToken() {
  const bytes = crypto.getRandomValues(new Uint8Array(RANDOM));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
