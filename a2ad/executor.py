"""The types an executor's author works with: what it is given, what it yields, what it may raise.

An executor is an async generator (or a plain one, which runs in a thread): see `docs/plugins.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import orjson

from a2ad.model import PartDict, TaskState

#: A sentence, or A2A parts as dicts.
Text: TypeAlias = str | Sequence[PartDict]


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill of a preset: what the agent card declares, and the executor that does its work."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    executor: str = "session"


@dataclass(frozen=True, slots=True)
class Preset:
    """A named way to run an agent: the agent kind, its options, its skills."""

    id: str
    name: str
    description: str
    agent: str
    options: Mapping[str, Any]
    skills: tuple[Skill, ...]
    default: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message. `path` is a file in the state directory, to be read and not changed."""

    name: str
    media_type: str
    path: Path
    size: int  # bytes
    sha256: str  # hexadecimal


class Ask(Protocol):
    async def __call__(
        self,
        question: Text,
        *,
        state: TaskState,
        options: Sequence[Mapping[str, Any]] | None,
        deadline: float | None,
        tool: Mapping[str, Any] | None,
    ) -> dict[str, Any]: ...


def _no_history() -> list[dict[str, Any]]:
    return []


@dataclass(slots=True, eq=False)
class TaskRequest:
    """What an executor is asked to do. `message` is the A2A message (its JSON as a dict)."""

    task_id: str
    context_id: str
    inbound_id: str
    skill: str
    message: dict[str, Any]
    preset: Preset
    peer: str  # the source address
    caller: str  # the name of the credential that was used
    attachments: tuple[Attachment, ...] = ()
    resumed: bool = False  # it continues an interrupted task
    unanswered: bool = False  # it does so since nobody answered in time: `message` has no parts
    _workdir: Callable[[], Path] = field(default=Path, repr=False)
    _history: Callable[[], list[dict[str, Any]]] = field(default=_no_history, repr=False)
    _ask: Ask | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The text, data and url parts of the message as a prompt, one after the other on lines of their own."""
        return prompt_text(self.message["parts"])

    @property
    def history(self) -> list[dict[str, Any]]:
        """The messages of the task so far, the client's and the agent's, oldest first, this one last."""
        return self._history()

    @property
    def workdir(self) -> Path:
        """A directory of the context's own; it exists once it was asked for."""
        folder = self._workdir()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    async def ask(
        self,
        question: Text,
        state: TaskState = TaskState.INPUT_REQUIRED,
        options: Sequence[Mapping[str, Any]] | None = None,
        deadline: float | None = None,
        tool: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Interrupt the task with a question, wait for the next message to it, and return that message.

        `options` are `{id, name, kind}`; `deadline` is in seconds, and past it `TimeoutError` is raised and the task
        runs on; `tool` is `{name, arguments}` where the question is about a tool call. Not available in a plain
        (threaded) generator: raise `InputRequired` there.
        """
        if self._ask is None:
            raise RuntimeError("ask() is not available here: raise InputRequired instead")
        return await self._ask(question, state=state, options=options, deadline=deadline, tool=tool)


def prompt_text(parts: Sequence[PartDict]) -> str:
    """Text parts as they are, data parts as JSON, url parts as their URL, joined by line breaks."""
    lines = []
    for part in parts:
        if "text" in part:
            lines.append(part["text"])
        elif "data" in part:
            lines.append(orjson.dumps(part["data"]).decode())
        elif "url" in part:
            lines.append(part["url"])
    return lines[0] if len(lines) == 1 else "\n".join(lines)


@dataclass(slots=True)
class Artifact:
    """A result, or a piece of one: with `append` it adds to the artifact of that id, without it it replaces it.

    `parts` are A2A parts as dicts; `raw` may be bytes.
    """

    parts: Sequence[PartDict]
    artifact_id: str = "result"
    name: str | None = None
    description: str | None = None
    append: bool = False
    last_chunk: bool | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Status:
    """A progress note (WORKING), an interruption, or a terminal state with a closing message."""

    state: TaskState
    message: Text | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Reply:
    """A direct answer instead of a task: the first and only event of an executor with `may_reply`."""

    parts: Sequence[PartDict]
    metadata: Mapping[str, Any] | None = None


Event: TypeAlias = Artifact | Status | Reply


class TaskOutcome(Exception):
    """Raised by an executor to end or interrupt its run; `message` is what the status will say."""

    state: ClassVar[TaskState]

    def __init__(self, message: Text = "") -> None:
        super().__init__(message)
        self.message = message


class TaskFailed(TaskOutcome):
    state = TaskState.FAILED


class TaskRejected(TaskOutcome):
    state = TaskState.REJECTED


class InputRequired(TaskOutcome):
    """The run ends; the client's next message to the task starts a new one with `resumed=True`."""

    state = TaskState.INPUT_REQUIRED


class AuthRequired(TaskOutcome):
    """As `InputRequired`, for a credential that is missing."""

    state = TaskState.AUTH_REQUIRED


class Executor(ABC):
    """Does the work of tasks. One instance serves all tasks of its name, at the same time."""

    #: it may yield a `Reply` first; the first frame of its streams then waits for its first event
    may_reply: ClassVar[bool] = False
    #: tasks that a crash interrupted are run again with `resumed=True` instead of failed
    can_resume: ClassVar[bool] = False

    @abstractmethod
    def execute(self, request: TaskRequest) -> AsyncIterator[Event] | Iterator[Event]:
        """Yield the task's artifacts and statuses. To return is to complete the task.

        `TaskFailed`, `TaskRejected`, `InputRequired` and `AuthRequired` say another outcome; any other exception is
        FAILED with its text. On cancel `asyncio.CancelledError` is thrown in.
        """

    def goes_on(self, preset: Preset, *, waits: bool) -> bool:  # noqa: ARG002 - for those whose agents differ
        """Whether a task of the preset, whose run the daemon's end cut off, goes on: one that `waits` for an answer
        with that, another by itself; both with `resumed=True`. Else it is FAILED.
        """
        return waits or self.can_resume

    async def close(self) -> None:  # noqa: B027 - nothing to do is the usual case
        """Called once at shutdown."""
