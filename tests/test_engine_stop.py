"""The orderly stop, in the middle of everything: it has an end, and the next start settles what it left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2ad import Artifact, Deny, Status, TaskState
from a2ad.errors import Stopping
from tests.race_lab import Lab, frames, outcome, race, state_in
from tests.race_scripts import asks, asks_by_ending, ends, never_ends, works

#: `limits.shutdown_seconds`, and how much longer it may take when nothing answers any more
PATIENCE, OVERTIME = 15, 6


@race(shutdown_seconds=PATIENCE)
async def test_a_message_that_is_being_recorded_when_the_stop_begins_is_worked_on(lab: Lab) -> None:
    lab.scripts["a"] = works
    held = lab.store.hold()
    message = await lab.go(lab.send(stream=True))
    stop = await lab.go(lab.engine.stop())
    await lab.advance(1)
    assert not stop.done()
    held.release()
    await lab.advance(1)
    assert not stop.done(), "the run is not waited for"
    await lab.until(stop.done)
    accepted = outcome(message)
    await lab.ended(accepted.task, "COMPLETED", accepted.reader)


@pytest.mark.parametrize("script", [asks, asks_by_ending])
@race(shutdown_seconds=PATIENCE)
async def test_an_answer_that_is_being_recorded_when_the_stop_begins_is_worked_on(lab: Lab, script: Any) -> None:
    lab.scripts["a"] = script
    task = await lab.begin()
    held = lab.store.hold()
    message = await lab.go(lab.send("red", task=task, stream=True))
    stop = await lab.go(lab.engine.stop())
    await lab.advance(1)
    held.release()
    await lab.until(stop.done)
    accepted = outcome(message)
    await lab.ended(accepted.task, "COMPLETED", accepted.reader)


@pytest.mark.parametrize("patience", [0, 2])
@race()
async def test_a_message_that_is_recorded_too_late_for_the_stop_is_settled_at_the_next_start(
    lab: Lab, patience: float
) -> None:
    lab.engine.limits = type(lab.limits)(shutdown_seconds=patience)
    lab.scripts["a"] = ends
    held = lab.store.hold()
    message = await lab.go(lab.send())
    assert await lab.stop() <= patience + OVERTIME
    held.release()
    await lab.calm()
    task = outcome(message).task
    await lab.restart()
    await lab.advance(1)
    assert await lab.stored(task.id) in {TaskState.COMPLETED, TaskState.FAILED}


@race()
async def test_a_message_that_comes_after_the_stop_began_is_refused(lab: Lab) -> None:
    lab.scripts.update(a=works, b=asks)
    await lab.begin()
    asked = await lab.begin(skill="b")
    stop = await lab.go(lab.engine.stop())
    for message in (lab.send(), lab.send(task=asked)):
        assert isinstance(outcome(await lab.go(message)), Stopping)
    assert lab.sql("SELECT count(*) FROM tasks") == [(2,)]
    await lab.until(stop.done)
    await lab.restart()


@pytest.mark.parametrize("held", [False, True])
@race(shutdown_seconds=PATIENCE)
async def test_a_run_that_asks_during_the_stop_waits_for_the_next_process(lab: Lab, held: bool) -> None:
    async def script(request: Any) -> Any:
        if request.resumed:
            yield Artifact([{"text": request.text}])
            return
        await asyncio.sleep(2)
        await request.ask("which?")

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    waiting = await lab.go(accepted.task.settled())
    question = lab.store.hold_state("INPUT_REQUIRED") if held else None
    stop = await lab.go(lab.engine.stop())
    await lab.advance(2.5)
    if question is not None:
        assert question.caught == 1
        question.release()
    await lab.until(stop.done)
    assert waiting.done()
    assert accepted.reader is not None
    assert state_in((await frames(accepted.reader))[-1]) == "INPUT_REQUIRED"
    assert lab.engine.scheduler.running == 0
    await lab.restart()
    assert await lab.state(accepted.task.id) == "INPUT_REQUIRED"
    answered = await lab.send("red", task=accepted.task.id, stream=True)
    await lab.calm()
    await lab.ended(answered.task, "COMPLETED", answered.reader)


@race(shutdown_seconds=PATIENCE)
async def test_a_question_whose_deadline_passes_during_the_stop_does_not_hold_it_up(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        if not request.resumed:
            with pytest.raises(TimeoutError):
                await request.ask("which?", deadline=1)
        yield Artifact([{"text": "done"}])

    lab.scripts.update(a=script, b=works)
    task = await lab.begin()
    await lab.begin(skill="b")
    assert await lab.stop() <= PATIENCE + OVERTIME
    await lab.restart()
    if await lab.stored(task.id) is TaskState.INPUT_REQUIRED:
        await lab.send(task=task.id)
        await lab.calm()
    assert await lab.state(task.id) in {"COMPLETED", "FAILED"}


@race(shutdown_seconds=2)
async def test_a_run_that_can_resume_goes_on_in_the_next_process(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        yield Artifact([{"text": "again" if request.resumed else "first"}], append=True)
        if not request.resumed:
            await asyncio.sleep(1000)

    lab.scripts["resume"] = script
    accepted = await lab.send(skill="resume", stream=True)
    reader = await lab.engine.subscribe(accepted.task.id, "in", None)
    waiting = await lab.go(accepted.task.settled())
    assert await lab.stop() <= 2 + OVERTIME
    assert isinstance(outcome(waiting), Stopping)
    assert lab.engine.scheduler.running == 0
    for stream in (accepted.reader, reader):
        assert stream is not None
        assert state_in((await frames(stream))[-1]) == "WORKING"
    await lab.restart()
    await lab.calm()
    assert await lab.state(accepted.task.id) == "COMPLETED"
    assert b"firstagain" in (await lab.engine.view(accepted.task.id)).encode(), "what was shown is kept"


@race(shutdown_seconds=2)
async def test_the_streams_of_a_run_that_resumes_are_told_that_the_daemon_stops(lab: Lab) -> None:
    lab.scripts["resume"] = never_ends
    accepted = await lab.send(skill="resume", stream=True)
    reader = await lab.engine.subscribe(accepted.task.id, "in", None)
    await lab.stop()
    assert isinstance(reader.failure, Stopping)
    assert accepted.reader is not None
    assert isinstance(accepted.reader.failure, Stopping)
    lab.scripts["resume"] = ends
    await lab.restart()


@race(shutdown_seconds=2)
async def test_a_run_that_cannot_resume_is_failed_by_the_stop(lab: Lab) -> None:
    lab.scripts["a"] = never_ends
    accepted = await lab.send(stream=True)
    waiting = await lab.go(accepted.task.settled())
    assert await lab.stop() <= 2 + OVERTIME
    assert outcome(waiting) is None
    await lab.ended(accepted.task, "FAILED", accepted.reader)


@race(shutdown_seconds=2, cancel_grace_seconds=5)
async def test_a_run_that_does_not_heed_the_stop_does_not_hold_it_up(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        yield Artifact([{"text": "begun"}])
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                if lab.closing:
                    raise

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    assert await lab.stop() <= 2 + OVERTIME
    await lab.ended(accepted.task, "FAILED", accepted.reader)
    await lab.restart()
    assert await lab.state(accepted.task.id) == "FAILED"


@race(shutdown_seconds=2, cancel_grace_seconds=1000)
async def test_a_run_that_has_ended_and_still_tidies_up_does_not_hold_up_the_stop(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        yield Status(TaskState.COMPLETED, "done")
        await asyncio.sleep(1000)

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    await lab.calm()
    assert await lab.stop() <= 2 + OVERTIME
    await lab.ended(accepted.task, "COMPLETED", accepted.reader)


@race(shutdown_seconds=2)
async def test_a_cancel_during_the_stop_is_a_cancel(lab: Lab) -> None:
    lab.scripts["a"] = never_ends
    accepted = await lab.send(stream=True)
    await lab.calm()
    stop = await lab.go(lab.engine.stop())
    held = lab.store.hold_state("CANCELED")
    cancel = await lab.go(lab.engine.cancel(accepted.task.id))
    await lab.advance(1)
    held.release()
    await lab.until(stop.done)
    await lab.ended(outcome(cancel), "CANCELED", accepted.reader)


@race(runs=1, shutdown_seconds=2)
async def test_what_waits_at_the_stop_runs_in_the_next_process(lab: Lab) -> None:
    lab.scripts.update(a=never_ends, b=ends, c=asks)
    asked = await lab.begin(skill="c")
    await lab.begin()
    queued = await lab.send(skill="b", stream=True)
    await lab.send("red", task=asked)
    waiting = [await lab.go(task.settled()) for task in (queued.task, asked)]
    assert await lab.stop() <= 2 + OVERTIME
    assert [type(outcome(told)) for told in waiting] == [Stopping, Stopping]
    assert queued.reader is not None
    assert isinstance(queued.reader.failure, Stopping)
    lab.scripts["c"] = ends
    await lab.restart()
    await lab.calm()
    assert await lab.state(queued.task.id) == "COMPLETED"
    assert await lab.state(asked.id) == "COMPLETED"


@race(shutdown_seconds=2, gate=True)
async def test_a_task_whose_policy_is_being_asked_at_the_stop_is_decided_in_the_next_process(lab: Lab) -> None:
    decision = asyncio.Event()

    async def gate(_: Any) -> Deny | None:
        await decision.wait()
        return Deny("no") if lab.scripts.get("deny") else None

    lab.gate = gate
    lab.scripts["a"] = ends
    task = await lab.begin()
    assert await lab.stop() <= 2 + OVERTIME
    decision.set()
    await lab.calm()
    assert task.run is None
    lab.scripts["deny"] = ends
    await lab.restart()
    await lab.calm()
    assert await lab.state(task.id) == "REJECTED"


@race(shutdown_seconds=2)
async def test_a_subscriber_of_a_task_that_waits_is_told_that_the_daemon_stops(lab: Lab) -> None:
    lab.scripts["a"] = asks
    task = await lab.begin()
    reader = await lab.engine.subscribe(task.id, "in", None)
    assert await lab.stop() <= 2 + OVERTIME
    assert isinstance(reader.failure, Stopping)
    await lab.restart()
    assert await lab.state(task.id) == "INPUT_REQUIRED"


@pytest.mark.parametrize("committed", [False, True])
@race(shutdown_seconds=2, cancel_grace_seconds=5)
async def test_a_store_that_hangs_does_not_hold_up_the_stop(lab: Lab, committed: bool) -> None:
    async def asks_late(request: Any) -> Any:
        await asyncio.sleep(1)
        await request.ask("which?")
        yield

    async def ends_late(request: Any) -> Any:
        yield Artifact([{"text": "begun"}])
        await asyncio.sleep(1)

    lab.scripts.update(a=asks_late, b=ends_late, c=never_ends, resume=never_ends, reply=ends_late)
    tasks = [(await lab.send(skill=skill)).task for skill in ("a", "b", "c", "resume", "reply")]
    held = lab.store.hold()
    message = await lab.go(lab.send(skill="b"))
    assert await lab.stop() <= 2 + OVERTIME
    assert held.caught
    if committed:
        held.release()
        await lab.calm()
        assert message.done()
    else:
        held.matches = lambda *_: True
        await lab.crash()
    lab.scripts.update(resume=ends)
    await lab.restart()
    await lab.advance(1)
    ended = {TaskState.COMPLETED, TaskState.FAILED, TaskState.INPUT_REQUIRED}
    assert {await lab.stored(task.id) for task in tasks} <= ended


@race(shutdown_seconds=2)
async def test_a_store_that_refuses_does_not_hold_up_the_stop(lab: Lab) -> None:
    from a2ad.errors import StoreUnavailable

    lab.scripts.update(a=never_ends, b=ends)
    first = await lab.begin()
    lab.store.refuse(lambda change: True, StoreUnavailable())
    assert await lab.stop() <= 2 + OVERTIME
    await lab.restart()
    assert await lab.state(first.id) == "FAILED"
