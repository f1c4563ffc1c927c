"""Who waits for a task and who reads its stream: frames get their numbers here, and are handed out from here."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from a2ad.engine.frames import Frame, FrameLog, Reader
from a2ad.store import StatusEvent


class Audience:
    """`next_frame` is the number of the next frame; they rise by one per task, from 1."""

    __slots__ = ("_replay", "_status_frames", "_waiters", "log", "next_frame")

    def __init__(self, *, bound: int, replay: int) -> None:
        self.log = FrameLog(bound)
        self.next_frame = 1
        self._replay = replay
        #: made with the first of them: many tasks have none before their end
        self._status_frames: deque[Frame] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def restore(self, newest: int, events: Sequence[StatusEvent]) -> None:
        """Go on where an earlier process stopped."""
        self.next_frame = newest + 1
        for event in events:
            self._keep(Frame(event.frame, event.body, 0))

    @property
    def status_frames(self) -> Sequence[Frame]:
        """The newest, oldest first."""
        return self._status_frames or ()

    @property
    def present(self) -> bool:
        """Somebody is there."""
        return bool(self.log.readers or self._waiters)

    # frames

    def emit(self, result: bytes | None) -> int:
        """Number a frame and hand it to the readers; `result` is None where there are none to encode it for."""
        number = self.next_frame
        self.next_frame += 1
        if result is not None and self.log.readers:
            self.log.push(number, result)
        return number

    def emit_status(self, result: bytes) -> int:
        """As `emit`, for a statusUpdate: it may be asked for again."""
        number = self.emit(result)
        self._keep(Frame(number, result, 0))
        return number

    def _keep(self, frame: Frame) -> None:
        if self._status_frames is None:
            self._status_frames = deque(maxlen=self._replay)
        self._status_frames.append(frame)

    def follow(self, *, until_interrupted: bool) -> Reader:
        """Read from the next frame on."""
        reader = Reader(self.log, (), until_interrupted=until_interrupted)
        self.log.add(reader)
        return reader

    def subscribe(self, snapshot: bytes, *, last_event_id: int | None, until_interrupted: bool) -> Reader:
        """Read the snapshot, the status frames after `last_event_id` again, and then what comes."""
        newest = self.next_frame - 1
        number = newest if last_event_id is None else min(last_event_id, newest)
        first = [Frame(number, snapshot, 0)]
        if last_event_id is not None:
            first += [frame for frame in self.status_frames if frame.number > last_event_id]
        reader = Reader(self.log, first, until_interrupted=until_interrupted)
        self.log.add(reader)
        return reader

    def finish(self, *, interrupted: bool, failure: Exception | None = None) -> None:
        """End the streams: all of them, or those that end where nothing will come until the client acts."""
        for reader in list(self.log.readers):
            if reader.until_interrupted or not interrupted:
                reader.finish(failure)

    # those who wait

    async def wait(self) -> None:
        """Until `wake`, or `fail`'s error."""
        waiter = self._enter()
        try:
            await waiter
        finally:
            self._leave(waiter)

    async def wait_for(self, other: asyncio.Future[None]) -> None:
        """Until `wake`, or until the other is done, whichever comes first; or `fail`'s error, or the other's."""
        waiter = self._enter()
        try:
            await asyncio.wait([waiter, other], return_when=asyncio.FIRST_COMPLETED)
            for done in (waiter, other):
                if done.done() and not done.cancelled():
                    done.result()
        finally:
            self._leave(waiter)

    def _enter(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def _leave(self, waiter: asyncio.Future[None]) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def wake(self) -> None:
        for waiter in self._take_waiters():
            waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """They wait in vain. The streams stay: the outcome may yet come."""
        for waiter in self._take_waiters():
            waiter.set_exception(error)

    def _take_waiters(self) -> list[asyncio.Future[None]]:
        waiters, self._waiters = self._waiters, []
        return [waiter for waiter in waiters if not waiter.done()]
