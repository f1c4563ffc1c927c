"""The SQLite store, against a real file: what is written, what is not, and in which order it comes back."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2ad.errors import StoreRefused
from a2ad.model import TaskState, new_id
from a2ad.store import (
    Change,
    MessageRow,
    Segment,
    StatusEvent,
    StoreSettings,
    TaskQuery,
    TaskRow,
)
from a2ad.store.sqlite import SqliteStore, open_sqlite

WORKING, COMPLETED = TaskState.WORKING, TaskState.COMPLETED


@asynccontextmanager
async def opened(folder: Path, **more: Any) -> AsyncIterator[SqliteStore]:
    store = await open_sqlite(StoreSettings(url="", state_dir=folder, **more))
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with opened(tmp_path) as it:
        yield it


def row(task_id: str = "", **fields: Any) -> TaskRow:
    known: dict[str, Any] = {
        "id": task_id or new_id(), "inbound_id": "in", "context_id": "c", "caller": "anonymous", "peer": "127.0.0.1",
        "skill": "chat", "executor": "session", "state": WORKING, "status": b'{"state":"x"}', "created_at": 1000,
        "updated_at": 1000, "frame_limit": 1000,
    }  # fmt: skip
    return TaskRow(**{**known, **fields})


def new(task: TaskRow, message_id: str = "", **fields: Any) -> Change:
    key = MessageRow(0, message_id or new_id(), b'{"m":0}', task.caller if message_id else None)
    return Change(task, None, key_message=key, **fields)


def then(task: TaskRow, state: TaskState, **fields: Any) -> Change:
    """The task's next step. The row is a copy: one that was handed over must not change."""
    after = task.copy()
    after.state = state
    return Change(after, task.state, was_hidden=task.hidden, **fields)


def query(folder: Path, sql: str, *values: Any) -> list[Any]:
    """What another process sees in the file."""
    connection = sqlite3.connect(folder / "a2ad.db")
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def content(folder: Path) -> dict[str, list[Any]]:
    tables = ("tasks", "messages", "artifacts", "status_events", "attachments", "task_counts")
    return {table: query(folder, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}


# steps of a task


async def test_a_step_is_read_as_it_was_written(store: SqliteStore) -> None:
    task = row(metadata=b'{"k":1}', reply=None, queued=True, peer="::1")
    segment = Segment(0, 0, "result", replace=True, head=b'{"name":"n"}', parts=b'[{"text":"\xc3\xa4"}]')

    await store.write(
        new(task, "m", messages=[MessageRow(1, "n", b'{"m":1}')], segments=[segment], events=[StatusEvent(2, b"{}")])
    )

    stored = await store.task(task.id)
    assert stored is not None
    assert stored.row == task
    assert list(stored.messages) == [b'{"m":0}', b'{"m":1}']
    assert list(stored.segments) == [segment]
    assert stored.last_message_seq == 1
    assert list(await store.status_events(task.id, 0)) == [StatusEvent(2, b"{}")]
    assert await store.find_message("in", "anonymous", "m") == task.id
    assert await store.task("another") is None


async def test_steps_take_effect_in_the_order_of_the_calls(store: SqliteStore, tmp_path: Path) -> None:
    task = row()
    writes = [store.write(new(task))]
    for number in range(300):
        task = task.copy()
        task.updated_at = number
        part = orjson.dumps([{"text": str(number)}])
        writes.append(
            store.write(Change(task, WORKING, segments=[Segment(number, number, str(number), True, None, part)]))
        )

    assert await asyncio.gather(*writes) == [None] * 301

    stored = await store.task(task.id)
    assert stored is not None
    assert stored.row.updated_at == 299
    assert [segment.artifact_id for segment in stored.segments] == [str(number) for number in range(300)]
    assert query(tmp_path, "SELECT n FROM task_counts WHERE n != 0") == [(1,)]


async def test_what_was_answered_is_there_for_another_process(store: SqliteStore, tmp_path: Path) -> None:
    for _ in range(20):
        task = row()
        await store.write(new(task))
        assert query(tmp_path, "SELECT count(*) FROM tasks WHERE id = ?", task.id) == [(1,)]


async def test_a_message_that_was_here_before_writes_nothing_at_all(store: SqliteStore, tmp_path: Path) -> None:
    first = row()
    await store.write(new(first, "m"))
    before = content(tmp_path)

    copy = new(
        row(),
        "m",
        messages=[MessageRow(1, "x", b"{}")],
        segments=[Segment(0, 0, "a", True, None, b"[]")],
        events=[StatusEvent(1, b"{}")],
        attachments=["00"],
    )
    assert await store.write(copy) == first.id

    assert content(tmp_path) == before


async def test_copies_of_a_message_at_one_moment_make_one_task(store: SqliteStore, tmp_path: Path) -> None:
    tasks = [row() for _ in range(50)]

    answers = await asyncio.gather(*(store.write(new(task, "m")) for task in tasks))

    assert answers == [None] + [tasks[0].id] * 49
    assert query(tmp_path, "SELECT id FROM tasks") == [(tasks[0].id,)]
    assert await store.counts() == {("in", WORKING): 1}


async def test_an_answer_that_repeats_a_message_leaves_its_task_as_it_was(store: SqliteStore, tmp_path: Path) -> None:
    first, second = row(), row(state=TaskState.INPUT_REQUIRED)
    await store.write(new(first, "m"))
    await store.write(new(second, "n"))
    before = content(tmp_path)

    answer = then(second, WORKING, key_message=MessageRow(1, "m", b"{}", "anonymous"), events=[StatusEvent(9, b"{}")])
    assert await store.write(answer) == first.id

    assert content(tmp_path) == before


async def test_a_message_id_is_one_caller_s_at_one_inbound(store: SqliteStore) -> None:
    tasks = [row(), row(caller="token"), row(inbound_id="other")]

    assert [await store.write(new(task, "m")) for task in tasks] == [None, None, None]

    found = [await store.find_message(task.inbound_id, task.caller, "m") for task in tasks]
    assert found == [task.id for task in tasks]


async def test_messages_that_the_server_named_are_no_keys(store: SqliteStore) -> None:
    changes = [Change(row(), None, key_message=MessageRow(0, "same", b"{}", None)) for _ in range(2)]

    assert [await store.write(change) for change in changes] == [None, None]
    assert await store.find_message("in", "anonymous", "same") is None


async def test_one_step_at_fault_does_not_take_the_others_of_its_commit_down(store: SqliteStore) -> None:
    task, others = row(), [row() for _ in range(10)]
    await store.write(new(task))

    writes = [store.write(new(other)) for other in others[:5]]
    wrong = store.write(new(task))  # its id is taken
    writes += [store.write(new(other)) for other in others[5:]]

    assert await asyncio.gather(*writes) == [None] * 10
    with pytest.raises(StoreRefused):
        await wrong
    assert await store.counts() == {("in", WORKING): 11}
    assert store.health.error is None


async def test_a_segment_that_replaces_takes_away_what_was_there_of_its_artifact(store: SqliteStore) -> None:
    task = row()
    parts = [b'[{"text":"%d"}]' % number for number in range(6)]
    await store.write(
        new(task, segments=[
            Segment(0, 0, "a", True, None, parts[0]),
            Segment(1, 0, "b", True, None, parts[1]),
            Segment(2, 0, "a", False, None, parts[2]),
        ])
    )  # fmt: skip
    await store.write(Change(task, WORKING, segments=[Segment(3, 0, "b", False, b'{"name":"n"}', parts[3])]))
    await store.write(Change(task, WORKING, segments=[Segment(4, 0, "a", True, None, parts[4])]))

    stored = await store.task(task.id)

    assert stored is not None
    kept = {(segment.artifact_id, segment.parts) for segment in stored.segments}
    assert kept == {("b", parts[1]), ("b", parts[3]), ("a", parts[4])}


async def test_the_newest_status_frames_are_kept_of_a_task_that_has_ended_too(tmp_path: Path) -> None:
    async with opened(tmp_path, replay_frames=3) as store:
        task = row()
        await store.write(new(task))
        for number in range(1, 10):
            await store.write(Change(task, WORKING, events=[StatusEvent(number, b"%d" % number)]))
        assert [event.frame for event in await store.status_events(task.id, 0)] == [7, 8, 9]
        assert [event.frame for event in await store.status_events(task.id, 8)] == [9]

        await store.write(Change(row(id=task.id, state=COMPLETED), WORKING, events=[StatusEvent(10, b"10")]))

        assert [event.frame for event in await store.status_events(task.id, 0)] == [8, 9, 10]


async def test_unfinished_tasks_come_in_the_order_of_arrival_also_within_a_millisecond(store: SqliteStore) -> None:
    tasks = [row(created_at=1000 + number // 20) for number in range(60)]
    await asyncio.gather(*(store.write(new(task)) for task in tasks))
    for state in (COMPLETED, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED):
        await store.write(new(row(state=state, created_at=1)))

    assert [task.id for task in await store.unfinished()] == [task.id for task in tasks]


# counters

CHANGES = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from(list(TaskState)),
        st.sampled_from(["x", "y"]),
        st.sampled_from(["in", "out"]),
        st.booleans(),
        st.sampled_from(["step", "step", "step", "repeat", "expire", "delete"]),
    ),
    max_size=40,
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(steps=CHANGES, group=st.integers(1, 8))
def test_counters_are_what_a_recount_gives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], group: int
) -> None:
    asyncio.run(_count(tmp_path_factory.mktemp("counts"), steps, group))


async def _count(folder: Path, steps: list[Any], group: int) -> None:
    async with opened(folder) as store:
        tasks: dict[int, TaskRow] = {}
        pending: list[Any] = []
        for number, (index, state, caller, inbound, hidden, what) in enumerate(steps):
            known = tasks.get(index)
            if what in {"expire", "delete"}:
                await asyncio.gather(*pending)
                await (store.expire(number) if what == "expire" else store.delete_tasks(inbound))
                left = {task_id for (task_id,) in query(folder, "SELECT id FROM tasks")}
                tasks = {index: task for index, task in tasks.items() if task.id in left}
            elif known is None and what == "repeat":
                first = next(iter(tasks.values()), None)
                if first is not None:
                    copy = row(caller=first.caller, inbound_id=first.inbound_id, hidden=hidden, state=state)
                    pending.append(store.write(new(copy, first.id)))
            elif known is None:
                task = row(caller=caller, inbound_id=inbound, hidden=hidden, state=state, updated_at=number)
                tasks[index] = task
                pending.append(store.write(new(task, task.id)))
            else:
                change = then(known, state)
                change.row.hidden = known.hidden and hidden
                change.row.updated_at = number
                tasks[index] = change.row
                pending.append(store.write(change))
            if len(pending) % group == 0:
                await asyncio.gather(*pending)
        await asyncio.gather(*pending)
        expected = Counter((task.inbound_id, task.state) for task in tasks.values() if not task.hidden)
        assert {key: n for key, n in (await store.counts()).items() if n} == dict(expected)
        recount = (
            "SELECT inbound_id, caller, state, count(*) FROM tasks WHERE hidden = 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )
        counted = "SELECT inbound_id, caller, state, n FROM task_counts WHERE n != 0 ORDER BY 1, 2, 3"
        assert query(folder, recount) == query(folder, counted)
        for state in TaskState:
            page = await store.tasks(TaskQuery(inbound_id="in", state=state))
            assert page.total == expected["in", state] == len(page.tasks)
