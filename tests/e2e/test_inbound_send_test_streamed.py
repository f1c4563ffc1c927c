"""`inbound.sendTest` as a stream: the call on the wire, its frames, and the action's answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import PLUGIN, Background, SseEvents, await_state, get_task, text_of, until

REPLYING = """
from a2ad import Executor, Reply, hookimpl

class Replying(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply(parts=[{"text": "there you are"}])

@hookimpl
def a2ad_register_executors(register, config):
    register("replying", Replying())

@hookimpl
def a2ad_register_presets(register, config):
    register("replying", {"skills": [{"id": "chat", "executor": "replying"}]})
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("sendtest"), plugin={"scripted": PLUGIN, "replying": REPLYING})
    yield daemon
    daemon.kill()
    assert "Traceback" not in daemon.log()


@pytest.fixture
def scripted(shared: DaemonProcess) -> str:
    return shared.create_inbound(preset="scripted")


def streamed(daemon: DaemonProcess, **fields: Any) -> SseEvents:
    body = json.dumps({"action": "inbound.sendTest", **fields}).encode()
    return SseEvents(daemon.control, "POST", "/a2a/api", body, Content_Type="application/json")


def test_the_request_comes_first_then_the_frames_and_the_result_last(shared: DaemonProcess, scripted: str) -> None:
    with streamed(shared, id=scripted, text="say it", skill="other", contextId="wire") as events:
        request, *frames, result = events

    assert request.name == "request"
    assert request.data["method"] == "SendStreamingMessage"
    sent = request.data["params"]["message"]
    assert (sent["contextId"], sent["metadata"], sent["parts"]) == ("wire", {"skill": "other"}, [{"text": "say it"}])
    assert {(frame.name, frame.data["jsonrpc"], frame.data["id"]) for frame in frames} == {("frame", "2.0", 1)}
    assert [int(frame.id) for frame in frames] == list(range(1, len(frames) + 1))
    assert [next(iter(frame.data["result"])) for frame in frames][:2] == ["task", "artifactUpdate"]
    assert (result.name, result.data["ok"]) == ("result", True)
    assert text_of(result.data["task"]) == "other begun, ended it"
    assert frames[-1].data["result"] == {"task": result.data["task"]}
    assert get_task(shared, scripted, result.data["task"]["id"]) == result.data["task"]


def test_the_request_is_what_a_client_sends_for_the_same_effect(shared: DaemonProcess, scripted: str) -> None:
    with streamed(shared, id=scripted, text="say it", returnImmediately=True) as events:
        request, *frames, _ = events

    call = request.data
    again = [envelope for _, envelope in shared.stream(scripted, call["method"], call["params"])]

    assert call["params"]["configuration"] == {"returnImmediately": True}
    assert [list(envelope["result"]) for envelope in again] == [list(frame.data["result"]) for frame in frames]
    assert again[0]["result"]["task"]["id"] != frames[0].data["result"]["task"]["id"]


def test_frames_come_as_they_happen(shared: DaemonProcess, scripted: str, tmp_path: Path) -> None:
    with streamed(shared, id=scripted, text=f"wait {tmp_path / 'gate'}") as events:
        names = [events.next().name for _ in range(3)]
        (tmp_path / "gate").touch()
        result = list(events)[-1]

    assert names == ["request", "frame", "frame"]
    assert result.data["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_client_that_leaves_cancels_nothing(shared: DaemonProcess, scripted: str, tmp_path: Path) -> None:
    with streamed(shared, id=scripted, text=f"wait {tmp_path / 'gate'}") as events:
        events.next()
        task_id = events.next().data["result"]["task"]["id"]

    (tmp_path / "gate").touch()

    await_state(shared, task_id, "COMPLETED")


def test_it_ends_at_a_question_and_another_test_answers_it(shared: DaemonProcess, scripted: str) -> None:
    with streamed(shared, id=scripted, text="ask") as events:
        asked = list(events)[-1].data["task"]
    with streamed(shared, id=scripted, text="the red one", taskId=asked["id"]) as events:
        answered = list(events)[-1].data["task"]

    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert answered["id"] == asked["id"]
    assert text_of(answered) == "chat begun, ended the red one"


def test_a_direct_answer_is_one_message_frame_and_no_task(shared: DaemonProcess) -> None:
    with streamed(shared, id=shared.create_inbound(preset="replying"), text="x") as events:
        _, frame, result = events

    assert frame.data["result"]["message"]["parts"] == [{"text": "there you are"}]
    assert result.data["task"] is None
    assert result.data["reply"] == frame.data["result"]["message"]


@pytest.mark.parametrize("fields", [{"skill": "nonesuch"}, {"taskId": "nonesuch"}, {"text": ""}])
def test_what_is_refused_before_it_begins_is_409_with_the_field(
    shared: DaemonProcess, scripted: str, fields: dict[str, Any]
) -> None:
    body = {"action": "inbound.sendTest", "id": scripted, "text": "x", **fields}
    status, answer = shared.request("POST", f"{shared.control}/a2a/api", body, headers={"Accept": "text/event-stream"})

    assert (status, answer["ok"]) == (409, False)
    assert set(answer["errors"]) == set(fields)


def test_one_that_the_daemons_end_cuts_off_says_so(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin=PLUGIN, config="[limits]\nshutdown_seconds = 1\n")
    try:
        inbound = daemon.create_inbound(preset="scripted")
        with streamed(daemon, id=inbound, text=f"wait {tmp_path / 'gate'}") as events:
            events.next()
            ending = Background(daemon.terminate)
            *_, result = events
        ended = ending.result()
    finally:
        daemon.kill()

    assert ended == 0
    assert result.name == "result"
    assert result.data["ok"] is False or result.data["task"]["status"]["state"] == "TASK_STATE_FAILED"


def test_the_audit_trail_has_it_once(shared: DaemonProcess, scripted: str) -> None:
    with streamed(shared, id=scripted, text="say a-word-of-its-own") as events:
        list(events)

    lines = until(lambda: [line for line in shared.log().splitlines() if scripted in line and "sendTest" in line], "it")
    assert len(lines) == 1
    assert "a-word-of-its-own" not in lines[0]
