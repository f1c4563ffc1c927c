"""Names the executor that holds up the event loop: code that blocks belongs into a plain generator."""

from __future__ import annotations

import sys
import threading
import time
from types import AsyncGeneratorType
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from types import FrameType

    from a2ad.engine.core import Engine

#: seconds without a beat of the loop
BLOCKED_SECONDS = 1.0

log = structlog.get_logger()


class Watchdog:
    """The loop beats four times a second; a thread looks at its stack when a beat is a second late.

    That costs a run nothing, where a clock around each of its steps would cost every step.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._beat = 0.0
        self._stop = threading.Event()
        self._loop_thread = 0

    def start(self) -> None:
        self._loop_thread = threading.get_ident()
        self.beat()
        threading.Thread(target=self._watch, name="a2ad-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def beat(self) -> None:
        self._beat = time.monotonic()

    def _watch(self) -> None:
        named = 0.0
        while not self._stop.wait(BLOCKED_SECONDS / 2):
            beat = self._beat
            if beat != named and time.monotonic() - beat > BLOCKED_SECONDS:
                named = beat
                self._name(sys._current_frames().get(self._loop_thread))  # noqa: SLF001 - the documented way

    def _name(self, frame: FrameType | None) -> None:
        stack = []
        while frame is not None:
            stack.append(frame)
            frame = frame.f_back
        for task in list(self._engine.live.values()):
            generator = task.run.generator if task.run is not None else None
            running = generator.ag_frame if isinstance(generator, AsyncGeneratorType) else None
            if running is not None and running in stack:
                where = stack[0]
                log.warning(
                    "run.blocks_the_loop",
                    task_id=task.id,
                    executor=task.row.executor,
                    at=f"{where.f_code.co_filename}:{where.f_lineno}",
                    hint="use a plain `def execute` for code that blocks",
                )
                return
