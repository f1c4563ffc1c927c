"""When artifacts were written: the SQLite store, files of earlier versions, and stores that have no such read."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from a2ad.store import ArtifactTimes, Change, Segment, Store, artifact_times_of
from a2ad.store.migrations import STEPS
from a2ad.store.sqlite import SqliteStore
from tests.test_store import WORKING, new, opened, query, row, store

__all__ = ["store"]
PARTS = b'[{"text":"x"}]'


def segment(seq: int, artifact_id: str, at: int | None, *, replace: bool = False) -> Segment:
    return Segment(seq, seq, artifact_id, replace, None, PARTS, at)


async def written(store: SqliteStore, *segments: Segment) -> str:
    """The id of a task whose artifacts were written like this, one after another."""
    task = row()
    await store.write(new(task))
    for each in segments:
        await store.write(Change(task, WORKING, segments=[each]))
    return task.id


class Elder:
    """A store as they were before: it has no read of its own for this."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def task(self, task_id: str) -> Any:
        return await self._store.task(task_id)


async def test_each_artifact_has_its_first_and_last_time_and_its_pieces(store: SqliteStore) -> None:
    segments = [segment(0, "b", 10), segment(1, "a", 20), segment(2, "b", 30), segment(3, "b", 50)]
    task_id = await written(store, *segments)
    await written(store, segment(0, "b", 5))

    assert await store.artifact_times(task_id) == [ArtifactTimes("b", 10, 50, 3), ArtifactTimes("a", 20, 20, 1)]
    assert await store.artifact_times("another") == []
    stored = await store.task(task_id)
    assert stored is not None
    assert list(stored.segments) == segments


async def test_one_that_was_replaced_counts_from_then_on(store: SqliteStore) -> None:
    task_id = await written(store, segment(0, "a", 10), segment(1, "a", 20), segment(2, "a", 30, replace=True))

    assert await store.artifact_times(task_id) == [ArtifactTimes("a", 30, 30, 1)]


async def test_a_store_without_that_read_is_asked_for_the_task(store: SqliteStore) -> None:
    segments = [segment(0, "b", 10), segment(1, "a", None), segment(2, "b", 30)]
    task_id = await written(store, *segments)
    elder: Any = Elder(store)

    assert await artifact_times_of(elder, task_id) == await artifact_times_of(store, task_id)
    assert await artifact_times_of(store, task_id) == [ArtifactTimes("b", 10, 30, 2), ArtifactTimes("a", None, None, 1)]
    assert list(await artifact_times_of(elder, "another")) == []


@pytest.mark.parametrize("version", range(1, len(STEPS)))
async def test_a_file_of_an_earlier_version_is_brought_forward_with_what_is_in_it(tmp_path: Path, version: int) -> None:
    task = row("old")
    connection = sqlite3.connect(tmp_path / "a2ad.db")
    for step in STEPS[:version]:
        connection.executescript(step)
    connection.execute(
        "INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, 2, ?, ?, ?, ?, 0, 0, NULL, NULL)",
        (task.id, task.inbound_id, task.context_id, task.caller, task.peer, task.skill, task.executor, task.status,
         task.created_at, task.updated_at, task.frame_limit),
    )  # fmt: skip
    for seq, artifact_id in enumerate("aba"):
        connection.execute("INSERT INTO artifacts VALUES ('old', ?, ?, ?, 0, NULL, ?)", (seq, seq, artifact_id, PARTS))
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()

    async with opened(tmp_path) as store:
        stored = await store.task("old")
        assert stored is not None
        assert stored.row == task
        assert list(stored.segments) == [segment(seq, artifact_id, None) for seq, artifact_id in enumerate("aba")]
        assert await store.artifact_times("old") == [
            ArtifactTimes("a", None, None, 2),
            ArtifactTimes("b", None, None, 1),
        ]
        await store.write(Change(task, WORKING, segments=[segment(3, "a", 10)]))
        assert (await store.artifact_times("old"))[0] == ArtifactTimes("a", 10, 10, 3)
    assert query(tmp_path, "PRAGMA user_version") == [(len(STEPS),)]
