"""Large answers: whole to those who read them, and bounded in memory where nobody does (issue 3: a stalled reader costs
the others nothing).
"""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import until
from tests.hostile import call, connect, post, status_of
from tests.lab import error

#: an answer up to this size is written in one piece, and larger ones in pieces of `SLICE` (a2ad/web/answers.py)
LARGE, SLICE = 1 << 17, 1 << 16
#: answers under way, together, in megabytes; and what else a daemon may take meanwhile
BOUND, MORE = 256, 100
#: as many answers of 10 MB as are well past the bound
CROWD = 60


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    # so that malloc gives large blocks back at once: what is resident is what the daemon holds
    started = DaemonProcess(tmp_path_factory.mktemp("answers"), env={"MALLOC_MMAP_THRESHOLD_": "131072"})
    yield started
    started.kill()


@pytest.fixture(scope="module")
def inbound(daemon: DaemonProcess) -> str:
    return daemon.create_inbound()


def _text(length: int) -> str:
    """No piece of it is like another, and it has characters of one to four bytes: a slice may end within one."""
    words, size, number = [], 0, 0
    while size < length:
        words.append(f"{number}éß€😀-")
        size += len(words[-1].encode())
        number += 1
    text = "".join(words).encode()[:length].decode(errors="ignore")
    return text + "." * (length - len(text.encode()))


def _exchange(daemon: DaemonProcess, inbound: str, method: str, params: Any, version: bytes) -> bytes:
    """The body of the answer; its length has to be what the head says, and nothing may follow."""
    with connect(daemon) as sock:
        sock.sendall(post(f"/a2a/{inbound}", call(method, params), b"Connection: close", version=version))
        got = b"".join(iter(lambda: sock.recv(1 << 20), b""))
    head, _, body = got.partition(b"\r\n\r\n")
    assert status_of(got) == 200
    lines = head.lower().split(b"\r\n")
    assert b"content-length: %d" % len(body) in lines, head
    assert b"content-type: application/json" in lines
    assert b"a2a-version: 1.0" in lines
    assert b"transfer-encoding" not in head.lower()
    return body


def _result(body: bytes) -> bytes:
    return body.removeprefix(b'{"jsonrpc":"2.0","id":1,"result":').removesuffix(b"}")


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, LARGE + 1, 2 * SLICE + LARGE, 2 * SLICE + LARGE + 1, 3_000_001])
def test_an_answer_of_any_size_is_right_to_the_last_byte(daemon: DaemonProcess, inbound: str, size: int) -> None:
    context = f"of {size}"
    small = daemon.send(inbound, "", contextId=context)
    empty = len(_result(_exchange(daemon, inbound, "GetTask", {"id": small["id"]}, b"1.1")))
    room = size - empty
    # the text stands in the message and in the artifact: what is over is one character more in the message's metadata
    sent = daemon.send(inbound, _text(room // 2), contextId=context, metadata={"x": "y" * (room % 2)})
    pad = size - len(_result(_exchange(daemon, inbound, "GetTask", {"id": sent["id"]}, b"1.1")))
    sent = daemon.send(
        inbound, _text(room // 2 + pad // 2), contextId=context, metadata={"x": "y" * (room % 2 + pad % 2)}
    )

    bodies = {
        version: _exchange(daemon, inbound, "GetTask", {"id": sent["id"]}, version) for version in (b"1.0", b"1.1")
    }

    assert len(_result(bodies[b"1.1"])) == size
    assert bodies[b"1.0"] == bodies[b"1.1"]
    assert json.loads(bodies[b"1.1"]) == {"jsonrpc": "2.0", "id": 1, "result": sent}
    (part,) = sent["artifacts"][0]["parts"]
    assert part["text"] == sent["history"][0]["parts"][0]["text"] == _text(room // 2 + pad // 2)
    listed = json.loads(
        _exchange(daemon, inbound, "ListTasks", {"contextId": context, "includeArtifacts": True}, b"1.1")
    )
    assert sent in listed["result"]["tasks"]


def test_a_connection_serves_on_after_a_large_answer(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, _text(LARGE))
    connection = http.client.HTTPConnection(daemon.url.removeprefix("http://"), timeout=30)
    for method, params, expected in (
        ("GetTask", {"id": task["id"]}, task),
        ("GetTask", {"id": task["id"], "historyLength": 0}, {k: v for k, v in task.items() if k != "history"}),
        ("GetTask", {"id": task["id"]}, task),
    ):
        connection.request(
            "POST", f"/a2a/{inbound}", json.dumps(call(method, params)), {"Content-Type": "application/json"}
        )
        if expected is task:
            sock = connection.sock
        assert connection.sock is sock, "it is the same connection"
        assert json.loads(connection.getresponse().read())["result"] == expected
    connection.close()


# answers that nobody reads


def _resident(daemon: DaemonProcess) -> int:
    """What it has in memory now, in megabytes."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) >> 10


def _ask(daemon: DaemonProcess, inbound: str, task_id: str) -> socket.socket:
    """Ask for a task, and read nothing of the answer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(30)
    host, _, port = daemon.url.removeprefix("http://").rpartition(":")
    sock.connect((host, int(port)))
    sock.sendall(post(f"/a2a/{inbound}", call("GetTask", {"id": task_id})))
    return sock


def _begun(sock: socket.socket) -> bytes:
    """The first bytes of an answer, which stays where it is."""
    return sock.recv(20, socket.MSG_PEEK)


@contextmanager
def _crowd(daemon: DaemonProcess, inbound: str, task_id: str) -> Iterator[tuple[list[socket.socket], list[Any]]]:
    """Clients that ask for the task: those whose answer is under way, and the answers of those who were refused."""
    sockets = [_ask(daemon, inbound, task_id) for _ in range(CROWD)]
    try:
        refused = []
        for sock in [sock for sock in sockets if status_of(_begun(sock)) != 200]:
            response = http.client.HTTPResponse(sock)
            response.begin()
            refused.append((response.status, response.headers, json.loads(response.read())))
            sockets.remove(sock)
            sock.close()
        yield sockets, refused
    finally:
        for sock in sockets:
            sock.close()


@pytest.fixture(scope="module")
def large(daemon: DaemonProcess, inbound: str) -> dict[str, Any]:
    """A task of 10 MB."""
    task: dict[str, Any] = daemon.send(inbound, _text(5_000_000))
    return task


def test_answers_that_nobody_reads_have_a_bound_and_let_go_of_it(
    daemon: DaemonProcess, inbound: str, large: dict[str, Any]
) -> None:
    before = _resident(daemon)
    size = len(json.dumps(large, ensure_ascii=False).encode())
    with _crowd(daemon, inbound, large["id"]) as (unread, refused):
        assert abs(len(unread) - (BOUND << 20) // size) <= 1
        assert _resident(daemon) - before < BOUND + MORE
        for status, headers, body in refused:
            assert (status, headers["A2A-Version"]) == (503, "1.0")
            assert int(headers["Retry-After"]) > 0
            assert error(body) == (-32603, "RESOURCE_EXHAUSTED")
            assert body["id"] == 1
        assert daemon.send(inbound, "hello")["status"]["state"] == "TASK_STATE_COMPLETED"

        def answered() -> bool:
            with _again(daemon, inbound, large["id"]) as sock:
                return status_of(_begun(sock)) == 200

        assert not answered()
        for sock in unread[:2]:
            sock.close()
        until(answered, "those who leave let go of their share")

    until(lambda: daemon.read("")["peers"] == [], "all have left")
    with _crowd(daemon, inbound, large["id"]) as (again, _):
        assert len(again) == len(unread)


@contextmanager
def _again(daemon: DaemonProcess, inbound: str, task_id: str) -> Iterator[socket.socket]:
    sock = _ask(daemon, inbound, task_id)
    try:
        yield sock
    finally:
        sock.close()


def test_an_answer_that_is_read_after_all_is_whole(daemon: DaemonProcess, inbound: str, large: dict[str, Any]) -> None:
    with _again(daemon, inbound, large["id"]) as sock:
        assert status_of(_begun(sock)) == 200
        assert daemon.rpc(inbound, "GetTask", {"id": large["id"]})["result"] == large
        response = http.client.HTTPResponse(sock)
        response.begin()
        assert json.loads(response.read())["result"] == large


def test_a_stop_does_not_wait_for_answers_that_nobody_reads(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch()
    inbound = daemon.create_inbound()
    task = daemon.send(inbound, _text(2_000_000))
    with _again(daemon, inbound, task["id"]) as sock:
        assert status_of(_begun(sock)) == 200
        assert daemon.terminate() == 0
