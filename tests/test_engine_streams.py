"""Who reads a task while it is answered, waits or ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from a2ad import Artifact, Reply, Status, TaskState
from a2ad.errors import UnsupportedOperation
from tests.race_lab import Lab, frames, race, state_in
from tests.race_scripts import asks
from tests.race_store import loop

# direct answers


@race(runs=1, cancel_grace_seconds=1)
async def test_what_comes_after_a_direct_answer_changes_nothing(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        yield Reply([{"text": "hi"}])
        yield Artifact([{"text": "more"}])
        yield Status(TaskState.FAILED, "more")
        await asyncio.sleep(1000)

    lab.scripts["reply"] = script
    accepted = await lab.send(skill="reply", stream=True, messageId="m")
    await lab.advance(3)
    assert [list(frame) for frame in await frames(accepted.reader)] == [["message"]]
    task = accepted.task
    assert task.row.hidden
    assert lab.store.durable[task.id] == [TaskState.WORKING, TaskState.COMPLETED]
    again = await lab.send(skill="reply", stream=True, messageId="m")
    assert again.repeated
    assert [list(frame) for frame in await frames(again.reader)] == [["message"]]
    assert lab.engine.scheduler.running == 0


# streams


@race(ask_seconds=5)
async def test_a_repeated_stream_of_a_run_that_waits_for_a_credential_stays_until_it_waits_no_more(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        await request.ask("a key", state=TaskState.AUTH_REQUIRED)
        yield

    lab.scripts["a"] = script
    first = await lab.send(stream=True, messageId="m")
    await lab.calm()
    again = await lab.send(stream=True, messageId="m")
    readers = [first.reader, again.reader]
    assert all(reader and not reader._ended for reader in readers)
    await lab.advance(7)
    for reader in readers:
        assert reader is not None
        assert state_in((await frames(reader))[-1]) == "AUTH_REQUIRED"
    late = await lab.send(stream=True, messageId="m")
    assert late.reader is not None
    assert [state_in(frame) for frame in await frames(late.reader)] == ["AUTH_REQUIRED"]


@race(subscribers_per_task=2)
async def test_an_answer_with_a_stream_is_refused_where_there_are_too_many(lab: Lab) -> None:
    lab.scripts["a"] = asks
    task = await lab.begin()
    readers = [await lab.engine.subscribe(task.id, "in", None) for _ in range(2)]
    with pytest.raises(UnsupportedOperation):
        await lab.send(task=task, stream=True)
    readers[0].close()
    await lab.send(task=task, stream=True)
    await lab.calm()
    await lab.ended(task, "COMPLETED", readers[1])


@race(subscribers_per_task=2)
async def test_an_answer_without_a_stream_is_taken_however_many_subscribers_there_are(lab: Lab) -> None:
    lab.scripts["a"] = asks
    task = await lab.begin()
    readers = [await lab.engine.subscribe(task.id, "in", None) for _ in range(2)]
    await lab.send(task=task)
    await lab.calm()
    await lab.ended(task, "COMPLETED", *readers)


@race(stream_buffer_bytes=1 << 18)
async def test_a_reader_that_keeps_up_is_never_cut_by_notes(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        for number in range(300):
            yield Status(TaskState.WORKING, f"{number}" + "x" * 10000)

    lab.scripts["a"] = script
    accepted = await lab.send(stream=True)
    reader, seen = accepted.reader, 0
    assert reader is not None

    async def read() -> None:
        nonlocal seen
        while batch := await reader.take():
            seen += len(batch)

    await lab.go(read())
    await lab.until(lambda: (reader._ended and not reader.ready) or accepted.task.state.terminal)
    await lab.calm()
    assert reader.failure is None
    assert seen == 300 + 3
    assert loop().now < 1100
