"""A task in memory: what it is now, what of it is durable, who waits for it and who reads its stream.

The rule of every change: check the transition, make it durable where it must be, number the frame, hand it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
import structlog
from orjson import Fragment

from a2ad.engine.artifacts import Artifacts
from a2ad.engine.audience import Audience
from a2ad.engine.encode import (
    AgentMessage,
    TaskView,
    encode_agent_message,
    encode_metadata,
    encode_status,
    one_line,
    status_update,
    task_result,
)
from a2ad.engine.frames import Reader
from a2ad.errors import StoreUnavailable
from a2ad.executor import Artifact, Text
from a2ad.model import TRANSITIONS, TaskState, now_ms
from a2ad.store import Change, MessageRow, StatusEvent, Store, StoredTask, TaskRow

if TYPE_CHECKING:
    from a2ad.engine.run import Run
    from a2ad.engine.schedule import Ticket

#: how many frame numbers a task reserves in the store at a time, at first
FRAME_BLOCK = 1000
#: pauses between attempts to make an outcome durable, in seconds
RETRY_FIRST, RETRY_MAX = 0.25, 5.0

log = structlog.get_logger()


class LiveTask:
    __slots__ = (
        "_durable_frames",
        "_events",
        "_messages",
        "_next_seq",
        "_on_state",
        "_store",
        "_stored_hidden",
        "_stored_state",
        "artifacts",
        "audience",
        "canceling",
        "continuing",
        "finishing",
        "history",
        "row",
        "run",
        "saving",
        "ticket",
    )

    def __init__(
        self, row: TaskRow, store: Store, *, bound: int, replay: int, on_state: Callable[[LiveTask], None]
    ) -> None:
        self.row = row
        self.history: list[bytes] = []
        self.artifacts = Artifacts()
        self.audience = Audience(bound=bound, replay=replay)
        self.run: Run | None = None
        self.ticket: Ticket | None = None
        #: somebody has decided that it ends as CANCELED (or FAILED, or is left): its run's own end counts no more
        self.canceling: asyncio.Task[None] | None = None
        #: its outcome is decided and on its way into the store
        self.finishing = False
        #: a message for it is on its way into the store
        self.continuing = False
        self.saving: asyncio.Future[str | None] | None = None
        self._store = store
        self._on_state = on_state
        self._stored_state: TaskState | None = None
        self._stored_hidden = row.hidden
        self._durable_frames = 0
        self._next_seq = 0
        self._messages: list[MessageRow] = []
        self._events: list[StatusEvent] = []

    def restore(self, stored: StoredTask, events: Sequence[StatusEvent]) -> None:
        """Take over what the store has of it."""
        self.history = list(stored.messages)
        self.artifacts = Artifacts.from_segments(stored.segments)
        self.audience.restore(self.row.frame_limit, events)
        self._stored_state = self.row.state
        self._durable_frames = self.row.frame_limit
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
            and not self.finishing
            and not self.audience.present
            and not self.behind
        )

    def view(self) -> TaskView:
        return TaskView(self.row, list(self.history), self.artifacts.encode())

    async def settled(self) -> None:
        """Wait until the task is terminal or interrupted. Raises `StoreUnavailable` where that cannot be recorded."""
        if not self.settled_now:
            await self.audience.wait()

    async def saved(self) -> None:
        """Wait until nothing of it is on its way into the store."""
        while self.saving is not None:
            await asyncio.wait([self.saving])

    async def at_rest(self) -> None:
        """Wait until its outcome, if that is decided, and all else has reached the store. Raises `StoreUnavailable`."""
        while self.finishing or self.saving is not None:
            if self.saving is not None:
                await self.saved()
            else:
                await self.audience.wait()

    # its stream

    def subscribe(self, *, last_event_id: int | None, until_interrupted: bool) -> Reader:
        """The task as it is now, and then what comes.

        All in one step of the event loop: no frame is lost or doubled at the seam.
        """
        reader = self.audience.subscribe(
            task_result(self.view().encode()), last_event_id=last_event_id, until_interrupted=until_interrupted
        )
        if self.state.terminal or (until_interrupted and self.settled_now):
            reader.finish()
        return reader

    def emit_task(self) -> None:
        """A `task` frame with all that is there now."""
        self.audience.emit(task_result(self.view().encode()) if self.audience.log.readers else None)

    @property
    def needs_frames(self) -> bool:
        """The next frame's number is not reserved yet: `flush` first."""
        return self.audience.next_frame > self._durable_frames

    # what happens to it

    def add_artifact(self, artifact: Artifact) -> None:
        """Take in a piece of a result and hand it out; it is written behind. Raises `InvalidOutput`."""
        self.audience.emit(self.artifacts.apply(artifact, self.row, frame=bool(self.audience.log.readers)))
        if self.audience.next_frame > self.row.frame_limit - FRAME_BLOCK // 4:
            self.row.frame_limit *= 2

    def note(self, text: Text | None, metadata: Mapping[str, Any] | None) -> None:
        """A progress note: WORKING again; it is written behind. Raises `InvalidOutput`."""
        row, message = self._next_row(TaskState.WORKING, text)
        encoded = encode_metadata(metadata)
        self.row = row
        if message is not None:
            self._messages.append(self._adopt(self._message(message)))
        self._publish_status(encoded)

    async def transition(
        self, state: TaskState, text: Text | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Go to another state, durably, and tell everyone. Raises `InvalidOutput`, `StoreUnavailable`."""
        await self.saved()
        row, message = self._next_row(state, text)
        encoded = encode_metadata(metadata)
        if encoded is not None and state.terminal:
            row.metadata = orjson.dumps({**orjson.loads(row.metadata or b"{}"), **(metadata or {})})
        first = row.hidden
        row.hidden = row.queued = False
        number = self.audience.next_frame + first
        # a stream's last frames are the status and the whole task
        last = number + 1 if state.terminal or state.interrupted else number
        row.frame_limit = last if last > number else max(self.row.frame_limit, number + FRAME_BLOCK)
        messages = [] if message is None else [self._message(message)]
        events = [] if state.terminal else [StatusEvent(number, status_update(row, encoded))]
        await self.save(row, messages=messages, events=events)
        self.row = row
        for written in messages:
            self._adopt(written)
        if first:
            self.emit_task()
        self._publish_status(encoded, stored=True)
        if state.terminal or state.interrupted:
            self.emit_task()
            if not self._waits_for_credential:
                self.audience.finish(interrupted=state.interrupted)
            self.audience.wake()
        self._on_state(self)

    async def begin(self) -> None:
        """Its run is about to start: durably so, for after a crash it would start again."""
        if self.state is TaskState.SUBMITTED and not self.row.hidden:
            await self.transition(TaskState.WORKING)
            return
        row = self.row.copy() if self.state is TaskState.WORKING else self._next_row(TaskState.WORKING, None)[0]
        row.queued = False
        await self.save(row)
        self.row = row

    async def settle(self, state: TaskState, text: Text | None, metadata: Mapping[str, Any] | None = None) -> None:
        """As `transition`, tried again until the store takes it; those who wait are told of each failure."""
        pause = RETRY_FIRST
        self.finishing = True
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
            self.finishing = False

    async def proceed(self, message: MessageRow, attachments: Sequence[str], *, queued: bool) -> str | None:
        """Record a client's answer: the task works on. The id of the task that has this message already, if any."""
        row, _ = self._next_row(TaskState.WORKING, None)
        row.queued = queued
        row.frame_limit = self.audience.next_frame + FRAME_BLOCK
        event = StatusEvent(self.audience.next_frame, status_update(row))
        other = await self.save(row, key=message, events=[event], attachments=attachments)
        if other is None:
            self.row = row
            self._adopt(message)
            self._publish_status(None, stored=True)
            self._on_state(self)
        return other

    async def reply(self, message: AgentMessage) -> None:
        """A direct answer takes the place of the task, which stays hidden."""
        row, _ = self._next_row(TaskState.COMPLETED, None)
        row.reply = message.body
        await self.save(row)
        self.row = row
        self.audience.emit(one_line(b'{"message":' + message.body + b"}"))
        self.audience.finish(interrupted=False)
        self.audience.wake()

    async def show(self) -> None:
        """A hidden task is one like any other after all."""
        row = self.row.copy()
        row.hidden = False
        await self.save(row)
        self.row = row
        self.emit_task()

    def next_message(self, message_id: str, body: bytes, caller: str | None) -> MessageRow:
        return MessageRow(self._next_seq, message_id, body, caller)

    @property
    def _waits_for_credential(self) -> bool:
        """The credential may come out of band: the run is there and waits."""
        return self.state is TaskState.AUTH_REQUIRED and self.run is not None and self.run.asking

    def _next_row(self, state: TaskState, text: Text | None) -> tuple[TaskRow, AgentMessage | None]:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"a task cannot go from {self.state} to {state}")
        message = (
            None if text is None or len(text) == 0 else encode_agent_message(text, self.row.context_id, self.row.id)
        )
        now = max(now_ms(), self.row.updated_at)
        status = encode_status(state, now, message.body if message else None)
        row = self.row.copy()
        row.state, row.status, row.updated_at = state, status, now
        return row, message

    def _message(self, message: AgentMessage) -> MessageRow:
        return MessageRow(self._next_seq, message.id, message.body)

    def _adopt(self, message: MessageRow) -> MessageRow:
        self.history.append(message.body)
        self._next_seq = message.seq + 1
        return message

    def _publish_status(self, metadata: Fragment | None, *, stored: bool = False) -> None:
        result = status_update(self.row, metadata)
        number = self.audience.emit_status(result)
        if not stored:
            self._events.append(StatusEvent(number, result))

    # how it becomes durable

    async def create(self, key: MessageRow, attachments: Sequence[str]) -> str | None:
        """Record it with its first message. The id of the task that has this message already, if any."""
        other = await self.save(self.row, key=key, attachments=attachments)
        if other is None:
            self._adopt(key)
        return other

    async def flush(self) -> None:
        """Write what has gathered behind. Raises `StoreUnavailable`; nothing of it is lost then."""
        await self.saved()
        if self.behind:
            await self.save(self.row.copy())

    @property
    def behind(self) -> bool:
        """Something has gathered that is not in the store."""
        return bool(
            self.artifacts.pending_bytes
            or self._messages
            or self._events
            or self.row.frame_limit > self._durable_frames
        )

    async def save(
        self,
        row: TaskRow,
        *,
        key: MessageRow | None = None,
        messages: Sequence[MessageRow] = (),
        events: Sequence[StatusEvent] = (),
        attachments: Sequence[str] = (),
    ) -> str | None:
        """Make `row` and all that has gathered durable in one commit. The caller makes `row` what the task is."""
        await self.saved()
        gathered = self.artifacts.take_pending()
        held_messages, held_events = self._messages, self._events
        self._messages, self._events = [], []
        change = Change(
            row=row,
            previous=self._stored_state,
            was_hidden=self._stored_hidden,
            key_message=key,
            messages=[*held_messages, *messages],
            segments=gathered,
            events=[*held_events, *events],
            attachments=attachments,
        )
        self.saving = asyncio.ensure_future(self._store.write(change))
        try:
            other = await self.saving
        except StoreUnavailable:
            self.artifacts.give_back(gathered)
            self._messages[:0] = held_messages
            self._events[:0] = held_events
            raise
        finally:
            self.saving = None
        if other is None:
            self._stored_state, self._stored_hidden = row.state, row.hidden
            self._durable_frames = row.frame_limit
        return other
