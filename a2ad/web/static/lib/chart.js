import { t } from "./i18n.js";
import { clockTime, number } from "./format.js";
import { html } from "./html.js";

const [WIDTH, HEIGHT, GAP] = [480, 84, 2];

/**
 * A bar for each minute; the words beside it say the same to those who do not see it.
 * @param {{label: string, tone: "good" | "bad", minutes: {at: string, n: number}[]}} props oldest first
 */
export function Chart({ label, tone, minutes }) {
  const most = Math.max(...minutes.map(({ n }) => n), 0);
  const total = minutes.reduce((sum, { n }) => sum + n, 0);
  const width = WIDTH / Math.max(1, minutes.length);
  const height = (n) => (n ? Math.max(3, (n / most) * (HEIGHT - 4)) : 0);
  const words = t("overview.chart.most", { label, total, most });
  return html`<figure class="chart ${tone}" data-chart=${tone}>
    <figcaption><span>${label}</span><strong>${number(total)}</strong></figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${words}>
      <line x1="0" x2=${WIDTH} y1=${HEIGHT - 0.5} y2=${HEIGHT - 0.5} />
      ${minutes.map(({ at, n }, i) => html`<g key=${at}><title>${t("overview.chart.minute", { at: clockTime(at), n })}</title>
        <rect class="hit" x=${i * width} y="0" width=${width} height=${HEIGHT} />
        ${n > 0 && html`<rect x=${i * width + GAP / 2} y=${HEIGHT - height(n)} width=${width - GAP} height=${height(n)} rx="1.5" />`}
      </g>`)}
    </svg>
    <p class="axis" aria-hidden="true"><span>${t("overview.chart.ago")}</span>
      <span>${most > 0 ? t("overview.chart.busiest", { most }) : ""}</span><span>${t("overview.chart.now")}</span></p>
  </figure>`;
}
