"""The moment at which a question becomes visible: its answer may be there before its run has left the line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2ad.engine import Accepted, LiveTask
from a2ad.errors import UnsupportedOperation
from tests.race_lab import Lab, outcome, race
from tests.race_scripts import asks, asks_by_ending
from tests.test_engine_deadlines import MOMENTS, answer_at, asks_until, was_taken


@pytest.mark.parametrize("script", [asks, asks_by_ending])
@race()
async def test_an_answer_at_the_moment_when_the_question_is_recorded_is_taken_or_refused(lab: Lab, script: Any) -> None:
    lab.scripts["a"] = script
    for moment in range(8):
        sent: list[asyncio.Future[Accepted]] = []
        told = lab.engine.on_state

        async def answer(task: LiveTask, steps: int = moment) -> Accepted:
            for _ in range(steps):
                await asyncio.sleep(0)
            return await lab.send("red", task=task)

        def on_state(task: LiveTask, sent: Any = sent, told: Any = told, answer: Any = answer) -> None:
            told(task)
            if task.state.interrupted:
                sent.append(asyncio.ensure_future(answer(task)))

        lab.engine.on_state = on_state  # type: ignore[method-assign]
        task = await lab.begin()
        await lab.advance(1)
        lab.engine.on_state = told  # type: ignore[method-assign]
        result = outcome(sent[0])
        assert isinstance(result, (Accepted, UnsupportedOperation)), (moment, repr(result))
        if not isinstance(result, Accepted):
            await lab.send("red", task=task)
            await lab.advance(1)
        await lab.ended(await lab.engine.find(task.id), "COMPLETED")


@race()
async def test_a_late_answer_goes_to_the_question_that_it_was_taken_for(lab: Lab) -> None:
    """And not to the one that the executor asks next."""
    for moment in MOMENTS:
        told: list[str] = []
        lab.scripts["a"] = asks_until(told, questions=2)
        task = await lab.begin()
        sent = answer_at(lab, task, moment)
        await lab.advance(4)
        first = "red" if was_taken(sent) and told[0] == "red" else "timeout"
        assert told[0] == first
        assert told.count("red") == was_taken(sent), moment
        await lab.ended(task, "COMPLETED")
