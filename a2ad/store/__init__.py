"""What is durable: the records, and the small protocol that a store implements (SQLite here, others through plugins).

No SQL outside this package. Every time is in milliseconds since 1970, UTC; every `bytes` body is JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from a2ad.figures import CommitFigures
from a2ad.model import TaskState

#: the caller of a request without a credential, with the inbound's own token, and of the operator
ANONYMOUS, TOKEN, OPERATOR = "anonymous", "token", "operator"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What a store is opened with. `url` is empty for the default in `state_dir`; `commits` is for it to count into."""

    url: str
    state_dir: Path
    synchronous: str = "normal"
    replay_frames: int = 200
    commits: CommitFigures = field(default_factory=CommitFigures)


@dataclass(frozen=True, slots=True)
class InboundRecord:
    """A published agent. `token_hash` is salted: see `inbound.hash_token`."""

    id: str
    name: str
    description: str
    version: str
    endpoint_path: str
    preset: str
    created_at: int
    auth_token_env: str = ""
    enabled: bool = True
    token_hash: bytes | None = None


@dataclass(frozen=True, slots=True)
class OutboundRecord:
    """A connection to a remote agent. `tool_names` are what its skills' tools are called, by skill; `card` is the agent
    card that it had last.
    """

    id: str
    name: str
    agent_card_url: str
    created_at: int
    enabled: bool = True
    timeout_ms: int = 60_000
    bearer_token_env: str = ""
    preset: str = ""
    disabled_skills: tuple[str, ...] = ()
    skill_overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    token_origins: tuple[str, ...] = ()
    tool_names: Mapping[str, str] = field(default_factory=dict)
    card: bytes | None = None


@dataclass(slots=True)
class TaskRow:
    """One task without its messages and artifacts. `status` is the encoded A2A TaskStatus.

    `frame_limit`: no frame above this number was ever sent. `queued`: its newest message is accepted, and no run has
    taken it up yet; so after a crash one does. `hidden`: recorded
    for idempotency alone, because its executor may answer with a message; `reply` is that answer.
    """

    id: str
    inbound_id: str
    context_id: str
    caller: str
    peer: str
    skill: str
    executor: str
    state: TaskState
    status: bytes
    created_at: int
    updated_at: int
    frame_limit: int
    queued: bool = False
    hidden: bool = False
    metadata: bytes | None = None
    reply: bytes | None = None

    def copy(self) -> TaskRow:
        """Spelt out: `dataclasses.replace` costs 5 µs, this 1 µs, and every step of a task takes one."""
        return TaskRow(
            self.id, self.inbound_id, self.context_id, self.caller, self.peer, self.skill, self.executor, self.state,
            self.status, self.created_at, self.updated_at, self.frame_limit, self.queued, self.hidden, self.metadata,
            self.reply,
        )  # fmt: skip


class MessageRow(NamedTuple):
    """A message of a task's history. `caller` is set for a client's: (inbound, caller, id) is then unique."""

    seq: int
    message_id: str
    body: bytes
    caller: str | None = None


class Segment(NamedTuple):
    """A piece of an artifact: applied in order of `seq`, they give the artifacts, which stand in order of `place`.

    `head` is the artifact's JSON without id and parts, None where nothing of it changed; `parts` a JSON array. `at` is
    when it was handed over to be written, None where that is not known.
    """

    seq: int
    place: int
    artifact_id: str
    replace: bool
    head: bytes | None
    parts: bytes
    at: int | None = None


class ArtifactTimes(NamedTuple):
    """When what is stored of an artifact was written, from its first piece to its last, and in how many. None where
    that is not known.
    """

    artifact_id: str
    first: int | None
    last: int | None
    pieces: int


class StatusEvent(NamedTuple):
    """A statusUpdate frame, kept for replay."""

    frame: int
    body: bytes


@dataclass(slots=True)
class Change:
    """One durable step of a task: all of it, or nothing. Whoever hands it over changes nothing of it any more.

    `previous` is the state that the store has now, None for a new task; `was_hidden`, whether it is hidden there, and
    so in no count. `key_message` is the message of a client whose id decides whether the step is a repetition.
    """

    row: TaskRow
    previous: TaskState | None
    was_hidden: bool = False
    key_message: MessageRow | None = None
    messages: Sequence[MessageRow] = ()
    segments: Sequence[Segment] = ()
    events: Sequence[StatusEvent] = ()
    attachments: Sequence[str] = ()  # SHA-256, hexadecimal


@dataclass(frozen=True, slots=True)
class Expired:
    """What `Store.expire` deleted: how many tasks, and the (inbound, context) pairs that have none any more. `more`: it
    is worth calling again.
    """

    tasks: int
    contexts: Sequence[tuple[str, str]]
    more: bool


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """`error` is why nothing can be written at present, `since` when that began; None while all is well."""

    error: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class StoredTask:
    row: TaskRow
    messages: Sequence[bytes] = ()
    segments: Sequence[Segment] = ()
    last_message_seq: int = 0


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """Newest update first, ties broken by id; a page with large tasks has fewer than `limit`.

    An empty `inbound_id` means all; `callers` None likewise.
    """

    inbound_id: str = ""
    callers: Sequence[str] | None = None
    context_id: str | None = None
    state: TaskState | None = None
    after: int | None = None  # milliseconds, inclusive
    limit: int = 50
    offset: int = 0
    cursor: tuple[int, str] | None = None  # (updated_at, id) of the last row of the page before
    history: Literal["all", "first", "none"] = "all"
    artifacts: bool = False


@dataclass(frozen=True, slots=True)
class TaskPage:
    tasks: Sequence[StoredTask]
    total: int
    more: bool


@dataclass(slots=True)
class ContextRecord:
    """What is kept of a session, so that its conversation goes on after a restart."""

    inbound_id: str
    context_id: str
    session_id: str
    preset: str
    created_at: int
    last_active_at: int
    turns: int = 0
    state: Any = field(default=None)  # the session's `state()`


class Store(Protocol):
    """A durable store. What it cannot do just now raises `a2ad.errors.StoreUnavailable`; what it will never take,
    `StoreRefused`.
    """

    async def close(self) -> None:
        """Finish what was handed over, and let go of the files."""
        ...

    @property
    def secret(self) -> bytes:
        """32 random bytes of this store's own, for page tokens."""
        ...

    def write(self, change: Change) -> Awaitable[str | None]:
        """Make a step durable, in the order of the calls. Where the key message is there already, nothing is written,
        and what comes back is the id of the task that has it.
        """
        ...

    async def task(self, task_id: str) -> StoredTask | None: ...

    async def tasks(self, query: TaskQuery) -> TaskPage: ...

    async def unfinished(self) -> Sequence[TaskRow]:
        """Tasks that are neither terminal nor interrupted, oldest first."""
        ...

    async def find_message(self, inbound_id: str, caller: str, message_id: str) -> str | None:
        """The id of the task that has this message of a client."""
        ...

    async def status_events(self, task_id: str, after: int) -> Sequence[StatusEvent]:
        """The task's newest status frames with numbers above `after`, oldest first, of one that has ended too."""
        ...

    async def artifact_times(self, task_id: str) -> Sequence[ArtifactTimes]:
        """Of each of the task's artifacts, in the order of their first pieces. A store need not have this read: this
        one, from what `task` gives, is then used for it (`artifact_times_of`). One of its own spares it the parts.
        """
        stored = await self.task(task_id)
        return _times_of(stored.segments) if stored is not None else ()

    async def counts(self) -> dict[tuple[str, TaskState], int]:
        """How many tasks there are, by inbound and state."""
        ...

    @property
    def health(self) -> StoreHealth: ...

    async def delete_tasks(self, inbound_id: str) -> None:
        """All tasks of an inbound, with what belongs to them."""
        ...

    async def expire(self, before: int) -> Expired:
        """Delete what ended before this moment: some of it, so that others need not wait."""
        ...

    async def unused_attachments(self, digests: Sequence[str]) -> Sequence[str]:
        """Those of the digests that no task has."""
        ...

    def audit(self, at: int, kind: str, data: bytes) -> Awaitable[None]:
        """Add a line to the audit trail."""
        ...

    async def inbounds(self) -> Sequence[InboundRecord]: ...

    async def save_inbound(self, record: InboundRecord) -> None: ...

    async def delete_inbound(self, inbound_id: str) -> None: ...

    async def outbounds(self) -> Sequence[OutboundRecord]:
        """In the order in which they were made."""
        ...

    async def save_outbound(self, record: OutboundRecord) -> None: ...

    async def delete_outbound(self, outbound_id: str) -> None: ...

    async def context(self, inbound_id: str, context_id: str) -> ContextRecord | None: ...

    async def save_context(self, record: ContextRecord) -> None: ...


async def artifact_times_of(store: Store, task_id: str) -> Sequence[ArtifactTimes]:
    """What `Store.artifact_times` gives, of a store too that has no such read."""
    own = getattr(store, "artifact_times", None)
    return await (own(task_id) if own is not None else Store.artifact_times(store, task_id))


def _times_of(segments: Sequence[Segment]) -> list[ArtifactTimes]:
    pieces: dict[str, list[int | None]] = {}
    for segment in segments:
        pieces.setdefault(segment.artifact_id, []).append(segment.at)
    found = []
    for artifact_id, times in pieces.items():
        known = [at for at in times if at is not None]
        found.append(ArtifactTimes(artifact_id, min(known, default=None), max(known, default=None), len(times)))
    return found
