"""What `GET /a2a/api/task` tells of a task's course: timeline, start and end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import PLUGIN, await_state, start_task, until

NOTING = """
import asyncio
from pathlib import Path

from a2ad import Deny, Executor, Status, TaskState, hookimpl


class Noting(Executor):
    async def execute(self, request):
        word, _, gate = request.text.partition(" ")
        for number in range(int(word)):
            yield Status(TaskState.WORKING, f"note {number}")
        while gate and not Path(gate).exists():
            await asyncio.sleep(0.01)
        yield Status(TaskState.COMPLETED, "x" * 10_000)


@hookimpl
def a2ad_register_executors(register, config):
    register("noting", Noting())


@hookimpl
def a2ad_register_presets(register, config):
    register("noting", {"skills": [{"id": "chat", "executor": "noting"}]})
"""
DENYING = """
from a2ad import Deny, hookimpl

@hookimpl
def a2ad_inbound_task(decision):
    return Deny("not today")
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(
        tmp_path_factory.mktemp("timeline"),
        plugin={"scripted": PLUGIN, "noting": NOTING},
        config="[limits]\nruns_per_inbound = 1\n",
    )
    yield daemon
    daemon.kill()
    assert "Traceback" not in daemon.log()


def states(task: Any) -> list[str]:
    return [step["state"].removeprefix("TASK_STATE_") for step in task["timeline"]]


def task_of(daemon: DaemonProcess, task_id: str) -> Any:
    return daemon.read(f"/task?id={task_id}")


def in_order(task: Any) -> None:
    frames, times = ([step[key] for step in task["timeline"]] for key in ("frame", "at"))
    assert (frames, times) == (sorted(set(frames)), sorted(times))


def test_it_has_what_happened_oldest_first_and_the_texts(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(preset="scripted")
    task_id = start_task(shared, inbound, "ask")
    await_state(shared, task_id, "INPUT_REQUIRED")
    waiting = task_of(shared, task_id)
    shared.act("task.answer", id=task_id, text="the red one")
    await_state(shared, task_id, "COMPLETED")
    ended = task_of(shared, task_id)

    assert states(waiting) == ["INPUT_REQUIRED"]
    assert waiting["timeline"][0]["message"] == "which one?"
    assert (waiting["startedAt"], waiting["endedAt"]) == (waiting["createdAt"], None)
    assert states(ended) == ["INPUT_REQUIRED", "WORKING", "COMPLETED"]
    assert ended["timeline"][0] == waiting["timeline"][0]
    assert ended["timeline"][-1]["at"] == ended["endedAt"] == ended["updatedAt"]
    assert ended["startedAt"] == ended["createdAt"]
    in_order(ended)


def test_its_frames_are_those_of_the_stream(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(preset="noting")
    params = {"message": {"role": "ROLE_USER", "parts": [{"text": "3"}]}}
    frames = [
        (number, envelope["result"]["statusUpdate"]["status"])
        for number, envelope in shared.stream(inbound, "SendStreamingMessage", params)
        if "statusUpdate" in envelope["result"]
    ]
    (row,) = shared.read(f"?taskServerId={inbound}")["tasks"]

    timeline = task_of(shared, row["id"])["timeline"]

    assert [(step["frame"], step["state"], step["at"]) for step in timeline] == [
        (number, status["state"], status["timestamp"]) for number, status in frames
    ]
    assert [step["message"] for step in timeline[:-1]] == ["note 0", "note 1", "note 2"]
    assert len(timeline[-1]["message"]) < 10_000


def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin={"scripted": PLUGIN, "noting": NOTING})
    try:
        asking, noting = (daemon.create_inbound(preset=preset) for preset in ("scripted", "noting"))
        asked = daemon.send(asking, "ask")["id"]
        ended = daemon.send(noting, "3")["id"]
        before = [task_of(daemon, task_id) for task_id in (asked, ended)]
        daemon.restart()
        after = [task_of(daemon, task_id) for task_id in (asked, ended)]
    finally:
        daemon.kill()

    assert [states(task) for task in after] == [["INPUT_REQUIRED"], ["WORKING"] * 3 + ["COMPLETED"]]
    assert after == before


def test_one_that_waits_in_the_queue_has_not_started_and_starts_when_its_turn_comes(
    shared: DaemonProcess, tmp_path: Path
) -> None:
    inbound = shared.create_inbound(preset="scripted")
    start_task(shared, inbound, f"wait {tmp_path / 'gate'}")
    second = start_task(shared, inbound, "say it")
    queued = task_of(shared, second)
    (tmp_path / "gate").touch()
    await_state(shared, second, "COMPLETED")
    ended = task_of(shared, second)

    assert (queued["timeline"], queued["startedAt"], queued["endedAt"]) == ([], None, None)
    assert states(ended) == ["WORKING", "COMPLETED"]
    assert ended["startedAt"] == ended["timeline"][0]["at"] > ended["createdAt"]


def test_one_that_is_canceled_in_the_queue_never_started(shared: DaemonProcess, tmp_path: Path) -> None:
    inbound = shared.create_inbound(preset="scripted")
    first = start_task(shared, inbound, f"wait {tmp_path / 'gate'}")
    second = start_task(shared, inbound, "say it")
    for task_id in (second, first):
        shared.act("task.cancel", id=task_id)
    ended = task_of(shared, second)

    assert states(ended) == ["CANCELED"]
    assert (ended["startedAt"], ended["endedAt"]) == (None, ended["updatedAt"])
    assert task_of(shared, first)["startedAt"] == task_of(shared, first)["createdAt"]


def test_one_that_a_policy_refuses_never_started(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin={"scripted": PLUGIN, "denying": DENYING})
    try:
        task_id = daemon.send(daemon.create_inbound(preset="scripted"), "say it")["id"]
        task = task_of(daemon, task_id)
    finally:
        daemon.kill()

    assert [(step["state"], step["message"]) for step in task["timeline"]] == [("TASK_STATE_REJECTED", "not today")]
    assert task["startedAt"] is None


def test_of_many_frames_it_has_the_newest(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin=NOTING, config="[a2a]\nreplay_frames = 5\n")
    try:
        inbound = daemon.create_inbound(preset="noting")
        task_id = start_task(daemon, inbound, f"20 {tmp_path / 'gate'}")
        until(lambda: [step["message"] for step in task_of(daemon, task_id)["timeline"]][-1:] == ["note 19"], "noted")
        running = task_of(daemon, task_id)
        (tmp_path / "gate").touch()
        await_state(daemon, task_id, "COMPLETED")
        ended = until(
            lambda: not daemon.read("/metrics")["tasksInMemory"] and task_of(daemon, task_id), "it is at rest"
        )
    finally:
        daemon.kill()

    assert [step["message"] for step in running["timeline"]] == [f"note {number}" for number in range(15, 20)]
    assert [step["state"] for step in ended["timeline"]][-1] == "TASK_STATE_COMPLETED"
    assert [step["message"] for step in ended["timeline"][:-1]] == [f"note {number}" for number in range(15, 20)]
    assert (running["startedAt"], ended["startedAt"]) == (None, None)
