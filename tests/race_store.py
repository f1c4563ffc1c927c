"""A clock that is set by hand, and a store whose calls a test can hold back or let fail."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from a2ad import TaskState

Matches = Callable[..., bool]


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is set by hand, and that knows how much its threads have still to do."""

    now = 1000.0
    in_threads = 0

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, function: Any, *args: Any) -> Any:
        self.in_threads += 1
        future = super().run_in_executor(executor, function, *args)
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: Any) -> None:
        self.in_threads -= 1


class Held:
    """Calls of the store that are held back, from the first one that matches on, until `release` or `fail`."""

    def __init__(self, name: str, matches: Matches, *, after: bool) -> None:
        self.name, self.matches, self.after = name, matches, after
        self.caught = 0
        self.error: Exception | None = None
        self._gate = asyncio.Event()

    def release(self) -> None:
        self.matches = lambda *_: False
        self._gate.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.release()

    async def wait(self) -> None:
        self.caught += 1
        await self._gate.wait()
        if self.error is not None:
            raise type(self.error)(str(self.error))


class HeldStore:
    """Passes everything on to the real store, in order."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.open = 0
        self.holds: list[Held] = []
        self.refusals: list[tuple[Matches, Exception]] = []
        #: the states that were made durable, by task
        self.durable: defaultdict[str, list[TaskState]] = defaultdict(list)

    def hold(self, name: str = "write", matches: Matches = lambda *_: True, *, after: bool = False) -> Held:
        """`after`: the call is done, and its result held back."""
        held = Held(name, matches, after=after)
        self.holds.append(held)
        return held

    def hold_state(self, state: str) -> Held:
        """Hold back writes that make a task this."""
        return self.hold(matches=lambda change: change.row.state is TaskState[state])

    def refuse(self, matches: Matches, error: Exception) -> Callable[[], None]:
        """Writes that match fail; returns what ends that."""
        entry = (matches, error)
        self.refusals.append(entry)
        return lambda: self.refusals.remove(entry)

    def write(self, change: Any) -> asyncio.Future[Any]:
        for matches, error in self.refusals:
            if matches(change):
                failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                failed.set_exception(type(error)(str(error)))
                return failed
        written = self._call("write", self.real.write, change)
        written.add_done_callback(lambda done: self._note(change, done))
        return written

    def _note(self, change: Any, written: asyncio.Future[Any]) -> None:
        if not written.cancelled() and written.exception() is None and written.result() is None:
            self.durable[change.row.id].append(change.row.state)

    def _call(self, name: str, member: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> asyncio.Future[Any]:
        held = next((held for held in self.holds if held.name == name and held.matches(*args)), None)
        self.open += 1
        if held is None:
            future = asyncio.ensure_future(member(*args, **more))
        else:
            future = asyncio.ensure_future(self._hold(held, lambda: member(*args, **more)))
        future.add_done_callback(self._closed)
        return future

    async def _hold(self, held: Held, call: Callable[[], Awaitable[Any]]) -> Any:
        result = await call() if held.after else None
        self.open -= 1
        try:
            await held.wait()
        finally:
            self.open += 1
        return result if held.after else await call()

    def _closed(self, _: Any) -> None:
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.real, name)
        if not callable(member):
            return member
        return lambda *args, **more: self._call(name, member, *args, **more)


def loop() -> ClockLoop:
    running = asyncio.get_running_loop()
    assert isinstance(running, ClockLoop)
    return running
