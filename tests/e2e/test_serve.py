"""`a2ad serve` as the one who starts it sees it: its ready line, `--demo`, its log."""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import PATIENCE, PLUGIN, failed_start, raw, rpc_status, until

NOISY = """
import asyncio
import logging
import warnings

from a2ad import Executor, hookimpl


class Crash(Executor):
    async def execute(self, request):
        logging.getLogger("noisy").warning("from a library\\nin two lines")
        warnings.warn("something is old", stacklevel=1)
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        raise ValueError("no luck \\u2028 today")
        yield


@hookimpl
def a2ad_register_executors(register, config):
    register("crash", Crash())


@hookimpl
def a2ad_register_presets(register, config):
    register("crash", {"skills": [{"id": "chat", "executor": "crash"}]})


@hookimpl
def a2ad_event(event):
    raise RuntimeError("an observer that fails")
"""


def test_one_line_says_where_it_listens_and_then_it_answers(daemon: DaemonProcess) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9][0-9]*", daemon.url)
    assert raw(daemon.url, "GET", "/a2a/api").status == 200
    assert daemon.terminate() == 0
    assert daemon.next_line() == ""


def test_port_0_takes_a_free_one_each_time(launch: Callable[..., DaemonProcess]) -> None:
    one, two = launch(), launch(state="other")

    assert one.url != two.url
    assert {raw(daemon.url, "GET", "/a2a/api").status for daemon in (one, two)} == {200}


def test_a_port_that_is_named_is_taken_again_right_after_a_stop(launch: Callable[..., DaemonProcess]) -> None:
    first = launch()
    first.send(first.create_inbound(), "hello")
    port = int(first.url.rpartition(":")[2])
    assert first.terminate() == 0

    second = launch(port=port)

    assert second.url == first.url


def test_it_listens_where_it_says_and_nowhere_else(daemon: DaemonProcess) -> None:
    listening = [
        bytes.fromhex(line.split()[1].partition(":")[0])[::-1]
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{daemon.process.pid}/net/{name}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{int(daemon.url.rpartition(':')[2]):04X}")
    ]

    assert listening == [socket.inet_aton("127.0.0.1")]


def test_the_state_is_for_its_owner_alone(daemon: DaemonProcess) -> None:
    assert daemon.state_dir.stat().st_mode & 0o077 == 0
    assert (daemon.state_dir / "a2ad.db").stat().st_mode & 0o077 == 0


# --demo


def demo_commands(daemon: DaemonProcess) -> list[str]:
    commands: list[str] = []
    while len(commands) < 2:
        line = daemon.next_line()
        if line.startswith("curl "):
            commands.append(line)
    return commands


def run_in_shell(command: str, folder: Path) -> str:
    """As a person would: pasted into a shell."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=True,
                          cwd=folder)  # fmt: skip
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="the commands are for curl")
def test_the_demos_two_commands_work_as_they_are_printed(launch: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    sending, streaming = demo_commands(launch("--demo"))

    answer = json.loads(run_in_shell(sending, tmp_path))
    events = run_in_shell(streaming, tmp_path)

    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert answer["result"]["task"]["artifacts"][0]["parts"] == [{"text": "hello, agent"}]
    frames = [json.loads(line.removeprefix("data: ")) for line in events.splitlines() if line.startswith("data: ")]
    assert len(frames) > 2
    assert frames[-1]["result"]["task"]["artifacts"][0]["parts"] == [{"text": "hello, agent"}]


@pytest.mark.parametrize("apart", [False, True])
def test_it_says_where_the_panel_is(launch: Callable[..., DaemonProcess], *, apart: bool) -> None:
    """Behind the demo's commands, and in the log."""
    config = '[server]\nlisten = "0.0.0.0:0"\n' + ('control_listen = "127.0.0.1:0"\n' if apart else "")
    daemon = launch("--demo", config=config)
    if apart:
        daemon.await_control()
    demo_commands(daemon)
    assert daemon.next_line() == ""
    told = daemon.next_line().rpartition(" ")[2]
    port = daemon.control.rpartition(":")[2]
    assert told == f"http://127.0.0.1:{port}/a2a/panel/"
    assert f"panel={told}" in daemon.log()
    assert raw(told.partition("/a2a")[0], "GET", "/a2a/panel/").status == 200


@pytest.mark.skipif(shutil.which("curl") is None, reason="the commands are for curl")
def test_a_demo_that_is_started_again_is_the_same_one(launch: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    first = launch("--demo")
    demo_commands(first)
    (before,) = first.read("")["inbounds"]
    assert before["id"] == "demo"
    assert first.terminate() == 0

    second = launch("--demo")
    commands = demo_commands(second)

    (after,) = second.read("")["inbounds"]
    assert after == {**before, "cardUrl": second.endpoint("demo")}
    assert json.loads(run_in_shell(commands[0], tmp_path))["result"]["task"]
    assert second.terminate() == 0
    third = launch()
    assert [row["id"] for row in third.read("")["inbounds"]] == ["demo"]


def test_a_demo_whose_path_is_taken_leaves_the_daemon_up(launch: Callable[..., DaemonProcess]) -> None:
    first = launch()
    other = first.create_inbound(endpointPath="/a2a/demo")
    assert first.terminate() == 0

    second = launch("--demo")

    assert [row["id"] for row in second.read("")["inbounds"]] == [other]
    assert rpc_status(second, other, path="/a2a/demo")[0] == 200


# the log


def test_every_line_of_a_json_log_is_json(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch("--log-format", "json", "--log-level", "debug",
                    plugin={"noisy": NOISY, "scripted": PLUGIN, "broken": "raise SystemExit('no')"})  # fmt: skip
    inbound = daemon.create_inbound(preset="crash")
    assert daemon.send(inbound, "hello")["status"]["state"] == "TASK_STATE_FAILED"
    daemon.act("inbound.setAuth", id=inbound, token="secret")
    assert rpc_status(daemon, inbound, "wrong")[0] == 401
    raw(daemon.url, "GET", "/a2a/api", host="evil.test")
    with socket.create_connection(("127.0.0.1", int(daemon.url.rpartition(":")[2])), timeout=PATIENCE) as client:
        client.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        client.recv(1000)
    until(lambda: "division by zero" in daemon.log(), "the failing callback is told")
    assert daemon.terminate() == 0

    lines = daemon.log().splitlines()

    wrong = []
    for line in lines:
        try:
            assert isinstance(json.loads(line), dict)
        except ValueError:
            wrong.append(line)
    assert wrong == []
    assert {"daemon.stopping", "daemon.stopped", "auth.failed", "control.refused"} <= {
        json.loads(line)["event"] for line in lines
    }
    assert "from a library" in daemon.log()


def test_the_level_decides_how_much_is_logged(launch: Callable[..., DaemonProcess]) -> None:
    quiet = launch("--log-level", "error", state="quiet")
    quiet.create_inbound()
    assert quiet.terminate() == 0

    assert quiet.log() == ""


def test_a_failing_start_says_so_in_one_line_in_either_format(tmp_path: Path) -> None:
    for log_format in ("text", "json"):
        told = failed_start(tmp_path, "--log-format", log_format, listen="127.0.0.1:99999")
        assert "99999" in told
