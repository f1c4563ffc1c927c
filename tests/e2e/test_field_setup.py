"""Starts that fail, cards behind a proxy, plugins that break: what an operator meets (protocol.md 6; design.md)."""

import http.client
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import PATIENCE, failed_start, raw, text_of
from tests.lab import exchange, result

Launch = Callable[..., DaemonProcess]


# starts that fail


@pytest.fixture
def database(launch: Launch) -> Path:
    """A daemon's database, after its end in order."""
    daemon = launch()
    daemon.send(daemon.create_inbound(), "hello")
    assert daemon.terminate() == 0
    return daemon.state_dir / "a2ad.db"


@pytest.mark.parametrize("table", ["inbounds", "tasks"])
def test_a_start_that_fails_once_the_database_is_open_ends_the_process(
    tmp_path: Path, database: Path, table: str
) -> None:
    """No thread of the database keeps it: the status is not 0, and `failed_start` waits for the end."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"ALTER TABLE {table} RENAME COLUMN created_at TO made_at")

    told = failed_start(tmp_path, traceback=True)

    assert "could not be read" in told


def test_a_start_with_a_database_that_someone_else_keeps_locked_fails_in_words(
    launch: Launch, tmp_path: Path, database: Path
) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        told = failed_start(tmp_path)
        other.execute("ROLLBACK")

    assert len(told.splitlines()) == 1
    assert str(database) in told
    assert "locked" in told
    assert launch().read("")["taskTotal"] == 1


# cards


def test_a_daemon_on_every_address_shows_its_public_url_alone(launch: Launch) -> None:
    public = "https://agents.example.org"
    daemon = launch("--listen", "0.0.0.0:0", config=f'[server]\npublic_url = "{public}"\n')
    port = daemon.url.rpartition(":")[2]
    reached, control = f"http://127.0.0.1:{port}", daemon.await_control()
    inbound = daemon.create_inbound()
    cards = [f"/a2a/{inbound}/agent-card.json", f"/a2a/{inbound}/.well-known/agent-card.json",
             "/.well-known/agent-card.json"]  # fmt: skip

    seen = [
        raw(reached, "GET", path, host=host)
        for path in cards
        for host in ("agents.example.org", "localhost", f"127.0.0.1:{port}", f"0.0.0.0:{port}", "evil.test")
    ]
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}}).encode()
    seen.append(exchange(f"{reached}/a2a/{inbound}", body=call))
    seen.append(raw(control, "GET", f"/a2a/api/card?id={inbound}"))

    for answer in seen:
        assert answer.status == 200
        card = answer.json.get("result", answer.json)
        assert [each["url"] for each in card["supportedInterfaces"]] == [f"{public}/a2a/{inbound}"]
        for other in ("localhost", "127.0.0.1", "0.0.0.0", port, "evil"):
            assert other not in json.dumps({**card, "supportedInterfaces": []})


def test_without_a_public_url_no_card_names_the_address_of_all_addresses(launch: Launch) -> None:
    daemon = launch("--listen", "0.0.0.0:0")
    port = daemon.url.rpartition(":")[2]
    daemon.control = f"http://127.0.0.1:{port}"
    inbound = daemon.create_inbound()
    for host in (f"127.0.0.1:{port}", f"0.0.0.0:{port}", "evil.test", f"localhost:{port}"):
        card = raw(f"http://127.0.0.1:{port}", "GET", f"/a2a/{inbound}/agent-card.json", host=host).json
        (interface,) = card["supportedInterfaces"]
        assert interface["url"] in {f"http://{name}:{port}/a2a/{inbound}" for name in ("127.0.0.1", "localhost")}


PREFIX = "/agents/here"


class Proxy(BaseHTTPRequestHandler):
    """Serves the daemon below a path, which it takes away; anything else is 404."""

    upstream: ClassVar[str] = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.forward()

    def do_POST(self) -> None:
        self.forward()

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer, kind = 404, b"{}", "application/json"
        if self.path.startswith(f"{PREFIX}/"):
            with closing(http.client.HTTPConnection(self.upstream, timeout=PATIENCE)) as connection:
                headers = {"Content-Type": self.headers.get("Content-Type", ""), "Connection": "close"}
                connection.request(self.command, self.path.removeprefix(PREFIX), body, headers)
                response = connection.getresponse()
                status, answer, kind = response.status, response.read(), response.headers["Content-Type"]
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def proxy() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("path", ["/a2a/reports", "/agents/here/reports"])
def test_the_path_of_the_public_url_stands_once_before_the_endpoint_s_and_is_reached(
    launch: Launch, slash: str, path: str
) -> None:
    with proxy() as outside:
        public = f"{outside}{PREFIX}"
        daemon = launch(config=f'[server]\npublic_url = "{public}{slash}"\n')
        Proxy.upstream = urlsplit(daemon.url).netloc
        inbound = daemon.create_inbound(endpointPath=path)

        cards = [exchange(f"{public}{path}{suffix}", "GET").json
                 for suffix in ("/agent-card.json", "/.well-known/agent-card.json")]  # fmt: skip
        cards.append(exchange(f"{public}/.well-known/agent-card.json", "GET").json)
        cards.append(daemon.read(f"/card?id={inbound}"))
        (row,) = daemon.read("")["inbounds"]

        urls = [each["url"] for card in cards for each in card["supportedInterfaces"]]
        assert [*urls, row["cardUrl"]] == [f"{public}{path}"] * 5
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message("hello")}}
        answer = exchange(urls[0], body=json.dumps(call).encode())
        assert text_of(result(answer.json)["task"]) == "hello"
        call["method"] = "SendStreamingMessage"
        assert b"TASK_STATE_COMPLETED" in exchange(urls[0], body=json.dumps(call).encode()).body


# plugins that are installed

HOOK = "import asyncio, threading\nfrom a2ad import hookimpl\n@hookimpl\n"
#: what breaks when it is imported or registers
BROKEN = {
    "missing": "import nowhere_to_be_found\n",
    "syntax": "def (\n",
    "leaves": "raise SystemExit(3)\n",
    "raises": HOOK + "def a2ad_register_executors(register): raise ValueError('no luck')\n",
}
#: what hangs or breaks later
HANGING = {
    "starts": HOOK + "def a2ad_startup(daemon): raise ValueError('not today')\n",
    "sleeps": HOOK + "async def a2ad_startup(daemon): await asyncio.sleep(600)\n",
    "blocks": HOOK + "def a2ad_startup(daemon): threading.Event().wait()\n",
    "watches": HOOK + "def a2ad_event(event): raise SystemExit(4)\n",
    "closes": HOOK + "def a2ad_shutdown(daemon): threading.Event().wait()\n",
}


@pytest.fixture
def site(tmp_path: Path) -> dict[str, str]:
    """The environment in which all of them are installed."""
    folder = tmp_path / "site"
    for name, text in (BROKEN | HANGING).items():
        info = folder / f"a2ad_{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"a2ad_{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w').close()\n{text}"
                                                if name != "syntax" else text)  # fmt: skip
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: a2ad-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[a2ad]\n{name} = a2ad_{name}\n")
        (info / "RECORD").write_text("")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}


def test_installed_plugins_that_break_or_hang_are_named_and_can_be_disabled(
    launch: Launch, tmp_path: Path, site: dict[str, str]
) -> None:
    limits = "[limits]\ngate_seconds = 0.3\nshutdown_seconds = 1\n"
    daemon = launch(env=site, config=limits)
    rows = {row["name"]: row for row in daemon.read("")["plugins"]}

    assert {name: rows[name]["state"] for name in BROKEN} == dict.fromkeys(BROKEN, "failed")
    assert {name: rows[name]["state"] for name in HANGING} == dict.fromkeys(HANGING, "loaded")
    assert [name for name in BROKEN if not rows[name]["error"]] == []
    assert daemon.send(daemon.create_inbound(), "hello")["status"]["state"] == "TASK_STATE_COMPLETED"
    assert daemon.terminate() == 0
    for name in (*BROKEN, *HANGING):
        assert name in daemon.log(), name  # named there, for what it did or did not do in time

    for name in (*BROKEN, *HANGING):
        (tmp_path / name).unlink(missing_ok=True)
    daemon.log_path.write_text("")
    again = launch(env=site, config=f"{limits}[plugins]\ndisabled = {json.dumps([*BROKEN, *HANGING])}\n")
    states = {row["name"]: row["state"] for row in again.read("")["plugins"]}
    assert {name: states[name] for name in (*BROKEN, *HANGING)} == dict.fromkeys((*BROKEN, *HANGING), "disabled")
    assert [name for name in (*BROKEN, *HANGING) if (tmp_path / name).exists()] == []  # not imported either
    assert again.terminate() == 0
    assert "plugin" not in again.log()
