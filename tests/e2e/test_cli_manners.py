"""How every command behaves: pipes that close, Ctrl-C, no daemon, files that are attached."""

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_support import PLUGIN, command, environment, on_terminal, run, started
from tests.daemon import DaemonProcess, running

ECHO_PARTS = r"""
import json
from a2ad import Artifact, Executor, hookimpl


class Parts(Executor):
    async def execute(self, request):
        files = [[each.name, each.media_type, each.size, each.sha256] for each in request.attachments]
        yield Artifact(parts=[{"text": json.dumps(files)}])


@hookimpl
def a2ad_register_executors(register):
    register("parts", Parts())


@hookimpl
def a2ad_register_presets(register):
    register("parts", {"skills": [{"id": "parts", "executor": "parts"}]})
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    plugins = {"remote": PLUGIN, "parts": ECHO_PARTS}
    with running(tmp_path_factory.mktemp("manners"), plugin=plugins) as daemon:
        yield daemon


def test_a_reader_that_has_enough_is_no_error(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound(name="many")
    for n in range(5):
        daemon.send(inbound, f"{n} " * 5000)
    for arguments in (["tasks"], ["tasks", "--json"], ["tasks", "watch", daemon.read("")["tasks"][0]["id"]]):
        reading, writing = os.pipe()
        os.close(reading)  # as `head` does, only sooner
        done = subprocess.run(
            command(*arguments),
            stdout=writing,
            stderr=subprocess.PIPE,
            env=environment(daemon.url),
            timeout=60,
            check=False,
        )
        os.close(writing)
        assert b"Traceback" not in done.stderr
        assert b"Broken" not in done.stderr
    daemon.act("inbound.remove", id=inbound)


def test_ctrl_c_ends_a_question_and_what_waits_with_status_130(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound(name="kept")
    # Python heeds a signal that comes just before it reads once the read has ended: the line after it ends it
    status, screen = on_terminal(daemon.url, "inbound", "remove", "kept", answers=[("[y/N]: ", "\x03\n")])
    assert (status, "Traceback" in screen) == (130, False)
    status, _ = on_terminal(daemon.url, "inbound", "token", "set", "kept", answers=[("Token: ", "\x03\n")])
    assert status == 130
    with started(daemon.url, "tasks", "watch") as process:
        process.process.send_signal(signal.SIGINT)
        process.process.wait(60)
    assert [row["id"] for row in daemon.read("")["inbounds"]] == [inbound]
    daemon.act("inbound.remove", id=inbound)


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["inbound"],
        ["inbound", "add", "x"],
        ["inbound", "remove", "x", "--yes"],
        ["inbound", "test", "x", "hello"],
        ["tasks"],
        ["tasks", "show", "x"],
        ["tasks", "watch"],
        ["sessions"],
        ["sessions", "close", "x"],
        ["peers"],
        ["mcp"],
    ],
)
def test_without_a_daemon_one_line_says_where_it_looked_and_what_starts_one(arguments: list[str]) -> None:
    done = run("http://127.0.0.1:1", *arguments)
    assert (done.status, done.out) == (1, ""), done
    (line,) = done.err.splitlines()
    assert "http://127.0.0.1:1" in line
    assert "(A2AD_URL)" in line
    assert "`a2ad serve --listen 127.0.0.1:1` starts one" in line


def test_it_says_from_where_the_address_is(tmp_path: Path) -> None:
    file = tmp_path / "a2ad.toml"
    file.write_text('[server]\nlisten = "127.0.0.1:1"\n')
    told = run(None, "status", "--config", str(file)).err
    assert f"at http://127.0.0.1:1 (server.listen from {file})" in told
    assert f"`a2ad serve --config {file}` starts one" in told
    told = run(None, "status", env={"A2AD_SERVER__LISTEN": "127.0.0.1:2"}).err
    assert "at http://127.0.0.1:2 (server.listen from environment A2AD_SERVER__LISTEN)" in told
    assert "(--url)" in run("http://127.0.0.1:1", "status", "--url", "http://127.0.0.1:3").err


def test_files_are_attached_with_their_names_and_types(daemon: DaemonProcess, tmp_path: Path) -> None:
    inbound = daemon.create_inbound(name="parts", preset="parts")
    contents = {"a.txt": b"text", "b.png": b"\x89PNG\0\xff", "c.unknown-kind": b"", "d.txt.gz": b"\x1f\x8b"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = [part for name in contents for part in ("--file", str(tmp_path / name))]
    done = run(None, "send", daemon.endpoint(inbound), "see these", *files)
    assert done.status == 0, done
    kinds = ["text/plain", "image/png", "application/octet-stream", "application/octet-stream"]
    assert [row[:3] for row in json.loads(done.out)] == [
        [name, kind, len(content)] for (name, content), kind in zip(contents.items(), kinds, strict=True)
    ]
    stored = daemon.read(f"/task?id={daemon.read('')['tasks'][0]['id']}")["history"][0]["parts"]
    assert base64.b64decode(stored[2]["raw"]) == contents["b.png"]
    assert run(None, "send", daemon.endpoint(inbound), "x", "--file", str(tmp_path / "none")).status == 2
    daemon.act("inbound.remove", id=inbound)


def test_send_takes_a_token_from_a_file_or_standard_input(daemon: DaemonProcess, tmp_path: Path) -> None:
    inbound = daemon.create_inbound(name="secret")
    daemon.act("inbound.setAuth", id=inbound, token="s3cr3t")
    (tmp_path / "token").write_text("s3cr3t\n")
    url = daemon.endpoint(inbound)
    assert run(None, "send", url, "hello").status == 1
    assert run(None, "send", url, "hello", "--token-file", str(tmp_path / "token")).out == "hello\n"
    assert run(None, "send", url, "hello", "--token-file", "-", stdin="s3cr3t").out == "hello\n"
    status, screen = on_terminal(None, "send", url, "hello", "--token-file", "-", answers=[("Token: ", "s3cr3t\n")])
    assert (status, "s3cr3t" in screen) == (0, False)
    daemon.act("inbound.remove", id=inbound)
