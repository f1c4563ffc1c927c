"""What became of a task, and when, as far as what is kept of it tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import orjson

from a2ad.engine.encode import TaskView
from a2ad.model import TaskState, timestamp
from a2ad.store import StatusEvent, artifact_times_of

if TYPE_CHECKING:
    from a2ad.engine.core import Engine

#: the number of a task's first status frame, where nothing came before it but the task itself
FIRST_STATUS = 2
#: of a task's artifacts, so many are in its timeline, the newest
MOST_ARTIFACTS = 200


@dataclass(frozen=True, slots=True)
class Step:
    """`status` is the A2A TaskStatus that the frame of this number told of."""

    frame: int
    status: dict[str, Any]

    @property
    def at(self) -> str:
        return str(self.status["timestamp"])


@dataclass(frozen=True, slots=True)
class Delivery:
    """An artifact as it was written: the first time, the last time, and in how many pieces."""

    artifact_id: str
    at: str
    until: str
    pieces: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A task with its newest status frames and artifacts, oldest first; times as on the wire, None where they are not
    known. An artifact is there once it is written, and when that was is known.
    """

    view: TaskView
    steps: Sequence[Step | Delivery]
    started_at: str | None
    ended_at: str | None


async def read_timeline(engine: Engine, task_id: str) -> Timeline:
    """Raises `TaskNotFound`."""
    view = await engine.view(task_id)
    events = await engine.store.status_events(task_id, 0)
    live = engine.live.get(task_id)
    if live is not None:  # it knows better, and may have gone on meanwhile
        view = live.view()
        events = [StatusEvent(frame.number, frame.result) for frame in live.audience.status_frames]
    row = view.row
    kept = [Step(event.frame, orjson.loads(event.body)["statusUpdate"]["status"]) for event in events]
    statuses = kept
    if row.state.terminal:
        # the frame before the last, which is the whole task; it is not kept, its status is in the row
        statuses = [*kept, Step(row.frame_limit - 1, orjson.loads(row.status))]
    ended_at = timestamp(row.updated_at) if row.state.terminal else None
    started_at = _started_at(view, statuses, forgotten=len(kept) >= engine.replay_frames)
    # read last: a task that is seen to have ended has no artifact that is missing here
    return Timeline(view, list(_in_order(statuses, await _deliveries(engine, task_id))), started_at, ended_at)


async def _deliveries(engine: Engine, task_id: str) -> list[Delivery]:
    known = [
        Delivery(times.artifact_id, timestamp(times.first), timestamp(times.last), times.pieces)
        for times in await artifact_times_of(engine.store, task_id)
        if times.first is not None and times.last is not None
    ]
    return sorted(known, key=attrgetter("at"))[-MOST_ARTIFACTS:]


def _in_order(statuses: Iterable[Step], deliveries: Iterable[Delivery]) -> Iterable[Step | Delivery]:
    """The statuses in the order of their frames. Within a millisecond, a task delivers while it works."""

    def moment(entry: Step | Delivery) -> tuple[str, int]:
        if isinstance(entry, Delivery):
            return entry.at, 1
        return entry.at, 0 if entry.status["state"] == TaskState.WORKING else 2

    return merge(statuses, deliveries, key=moment)


def _started_at(view: TaskView, steps: Sequence[Step], *, forgotten: bool) -> str | None:
    """The frame by which a task leaves the queue says no more than WORKING; one that never was there has none."""
    row = view.row
    if row.state is TaskState.SUBMITTED or forgotten:
        return None
    first = steps[0] if steps else None
    if first is not None:
        state = TaskState(first.status["state"])
        if state is TaskState.WORKING and "message" not in first.status:
            return str(first.status["timestamp"])
        if state in {TaskState.CANCELED, TaskState.REJECTED} and first.frame == FIRST_STATUS:
            return None  # it may have ended in the queue, or at a policy's word
    return timestamp(row.created_at)
