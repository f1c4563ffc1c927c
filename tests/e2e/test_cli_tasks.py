"""`a2ad tasks`, `sessions`, `peers` and `status`: what the operator sees and does from the command line."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from a2ad.cli.table import width
from tests.cli_support import PLUGIN, Done, on_terminal, run
from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import until

CHOICE = r"""
import asyncio
from a2ad import Executor, hookimpl


class Choose(Executor):
    async def execute(self, request):
        await request.ask("Which one?", options=[{"id": "one", "name": "The first"}, {"id": "two", "name": "Other"}])
        return
        yield


@hookimpl
def a2ad_register_executors(register):
    register("choose", Choose())


@hookimpl
def a2ad_register_presets(register):
    register("choice", {"skills": [{"id": "choose", "executor": "choose"}]})
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    plugins = {"remote": PLUGIN, "choice": CHOICE}
    with running(tmp_path_factory.mktemp("tasks"), plugin=plugins) as daemon:
        yield daemon


@pytest.fixture
def inbound(daemon: DaemonProcess) -> Iterator[str]:
    inbound = daemon.create_inbound(name="mine", preset="remote")
    yield inbound
    daemon.act("inbound.remove", id=inbound)


def command(daemon: DaemonProcess, *arguments: str, status: int = 0, **more: Any) -> Done:
    done = run(daemon.url, *arguments, **more)
    assert done.status == status, done
    return done


def begin(daemon: DaemonProcess, inbound: str, text: str, skill: str) -> str:
    return str(daemon.begin(inbound, text, metadata={"skill": skill})["id"])


def await_state(daemon: DaemonProcess, task: str, state: str) -> None:
    until(lambda: daemon.read(f"/task?id={task}")["state"] == f"TASK_STATE_{state}", f"the task is {state}")


def test_tasks_are_listed_filtered_and_paged(daemon: DaemonProcess, inbound: str) -> None:
    sent = [daemon.send(inbound, f"number {n}") for n in range(3)]
    failed = daemon.send(inbound, "x", metadata={"skill": "fail"})
    rows = daemon.read(f"?taskServerId={inbound}")["tasks"]
    assert command(daemon, "tasks", "list", "--inbound", "mine", "--json").json == rows
    for state in ("failed", "TASK_STATE_FAILED", "Failed"):
        (only,) = command(daemon, "tasks", "--state", state, "--inbound", inbound, "--json").json
        assert only["id"] == failed["id"]
    (only,) = command(daemon, "tasks", "--context", sent[1]["contextId"], "--json").json
    assert only["id"] == sent[1]["id"]
    page = command(daemon, "tasks", "--inbound", "mine", "--limit", "2", "--offset", "1")
    assert [line.split()[0] for line in page.out.splitlines()] == ["id", rows[1]["id"], rows[2]["id"]]
    assert page.err == "a2ad: 2 to 3 of 4; --offset 3 shows what follows\n"
    assert command(daemon, "tasks", "--inbound", "mine", "--offset", "2").err == ""
    command(daemon, "tasks", "--state", "nothing", status=2)
    command(daemon, "tasks", "--limit", "0", status=2)


def test_a_task_is_shown_with_its_artifacts_and_messages(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, "hello", metadata={"skill": "mixed"})["id"]
    assert command(daemon, "tasks", "show", task, "--json").json == daemon.read(f"/task?id={task}")
    details, *sections = command(daemon, "tasks", "show", task).out.split("\n\n")
    shown = dict(line.split(maxsplit=1) for line in details.splitlines())
    assert (shown["id"], shown["state"], shown["inbound"], shown["skill"]) == (task, "completed", inbound, "mixed")
    assert 'artifact one\nNumbers:\n{"count": 42}\n[a.txt text/plain, 5 bytes]' in sections
    assert "artifact two\nPlace:\n[image/png: https://x.example/b.png]" in sections
    assert sections[-1] == "from the client\nhello\n"
    timeline = next(section for section in sections if section.startswith("timeline\n")).splitlines()
    assert timeline[1].split() == ["frame", "at", "state", "message"]
    assert timeline[2].split()[0] == "-"
    assert timeline[2].endswith(" created, and started at once")
    assert [line.split("  ")[-1] for line in timeline[3:5]] == ["artifact one", "artifact two"]
    assert timeline[-1].split()[2] == "completed"
    missing = command(daemon, "tasks", "show", "nothing", "--json", status=1)
    assert (missing.json["ok"], missing.err) == (False, "a2ad: There is no such task\n")


def test_a_task_is_canceled(daemon: DaemonProcess, inbound: str, tmp_path: Path) -> None:
    task = begin(daemon, inbound, str(tmp_path / "door"), "wait")
    assert command(daemon, "tasks", "cancel", task).out == f"task {task} canceled\n"
    await_state(daemon, task, "CANCELED")
    assert "cannot be canceled" in command(daemon, "tasks", "cancel", task, status=1).err


def test_a_task_that_waits_is_answered(daemon: DaemonProcess, inbound: str) -> None:
    task = begin(daemon, inbound, "x", "ask")
    await_state(daemon, task, "INPUT_REQUIRED")
    shown = command(daemon, "tasks", "show", task).out
    assert f"it asks\nWhich city?\nSay its name.\n(a2ad tasks answer {task}" in shown
    command(daemon, "tasks", "answer", task, status=2)
    assert command(daemon, "tasks", "answer", task, "-", stdin="Oslo").out == f"task {task} is answered\n"
    await_state(daemon, task, "COMPLETED")
    command(daemon, "tasks", "answer", task, "again", status=1)


def test_an_answer_is_one_of_the_options_where_there_are_some(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound(name="choice", preset="choice")
    task = begin(daemon, inbound, "x", "choose")
    await_state(daemon, task, "INPUT_REQUIRED")
    refused = command(daemon, "tasks", "answer", task, "neither", status=1).err
    assert refused.splitlines()[0] == "a2ad: the options: one, two"
    assert "The first" in command(daemon, "tasks", "show", task).out
    command(daemon, "tasks", "answer", task, "--option", "two", "--json")
    await_state(daemon, task, "COMPLETED")
    daemon.act("inbound.remove", id=inbound)


def test_sessions_are_listed_canceled_and_closed(daemon: DaemonProcess, inbound: str) -> None:
    context = daemon.send(inbound, "hello")["contextId"]
    (session,) = command(daemon, "sessions", "--json").json
    assert session["contextId"] == context
    assert command(daemon, "sessions").out.splitlines()[1].split()[:5] == [context, "idle", inbound, "echo", "1"]
    canceled = command(daemon, "sessions", "cancel", context, "--inbound", "mine")
    assert canceled.out == "nothing is active in this context\n"
    command(daemon, "sessions", "close", context)
    assert command(daemon, "sessions", "list", "--json").json == []


def test_peers_are_listed_and_closed_and_their_task_goes_on(
    daemon: DaemonProcess, inbound: str, tmp_path: Path
) -> None:
    stream = daemon.send_streaming(inbound, str(tmp_path / "door"), metadata={"skill": "wait"})
    task = next(stream)["task"]["id"]
    (peer,) = command(daemon, "peers", "--json").json
    assert command(daemon, "peers").out.splitlines()[1].split()[:3] == [peer["id"], inbound, "SendStreamingMessage"]
    assert "its task goes on" in command(daemon, "peers", "close", peer["id"]).out
    stream.close()
    assert command(daemon, "peers", "--json").json == []
    (tmp_path / "door").touch()
    await_state(daemon, task, "COMPLETED")
    command(daemon, "peers", "close", peer["id"], status=1)


def test_status_tells_health_figures_and_what_needs_somebody(daemon: DaemonProcess, inbound: str) -> None:
    task = begin(daemon, inbound, "x", "ask")
    await_state(daemon, task, "INPUT_REQUIRED")
    told = command(daemon, "status", "--json").json
    assert (told["url"], told["panel"]) == (daemon.url, f"{daemon.url}/a2a/panel/")
    assert told["health"]["status"] == "ok"
    assert told["metrics"]["tasks"]["TASK_STATE_INPUT_REQUIRED"] == 1
    assert [(each["kind"], each["id"]) for each in told["attention"]] == [("question", task)]
    details, attention = command(daemon, "status").out.split("\n\n")
    shown = dict(line.split(maxsplit=1) for line in details.splitlines())
    assert (shown["daemon"], shown["health"], shown["inbound"]) == (daemon.url, "ok", "1 of 1 served")
    assert shown["panel"] == told["panel"]
    assert attention.splitlines()[1].split() == [task, "question", "Which", "city?", "Say", "its", "name."]


@pytest.mark.parametrize("columns", [60, 100])
def test_tables_fit_the_terminal_and_are_coloured_there_alone(
    daemon: DaemonProcess, inbound: str, columns: int
) -> None:
    task = daemon.send(inbound, "漢字 " * 60)["id"]
    status, screen = on_terminal(daemon.url, "tasks", columns=columns, colours=True)
    assert status == 0
    assert f"{task}  \x1b[32mcompleted\x1b[0m" in screen
    _, plain = on_terminal(daemon.url, "tasks", columns=columns)
    assert re.sub(r"\d", "0", plain) == re.sub(r"\d", "0", click.unstyle(screen))  # it is told how long ago that was
    assert all(columns - 1 <= width(line) <= columns for line in plain.splitlines()[1:])
    assert "漢字 " * 30 in command(daemon, "tasks").out
    assert "\x1b[32m" in command(daemon, "tasks", env={"FORCE_COLOR": "1"}).out


def test_what_clients_and_agents_say_cannot_drive_the_terminal(daemon: DaemonProcess, inbound: str) -> None:
    evil = "\x1b]0;title\x07 \x1b[2J \u202etxet \x9b31m"
    task = daemon.send(inbound, evil, metadata={"skill": "escapes"})["id"]
    for arguments in (["tasks"], ["tasks", "show", task], ["tasks", "watch", task], ["inbound", "test", "mine", evil]):
        status, screen = on_terminal(daemon.url, *arguments)
        assert status == 0
        assert screen.replace("\n", "").isprintable(), (arguments, screen)
