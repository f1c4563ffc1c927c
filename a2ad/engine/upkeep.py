"""What is done from time to time: runs that took too long are ended, questions too old or too many are let go of."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

from a2ad.engine.questions import NOBODY_ANSWERED
from a2ad.engine.watchdog import Watchdog
from a2ad.model import TaskState

if TYPE_CHECKING:
    from a2ad.engine.core import Engine
    from a2ad.engine.task import LiveTask

TICK_SECONDS = 0.25

log = structlog.get_logger()


class Upkeep:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ticker: asyncio.Task[None] | None = None
        self._watchdog = Watchdog(engine)

    def start(self) -> None:
        self._ticker = asyncio.create_task(self._tick())
        self._watchdog.start()

    def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        self._watchdog.stop()

    async def _tick(self) -> None:
        figures = self._engine.figures
        while True:
            due = time.monotonic() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            figures.loop_lag.add(max(0.0, time.monotonic() - due))
            figures.tasks.minutes.advance()
            self._watchdog.beat()
            try:
                self._look()
            except Exception:
                log.exception("engine.upkeep_failed")  # the next look may go better

    def _look(self) -> None:
        engine, now = self._engine, asyncio.get_running_loop().time()
        engine.expiry.look()
        asking: list[tuple[float, LiveTask]] = []
        for task in list(engine.live.values()):
            run = task.run
            if run is None or task.canceling is not None or task.finishing:
                engine.release(task)
            elif run.asking.active:
                if task.state.interrupted and not task.continuing:
                    asking.append((run.asking.since, task))
            elif now > run.deadline:
                engine.halt(task, TaskState.FAILED, f"The task ran longer than {engine.limits.run_seconds} seconds")
        asking.sort(key=lambda pair: pair[0])
        surplus = len(asking) - engine.limits.asking
        for number, (since, task) in enumerate(asking):
            if number < surplus or now - since > engine.limits.ask_seconds:
                engine.let_go(task, NOBODY_ANSWERED)
