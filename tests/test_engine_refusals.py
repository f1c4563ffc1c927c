"""What the store refuses for good: the task ends, and keeps nobody's place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2ad import Artifact, Reply, Status, TaskState
from a2ad.errors import StoreRefused, StoreUnavailable
from tests.race_lab import Lab, outcome, race
from tests.race_scripts import asks, asks_by_ending, ends, works


@race(runs=1)
async def test_a_task_whose_chunks_are_refused_fails(lab: Lab) -> None:
    lab.scripts.update(a=works, b=ends)
    lab.store.refuse(lambda change: bool(change.segments), StoreRefused())
    accepted = await lab.send(stream=True)
    fine = await lab.begin(skill="b")
    await lab.advance(12)
    await lab.ended(accepted.task, "FAILED", accepted.reader)
    assert await lab.state(fine.id) == "FAILED"


@race(runs=1)
async def test_a_chunk_that_is_refused_holds_up_the_chunks_of_no_other_task(lab: Lab) -> None:
    lab.scripts["a"] = works
    first = await lab.begin()
    lab.store.refuse(lambda change: change.row.id == first.id and bool(change.segments), StoreRefused())
    await lab.advance(12)
    assert await lab.state(first.id) == "FAILED"
    second = await lab.begin()
    await lab.advance(1)
    assert lab.sql("SELECT count(*) FROM artifacts WHERE task_id = ?", second.id) == [(1,)]
    await lab.advance(12)
    assert await lab.state(second.id) == "COMPLETED"


@race(runs=1)
async def test_a_task_whose_number_is_taken_in_the_store_fails(lab: Lab) -> None:
    go = asyncio.Event()

    async def script(request: Any) -> Any:
        await go.wait()
        yield Status(TaskState.WORKING, "a note")
        yield Artifact([{"text": "done"}])

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    lab.sql("INSERT INTO messages VALUES (?, 1, 'in', NULL, 'other', '{}')", accepted.task.id)
    go.set()
    await lab.advance(1)
    await lab.ended(accepted.task, "FAILED", accepted.reader)


@pytest.mark.parametrize("how", ["cancel", "too long"])
@race(runs=1, run_seconds=5)
async def test_a_task_that_cannot_record_its_notes_can_be_ended_from_outside(lab: Lab, how: str) -> None:
    async def script(request: Any) -> Any:
        yield Status(TaskState.WORKING, "a note")
        await asyncio.sleep(100)

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    lab.sql("INSERT INTO messages VALUES (?, 1, 'in', NULL, 'other', '{}')", accepted.task.id)
    if how == "cancel":
        await lab.calm()
        cancel = await lab.go(lab.engine.cancel(accepted.task.id))
        await lab.advance(1)
        assert cancel.done()
        cancel.exception()
    await lab.advance(10)
    assert (await lab.state(accepted.task.id)) in {"CANCELED", "FAILED"}


@pytest.mark.parametrize("script", [asks, ends, works])
@race(runs=1)
async def test_a_task_of_which_nothing_more_can_be_recorded_keeps_no_slot(lab: Lab, script: Any) -> None:
    lab.scripts.update(a=script, b=ends)
    task = await lab.begin() if script is works else None
    if task is None:
        lab.store.refuse(lambda change: change.previous is not None, StoreRefused())
        task = await lab.begin()
    accept = lab.store.refuse(lambda change: change.row.id == task.id, StoreRefused())
    await lab.advance(12)
    assert lab.engine.scheduler.running == 0
    accept()
    lab.store.refusals.clear()
    fine = await lab.begin(skill="b")
    assert await lab.state(fine.id) == "COMPLETED"
    await lab.restart()
    await lab.advance(1)
    assert await lab.state(task.id) == "FAILED"


@race(runs=1)
async def test_a_run_whose_begin_is_refused_fails(lab: Lab) -> None:
    lab.scripts.update(a=works, b=ends)
    await lab.begin()
    queued = await lab.send(skill="b", stream=True)
    lab.store.refuse(
        lambda change: change.row.id == queued.task.id and change.row.state is TaskState.WORKING, StoreRefused()
    )
    fine = await lab.begin(skill="b")
    await lab.advance(12)
    assert lab.engine.scheduler.running == 0
    await lab.ended(queued.task, "FAILED", queued.reader)
    assert await lab.state(fine.id) == "COMPLETED"


@race(runs=1)
async def test_a_run_whose_answer_comes_to_its_turn_and_is_refused_fails(lab: Lab) -> None:
    lab.scripts.update(a=asks, b=works)
    asked = await lab.begin()
    await lab.begin(skill="b")
    answer = await lab.send(task=asked, stream=True)
    lab.store.refuse(lambda change: change.row.id == asked.id and change.row.state is TaskState.WORKING, StoreRefused())
    await lab.advance(12)
    await lab.ended(asked, "FAILED", answer.reader)


@pytest.mark.parametrize("script", [asks, asks_by_ending])
@race()
async def test_an_answer_that_is_refused_leaves_the_question_open(lab: Lab, script: Any) -> None:
    lab.scripts["a"] = script
    task = await lab.begin()
    accept = lab.store.refuse(lambda change: change.key_message is not None, StoreRefused())
    assert isinstance(outcome(await lab.go(lab.send(task=task))), StoreRefused)
    await lab.advance(1)
    assert await lab.state(task.id) == "INPUT_REQUIRED"
    accept()
    answered = await lab.send(task=task)
    await lab.advance(1)
    await lab.ended(answered.task, "COMPLETED")


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "WORKING"])
@race()
async def test_a_question_that_is_refused_fails_its_task(lab: Lab, state: str) -> None:
    async def script(request: Any) -> Any:
        await asyncio.sleep(1)
        await request.ask("which?", deadline=1)
        yield

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    reader = await lab.engine.subscribe(accepted.task.id, "in", None)
    lab.store.refuse(lambda change: change.row.state is TaskState[state], StoreRefused())
    await lab.advance(4)
    await lab.ended(accepted.task, "FAILED", reader)


@pytest.mark.parametrize("shows", [False, True])
@race()
async def test_a_direct_answer_that_is_refused_fails_its_task(lab: Lab, shows: bool) -> None:
    async def script(request: Any) -> Any:
        yield Artifact([{"text": "x"}]) if shows else Reply([{"text": "x"}])

    lab.scripts["reply"] = script
    lab.store.refuse(
        lambda change: change.previous is not None and change.row.state is not TaskState.FAILED, StoreRefused()
    )
    accepted = await lab.send(skill="reply", stream=True)
    await lab.advance(1)
    await lab.ended(accepted.task, "FAILED", accepted.reader)


@race()
async def test_a_message_that_is_refused_leaves_nothing(lab: Lab) -> None:
    lab.scripts["a"] = ends
    accept = lab.store.refuse(lambda change: True, StoreRefused())
    assert isinstance(outcome(await lab.go(lab.send(messageId="m"))), StoreRefused)
    assert not lab.engine.live
    accept()
    task = await lab.begin(messageId="m")
    await lab.ended(task, "COMPLETED")


@race()
async def test_a_store_that_is_away_for_a_while_only_delays_a_task(lab: Lab) -> None:
    lab.scripts["a"] = works
    accepted = await lab.send(stream=True)
    await lab.calm()
    accept = lab.store.refuse(lambda change: True, StoreUnavailable())
    await lab.advance(20)
    waiting = await lab.go(accepted.task.settled())
    await lab.advance(10)
    assert isinstance(outcome(waiting), StoreUnavailable)
    accept()
    await lab.advance(10)
    await lab.ended(accepted.task, "COMPLETED", accepted.reader)


@race()
async def test_a_cancel_that_cannot_be_recorded_is_told_so_and_done_later(lab: Lab) -> None:
    lab.scripts["a"] = works
    accepted = await lab.send(stream=True)
    await lab.calm()
    accept = lab.store.refuse(lambda change: True, StoreUnavailable())
    cancel = await lab.go(lab.engine.cancel(accepted.task.id))
    await lab.advance(30)
    told = cancel.done() and isinstance(outcome(cancel), StoreUnavailable)
    accept()
    await lab.advance(10)
    await lab.ended(accepted.task, "CANCELED", accepted.reader)
    assert told, "the one who cancels waits as long as the store is away"


@race()
async def test_a_store_that_raises_at_once_is_one_that_fails(lab: Lab) -> None:
    """Stores may come from plugins."""
    lab.scripts["a"] = works
    task = await lab.begin()
    real = lab.store.write

    def write(_: Any) -> Any:
        raise StoreUnavailable

    lab.store.write = write  # type: ignore[method-assign]
    await lab.advance(12)
    lab.store.write = real  # type: ignore[method-assign]
    await lab.advance(10)
    assert await lab.state(task.id) == "COMPLETED"
