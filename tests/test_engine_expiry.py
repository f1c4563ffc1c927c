"""A question with a deadline that no run waits with, and those who come while its task goes on without an answer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from a2ad import Artifact
from a2ad.engine import LiveTask
from a2ad.engine.questions import deadline_of, question_of
from a2ad.errors import StoreUnavailable, UnsupportedOperation
from a2ad.model import now_ms
from tests.race_lab import Lab, outcome, race
from tests.race_scripts import works


async def hurries(request: Any) -> Any:
    if request.unanswered:
        yield Artifact([{"text": f"unanswered {request.message['parts']}"}])
    elif request.resumed:
        yield Artifact([{"text": f"answered {request.text}"}])
    else:
        await request.ask("which?", deadline=0.05)


async def overdue(lab: Lab) -> LiveTask:
    """A task whose question was let go of by a crash, and whose deadline has passed since."""
    lab.scripts.update(a=hurries, b=works)
    task = await lab.begin()
    deadline = deadline_of(question_of(task.row))
    assert deadline is not None
    await lab.crash()
    while now_ms() <= deadline:
        time.sleep(0.001)  # by the wall clock, which is another one than the loop's
    return await lab.engine.find(task.id)


@race()
async def test_it_goes_on_without_an_answer_and_all_who_follow_it_hear_so(lab: Lab) -> None:
    task = await overdue(lab)
    reader = await lab.engine.subscribe(task.id, "in", None)
    await lab.advance(1)
    await lab.ended(task, "COMPLETED", reader)
    assert b"unanswered []" in task.view().encode()


@pytest.mark.parametrize("then", ["it runs", "it is canceled", "a restart"])
@race(runs=1)
async def test_while_it_waits_for_a_slot_it_takes_no_answer(lab: Lab, then: str) -> None:
    task = await overdue(lab)
    await lab.begin(skill="b")
    for _ in range(2):  # before anybody has looked at its deadline, and after
        assert isinstance(outcome(await lab.go(lab.send("red", task=task))), UnsupportedOperation)
        await lab.advance(1)
    assert await lab.state(task.id) == "INPUT_REQUIRED"
    if then == "it is canceled":
        await lab.engine.cancel(task.id)
        await lab.advance(15)
        await lab.ended(task, "CANCELED")
        return
    if then == "a restart":
        await lab.crash()
    await lab.advance(15)
    await lab.ended(task, "COMPLETED")
    assert b"unanswered []" in (await lab.engine.find(task.id)).view().encode()


@race()
async def test_a_store_that_is_away_delays_it(lab: Lab) -> None:
    task = await overdue(lab)
    held = lab.store.hold_state("WORKING")
    await lab.advance(1)
    assert held.caught == 1
    held.fail(StoreUnavailable())
    await lab.advance(3)
    await lab.ended(task, "COMPLETED")


@race()
async def test_one_that_was_answered_in_time_is_left_alone(lab: Lab) -> None:
    lab.scripts.update(a=hurries)
    task = await lab.begin()
    await lab.crash()
    accepted = await lab.go(lab.send("red", task=task.id))
    await lab.advance(2)
    ended = await lab.engine.find(task.id)
    told = b"answered red" if not isinstance(outcome(accepted), UnsupportedOperation) else b"unanswered []"
    assert told in ended.view().encode()
    await lab.ended(ended, "COMPLETED")
