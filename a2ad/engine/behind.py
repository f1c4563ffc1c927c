"""Write-behind: chunks and progress notes reach the store in batches, soon after they reached the readers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from a2ad.errors import StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from a2ad.engine.task import LiveTask

#: how late a chunk is written: after this many seconds, or this many bytes
SECONDS, BYTES = 0.15, 1 << 16

log = structlog.get_logger()


class WriteBehind:
    """One batch at a time, of all tasks that are behind."""

    def __init__(self) -> None:
        self._tasks: set[LiveTask] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._batch: asyncio.Task[None] | None = None
        self._failed = False

    def add(self, task: LiveTask) -> None:
        """Something of the task has gathered."""
        self._tasks.add(task)
        if self._batch is not None:
            return
        if task.artifacts.pending_bytes > BYTES and not self._failed:
            self._start()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SECONDS, self._start)

    def discard(self, task: LiveTask) -> None:
        self._tasks.discard(task)

    async def finish(self) -> None:
        """Write all that is there now."""
        while self._batch is not None:
            await asyncio.wait([self._batch])
        await self._write()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._batch is None:
            self._batch = asyncio.create_task(self._write())
            self._batch.add_done_callback(self._ended)

    def _ended(self, batch: asyncio.Task[None]) -> None:
        self._batch = None
        if not batch.cancelled():
            for task in list(self._tasks):
                self.add(task)

    async def _write(self) -> None:
        tasks, self._tasks = self._tasks, set()
        written = await asyncio.gather(*(_flush(task) for task in tasks))
        self._failed = not all(written)
        self._tasks |= {task for task, done in zip(tasks, written, strict=True) if not done}


async def _flush(task: LiveTask) -> bool:
    """False where the store did not take it; nothing is lost then."""
    if task.state.terminal or task.finishing is not None:
        return True
    try:
        await task.flush()
    except StoreUnavailable:
        return False
    except StoreRefused:
        log.exception("task.chunks_refused", task_id=task.id)
        task.ledger.discard()
    return True
