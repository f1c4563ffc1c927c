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

from a2ad import Artifact, Executor, Status, TaskState, hookimpl


class Noting(Executor):
    async def execute(self, request):
        word, _, gate = request.text.partition(" ")
        for number in range(int(word)):
            yield Status(TaskState.WORKING, f"note {number}")
        while gate and not Path(gate).exists():
            await asyncio.sleep(0.01)
        yield Status(TaskState.COMPLETED, "x" * 10_000)


class Delivering(Executor):
    async def execute(self, request):
        chunks, artifacts, gate = request.text.split(" ")
        for number in range(int(chunks)):
            name = "The result" if number == 0 else None
            yield Artifact([{"text": "."}], artifact_id="result", name=name, append=number > 0)
        while not Path(gate).exists():
            await asyncio.sleep(0.01)
        for number in range(int(artifacts)):
            yield Artifact([{"text": "."}], artifact_id=f"more-{number}")


@hookimpl
def a2ad_register_executors(register, config):
    register("noting", Noting())
    register("delivering", Delivering())


@hookimpl
def a2ad_register_presets(register, config):
    register("noting", {"skills": [{"id": "chat", "executor": "noting"}]})
    register("delivering", {"skills": [{"id": "chat", "executor": "delivering"}]})
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


def statuses(task: Any) -> list[Any]:
    return [step for step in task["timeline"] if step["kind"] == "status"]


def deliveries(task: Any) -> list[Any]:
    return [step for step in task["timeline"] if step["kind"] == "artifact"]


def states(task: Any) -> list[str]:
    return [step["state"].removeprefix("TASK_STATE_") for step in statuses(task)]


def course(task: Any) -> list[str]:
    """Its timeline in words."""
    return [step.get("state", "").removeprefix("TASK_STATE_") or step["kind"] for step in task["timeline"]]


def task_of(daemon: DaemonProcess, task_id: str) -> Any:
    return daemon.read(f"/task?id={task_id}")


def in_order(task: Any) -> None:
    frames, times = [step["frame"] for step in statuses(task)], [step["at"] for step in task["timeline"]]
    assert (frames, times) == (sorted(set(frames)), sorted(times))
    assert task["timeline"][0] == {"kind": "created", "at": task["createdAt"]}


def test_it_has_what_happened_oldest_first_and_the_texts(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(preset="scripted")
    task_id = start_task(shared, inbound, "ask")
    await_state(shared, task_id, "INPUT_REQUIRED")
    waiting = task_of(shared, task_id)
    shared.act("task.answer", id=task_id, text="the red one")
    await_state(shared, task_id, "COMPLETED")
    ended = task_of(shared, task_id)

    assert states(waiting) == ["INPUT_REQUIRED"]
    assert statuses(waiting)[0]["message"] == "which one?"
    assert course(waiting) == ["created", "artifact", "INPUT_REQUIRED"]
    assert (waiting["startedAt"], waiting["endedAt"]) == (waiting["createdAt"], None)
    assert states(ended) == ["INPUT_REQUIRED", "WORKING", "COMPLETED"]
    assert statuses(ended)[0] == statuses(waiting)[0]
    (delivered,) = deliveries(ended)
    assert (delivered["artifactId"], delivered["pieces"]) == ("result", 2)
    assert (delivered["at"], delivered["until"] > delivered["at"]) == (deliveries(waiting)[0]["at"], True)
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

    timeline = statuses(task_of(shared, row["id"]))

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
    assert [len(deliveries(task)) for task in after] == [1, 0]
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

    assert (course(queued), queued["startedAt"], queued["endedAt"]) == (["created"], None, None)
    assert course(ended) == ["created", "WORKING", "artifact", "COMPLETED"]
    assert ended["startedAt"] == ended["timeline"][1]["at"] > ended["createdAt"]


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

    assert [(step["state"], step["message"]) for step in statuses(task)] == [("TASK_STATE_REJECTED", "not today")]
    assert task["startedAt"] is None


def test_of_many_frames_it_has_the_newest(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin=NOTING, config="[a2a]\nreplay_frames = 5\n")
    try:
        inbound = daemon.create_inbound(preset="noting")
        task_id = start_task(daemon, inbound, f"20 {tmp_path / 'gate'}")
        until(lambda: [step["message"] for step in statuses(task_of(daemon, task_id))][-1:] == ["note 19"], "noted")
        running = task_of(daemon, task_id)
        (tmp_path / "gate").touch()
        await_state(daemon, task_id, "COMPLETED")
        ended = until(
            lambda: not daemon.read("/metrics")["tasksInMemory"] and task_of(daemon, task_id), "it is at rest"
        )
    finally:
        daemon.kill()

    assert [step["message"] for step in statuses(running)] == [f"note {number}" for number in range(15, 20)]
    assert [step["state"] for step in statuses(ended)][-1] == "TASK_STATE_COMPLETED"
    assert [step["message"] for step in statuses(ended)[:-1]] == [f"note {number}" for number in range(15, 20)]
    assert (running["startedAt"], ended["startedAt"]) == (None, None)


def test_ten_thousand_chunks_are_one_entry_while_it_runs_and_when_it_has_ended(
    shared: DaemonProcess, tmp_path: Path
) -> None:
    inbound = shared.create_inbound(preset="delivering")
    task_id = start_task(shared, inbound, f"10000 0 {tmp_path / 'gate'}")
    until(lambda: "." * 10_000 in str(task_of(shared, task_id)["artifacts"]), "it is delivered")
    written = until(lambda: (task := task_of(shared, task_id)) and deliveries(task) and task, "it is written")
    (tmp_path / "gate").touch()
    await_state(shared, task_id, "COMPLETED")
    ended = task_of(shared, task_id)

    assert written["state"] == "TASK_STATE_WORKING"
    assert course(written) == ["created", "artifact"]
    assert course(ended) == ["created", "artifact", "COMPLETED"]
    (delivered,) = deliveries(ended)
    assert (delivered["artifactId"], delivered["name"]) == ("result", "The result")
    assert 1 <= delivered["pieces"] <= 10_000
    assert delivered["at"] == deliveries(written)[0]["at"] <= delivered["until"]
    in_order(ended)


def test_of_many_artifacts_it_has_the_newest(shared: DaemonProcess, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    task = shared.send(shared.create_inbound(preset="delivering"), f"1 1000 {tmp_path / 'gate'}")

    timeline = task_of(shared, task["id"])

    assert len(task["artifacts"]) == 1001
    assert [step["artifactId"] for step in deliveries(timeline)] == [f"more-{number}" for number in range(800, 1000)]
    assert "name" not in deliveries(timeline)[0]
    in_order(timeline)
