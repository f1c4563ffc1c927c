import { act, get } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { beginning, brief, duration } from "../lib/format.js";
import { Button, Card, Field, Form, href, html, useEffect, useForm, useRef, useState } from "../lib/ui.js";
import { Preview } from "./outbound-preview.js";

/** Where nothing else is said, in milliseconds. */
const TIMEOUT = 60_000;

/** From an address to a connection: first what is there, then how to call it. */
export default function Connect() {
  const [found, setFound] = useState(null);
  return html`<${Card} title=${t("outbound.connect")} class="connect">
    <${Discover} onFound=${setFound} />
    ${found && html`<${Settle} key=${found.key} found=${found} />`}</${Card}>`;
}

function Discover({ onFound }) {
  const count = useRef(0);
  const tell = (values, preview) => onFound({ ...values, preview, key: ++count.current });
  const form = useForm({ agentCardUrl: "", token: "" }, async (values) => {
    onFound(null);
    const { preview } = await act("outbound.discover", { agentCardUrl: values.agentCardUrl.trim(), token: values.token });
    tell(values, preview);
  });
  const failed = form.notice?.kind === "failed";
  return html`<p class="muted">${t("outbound.discover.help")}</p>
    <${Form} form=${form} submit=${t("outbound.discover")} onCancel=${() => { location.hash = href("outbound"); }}>
      <${Field} ...${form.field("agentCardUrl")} label=${t("outbound.url")} hint=${t("outbound.url.hint")} required
        inputmode="url" autocomplete="off" spellcheck=${false} placeholder="https://agent.example" />
      <${Field} ...${form.field("token")} type="password" autocomplete="new-password" label=${t("outbound.token")}
        hint=${t("outbound.token.optional")} />
    </${Form}>
    ${failed && form.values.agentCardUrl.trim() && html`<p class="muted">${t("outbound.blind.help")}
      <${Button} small kind="quiet" onClick=${() => tell(form.values, null)}>${t("outbound.blind")}</${Button}></p>`}`;
}

/** @param {{found: {agentCardUrl: string, token: string, preview: object | null}}} props without a preview, it starts disabled */
function Settle({ found }) {
  const { preview, token } = found;
  const presets = usePresets();
  const made = useRef(null);
  const first = { name: suggested(preview), timeoutMs: String(TIMEOUT), bearerTokenEnv: "", preset: "", enabled: Boolean(preview) };
  const form = useForm(first, async (values) => {
    made.current ??= await create(values, found);
    const answer = await finish(made.current, values, token);
    location.hash = href("outbound", made.current.id);
    return answer;
  });
  return html`${preview && html`<${Preview} card=${preview} />`}
    <${Form} form=${form} submit=${t("outbound.connect.do")} class="settle" aria-label=${t("outbound.connect")}>
      <${Field} ...${form.field("name")} label=${t("outbound.name")} hint=${t("outbound.name.hint")} required autocomplete="off" />
      <${Timeout} form=${form} />
      <${Field} ...${form.field("bearerTokenEnv")} label=${t("outbound.variable")} hint=${t("outbound.variable.hint")}
        autocomplete="off" spellcheck=${false} />
      <${PresetField} form=${form} presets=${presets} />
      <${Field} ...${form.field("enabled")} type="checkbox" label=${t("outbound.enabled")}
        hint=${t(preview ? "outbound.enabled.hint" : "outbound.enabled.blind")} />
    </${Form}>`;
}

/** A token goes in before the first contact: the card itself may need it. */
function create({ name, timeoutMs, bearerTokenEnv, preset, enabled }, { agentCardUrl, token }) {
  return act("outbound.create", {
    name, agentCardUrl: agentCardUrl.trim(), timeoutMs: milliseconds(timeoutMs), enabled: enabled && !token,
    ...(bearerTokenEnv ? { bearerTokenEnv } : {}), ...(preset ? { preset } : {}),
  });
}

async function finish(answer, { enabled }, token) {
  if (!token) return answer;
  await act("outbound.setAuth", { id: answer.id, token });
  if (enabled) await act("outbound.enable", { id: answer.id });
  return answer;
}

const suggested = (preview) => beginning((preview?.name ?? "").trim().toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, ""), 40);

/** What was typed, as the daemon takes it: it says itself what is no number. @param {string} text */
export const milliseconds = (text) => (/^\d{1,15}$/.test(text.trim()) ? Number(text) : text);

/** The field of a timeout, which says what that is. @param {{form: object}} props */
export function Timeout({ form }) {
  const value = milliseconds(form.values.timeoutMs);
  const hint = typeof value === "number" ? t("outbound.timeout.hint", { time: duration(value) }) : t("outbound.timeout.plain");
  return html`<${Field} ...${form.field("timeoutMs")} label=${t("outbound.timeout")} hint=${hint} inputmode="numeric" autocomplete="off" />`;
}

/** The presets there are, null until they are known. */
export function usePresets() {
  const [presets, setPresets] = useState(null);
  useEffect(() => {
    const controller = new AbortController();
    get("/presets", {}, { signal: controller.signal }).then(setPresets, () => {});
    return () => controller.abort();
  }, []);
  return presets;
}

/** @param {{form: object, presets: object[] | null}} props */
export function PresetField({ form, presets }) {
  const known = (presets ?? []).map(({ id, name }) => ({ value: id, label: brief(name || id) }));
  const chosen = form.values.preset;
  if (chosen && !known.some(({ value }) => value === chosen)) known.push({ value: chosen, label: chosen });
  return html`<${Field} ...${form.field("preset")} type="select" label=${t("outbound.preset")} hint=${t("outbound.preset.hint")}
    options=${[{ value: "", label: t("outbound.preset.none") }, ...known]} />`;
}
