"""A question and its answer, its deadline, or an executor that gives it up: whichever comes first, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2ad import Artifact, InputRequired
from a2ad.errors import StoreUnavailable, UnsupportedOperation
from tests.race_lab import Lab, outcome, race
from tests.race_scripts import asks, gives_up, works

# answers


@race()
async def test_of_two_answers_at_once_the_later_one_is_told_that_another_came_first(lab: Lab) -> None:
    lab.scripts["a"] = asks
    task = await lab.begin()
    held = lab.store.hold_state("WORKING")
    first = await lab.go(lab.send("red", task=task))
    assert held.caught == 1
    late = [await lab.go(lab.send("blue", task=task))]
    held.release()
    await lab.advance(1)
    await lab.ended(task, "COMPLETED")
    outcome(first)
    assert b"red" in task.view().encode()
    assert "Another answer came first" in str(outcome(late[0]))


@race()
async def test_an_answer_to_a_task_that_was_answered_and_runs_is_told_the_same(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        await request.ask("which?")
        await asyncio.sleep(10)
        yield Artifact([{"text": "done"}])

    lab.scripts.update(a=script, b=works)
    task, other = await lab.begin(), await lab.begin(skill="b")
    await lab.send("red", task=task)
    assert "Another answer came first" in str(outcome(await lab.go(lab.send("blue", task=task))))
    assert "still running" in str(outcome(await lab.go(lab.send("blue", task=other))))
    await lab.advance(15)
    await lab.ended(task, "COMPLETED")


@race(runs=1, ask_seconds=2)
async def test_the_time_of_a_question_does_not_pass_while_its_answer_waits_for_a_slot(lab: Lab) -> None:
    lab.scripts.update(a=asks, b=works)
    asked = await lab.begin()
    await lab.begin(skill="b")
    answer = await lab.send("red", task=asked, stream=True)
    await lab.advance(15)
    await lab.ended(asked, "COMPLETED", answer.reader)
    assert b"red" in asked.view().encode()


@race(runs=1)
async def test_the_deadline_of_a_question_does_not_pass_while_its_answer_waits_for_a_slot(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        answer = await request.ask("which?", deadline=2)
        yield Artifact([{"text": answer["parts"][0]["text"]}])

    lab.scripts.update(a=script, b=works)
    asked = await lab.begin()
    await lab.begin(skill="b")
    await lab.send("red", task=asked)
    await lab.advance(15)
    await lab.ended(asked, "COMPLETED")
    assert b"red" in asked.view().encode()


@race()
async def test_an_answer_while_a_question_is_given_up_past_its_deadline_is_refused(lab: Lab) -> None:
    told = []

    async def script(request: Any) -> Any:
        try:
            told.append(await request.ask("which?", deadline=1))
        except TimeoutError:
            told.append("timeout")
        await asyncio.sleep(1)
        yield Artifact([{"text": "done"}])

    lab.scripts["a"] = script
    task = await lab.begin(stream=True)
    reader = await lab.engine.subscribe(task.id, "in", None)
    held = lab.store.hold_state("WORKING")
    await lab.advance(1.5)
    assert held.caught == 1
    answer = await lab.go(lab.send("red", task=task))
    held.release()
    await lab.advance(2)
    assert isinstance(outcome(answer), UnsupportedOperation)
    assert told == ["timeout"]
    await lab.ended(task, "COMPLETED", reader)


@pytest.mark.parametrize("kind", ["a repetition", "a failure", "an answer"])
@race()
async def test_a_deadline_that_passes_while_an_answer_is_recorded_waits_for_what_becomes_of_it(
    lab: Lab, kind: str
) -> None:
    told = []

    async def script(request: Any) -> Any:
        try:
            told.append((await request.ask("which?", deadline=1))["parts"][0]["text"])
        except TimeoutError:
            told.append("timeout")
        yield Artifact([{"text": "done"}])

    lab.scripts["a"] = script
    task = await lab.begin(messageId="m1")
    held = lab.store.hold(matches=lambda change: change.key_message is not None)
    answer = await lab.go(lab.send("red", task=task, messageId="m1" if kind == "a repetition" else "m2"))
    await lab.advance(2)
    assert not told
    if kind == "a failure":
        held.fail(StoreUnavailable())
    else:
        held.release()
    await lab.advance(2)
    assert told == (["red"] if kind == "an answer" else ["timeout"])
    assert isinstance(outcome(answer), StoreUnavailable) == (kind == "a failure")
    await lab.ended(task, "COMPLETED")


# a question that its executor gives up


@race()
async def test_a_run_that_gives_up_its_question_works_on(lab: Lab) -> None:
    told: list[Any] = []
    lab.scripts["a"] = gives_up(told)
    task = await lab.begin()
    reader = await lab.engine.subscribe(task.id, "in", None)
    await lab.advance(1.5)
    assert await lab.state(task.id) == "WORKING"
    assert isinstance(outcome(await lab.go(lab.send(task=task))), UnsupportedOperation)
    await lab.advance(3)
    assert told == ["given up"]
    await lab.ended(task, "COMPLETED", reader)


@race()
async def test_a_run_that_gives_up_its_question_while_it_is_being_recorded_works_on(lab: Lab) -> None:
    told: list[Any] = []
    lab.scripts["a"] = gives_up(told)
    held = lab.store.hold_state("INPUT_REQUIRED")
    accepted = await lab.send(stream=True)
    reader = await lab.engine.subscribe(accepted.task.id, "in", None)
    await lab.advance(1.5)
    held.release()
    await lab.advance(0.5)
    assert await lab.state(accepted.task.id) == "WORKING", "nobody waits for an answer"
    await lab.advance(3)
    assert told == ["given up"]
    await lab.ended(accepted.task, "COMPLETED", reader)


@race()
async def test_an_answer_to_a_question_that_was_given_up_while_it_was_recorded_begins_no_second_run(lab: Lab) -> None:
    told: list[Any] = []
    lab.scripts["a"] = gives_up(told)
    held = lab.store.hold_state("INPUT_REQUIRED")
    task = await lab.begin()
    await lab.advance(1.5)
    held.release()
    await lab.calm()
    answer = outcome(await lab.go(lab.send(task=task)))
    await lab.advance(5)
    assert isinstance(answer, UnsupportedOperation)
    assert told == ["given up"]
    await lab.ended(task, "COMPLETED")


@race()
async def test_a_run_that_gives_up_its_question_while_the_answer_is_being_recorded_ends_well(lab: Lab) -> None:
    told: list[Any] = []
    lab.scripts["a"] = gives_up(told)
    task = await lab.begin()
    held = lab.store.hold_state("WORKING")
    answer = await lab.go(lab.send("red", task=task))
    await lab.advance(1.5)
    held.release()
    await lab.advance(4)
    assert outcome(answer).task is task
    assert told == ["given up"]
    await lab.ended(task, "COMPLETED")


@race(runs=1)
async def test_a_run_that_gives_up_its_question_while_the_answer_waits_for_a_slot_waits_for_it_too(lab: Lab) -> None:
    told: list[Any] = []
    lab.scripts.update(a=gives_up(told), b=works)
    task = await lab.begin()
    busy = await lab.begin(skill="b")
    await lab.send("red", task=task)
    await lab.advance(5)
    assert not busy.state.terminal
    assert not told, "it works without a slot"
    await lab.advance(20)
    assert told == ["given up"]
    await lab.ended(task, "COMPLETED")


@race(runs=1)
async def test_a_run_that_gives_up_twice_while_it_waits_for_a_slot_ends_well(lab: Lab) -> None:
    """Its deadline passes, and then its own patience."""
    told: list[Any] = []
    lab.scripts.update(a=gives_up(told, 3, deadline=1), b=works)
    task = await lab.begin()
    await lab.begin(skill="b")
    await lab.advance(20)
    assert told == ["given up"]
    await lab.ended(task, "COMPLETED")


@race()
async def test_a_run_that_gives_up_while_it_is_recorded_that_nobody_answered_ends_well(lab: Lab) -> None:
    told: list[Any] = []
    lab.scripts["a"] = gives_up(told, 3, deadline=1)
    task = await lab.begin()
    held = lab.store.hold_state("WORKING")
    await lab.advance(4)
    held.release()
    await lab.advance(5)
    assert told == ["given up"]
    await lab.ended(task, "COMPLETED")


@race()
async def test_a_question_that_was_given_up_can_be_asked_again(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(request.ask("which?"), 1)
        answer = await request.ask("well?")
        yield Artifact([{"text": answer["parts"][0]["text"]}])

    lab.scripts["a"] = script
    task = await lab.begin()
    await lab.advance(1.5)
    await lab.send("red", task=task)
    await lab.advance(1)
    await lab.ended(task, "COMPLETED")


@race()
async def test_a_run_that_raises_a_question_after_it_gave_one_up_is_interrupted(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        if request.resumed:
            return
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(request.ask("which?"), 1)
        raise InputRequired("again?")
        yield

    lab.scripts["a"] = script
    task = await lab.begin()
    await lab.advance(1.5)
    assert await lab.state(task.id) == "INPUT_REQUIRED"
    answered = (await lab.send(task=task)).task
    await lab.advance(1)
    await lab.ended(answered, "COMPLETED")
