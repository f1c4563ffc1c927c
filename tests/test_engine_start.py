"""What an earlier process left behind, and what cannot be taken up again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2ad import Artifact, Deny, InputRequired, Status, TaskState
from tests.race_lab import Lab, race
from tests.race_scripts import ends, never_ends, works


@pytest.mark.parametrize("gate", [False, True])
def test_a_task_that_cannot_be_taken_up_again_is_failed_at_the_start(tmp_path: Any, gate: bool) -> None:
    @race(gate=gate, runs=1)
    async def story(lab: Lab) -> None:
        lab.scripts.update(a=never_ends, b=ends)
        await lab.begin()
        broken = await lab.begin(skill="b", parts=[{"text": "x"}, {"raw": "YWJj"}])
        fine = await lab.begin(skill="b")
        lab.sql("UPDATE messages SET body = replace(body, 'YWJj', 'a') WHERE task_id = ?", broken.id)
        assert b'"a"' in lab.sql("SELECT CAST(body AS BLOB) FROM messages WHERE task_id = ?", broken.id)[0][0]
        await lab.crash()
        await lab.advance(1)
        assert await lab.state(broken.id) == "FAILED"
        assert await lab.state(fine.id) == "COMPLETED"

    story(tmp_path)


@pytest.mark.parametrize("waits", [False, True])
@race(gate=True, runs=1)
async def test_a_task_that_cannot_be_decided_is_failed(lab: Lab, waits: bool) -> None:
    async def gate(decision: Any) -> Any:
        return Deny("bad \ud800") if decision.text == "bad" else None

    lab.gate = gate
    lab.scripts.update(a=works, b=ends)
    if waits:
        await lab.begin()
    broken = await lab.send("bad", skill="b", stream=True)
    fine = await lab.begin(skill="b")
    await lab.advance(12)
    assert await lab.state(broken.task.id) in {"FAILED", "REJECTED"}
    assert await lab.state(fine.id) == "COMPLETED"


@pytest.mark.parametrize("read", [False, True])
@race()
async def test_a_run_with_many_notes_resumes_after_a_crash_with_numbers_that_are_new(lab: Lab, read: bool) -> None:
    go = asyncio.Event()

    async def script(request: Any) -> Any:
        if request.resumed:
            await go.wait()
        for number in range(1300):
            yield Status(TaskState.WORKING, f"note {number}")
        if not request.resumed:
            await asyncio.sleep(1000)

    lab.scripts["resume"] = script
    accepted = await lab.send(skill="resume", stream=read)
    task, shown = accepted.task, 0
    for _ in range(20):
        await lab.calm()
        while accepted.reader is not None and accepted.reader.ready:
            shown = (await accepted.reader.take())[-1].number
    await lab.advance(1)
    assert task.audience.next_frame > 1300
    ((reserved,),) = lab.sql("SELECT frame_limit FROM tasks WHERE id = ?", task.id)
    assert reserved >= task.audience.next_frame - 1
    await lab.crash()
    reader = await lab.engine.subscribe(task.id, "in", shown)
    go.set()
    await lab.calm()
    numbers = []
    while batch := await reader.take():
        numbers += [frame.number for frame in batch]
    assert len(numbers) > 1300
    assert numbers == sorted(set(numbers))
    assert numbers[-1300] > reserved, "a number came twice"
    assert await lab.state(task.id) == "COMPLETED"


@race()
async def test_an_answer_after_a_crash_is_asked_for_and_given_as_before(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        if len(request.history) < 4:
            raise InputRequired("more?")
        yield Artifact([{"text": request.text}])

    lab.scripts["a"] = script
    task = await lab.begin()
    await lab.crash()
    await lab.send("one", task=task.id)
    await lab.calm()
    await lab.crash()
    assert await lab.state(task.id) == "INPUT_REQUIRED"
    answered = await lab.send("two", task=task.id, stream=True)
    await lab.calm()
    await lab.ended(answered.task, "COMPLETED", answered.reader)
