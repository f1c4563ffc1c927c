import { act } from "./api.js";
import { t } from "./i18n.js";
import { exactTime } from "./format.js";
import { html } from "./html.js";
import { Field, Form, useForm } from "./form.js";
import { Notice, useAction } from "./feedback.js";
import { Button } from "./controls.js";
import { LongText, Text } from "./text.js";
import { Tree } from "./tree.js";

/**
 * What a task asks, and the means to answer: a button for each option, or a text.
 * @param {{taskId: string, question: {question: string, options?: {id?: string, name?: string, kind?: string}[],
 *   deadline?: string, tool?: unknown}, onAnswered?: (answer: object) => void}} props as in a task's `question` and in the
 * snapshot's `attention`
 */
export function Question({ taskId, question, onAnswered = () => {} }) {
  const { options = [], deadline, tool } = question;
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

function Options({ options, answer }) {
  const { busy, notice, run, clear } = useAction();
  const choose = (option) => run(() => answer({ option: option.id ?? option.name }));
  return html`<div class="options" role="group" aria-label=${t("overview.answer.options")}>
      ${options.map((option, i) => html`<${Button} key=${i} disabled=${busy} onClick=${() => choose(option)}>
        <${Text} value=${option.name ?? option.id} /></${Button}>`)}</div>
    <${Notice} notice=${notice} onClose=${clear} />`;
}

function Answer({ answer }) {
  const form = useForm({ text: "" }, (values) => answer({ text: values.text }));
  return html`<${Form} form=${form} submit=${t("overview.answer")} class="inline">
    <${Field} ...${form.field("text")} label=${t("overview.answer.to")} required autocomplete="off" /></${Form}>`;
}
