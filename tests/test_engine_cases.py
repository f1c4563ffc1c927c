"""Single cases of the engine that take a particular order of things, or a particular executor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog

from a2ad import Artifact, TaskState
from a2ad.config import LimitsConfig
from a2ad.engine import Accepted
from a2ad.errors import TaskNotCancelable, UnsupportedOperation
from tests.engine_client import Client
from tests.engine_lab import ClockLoop, Desk, Lab, Scripted, make_host, message
from tests.engine_model import FAULTS

INPUT = TaskState.INPUT_REQUIRED.value


class Bench:
    """Runs coroutines on a loop whose clock is set by hand, with a lab in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = ClockLoop()
        self.faults: list[Any] = []
        self.labs: list[Lab] = []
        self.loop.set_exception_handler(lambda _, context: self.faults.append(context))

    def make(self, **limits: Any) -> Lab:
        self.labs.append(Lab(self.folder, make_host(self.folder, gated=False), LimitsConfig(**limits)))
        return self.labs[-1]

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.loop.run_until_complete(work)
        assert not self.faults

    def close(self) -> None:
        for lab in self.labs:
            if lab.open:
                self.loop.run_until_complete(lab.crash())
        self.loop.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    held = Bench(tmp_path)
    with structlog.testing.capture_logs() as logged:
        yield held
        held.close()
    assert not [entry for entry in logged if entry["event"] in FAULTS]


@pytest.fixture
def run(bench: Bench) -> Callable[[Coroutine[Any, Any, Any]], None]:
    return bench.run


@pytest.fixture
def make(bench: Bench) -> Callable[..., Lab]:
    return bench.make


async def send(lab: Lab, steps: list[Any], *, stream: bool = False, **fields: Any) -> Accepted:
    accepted = await lab.engine.submit(
        lab.target("in"), message(steps, **fields), caller="anonymous", peer="::1", stream=stream
    )
    await lab.calm()
    return accepted


async def task_of(lab: Lab, task_id: str) -> Any:
    return json.loads((await lab.engine.view(task_id, "in")).encode())


async def state_of(lab: Lab, task_id: str) -> str:
    state: str = (await task_of(lab, task_id))["status"]["state"].removeprefix("TASK_STATE_")
    return state


async def again(lab: Lab) -> None:
    """The process is killed, and there is another one."""
    await lab.crash()
    await lab.start()


# numbers


async def _notes(lab: Lab) -> None:
    await lab.start()
    accepted = await send(
        lab, [*[["note", str(number)] for number in range(1500)], ["gate"]], stream=True, metadata={"skill": "resume"}
    )
    assert accepted.reader is not None
    client = Client(accepted.task.id, accepted.reader, snapshot=False)
    await lab.until(lambda: bool(lab.desk.waiting()))
    await client.drain()
    shown = max(client.live_numbers())
    assert shown >= 1500

    await again(lab)
    reader = await lab.engine.subscribe(accepted.task.id, "in", None)
    after = Client(accepted.task.id, reader, snapshot=True)
    await lab.until(lambda: bool(lab.desk.waiting()))
    Desk.release(lab.desk.waiting()[-1])
    await lab.calm()
    await after.drain()

    assert after.live_numbers()
    assert min(after.live_numbers()) > shown
    assert await state_of(lab, accepted.task.id) == "COMPLETED"


def test_numbers_of_a_task_with_many_notes_do_not_come_again_after_a_crash(run: Any, make: Callable[..., Lab]) -> None:
    run(_notes(make()))


# answers


async def _twice_killed(lab: Lab) -> None:
    await lab.start()
    asked = await send(lab, [["input"]], contextId="c")
    other = await send(lab, [["gate"]], contextId="c")
    await send(lab, [["gate"]], taskId=asked.task.id, messageId="answer")
    assert await state_of(lab, asked.task.id) == "WORKING"
    assert len(lab.desk.waiting()) == 1, "the answer waits for the other task of the context"

    await again(lab)
    assert await state_of(lab, other.task.id) == "FAILED"
    assert [stand.message_id for stand in lab.desk.waiting()] == ["answer"]
    await again(lab)

    assert [given for given in lab.desk.given if given[0] == "answer"] == [("answer", asked.task.id, 2)]
    assert await state_of(lab, asked.task.id) == "FAILED"


def test_an_answer_that_waited_over_a_restart_is_not_given_again_after_the_next(
    run: Any, make: Callable[..., Lab]
) -> None:
    run(_twice_killed(make()))


async def _no_queue(lab: Lab) -> None:
    await lab.start()
    for steps in ([["input"]], [["ask", INPUT]]):
        asked = await send(lab, steps)
        await send(lab, [], taskId=asked.task.id)
        assert await state_of(lab, asked.task.id) == "COMPLETED"


def test_an_answer_that_can_run_at_once_needs_no_place_in_the_queue(run: Any, make: Callable[..., Lab]) -> None:
    run(_no_queue(make(queued=0)))


async def _cancel_and_answer(lab: Lab, *, between: int, cancel_first: bool) -> None:
    await lab.start()
    for steps in ([["text", "result", "x"], ["input"]], [["text", "result", "x"], ["ask", INPUT], ["gate"]]):
        asked = await send(lab, steps)
        calls = [
            lab.engine.cancel(asked.task.id, "in"),
            send(lab, [["gate"], ["text", "late", "y"]], taskId=asked.task.id),
        ]
        first, second = calls if cancel_first else calls[::-1]
        one = asyncio.ensure_future(first)
        for _ in range(between):
            await asyncio.sleep(0)
        two = asyncio.ensure_future(second)
        await lab.until(lambda one=one, two=two: one.done() and two.done())
        await asyncio.gather(one, two, return_exceptions=True)
        canceled = one if cancel_first else two

        assert canceled.exception() is None
        assert await state_of(lab, asked.task.id) == "CANCELED"
        before = await task_of(lab, asked.task.id)
        assert not [stand for stand in lab.desk.waiting() if stand.task_id == asked.task.id], "it runs on"
        await lab.advance(3)
        assert await task_of(lab, asked.task.id) == before
    assert lab.engine.scheduler.running == 0


@pytest.mark.parametrize("cancel_first", [True, False])
@pytest.mark.parametrize("between", range(12))
def test_a_cancel_that_meets_an_answer_ends_the_task_and_its_run(
    run: Any, make: Callable[..., Lab], between: int, *, cancel_first: bool
) -> None:
    run(_cancel_and_answer(make(), between=between, cancel_first=cancel_first))


# executors that ask in their own way


class Impatient(Scripted):
    """Bounds `ask` by itself, as anybody would who knows asyncio."""

    async def execute(self, request: Any) -> Any:
        stand = Scripted.desk.begin(request)
        if not request.resumed:
            try:
                await asyncio.wait_for(request.ask("which?"), 5)
            except TimeoutError:
                yield Artifact([{"text": "nobody answered"}])
        await Scripted.desk.wait(stand, "gate")
        yield Artifact([{"text": "done"}], artifact_id="end")


async def _impatient(lab: Lab) -> None:
    await lab.start()
    asked = await send(lab, [])
    assert await state_of(lab, asked.task.id) == "INPUT_REQUIRED"
    await lab.advance(6)
    assert len(lab.desk.waiting()) == 1, "the executor goes on by itself"

    with suppress(UnsupportedOperation):
        await send(lab, [], taskId=asked.task.id)

    assert len(lab.desk.waiting()) == 1, "a task has two runs"
    Desk.release(lab.desk.waiting()[0])
    await lab.calm()
    assert await state_of(lab, asked.task.id) == "COMPLETED"
    assert lab.engine.scheduler.running == 0


def test_an_executor_that_gives_up_asking_has_one_run_all_the_same(run: Any, make: Callable[..., Lab]) -> None:
    lab = make()
    replace(lab, Impatient())
    run(_impatient(lab))


class Leaves(Scripted):
    """Ends while its own question is open."""

    async def execute(self, request: Any) -> Any:
        stand = Scripted.desk.begin(request)
        question = asyncio.ensure_future(request.ask("which?"))
        question.add_done_callback(lambda done: done.cancelled() or done.exception())
        await Scripted.desk.wait(stand, "gate")
        yield Artifact([{"text": "done"}])


async def _leaves(lab: Lab) -> None:
    await lab.start()
    asked = await send(lab, [])
    assert await state_of(lab, asked.task.id) == "INPUT_REQUIRED"
    Desk.release(lab.desk.waiting()[0])
    lab.store.holding = True
    await lab.calm()
    canceling = asyncio.ensure_future(lab.engine.cancel(asked.task.id, "in"))
    for _ in range(20):
        await asyncio.sleep(0)  # here the loop would stand still for ever
    assert not canceling.done()
    lab.store.holding = False
    await lab.store.commit_held()
    canceling.cancel()
    await asyncio.gather(canceling, return_exceptions=True)


def test_a_cancel_while_an_executor_leaves_its_own_question_does_not_stop_the_loop(
    run: Any, make: Callable[..., Lab]
) -> None:
    lab = make()
    replace(lab, Leaves())
    run(_leaves(lab))


def replace(lab: Lab, executor: Scripted) -> None:
    """Give the skill `chat` another executor."""
    registered = lab.host.executors["scripted"]
    lab.host.executors["scripted"] = type(registered)(executor, "", "lab")


# large results


async def _large(lab: Lab) -> None:
    await lab.start()
    accepted = await send(lab, [["gate"], *[["text", "result", "x" * 60_000] for _ in range(100)]], stream=True)
    assert accepted.reader is not None
    client = Client(accepted.task.id, accepted.reader, snapshot=False)
    Desk.release(lab.desk.waiting()[0])
    while not client.ended:
        await asyncio.sleep(0)
        await client.drain()

    assert client.reader.failure is None
    assert client.live_numbers() == list(range(1, len(client.frames) + 1))
    assert len(client.task["artifacts"][0]["parts"][0]["text"]) == 6_000_000
    assert client.task["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_reader_that_keeps_up_has_a_result_larger_than_its_buffer_to_the_end(
    run: Any, make: Callable[..., Lab]
) -> None:
    run(_large(make()))


# what a restart finds


async def _fewer_attachments(lab: Lab, narrow: LimitsConfig) -> None:
    await lab.start()
    first = await send(lab, [["gate"]], contextId="c")
    params = message([["text", "result", "x"]], contextId="c")
    params.message["parts"].append({"raw": b"12345678", "mediaType": "text/plain"})
    second = await lab.engine.submit(lab.target("in"), params, caller="anonymous", peer="::1")
    for _ in range(1000):
        if second.task.ticket is not None and second.task.ticket.ready:
            break
        await lab.calm()
    lab.limits = narrow
    await again(lab)
    for _ in range(1000):
        if await state_of(lab, second.task.id) == "COMPLETED":
            break
        await lab.calm()
    assert await state_of(lab, first.task.id) == "FAILED"
    assert await state_of(lab, second.task.id) == "COMPLETED"


@pytest.mark.parametrize("narrow", [{"attachments": 0}, {"attachment_bytes": 3}])
def test_a_task_that_was_accepted_runs_after_a_restart_with_narrower_limits(
    run: Any, make: Callable[..., Lab], narrow: dict[str, int]
) -> None:
    run(_fewer_attachments(make(), LimitsConfig(**narrow)))


# cancel


async def _stubborn(lab: Lab) -> None:
    await lab.start()
    accepted = await send(lab, [["text", "result", "x"], ["stubborn"], ["text", "result", "late"]])
    cancels = [asyncio.ensure_future(lab.engine.cancel(accepted.task.id, "in")) for _ in range(20)]
    await lab.until(lambda: all(cancel.done() for cancel in cancels))
    assert {cancel.result().state for cancel in cancels} == {TaskState.CANCELED}
    before = await task_of(lab, accepted.task.id)
    assert lab.engine.scheduler.running == 0

    Desk.release(lab.desk.waiting()[0])
    await lab.advance(3)

    assert await task_of(lab, accepted.task.id) == before
    with pytest.raises(TaskNotCancelable):
        await lab.engine.cancel(accepted.task.id, "in")
    assert not lab.engine.abandoned


def test_an_executor_that_ignores_the_cancel_is_left_behind_without_effect(run: Any, make: Callable[..., Lab]) -> None:
    run(_stubborn(make()))


async def _cancel_and_end(lab: Lab, *, between: int, steps: list[Any]) -> None:
    await lab.start()
    accepted = await send(lab, steps)
    blocked = asyncio.ensure_future(accepted.task.settled())
    await lab.calm()
    Desk.release(lab.desk.waiting()[0])
    for _ in range(between):
        await asyncio.sleep(0)
    canceling = asyncio.ensure_future(lab.engine.cancel(accepted.task.id, "in"))
    await lab.until(lambda: canceling.done() and blocked.done())

    told = "COMPLETED" if isinstance(canceling.exception(), TaskNotCancelable) else "CANCELED"
    assert await state_of(lab, accepted.task.id) == told
    assert told == "COMPLETED" or canceling.result().state is TaskState.CANCELED
    assert lab.engine.scheduler.running == 0
    assert accepted.task.id not in lab.engine.live


@pytest.mark.parametrize("steps", [[["gate"]], [["note", "1"], ["gate"], ["note", "2"], ["text", "result", "x"]]])
@pytest.mark.parametrize("between", range(16))
def test_a_cancel_that_meets_the_end_of_a_run_has_one_outcome(
    run: Any, make: Callable[..., Lab], between: int, steps: list[Any]
) -> None:
    run(_cancel_and_end(make(), between=between, steps=steps))
