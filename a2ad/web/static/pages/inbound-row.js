import { act } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { brief, visible } from "../lib/format.js";
import { Address, Button, Copy, html } from "../lib/ui.js";

/** Where its card is. @param {object} inbound */
export const cardAddress = (inbound) => `${inbound.cardUrl}/agent-card.json`;

/** Whether it is served: `serving`, `disabled` or `error`. @param {object} inbound */
export const stateOf = (inbound) => (inbound.error ? "error" : inbound.enabled ? "serving" : "disabled");

/** An address with a button that copies it. @param {{value: string, label: string}} props */
export const CopiedAddress = ({ value, label }) => html`<span class="with-copy"><${Address} value=${value} /> <${Copy} text=${value} label=${label} /></span>`;

/** Enables or disables. @param {{inbound: object, busy: boolean, run: Function, small?: boolean}} props */
export function Switch({ inbound, busy, run, small }) {
  const action = inbound.enabled ? "disable" : "enable";
  const label = t(`inbound.${action}`);
  return html`<${Button} small=${small} busy=${busy} onClick=${() => run(() => act(`inbound.${action}`, { id: inbound.id }))}
    aria-label=${small ? t(`inbound.${action}.name`, { name: brief(inbound.name) }) : undefined}>${label}</${Button}>`;
}

/** A word about the token that counts now. @param {object} inbound */
export function tokenState(inbound) {
  const variable = visible(inbound.authTokenEnv);
  if (!inbound.tokenSet) return t(variable ? "inbound.token.state.missing" : "inbound.token.state.none", { variable });
  return t(variable ? "inbound.token.state.variable" : "inbound.token.state.set", { variable });
}
