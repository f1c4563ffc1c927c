"""What a model is told of its conversation: whole turns, the newest that fit, in an order that endpoints accept.

A token is taken for three bytes of a message's JSON, which is more than most models count; an image for 1,000 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
import structlog

from a2ad.agents.openai.content import is_image
from a2ad.agents.openai.reply import REASONING
from a2ad.executor import TaskFailed

Message: TypeAlias = dict[str, Any]

BYTES_PER_TOKEN = 3
IMAGE_TOKENS = 1000
#: what a tool's answer may have in any case, in bytes
LEAST_ROOM = 500
#: what stands for an answer that is missing: endpoints want one after each question
INTERRUPTED, NOTHING = "(This answer was interrupted.)", "(No answer.)"
EMPTY, NO_RESULT = "(The result is empty.)", "The call was interrupted: it has no result."
#: the form of `state()`
_FORMAT = "openai-1"
#: what some endpoints take for a reasoning that is not there; they refuse a message without any
_NO_REASONING = " "

log = structlog.get_logger()


@dataclass(slots=True)
class _Turn:
    messages: list[Message]
    tokens: int


class Conversation:
    """The turns that have ended, and the one that goes on. `budget` is in tokens; the answers are `model`'s."""

    def __init__(self, budget: int, state: Any = None, model: str = "") -> None:
        self._budget = budget
        self._model = model
        self._turns = [_Turn(messages, sum(map(tokens_of, messages))) for messages in _kept(state, model)]
        self._open: _Turn | None = None
        self._fixed = 0

    def begin(self, user: Message, fixed: int) -> None:
        """Open a turn. `fixed` are the tokens that go with every request: instructions and tools.

        Raises `TaskFailed` where the message is too long by itself.
        """
        turn = _Turn([user], tokens_of(user))
        if fixed + turn.tokens > self._budget:
            raise TaskFailed(
                f"The message is too long: with instructions and tools about {fixed + turn.tokens} tokens, and the "
                f"agent's context_tokens are {self._budget}"
            )
        self._fixed, self._open = fixed, turn

    def add(self, message: Message) -> None:
        """The next message of the open turn."""
        assert self._open is not None
        self._open.messages.append(message)
        self._open.tokens += tokens_of(message)

    def room(self) -> int:
        """What the next of several tools may answer, in bytes: half of what the open turn leaves."""
        assert self._open is not None
        left = self._budget - self._fixed - self._open.tokens
        return max(LEAST_ROOM, left * BYTES_PER_TOKEN // 2)

    def messages(self) -> list[Message]:
        """What the next request says, oldest first. Turns that do not fit any more are dropped, from the oldest on."""
        self._drop_oldest()
        turns = [*self._turns, self._open] if self._open is not None else self._turns
        return _with_reasoning([message for turn in turns for message in turn.messages])

    def finish(self, answer: Message) -> None:
        """Close the turn with the model's last message."""
        if not answer["content"]:
            answer["content"] = NOTHING
        self.add(answer)
        self._close()

    def interrupt(self, said: Message) -> None:
        """Close the turn where it is, if it is open: what was said stays, what is missing is filled in.

        `said` is the model's last message as far as it came. A turn without any answer leaves no trace.
        """
        if self._open is None:
            return
        for call_id in _unanswered(self._open.messages):
            self.add({"role": "tool", "tool_call_id": call_id, "content": NO_RESULT})
        if said["content"]:
            self.add(said)
        if len(self._open.messages) == 1:
            self.drop()
            return
        if self._open.messages[-1]["role"] == "tool":
            self.add({"role": "assistant", "content": INTERRUPTED})
        self._close()

    def drop(self) -> None:
        """Forget the open turn: the endpoint has refused it, and would again."""
        self._open = None

    def state(self) -> Any:
        return {"format": _FORMAT, "model": self._model, "turns": [turn.messages for turn in self._turns]}

    def _close(self) -> None:
        assert self._open is not None
        self._turns.append(self._open)
        self._open = None
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        open_tokens = self._open.tokens if self._open is not None else 0
        left = self._budget - self._fixed - open_tokens - sum(turn.tokens for turn in self._turns)
        while left < 0 and self._turns:
            left += self._turns.pop(0).tokens


def tokens_of(value: Any) -> int:
    """The estimate for a message, or for anything else that goes into a request."""
    content = value.get("content") if isinstance(value, Mapping) else None
    if isinstance(content, list):
        images = [part for part in content if is_image(part)]
        rest = {**value, "content": [part for part in content if not is_image(part)]}
        return len(images) * IMAGE_TOKENS + _tokens(rest)
    return _tokens(value)


def _tokens(value: Any) -> int:
    return -(-len(orjson.dumps(value)) // BYTES_PER_TOKEN)


def _unanswered(messages: Sequence[Message]) -> Iterator[str]:
    answered = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
    for message in messages:
        for call in message.get("tool_calls", ()):
            if call["id"] not in answered:
                yield call["id"]


def _with_reasoning(messages: list[Message]) -> list[Message]:
    """Where an endpoint gives reasoning, it may want every answer to have some (DeepSeek does)."""
    field = next((name for message in messages for name in REASONING if name in message), None)
    if field is None:
        return messages
    return [
        {**message, field: _NO_REASONING} if message["role"] == "assistant" and field not in message else message
        for message in messages
    ]


def _kept(state: Any, model: str) -> list[list[Message]]:
    """The turns of a `state()`; none where it is another kind of agent's. What only the model that said it
    understands is left out for another model.
    """
    if state is None:
        return []
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        log.warning("openai.other_conversation", form=state.get("format") if isinstance(state, dict) else None)
        return []
    turns: list[list[Message]] = state["turns"]
    return turns if state["model"] == model else [[_plain(message) for message in turn] for turn in turns]


def _plain(message: Message) -> Message:
    plain = {name: value for name, value in message.items() if name not in REASONING}
    if calls := message.get("tool_calls"):
        plain["tool_calls"] = [{name: call[name] for name in ("id", "type", "function")} for call in calls]
    return plain
