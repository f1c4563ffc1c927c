"""`task.*`, `session.*` and `inbound.close`, with their effects seen from outside."""

from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import (
    PLUGIN,
    Background,
    await_state,
    get_task,
    raw,
    start_task,
    state_of,
    text_of,
    until,
)

CONNECTION_ENDED = (ConnectionError, HTTPException, URLError)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("tasks"), plugin=PLUGIN)
    yield daemon
    daemon.kill()
    assert "Traceback" not in daemon.log()


@pytest.fixture
def scripted(shared: DaemonProcess) -> str:
    return shared.create_inbound(preset="scripted")


@pytest.fixture
def memory(shared: DaemonProcess) -> str:
    return shared.create_inbound(preset="memory")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A task with the message `wait <gate>` goes on when this file is there."""
    return tmp_path / "gate"


def peers_of(daemon: DaemonProcess, task_id: str) -> list[Any]:
    return [peer for peer in daemon.read("")["peers"] if task_id in peer["taskIds"]]


# task.cancel


def test_the_operator_cancels_a_running_task_and_its_stream_ends_with_it(
    shared: DaemonProcess, scripted: str, gate: Path
) -> None:
    frames = shared.stream(scripted, "SendStreamingMessage", {"message": message(f"wait {gate}")})
    task_id = next(frames)[1]["result"]["task"]["id"]

    answer = shared.act("task.cancel", id=task_id)

    assert answer["ok"] is True
    assert list(frames)[-1][1]["result"]["task"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert get_task(shared, scripted, task_id)["status"]["state"] == "TASK_STATE_CANCELED"


def test_the_operator_cancels_a_task_that_someone_waits_for(shared: DaemonProcess, scripted: str, gate: Path) -> None:
    call = Background(shared.send, scripted, f"wait {gate}")
    peers = until(lambda: [p for p in shared.read(f"?taskServerId={scripted}")["peers"] if p["taskIds"]], "it waits")

    shared.act("task.cancel", id=peers[0]["taskIds"][0])

    assert call.result()["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize("text", ["ask", "raise"])
def test_the_operator_cancels_a_task_that_waits_for_input(shared: DaemonProcess, scripted: str, text: str) -> None:
    task = shared.send(scripted, text)

    shared.act("task.cancel", id=task["id"])

    assert state_of(shared, task["id"]) == "CANCELED"
    shared.act("task.cancel", status=409, id=task["id"])


def test_the_operator_cancels_a_task_that_has_not_begun(shared: DaemonProcess, scripted: str, gate: Path) -> None:
    first = start_task(shared, scripted, f"wait {gate}", contextId="queue")
    second = start_task(shared, scripted, "hello", contextId="queue")

    shared.act("task.cancel", id=second)

    assert state_of(shared, second) == "CANCELED"
    gate.touch()
    assert text_of(await_state(shared, first, "COMPLETED")) == "chat begun, ended"
    assert get_task(shared, scripted, second).get("artifacts", []) == []


# session.cancel


def test_session_cancel_ends_what_is_active_in_the_context_and_nothing_else(
    shared: DaemonProcess, scripted: str, gate: Path
) -> None:
    running = start_task(shared, scripted, f"wait {gate}", contextId="mine")
    queued = start_task(shared, scripted, "hello", contextId="mine")
    other = start_task(shared, scripted, f"wait {gate}", contextId="other")

    answer = shared.act("session.cancel", id="mine")

    assert answer["ok"] is True
    assert [state_of(shared, task) for task in (running, queued, other)] == ["CANCELED", "CANCELED", "WORKING"]
    gate.touch()
    await_state(shared, other, "COMPLETED")


def test_session_cancel_is_limited_to_the_inbound_that_is_named(
    shared: DaemonProcess, scripted: str, gate: Path
) -> None:
    another = shared.create_inbound(preset="scripted")
    mine, theirs = (start_task(shared, inbound, f"wait {gate}", contextId="same") for inbound in (scripted, another))

    shared.act("session.cancel", id="same", serverId=scripted)

    assert (state_of(shared, mine), state_of(shared, theirs)) == ("CANCELED", "WORKING")
    shared.act("session.cancel", id="same")
    assert state_of(shared, theirs) == "CANCELED"


@pytest.mark.parametrize("action", ["session.cancel", "session.close"])
def test_where_nothing_is_active_it_is_done_and_says_so(shared: DaemonProcess, memory: str, action: str) -> None:
    ended = shared.send(memory, "hello", contextId="quiet")

    unknown = shared.act(action, id="nothing-of-the-kind")
    known = shared.act(action, id="quiet", serverId=memory)

    assert unknown["ok"] is known["ok"] is True
    assert unknown["message"]
    if action == "session.cancel":
        assert "nothing" in unknown["message"]
        assert "nothing" in known["message"]
    assert state_of(shared, ended["id"]) == "COMPLETED"


def test_session_cancel_keeps_the_session(shared: DaemonProcess, memory: str, gate: Path) -> None:
    first = shared.send(memory, "hello", contextId="kept")
    running = start_task(shared, memory, f"wait {gate}", contextId="kept")
    until(lambda: shared.read(f"/session?contextId=kept&serverId={memory}").get("taskId") == running, "it is busy")

    shared.act("session.cancel", id="kept", serverId=memory)
    after = shared.send(memory, "hello", contextId="kept")

    assert state_of(shared, running) == "CANCELED"
    handle = text_of(first).removeprefix("turn 1 of ")
    assert text_of(after) == f"turn 2 of {handle}"


# session.close


def test_session_close_releases_the_handle_and_the_conversation_goes_on(shared: DaemonProcess, memory: str) -> None:
    first = shared.send(memory, "hello", contextId="talk")
    second = shared.send(memory, "hello", contextId="talk")

    shared.act("session.close", id="talk", serverId=memory)

    assert [s for s in shared.read("")["sessions"] if s["contextId"] == "talk"] == []
    assert raw(shared.url, "GET", f"/a2a/api/session?contextId=talk&serverId={memory}").status == 404
    third = shared.send(memory, "hello", contextId="talk")
    handles = [text_of(task).rpartition(" ")[2] for task in (first, second, third)]
    assert [text_of(task).split(" of ")[0] for task in (first, second, third)] == ["turn 1", "turn 2", "turn 3"]
    assert handles[0] == handles[1] != handles[2]


def test_session_close_cancels_what_is_active(shared: DaemonProcess, memory: str, gate: Path) -> None:
    running = start_task(shared, memory, f"wait {gate}", contextId="active")
    until(lambda: [s for s in shared.read("")["sessions"] if s.get("taskId") == running], "the session is busy")

    shared.act("session.close", id="active")

    assert state_of(shared, running) == "CANCELED"
    assert [s for s in shared.read("")["sessions"] if s["contextId"] == "active"] == []


def test_session_close_cancels_a_turn_that_waits_for_an_answer(shared: DaemonProcess, memory: str) -> None:
    waiting = shared.send(memory, "ask", contextId="asking")
    assert waiting["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"

    shared.act("session.close", id="asking")

    assert state_of(shared, waiting["id"]) == "CANCELED"
    assert text_of(shared.send(memory, "hello", contextId="asking")).startswith("turn 1 of ")


def test_session_close_is_limited_to_the_inbound_that_is_named(shared: DaemonProcess, memory: str) -> None:
    another = shared.create_inbound(preset="memory")
    for inbound in (memory, another):
        shared.send(inbound, "hello", contextId="pair")

    shared.act("session.close", id="pair", serverId=memory)

    assert [s["serverId"] for s in shared.read("")["sessions"] if s["contextId"] == "pair"] == [another]


# inbound.close


def test_closing_a_streaming_peer_ends_its_connection_and_the_task_goes_on(
    shared: DaemonProcess, scripted: str, gate: Path
) -> None:
    frames = shared.stream(scripted, "SendStreamingMessage", {"message": message(f"wait {gate}")})
    task_id = next(frames)[1]["result"]["task"]["id"]
    other = shared.stream(scripted, "SubscribeToTask", {"id": task_id})
    next(other)
    (peer,) = [p for p in peers_of(shared, task_id) if p["method"] == "SendStreamingMessage"]

    shared.act("inbound.close", id=peer["id"])

    error = Background(list, frames).error()
    assert error is None or isinstance(error, CONNECTION_ENDED)
    assert [p["method"] for p in peers_of(shared, task_id)] == ["SubscribeToTask"]
    assert state_of(shared, task_id) == "WORKING"
    gate.touch()
    assert list(other)[-1][1]["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(get_task(shared, scripted, task_id)) == "chat begun, ended"


def test_closing_a_blocking_peer_ends_its_connection_and_the_task_goes_on(
    shared: DaemonProcess, scripted: str, gate: Path
) -> None:
    call = Background(shared.send, scripted, f"wait {gate}")
    (peer,) = until(lambda: [p for p in shared.read("")["peers"] if p["serverId"] == scripted and p["taskIds"]], "it")
    task_id = peer["taskIds"][0]

    answer = shared.act("inbound.close", id=peer["id"])

    assert answer["ok"] is True
    assert isinstance(call.error(), CONNECTION_ENDED)
    until(lambda: not peers_of(shared, task_id), "the peer is gone")
    assert state_of(shared, task_id) == "WORKING"
    gate.touch()
    await_state(shared, task_id, "COMPLETED")


def test_a_peer_is_closed_once(shared: DaemonProcess, scripted: str, gate: Path) -> None:
    frames = shared.stream(scripted, "SendStreamingMessage", {"message": message(f"wait {gate}")})
    task_id = next(frames)[1]["result"]["task"]["id"]
    (peer,) = peers_of(shared, task_id)
    shared.act("inbound.close", id=peer["id"])
    until(lambda: not peers_of(shared, task_id), "the peer is gone")

    until(lambda: shared.request("POST", f"{shared.url}/a2a/api", {"action": "inbound.close", "id": peer["id"]})[0]
          == 409, "it is unknown")  # fmt: skip

    gate.touch()
    await_state(shared, task_id, "COMPLETED")
    frames.close()  # type: ignore[attr-defined]
