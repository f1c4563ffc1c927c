"""A question's deadline and its answer at one moment, and more questions than may wait (`limits.asking`).

Whoever is told that an answer is taken may rely on it: the executor has it, from `ask` itself or in a run of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from a2ad import Artifact, TaskState
from a2ad.engine import Accepted, LiveTask
from a2ad.errors import StoreUnavailable, UnsupportedOperation
from tests.race_lab import Lab, outcome, race
from tests.race_scripts import works
from tests.race_store import loop

#: steps of the event loop between the deadline and the answer; below 0 the answer comes first
MOMENTS = range(-1, 12)
SECONDS = 1


def asks_until(told: list[str], *, questions: int = 1) -> Callable[..., Any]:
    """Asks with a deadline, and says what it was told."""

    async def script(request: Any) -> Any:
        assert not request.resumed
        for _ in range(questions):
            try:
                answer = await request.ask("which?", deadline=SECONDS)
                told.append(answer["parts"][0]["text"])
            except TimeoutError:
                told.append("timeout")
        yield Artifact([{"text": ", ".join(told)}])

    return script


def answer_at(lab: Lab, task: LiveTask, moment: int) -> list[asyncio.Future[Accepted]]:
    """Have an answer sent around the deadline of the task's question; what is returned holds it from then on."""
    sent: list[asyncio.Future[Accepted]] = []

    async def answer() -> Accepted:
        for _ in range(moment):
            await asyncio.sleep(0)
        return await lab.send("red", task=task)

    assert task.run is not None
    when = task.run.asking.since + SECONDS - (0.01 if moment < 0 else 0)
    loop().call_at(when, lambda: sent.append(asyncio.ensure_future(answer())))
    return sent


def was_taken(sent: list[asyncio.Future[Accepted]]) -> bool:
    """Whether the sender was told that the answer is taken, rather than that nobody waits for one."""
    result = outcome(sent[0])
    assert isinstance(result, (Accepted, UnsupportedOperation)), result
    return isinstance(result, Accepted)


# an answer at the moment of the deadline


@race()
async def test_an_answer_at_the_deadline_is_taken_and_given_or_refused_and_never_lost(lab: Lab) -> None:
    outcomes = set()
    for moment in MOMENTS:
        told: list[str] = []
        lab.scripts["a"] = asks_until(told)
        task = await lab.begin()
        sent = answer_at(lab, task, moment)
        await lab.advance(3)
        taken = was_taken(sent)
        assert told == (["red"] if taken else ["timeout"]), moment
        await lab.ended(task, "COMPLETED")
        outcomes.add(taken)
    assert outcomes == {True, False}, "the moments are not those around the deadline"


@race()
async def test_an_answer_at_the_deadline_that_is_long_in_being_recorded_is_not_lost(lab: Lab) -> None:
    for moment in MOMENTS:
        told: list[str] = []
        lab.scripts["a"] = asks_until(told)
        task = await lab.begin()
        sent = answer_at(lab, task, moment)
        held = lab.store.hold_state("WORKING")
        await lab.advance(4)
        assert held.caught == 1
        assert not told, "it goes on before that is recorded"
        held.release()
        await lab.advance(2)
        assert told == (["red"] if was_taken(sent) else ["timeout"]), moment
        await lab.ended(task, "COMPLETED")


@race()
async def test_an_answer_at_the_deadline_that_cannot_be_recorded_leaves_the_run_to_its_timeout(lab: Lab) -> None:
    for moment in (-1, 0, 1):
        told: list[str] = []
        lab.scripts["a"] = asks_until(told)
        task = await lab.begin()
        sent = answer_at(lab, task, moment)
        held = lab.store.hold(matches=lambda change: change.key_message is not None)
        await lab.advance(3)
        held.fail(StoreUnavailable())
        await lab.advance(3)
        assert isinstance(outcome(sent[0]), (StoreUnavailable, UnsupportedOperation))
        assert told == ["timeout"]
        await lab.ended(task, "COMPLETED")
        assert b"red" not in task.view().encode()


@race(runs=1)
async def test_without_a_free_slot_an_answer_at_the_deadline_waits_for_one_and_is_not_lost(lab: Lab) -> None:
    for moment in MOMENTS:
        told: list[str] = []
        lab.scripts.update(a=asks_until(told), b=works)
        task = await lab.begin()
        busy = await lab.begin(skill="b")
        sent = answer_at(lab, task, moment)
        await lab.advance(5)
        assert not busy.state.terminal
        assert not told, "it works without a slot"
        await lab.advance(15)
        assert told == (["red"] if was_taken(sent) else ["timeout"]), moment
        await lab.ended(task, "COMPLETED")


@race()
async def test_of_two_answers_at_the_deadline_one_is_taken_at_most(lab: Lab) -> None:
    for moment in MOMENTS:
        told: list[str] = []
        lab.scripts["a"] = asks_until(told)
        task = await lab.begin()
        first, second = answer_at(lab, task, moment), answer_at(lab, task, moment)
        await lab.advance(3)
        assert was_taken(first) + was_taken(second) == (told == ["red"]), moment
        await lab.ended(task, "COMPLETED")


@race()
async def test_a_cancel_at_the_deadline_leaves_the_task_canceled(lab: Lab) -> None:
    for moment in MOMENTS:
        told: list[str] = []
        lab.scripts["a"] = asks_until(told)
        task = await lab.begin()
        sent = answer_at(lab, task, moment)
        held = lab.store.hold_state("WORKING")
        await lab.advance(1.5)
        cancel = await lab.go(lab.engine.cancel(task.id))
        held.release()
        await lab.advance(2)
        was_taken(sent)
        assert outcome(cancel).state is TaskState.CANCELED
        await lab.ended(outcome(cancel), "CANCELED")


# more questions than may wait


def asks_for_ever(closed: list[str], resumed: list[tuple[str, str]]) -> Callable[..., Any]:
    """Asks; a new run says what it was started with."""

    async def script(request: Any) -> Any:
        if request.resumed:
            resumed.append((request.task_id, request.text))
            yield Artifact([{"text": f" {request.text}"}], append=True)
            return
        yield Artifact([{"text": "begun"}], append=True)
        try:
            answer = await request.ask("which?")
        except BaseException:
            closed.append(request.task_id)
            raise
        yield Artifact([{"text": f" {answer['parts'][0]['text']} at once"}], append=True)

    return script


@race(asking=3)
async def test_past_the_bound_the_questions_that_wait_longest_are_let_go_of(lab: Lab) -> None:
    closed: list[str] = []
    resumed: list[tuple[str, str]] = []
    lab.scripts["a"] = asks_for_ever(closed, resumed)
    tasks = []
    for _ in range(5):
        tasks.append(await lab.begin())
        await lab.advance(0.01)
    reader = await lab.engine.subscribe(tasks[0].id, "in", None)
    await lab.advance(1)

    assert closed == [task.id for task in tasks[:2]], "the oldest, and no more than has to be"
    assert [await lab.state(task.id) for task in tasks] == ["INPUT_REQUIRED"] * 5

    for number, task in enumerate(tasks):
        answered = (await lab.send(f"answer {number}", task=task)).task
        await lab.advance(1)
        told = f"begun answer {number}" if number < 2 else f"begun answer {number} at once"
        assert told.encode() in answered.view().encode()
        await lab.ended(answered, "COMPLETED", *([reader] if number == 0 else []))
    assert resumed == [(tasks[0].id, "answer 0"), (tasks[1].id, "answer 1")]


@race(asking=1)
async def test_a_question_that_was_let_go_of_is_no_longer_in_memory_and_can_be_canceled(lab: Lab) -> None:
    lab.scripts["a"] = asks_for_ever([], [])
    old, new = await lab.begin(), await lab.begin()
    await lab.advance(1)

    assert old.id not in lab.engine.live
    assert (await lab.engine.cancel(old.id)).state is TaskState.CANCELED
    await lab.engine.cancel(new.id)


@race(asking=1)
async def test_a_question_whose_answer_is_being_recorded_is_not_let_go_of(lab: Lab) -> None:
    closed: list[str] = []
    resumed: list[tuple[str, str]] = []
    lab.scripts["a"] = asks_for_ever(closed, resumed)
    old = await lab.begin()
    held = lab.store.hold(matches=lambda change: change.row.id == old.id and change.key_message is not None)
    answer = await lab.go(lab.send("red", task=old))
    more = [await lab.begin() for _ in range(2)]
    await lab.advance(2)
    assert closed == [more[0].id]
    held.release()
    await lab.advance(1)

    assert outcome(answer).task is old
    assert b"begun red at once" in old.view().encode()
    assert not resumed
    await lab.ended(old, "COMPLETED")
    for task in more:
        await lab.engine.cancel(task.id)


@race(asking=1, runs=1)
async def test_a_question_whose_answer_waits_for_a_slot_is_not_let_go_of(lab: Lab) -> None:
    closed: list[str] = []
    lab.scripts.update(a=asks_for_ever(closed, []), b=works)
    old, new = await lab.begin(), await lab.begin()
    busy = await lab.begin(skill="b")
    await lab.send("red", task=old)
    await lab.advance(5)
    assert not busy.state.terminal
    assert not closed, "one question alone waits for a client"
    await lab.advance(20)

    assert b"begun red at once" in old.view().encode()
    await lab.ended(old, "COMPLETED")
    await lab.engine.cancel(new.id)


@race(asking=1)
async def test_an_answer_that_meets_the_letting_go_starts_a_run_of_its_own(lab: Lab) -> None:
    resumed: list[tuple[str, str]] = []
    closing = asyncio.Event()

    async def script(request: Any) -> Any:
        if request.resumed:
            resumed.append((request.task_id, request.text))
            yield Artifact([{"text": request.text}])
            return
        try:
            await request.ask("which?")
        finally:
            await closing.wait()  # it takes its time to end
        yield Artifact([{"text": "never"}])

    lab.scripts["a"] = script
    old, new = await lab.begin(), await lab.begin()
    await lab.advance(1)
    assert old.canceling is not None, "it is being let go of"
    answer = await lab.go(lab.send("red", task=old))
    assert not answer.done()
    closing.set()
    await lab.advance(1)

    assert resumed == [(old.id, "red")]
    await lab.ended(outcome(answer).task, "COMPLETED")
    await lab.engine.cancel(new.id)
