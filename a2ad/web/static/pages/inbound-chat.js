import { remember, remembered, t } from "../lib/i18n.js";
import { beginning, brief, visible } from "../lib/format.js";
import { Button, Card, Empty, Field, html, textOf, useEffect, useRef, useState } from "../lib/ui.js";
import { conversationWith } from "./inbound-conversation.js";
import { TurnView } from "./inbound-said.js";
import { WireView } from "./inbound-wire.js";

const WIRE = "a2ad.inbound.wire";
/** How near its end a log counts as followed, in pixels. */
const NEAR = 60;
/** What is read out of an answer, in characters. */
const READ_OUT = 300;

/**
 * A small chat with a published agent, and the wire beside it.
 * @param {{inbound: object}} props its row of the snapshot
 */
export function Chat({ inbound }) {
  const conversation = useConversation(inbound.id);
  const [wire, setWire] = useState(() => remembered(WIRE) === "shown");
  const [skill, setSkill] = useState("");
  const composer = useRef(null);
  const show = (shown) => {
    remember(WIRE, shown ? "shown" : "hidden");
    setWire(shown);
  };
  const write = () => composer.current?.querySelector("textarea")?.focus();
  const again = () => {
    conversation.restart();
    write();
  };
  return html`<div class="try ${wire ? "with-wire" : ""}">
    <${Card} class="chat" title=${t("inbound.chat")} aside=${html`
        <${Button} small aria-pressed=${wire ? "true" : "false"} onClick=${() => show(!wire)}>${t("inbound.wire.show")}</${Button}>
        <${Button} small disabled=${!conversation.turns.length} onClick=${again}>${t("inbound.chat.new")}</${Button}>`}>
      ${(!inbound.enabled || inbound.error) && html`<p class="muted">${t("inbound.chat.not")}</p>`}
      <${Log} conversation=${conversation} inbound=${inbound} onAnswered=${write} />
      <div ref=${composer}><${Composer} conversation=${conversation} inbound=${inbound} skill=${skill} onSkill=${setSkill} /></div>
      <${ReadOut} turn=${conversation.last} />
    </${Card}>
    ${wire && html`<${WireView} wire=${conversation.wire} />`}
  </div>`;
}

function useConversation(inboundId) {
  const conversation = conversationWith(inboundId);
  const [, drawn] = useState(0);
  useEffect(() => conversation.listen(() => drawn((n) => n + 1)), [conversation]);
  return conversation;
}

/** The turns; it follows what comes while it is looked at by its end. */
function Log({ conversation, inbound, onAnswered }) {
  const element = useRef(null);
  const follows = useRef(true);
  useEffect(() => {
    if (element.current && follows.current) element.current.scrollTop = element.current.scrollHeight;
  });
  if (!conversation.turns.length) {
    return html`<${Empty} title=${t("inbound.chat.none")}><p>${t("inbound.chat.help")}</p></${Empty}>`;
  }
  const onScroll = ({ currentTarget: at }) => {
    follows.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR;
  };
  return html`<div class="log" ref=${element} onScroll=${onScroll} tabindex="0" role="region" aria-label=${t("inbound.chat.log")}>
    ${conversation.turns.map((turn, i) => html`<${TurnView} key=${`${inbound.id} ${i}`} turn=${turn} version=${turn.version}
      conversation=${conversation} name=${inbound.name} onAnswered=${onAnswered} />`)}</div>`;
}

function Composer({ conversation, inbound, skill, onSkill }) {
  const asked = conversation.last?.waiting;
  const sendable = asked || !conversation.busy;
  const several = inbound.skills.length > 1;
  const send = (event) => {
    event?.preventDefault();
    if (!conversation.draft.trim() || !sendable) return;
    conversation.send(conversation.draft, { skill: several ? skill || first(inbound) : "" });
  };
  const [, drawn] = useState(0);
  const onInput = (text) => {
    conversation.draft = text;
    drawn((n) => n + 1);
  };
  const onKeyDown = (event) => {
    // the Enter that ends an input method's composition sends nothing; Safari has that as 229 alone
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  };
  return html`<form class="composer" onSubmit=${send}>
    <${Field} name="text" type="textarea" rows="2" value=${conversation.draft} onInput=${onInput} onKeyDown=${onKeyDown}
      label=${t(asked ? "inbound.chat.answer" : "inbound.chat.message")} hint=${t("inbound.chat.keys")} autocomplete="off" />
    <div class="composer-actions">
      ${several && !asked && html`<${Field} name="skill" type="select" label=${t("inbound.chat.skill")} value=${skill || first(inbound)}
        onInput=${onSkill} options=${inbound.skills.map(({ id, name }) => ({ value: id, label: brief(name) }))} />`}
      <${Button} type="submit" kind="primary" disabled=${!sendable}>${t(asked ? "inbound.chat.reply" : "inbound.chat.send")}</${Button}>
    </div>
  </form>`;
}

/** The skill that a message without one is for. */
const first = ({ skills }) => (skills.find(({ id }) => id === "chat") ?? skills[0])?.id ?? "";

/** Tells those who hear the page what has come of a turn, once it rests: not each piece of it. */
function ReadOut({ turn }) {
  const [said, setSaid] = useState("");
  const phase = turn && `${turn.phase} ${turn.state} ${Boolean(turn.reply)}`;
  useEffect(() => setSaid(turn ? outcome(turn) : ""), [turn, phase]);
  return html`<p class="sr-only" role="status" data-read-out>${said || null}</p>`;
}

function outcome(turn) {
  if (turn.waiting) return t("inbound.read.asks", { text: shortened(textOf(turn.question.parts)) });
  if (turn.phase === "lost") return t("inbound.chat.lost");
  if (turn.phase === "failed") return t("inbound.read.failed", { text: shortened(turn.error) });
  if (turn.phase !== "rest") return "";
  const text = shortened(turn.answer);
  return turn.reply ? text : t("inbound.read.answer", { state: t(`state.${turn.state}`), text });
}

const shortened = (text) => visible(beginning(text, READ_OUT)).trim();
