"""Slow readers, what they cost, and whom a run waits for."""

import asyncio
import tracemalloc

import pytest

from a2ad.engine import Lagged, frames
from a2ad.engine.frames import FrameLog
from tests.test_frames import BOUND, MIB, WITHIN, audience, numbers, rest, there

# slow readers


async def test_one_that_lags_is_cut_and_the_others_do_not_notice() -> None:
    held = audience(bound=MIB)
    slow, quick = (held.follow(until_interrupted=False) for _ in range(2))
    found = []
    for _ in range(40):
        held.emit(bytes(100_000))
        found += await there(quick)
    held.finish(interrupted=False)
    found += await rest(quick)

    assert numbers(found) == list(range(1, 41))
    assert quick.failure is None
    assert isinstance(slow.failure, Lagged)
    assert await rest(slow) == []


async def test_within_its_bound_a_reader_may_take_its_time() -> None:
    held = audience(bound=MIB)
    slow = held.follow(until_interrupted=False)
    for _ in range(9):
        held.emit(bytes(100_000))
    held.finish(interrupted=False)

    assert numbers(await rest(slow)) == list(range(1, 10))


async def test_a_frame_larger_than_the_bound_passes_an_empty_buffer() -> None:
    held = audience(bound=1000)
    reader = held.follow(until_interrupted=False)
    held.emit(bytes(5 * frames.CHECK_BYTES))

    assert [len(frame.result) for frame in await there(reader)] == [5 * frames.CHECK_BYTES]
    assert reader.failure is None


async def test_a_reader_that_keeps_up_gets_the_status_and_the_large_task_frame_that_end_a_stream() -> None:
    """Both are emitted in one step of the loop, so even the quickest reader has not taken the first."""
    held = audience()
    reader = held.follow(until_interrupted=False)
    found = []
    for _ in range(100):
        held.emit(bytes(60_000))
        found += await there(reader)
    held.emit_status(b"completed")
    held.emit(bytes(6_000_000))
    held.finish(interrupted=False)
    found += await rest(reader)

    assert reader.failure is None
    assert len(found[-1].result) == 6_000_000


async def test_frames_after_its_end_do_not_count_against_a_reader() -> None:
    held = audience(bound=MIB)
    reader, quick = held.follow(until_interrupted=True), held.follow(until_interrupted=False)
    held.emit(b"1")
    held.emit(b"2")
    held.finish(interrupted=True)
    for _ in range(40):
        held.emit(bytes(100_000))
        await there(quick)

    assert numbers(await rest(reader)) == [1, 2]
    assert reader.failure is None


# memory


async def test_what_everybody_has_read_takes_no_memory() -> None:
    held = audience()
    readers = [held.follow(until_interrupted=False) for _ in range(3)]
    tracemalloc.start()
    try:
        for number in range(400):
            held.emit(bytes(250_000 + number))
            for reader in readers:
                await there(reader)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < BOUND


async def test_nothing_is_kept_where_nobody_reads() -> None:
    held = audience()
    gone = held.follow(until_interrupted=False)
    tracemalloc.start()
    try:
        held.emit(bytes(100_000))
        gone.close()
        for _ in range(400):
            held.emit(bytes(250_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 100_000


async def test_a_stalled_reader_costs_no_more_than_its_bound() -> None:
    held = audience(bound=2 * MIB)
    held.follow(until_interrupted=False)
    tracemalloc.start()
    try:
        for _ in range(400):
            held.emit(bytes(250_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 3 * MIB


# pace


def fill(log: FrameLog, size: int) -> None:
    log.push(1, bytes(size))


async def test_a_run_without_readers_is_not_paced() -> None:
    held = audience()
    for _ in range(10):
        held.emit(bytes(MIB))

    assert not held.log.too_far_ahead


async def test_a_run_waits_for_its_fastest_reader_and_for_no_other() -> None:
    held = audience()
    quick = held.follow(until_interrupted=False)
    held.follow(until_interrupted=False)
    fill(held.log, frames.PACE_BYTES + 1)
    assert held.log.too_far_ahead
    pacing = asyncio.ensure_future(held.log.pace())
    await asyncio.sleep(0)
    assert not pacing.done()

    await quick.take()

    await asyncio.wait_for(pacing, WITHIN)
    assert not held.log.too_far_ahead


async def test_a_reader_that_leaves_is_not_waited_for() -> None:
    held = audience()
    reader = held.follow(until_interrupted=False)
    fill(held.log, frames.PACE_BYTES + 1)
    pacing = asyncio.ensure_future(held.log.pace())
    await asyncio.sleep(0)

    reader.close()

    await asyncio.wait_for(pacing, WITHIN)


async def test_readers_that_take_nothing_are_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PACE_SECONDS", 0.01)
    held = audience(bound=64 * MIB)
    reader = held.follow(until_interrupted=False)
    fill(held.log, frames.PACE_BYTES + 1)

    await asyncio.wait_for(held.log.pace(), WITHIN)
    fill(held.log, frames.PACE_BYTES + 1)
    assert not held.log.too_far_ahead, "a stalled stream does not slow the run down"

    await reader.take()
    fill(held.log, 2 * frames.PACE_BYTES + 2)
    assert held.log.too_far_ahead, "one that reads again is waited for again"
