"""A run that waits for a call of its own gives its slot back meanwhile: a task of this daemon may have to answer it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from a2ad.agent import ToolError

if TYPE_CHECKING:
    from a2ad.engine.core import Engine
    from a2ad.engine.run import Run
    from a2ad.engine.schedule import Ticket


class Lending:
    """The slot of one run. It is lent with the first call, and taken again after the last."""

    __slots__ = ("_callers", "_closed", "_engine", "_turn")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: those that wait for a call: the run itself, or somebody who calls for it
        self._callers: list[asyncio.Task[object]] = []
        self._closed = False
        self._turn: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def lent(self, run: Run) -> AsyncIterator[None]:
        """For as long as the run, whose this is, waits for something outside. Raises `ToolError` in one that calls for
        the run once that has ended.
        """
        caller = asyncio.current_task()
        assert caller is not None
        self._callers.append(caller)
        if len(self._callers) == 1:
            self.resume(run)
            self.let_go()  # one whose call is over and that waits for the slot need not wait for this call, too
        try:
            yield
        except asyncio.CancelledError:
            if self._closed and caller is not run.work:
                caller.uncancel()
                raise ToolError("the task that made this call has ended") from None
            raise
        finally:
            self._callers.remove(caller)
            if run.task.ticket is not None and not self._callers and not run.stopping:
                await self._reclaim(run.task.ticket)

    def resume(self, run: Run) -> None:
        """The run has its slot, again after a question; where it waits for calls all the same, others may have it."""
        if self._callers and run.task.ticket is not None:
            self._engine.scheduler.lend(run.task.ticket)

    async def _reclaim(self, ticket: Ticket) -> None:
        if self._turn is None or self._turn.done():
            self._turn = asyncio.get_running_loop().create_future()
        turn = self._turn
        if self._engine.scheduler.reclaim(ticket, self.let_go):
            self.let_go()
        # several calls may wait for it: one of them that is cancelled must not take it from the others
        await asyncio.shield(turn)

    def let_go(self) -> None:
        """It has its slot again; or it asks now, and needs none."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def close(self, run: Run) -> None:
        """The run has ended: so do the calls that others make for it."""
        self._closed = True
        for caller in self._callers:
            if caller is not run.work:
                caller.cancel()


@asynccontextmanager
async def lend_slot(engine: Engine, task_id: str | None) -> AsyncIterator[None]:
    """Lend the slot of the task's run, where it has one."""
    task = engine.live.get(task_id) if task_id is not None else None
    if task is None or task.run is None:
        yield
        return
    async with task.run.lending.lent(task.run):
        yield
