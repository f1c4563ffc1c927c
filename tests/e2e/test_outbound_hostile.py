"""Remotes that mean harm: thieves of tokens, ways into the control API, answers without sense or end."""

import json
from collections.abc import Iterator

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import until
from tests.hostile import no_faults, peak_memory
from tests.remote import (
    Exchange,
    Remote,
    Script,
    answer,
    artifact,
    call,
    connect,
    frame,
    parts_of,
    snapshot,
    status,
    stream,
)
from tests.remote import http as http_answer

DONE = snapshot("COMPLETED", "", parts_of("done"))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("hostile")) as process:
        yield process


@pytest.fixture
def remote(daemon: DaemonProcess) -> Iterator[Remote]:
    with no_faults(daemon), Remote() as found:
        yield found


# answers without sense


def body(text: bytes | str) -> Script:
    return http_answer(200, text.encode() if isinstance(text, str) else text)


async def huge(exchange: Exchange) -> None:
    await exchange.head(200, Content_Type="text/event-stream")
    await exchange.write(frame(exchange, 1, snapshot("WORKING")))
    for start in (b"data: ", b"", b""):
        await exchange.write(start + b"x" * (3 << 20))


def endless(start: bytes, more: bytes, media_type: str = "application/json") -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.head(200, Content_Type=media_type)
        await exchange.write(start)
        while True:
            await exchange.write(more)

    return script


@pytest.mark.parametrize(
    "script",
    [
        *(body(json.dumps({"jsonrpc": "2.0", "id": other, "result": DONE})) for other in (7, "x", {}, None)),
        body(json.dumps({"jsonrpc": "2.0", "result": DONE})),
        body('{"jsonrpc": "2.0", "id": 1}'), body('{"id": 1, "result": 1, "error": {}}'), body('{"id": 1, "error": 7}'),
        body("[]"), body("null"), body(""), body("{"), body("<html>"), body(b"\xff\xfe"), body("[" * 100_000),
        body('{"id": 1, "result": NaN}'), body('{"id": 1, "result": {"task": {"id": "\\ud800"}}}'),
        body('{"id": 1, "result": %s}' % ('{"task":' * 200 + "{}" + "}" * 200)), http_answer(204), http_answer(302),
        http_answer(200, b"\x1f\x8b" + b"x" * 100, Content_Encoding="gzip"),
        answer(snapshot("UNSPECIFIED")), answer(snapshot("RESTING")), answer(snapshot(99)), answer({"task": 1}),
        answer(snapshot("COMPLETED", "", {"artifactId": 7, "parts": []})),
        stream(b"data: nonsense\n\n"), stream(snapshot("WORKING"), b"data: []\n\n"), stream(status("RESTING")),
        stream(snapshot("WORKING"), b'data: {"jsonrpc": "2.0", "id": 99, "result": {}}\n\n'),
        huge, endless(b'{"x": "', b"x" * (1 << 20)),
        endless(b"", (b"data: " + b"x" * 20 + b"\n") * 1000, "text/event-stream"),
        endless(b":", b"x" * (1 << 20), "text/event-stream"),
        stream(*[artifact("x" * 500_000, append=True)] * 20),
        stream(*[artifact("x" * 500_000, str(number)) for number in range(20)]),
    ],
)  # fmt: skip
def test_an_answer_without_sense_or_end_is_an_error_and_not_tried_again(
    daemon: DaemonProcess, remote: Remote, script: Script
) -> None:
    before = peak_memory(daemon)
    remote.on("SendStreamingMessage", script)
    told = call(daemon, connect(daemon, remote), status=409)
    assert told["ok"] is False
    assert 0 < len(told["message"]) <= 4000
    assert len(remote.asked("SendStreamingMessage")) == 1
    assert peak_memory(daemon) < before + 200


@pytest.mark.parametrize(
    "data",
    [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000],
)
def test_what_is_no_http_is_an_error(daemon: DaemonProcess, remote: Remote, data: bytes) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.write(data)

    remote.on("SendStreamingMessage", script)
    assert call(daemon, connect(daemon, remote, timeoutMs=300), status=409)["ok"] is False


def test_frames_of_other_tasks_and_contexts_change_nothing(daemon: DaemonProcess, remote: Remote) -> None:
    other = snapshot("FAILED", "no", parts_of("no"), task_id="t2")
    moved = {"statusUpdate": {**status("WORKING")["statusUpdate"], "contextId": "c2"}}
    remote.on(
        "SendStreamingMessage",
        stream(snapshot("WORKING"), other, status("CANCELED", task_id="t2"), artifact("no", task_id="t2"), moved, DONE),
    )
    outbound = connect(daemon, remote)
    told = call(daemon, outbound)
    assert (told["text"], told["taskId"], told["contextId"]) == ("done", "t1", "c1")
    remote.on("SendStreamingMessage", answer(snapshot("SUBMITTED"))).on("GetTask", answer(other["task"]))
    assert "another task" in call(daemon, outbound, status=409)["message"]
    assert until(lambda: remote.asked("CancelTask"), "the task is canceled")[0].params == {"id": "t1"}


async def informational(exchange: Exchange) -> None:
    """Responses that announce one which never comes: a client reads them as they come."""
    for _ in range(50):
        await exchange.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000)
    await exchange.gone()


def test_informational_responses_without_end_are_cut_off(daemon: DaemonProcess, remote: Remote) -> None:
    remote.on("SendStreamingMessage", informational)
    outbound = connect(daemon, remote)
    assert "informational responses" in call(daemon, outbound, status=409)["message"]
    assert len(remote.asked("SendStreamingMessage")) == 1
