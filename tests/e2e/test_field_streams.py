"""Streams whose reader goes, stalls or is silent: the task is its own, and nothing of it is lost (protocol.md 3, 4)."""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.control_support import raw
from tests.hostile import FAULTS
from tests.lab import WITHIN, Lab, connect, head, result, script, text_of, until

SEND, SUBSCRIBE = "SendStreamingMessage", "SubscribeToTask"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("streams"), config="[a2a]\nkeepalive_seconds = 0.4\n")
    yield started
    started.kill()


def _open(lab: Lab, method: str, params: Any, *, room: int | None = None) -> socket.socket:
    """A stream that has been asked for, and of which nothing has been read; `room` is that of its receive buffer."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    sock = connect(lab.url)
    if room is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    sock.sendall(head(lab.endpoint(lab.agent), *lines) + body)
    return sock


def _read_to(sock: socket.socket, mark: bytes, times: int = 1) -> bytes:
    got, ends = b"", time.monotonic() + WITHIN
    while got.count(mark) < times:
        piece = sock.recv(65536)
        assert piece, got
        assert time.monotonic() < ends, got
        got += piece
    return got


def _reset(sock: socket.socket) -> None:
    """Gone without a word: the kernel sends RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def _dropped(lab: Lab, *steps: list[Any], context: str) -> str:
    """Start a task with a stream that is reset after its first frame; the id of the task."""
    sock = _open(lab, SEND, script(*steps, contextId=context))
    _read_to(sock, b"\ndata: ")
    _reset(sock)
    (task_id,) = [task["id"] for task in lab.listed(contextId=context)["tasks"]]
    until(lambda: lab.read("/metrics")["streams"] == 0)
    # whatever the daemon did about it, it has done before it answers this
    assert text_of(result(lab.ask_for(["text", "another"], inbound=lab.create_inbound(preset="lab")))["task"])
    assert lab.get(task_id)["status"]["state"] == "TASK_STATE_WORKING"
    assert "artifacts" not in lab.get(task_id)
    return str(task_id)


def _again(lab: Lab) -> Lab:
    """The next daemon on the same state, after a kill."""
    lab.kill()
    agent, lab = lab.agent, Lab(lab.folder)
    lab.agent = agent
    return lab


def _piece(name: str, text: str) -> list[Any]:
    return ["artifact", {"artifact_id": name, "parts": [{"text": text}]}]


THREE = _piece("a", "one"), _piece("b", "two"), _piece("c", "three")


def _texts(task: dict[str, Any]) -> list[str]:
    return [text_of(task, name) for name in "abc"]


def test_what_a_task_does_after_its_reader_was_reset_is_recorded(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    try:
        task_id = _dropped(lab, ["wait", "gone"], ["note", "on it"], *THREE, context="dropped")

        lab.open("gone")

        task = lab.reach(task_id, "COMPLETED")
        assert _texts(task) == ["one", "two", "three"]
        assert [entry["parts"][0].get("text") for entry in task["history"]] == [None, "on it"]
        assert lab.noted("canceled", task_id) == 0
        lab = _again(lab)
        assert lab.get(task_id) == task
    finally:
        lab.kill()


def test_who_comes_back_gets_all_that_happened_meanwhile_also_after_a_restart(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    try:
        steps = ["wait", "gone"], *THREE, ["wait", "seen"], ["ask", "which?"]
        task_id = _dropped(lab, *steps, context="dropped")
        lab.open("gone")
        until(lambda: len(lab.get(task_id).get("artifacts", ())) == 3)

        back = lab.stream(lab.agent, SUBSCRIBE, {"id": task_id})
        number, first = next(back)
        assert _texts(result(first)["task"]) == ["one", "two", "three"]
        lab.open("seen")
        after, asked = next(back)
        assert result(asked)["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert number is not None
        assert after == number + 1

        lab = _again(lab)
        back = lab.stream(lab.agent, SUBSCRIBE, {"id": task_id})
        first = next(back)[1]
        assert _texts(result(first)["task"]) == ["one", "two", "three"]
        assert result(first)["task"]["status"] == result(asked)["statusUpdate"]["status"]
        lab.ask_for(["text", "four"], taskId=task_id)
        last = [result(envelope) for _, envelope in back][-1]["task"]
        assert [*_texts(last), text_of(last)] == ["one", "two", "three", "four"]
    finally:
        lab.kill()


@pytest.mark.parametrize("size", [30, 300], ids=["within its buffer", "past its buffer"])
def test_a_reader_that_stops_reading_keeps_neither_the_run_nor_the_daemon(tmp_path: Path, size: int) -> None:
    lab = Lab(tmp_path, config="[limits]\nstream_buffer_bytes = 8_000_000\nshutdown_seconds = 2\n")
    try:
        stalled = _open(lab, SEND, script(["wait", "stalled"], ["large", 100_000, size]), room=4096)
        _read_to(stalled, b"\ndata: ")
        (task_id,) = [task["id"] for task in lab.listed()["tasks"]]
        lab.open("stalled")

        assert len(text_of(lab.reach(task_id, "COMPLETED"))) == size * 100_000
        until(lambda: lab.read("/metrics")["runs"] == 0)
        assert lab.noted("done", task_id) == 1
        if size == 30:  # it has room for all of it, and is not cut
            assert [peer["taskIds"] for peer in lab.read("")["peers"]] == [[task_id]]
        assert lab.terminate() == 0
        assert [fault for fault in (*FAULTS, "ResourceWarning") if fault in lab.log()] == []
        stalled.close()
    finally:
        lab.kill()


def test_what_an_executor_makes_arrives_before_it_goes_on_and_others_are_served(lab: Lab) -> None:
    gates = [f"chunk-{n}" for n in range(5)]
    steps = [step for gate in gates for step in (["text", f"<{gate}>"], ["wait", gate])]
    with _open(lab, SEND, script(*steps, contextId="chunks")) as sock:
        got = _read_to(sock, b"\ndata: ")
        for gate in gates:
            if f'"<{gate}>"'.encode() not in got.rpartition(b"artifactUpdate")[2]:
                got = _read_to(sock, f'"text":"<{gate}>"'.encode())
            assert text_of(result(lab.ask_for(["text", "meanwhile"]))["task"]) == "meanwhile"
            (task,) = lab.listed(contextId="chunks")["tasks"]
            assert task["status"]["state"] == "TASK_STATE_WORKING"
            lab.open(gate)  # the executor waits for this before the next chunk
        _read_to(sock, b"TASK_STATE_COMPLETED")


def _silent_running(lab: Lab) -> tuple[str, Any]:
    return SEND, script(["wait", "silent"], ["text", "x"])


def _silent_queued(lab: Lab) -> tuple[str, Any]:
    lab.begin(["wait", "silent"], contextId="silent")
    return SEND, script(["text", "x"], contextId="silent")


def _silent_reply(lab: Lab) -> tuple[str, Any]:
    """Whether this is to be a task or a message is not known before its first event."""
    return SEND, script(["wait", "silent"], ["text", "x"], text="task", metadata={"skill": "replying"})


def _silent_subscribed(lab: Lab) -> tuple[str, Any]:
    return SUBSCRIBE, {"id": lab.begin(["wait", "silent"], ["text", "x"])}


def _silent_question(lab: Lab) -> tuple[str, Any]:
    return SUBSCRIBE, {"id": result(lab.ask_for(["ask", "?"], ["text", "x"]))["task"]["id"]}


@pytest.mark.parametrize(
    "kind",
    [_silent_running, _silent_queued, _silent_reply, _silent_subscribed, _silent_question],
    ids=["runs", "waits for its turn", "may reply", "is subscribed to", "asks"],
)
def test_every_stream_that_is_silent_gets_comments(lab: Lab, kind: Callable[[Lab], tuple[str, Any]]) -> None:
    (lab.folder / "silent").unlink(missing_ok=True)
    method, params = kind(lab)
    with _open(lab, method, params) as sock:
        # its own, and then those of the timer
        got = _read_to(sock, b"\r\n:\n\n\r\n", 3)
        assert b"\r\nX-Accel-Buffering: no\r\n" in got
        assert b"\r\nCache-Control: no-cache\r\n" in got
        lab.open("silent")
        if kind is _silent_question:
            lab.ask_for(text="this", taskId=params["id"])
        else:
            got += _read_to(sock, b"TASK_STATE_COMPLETED")
    assert b"event:" not in got


def test_the_control_api_s_stream_is_not_held_back_by_proxies(lab: Lab) -> None:
    answer = raw(lab.control, "GET", "/a2a/api/events", read=False)

    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["Cache-Control"] in {"no-cache", "no-store"}
    assert answer.headers["X-Accel-Buffering"] == "no"
