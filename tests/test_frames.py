"""A task's frames and their readers: who gets what, who is waited for, who is cut, and what memory it takes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2ad.engine import Lagged, Reader, frames
from a2ad.engine.audience import Audience
from a2ad.engine.frames import Frame
from a2ad.store import StatusEvent

MIB = 1 << 20
BOUND = 4 * MIB
WITHIN = 20.0


def audience(bound: int = BOUND, replay: int = 200) -> Audience:
    return Audience(bound=bound, replay=replay)


async def rest(reader: Reader) -> list[Frame]:
    """Everything to the end of a stream that ends."""
    found: list[Frame] = []
    while batch := await asyncio.wait_for(reader.take(), WITHIN):
        found += batch
    return found


async def there(reader: Reader) -> list[Frame]:
    """What can be taken without waiting."""
    found: list[Frame] = []
    while reader.ready and (batch := await reader.take()):
        found += batch
    return found


def numbers(found: Sequence[Frame]) -> list[int]:
    return [frame.number for frame in found]


# order


async def test_frames_are_numbered_from_one_and_every_reader_has_those_since_it_came() -> None:
    held = audience()
    first = held.follow(until_interrupted=False)
    held.emit(b"1")
    held.emit(b"2")
    late = held.follow(until_interrupted=False)
    held.emit(b"3")
    held.finish(interrupted=False)

    assert [(frame.number, frame.result) for frame in await rest(first)] == [(1, b"1"), (2, b"2"), (3, b"3")]
    assert numbers(await rest(late)) == [3]
    assert first.failure is late.failure is None


async def test_a_frame_that_nobody_reads_has_its_number_all_the_same() -> None:
    held = audience()
    assert [held.emit(None), held.emit(b"2"), held.emit_status(b"3")] == [1, 2, 3]

    reader = held.follow(until_interrupted=False)
    held.emit(b"4")

    assert numbers(await there(reader)) == [4]


async def test_a_reader_that_waits_is_woken_by_the_next_frame() -> None:
    held = audience()
    reader = held.follow(until_interrupted=False)
    waiting = asyncio.ensure_future(reader.take())
    await asyncio.sleep(0)
    assert not waiting.done()

    held.emit(b"1")

    assert numbers(await asyncio.wait_for(waiting, WITHIN)) == [1]


async def test_a_batch_is_bounded_and_none_of_it_is_lost() -> None:
    held = audience(bound=64 * MIB)
    reader = held.follow(until_interrupted=False)
    for _ in range(40):
        held.emit(bytes(50_000))
    held.finish(interrupted=False)

    batches = []
    while batch := await reader.take():
        batches.append(batch)

    assert [frame.number for batch in batches for frame in batch] == list(range(1, 41))
    assert max(sum(len(frame.result) for frame in batch) for batch in batches) <= frames.BATCH_BYTES + 50_000


# the end


async def test_what_is_in_the_log_at_the_end_is_still_read_and_nothing_after_it() -> None:
    held = audience()
    reader = held.follow(until_interrupted=True)
    other = held.follow(until_interrupted=False)
    held.emit(b"1")
    held.finish(interrupted=True)
    held.emit(b"2")
    held.finish(interrupted=False)

    assert numbers(await rest(reader)) == [1]
    assert numbers(await rest(other)) == [1, 2]
    assert await reader.take() == ()


async def test_a_stream_that_ends_with_a_failure_gives_what_is_there_first() -> None:
    held = audience()
    reader = held.follow(until_interrupted=False)
    held.emit(b"1")
    error = RuntimeError("the daemon stops")
    held.finish(interrupted=False, failure=error)

    assert numbers(await rest(reader)) == [1]
    assert reader.failure is error


async def test_a_reader_that_fails_drops_what_waits() -> None:
    held = audience()
    reader = held.subscribe(b"snapshot", last_event_id=None, until_interrupted=False)
    held.emit(b"1")

    reader.fail(ConnectionResetError())

    assert await rest(reader) == []
    assert isinstance(reader.failure, ConnectionResetError)
    assert not held.present


async def test_a_waiting_reader_learns_of_the_end_and_of_a_failure() -> None:
    held = audience()
    first, second = (held.follow(until_interrupted=False) for _ in range(2))
    waiting = [asyncio.ensure_future(reader.take()) for reader in (first, second)]
    await asyncio.sleep(0)

    first.fail(Lagged())
    held.finish(interrupted=False)

    assert await asyncio.wait_for(asyncio.gather(*waiting), WITHIN) == [(), ()]


# the snapshot of a subscriber


@pytest.mark.parametrize(
    ("last_event_id", "expected"),
    [(None, [5, 6]), (0, [0, 2, 4, 5, 6]), (3, [3, 4, 5, 6]), (5, [5, 6]), (99, [5, 6])],
)
async def test_a_subscriber_has_the_snapshot_then_the_status_frames_again_then_what_comes(
    last_event_id: int | None, expected: list[int]
) -> None:
    held = audience()
    for number in range(1, 6):
        (held.emit_status if number in {2, 4, 5} else held.emit)(b"%d" % number)

    reader = held.subscribe(b"snapshot", last_event_id=last_event_id, until_interrupted=False)
    held.emit(b"6")
    found = await there(reader)

    assert found[0].result == b"snapshot"
    assert numbers(found) == expected
    assert all(frame.result == b"%d" % frame.number for frame in found[1:])


async def test_the_newest_status_frames_are_replayed_and_older_ones_forgotten() -> None:
    held = audience(replay=3)
    for number in range(1, 10):
        held.emit_status(b"%d" % number)

    assert numbers(await there(held.subscribe(b"", last_event_id=0, until_interrupted=False))) == [0, 7, 8, 9]


async def test_numbers_go_on_above_what_an_earlier_process_may_have_sent() -> None:
    held = audience()
    held.restore(1000, [StatusEvent(3, b"3"), StatusEvent(7, b"7")])
    reader = held.subscribe(b"", last_event_id=3, until_interrupted=False)

    held.emit(b"new")

    assert numbers(await there(reader)) == [3, 7, 1001]


# all of it together

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(0, 3 * frames.BATCH_BYTES)),
        st.tuples(st.just("status"), st.integers(0, 100)),
        st.tuples(st.just("join"), st.booleans()),
        st.tuples(st.just("take"), st.integers(0, 9)),
        st.tuples(st.just("interrupt"), st.just(0)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(STEPS)
def test_every_reader_has_each_frame_of_its_time_once_and_in_order(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(_follow(steps))


@dataclass
class Follower:
    """A reader, what it is due and what it has."""

    reader: Reader
    due: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    ended: bool = False


async def _follow(steps: list[tuple[str, Any]]) -> None:
    held = audience(bound=1 << 40)
    followers: list[Follower] = []
    for name, argument in steps:
        if name in {"emit", "status"}:
            number = (held.emit if name == "emit" else held.emit_status)(bytes(argument))
            for follower in followers:
                follower.due += [] if follower.ended else [number]
        elif name == "join":
            followers.append(Follower(held.follow(until_interrupted=argument)))
        elif name == "interrupt":
            held.finish(interrupted=True)
            for follower in followers:
                follower.ended = follower.ended or follower.reader.until_interrupted
        elif followers:
            follower = followers[argument % len(followers)]
            if name == "leave":
                follower.reader.close()
                followers.remove(follower)
            elif follower.reader.ready:
                follower.found += numbers(await follower.reader.take())
    held.finish(interrupted=False)
    for follower in followers:
        assert follower.found + numbers(await rest(follower.reader)) == follower.due
        assert follower.reader.failure is None
    assert not held.present
