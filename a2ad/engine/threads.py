"""Plain generators, run in a thread of their own so that code which blocks stops nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

from a2ad.executor import Event

_END = object()


class ThreadedGenerator:
    """Looks like an async generator to the engine. The thread is a daemon: one that hangs does not hold up the exit.

    A thread cannot be interrupted: on cancel the wait for it ends, and the generator is closed when it comes back.
    Until then it is one of the `stuck`.
    """

    def __init__(self, generator: Iterator[Event], name: str, stuck: set[ThreadedGenerator]) -> None:
        self._generator = generator
        self._name = name
        self._stuck = stuck
        self._loop = asyncio.get_running_loop()
        self._steps: SimpleQueue[asyncio.Future[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._working = False

    def __aiter__(self) -> ThreadedGenerator:
        return self

    async def __anext__(self) -> Event:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        step = self._loop.create_future()
        self._working = True
        self._steps.put(step)
        event, error = await step
        if error is not None:
            raise error
        if event is _END:
            raise StopAsyncIteration
        return event  # type: ignore[no-any-return]

    async def athrow(self, error: BaseException) -> Event:
        await self.aclose()
        raise error

    async def aclose(self) -> None:
        self._steps.put(None)
        if self._working:
            self._stuck.add(self)

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            outcome: tuple[Any, BaseException | None]
            try:
                outcome = next(self._generator, _END), None
            except BaseException as error:  # noqa: BLE001 - what a plugin raises belongs to its task
                outcome = None, error
            try:
                self._loop.call_soon_threadsafe(self._settle, step, outcome)
            except RuntimeError:  # the loop is closed: the daemon has stopped
                return
        close = getattr(self._generator, "close", None)
        if close is not None:
            try:
                close()
            except BaseException:  # noqa: BLE001 - nobody waits for this run any more
                return

    def _settle(self, step: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
        self._working = False
        self._stuck.discard(self)
        if not step.cancelled():
            step.set_result(outcome)
