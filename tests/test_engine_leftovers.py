"""Who does not wait any longer, and what is removed meanwhile: nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from a2ad import Reply, TaskState
from a2ad.errors import ProtocolError, StoreUnavailable, TaskNotFound
from a2ad.executors import pool
from tests.race_lab import Lab, outcome, race
from tests.race_scripts import asks, asks_by_ending, ends, works
from tests.race_store import Held

# those who do not wait any longer


async def _drop(lab: Lab, held: Held | None, future: asyncio.Future[Any]) -> None:
    future.cancel()
    await lab.calm()
    assert future.cancelled()
    if held is not None:
        held.release()
    await lab.calm()


@pytest.mark.parametrize("steps", range(6))
@race(runs=1)
async def test_a_message_whose_sender_gives_up_is_worked_on_or_not_recorded(lab: Lab, steps: int) -> None:
    lab.scripts["a"] = ends
    sending = asyncio.ensure_future(lab.send(messageId="m"))
    held = lab.store.hold() if steps == 5 else None
    for _ in range(steps):
        await asyncio.sleep(0)
    if steps == 5:
        await lab.calm()
        assert held is not None
        assert held.caught
    sending.cancel()
    await lab.calm()
    if held is not None:
        held.release()
    await lab.advance(1)
    found = lab.sql("SELECT id FROM tasks")
    again = await lab.begin(messageId="m")
    await lab.advance(1)
    assert await lab.state(again.id) == "COMPLETED"
    assert not found or found == [(again.id,)]


@pytest.mark.parametrize("script", [asks, asks_by_ending])
@race(runs=1)
async def test_an_answer_whose_sender_gives_up_while_it_is_recorded_is_worked_on(lab: Lab, script: Any) -> None:
    lab.scripts["a"] = script
    task = await lab.begin()
    held = lab.store.hold()
    await _drop(lab, held, await lab.go(lab.send("red", task=task)))
    await lab.advance(1)
    if await lab.state(task.id) == "INPUT_REQUIRED":
        await lab.send("red", task=task)
        await lab.advance(1)
    assert await lab.state(task.id) == "COMPLETED"


@race()
async def test_a_cancel_whose_sender_gives_up_is_done(lab: Lab) -> None:
    lab.scripts["a"] = works
    accepted = await lab.send(stream=True)
    await lab.calm()
    held = lab.store.hold_state("CANCELED")
    await _drop(lab, held, await lab.go(lab.engine.cancel(accepted.task.id)))
    await lab.ended(accepted.task, "CANCELED", accepted.reader)


@race()
async def test_one_who_waits_for_a_task_and_gives_up_changes_nothing(lab: Lab) -> None:
    lab.scripts["a"] = works
    task = await lab.begin()
    await _drop(lab, None, await lab.go(task.settled()))
    assert not task.audience.present
    await lab.advance(11)
    await lab.ended(task, "COMPLETED")


@pytest.mark.parametrize("fails", [False, True])
@race()
async def test_chunks_whose_writer_gives_up_are_written_once(lab: Lab, fails: bool) -> None:
    lab.scripts["a"] = works
    task = await lab.begin()
    held = lab.store.hold(matches=lambda change: bool(change.segments))
    first = await lab.go(task.flush())
    second = await lab.go(task.flush())
    assert held.caught == 1
    for future in (second, first):
        future.cancel()
    await lab.calm()
    if fails:
        held.fail(StoreUnavailable())
    else:
        held.release()
    await lab.advance(12)
    await lab.ended(task, "COMPLETED")
    assert (await lab.store.real.task(task.id)).segments[0].parts.count(b"begun") <= 1
    stored = lab.sql("SELECT CAST(parts AS TEXT) FROM artifacts WHERE task_id = ?", task.id)
    assert "".join(parts for (parts,) in stored).count("done") == 1


@race()
async def test_a_task_that_is_read_by_one_who_gives_up_is_there_for_the_others(lab: Lab) -> None:
    lab.scripts["a"] = asks_by_ending
    task = await lab.begin()
    await lab.advance(1)
    held = lab.store.hold("task")
    first, second = [await lab.go(lab.engine.find(task.id)) for _ in range(2)]
    await _drop(lab, held, first)
    assert outcome(second).state is TaskState.INPUT_REQUIRED


# an inbound that goes


@pytest.mark.parametrize("skill", ["a", "b", "c", "reply"])
@race(runs=3)
async def test_an_inbound_that_is_removed_takes_its_tasks_with_it(lab: Lab, skill: str) -> None:
    lab.scripts.update(a=works, b=asks, c=asks_by_ending, reply=works)
    tasks = [await lab.begin(skill=skill) for _ in range(5)]
    await lab.go(lab.engine.forget_inbound("in"))
    await lab.advance(1)
    assert lab.sql("SELECT count(*) FROM tasks") == [(0,)]
    for task in tasks:
        with pytest.raises(TaskNotFound):
            await lab.engine.view(task.id)


@race()
async def test_a_direct_answer_that_is_awaited_is_canceled_when_its_inbound_goes(lab: Lab) -> None:
    async def script(request: Any) -> Any:
        await asyncio.sleep(10)
        yield Reply([{"text": "hi"}])

    lab.scripts["reply"] = script
    accepted = await lab.send(skill="reply", stream=True)
    waiting = await lab.go(accepted.task.settled())
    removal = await lab.go(lab.engine.forget_inbound("in"))
    assert outcome(removal) is None
    assert waiting.done()
    assert accepted.reader is not None
    assert accepted.reader._ended
    assert lab.sql("SELECT count(*) FROM tasks") == [(0,)]


@race()
async def test_a_message_that_is_recorded_while_its_inbound_goes_leaves_nothing(lab: Lab) -> None:
    lab.scripts["a"] = ends
    held = lab.store.hold()
    message = await lab.go(lab.send())
    removal = await lab.go(lab.engine.forget_inbound("in"))
    held.release()
    await lab.advance(1)
    assert outcome(removal) is None
    assert message.done()
    message.exception()
    assert lab.sql("SELECT count(*) FROM tasks") == [(0,)]
    assert isinstance(outcome(await lab.go(lab.send())), ProtocolError)


@pytest.mark.parametrize("script", [asks, asks_by_ending])
@pytest.mark.parametrize("when", ["before", "during"])
@race()
async def test_an_answer_while_the_inbound_goes_leaves_nothing(lab: Lab, script: Any, when: str) -> None:
    lab.scripts["a"] = script
    task = await lab.begin()
    await lab.advance(1)
    answers = []
    if when == "before":
        held = lab.store.hold()
        answers.append(await lab.go(lab.send(task=task)))
    else:
        held = lab.store.hold("delete_tasks")
    removal = await lab.go(lab.engine.forget_inbound("in"))
    if when == "during":
        lab.store.hold("delete_tasks")
        answers.append(await lab.go(lab.send(task=task)))
    held.release()
    await lab.advance(1)
    assert outcome(removal) is None
    assert all(answer.done() for answer in answers)
    [answer.exception() for answer in answers]
    assert lab.sql("SELECT count(*) FROM tasks") == [(0,)]


@race()
async def test_an_answer_that_is_recorded_while_the_tasks_are_deleted_leaves_nothing(lab: Lab) -> None:
    """It read the task before it was deleted, and is written after."""
    lab.scripts["a"] = asks_by_ending
    task = await lab.begin()
    await lab.advance(1)
    deleted = lab.store.hold("delete_tasks")
    removal = await lab.go(lab.engine.forget_inbound("in"))
    written = lab.store.hold()
    answer = await lab.go(lab.send(task=task))
    deleted.release()
    await lab.calm()
    written.release()
    await lab.advance(1)
    assert outcome(removal) is None
    answer.exception()
    assert lab.engine.scheduler.running == 0
    assert not lab.engine.live


# sessions


class _Session:
    def __init__(self, context_id: str, closed: list[str]) -> None:
        self._context_id = context_id
        self._closed = closed

    def state(self) -> None:
        return None

    async def close(self) -> None:
        await asyncio.sleep(0)
        self._closed.append(self._context_id)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[str], Any], list[str], Any]:
    """Opens the session of a context, where there is room for two; and those that were closed."""
    monkeypatch.setattr(pool, "MAX_SESSIONS", 2)
    closed: list[str] = []

    async def opened(context: Any) -> _Session:
        return _Session(context.context_id, closed)

    async def no_record(*_: str) -> None:
        return None

    agent = SimpleNamespace(open=opened)
    host = SimpleNamespace(agent=lambda _: agent)
    of_all = pool.SessionPool(host=host, idle_seconds=100)  # type: ignore[arg-type]
    of_all.store = SimpleNamespace(context=no_record)  # type: ignore[assignment]
    of_all.tools = lambda _: None  # type: ignore[assignment,return-value]
    preset = SimpleNamespace(id="p", agent="x")

    def opening(name: str) -> Any:
        return of_all.acquire(
            SimpleNamespace(  # type: ignore[arg-type]
                task_id=name, inbound_id="i", context_id=name, preset=preset, message={}, _workdir=None
            )
        )

    return opening, closed, of_all


async def test_a_session_for_which_there_is_no_room_takes_the_place_of_the_oldest(sessions: Any) -> None:
    opening, closed, of_all = sessions
    for name in ("one", "two"):
        (await opening(name)).task_id = None
    await opening("three")
    assert closed == ["one"]
    of_all._sweeper.cancel()


async def test_a_session_is_not_closed_for_its_own_sake_where_all_others_are_busy(sessions: Any) -> None:
    opening, closed, of_all = sessions
    for name in ("one", "two"):
        await opening(name)
    third = await opening("three")
    assert not closed
    assert of_all.get("i", "three") is third
    of_all._sweeper.cancel()


async def test_sessions_that_open_at_the_same_moment_do_not_close_each_other(sessions: Any) -> None:
    opening, _, of_all = sessions
    for name in ("one", "two"):
        (await opening(name)).task_id = None
    names = ("three", "four", "five")
    opened = await asyncio.gather(*(opening(name) for name in names))
    lost = [name for name, live in zip(names, opened, strict=True) if of_all.get("i", name) is not live]
    assert not lost, "their tasks were handed a session that is closed"
    of_all._sweeper.cancel()
