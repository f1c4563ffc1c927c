"""A task in memory: what it is now, who waits for it and who reads its stream.

The rule of every change: check the transition, make it durable where it must be, hand out its frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from a2ad.engine.artifacts import Artifacts
from a2ad.engine.audience import Audience
from a2ad.engine.encode import (
    AgentMessage,
    InvalidOutput,
    TaskView,
    encode_agent_message,
    encode_metadata,
    encode_status,
    one_line,
    status_update,
    task_result,
)
from a2ad.engine.frames import Reader
from a2ad.engine.ledger import Ledger, Step
from a2ad.errors import StoreUnavailable, UnsupportedOperation
from a2ad.executor import Artifact, Text
from a2ad.model import TRANSITIONS, PartDict, TaskState, now_ms
from a2ad.schemas.text import dumps
from a2ad.store import MessageRow, StatusEvent, Store, StoredTask, TaskRow

if TYPE_CHECKING:
    from a2ad.engine.run import Run
    from a2ad.engine.schedule import Ticket

#: how many frame numbers a task reserves in the store at a time, at first
FRAME_BLOCK = 1000
#: how much of a task may wait for the store while its run goes on: bytes of artifacts, and progress notes
MOST_BYTES, MOST_NOTES = 1 << 18, 256
#: pauses between attempts to make an outcome durable, in seconds
RETRY_FIRST, RETRY_MAX = 0.25, 5.0
TOO_LATE = "Another answer came first, or none came in time: the task takes no message now"

log = structlog.get_logger()


class LiveTask:
    """`row` is what everyone may see of it. It changes when the step that changes it is durable; only a progress note,
    and the number of frames that are reserved, are written behind.

    What may be done with it follows from four marks: `run` (somebody works on it), `finishing` (its outcome is
    decided), `continuing` (a message is about to make it work on), `canceling` (somebody ends it from outside).
    """

    __slots__ = ("_bytes", "_max_bytes", "_next_seq", "_on_state", "artifacts", "audience", "canceling", "continuing",
                 "counted", "finishing", "history", "ledger", "row", "run", "ticket")  # fmt: skip

    def __init__(
        self,
        row: TaskRow,
        store: Store,
        *,
        bound: int,
        replay: int,
        max_bytes: int,
        on_state: Callable[[LiveTask], None],
    ) -> None:
        self.row = row
        self.history: list[bytes] = []
        self.artifacts = Artifacts()
        self.ledger = Ledger(store, self.artifacts)
        self.audience = Audience(bound=bound, replay=replay)
        self.run: Run | None = None
        self.ticket: Ticket | None = None
        self.finishing: asyncio.Future[None] | None = None
        self.continuing = False
        self.canceling: asyncio.Task[None] | None = None
        #: the state in which the figures have it; None while it is in none
        self.counted: TaskState | None = None
        self._on_state = on_state
        self._next_seq = 0
        self._bytes = 0
        self._max_bytes = max_bytes

    def restore(self, stored: StoredTask, events: Sequence[StatusEvent]) -> None:
        """Take over what the store has of it."""
        self.counted = None if self.row.hidden else self.row.state
        self.history = list(stored.messages)
        self.artifacts = Artifacts.from_segments(stored.segments)
        self.ledger.restore(self.row, self.artifacts)
        self.audience.restore(self.row.frame_limit, events)
        self._next_seq = stored.last_message_seq + 1

    # what it is

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def state(self) -> TaskState:
        return self.row.state

    @property
    def settled_now(self) -> bool:
        """Nothing will come by itself: terminal, or interrupted and nobody has answered yet."""
        return self.state.terminal or (self.state.interrupted and not self.continuing)

    @property
    def idle(self) -> bool:
        """Nobody needs it in memory."""
        return (
            self.settled_now
            and self.run is None
            and self.canceling is None
            and self.ledger.saving is None
            and self.finishing is None
            and not self.audience.present
            and not self.behind
        )

    @property
    def behind(self) -> bool:
        """Something has gathered that is not in the store."""
        return self.ledger.gathered or self.row.frame_limit > self.ledger.durable_frames

    @property
    def ahead(self) -> bool:
        """Its run should wait, for its readers or for the store."""
        return self.audience.log.too_far_ahead or self.ahead_of_store

    @property
    def ahead_of_store(self) -> bool:
        return self.artifacts.pending_bytes > MOST_BYTES or len(self.ledger.messages) > MOST_NOTES

    def view(self) -> TaskView:
        return TaskView(self.row, list(self.history), self.artifacts.encode())

    async def settled(self) -> None:
        """Wait until the task is terminal or interrupted.

        Raises `StoreUnavailable` or `StoreRefused` where a step towards it cannot be recorded, `Stopping` at shutdown.
        """
        if not self.settled_now:
            await self.audience.wait()

    async def at_rest(self) -> None:
        """Wait until its outcome, if that is decided, and all else has reached the store. Raises `StoreUnavailable`."""
        while self.ledger.saving is not None or (self.finishing is not None and not self.settled_now):
            if self.finishing is not None and self.ledger.saving is None:
                await self.audience.wait_for(self.finishing)
            else:
                await self.ledger.saved()

    # its stream

    def subscribe(self, *, last_event_id: int | None, until_interrupted: bool) -> Reader:
        """The task as it is now, and then what comes.

        All in one step of the event loop: no frame is lost or doubled at the seam.
        """
        reader = self.audience.subscribe(
            task_result(self.view().encode()), last_event_id=last_event_id, until_interrupted=until_interrupted
        )
        if self.state.terminal or (until_interrupted and self.settled_now and not self.waits_for_credential):
            reader.finish()
        return reader

    def emit_task(self) -> None:
        """A `task` frame with all that is there now."""
        self.audience.emit(task_result(self.view().encode()) if self.audience.log.readers else None)

    @property
    def needs_frames(self) -> bool:
        """The next frame's number is not reserved yet: `flush` first."""
        return self.audience.next_frame > self.ledger.durable_frames

    # what its run brings: at once for the readers, a little later for the store

    def add_artifact(self, artifact: Artifact) -> int:
        """Take in a piece of a result and hand it out; returns its size, about. Raises `InvalidOutput`."""
        artifacts, audience = self.artifacts, self.audience
        before = artifacts.pending_bytes
        audience.emit(artifacts.apply(artifact, self.row, frame=bool(audience.log.readers)))
        return self._grow(artifacts.pending_bytes - before)

    def note(self, text: Text | None, metadata: Mapping[str, Any] | None) -> int:
        """A progress note: WORKING again; returns its size, about. Raises `InvalidOutput`."""
        row, message = self._next_row(TaskState.WORKING, text)
        encoded = encode_metadata(metadata)
        self.row = row
        if message is not None:
            self.ledger.messages.append(self._adopt(self._message(message)))
        result = status_update(self.row, encoded)
        self.ledger.events.append(StatusEvent(self.audience.emit_status(result), result))
        return self._grow(2 * len(result))

    def _grow(self, size: int) -> int:
        if self.audience.next_frame > self.row.frame_limit - FRAME_BLOCK // 4:
            self.row.frame_limit *= 2
        self._bytes += size
        if self._bytes > self._max_bytes:
            raise InvalidOutput(
                f"its artifacts and messages have more than {self._max_bytes} bytes (limits.task_bytes)"
            )
        return size

    async def flush(self) -> None:
        """Write what has gathered behind. Raises `StoreUnavailable`, `StoreRefused`; nothing of it is lost then."""
        await self.ledger.saved()
        if self.behind:
            await self.ledger.commit(lambda: Step(self.row.copy()))

    # its steps: durable before anyone is told

    async def create(self, key: MessageRow, attachments: Sequence[str]) -> str | None:
        """Record it with its first message. The id of the task that has this message already, if any.

        Its row is in place from the start; its first frame is the caller's to hand out (`emit_task`).
        """

        def publish() -> None:
            self._adopt(key)

        step = Step(self.row, publish, key=key, attachments=attachments)
        return await self.ledger.commit(lambda: step)

    async def transition(
        self, state: TaskState, text: Text | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Go to another state and tell everyone. Raises `InvalidOutput`, `StoreUnavailable`, `StoreRefused`."""
        await self.ledger.commit(lambda: self._plan(state, text, metadata))

    def _plan(self, state: TaskState, text: Text | None, metadata: Mapping[str, Any] | None) -> Step:
        row, message = self._next_row(state, text)
        encoded = encode_metadata(metadata)
        if encoded is not None and state.terminal:
            row.metadata = dumps({**orjson.loads(row.metadata or b"{}"), **(metadata or {})})
        shown = row.hidden
        row.hidden = row.queued = False
        number = self.audience.next_frame + shown
        ends = state.terminal or state.interrupted
        # where it ends, the last frames are this status and the whole task
        row.frame_limit = number + 1 if ends else max(self.row.frame_limit, number + FRAME_BLOCK)
        messages = [] if message is None else [self._message(message)]
        # of one that has ended nobody asks for its status frames again
        result = None if state.terminal else status_update(row, encoded)

        def publish() -> None:
            self.row = row
            for written in messages:
                self._adopt(written)
            if shown:
                self.emit_task()
            if result is not None:
                self.audience.emit_status(result)
            else:
                self.audience.emit(status_update(row, encoded) if self.audience.log.readers else None)
            if ends:
                self.emit_task()
                if not self.waits_for_credential:
                    self.audience.finish(interrupted=state.interrupted)
                self.audience.wake()
            self._on_state(self)

        events = [] if result is None else [StatusEvent(number, result)]
        return Step(row, publish, messages=messages, events=events)

    async def begin(self) -> None:
        """Its run is about to start: durably so, for after a crash it would start again."""

        def plan() -> Step:
            if self.state is not TaskState.WORKING and not self.row.hidden:
                return self._plan(TaskState.WORKING, None, None)
            row = self.row.copy() if self.state is TaskState.WORKING else self._next_row(TaskState.WORKING, None)[0]
            row.queued = False
            return Step(row, partial(self._become, row))

        await self.ledger.commit(plan)
        self.continuing = False  # where it goes on without an answer

    async def settle(self, state: TaskState, text: Text | None, metadata: Mapping[str, Any] | None = None) -> None:
        """As `transition`, tried again until the store takes it; those who wait are told of each failure."""
        pause = RETRY_FIRST
        finishing = self.finishing = asyncio.get_running_loop().create_future()
        try:
            while True:
                try:
                    return await self.transition(state, text, metadata)
                except StoreUnavailable as error:
                    self.audience.fail(error)
                    log.warning("task.not_recorded", task_id=self.id, state=state.value, again_in=pause)
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, RETRY_MAX)
        finally:
            self.finishing = None
            finishing.set_result(None)

    async def proceed(
        self, given: MessageRow, files: Sequence[str], *, queued: bool = False, asked: Sequence[PartDict] | None = None
    ) -> str | None:
        """Record a client's answer: the task works on; or, where it is none to what is `asked`, asks that again.
        The id of the task that has this message already, if any.

        Raises `UnsupportedOperation` where it does not wait for one any more.
        """

        def plan() -> Step:
            if not self.state.interrupted:
                raise UnsupportedOperation(TOO_LATE)
            row, question = self._next_row(TaskState.WORKING if asked is None else self.state, asked)
            row.queued = queued
            row.frame_limit = self.audience.next_frame + FRAME_BLOCK
            key = given._replace(seq=self._next_seq)
            again = [] if question is None else [MessageRow(key.seq + 1, question.id, question.body)]
            result = status_update(row)

            def publish() -> None:
                self.row = row
                for message in (key, *again):
                    self._adopt(message)
                self.audience.emit_status(result)
                if again:
                    self.emit_task()
                else:
                    self._on_state(self)

            event = StatusEvent(self.audience.next_frame, result)
            return Step(row, publish, key=key, messages=again, events=[event], attachments=files)

        return await self.ledger.commit(plan)

    async def reply(self, message: AgentMessage) -> None:
        """A direct answer takes the place of the task, which stays hidden."""

        def plan() -> Step:
            row, _ = self._next_row(TaskState.COMPLETED, None)
            row.reply = message.body

            def publish() -> None:
                self.row = row
                self.audience.emit(one_line(b'{"message":' + message.body + b"}"))
                self.audience.finish(interrupted=False)
                self.audience.wake()

            return Step(row, publish)

        await self.ledger.commit(plan)

    async def show(self) -> None:
        """A hidden task is one like any other after all."""

        def plan() -> Step:
            row = self.row.copy()
            row.hidden = False

            def publish() -> None:
                self.row = row
                self.emit_task()
                self._on_state(self)

            return Step(row, publish)

        await self.ledger.commit(plan)

    @property
    def waits_for_credential(self) -> bool:
        """The credential may come out of band: the run is there and waits."""
        return self.state is TaskState.AUTH_REQUIRED and self.run is not None and self.run.asking.active

    def _next_row(self, state: TaskState, text: Text | None) -> tuple[TaskRow, AgentMessage | None]:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"a task cannot go from {self.state} to {state}")
        silent = text is None or (isinstance(text, (str, Sequence)) and not text)
        message = None if silent else encode_agent_message(text or "", self.row.context_id, self.row.id)
        now = max(now_ms(), self.row.updated_at)
        row = self.row.copy()
        row.state, row.updated_at = state, now
        row.status = encode_status(state, now, message.body if message else None)
        return row, message

    def _become(self, row: TaskRow) -> None:
        self.row = row

    def _message(self, message: AgentMessage) -> MessageRow:
        return MessageRow(self._next_seq, message.id, message.body)

    def _adopt(self, message: MessageRow) -> MessageRow:
        self.history.append(message.body)
        self._next_seq = message.seq + 1
        return message
