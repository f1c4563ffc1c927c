"""Streams: their frames, order and numbers (protocol.md 4)."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.daemon import message
from tests.lab import Lab, answer_on, at_once, connect, error, exchange, head, result, script, text_of, until

SEND, SUBSCRIBE = "SendStreamingMessage", "SubscribeToTask"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("streams"), config="[a2a]\nkeepalive_seconds = 0.5\n")
    yield started
    started.kill()


def _kinds(frames: list[tuple[int | None, Any]]) -> list[str]:
    return [next(iter(frame)) for _, frame in frames]


def _updates(frames: list[tuple[int | None, Any]], kind: str = "artifactUpdate") -> list[Any]:
    return [frame[kind] for _, frame in frames if kind in frame]


def _body(method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def test_a_stream_is_the_task_then_what_happens_then_the_whole_task(lab: Lab) -> None:
    frames = lab.collect(SEND, script(["text", "a"], ["note", "half way"], ["text", "b"], contextId="c"))

    assert _kinds(frames) == ["task", "artifactUpdate", "statusUpdate", "artifactUpdate", "statusUpdate", "task"]
    assert [number for number, _ in frames] == [1, 2, 3, 4, 5, 6]
    first, last = frames[0][1]["task"], frames[-1][1]["task"]
    assert first["status"]["state"] == "TASK_STATE_WORKING"
    assert "artifacts" not in first
    assert first["history"][0]["parts"] == [{"data": [["text", "a"], ["note", "half way"], ["text", "b"]]}]
    assert all(update["taskId"] == first["id"] and update["contextId"] == "c"
               for kind in ("artifactUpdate", "statusUpdate") for update in _updates(frames, kind))  # fmt: skip
    note, end = (update["status"] for update in _updates(frames, "statusUpdate"))
    assert note["state"] == "TASK_STATE_WORKING"
    assert note["message"]["parts"] == [{"text": "half way"}]
    assert end == last["status"]
    assert last["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(last) == "ab"
    assert last == lab.get(first["id"])


@pytest.mark.parametrize(
    ("step", "state"),
    [
        (["raise", "TaskFailed", "why"], "FAILED"),
        (["raise", "TaskRejected", "why"], "REJECTED"),
        (["status", "TASK_STATE_COMPLETED", "why"], "COMPLETED"),
        (["status", "TASK_STATE_CANCELED", "why"], "CANCELED"),
    ],
)
def test_a_stream_ends_with_whatever_state_its_task_ends(lab: Lab, step: list[Any], state: str) -> None:
    frames = lab.collect(SEND, script(["text", "a"], step, ["text", "dropped"]))

    status = frames[-2][1]["statusUpdate"]["status"]
    assert status["state"] == f"TASK_STATE_{state}"
    assert status["message"]["parts"] == [{"text": "why"}]
    assert frames[-1][1]["task"]["status"] == status
    assert text_of(frames[-1][1]["task"]) == "a"


def test_the_session_streams_text_as_chunks_and_closes_them(lab: Lab) -> None:
    agent = lab.create_inbound()
    frames = [(n, result(e)) for n, e in lab.stream(agent, SEND, {"message": message("one two three")})]

    chunks = _updates(frames)
    assert {chunk["artifact"]["artifactId"] for chunk in chunks} == {"result"}
    assert "".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks) == "one two three"
    assert len(chunks) > 2
    assert not chunks[0].get("append", False)
    assert all(chunk["append"] for chunk in chunks[1:])
    assert [chunk["lastChunk"] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert text_of(frames[-1][1]["task"]) == "one two three"


def test_each_artifact_begins_without_append_however_they_alternate(lab: Lab) -> None:
    pieces = [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("c", 5), ("a", 6)]
    steps = [["artifact", {"artifact_id": name, "parts": [{"text": str(n)}], "append": True}] for name, n in pieces]
    frames = lab.collect(SEND, script(*steps))

    chunks = [(chunk["artifact"]["artifactId"], chunk.get("append", False)) for chunk in _updates(frames)]
    assert chunks == [("a", False), ("b", False), ("a", True), ("b", True), ("c", False), ("a", True)]
    last = frames[-1][1]["task"]
    assert [text_of(last, name) for name in "abc"] == ["136", "24", "5"]
    assert [artifact["artifactId"] for artifact in last["artifacts"]] == ["a", "b", "c"]


def test_without_append_an_artifact_is_replaced(lab: Lab) -> None:
    def piece(text: str, **more: Any) -> list[Any]:
        return ["artifact", {"parts": [{"text": text}], **more}]

    steps = [
        piece("old", name="first"),
        piece("er", append=True),
        piece("new", name="second"),
        piece("est", append=True),
    ]
    frames = lab.collect(SEND, script(*steps))

    assert [chunk.get("append", False) for chunk in _updates(frames)] == [False, True, False, True]
    last = frames[-1][1]["task"]
    assert text_of(last) == "newest"
    assert last["artifacts"][0]["name"] == "second"
    assert lab.get(last["id"]) == last


def test_what_clients_take_for_line_ends_is_escaped_on_the_wire(lab: Lab) -> None:
    odd = "a\u0085b\u2028c\u2029d\r\ne\x1c\x0bf\0"
    answer = exchange(
        lab.endpoint(lab.agent), body=_body(SEND, script(["text", odd], ["note", odd], text=odd, contextId=odd))
    )

    assert not {"\u0085", "\u2028", "\u2029"} & set(answer.body.decode())
    lines = [line for line in answer.body.decode().splitlines() if line]
    assert all(line.startswith(("id: ", "data: {", ":")) for line in lines)
    frames = [json.loads(line[6:])["result"] for line in lines if line.startswith("data: ")]
    assert text_of(frames[-1]["task"]) == odd
    assert frames[0]["task"]["contextId"] == odd


def test_the_head_of_a_stream_keeps_proxies_from_holding_it_back(lab: Lab) -> None:
    task_id = lab.begin(["wait", "heads"])
    with connect(lab.url) as first, connect(lab.url) as second:
        for sock, method, params in ((first, SEND, script(["wait", "heads"])), (second, SUBSCRIBE, {"id": task_id})):
            body = _body(method, params)
            lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
            sock.sendall(head(lab.endpoint(lab.agent), *lines) + body)
        until(lambda: sum(peer["streaming"] for peer in lab.read("")["peers"]) == 2)
        lab.open("heads")
        for answer in (answer_on(first), answer_on(second)):
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/event-stream"
            assert answer.headers["Cache-Control"] == "no-cache"
            assert answer.headers["X-Accel-Buffering"] == "no"
            assert answer.headers["A2A-Version"] == "1.0"


@pytest.mark.parametrize(
    "accept", ["application/json", "text/html, application/json", "text/event-stream;q=0", "image/*"]
)
def test_a_client_that_excludes_streams_gets_none(lab: Lab, accept: str) -> None:
    task_id = lab.begin(["wait", f"excluded {accept.replace('/', '')}"])
    for method, params in ((SEND, script(["text", "x"], contextId="excluded")), (SUBSCRIBE, {"id": task_id})):
        answer = exchange(lab.endpoint(lab.agent), body=_body(method, params), headers={"Accept": accept})
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert error(answer.json) == (-32600, "INVALID_REQUEST")
    assert lab.listed(contextId="excluded")["totalSize"] == 0


@pytest.mark.parametrize(
    "accept", [None, "", "*/*", "text/*", "application/json, text/event-stream", "Text/Event-Stream; x=y"]
)
def test_a_client_that_admits_streams_gets_one(lab: Lab, accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = exchange(lab.endpoint(lab.agent), body=_body(SEND, script(["text", "x"])), headers=headers)
    assert answer.headers["Content-Type"] == "text/event-stream"


def test_every_error_before_the_start_is_plain_json(lab: Lab) -> None:
    ended = result(lab.ask_for(["text", "x"]))["task"]["id"]
    for method, params, code in (
        (SUBSCRIBE, {"id": ended}, -32004),
        (SUBSCRIBE, {"id": "nope"}, -32001),
        (SUBSCRIBE, {}, -32602),
        (SEND, {}, -32602),
        (SEND, script(text="x", taskId=ended), -32004),
        (SEND, script(text="x", taskId="nope"), -32001),
        (SEND, script(text="x", metadata={"skill": "nope"}), -32602),
        (SEND, script(text="x", configuration={"acceptedOutputModes": ["image/png"]}), -32005),
    ):
        headers = {"Accept": "text/event-stream"}
        answer = exchange(lab.endpoint(lab.agent), body=_body(method, params), headers=headers)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert error(answer.json)[0] == code


def test_an_idle_stream_is_kept_alive_by_comments(lab: Lab) -> None:
    task_id = lab.begin(["wait", "idle"], ["text", "x"])
    body = _body(SUBSCRIBE, {"id": task_id})
    with connect(lab.url) as sock:
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        sock.sendall(head(lab.endpoint(lab.agent), *lines, version="1.0") + body)
        got = b""
        while got.count(b"\n:") < 3:
            piece = sock.recv(65536)
            assert piece, got
            got += piece
        lab.open("idle")
        while piece := sock.recv(65536):
            got += piece
    events = [block for block in got.split(b"\r\n\r\n", 1)[1].decode().split("\n\n") if block]
    assert [block for block in events if block.startswith(":")] == [":"] * sum(b.startswith(":") for b in events)
    frames = [json.loads(block.split("data: ", 1)[1])["result"] for block in events if "data: " in block]
    assert text_of(frames[-1]["task"]) == "x"


def test_a_client_of_http_1_0_gets_the_whole_stream_unchunked(lab: Lab) -> None:
    body = _body(SEND, script(*[["text", f"{n} "] for n in range(100)]))
    with connect(lab.url) as sock:
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        sock.sendall(head(lab.endpoint(lab.agent), *lines, version="1.0") + body)
        answer = answer_on(sock)

    assert answer.headers["Transfer-Encoding"] is None
    frames = [json.loads(line[6:])["result"] for line in answer.body.splitlines() if line.startswith(b"data: ")]
    assert text_of(frames[-1]["task"]) == "".join(f"{n} " for n in range(100))
    assert len(frames) == 103


def test_a_client_that_leaves_does_not_cancel_its_task(lab: Lab) -> None:
    for method in (SEND, "SendMessage"):
        gate = f"left-{method}"
        body = _body(method, script(["text", "a"], ["wait", gate], ["text", "b"], contextId=gate))
        with connect(lab.url) as sock:
            lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
            sock.sendall(head(lab.endpoint(lab.agent), *lines) + body)
            task_id = until(lambda gate=gate: [t["id"] for t in lab.listed(contextId=gate)["tasks"]])[0]
            until(lambda task_id=task_id: lab.get(task_id).get("artifacts"))
        until(lambda task_id=task_id: all(task_id not in peer["taskIds"] for peer in lab.read("")["peers"]))
        assert lab.get(task_id)["status"]["state"] == "TASK_STATE_WORKING"

        lab.open(gate)

        assert text_of(lab.reach(task_id, "COMPLETED")) == "ab"
        assert lab.noted("canceled", task_id) == 0


def test_all_readers_see_the_same_frames_in_the_same_order(lab: Lab) -> None:
    task_id = lab.begin(["wait", "many"], ["count", 500], ["note", "and"], ["count", 500], ["text", "."])

    def open_when_all_are_there() -> list[Any]:
        until(lambda: sum(task_id in peer["taskIds"] for peer in lab.read("")["peers"]) == 12)
        lab.open("many")
        return []

    seen = at_once([*[partial(lab.collect, SUBSCRIBE, {"id": task_id})] * 12, open_when_all_are_there])[:-1]

    assert all(frames == seen[0] for frames in seen)
    assert len(seen[0]) == 1 + 500 + 1 + 501 + 2
    numbers = [number for number, _ in seen[0]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
