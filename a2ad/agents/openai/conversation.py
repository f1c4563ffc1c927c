"""What a model is told of its conversation: whole turns, the newest that fit, in an order that endpoints accept.

A token is taken for three bytes of a request's JSON, which is more than most models count; an image for 1,000 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
import structlog

from a2ad.agents.openai.content import is_image
from a2ad.agents.openai.reply import REASONING
from a2ad.errors import RemoteError
from a2ad.executor import TaskFailed

Message: TypeAlias = dict[str, Any]

BYTES_PER_TOKEN = 3
IMAGE_TOKENS = 1000
#: what a tool's answer may have in any case, in bytes
LEAST_ROOM = 500
#: what stands for an answer that is missing: endpoints want one after each question
INTERRUPTED, NOTHING = "(This answer was interrupted.)", "(No answer.)"
_LEFT_OUT = "\n[{} of {} bytes are left out here]"
EMPTY, NO_RESULT = "(The result is empty.)", "The call was interrupted: it has no result."
#: the form of `state()`
_FORMAT = "openai-1"
#: what some endpoints take for a reasoning that is not there; they refuse a message without any
_NO_REASONING = " "
#: what that may add to an answer, in bytes
_REASONING_BYTES = max(len(orjson.dumps({name: _NO_REASONING})) for name in REASONING)

log = structlog.get_logger()


class TurnTooLong(RemoteError):
    """What a turn has come to does not fit into a request."""


@dataclass(slots=True)
class _Turn:
    messages: list[Message]
    tokens: int

    def shorten(self, most: int) -> bool:
        """Leave out of the tools' answers what is too much, from the oldest on; whether the turn fits then."""
        answers = [message for message in self.messages if message["role"] == "tool"]
        spare = sum(max(0, tokens_of(answer) - tokens_of(shortened(answer, 0))) for answer in answers)
        if self.tokens - spare > most:
            return False
        for answer in answers:
            over = self.tokens - most
            if over <= 0:
                break
            size = len(answer["content"].encode())
            notice = len(orjson.dumps(_LEFT_OUT.format(size, size)))
            short = shortened(answer, max(0, size - over * BYTES_PER_TOKEN - notice))
            if (saved := tokens_of(answer) - tokens_of(short)) > 0:
                answer["content"] = short["content"]
                self.tokens -= saved
        return True


class Conversation:
    """The turns that have ended, and the one that goes on. `budget` is in tokens; the answers are `model`'s."""

    def __init__(self, budget: int, state: Any = None, model: str = "") -> None:
        self._budget = budget
        self._model = model
        self._turns = [_Turn(messages, sum(map(tokens_of, messages))) for messages in _kept(state, model)]
        self._open: _Turn | None = None
        self._fixed = 0

    def begin(self, user: Message, fixed: int) -> None:
        """Open a turn. `fixed` are the tokens of a request without it: instructions, tools and all else.

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
        """What the next request says, oldest first. Turns that do not fit any more are dropped, from the oldest on, and
        then what is too much of the open turn's tool answers is left out.

        Raises `TurnTooLong` where that is not enough; nothing is dropped then.
        """
        if self._open is not None and not self._open.shorten(self._budget - self._fixed):
            raise TurnTooLong(
                f"its turn has come to about {self._fixed + self._open.tokens} tokens, and the agent's context_tokens "
                f"are {self._budget}"
            )
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
        """Keep the open turn: where it does not fit by itself, its question and its end; or nothing."""
        turn, most = self._open, self._budget - self._fixed
        assert turn is not None
        self._open = None
        if turn.tokens > most and not turn.shorten(most):
            ends = [turn.messages[0], turn.messages[-1]]
            turn = _Turn(ends, sum(map(tokens_of, ends)))
        if turn.tokens <= most:
            self._turns.append(turn)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        open_tokens = self._open.tokens if self._open is not None else 0
        left = self._budget - self._fixed - open_tokens - sum(turn.tokens for turn in self._turns)
        while left < 0 and self._turns:
            left += self._turns.pop(0).tokens


def tokens_of(message: Mapping[str, Any]) -> int:
    """The estimate for a message, with what `messages()` may add to it."""
    content, more = message["content"], 1
    if message["role"] == "assistant" and not any(name in message for name in REASONING):
        more += _REASONING_BYTES
    if not isinstance(content, list):
        return _tokens(message, more)
    images = [part for part in content if is_image(part)]
    rest = {**message, "content": [part for part in content if not is_image(part)]}
    return len(images) * IMAGE_TOKENS + _tokens(rest, more)


def request_tokens(request: Mapping[str, Any]) -> int:
    """The estimate for a request that has no conversation in it yet."""
    return _tokens(request, 0)


def _tokens(value: Any, more: int) -> int:
    return -(-(len(orjson.dumps(value)) + more) // BYTES_PER_TOKEN)


def shortened(answer: Message, room: int) -> Message:
    """A tool's answer with as much of its beginning as `room` bytes hold, and how much is missing."""
    data = answer["content"].encode()
    if len(data) <= room:
        return answer
    kept = data[:room].decode(errors="ignore")
    return {**answer, "content": f"{kept}{_LEFT_OUT.format(len(data) - room, len(data))}"}


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
