"""`a2ad mcp` as a process: how it ends, what it says where it cannot start, what its pipes do to it."""

import signal
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import PATIENCE, until
from tests.e2e.mcp_support import connected_to_itself, server_process, state_of

CANCELED = "TASK_STATE_CANCELED"
#: a pipe holds 64 KiB, but not half of a message of a page or less
FULL = 60_000


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with connected_to_itself(tmp_path_factory.mktemp("mcp")) as process:
        yield process


def test_the_end_of_stdin_ends_it_and_its_calls(daemon: DaemonProcess) -> None:
    with server_process(daemon.control, daemon.folder) as server:
        task_id = server.begin_call(daemon, "eof")
        server.close_stdin()
        assert server.process.wait(PATIENCE) == 0
        until(lambda: state_of(daemon, task_id) == CANCELED, CANCELED)
        assert server.errors.read_text() == ""


def test_sigterm_ends_it_and_its_calls(daemon: DaemonProcess) -> None:
    with server_process(daemon.control, daemon.folder) as server:
        task_id = server.begin_call(daemon, "term")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        until(lambda: state_of(daemon, task_id) == CANCELED, CANCELED)
        assert server.errors.read_text() == ""


def test_a_client_that_reads_no_more_does_not_keep_it(daemon: DaemonProcess) -> None:
    """Its stdout is full when its stdin ends: what is in it is lost, and the process goes."""
    with server_process(daemon.control, daemon.folder) as server:
        task_id = server.begin_call(daemon, "full")
        for number in range(300):
            server.say("tools/list", id=10 + number)
        until(lambda: server.unread() > FULL, "more answers than its stdout holds")
        server.close_stdin()
        assert server.process.wait(PATIENCE) == 0
        until(lambda: state_of(daemon, task_id) == CANCELED, CANCELED)
        assert server.errors.read_text() == ""


def test_a_client_that_closed_its_end_of_stdout_ends_it(daemon: DaemonProcess) -> None:
    with server_process(daemon.control, daemon.folder) as server:
        task_id = server.begin_call(daemon, "broken")
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.say("tools/list", id=3)
        assert server.process.wait(PATIENCE) == 0
        until(lambda: state_of(daemon, task_id) == CANCELED, CANCELED)
        assert server.errors.read_text() == ""


def test_what_is_no_mcp_is_passed_over(daemon: DaemonProcess) -> None:
    """Lines that are no JSON, or no message, are not answered with anything but MCP, nor do they end it."""
    with server_process(daemon.control, daemon.folder) as server:
        task_id = server.begin_call(daemon, "lines")
        assert server.process.stdin is not None
        server.process.stdin.write(b'nothing\n\n{"jsonrpc": "2.0"}\n[]\n\xff\xfe\n')
        server.say("tools/list", id=3)
        assert server.hear()["id"] == 3
        (daemon.folder / "lines").touch()
        answer = server.hear()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (2, "wait lines")
        assert state_of(daemon, task_id) == "TASK_STATE_COMPLETED"
        assert server.errors.read_text() == ""


# where it cannot start


def refusal(url: str, folder: Path, **env: str) -> str:
    """The one line that it says where it does not start."""
    with server_process(url, folder, **env) as server:
        assert server.process.stdout is not None
        assert server.process.stdout.read() == b""
        assert server.process.wait(PATIENCE) == 1
        (told,) = server.errors.read_text().splitlines()
    return told


def test_without_a_daemon_it_names_the_address_and_ends(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        told = refusal(url, tmp_path)
    assert told.startswith(f"a2ad: no a2ad daemon answers at {url}: Connection refused")
    assert "`a2ad serve --listen 127.0.0.1:" in told


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"hello": "x"}')

    def log_message(self, *arguments: Any) -> None:
        pass


def test_something_else_at_the_address_is_no_daemon(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            told = refusal(url, tmp_path)
        finally:
            server.shutdown()
            thread.join()
    assert told.startswith("a2ad: no a2ad daemon ")
    assert url in told


def test_without_the_library_it_says_what_to_install(daemon: DaemonProcess, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')")
    assert "pip install 'a2ad[mcp]'" in refusal(daemon.control, tmp_path, PYTHONPATH=str(tmp_path))
