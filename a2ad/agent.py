"""The types an agent's author works with: what a session talks to, and what it hears.

A factory makes one `Agent` per preset, at start-up; the agent opens one `AgentSession` per (inbound, context). The
session executor alone turns what a session says into artifacts and statuses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from a2ad.executor import Artifact, Attachment, Status, TaskFailed, Text
from a2ad.model import PartDict

if TYPE_CHECKING:
    import asyncio  # every command imports this module, and few have a loop


class PresetError(ValueError):
    """Raised by a factory: the options of its preset are wrong. The text names them, and what was expected."""


class ToolError(Exception):
    """A tool call that failed; its text is for the model."""


class Tools(Protocol):
    """The outbound tools: skills of remote A2A agents."""

    def list(self) -> Sequence[Mapping[str, Any]]:
        """What there is now: `[{name, title, description, schema}]`."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The tool's answer as text; raises `ToolError`. Where it is cancelled, so is the remote's task."""
        ...

    @property
    def mcp_server(self) -> Mapping[str, Any]:
        """How an agent starts an MCP server over stdio that has the same tools: `{command, args, env}`."""
        ...


@dataclass(frozen=True, slots=True)
class AgentContext:
    """Where a session lives. `resume` is what the session's `state()` said last, or None."""

    session_id: str
    context_id: str
    inbound_id: str
    tools: Tools
    resume: Any = None
    _workdir: Callable[[], Path] = field(default=Path, repr=False)

    @property
    def workdir(self) -> Path:
        """A directory of the context's own; it exists once it was asked for."""
        folder = self._workdir()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder


@dataclass(slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(slots=True)
class ToolCall:
    """A tool is being called; a later one with the same id updates it."""

    id: str
    name: str
    arguments: Any = None


@dataclass(slots=True)
class ToolResult:
    """The outcome of the tool call with this id."""

    id: str
    result: Any = None
    error: bool = False


@dataclass(slots=True)
class NeedsInput:
    """The agent waits for an answer: the executor calls `session.answer()` with it and iterates on.

    `options` are `{id, name, kind}`, `tool` is `{name, arguments}` where the question is about a tool call. Past
    `deadline` (seconds) the executor calls `session.unanswered()` instead. Where `withdrawn` is set meanwhile, the
    agent waits no more: the executor asks no longer, and iterates on.
    """

    question: Text
    options: Sequence[Mapping[str, Any]] | None = None
    tool: Mapping[str, Any] | None = None
    deadline: float | None = None
    withdrawn: asyncio.Event | None = None


@dataclass(slots=True)
class NeedsAuth:
    """The agent waits for a credential; as `NeedsInput`."""

    what: Text


@dataclass(slots=True)
class TurnEnd:
    """The last event of a turn. `usage` goes into the task's metadata."""

    stop_reason: str = "end_turn"
    usage: Mapping[str, Any] | None = None


AgentEvent: TypeAlias = TextDelta | ToolCall | ToolResult | NeedsInput | NeedsAuth | Artifact | Status | TurnEnd


class AgentSession(ABC):
    """One live conversation. One turn at a time."""

    @abstractmethod
    def prompt(self, parts: Sequence[PartDict], attachments: Sequence[Attachment]) -> AsyncIterator[AgentEvent]:
        """Take a turn: an async iterator that ends with `TurnEnd`."""

    async def answer(self, parts: Sequence[PartDict]) -> None:
        """The answer to the `NeedsInput` or `NeedsAuth` that the turn yielded last: where it had options, one text part
        with the id of the one that was chosen.
        """
        raise ToolError("this agent asks no questions")

    async def unanswered(self) -> None:
        """Nobody answered the `NeedsInput` that the turn yielded last in time. What this raises ends the turn."""
        raise TaskFailed("Nobody answered the agent's question in time")

    async def cancel(self) -> None:  # noqa: B027 - an agent whose turn ends with its iterator has nothing to do
        """Stop the turn that is going on."""

    async def close(self) -> None:  # noqa: B027
        """Let go of what the session holds."""

    def state(self) -> Any:
        """What a later `AgentContext.resume` needs to go on with this conversation: JSON, or None."""
        return None


class Agent(ABC):
    """One way to reach an agent, made from a preset."""

    #: a turn that the daemon's end cut off, or that waited for an answer then, is taken again: its prompt goes to the
    #: resumed session once more, and the answer to the same question; else its task is FAILED
    can_resume: bool = False

    @abstractmethod
    async def open(self, context: AgentContext) -> AgentSession:
        """Start or resume a session."""

    async def check(self) -> Sequence[str]:
        """What keeps it from working now, a sentence for each, without secrets: `a2ad doctor` asks, and waits 10 s."""
        return ()

    async def close(self) -> None:  # noqa: B027
        """Called once at shutdown, after the sessions are closed."""
