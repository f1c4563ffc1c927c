"""Who commits: the loop what is small, a thread what may take longer; whoever it is, nothing overtakes anything."""

import asyncio
import random
import sqlite3
from pathlib import Path

import orjson
import pytest

from a2ad.model import new_id
from a2ad.store import Change, MessageRow, Segment, TaskRow, writer
from a2ad.store.sqlite import SqliteStore
from tests.test_store import COMPLETED, WORKING, content, new, opened, query, row, store, then
from tests.test_store_faults import WITHIN, locked

__all__ = ["store"]


def step(task: TaskRow, number: int, size: int) -> Change:
    """The task's next piece, which says which one it is."""
    after = task.copy()
    after.updated_at = number
    part = orjson.dumps([{"text": f"{number}:{'x' * size}"}])
    return Change(after, WORKING, segments=[Segment(number, number, str(number), False, None, part)])


@pytest.mark.parametrize("synchronous", ["normal", "full"])
async def test_small_and_large_steps_of_a_task_take_effect_in_the_order_of_the_calls(
    tmp_path: Path, synchronous: str
) -> None:
    chance = random.Random(7)
    async with opened(tmp_path, synchronous=synchronous) as store:
        task = row()
        done: list[int] = []
        writes = [store.write(new(task))]
        for number in range(120):
            written = store.write(step(task, number, chance.choice([1, 1, 1, 2 * writer.SMALL_BYTES])))
            written.add_done_callback(lambda _, number=number: done.append(number))
            writes.append(written)
            if chance.random() < 0.5:
                await asyncio.sleep(0)
            if chance.random() < 0.1:
                await written
        await asyncio.wait_for(asyncio.gather(*writes), WITHIN)

        stored = await store.task(task.id)
        assert stored is not None
        assert done == sorted(done), "nobody is told before the one who came first"
        assert [segment.artifact_id for segment in stored.segments] == [str(number) for number in range(120)]
        assert stored.row.updated_at == 119


async def test_what_comes_while_somebody_holds_a_lock_keeps_its_order_and_small_steps_are_quick_again_after(
    store: SqliteStore, tmp_path: Path
) -> None:
    task = row()
    await store.write(new(task))
    with locked(tmp_path):
        waiting = [store.write(step(task, number, 1)) for number in range(5)]
        assert (await store.task(task.id)) is not None, "reading goes on"
        waiting += [store.write(step(task, number, 2 * writer.SMALL_BYTES)) for number in range(5, 8)]
        waiting += [store.write(step(task, number, 1)) for number in range(8, 12)]
        assert not any(write.done() for write in waiting)
    await asyncio.wait_for(asyncio.gather(*waiting), WITHIN)
    await asyncio.wait_for(store.write(then(task, COMPLETED)), WITHIN)

    stored = await store.task(task.id)
    assert stored is not None
    assert stored.row.state is COMPLETED
    assert [segment.artifact_id for segment in stored.segments] == [str(number) for number in range(12)]
    assert store.health.error is None


async def test_a_message_that_was_here_before_is_found_whoever_wrote_it(store: SqliteStore) -> None:
    small, large = row(), row()
    body = orjson.dumps({"text": "x" * 2 * writer.SMALL_BYTES})
    await store.write(new(small, "small"))
    await store.write(Change(large, None, key_message=MessageRow(0, "large", body, "anonymous")))

    again = [store.write(new(row(), name)) for name in ("small", "large")]
    again.append(store.write(Change(row(), None, key_message=MessageRow(0, "small", body, "anonymous"))))

    assert await asyncio.wait_for(asyncio.gather(*again), WITHIN) == [small.id, large.id, small.id]


async def test_the_log_is_moved_into_the_file_however_small_the_steps_are(store: SqliteStore, tmp_path: Path) -> None:
    log = tmp_path / "a2ad.db-wal"
    body = orjson.dumps({"text": "x" * 4000})
    largest = 0
    for _ in range(100):
        changes = [Change(row(), None, key_message=MessageRow(0, new_id(), body)) for _ in range(100)]
        await asyncio.wait_for(asyncio.gather(*map(store.write, changes)), WITHIN)
        largest = max(largest, log.stat().st_size)

    written = 100 * 100 * len(body)
    assert largest < written, "it was begun anew"
    assert (tmp_path / "a2ad.db").stat().st_size > written / 2


async def test_what_was_committed_in_either_way_is_there_after_the_store_is_closed_in_the_middle(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        tasks = [row() for _ in range(40)]
        large = orjson.dumps({"text": "x" * 2 * writer.SMALL_BYTES})
        writes = [
            store.write(Change(task, None, key_message=MessageRow(0, new_id(), large if number % 7 == 0 else b"{}")))
            for number, task in enumerate(tasks)
        ]
    assert all(write.done() and write.exception() is None for write in writes)
    assert {task_id for (task_id,) in query(tmp_path, "SELECT id FROM tasks")} == {task.id for task in tasks}
    assert sum(n for *_, n in content(tmp_path)["task_counts"]) == 40


async def test_a_step_at_fault_fails_alone_where_the_loop_commits(store: SqliteStore, tmp_path: Path) -> None:
    good, twice = row(), row()
    await store.write(new(twice))
    writes = [store.write(new(good)), store.write(new(row(twice.id))), store.write(new(row()))]

    outcomes = await asyncio.wait_for(asyncio.gather(*writes, return_exceptions=True), WITHIN)

    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "StoreRefused", "NoneType"]
    assert query(tmp_path, "SELECT count(*) FROM tasks") == [(3,)]
    with sqlite3.connect(tmp_path / "a2ad.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
