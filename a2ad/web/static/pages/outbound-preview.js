import { t } from "../lib/i18n.js";
import { Address, Button, Facts, LongText, Text, html, useState } from "../lib/ui.js";

/** Skills that are shown at first. */
const SKILLS = 10;

/** An agent as its card describes it. @param {{card: object}} props as `outbound.discover` previews it */
export function Preview({ card }) {
  const [limit, setLimit] = useState(SKILLS);
  return html`<section class="preview" aria-label=${t("outbound.preview")} role="status">
    <h3><${Text} value=${card.name} class="one-line" /> ${card.version && html`<span class="tag"><${Text} value=${card.version} /></span>`}</h3>
    ${card.description && html`<${LongText} value=${card.description} first=${500} />`}
    <${CardFacts} card=${card} />
    <h4>${t("outbound.preview.skills", { n: card.skills.length })}</h4>
    <ul class="preview-skills">${card.skills.slice(0, limit).map((skill) => html`<li key=${skill.id} data-skill=${skill.id}>
      <strong><${Text} value=${skill.name} class="one-line" /></strong>
      ${skill.id !== skill.name && html` <${Text} value=${skill.id} class="mono muted" />`}
      ${skill.description && skill.description !== skill.name && html`<p class="muted"><${Text} value=${skill.description} class="one-line" /></p>`}</li>`)}</ul>
    ${card.skills.length > limit && html`<${Button} small onClick=${() => setLimit(Infinity)}>
      ${t("tree.more", { n: card.skills.length - limit })}</${Button}>`}
  </section>`;
}

/** What a card says of how it is called. @param {{card: object, more?: [string, unknown][]}} props */
export const CardFacts = ({ card, more = [] }) => html`<${Facts} items=${[
  [t("outbound.endpoint"), html`<${Address} value=${card.endpoint} />`],
  [t("outbound.protocol"), html`A2A <${Text} value=${card.protocolVersion} />`],
  [t("outbound.streaming"), t(card.streaming ? "outbound.yes" : "outbound.no")],
  ...more,
]} />`;
