"""A run that waits for a call of its own gives its slot back meanwhile: a task of this daemon may have to answer it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a2ad.engine.core import Engine
    from a2ad.engine.run import Run
    from a2ad.engine.schedule import Ticket


class Lending:
    """The slot of one run. It is lent with the first call, and taken again after the last."""

    __slots__ = ("_calls", "_engine", "_turn")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._calls = 0
        self._turn: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def lent(self, run: Run) -> AsyncIterator[None]:
        """For as long as the run, whose this is, waits for something outside."""
        ticket = run.task.ticket
        self._calls += 1
        if ticket is not None and self._calls == 1:
            self._engine.scheduler.lend(ticket)
        try:
            yield
        finally:
            self._calls -= 1
            if ticket is not None and not self._calls and not run.stopping:
                await self._reclaim(ticket)

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


@asynccontextmanager
async def lend_slot(engine: Engine, task_id: str | None) -> AsyncIterator[None]:
    """Lend the slot of the task's run, where it has one."""
    task = engine.live.get(task_id) if task_id is not None else None
    if task is None or task.run is None:
        yield
        return
    async with task.run.lending.lent(task.run):
        yield
