"""Readers that wait, lag, leave and are failed in any order: each has every frame of its time, once, in order."""

import asyncio
import random
from collections.abc import Callable

import pytest

from a2ad.engine import frames
from a2ad.engine.frames import FrameLog, Reader

SEEDS = range(1500)


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Followers:
    """A log, and those who read it as the streams do."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.log = FrameLog(chance.choice([200, 2000, 1 << 20]))
        self.pushed = 0
        self.readers: list[Reader] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.first: list[int] = []
        self.seen: list[list[int]] = []

    def join(self) -> None:
        reader = Reader(self.log, (), until_interrupted=False)
        self.log.add(reader)
        self.readers.append(reader)
        self.first.append(self.pushed + 1)
        self.seen.append([])
        self.tasks.append(asyncio.create_task(self._follow(reader, self.seen[-1])))

    async def _follow(self, reader: Reader, seen: list[int]) -> None:
        try:
            while taken := await reader.take():
                seen += [frame.number for frame in taken]
                await passes(self._chance.choice([0, 0, 0, 1, 2, 5]))
                if self._chance.random() < 0.05:
                    return
        finally:
            reader.close()

    def push(self) -> None:
        for _ in range(self._chance.choice([1, 1, 3])):
            self.pushed += 1
            if self.log.readers:
                self.log.push(self.pushed, b"x" * self._chance.choice([1, 5, 50]))

    def fail_one(self) -> None:
        self._chance.choice(self.readers).fail(ConnectionResetError())

    def cancel_one(self) -> None:
        self._chance.choice(self.tasks).cancel()

    def finish_one(self) -> None:
        self._chance.choice(self.readers).finish()


@pytest.mark.parametrize("part", range(4))
async def test_each_reader_has_every_frame_of_its_time_once_and_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(frames, "CHECK_BYTES", 64)
    for seed in SEEDS[part::4]:
        chance = random.Random(seed)
        them = Followers(chance)
        steps: list[Callable[[], None]] = [them.push] * 8 + [them.join] * 4
        steps += [them.fail_one, them.fail_one, them.cancel_one, them.finish_one]
        them.join()
        for _ in range(chance.randint(5, 60)):
            chance.choice(steps)()
            await passes(chance.choice([0, 0, 1, 2, 3]))
        for reader in them.readers:
            reader.finish()
        outcomes = await asyncio.gather(*them.tasks, return_exceptions=True)

        assert all(each is None or isinstance(each, asyncio.CancelledError) for each in outcomes), (seed, outcomes)
        for first, seen in zip(them.first, them.seen, strict=True):
            assert seen == list(range(first, first + len(seen))), seed
        assert not them.log.readers
        assert not them.log.waiting
