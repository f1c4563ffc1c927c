import { act } from "./api.js";
import { t } from "./i18n.js";
import { exactTime } from "./format.js";
import { html, useState } from "./html.js";
import { Guard } from "./guard.js";
import { Field, Form, useForm } from "./form.js";
import { Notice, useAction } from "./feedback.js";
import { Button } from "./controls.js";
import { LongText, Text } from "./text.js";
import { Tree } from "./tree.js";

/** Options that are shown at first. */
const OPTIONS = 100;

/**
 * What a task asks, and the means to answer: a button for each option, or a text.
 * @param {{taskId: string, question: {question: string, options?: {id?: string, name?: string, kind?: string}[],
 *   deadline?: string, tool?: unknown}, onAnswered?: (answer: object) => void}} props as in a task's `question` and in the
 * snapshot's `attention`
 */
export const Question = (props) => html`<${Guard}><${Asked} ...${props} /></${Guard}>`;

function Asked({ taskId, question, onAnswered = () => {} }) {
  const { deadline, tool } = question;
  const options = optionsOf(question);
  const answer = async (given) => {
    const answered = await act("task.answer", { id: taskId, ...given });
    onAnswered(answered);
    return answered;
  };
  return html`<div class="question" data-question=${taskId}>
    ${question.question && html`<${LongText} value=${question.question} first=${1000} />`}
    ${tool && html`<${Tree} value=${tool} open=${3} />`}
    ${deadline && html`<p class="muted">${t("overview.answer.deadline", { at: exactTime(deadline) })}</p>`}
    ${options.length ? html`<${Options} options=${options} answer=${answer} />` : html`<${Answer} answer=${answer} />`}
  </div>`;
}

/** Those that can be chosen: each with the text that answers, and the one that is shown. @returns {{id: string, name: string}[]} */
export function optionsOf({ options }) {
  if (!Array.isArray(options)) return [];
  return options.flatMap((each) => {
    const [id, name] = [each?.id, each?.name].map((text) => (typeof text === "string" ? text : undefined));
    return (id ?? name) === undefined ? [] : [{ id: id ?? name, name: name ?? id }];
  });
}

/** A button for each option. @param {{options: {id: string, name: string}[], busy?: boolean, choose: (option: object) => void}} props */
export function Choices({ options, busy = false, choose }) {
  const [limit, setLimit] = useState(OPTIONS);
  return html`<div class="options" role="group" aria-label=${t("overview.answer.options")}>
    ${options.slice(0, limit).map((option, i) => html`<${Button} key=${i} disabled=${busy} onClick=${() => choose(option)}>
      <${Text} value=${option.name} /></${Button}>`)}
    ${options.length > limit && html`<${Button} small kind="quiet" onClick=${() => setLimit(limit * 4)}>${t("tree.more", { n: options.length - limit })}</${Button}>`}</div>`;
}

function Options({ options, answer }) {
  const { busy, notice, run, clear } = useAction();
  const choose = (option) => run(() => answer({ option: option.id }));
  return html`<${Choices} options=${options} busy=${busy} choose=${choose} /><${Notice} notice=${notice} onClose=${clear} />`;
}

function Answer({ answer }) {
  const form = useForm({ text: "" }, (values) => answer({ text: values.text }));
  return html`<${Form} form=${form} submit=${t("overview.answer")} class="inline">
    <${Field} ...${form.field("text")} label=${t("overview.answer.to")} required autocomplete="off" /></${Form}>`;
}
