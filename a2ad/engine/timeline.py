"""What became of a task, and when, as far as its status frames tell that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from a2ad.engine.encode import TaskView
from a2ad.model import TaskState, timestamp
from a2ad.store import StatusEvent

if TYPE_CHECKING:
    from a2ad.engine.core import Engine

#: the number of a task's first status frame, where nothing came before it but the task itself
FIRST_STATUS = 2


@dataclass(frozen=True, slots=True)
class Step:
    """`status` is the A2A TaskStatus that the frame of this number told of."""

    frame: int
    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A task with its newest status frames, oldest first; times as on the wire, None where they are not known."""

    view: TaskView
    steps: Sequence[Step]
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
    steps = kept
    if row.state.terminal and not (kept and TaskState(kept[-1].status["state"]).terminal):
        # the frame before the last, which is the whole task; its status is in the row
        steps = [*kept, Step(row.frame_limit - 1, orjson.loads(row.status))]
    ended_at = timestamp(row.updated_at) if row.state.terminal else None
    return Timeline(view, steps, _started_at(view, steps, forgotten=len(kept) >= engine.replay_frames), ended_at)


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
