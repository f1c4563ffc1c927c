"""`inbound.sendTest`: a real task, by the same path as a remote message."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import PLUGIN, Background, await_state, get_task, state_of, text_of, until


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("sendtest"), plugin=PLUGIN)
    yield daemon
    daemon.kill()
    assert "Traceback" not in daemon.log()


@pytest.fixture
def scripted(shared: DaemonProcess) -> str:
    return shared.create_inbound(preset="scripted")


def test_it_answers_with_the_task_as_clients_see_it(shared: DaemonProcess, scripted: str) -> None:
    answer = shared.act("inbound.sendTest", id=scripted, text="say it")

    assert answer["ok"] is True
    assert answer["message"]
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(answer["task"]) == "chat begun, ended it"
    assert get_task(shared, scripted, answer["task"]["id"]) == answer["task"]


def test_it_waits_for_the_end(shared: DaemonProcess, scripted: str, tmp_path: Path) -> None:
    call = Background(shared.act, "inbound.sendTest", id=scripted, text=f"wait {tmp_path / 'gate'}")
    (task,) = until(lambda: shared.read(f"?taskServerId={scripted}")["tasks"], "the task is there")
    assert (task["state"], call.done) == ("TASK_STATE_WORKING", False)

    (tmp_path / "gate").touch()

    assert call.result()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert call.result()["task"]["id"] == task["id"]


def test_it_does_not_wait_where_it_is_told_so(shared: DaemonProcess, scripted: str, tmp_path: Path) -> None:
    answer = shared.act("inbound.sendTest", id=scripted, text=f"wait {tmp_path / 'gate'}", returnImmediately=True)

    task_id = answer["task"]["id"]
    assert answer["task"]["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
    assert state_of(shared, task_id) in {"SUBMITTED", "WORKING"}
    (tmp_path / "gate").touch()
    await_state(shared, task_id, "COMPLETED")


def test_it_waits_no_longer_than_to_a_question_and_task_id_answers_it(shared: DaemonProcess, scripted: str) -> None:
    asked = shared.act("inbound.sendTest", id=scripted, text="ask")["task"]

    answered = shared.act("inbound.sendTest", id=scripted, text="the red one", taskId=asked["id"])["task"]

    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (answered["id"], answered["contextId"]) == (asked["id"], asked["contextId"])
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(answered) == "chat begun, ended the red one"


def test_it_keeps_the_context_that_it_is_given(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(preset="memory")

    answers = [shared.act("inbound.sendTest", id=inbound, text="hello", contextId="test-talk")["task"]
               for _ in range(2)]  # fmt: skip

    assert [task["contextId"] for task in answers] == ["test-talk", "test-talk"]
    assert [text_of(task).split(" of ")[0] for task in answers] == ["turn 1", "turn 2"]


def test_without_a_context_each_has_its_own(shared: DaemonProcess, scripted: str) -> None:
    contexts = {shared.act("inbound.sendTest", id=scripted, text="x")["task"]["contextId"] for _ in range(3)}

    assert len(contexts) == 3


def test_it_takes_the_skill_that_it_is_given(shared: DaemonProcess, scripted: str) -> None:
    answer = shared.act("inbound.sendTest", id=scripted, text="say x", skill="other")

    assert text_of(answer["task"]) == "other begun, ended x"
    assert shared.read(f"/task?id={answer['task']['id']}")["skill"] == "other"


def test_a_skill_that_is_not_declared_is_409_names_the_declared_ones_and_records_nothing(
    shared: DaemonProcess, scripted: str
) -> None:
    answer = shared.act("inbound.sendTest", status=409, id=scripted, text="x", skill="nonesuch")

    assert set(answer["errors"]) == {"skill"}
    assert "chat" in answer["message"]
    assert "other" in answer["message"]
    assert shared.read(f"?taskServerId={scripted}")["taskTotal"] == 0


def test_a_task_that_has_ended_takes_no_more_messages(shared: DaemonProcess, scripted: str) -> None:
    ended = shared.act("inbound.sendTest", id=scripted, text="x")["task"]

    answer = shared.act("inbound.sendTest", status=409, id=scripted, text="more", taskId=ended["id"])

    assert answer["ok"] is False
    assert get_task(shared, scripted, ended["id"]) == ended


def test_a_task_of_another_inbound_is_not_there(shared: DaemonProcess, scripted: str) -> None:
    foreign = shared.act("inbound.sendTest", id=shared.create_inbound(preset="scripted"), text="raise")["task"]

    shared.act("inbound.sendTest", status=409, id=scripted, text="more", taskId=foreign["id"])

    assert state_of(shared, foreign["id"]) == "INPUT_REQUIRED"


def test_the_context_must_be_the_tasks(shared: DaemonProcess, scripted: str) -> None:
    asked = shared.act("inbound.sendTest", id=scripted, text="raise", contextId="right")["task"]

    answer = shared.act("inbound.sendTest", status=409, id=scripted, text="m", taskId=asked["id"], contextId="wrong")

    assert set(answer["errors"]) == {"contextId"}
    assert state_of(shared, asked["id"]) == "INPUT_REQUIRED"


def test_its_caller_is_the_operator(tmp_path: Path) -> None:
    plugin = """
from a2ad import Artifact, Executor, hookimpl

class WhoAsks(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": request.caller}])

@hookimpl
def a2ad_register_executors(register, config):
    register("who", WhoAsks())

@hookimpl
def a2ad_register_presets(register, config):
    register("who", {"skills": [{"id": "chat", "executor": "who"}]})
"""
    daemon = DaemonProcess(tmp_path, plugin=plugin)
    try:
        inbound = daemon.create_inbound(preset="who")
        tested = text_of(daemon.act("inbound.sendTest", id=inbound, text="x")["task"])
        sent = text_of(daemon.send(inbound, "x"))
    finally:
        daemon.kill()

    assert tested == "operator"
    assert sent != "operator"
