"""What of a task is durable, what has gathered since, and what is on its way: one commit at a time.

A step is built only when the one before it has arrived, so that it starts from what the task really is; and it is
finished when its commit has arrived, whether or not the one who asked for it still waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from a2ad.engine.artifacts import Artifacts
from a2ad.errors import StoreRefused
from a2ad.model import TaskState
from a2ad.store import Change, MessageRow, StatusEvent, Store, TaskRow

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
        await self.saved()
        step = build()
        held = (self._artifacts.take_pending(), self.messages, self.events)
        self.messages, self.events = [], []
        change = Change(
            row=step.row,
            previous=self._stored_state,
            was_hidden=self._stored_hidden,
            key_message=step.key,
            messages=[*held[1], *step.messages],
            segments=held[0],
            events=[*held[2], *step.events],
            attachments=step.attachments,
        )
        saving = self.saving = asyncio.get_running_loop().create_future()

        def give_back() -> None:
            self._artifacts.give_back(held[0])
            self.messages[:0] = held[1]
            self.events[:0] = held[2]

        stored: asyncio.Future[str | None]
        try:
            stored = asyncio.ensure_future(self._store.write(change))
        except Exception as error:  # noqa: BLE001 - a plugin's store
            stored = asyncio.get_running_loop().create_future()
            stored.set_exception(error)
        stored.add_done_callback(partial(self._arrived, step, saving, give_back))
        return await asyncio.shield(saving)

    def _arrived(
        self,
        step: Step,
        saving: asyncio.Future[str | None],
        give_back: Callable[[], None],
        stored: asyncio.Future[str | None],
    ) -> None:
        self.saving = None
        try:
            other = stored.result()
            if other is None:
                self._stored_state, self._stored_hidden = step.row.state, step.row.hidden
                self.durable_frames = step.row.frame_limit
                step.publish()
            else:
                give_back()
            saving.set_result(other)
        except asyncio.CancelledError:
            give_back()
            self._failed(saving, StoreRefused("The task store was closed"))
        except Exception as error:  # noqa: BLE001 - it is raised where the step was asked for
            give_back()
            self._failed(saving, error)

    @staticmethod
    def _failed(saving: asyncio.Future[str | None], error: Exception) -> None:
        saving.set_exception(error)
        saving.exception()  # the one who asked may not wait any more
