"""The frames of a task's stream, and those who read them.

A frame's result is encoded once and shared; a reader holds a place in the log, not a buffer of its own. A run is
paced by its fastest reader; one that lags by more than its bound is cut, and the others do not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

#: how far a run may be ahead of its fastest reader, at most
PACE_BYTES = 1 << 18
#: how long a run is paced by readers that take nothing
PACE_SECONDS = 5.0
#: what a reader takes at a time, about: bytes, and frames at most
BATCH_BYTES, BATCH_FRAMES = 1 << 17, 1 << 10
#: how much passes between two looks for readers that lag
CHECK_BYTES = 1 << 16


class Frame(NamedTuple):
    """`result` is the JSON-RPC result; `end` counts the bytes of the log up to this frame's end."""

    number: int
    result: bytes
    end: int


#: as `Frame(…)`, from one tuple, in a third of its time
_new_frame: Callable[[tuple[int, bytes, int]], Frame] = partial(tuple.__new__, Frame)


class Reader:
    """One subscriber's place in a task's log.

    `await reader.take()` gives the frames that are there, at least one, or none at the end. `failure` then says why,
    where it is not the end of the task.
    """

    __slots__ = ("_ended", "_log", "_own", "_position", "_taken", "_waiter", "failure", "taken_at", "until_interrupted")

    def __init__(self, log: FrameLog, first: Sequence[Frame], *, until_interrupted: bool) -> None:
        self._log = log
        self._own = list(first)
        self._position = log.end
        self._taken = log.written
        #: when it took something last, by `loop.time()`
        self.taken_at = asyncio.get_running_loop().time()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        #: a stream of a message, which ends where nothing will come until the client acts
        self.until_interrupted = until_interrupted
        self.failure: Exception | None = None

    @property
    def lag(self) -> int:
        """Bytes that wait for this reader."""
        return self._log.written - self._taken

    @property
    def ready(self) -> bool:
        """`take` will not wait."""
        return bool(self._own) or self._ended or self._position < self._log.end

    @property
    def waits(self) -> bool:
        """It has taken all that there was, and is ready for more."""
        return self._waiter is not None

    @property
    def position(self) -> int:
        return self._position

    @property
    def taken(self) -> int:
        return self._taken

    async def take(self) -> Sequence[Frame]:
        while True:
            if self._own:
                count = _batch(self._own)
                frames, self._own = self._own[:count], self._own[count:]
                return frames
            if self._ended:
                return ()
            if self._position < self._log.end:
                frames = self._log.since(self._position, BATCH_FRAMES)
                del frames[_batch(frames) :]
                self._position += len(frames)
                self._taken = frames[-1].end
                self.taken_at = asyncio.get_running_loop().time()
                self._log.progress(self._taken)
                return frames
            self._waiter = asyncio.get_running_loop().create_future()
            self._log.wait(self)
            try:
                await self._waiter
            finally:
                self._waiter = None
                self._log.waiting.pop(self, None)

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def finish(self, failure: Exception | None = None) -> None:
        """Nothing comes after what is in the log now."""
        if not self._ended:
            self._ended = True
            # what it has still to take is its own now: the log need not keep it, nor what comes after
            self._own += self._log.since(self._position)
            self._position = self._log.end
            self.failure = failure
            self._log.remove(self)
            self.wake()

    def fail(self, error: Exception) -> None:
        """End at once, with an error: what waits is dropped."""
        self.failure = error
        self._own = []
        self._ended = True
        self._log.remove(self)
        self.wake()

    def close(self) -> None:
        """Read no further."""
        self._log.remove(self)


def _batch(frames: Sequence[Frame]) -> int:
    """How many of them are taken at a time: at least one, and no more than about `BATCH_BYTES`."""
    size = 0
    for count, frame in enumerate(frames, start=1):
        size += len(frame.result)
        if size > BATCH_BYTES:
            return count
    return len(frames)


class Lagged(Exception):
    """A reader was cut because it did not keep up."""


class FrameLog:
    """The frames that some reader has still to take."""

    __slots__ = (
        "_ahead",
        "_base",
        "_bound",
        "_checked",
        "_frames",
        "_pace",
        "_pacer",
        "_stalled",
        "readers",
        "waiting",
        "written",
    )

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._pace = min(PACE_BYTES, bound // 2)
        self._frames: list[Frame] = []
        self._base = 0
        self._checked = 0
        self._ahead = 0
        self._pacer: asyncio.Future[None] | None = None
        self._stalled = False
        self.readers: list[Reader] = []
        #: those that the next frame wakes
        self.waiting: dict[Reader, None] = {}
        self.written = 0

    @property
    def end(self) -> int:
        return self._base + len(self._frames)

    def since(self, position: int, most: int | None = None) -> list[Frame]:
        start = position - self._base
        return self._frames[start : None if most is None else start + most]

    def add(self, reader: Reader) -> None:
        self.readers.append(reader)
        self._ahead = self.written
        self._stalled = False

    def remove(self, reader: Reader) -> None:
        self.waiting.pop(reader, None)
        if reader in self.readers:
            self.readers.remove(reader)
            self._ahead = max((held.taken for held in self.readers), default=self.written)
            self._wake_pacer()
            self._forget_what_all_have()

    def wait(self, reader: Reader) -> None:
        """It has taken all that there is, and the next frame is to wake it."""
        self.waiting[reader] = None
        self._forget_what_all_have()

    def _forget_what_all_have(self) -> None:
        """Those that wait have taken everything: where that is all of them, nothing is kept."""
        if len(self.waiting) == len(self.readers):
            self._base = self.end
            self._frames.clear()

    def push(self, number: int, result: bytes) -> None:
        self.written += len(result)
        self._frames.append(_new_frame((number, result, self.written)))
        if self.waiting:
            for reader in self.waiting:
                reader.wake()
            self.waiting.clear()
        if self.written - self._checked > CHECK_BYTES:
            self._check()

    def _check(self) -> None:
        """Cut those who lag too far, and let go of what everybody has."""
        self._checked = self.written
        newest = len(self._frames[-1].result)  # however large it is, it passes one who keeps up
        now = asyncio.get_running_loop().time()
        for reader in list(self.readers):
            stalled = not reader.waits and now - reader.taken_at > PACE_SECONDS
            if reader.lag - (0 if stalled else newest) > self._bound:
                reader.fail(Lagged())
        if self.readers:
            done = min(reader.position for reader in self.readers)
            del self._frames[: done - self._base]
            self._base = done

    def progress(self, taken: int) -> None:
        self._stalled = False
        self._ahead = max(self._ahead, taken)
        self._wake_pacer()

    def _wake_pacer(self) -> None:
        if self._pacer is not None and not self._pacer.done():
            self._pacer.set_result(None)

    @property
    def too_far_ahead(self) -> bool:
        """Whether the run should wait for its readers now."""
        return self.written - self._ahead > self._pace and bool(self.readers) and not self._stalled

    async def pace(self) -> None:
        """Wait until the fastest reader has caught up, for at most `PACE_SECONDS` without progress."""
        loop = asyncio.get_running_loop()
        while self.too_far_ahead:
            self._pacer = loop.create_future()
            timer = loop.call_later(PACE_SECONDS, self._stall)
            try:
                await self._pacer
            finally:
                timer.cancel()
                self._pacer = None

    def _stall(self) -> None:
        self._stalled = True
        self._wake_pacer()
