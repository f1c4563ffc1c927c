"""What of a task is durable, what has gathered since, and what is on its way: one commit at a time.

A step is built only when the one before it has arrived, so that it starts from what the task really is; and it is
finished when its commit has arrived, whether or not the one who asked for it still waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import structlog

from a2ad.engine.artifacts import Artifacts
from a2ad.errors import StoreRefused
from a2ad.model import TaskState, now_ms
from a2ad.store import Change, MessageRow, Segment, StatusEvent, Store, TaskRow

log = structlog.get_logger()


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Step:
    """`row` is what the task is after it. `publish` runs at the moment when it is durable, and does what may be seen
    from then on: for a change of state, it puts the row into the `LiveTask`, hands the frames out, wakes who waits.
    """

    row: TaskRow
    publish: Callable[[], None] = _nothing
    key: MessageRow | None = None
    messages: Sequence[MessageRow] = ()
    events: Sequence[StatusEvent] = ()
    attachments: Sequence[str] = ()


class _Gathered(NamedTuple):
    """What of the gathered goes into a commit."""

    segments: list[Segment]
    messages: list[MessageRow]
    events: list[StatusEvent]


class Ledger:
    """`messages` and `events` are gathered here until the next commit takes them; artifacts gather on their own."""

    __slots__ = ("_artifacts", "_store", "_stored_hidden", "_stored_state", "durable_frames", "events", "messages",
                 "saving")  # fmt: skip

    def __init__(self, store: Store, artifacts: Artifacts) -> None:
        self._store = store
        self._artifacts = artifacts
        self._stored_state: TaskState | None = None
        self._stored_hidden = False
        #: no number above this one is reserved
        self.durable_frames = 0
        self.messages: list[MessageRow] = []
        self.events: list[StatusEvent] = []
        #: the commit that is on its way
        self.saving: asyncio.Future[str | None] | None = None

    def restore(self, row: TaskRow, artifacts: Artifacts) -> None:
        """The store has it like this."""
        self._artifacts = artifacts
        self._stored_state, self._stored_hidden = row.state, row.hidden
        self.durable_frames = row.frame_limit

    @property
    def recorded(self) -> bool:
        """The store has the task."""
        return self._stored_state is not None

    @property
    def gathered(self) -> bool:
        """Something waits for a commit."""
        return bool(self._artifacts.pending_bytes or self.messages or self.events)

    def discard(self) -> None:
        """Let go of what the store refuses to take."""
        self._artifacts.take_pending()
        self.messages, self.events = [], []

    async def saved(self) -> None:
        """Wait until nothing is on its way."""
        while self.saving is not None:
            await asyncio.wait([self.saving])

    async def commit(self, build: Callable[[], Step]) -> str | None:
        """Make a step, and all that has gathered, durable. The id of the task that has the step's key message
        already, if any: nothing is written then.

        `build` may raise. Raises `StoreUnavailable`, or `StoreRefused` where it would be in vain to try again; nothing
        that has gathered is lost then.
        """
        if self.saving is not None:
            await self.saved()
        now = now_ms()  # no later than the step, so that what is written with a task's end is not told of after it
        step = build()
        held = _Gathered(self._artifacts.take_pending(now), self.messages, self.events)
        self.messages, self.events = [], []
        change = Change(
            row=step.row,
            previous=self._stored_state,
            was_hidden=self._stored_hidden,
            key_message=step.key,
            messages=[*held.messages, *step.messages],
            segments=held.segments,
            events=[*held.events, *step.events],
            attachments=step.attachments,
        )
        waiter: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        stored = self.saving = self._hand_over(change)
        # whoever waits may be cancelled; what is on its way arrives all the same
        stored.add_done_callback(partial(self._arrived, step, held, waiter))
        return await waiter

    def _hand_over(self, change: Change) -> asyncio.Future[str | None]:
        try:
            return asyncio.ensure_future(self._store.write(change))
        except Exception as error:  # noqa: BLE001 - a plugin's store
            refused: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    def _arrived(
        self,
        step: Step,
        held: _Gathered,
        waiter: asyncio.Future[str | None],
        stored: asyncio.Future[str | None],
    ) -> None:
        self.saving = None
        try:
            other = stored.result()
            if other is None:
                row = step.row
                self._stored_state, self._stored_hidden = row.state, row.hidden
                self.durable_frames = row.frame_limit
                step.publish()
            else:
                self._give_back(held)
            if not waiter.done():
                waiter.set_result(other)
        except asyncio.CancelledError:
            self._failed(held, waiter, StoreRefused("The task store was closed"))
        except Exception as error:  # noqa: BLE001 - it is raised where the step was asked for
            self._failed(held, waiter, error)

    def _failed(self, held: _Gathered, waiter: asyncio.Future[str | None], error: Exception) -> None:
        self._give_back(held)
        if not waiter.done():
            waiter.set_exception(error)

    def _give_back(self, held: _Gathered) -> None:
        """It could not be written: the next commit takes it."""
        self._artifacts.give_back(held.segments)
        self.messages[:0] = held.messages
        self.events[:0] = held.events
