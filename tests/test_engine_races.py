"""Two things at the same moment: a cancel and an answer, an answer and its deadline, a question and its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2ad import Artifact, Reply, Status, TaskState
from a2ad.engine import intake
from a2ad.errors import StoreUnavailable, TaskNotCancelable, UnsupportedOperation
from tests.race_lab import Lab, outcome, race
from tests.race_scripts import asks, asks_by_ending, ends, works

FILE = [{"text": "with a file"}, {"raw": "YQ=="}]


ASKING = pytest.mark.parametrize("script", [asks, asks_by_ending])


# a cancel, and something else


@ASKING
@race()
async def test_a_cancel_while_the_answer_stores_its_file_leaves_the_task_canceled(lab: Lab, script: Any) -> None:
    lab.scripts["a"] = script
    task = await lab.begin()
    reader = await lab.engine.subscribe(task.id, "in", None)
    keep, real = asyncio.Event(), intake.keep_attachments

    async def slow(*args: Any) -> Any:
        await keep.wait()
        return await real(*args)

    intake.keep_attachments = slow
    try:
        answer = await lab.go(lab.send(task=task, parts=FILE))
        canceled = lab.store.hold_state("CANCELED")
        cancel = await lab.go(lab.engine.cancel(task.id))
        keep.set()
        await lab.calm()
    finally:
        intake.keep_attachments = real
    assert canceled.caught == 1
    canceled.release()
    await lab.advance(1)

    assert isinstance(outcome(answer), UnsupportedOperation)
    assert outcome(cancel).state is TaskState.CANCELED
    await lab.ended(task, "CANCELED", reader)


@ASKING
@race()
async def test_a_cancel_while_the_answer_is_being_recorded_leaves_the_task_canceled(lab: Lab, script: Any) -> None:
    lab.scripts["a"] = script
    task = await lab.begin()
    reader = await lab.engine.subscribe(task.id, "in", None)
    held = lab.store.hold_state("WORKING")
    answer = await lab.go(lab.send(task=task, stream=True))
    cancel = await lab.go(lab.engine.cancel(task.id))
    held.release()
    await lab.advance(1)

    task = outcome(cancel)
    await lab.ended(task, "CANCELED", reader, outcome(answer).reader)


@ASKING
@race()
async def test_an_answer_while_the_cancel_is_being_recorded_is_refused(lab: Lab, script: Any) -> None:
    lab.scripts["a"] = script
    task = await lab.begin()
    held = lab.store.hold_state("CANCELED")
    cancel = await lab.go(lab.engine.cancel(task.id))
    answer = await lab.go(lab.send(task=task))
    held.release()
    await lab.advance(1)

    assert isinstance(outcome(answer), UnsupportedOperation)
    await lab.ended(outcome(cancel), "CANCELED")


@race(runs=1)
async def test_a_cancel_while_the_begin_of_a_run_is_being_recorded_leaves_the_task_canceled(lab: Lab) -> None:
    began = []

    async def script(request: Any) -> Any:
        began.append(request.task_id)
        await asyncio.sleep(1)
        yield Artifact([{"text": "late"}])

    lab.scripts["a"] = script
    await lab.begin()
    queued = await lab.send(stream=True)
    held = lab.store.hold(matches=lambda change: change.row.id == queued.task.id)
    await lab.advance(1)
    assert held.caught == 1, "its turn has come"
    cancel = await lab.go(lab.engine.cancel(queued.task.id))
    held.release()
    await lab.advance(2)

    assert outcome(cancel) is queued.task
    await lab.ended(queued.task, "CANCELED", queued.reader)


@race(runs=1)
async def test_a_task_whose_turn_comes_while_its_cancel_is_being_recorded_does_not_run(lab: Lab) -> None:
    began = []

    async def script(request: Any) -> Any:
        began.append(request.task_id)
        await asyncio.sleep(1)
        yield Artifact([{"text": "late"}])

    lab.scripts["a"] = script
    first = await lab.begin()
    queued = await lab.send(stream=True)
    held = lab.store.hold_state("CANCELED")
    cancel = await lab.go(lab.engine.cancel(queued.task.id))
    await lab.advance(2)
    held.release()
    await lab.calm()

    await lab.ended(outcome(cancel), "CANCELED", queued.reader)
    assert began == [first.id]


@pytest.mark.parametrize("moment", ["it waits", "its turn has come", "its end is recorded"])
@race(runs=1)
async def test_a_cancel_of_an_answer_that_waits_for_a_slot_leaves_the_task_canceled(lab: Lab, moment: str) -> None:
    told = []

    async def script(request: Any) -> Any:
        told.append((await request.ask("which?"))["parts"])
        yield Artifact([{"text": "told"}])

    lab.scripts.update(a=script, b=works)
    asked = await lab.begin(stream=True)
    busy = await lab.begin(skill="b")
    answer = await lab.send(task=asked, stream=True)
    assert asked.state is TaskState.WORKING
    held = None
    if moment == "its turn has come":
        held = lab.store.hold(matches=lambda change: change.row.id == asked.id)
        await lab.advance(11)
        assert held.caught == 1
    elif moment == "its end is recorded":
        held = lab.store.hold_state("CANCELED")
    cancel = await lab.go(lab.engine.cancel(asked.id))
    await lab.advance(11)
    if held is not None:
        held.release()
    await lab.calm()

    await lab.ended(outcome(cancel), "CANCELED", answer.reader)
    await lab.ended(busy, "COMPLETED")
    assert not told


@race()
async def test_a_cancel_while_a_direct_answer_is_being_recorded_comes_too_late(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        yield Reply([{"text": "hi"}])

    lab.scripts["reply"] = script
    held = lab.store.hold_state("COMPLETED")
    task = await lab.begin(skill="reply")
    cancel = await lab.go(lab.engine.cancel_task(task))
    held.release()
    await lab.calm()
    assert isinstance(outcome(cancel), TaskNotCancelable)
    assert await lab.stored(task.id) is TaskState.COMPLETED


@pytest.mark.parametrize("seconds", range(4))
@race(runs=1, cancel_grace_seconds=2)
async def test_a_run_that_does_not_heed_its_cancel_changes_nothing_later(lab: Lab, seconds: int) -> None:
    async def script(request: Any) -> Any:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(seconds)
        yield Status(TaskState.WORKING, "late")
        yield Artifact([{"text": "late"}])
        yield Status(TaskState.COMPLETED, "late")

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    await lab.calm()
    cancel = await lab.go(lab.engine.cancel(accepted.task.id))
    await lab.advance(5)
    await lab.ended(outcome(cancel), "CANCELED", accepted.reader)
    assert not accepted.task.view().artifacts


@race()
async def test_a_cancel_is_not_held_up_by_a_question_that_is_not_valid(lab: Lab) -> None:
    """The question waits behind a write, and so does the cancel."""
    go = asyncio.Event()

    async def script(request: Any) -> Any:
        yield Artifact([{"text": "begun"}])
        await go.wait()
        try:
            await request.ask([{"no": "part"}])
        except ValueError:
            await asyncio.sleep(1000)

    lab.scripts["a"] = script
    held = lab.store.hold(matches=lambda change: bool(change.segments))
    task = await lab.begin()
    await lab.advance(0.5)
    assert held.caught == 1
    cancel = await lab.go(lab.engine.cancel(task.id))
    go.set()
    await lab.calm()
    held.release()
    await lab.advance(10)
    await lab.ended(outcome(cancel), "CANCELED")


@race()
async def test_a_cancel_during_a_record_that_fails_leaves_no_task_that_nobody_sent(lab: Lab) -> None:
    """session.cancel takes what is in memory: the message may not be recorded yet, and never be."""
    lab.scripts["a"] = ends
    held = lab.store.hold()
    message = await lab.go(lab.send())
    (task,) = lab.engine.live.values()
    cancel = await lab.go(lab.engine.cancel_task(task))
    held.fail(StoreUnavailable())
    await lab.advance(1)
    assert isinstance(outcome(message), StoreUnavailable)
    assert cancel.done()
    cancel.exception()
    assert lab.sql("SELECT count(*) FROM tasks") == [(0,)]


@race()
async def test_a_cancel_during_a_repetition_leaves_no_task_that_nobody_sent(lab: Lab) -> None:
    lab.scripts["a"] = ends
    first = await lab.begin(messageId="m")
    held = lab.store.hold()
    again = await lab.go(lab.send(messageId="m"))
    (task,) = lab.engine.live.values()
    cancel = await lab.go(lab.engine.cancel_task(task))
    held.release()
    await lab.advance(1)
    assert outcome(again).task.id == first.id
    cancel.exception()
    assert lab.sql("SELECT id FROM tasks") == [(first.id,)]


@pytest.mark.parametrize("script", [asks, asks_by_ending, ends])
@race(runs=2)
async def test_a_cancel_at_any_step_of_an_answer_leaves_one_end(lab: Lab, script: Any) -> None:
    lab.scripts["a"] = script
    for steps in range(30):
        started = await lab.send()
        if script is not ends:
            await lab.calm()
            started_id = started.task.id
            answer = asyncio.ensure_future(lab.send(task=started_id, stream=True))
        else:
            answer = asyncio.ensure_future(lab.send(stream=True))
            started_id = started.task.id
        for _ in range(steps):
            await asyncio.sleep(0)
        cancel = await lab.go(lab.engine.cancel(started_id))
        state = await lab.state(started_id)
        told = outcome(cancel)
        assert state == ("COMPLETED" if isinstance(told, TaskNotCancelable) else "CANCELED")
        assert isinstance(outcome(answer), UnsupportedOperation) <= (state == "CANCELED")
        reader = getattr(outcome(answer), "reader", None)
        if reader is not None:
            await lab.ended(outcome(answer).task, await lab.state(outcome(answer).task.id), reader)


# a cancel that joins another end


@race(ask_seconds=5, cancel_grace_seconds=5)
async def test_a_cancel_that_joins_a_question_past_its_time_is_a_cancel(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        try:
            await request.ask("which?")
        finally:
            await asyncio.sleep(2)
        yield

    lab.scripts["a"] = script
    task = await lab.begin()
    reader = await lab.engine.subscribe(task.id, "in", None)
    await lab.until(lambda: task.canceling)
    cancels = [await lab.go(lab.engine.cancel(task.id)) for _ in range(3)]
    await lab.advance(4)
    assert {id(outcome(cancel)) for cancel in cancels} == {id(task)}
    await lab.ended(task, "CANCELED", reader)


@race(ask_seconds=5, cancel_grace_seconds=5)
async def test_an_answer_that_meets_a_question_past_its_time_begins_a_new_run(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        if request.resumed:
            yield Artifact([{"text": request.text}])
            return
        try:
            await request.ask("which?")
        finally:
            await asyncio.sleep(2)

    lab.scripts["a"] = script
    task = await lab.begin()
    await lab.until(lambda: task.canceling)
    answer = await lab.go(lab.send("now", task=task))
    await lab.advance(4)
    await lab.ended(outcome(answer).task, "COMPLETED")


@race(run_seconds=5, cancel_grace_seconds=5)
async def test_a_cancel_that_joins_the_end_of_a_run_that_took_too_long_is_told_so(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(2)
        yield

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    await lab.until(lambda: accepted.task.canceling)
    cancel = await lab.go(lab.engine.cancel(accepted.task.id))
    await lab.advance(4)
    assert isinstance(outcome(cancel), TaskNotCancelable)
    await lab.ended(accepted.task, "FAILED", accepted.reader)


# the same task for everybody


@race()
async def test_two_answers_to_a_stored_task_act_on_one(lab: Lab) -> None:
    lab.scripts["a"] = asks_by_ending
    task = await lab.begin()
    await lab.advance(1)
    assert task.id not in lab.engine.live
    held = lab.store.hold("status_events", after=True)
    answers = [await lab.go(lab.send(text, task=task)) for text in ("red", "blue")]
    held.release()
    await lab.advance(1)
    first, second = map(outcome, answers)
    assert isinstance(second, UnsupportedOperation)
    await lab.ended(first.task, "COMPLETED")


@race()
async def test_a_task_that_is_let_go_between_its_load_and_its_answer_is_one_all_the_same(lab: Lab) -> None:
    lab.scripts["a"] = asks_by_ending
    for _ in range(5):
        task = await lab.begin()
        await lab.advance(1)
        answers = [asyncio.ensure_future(lab.send(text, task=task)) for text in ("red", "blue")]
        cancel = asyncio.ensure_future(lab.engine.cancel(task.id))
        while not all(answer.done() for answer in answers):
            for live in list(lab.engine.live.values()):
                lab.engine.release(live)
            await asyncio.sleep(0)
        await lab.advance(1)
        assert cancel.done()
        done = [outcome(answer) for answer in answers]
        assert len([answer for answer in done if isinstance(answer, UnsupportedOperation)]) >= 1
        state = await lab.state(task.id)
        assert state in {"COMPLETED", "CANCELED"}
        assert isinstance(outcome(cancel), TaskNotCancelable) == (state == "COMPLETED")
