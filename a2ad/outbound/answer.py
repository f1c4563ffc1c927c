"""What a remote has said so far in answer to one message: frames and snapshots, put together into one result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import orjson

from a2ad.errors import RemoteInvalid
from a2ad.model import STATE_NUMBERS, TaskState
from a2ad.outbound.text import QUOTED, line

#: an answer's artifacts, and one body or event of it, in bytes
ANSWER_BYTES = 8 << 20
MAX_ARTIFACTS = 10_000
MAX_ID = 1024  # characters
#: of an artifact, neighbouring texts counted as one
MAX_PARTS = 1000
FAILED = frozenset({TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED})
#: what a session of this daemon calls its records of tool calls (reference 2.4.1)
TOOL_CALL = "tool-call-"
Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """Text of an artifact or a message that was not there before."""

    text: str


@dataclass(frozen=True, slots=True)
class Stated:
    """The task's state, and the status message's text."""

    state: TaskState
    text: str


Observer: TypeAlias = Callable[[Said | Stated], None]


class Artifact:
    """The parts of an artifact, with neighbouring text joined: streamed text comes in pieces, and some servers keep
    them apart. `size` is that of what it was made of, in bytes of JSON.
    """

    __slots__ = ("_parts", "said", "size")

    def __init__(self, said: list[str]) -> None:
        self._parts: list[Json | list[str]] = []
        self.said = said
        self.size = 0

    @property
    def parts(self) -> list[Json]:
        return [{"text": "".join(part)} if isinstance(part, list) else part for part in self._parts]

    def add(self, parts: list[Json]) -> None:
        for part in parts:
            if "text" not in part:
                self._parts.append(part)
            elif self._parts and isinstance(self._parts[-1], list):
                self._parts[-1].append(part["text"])
            else:
                self._parts.append([part["text"]])
        if len(self._parts) > MAX_PARTS:
            raise RemoteInvalid(f"an artifact has more than {MAX_PARTS} parts")


class Answer:
    """Feed it with `take_result` and `take_task`; each says whether something changed.

    `task_id` and `context_id` are the remote's, None until it named them. Frames of another task are passed over.
    """

    def __init__(self, observer: Observer | None = None) -> None:
        self.task_id: str | None = None
        self.context_id: str | None = None
        self.state: TaskState | None = None
        self.status_parts: list[Json] = []
        self.artifacts: dict[str, Artifact] = {}
        #: the parts of a direct message
        self.message: list[Json] | None = None
        #: no frame can be missing: nothing was cut, or a snapshot came since
        self.exact = True
        #: the state may be the one before our message came
        self.provisional = False
        #: the last thing that came was a whole task, or a direct message
        self.whole = False
        self._history_parts: list[Json] = []
        self._observer = observer
        self._spoken = False
        #: characters that were said: what is replaced again and again is not said without end
        self._said = 0
        self._last_task: bytes = b""
        self._size = 0

    @property
    def started(self) -> bool:
        return self.task_id is not None or self.message is not None

    @property
    def asks(self) -> bool:
        """The task waits for somebody."""
        return self.state is not None and self.state.interrupted

    @property
    def failed(self) -> bool:
        return self.state in FAILED

    @property
    def settled(self) -> bool:
        """There is nothing to wait for: a direct message, or a task that ended or waits for somebody."""
        ended = self.state is not None and self.state.terminal
        return self.message is not None or ended or (self.asks and not self.provisional)

    def take_result(self, result: Any) -> bool:
        """The `result` of a stream's frame, or of SendMessage. Raises `RemoteInvalid`."""
        result = _object(result, "the result")
        self.provisional = False
        self.whole = "task" in result or "message" in result
        if "task" in result:
            return self.take_task(result["task"])
        if "message" in result:
            return self._take_message(_object(result["message"], "message"))
        if "statusUpdate" in result:
            update = _object(result["statusUpdate"], "statusUpdate")
            return self._mine(update) and self._take_status(update.get("status"))
        if "artifactUpdate" in result:
            update = _object(result["artifactUpdate"], "artifactUpdate")
            return self._mine(update) and self._take_artifact(update)
        raise RemoteInvalid("the result is neither task, message, statusUpdate nor artifactUpdate")

    def take_task(self, task: Any) -> bool:
        """A whole task: it replaces what is known. One that makes no sense changes nothing."""
        task = _object(task, "task")
        self.provisional = False
        if not self._mine(task, "id"):
            return False
        encoded = orjson.dumps(task)
        if encoded == self._last_task:
            self.exact = True
            return False
        held = (self.artifacts, self._size, self._history_parts, self.state, self.status_parts)
        try:
            self._replace(task)
        except RemoteInvalid:
            self.artifacts, self._size, self._history_parts, self.state, self.status_parts = held
            raise
        self.exact = True
        self._last_task = encoded
        return True

    def _replace(self, task: Json) -> None:
        artifacts = task.get("artifacts")
        kept, self.artifacts, self._size = self.artifacts, {}, 0
        for each in artifacts if isinstance(artifacts, list) else []:
            given = _object(each, "an artifact")
            before = kept.get(_artifact_id(given))
            self._put(given, append=False, known=None if before is None else Artifact(before.said))
        history = task.get("history")
        messages = [each for each in history if isinstance(each, dict)] if isinstance(history, list) else []
        spoken = [each for each in messages if each.get("role") in {"ROLE_AGENT", 2}]
        self._history_parts = _parts(spoken[-1]) if spoken else []
        self._take_status(task.get("status"))

    def _take_message(self, message: Json) -> bool:
        if self.task_id is not None:
            return False  # a task has only statuses and artifacts (A2A 1.0.1, 3.1.2)
        self.message = _parts(message)
        self._take_context(message)
        self._say(text_of(self.message))
        return True

    def _take_status(self, status: Any) -> bool:
        status = _object(status, "status")
        state = status.get("state")
        found = STATE_NUMBERS.get(state) if type(state) is int else None
        try:
            self.state = found or TaskState(state if isinstance(state, str) else "")
        except ValueError:
            raise RemoteInvalid(f"the task is in a state that is not known: {line(str(state), QUOTED)!r}") from None
        message = status.get("message")
        self.status_parts = _parts(message) if isinstance(message, dict) else []
        if self._observer is not None:
            self._observer(Stated(self.state, text_of(self.status_parts)))
        return True

    def _take_artifact(self, update: Json) -> bool:
        given = _object(update.get("artifact"), "artifact")
        self._put(given, append=update.get("append") is True, known=self.artifacts.get(_artifact_id(given)))
        return True

    def _put(self, given: Json, *, append: bool, known: Artifact | None) -> None:
        parts = _parts(given)
        artifact = known if known is not None and append else Artifact(known.said if known is not None else [])
        if known is not None:
            self._size -= known.size
        artifact.add(parts)
        artifact.size += len(orjson.dumps(given))
        self._size += artifact.size
        if self._size > ANSWER_BYTES:
            raise RemoteInvalid(f"the answer is larger than {ANSWER_BYTES} bytes")
        self.artifacts[_artifact_id(given)] = artifact
        if len(self.artifacts) > MAX_ARTIFACTS:
            raise RemoteInvalid(f"the task has more than {MAX_ARTIFACTS} artifacts")
        if self._observer is not None:
            self._tell(artifact, text_of(parts) if append else None)

    def _tell(self, artifact: Artifact, added: str | None) -> None:
        """Say what is new: of a repetition nothing, of a replacement what goes on from what was said. A further
        artifact begins behind an empty line, as in the result.
        """
        apart = "\n\n" if self._spoken and not any(artifact.said) else ""
        if added is None:
            text, said = text_of(artifact.parts), "".join(artifact.said)
            added = text.removeprefix(said) if text.startswith(said) else f"\n{text}"
            artifact.said = [text]
        else:
            artifact.said.append(added)
        if added:
            self._say(apart + added)

    def _say(self, text: str) -> None:
        if text and self._observer is not None and self._said < 2 * ANSWER_BYTES:
            self._spoken = True
            self._said += len(text)
            self._observer(Said(text))

    def _mine(self, frame: Json, key: str = "taskId") -> bool:
        task_id = frame.get(key)
        if not _is_id(task_id):
            raise RemoteInvalid(f"{key} is missing, or no id")
        if self.task_id is None and self.message is None:
            self.task_id = task_id
        self._take_context(frame)
        return self.task_id == task_id

    def _take_context(self, frame: Json) -> None:
        context_id = frame.get("contextId")
        if _is_id(context_id) and self.context_id is None:
            self.context_id = context_id

    @property
    def has_files(self) -> bool:
        return any("raw" in part for parts in (*self.result_parts(), self.status_parts) for part in parts)

    def explain(self, why: str) -> None:
        """Why the task failed, where it does not say so itself."""
        assert self.state is not None
        self.status_parts = [{"text": why}]
        if self._observer is not None:
            self._observer(Stated(self.state, why))

    def result_parts(self) -> list[list[Json]]:
        """What was said, once: the artifacts; without any, the closing message; without it, the last one before.

        Records of tool calls are no answer, unless there is nothing else: each daemon of a chain would quote them all.
        """
        if self.message is not None:
            return [self.message]
        named = {name: parts for name, artifact in self.artifacts.items() if (parts := artifact.parts)}
        answers = [parts for name, parts in named.items() if not _is_record(name, parts)]
        given = answers or list(named.values())
        if given or self.state is not TaskState.COMPLETED:
            return given
        closing = self.status_parts or self._history_parts
        return [closing] if closing else []


def text_of(parts: list[Json]) -> str:
    """The text parts, as one text."""
    return "".join(part["text"] for part in parts if "text" in part)


def _is_id(value: Any) -> TypeGuard[str]:
    """An id is on one line: it is shown to models."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID and line(value, MAX_ID) == value


def _is_record(artifact_id: str, parts: list[Json]) -> bool:
    return artifact_id.startswith(TOOL_CALL) and all("data" in part for part in parts)


def _object(value: Any, what: str) -> Json:
    if not isinstance(value, dict):
        raise RemoteInvalid(f"{what} is no object")
    return value


def _artifact_id(artifact: Json) -> str:
    artifact_id = artifact.get("artifactId")
    if not isinstance(artifact_id, str) or len(artifact_id) > 1024:
        raise RemoteInvalid("an artifact has no artifactId")
    return artifact_id


def _parts(holder: Json) -> list[Json]:
    """The parts that can be read; what else a remote may call a part is passed over."""
    parts = holder.get("parts")
    return [part for part in parts if _readable(part)] if isinstance(parts, list) else []


def _readable(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    given = [name for name in ("text", "raw", "url", "data") if name in part]
    return len(given) == 1 and (given == ["data"] or isinstance(part[given[0]], str))
