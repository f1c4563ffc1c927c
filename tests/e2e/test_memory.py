"""What has ended leaves memory by itself, at once: not when the cyclic collector comes by."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message

ENDS = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_REJECTED"}
PLUGIN = """
import gc
import asyncio
from a2ad import (Artifact, Executor, InputRequired, Reply, Status, TaskFailed, TaskRejected, TaskState, hookimpl)

gc.disable()
OF_TASKS = {"a2ad.engine.task.LiveTask": "tasks", "a2ad.executor.TaskRequest": "requests",
            "a2ad.engine.frames.Reader": "streams", "a2ad.web.sse.Stream": "streams"}


class Kinds(Executor):
    async def execute(self, request):
        if request.text == "count":
            # what is alive now, this task aside; what only the collector would free is still there
            counted = {"tasks": -1, "requests": -1, "streams": 0}
            for each in gc.get_objects():
                name = OF_TASKS.get(f"{type(each).__module__}.{type(each).__name__}")
                if name is not None:
                    counted[name] += 1
            yield Artifact([{"data": counted}])
        elif request.text == "ask":
            try:
                yield Artifact([{"text": str(await request.ask("well?", deadline=0.01))}])
            except TimeoutError:
                yield Artifact([{"text": "nobody"}])
        elif request.text == "question" and not request.resumed:
            yield Artifact([{"text": str(await request.ask("well?"))}])
        elif request.text == "interrupt" and not request.resumed:
            raise InputRequired("well?")
        elif request.text == "sleep":
            await asyncio.sleep(1000)
        elif request.text == "fail":
            raise TaskFailed("no")
        elif request.text == "reject":
            raise TaskRejected("no")
        elif request.text == "break":
            raise ValueError("what nobody expects")
        elif request.text == "status":
            yield Status(TaskState.WORKING, "soon")
            yield Status(TaskState.COMPLETED, "done")
        else:
            yield Artifact([{"text": request.text}])


class Replying(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply([{"text": request.text}])


class Blocking(Executor):
    def execute(self, request):
        yield Artifact([{"text": request.text}])


@hookimpl
def a2ad_register_executors(register):
    register("kinds", Kinds())
    register("blocking", Blocking())
    register("replying", Replying())


@hookimpl
def a2ad_register_presets(register):
    skills = [{"id": name, "executor": name} for name in ("kinds", "blocking", "replying")]
    register("kinds", {"name": "Kinds", "skills": [*skills, {"id": "chat", "executor": "session"}]})
"""
GATE = """
from a2ad import Deny, hookimpl


@hookimpl
async def a2ad_inbound_task(decision):
    return Deny("no") if decision.text == "denied" else None
"""
TIMES = 20


@pytest.fixture
def daemon(launch: Callable[..., DaemonProcess]) -> DaemonProcess:
    return launch(plugin=PLUGIN)


@pytest.fixture
def inbound(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(preset="kinds")


def _params(text: str, skill: str = "kinds", **more: Any) -> dict[str, Any]:
    return {"message": message(text, metadata={"skill": skill}, **more)}


def _send(daemon: DaemonProcess, inbound: str, text: str, skill: str = "kinds", **more: Any) -> dict[str, Any]:
    task: dict[str, Any] = daemon.rpc(inbound, "SendMessage", _params(text, skill, **more))["result"]["task"]
    return task


def _begin(daemon: DaemonProcess, inbound: str, text: str) -> str:
    params = _params(text) | {"configuration": {"returnImmediately": True}}
    return str(daemon.rpc(inbound, "SendMessage", params)["result"]["task"]["id"])


def _ended(daemon: DaemonProcess, inbound: str, task_id: str) -> None:
    end = time.monotonic() + 30
    while daemon.rpc(inbound, "GetTask", {"id": task_id})["result"]["status"]["state"] not in ENDS:
        assert time.monotonic() < end


def _nothing_is_left(daemon: DaemonProcess, inbound: str) -> None:
    """The newest may still be on its way out."""
    counted = _send(daemon, inbound, "count")["artifacts"][0]["parts"][0]["data"]
    assert min(counted.values()) >= 0, f"the counting task has both itself: {counted}"
    assert max(counted.values()) <= 1, counted


@pytest.mark.parametrize(
    ("text", "skill"),
    [("hello", "kinds"), ("ask", "kinds"), ("fail", "kinds"), ("reject", "kinds"), ("break", "kinds"),
     ("status", "kinds"), ("hi", "blocking"), ("hi", "chat")],
)  # fmt: skip
def test_a_task_that_has_ended_leaves_nothing_for_the_collector(
    daemon: DaemonProcess, inbound: str, text: str, skill: str
) -> None:
    for _ in range(TIMES):
        _ended(daemon, inbound, _send(daemon, inbound, text, skill)["id"])
    _nothing_is_left(daemon, inbound)


@pytest.mark.parametrize("text", ["question", "interrupt"])
def test_nor_does_one_that_was_answered(daemon: DaemonProcess, inbound: str, text: str) -> None:
    for _ in range(TIMES):
        asked = _send(daemon, inbound, text)
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert _send(daemon, inbound, "red", taskId=asked["id"])["status"]["state"] == "TASK_STATE_COMPLETED"
    _nothing_is_left(daemon, inbound)


def test_nor_does_one_that_was_canceled(daemon: DaemonProcess, inbound: str) -> None:
    for text in ("sleep", "question", "interrupt"):
        for _ in range(TIMES):
            canceled = daemon.rpc(inbound, "CancelTask", {"id": _begin(daemon, inbound, text)})["result"]
            assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    _nothing_is_left(daemon, inbound)


def test_nor_does_a_direct_answer(daemon: DaemonProcess, inbound: str) -> None:
    for _ in range(TIMES):
        assert "message" in daemon.rpc(inbound, "SendMessage", _params("hi", "replying"))["result"]
        frames = list(daemon.stream(inbound, "SendStreamingMessage", _params("hi", "replying")))
        assert [kind for _, frame in frames for kind in frame["result"]] == ["message"]
    _nothing_is_left(daemon, inbound)


def test_nor_do_its_streams_and_their_readers(daemon: DaemonProcess, inbound: str) -> None:
    for _ in range(TIMES):
        frames = list(daemon.stream(inbound, "SendStreamingMessage", _params("status")))
        assert frames[-1][1]["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        asked = _send(daemon, inbound, "question")["id"]
        with closing(daemon.stream(inbound, "SubscribeToTask", {"id": asked})) as leaving:
            next(leaving)
            readers = [daemon.stream(inbound, "SubscribeToTask", {"id": asked}) for _ in range(2)]
            for reader in readers:
                next(reader)
        _send(daemon, inbound, "red", taskId=asked)
        for reader in readers:
            assert "task" in list(reader)[-1][1]["result"]
    _nothing_is_left(daemon, inbound)


@pytest.mark.parametrize("text", ["denied", "hello", "question"])
def test_nor_does_one_about_which_a_policy_decided(launch: Callable[..., DaemonProcess], text: str) -> None:
    daemon = launch(plugin={"plugin": PLUGIN, "gate": GATE})
    inbound = daemon.create_inbound(preset="kinds")
    for _ in range(TIMES):
        task = _send(daemon, inbound, text)
        if text == "question":
            task = _send(daemon, inbound, "red", taskId=task["id"])
        assert task["status"]["state"] == f"TASK_STATE_{'REJECTED' if text == 'denied' else 'COMPLETED'}"
    _nothing_is_left(daemon, inbound)


def test_nor_does_what_was_refused(daemon: DaemonProcess, inbound: str) -> None:
    for _ in range(TIMES):
        ended = _send(daemon, inbound, "hello")["id"]
        for params in (
            _params("hello", "no such skill"),
            _params("hello", taskId="no such task"),
            _params("hello", taskId=ended),
        ):
            assert "error" in daemon.rpc(inbound, "SendMessage", params)
        assert "error" in daemon.rpc(inbound, "SubscribeToTask", {"id": ended})
        assert "error" in daemon.rpc(inbound, "CancelTask", {"id": ended})
    _nothing_is_left(daemon, inbound)


def test_nor_does_one_that_was_canceled_before_its_turn(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch(plugin=PLUGIN, config="[limits]\nruns = 1\n")
    inbound = daemon.create_inbound(preset="kinds")
    running = _begin(daemon, inbound, "sleep")
    for _ in range(TIMES):
        canceled = daemon.rpc(inbound, "CancelTask", {"id": _begin(daemon, inbound, "sleep")})["result"]
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    daemon.rpc(inbound, "CancelTask", {"id": running})
    _nothing_is_left(daemon, inbound)
