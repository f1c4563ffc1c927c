import { render } from "./vendor/preact.js";
import { useErrorBoundary } from "./vendor/hooks.js";
import { html, useEffect, useRef, useState } from "./lib/html.js";
import { LANGUAGES, remember, remembered, setLanguage, t, useLanguage } from "./lib/i18n.js";
import { live, useSnapshot } from "./lib/live.js";
import { href, PAGES, useRoute } from "./lib/route.js";
import { Button, Icon } from "./lib/controls.js";
import { LongText } from "./lib/text.js";
import Overview from "./pages/overview.js";
import Inbound from "./pages/inbound.js";
import Outbound from "./pages/outbound.js";
import Tasks from "./pages/tasks.js";
import Sessions from "./pages/sessions.js";

const COMPONENTS = { overview: Overview, inbound: Inbound, outbound: Outbound, tasks: Tasks, sessions: Sessions };
const THEME = "a2ad.theme";
const THEMES = ["auto", "light", "dark"];

function App() {
  const language = useLanguage();
  const route = useRoute();
  const { snapshot, status } = useSnapshot();
  const main = useRef(null);
  useFocusOnChange(main, `${route.page}/${route.id}`);
  useEffect(() => {
    document.title = `${t(`nav.${route.page}`)} · a2ad`;
  }, [route.page, language]);
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${(event) => skip(event, main.current)}>${t("app.skip")}</a>
    <header class="bar">
      <a class="brand" href=${href("overview")}><${Mark} /><span>a2ad</span></a>
      <${Connection} status=${status} />
      <${Settings} language=${language} />
    </header>
    <${Navigation} page=${route.page} snapshot=${snapshot} />
    <div class="content">
      ${status === "offline" && html`<${Offline} first=${!snapshot} />`}
      <main id="main" tabindex="-1" ref=${main} data-page=${route.page} key=${route.page} aria-busy=${snapshot ? undefined : "true"}>
        ${snapshot ? html`<${Page} route=${route} />` : html`<${Waiting} page=${route.page} />`}
      </main>
    </div>
  </div>`;
}

/** A page of its own error boundary: what goes wrong in one leaves the others and the navigation as they are. */
function Page({ route }) {
  const [error, reset] = useErrorBoundary((thrown) => console.error(thrown));
  useEffect(() => reset, [route.page]);
  if (error) {
    return html`<h1 tabindex="-1">${t("app.failed")}</h1><p>${t("app.failed.help")}</p>
      <${LongText} code value=${`${error.message}\n${error.stack}`} />
      <${Button} kind="primary" onClick=${() => location.reload()}>${t("app.reload")}</${Button}>`;
  }
  return html`<${COMPONENTS[route.page]} id=${route.id} params=${route.params} />`;
}

/** Until there is a snapshot nothing is known; that it is asked for is said all the same. */
function Waiting({ page }) {
  useEffect(() => live.ask({ taskLimit: 1 }), []);
  return html`<h1 tabindex="-1">${t(`nav.${page}`)}</h1><p class="muted" role="status">${t("app.loading")}</p>`;
}

/** Screen readers are told of another page by its heading; the first page is read from its beginning. */
function useFocusOnChange(main, place) {
  const before = useRef(place);
  useEffect(() => {
    if (before.current === place) return;
    before.current = place;
    scrollTo(0, 0);
    (main.current.querySelector("h1") ?? main.current).focus({ preventScroll: true });
  }, [place]);
}

function skip(event, main) {
  event.preventDefault();
  main.focus();
}

const Mark = () => html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" />
  <path d="M8 12h13l-4-4M24 20H11l4 4" /></svg>`;

const Connection = ({ status }) => html`<p class="connection ${status}" role="status"><span class="dot" aria-hidden="true" />
  <span>${t(`live.${status}`)}</span></p>`;

const Offline = ({ first }) => html`<div class="banner" role="alert" data-banner="offline"><${Icon} name="warning" />
  <p>${t(first ? "live.banner.first" : "live.banner")} <span class="muted">${t("live.start")}</span></p></div>`;

function Navigation({ page, snapshot }) {
  const counts = {
    overview: snapshot?.attention.length, inbound: snapshot?.inbounds.length, outbound: snapshot?.outbounds.length,
    sessions: snapshot?.sessions.length,
  };
  return html`<nav class="nav" aria-label=${t("app.nav")}><ul>${PAGES.map((each) => html`<li key=${each}>
    <a href=${href(each)} aria-current=${each === page ? "page" : undefined}><${Icon} name=${each} />
      <span>${t(`nav.${each}`)}</span>${counts[each] > 0 && html`<${Count} page=${each} n=${counts[each]} />`}</a></li>`)}</ul></nav>`;
}

const Count = ({ page, n }) => (page === "overview"
  ? html`<span class="count alert" title=${t("attention.count", { n })}><span aria-hidden="true">${n}</span>
      <span class="sr-only">${t("attention.count", { n })}</span></span>`
  : html`<span class="count">${n}</span>`);

function Settings({ language }) {
  const [theme, setTheme] = useState(() => (THEMES.includes(remembered(THEME)) ? remembered(THEME) : "auto"));
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    remember(THEME, theme);
  }, [theme]);
  return html`<div class="settings">
    <label><span class="sr-only">${t("app.language")}</span>
      <select name="language" value=${language} onChange=${(event) => setLanguage(event.currentTarget.value)}>
        ${Object.entries(LANGUAGES).map(([value, label]) => html`<option key=${value} value=${value} lang=${value} selected=${value === language}>${label}</option>`)}
      </select></label>
    <label><span class="sr-only">${t("app.theme")}</span>
      <select name="theme" value=${theme} onChange=${(event) => setTheme(event.currentTarget.value)}>
        ${THEMES.map((value) => html`<option key=${value} value=${value} selected=${value === theme}>${t(`theme.${value}`)}</option>`)}
      </select></label>
  </div>`;
}

render(html`<${App} />`, document.getElementById("app"));
