"""Pages of tasks: each in its place, none twice, none left out, whatever is added and whoever may see them."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2ad.model import TaskState
from a2ad.store import Change, MessageRow, TaskQuery, TaskRow
from a2ad.store.sqlite import SqliteStore
from tests.test_store import new, opened, row, store, then

__all__ = ["store"]

STATES = list(TaskState)


async def fill(store: SqliteStore, count: int, *, seed: int = 0, **fields: Any) -> list[TaskRow]:
    """Tasks of which many were updated at the same moment."""
    chance = random.Random(seed)
    tasks = [
        row(updated_at=chance.randrange(count // 50 + 1), state=chance.choice(STATES),
            context_id=chance.choice("cde"), **fields)
        for _ in range(count)
    ]  # fmt: skip
    await asyncio.gather(*(store.write(new(task)) for task in tasks))
    return tasks


def ordered(tasks: Sequence[TaskRow]) -> list[str]:
    return [task.id for task in sorted(tasks, key=lambda task: (task.updated_at, task.id), reverse=True)]


async def walk(store: SqliteStore, between: Any = None, **filters: Any) -> list[str]:
    """All pages, one after the other, by the cursor of each page's last task."""
    found: list[str] = []
    cursor = None
    while True:
        page = await store.tasks(TaskQuery(cursor=cursor, **filters))
        found += [task.row.id for task in page.tasks]
        if not page.more:
            return found
        last = page.tasks[-1].row
        cursor = (last.updated_at, last.id)
        if between is not None:
            await between()


async def test_pages_follow_each_other_without_gap_or_repetition_over_thousands_of_ties(store: SqliteStore) -> None:
    tasks = await fill(store, 3000)
    await fill(store, 100, seed=1, inbound_id="other")

    assert await walk(store, inbound_id="in", limit=7) == ordered(tasks)
    assert await walk(store, inbound_id="in", limit=100) == ordered(tasks)


async def test_pages_stay_right_while_tasks_are_added_and_updated(store: SqliteStore) -> None:
    tasks = await fill(store, 2000)
    chance = random.Random(7)
    untouched = {task.id: task for task in tasks}
    now = 10_000

    async def between() -> None:
        nonlocal now
        for _ in range(5):
            now += chance.randrange(2)
            await store.write(new(row(updated_at=now)))
            changed = untouched.pop(chance.choice(list(untouched)))
            change = then(changed, TaskState.COMPLETED)
            change.row.updated_at = now
            await store.write(change)

    found = await walk(store, between, inbound_id="in", limit=20)

    assert len(found) == len(set(found))
    seen = set(found)
    assert [task_id for task_id in found if task_id in untouched] == ordered(list(untouched.values()))
    assert set(untouched) <= seen


async def test_tasks_of_more_callers_than_one_statement_holds_are_merged_in_order(store: SqliteStore) -> None:
    tasks = []
    for number in range(450):
        tasks += [row(caller=f"caller {number}", updated_at=(number * 7 + again) % 90) for again in range(2)]
    await asyncio.gather(*(store.write(new(task)) for task in tasks))

    assert await walk(store, inbound_id="in", limit=64) == ordered(tasks)
    page = await store.tasks(TaskQuery(inbound_id="in", limit=10, offset=205))
    assert [task.row.id for task in page.tasks] == ordered(tasks)[205:215]
    assert (page.total, page.more) == (900, True)


async def test_a_caller_sees_its_own(store: SqliteStore) -> None:
    tasks = [row(caller=f"caller {number % 5}", updated_at=number // 3) for number in range(50)]
    await asyncio.gather(*(store.write(new(task)) for task in tasks))
    wanted = ("caller 1", "caller 3")
    mine = [task for task in tasks if task.caller in wanted]

    assert await walk(store, inbound_id="in", callers=wanted, limit=3) == ordered(mine)
    assert (await store.tasks(TaskQuery(inbound_id="in", callers=wanted))).total == len(mine)
    assert (await store.tasks(TaskQuery(inbound_id="in", callers=wanted, context_id="c"))).total == len(mine)
    assert (await store.tasks(TaskQuery(inbound_id="in", callers=()))).total == 0
    assert list((await store.tasks(TaskQuery(inbound_id="in", callers=["nobody"]))).tasks) == []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    inbound_id=st.sampled_from(["in", "other", "", "none"]),
    state=st.none() | st.sampled_from(STATES),
    context_id=st.none() | st.sampled_from(["c", "d", "x"]),
    after=st.none() | st.integers(-1, 8),
    limit=st.integers(1, 100),
)
def test_filters_combine_and_the_total_is_exact(filled: Path, **filters: Any) -> None:
    async def check() -> None:
        async with opened(filled) as store:
            everything = [task.row for task in (await store.tasks(TaskQuery(limit=1000))).tasks]
            assert len(everything) == 400
            matching = [
                task
                for task in everything
                if filters["inbound_id"] in {"", task.inbound_id}
                and filters["state"] in {None, task.state}
                and filters["context_id"] in {None, task.context_id}
                and (filters["after"] is None or task.updated_at >= filters["after"])
            ]
            page = await store.tasks(TaskQuery(**filters))
            assert page.total == len(matching)
            assert page.more == (len(matching) > filters["limit"])
            assert await walk(store, **filters) == ordered(matching)

    asyncio.run(check())


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")

    async def fill_it() -> None:
        async with opened(folder) as store:
            await fill(store, 300)
            await fill(store, 100, seed=1, inbound_id="other", caller="token")
            await fill(store, 50, seed=2, hidden=True)

    asyncio.run(fill_it())
    return folder


async def test_a_hidden_task_is_in_no_page_and_no_total(store: SqliteStore) -> None:
    await store.write(new(row(hidden=True)))
    await store.write(new(row(hidden=True), "m"))

    for filters in ({}, {"context_id": "c"}, {"state": TaskState.WORKING}):
        page = await store.tasks(TaskQuery(inbound_id="in", **filters))
        assert (page.total, list(page.tasks), page.more) == (0, [], False)


async def test_a_page_has_as_much_of_each_task_as_was_asked_for(store: SqliteStore) -> None:
    task = row()
    await store.write(new(task, messages=[MessageRow(1, "n", b'{"m":1}')]))

    found = [
        list((await store.tasks(TaskQuery(inbound_id="in", history=history))).tasks[0].messages)
        for history in ("all", "first", "none")
    ]

    assert found == [[b'{"m":0}', b'{"m":1}'], [b'{"m":0}'], []]


async def test_a_task_that_moves_while_it_is_paged_through_is_at_most_in_its_new_place(store: SqliteStore) -> None:
    tasks = [row(updated_at=number) for number in range(10)]
    await asyncio.gather(*(store.write(new(task)) for task in tasks))
    moved = tasks[0].copy()
    moved.updated_at = 100

    async def between() -> None:
        await store.write(Change(moved, TaskState.WORKING))

    assert await walk(store, between, inbound_id="in", limit=5) == ordered(tasks[1:])
