import { t } from "./i18n.js";
import { visible } from "./format.js";
import { html, uniqueId, useEffect, useRef, useState } from "./html.js";
import { Notice, useAction } from "./feedback.js";
import { Button } from "./controls.js";

/**
 * A labelled input with its hint and its errors.
 * @param {{name: string, label: string, hint?: unknown, type?: string, value: unknown, onInput: (value: unknown) => void,
 *   errors?: string[], required?: boolean, options?: {value: string, label: string}[]}} props `type` is an input's, or
 * `textarea`, `select` (with `options`), `checkbox`; others go to the element
 */
export function Field({ name, label, hint, type = "text", value, onInput, errors = [], required = false, options, ...rest }) {
  const [id] = useState(() => uniqueId(name));
  const described = [hint && `${id}-hint`, errors.length && `${id}-errors`].filter(Boolean).join(" ");
  const attributes = { id, name, required, "aria-invalid": errors.length ? "true" : undefined,
    "aria-describedby": described || undefined, ...rest };
  const input = element({ type, value, onInput, options, attributes });
  const labelled = html`<label for=${id}>${label}${!required || type === "checkbox" ? "" : html`<span class="required" aria-hidden="true"> *</span>`}</label>`;
  return html`<div class="field ${type} ${errors.length ? "invalid" : ""}" data-field=${name}>
    ${type === "checkbox" ? html`<div class="check">${input}${labelled}</div>` : html`${labelled}${input}`}
    ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}
    ${errors.length > 0 && html`<p class="errors" id="${id}-errors">${visible(errors.join("; "))}</p>`}
  </div>`;
}

function element({ type, value, onInput, options, attributes }) {
  const changed = (event) => onInput(event.currentTarget.value);
  if (type === "textarea") return html`<textarea ...${attributes} dir="auto" value=${value} onInput=${changed} />`;
  if (type === "select") {
    return html`<select ...${attributes} value=${value} onChange=${changed}>
      ${options.map((option) => html`<option key=${`${option.value} ${option.label}`} value=${option.value} selected=${option.value === value}>${option.label}</option>`)}</select>`;
  }
  if (type === "checkbox") {
    return html`<input ...${attributes} type="checkbox" checked=${Boolean(value)}
      onChange=${(event) => onInput(event.currentTarget.checked)} />`;
  }
  return html`<input ...${attributes} type=${type} dir="auto" value=${value} onInput=${changed} />`;
}

/**
 * The values of a form, and what becomes of sending them.
 * @param {object} initial the fields' first values
 * @param {(values: object) => Promise<any>} submit such as `(values) => act("inbound.create", values)`
 * @returns {object} `values`, `set(name, value)`, `field(name)` (the props of a Field), `busy`, `notice`, `unsaid()`
 * (the notice, where the fields do not say it already), `reset()`, and `onSubmit`, which is {@link Form}'s
 */
export function useForm(initial, submit) {
  const [values, setValues] = useState(initial);
  const action = useAction();
  const form = useRef(null);
  useEffect(() => {
    if (Object.keys(action.errors).length) form.current?.querySelector("[aria-invalid=true]")?.focus();
  }, [action.errors]);
  const set = (name, value) => setValues((old) => ({ ...old, [name]: value }));
  const onSubmit = (event) => {
    event.preventDefault();
    const missing = emptyFields(form.current);
    return action.run(() => (missing.length ? refuse(missing) : submit(values)));
  };
  const fields = new Set();
  const field = (name) => {
    fields.add(name);
    return { name, value: values[name], onInput: (value) => set(name, value), errors: errorsOf(action.errors, name) };
  };
  const said = (paths) => paths.length > 0 && paths.every((path) => [...fields].some((name) => isOf(path, name)));
  const unsaid = () => (said(Object.keys(action.errors)) ? null : action.notice);
  return { ...action, unsaid, values, set, field, onSubmit, form, reset: () => (setValues(initial), action.clear()) };
}

/**
 * As {@link useForm}, for something that there is: only what was changed here is sent, so what is changed elsewhere
 * meanwhile stays.
 * @param {object} present what it is when the form opens
 * @param {(changed: object) => Promise<any>} submit
 */
export function useEdit(present, submit) {
  const [shown, setShown] = useState(present);
  return useForm(present, async (values) => {
    const changed = Object.entries(values).filter(([name, value]) => value !== shown[name]);
    if (!changed.length) return { message: t("form.unchanged") };
    const answer = await submit(Object.fromEntries(changed));
    setShown(values);
    return answer;
  });
}

/** Whether an error's path is a field, or something in it: `skills` has those of `skills[0]` and `skills.x`, too. */
const isOf = (path, name) => path === name || (path.startsWith(name) && /^[.[]/.test(path.slice(name.length)));

const emptyFields = (form) => [...(form?.querySelectorAll("[required]") ?? [])]
  .filter((each) => each.type !== "checkbox" && !each.value.trim()).map((each) => each.name);

/** What the daemon would refuse, without asking it. */
async function refuse(names) {
  throw Object.assign(new Error(t("form.required")), { errors: Object.fromEntries(names.map((name) => [name, [t("form.required")]])) });
}

function errorsOf(errors, name) {
  return Object.entries(errors).filter(([path]) => isOf(path, name)).flatMap(([path, texts]) =>
    (path === name ? texts : texts.map((text) => `${path}: ${text}`)));
}

/**
 * A form with its button and what became of it.
 * @param {{form: object, submit: string, kind?: string, onCancel?: () => void, children?: unknown}} props `form` is what
 * {@link useForm} returned; `submit` is the button's text
 */
export function Form({ form, submit, kind = "primary", onCancel, children, class: name = "", ...rest }) {
  return html`<form ...${rest} ref=${form.form} onSubmit=${form.onSubmit} novalidate class="form ${name}">
    ${children}
    <${Unsaid} form=${form} />
    <div class="form-actions">
      <${Button} type="submit" kind=${kind} busy=${form.busy}>${submit}</${Button}>
      ${onCancel && html`<${Button} onClick=${onCancel}>${t("form.cancel")}</${Button}>`}
    </div>
  </form>`;
}

/** After the form's fields have been drawn, wherever they are: what stands at one of them is said there alone. */
const Unsaid = ({ form }) => html`<${Notice} notice=${form.unsaid()} onClose=${form.clear} />`;
