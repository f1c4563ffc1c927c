"""What has ended leaves memory by itself, at once: not when the cyclic collector comes by."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message

ENDS = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED"}
PLUGIN = """
import gc
from a2ad import Artifact, Executor, InputRequired, Status, TaskFailed, TaskState, hookimpl

gc.disable()
OF_TASKS = {"LiveTask", "Run", "TaskRequest", "Asking", "Lending", "Ticket", "Artifacts", "FrameLog"}


class Kinds(Executor):
    async def execute(self, request):
        if request.text == "count":
            # what is alive now, this task aside; what only the collector would free is still there
            alive = [each for each in gc.get_objects() if type(each).__name__ in OF_TASKS]
            own = [each for each in alive if getattr(each, "id", "") == request.task_id]
            yield Artifact([{"data": {"others": len([e for e in alive if type(e).__name__ == "LiveTask"]) - len(own),
                                      "requests": sum(type(e).__name__ == "TaskRequest" for e in alive) - 1}}])
        elif request.text == "ask":
            try:
                yield Artifact([{"text": str(await request.ask("well?", deadline=0.01))}])
            except TimeoutError:
                yield Artifact([{"text": "nobody"}])
        elif request.text == "fail":
            raise TaskFailed("no")
        elif request.text == "status":
            yield Status(TaskState.WORKING, "soon")
            yield Status(TaskState.COMPLETED, "done")
        else:
            yield Artifact([{"text": request.text}])


class Blocking(Executor):
    def execute(self, request):
        yield Artifact([{"text": request.text}])


@hookimpl
def a2ad_register_executors(register):
    register("kinds", Kinds())
    register("blocking", Blocking())


@hookimpl
def a2ad_register_presets(register):
    skills = [{"id": "kinds", "executor": "kinds"}, {"id": "blocking", "executor": "blocking"},
              {"id": "chat", "executor": "session"}]
    register("kinds", {"name": "Kinds", "skills": skills})
"""


@pytest.fixture
def daemon(launch: Callable[..., DaemonProcess]) -> DaemonProcess:
    return launch(plugin=PLUGIN)


def _send(daemon: DaemonProcess, inbound: str, text: str, skill: str) -> dict[str, Any]:
    params = {"message": message(text, metadata={"skill": skill})}
    task: dict[str, Any] = daemon.rpc(inbound, "SendMessage", params)["result"]["task"]
    return task


def _ended(daemon: DaemonProcess, inbound: str, task_id: str) -> None:
    end = time.monotonic() + 30
    while daemon.rpc(inbound, "GetTask", {"id": task_id})["result"]["status"]["state"] not in ENDS:
        assert time.monotonic() < end


@pytest.mark.parametrize(
    ("text", "skill"),
    [("hello", "kinds"), ("ask", "kinds"), ("fail", "kinds"), ("status", "kinds"), ("hi", "blocking"), ("hi", "chat")],
)
def test_a_task_that_has_ended_leaves_nothing_for_the_collector(daemon: DaemonProcess, text: str, skill: str) -> None:
    inbound = daemon.create_inbound(preset="kinds")
    for _ in range(20):
        _ended(daemon, inbound, _send(daemon, inbound, text, skill)["id"])

    counted = _send(daemon, inbound, "count", "kinds")["artifacts"][0]["parts"][0]["data"]

    assert counted["others"] <= 1  # the newest may be on its way out
    assert counted["requests"] <= 1
