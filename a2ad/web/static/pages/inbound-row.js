import { act } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { beginning, visible } from "../lib/format.js";
import { Button, Copy, Text, html } from "../lib/ui.js";

/** Of a name within a sentence, in characters. */
const NAME = 80;

/** Where its card is. @param {object} inbound */
export const cardAddress = (inbound) => `${inbound.cardUrl}/agent-card.json`;

/** Its name as far as it fits into a sentence. @param {object} inbound */
export const nameOf = ({ name }) => `${visible(beginning(name, NAME))}${name.length > NAME ? "…" : ""}`;

/** Whether it is served: `serving`, `disabled` or `error`. @param {object} inbound */
export const stateOf = (inbound) => (inbound.error ? "error" : inbound.enabled ? "serving" : "disabled");

/** An address with a button that copies it. @param {{value: string, label: string}} props */
export const Address = ({ value, label }) => html`<span class="address"><${Text} value=${value} class="mono" /> <${Copy} text=${value} label=${label} /></span>`;

/** Enables or disables. @param {{inbound: object, busy: boolean, run: Function, small?: boolean}} props */
export function Switch({ inbound, busy, run, small }) {
  const action = inbound.enabled ? "disable" : "enable";
  const label = t(`inbound.${action}`);
  return html`<${Button} small=${small} busy=${busy} onClick=${() => run(() => act(`inbound.${action}`, { id: inbound.id }))}
    aria-label=${small ? t(`inbound.${action}.name`, { name: nameOf(inbound) }) : undefined}>${label}</${Button}>`;
}

/** A word about the token that counts now. @param {object} inbound */
export function tokenState(inbound) {
  const variable = visible(inbound.authTokenEnv);
  if (!inbound.tokenSet) return t(variable ? "inbound.token.state.missing" : "inbound.token.state.none", { variable });
  return t(variable ? "inbound.token.state.variable" : "inbound.token.state.set", { variable });
}
