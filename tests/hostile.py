"""What the tests of misuse share: bytes on a socket, what a process takes, and what became of a daemon."""

import json
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import until

#: what may not be seen in the log of a daemon that was misused, and nothing more
FAULTS = ("Traceback", "[error", '"error"', "never retrieved", "never awaited", "destroyed but it is pending")


def connect(daemon: DaemonProcess, url: str = "", timeout: float = 30) -> socket.socket:
    address = urlsplit(url or daemon.url)
    return socket.create_connection((address.hostname, address.port), timeout=timeout)


def exchange(daemon: DaemonProcess, data: bytes, url: str = "") -> bytes:
    """All that comes back for these bytes, until the daemon closes the connection or says no more."""
    with connect(daemon, url) as sock, suppress(ConnectionError):
        sock.sendall(data)
        return read_answer(sock)
    return b""


def read_answer(sock: socket.socket) -> bytes:
    """One answer; what there was of it where the connection ended."""
    got = b""
    with suppress(ConnectionError):
        while not _complete(got):
            piece = sock.recv(1 << 16)
            if not piece:
                break
            got += piece
    return got


def _complete(got: bytes) -> bool:
    head, end, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
    return bool(end) and length is not None and len(body) >= int(length[1])


def status_of(answer: bytes) -> int:
    """0 where there is none."""
    match = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    return int(match[1]) if match else 0


def post(path: str, body: Any, *lines: bytes, host: bytes = b"localhost", version: bytes = b"1.1") -> bytes:
    """A POST as bytes; `lines` are further header lines."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [b"POST " + path.encode() + b" HTTP/" + version, b"Host: " + host, b"Content-Type: application/json", *lines]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(data), b"", data])


def call(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def send_message(text: str = "hello", **more: Any) -> dict[str, Any]:
    return call("SendMessage", {"message": message(text, **more)})


def logged_so_far(daemon: DaemonProcess, mark: str) -> str:
    """The log, once what went before is in it: `mark` is a word that a refused request leaves there."""
    refused = post(f"/a2a/api/{mark}", b"{}", host=b"elsewhere.example")
    assert status_of(exchange(daemon, refused, daemon.control)) == 403
    until(lambda: mark in daemon.log(), "the refusal is in the log")
    return daemon.log()


def peak_memory(daemon: DaemonProcess) -> int:
    """What it had resident at most, in megabytes."""
    return _figure(daemon, "VmHWM") >> 10


def threads(daemon: DaemonProcess) -> int:
    return _figure(daemon, "Threads")


def _figure(daemon: DaemonProcess, name: str) -> int:
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:")))


@contextmanager
def no_faults(daemon: DaemonProcess, faults: Sequence[str] = FAULTS) -> Iterator[None]:
    """Meanwhile nothing went wrong, as far as the log tells."""
    before = len(daemon.log())
    yield
    said = logged_so_far(daemon, f"mark{time.monotonic_ns()}")[before:]
    for fault in faults:
        assert fault not in said, said


def state_and_text(task: dict[str, Any]) -> tuple[str, str]:
    """The state without `TASK_STATE_`, and the text of the status message."""
    status = task["status"]
    parts = status.get("message", {}).get("parts", [])
    return status["state"].removeprefix("TASK_STATE_"), "".join(part.get("text", "") for part in parts)


def ended_task(daemon: DaemonProcess, inbound: str, task_id: str) -> dict[str, Any]:
    """Wait for its end."""

    def task() -> Any:
        found = daemon.rpc(inbound, "GetTask", {"id": task_id})["result"]
        return found if state_and_text(found)[0] in {"COMPLETED", "FAILED", "CANCELED", "REJECTED"} else None

    found: dict[str, Any] = until(task, f"{task_id} ends")
    return found
