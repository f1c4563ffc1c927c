"""One answer of a model: what its events have said so far, and what of that is passed on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from a2ad.agents.openai.calls import CallDrafts, FunctionCall
from a2ad.agents.openai.halves import HalfJoiner, loads_halves, whole
from a2ad.agents.openai.keys import Key
from a2ad.agents.openai.thoughts import ThoughtFilter
from a2ad.errors import ParseError, RemoteAway, RemoteError, RemoteInvalid, RemoteRefused
from a2ad.outbound.text import QUOTED, StreamMask, line

#: text, reasoning and arguments of one answer, in characters; an event counts for some itself: so many at least, else
#: a sixteenth of its bytes
MAX_CHARACTERS, EVENT_CHARACTERS = 16 << 20, 32
#: arrays and objects in one event
MAX_CONTAINERS = 100_000
#: tokens of one answer: what is more is a mistake
MOST_TOKENS = 1 << 53
#: in which field of a message endpoints put the reasoning
REASONING = ("reasoning_content", "reasoning")
_STOP_REASONS = {"length": "max_tokens", "model_length": "max_tokens", "content_filter": "refusal"}
#: how endpoints say that they broke off
_BROKEN = frozenset({"error", "abort", "insufficient_system_resource"})

#: where endpoints put their words for what went wrong, and how deep these are looked for
_SAYING, _LEVELS = ("error", "errors", "message", "msg", "detail"), 5


class Reply:
    """Takes the events of one answer. `text` is what was passed on: without reasoning, and without the key."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self.reset()

    def reset(self) -> None:
        """Forget what was said: it is asked for again."""
        self._text: list[str] = []
        self._halves = HalfJoiner()
        self._thoughts = ThoughtFilter()
        self._mask = StreamMask(self._key.mask)
        self._reasoning: list[str] = []
        self._reasoning_field = ""
        self._drafts = CallDrafts()
        self._size = 0
        self._overhead = 0
        self._refused = False
        #: the endpoint's word for why it ended, None while it goes on
        self.finish: str | None = None
        #: tokens in and out, where the endpoint says them
        self.usage: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def passed_on(self) -> bool:
        return bool(self._text)

    @property
    def started(self) -> bool:
        """It says something, be it only why it ended."""
        return self.finish is not None or self._size > 0

    @property
    def stop_reason(self) -> str:
        return "refusal" if self._refused else _STOP_REASONS.get(self.finish or "", "end_turn")

    def take(self, data: bytes) -> str:
        """One event, or a whole answer: the text in it that can be passed on now.

        Raises `RemoteInvalid` for what is no chat completion or too much of one; where the endpoint says that it
        failed, `RemoteAway` if it may go better next time, else `RemoteRefused`.
        """
        try:
            chunk = loads_halves(data, MAX_CONTAINERS)
        except ParseError as error:
            raise RemoteInvalid(f"its endpoint sends what is not valid JSON ({error})") from None
        if not isinstance(chunk, dict):
            raise RemoteInvalid("its endpoint sends JSON that is no chat completion")
        if chunk.get("error"):
            raise _failure(chunk["error"])
        self._overhead += max(EVENT_CHARACTERS, len(data) // 16)
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        said = "".join(
            self._take_choice(choice)
            for choice in (choices if isinstance(choices, list) else ())
            if isinstance(choice, dict) and not choice.get("index")
        )
        if self._size + self._overhead > MAX_CHARACTERS:
            raise RemoteInvalid(f"its answer is longer than {MAX_CHARACTERS} characters")
        return self._pass_on(self._mask.feed(self._thoughts.feed(self._halves.feed(said))))

    def end(self) -> str:
        """The answer is complete: what was held back of its text. Raises `RemoteInvalid`."""
        last = self._thoughts.feed(self._halves.end()) + self._thoughts.end()
        rest = self._pass_on(self._mask.feed(last) + self._mask.end())
        known = self.finish in {None, "stop", "tool_calls", "function_call", *_STOP_REASONS}
        if not known and not self.passed_on and not self._drafts:
            raise RemoteInvalid(f"it says nothing and ends with the reason {line(self.finish, QUOTED)!r}")
        return rest

    def calls(self, taken: Collection[str]) -> list[FunctionCall]:
        """The functions that it calls, none where it was cut off or refused. `taken` are ids that are used already."""
        return self._drafts.finished(taken, self._key.mask) if self.stop_reason == "end_turn" else []

    def message(self, calls: Collection[FunctionCall] = ()) -> dict[str, Any]:
        """As the endpoint gets it again: with its reasoning, which some insist on (and always without `<think>`)."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self._reasoning_field:
            message[self._reasoning_field] = self._key.mask(whole("".join(self._reasoning)))
        if calls:
            message["tool_calls"] = [call.to_json() for call in calls]
        return message

    def _take_usage(self, usage: Any) -> None:
        """Only where both counts can be such."""
        if isinstance(usage, dict):
            tokens_in, tokens_out = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
            if tokens_in is not None and tokens_out is not None:
                self.usage = tokens_in, tokens_out

    def _take_choice(self, choice: dict[str, Any]) -> str:
        delta = choice.get("delta") or choice.get("message")
        said = self._take_delta(delta) if isinstance(delta, dict) else ""
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason in _BROKEN:
                raise RemoteAway(f"its endpoint broke off ({reason})")
            self.finish = reason
        return said

    def _take_delta(self, delta: dict[str, Any]) -> str:
        said = _text_of(delta.get("content"))
        refusal = _text_of(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        self._size += len(said) + len(refusal) + self._take_reasoning(delta)
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            self._size += self._drafts.take(calls)
        return said + refusal

    def _take_reasoning(self, delta: dict[str, Any]) -> int:
        for field in [self._reasoning_field] if self._reasoning_field else REASONING:
            thought = delta.get(field)
            if isinstance(thought, str):  # an empty one counts: who sends it wants it back
                self._reasoning_field = field
                self._reasoning.append(thought)
                return len(thought)
        return 0

    def _pass_on(self, text: str) -> str:
        if text:
            self._text.append(text)
        return text


def _count(value: Any) -> int | None:
    """A number of tokens, also as 10.0; None where it cannot be one."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _text_of(content: Any) -> str:
    """Text, also where it comes as a list of parts; those of other types, reasoning for one, are left out."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def is_passing(status: int) -> bool:
    """Whether it may go better next time."""
    return status in {408, 429} or status >= 500


def said_in(error: Any) -> str:
    """An endpoint's own words for what went wrong, empty where it has none."""
    return line(whole(_words(error, _LEVELS)), QUOTED)


def _words(error: Any, levels: int) -> str:
    if isinstance(error, str):
        return error
    if levels == 0 or not isinstance(error, (dict, list)):
        return ""
    inner = error if isinstance(error, list) else [error[name] for name in _SAYING if name in error]
    return next((words for each in inner if (words := _words(each, levels - 1))), "")


def _failure(error: Any) -> RemoteError:
    words = f"its endpoint reports an error: {said_in(error) or 'it does not say which'}"
    code = str(error.get("code")) if isinstance(error, dict) else ""
    status = int(code) if code.isdecimal() and len(code) == 3 else 0
    return RemoteAway(words) if is_passing(status) else RemoteRefused(words)
