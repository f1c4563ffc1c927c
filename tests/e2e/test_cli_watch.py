"""`a2ad tasks watch`: live, past a restart of the daemon, and to the end."""

import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli_support import PLUGIN, on_terminal, run, started
from tests.daemon import DaemonProcess
from tests.e2e.control_support import until

Launch = Callable[..., DaemonProcess]


@pytest.fixture
def daemon(launch: Launch) -> DaemonProcess:
    """At a port that it keeps when it starts again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return launch(plugin=PLUGIN, port=port)


@pytest.fixture
def inbound(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(name="mine", preset="remote")


def begin(daemon: DaemonProcess, inbound: str, text: str, skill: str) -> str:
    return str(daemon.begin(inbound, text, metadata={"skill": skill})["id"])


def await_state(daemon: DaemonProcess, task: str, state: str) -> None:
    until(lambda: daemon.read(f"/task?id={task}")["state"] == f"TASK_STATE_{state}", f"the task is {state}")


def test_text_comes_on_stdout_and_statuses_aside_until_the_task_ends(
    daemon: DaemonProcess, inbound: str, tmp_path: Path
) -> None:
    task = begin(daemon, inbound, str(tmp_path / "door"), "wait")
    with started(daemon.url, "tasks", "watch", task) as process:
        process.await_text("before ")
        process.await_text("working: at the door", "err")
        (tmp_path / "door").touch()
        done = process.result()
    assert (done.status, done.out) == (0, "before after\n")
    assert done.err.splitlines()[-1] == "completed"
    again = run(daemon.url, "tasks", "watch", task)
    assert (again.status, again.out, again.err) == (0, "before after\n", "completed\n")


@pytest.mark.parametrize(("skill", "told"), [("fail", "failed: Out of paper"), ("reject", "was rejected: Not today")])
def test_its_exit_status_is_that_of_the_tasks_end(daemon: DaemonProcess, inbound: str, skill: str, told: str) -> None:
    task = daemon.send(inbound, "x", metadata={"skill": skill})["id"]
    done = run(daemon.url, "tasks", "watch", task)
    assert (done.status, done.err) == (1, f"a2ad: the task {told}\n")


def test_it_says_what_a_task_waits_for_and_stays(daemon: DaemonProcess, inbound: str) -> None:
    task = begin(daemon, inbound, "x", "ask")
    with started(daemon.url, "tasks", "watch", task) as process:
        process.await_text("input required: Which city?", "err")
        process.await_text(f"a2ad tasks answer {task}", "err")
        assert run(daemon.url, "tasks", "answer", task, "Oslo").status == 0
        done = process.result()
    assert (done.status, done.out) == (0, "So far so good. Sunny in Oslo\n")


def test_it_survives_a_restart_of_the_daemon_and_says_so(daemon: DaemonProcess, inbound: str) -> None:
    task = begin(daemon, inbound, "x", "ask")
    with started(daemon.url, "tasks", "watch", task) as process:
        process.await_text("input required: Which city?", "err")
        assert daemon.terminate() == 0
        process.await_text("is gone; waiting for it", "err")
        daemon.start()
        process.await_text("the daemon is back", "err")
        daemon.act("task.cancel", id=task)
        done = process.result()
    assert done.status == 1
    assert done.out == "So far so good.\n"  # nothing is said twice
    assert done.err.count("is gone") == done.err.count("is back") == done.err.count("Which city?") == 1
    assert done.err.splitlines()[-1] == "a2ad: the task was canceled"


def test_a_daemon_that_is_killed_is_waited_for_too(daemon: DaemonProcess, inbound: str, tmp_path: Path) -> None:
    task = begin(daemon, inbound, str(tmp_path / "door"), "wait")
    with started(daemon.url, "tasks", "watch", task) as process:
        process.await_text("before ")
        daemon.kill()
        process.await_text("is gone; waiting for it", "err")
        daemon.start()
        done = process.result()
    assert done.status == 1  # a crash ended the task
    assert done.out == "before \n"
    assert "a2ad: the task failed: " in done.err


def test_its_json_has_a_frame_a_line(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, "hello")["id"]
    done = run(daemon.url, "tasks", "watch", task, "--json")
    (frame,) = map(json.loads, done.out.splitlines())
    assert (done.status, frame["task"]["id"]) == (0, task)


def test_without_a_task_it_tells_all_changes(daemon: DaemonProcess, inbound: str, tmp_path: Path) -> None:
    ended = daemon.send(inbound, "over")["id"]
    waiting = begin(daemon, inbound, str(tmp_path / "door"), "wait")
    other = daemon.create_inbound(name="other", preset="remote")
    with started(daemon.url, "tasks", "watch", "--inbound", "mine") as process:
        process.await_text(f"{waiting}  working")
        (tmp_path / "door").touch()
        process.await_text(f"{waiting}  completed")
        daemon.send(other, "elsewhere")
        assert daemon.terminate() == 0
        process.await_text("is gone; waiting for it", "err")
        daemon.start()
        process.await_text("the daemon is back", "err")
        again = daemon.send(inbound, "after")["id"]
        process.await_text(f"{again}  completed")
        process.process.send_signal(signal.SIGINT)
        done = process.result()
    assert done.status == 130
    assert [line for line in done.err.splitlines() if "daemon" in line] == [
        f"a2ad: the daemon at {daemon.url} is gone; waiting for it",
        "a2ad: the daemon is back",
    ]
    assert ended not in done.out
    assert "elsewhere" not in done.out


def test_no_line_is_wider_than_the_terminal_and_no_id_is_cut(daemon: DaemonProcess, inbound: str) -> None:
    task = begin(daemon, inbound, "x" * 200, "ask")
    await_state(daemon, task, "INPUT_REQUIRED")
    for columns in (60, 80):
        answers = [(task, "\x03")]
        _, screen = on_terminal(daemon.url, "tasks", "watch", answers=answers, columns=columns)
        (line,) = [line for line in screen.splitlines() if task in line]
        assert "input required" in line
        assert len(line) <= columns


def test_what_is_not_there_is_no_reason_to_wait(daemon: DaemonProcess, inbound: str) -> None:
    assert run(daemon.url, "tasks", "watch", "nothing").err == "a2ad: There is no such task\n"
    away = run("http://127.0.0.1:1", "tasks", "watch", "nothing")
    assert (away.status, away.out, len(away.err.splitlines())) == (1, "", 1)
    assert run(daemon.url, "tasks", "watch", "x", "--inbound", "mine").status == 2


def test_on_a_terminal_a_status_is_on_a_line_of_its_own(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, "x", metadata={"skill": "both"})["id"]
    status, screen = on_terminal(daemon.url, "tasks", "watch", task, colours=True)
    assert (status, screen) == (0, "the answer\n\x1b[32mcompleted: All is done.\x1b[0m\n")
