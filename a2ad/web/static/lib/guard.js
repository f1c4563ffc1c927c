import { useErrorBoundary } from "../vendor/hooks.js";
import { t } from "./i18n.js";
import { html } from "./html.js";

/** What cannot be drawn leaves the rest of the page as it is. @param {{children: unknown}} props */
export function Guard({ children }) {
  const [error] = useErrorBoundary((thrown) => console.error(thrown));
  return error ? html`<p class="notice failed" role="alert">${t("app.failed.part")}</p>` : children;
}
