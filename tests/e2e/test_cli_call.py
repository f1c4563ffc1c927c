"""`a2ad call`: the answer as it comes, and what became of it (issue 4, point 4; design.md, "Command line")."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_support import PLUGIN, on_terminal, run, run_to_full_disk, started
from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import await_state


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """A daemon connected to itself, as `remote`."""
    with running(tmp_path_factory.mktemp("call"), plugin=PLUGIN) as daemon:
        inbound = daemon.create_inbound(preset="remote")
        daemon.act("outbound.create", name="remote", agentCardUrl=daemon.endpoint(inbound))
        yield daemon


@pytest.fixture
def door(tmp_path: Path) -> Path:
    return tmp_path / "door"


def newest_task(daemon: DaemonProcess) -> Any:
    return max(daemon.read("")["tasks"], key=lambda task: task["id"])


def test_text_comes_as_it_arrives_and_statuses_go_aside(daemon: DaemonProcess, door: Path) -> None:
    with started(daemon.url, "call", "remote", "wait", str(door)) as call:
        call.await_text("before ")
        call.await_text("working: at the door\n", "err")
        door.touch()
        done = call.result()
    assert done.status == 0, done
    assert done.out == "before after\n"
    assert done.err.splitlines()[-1] == "completed"


def test_without_a_skill_the_remote_chooses_and_the_connection_may_be_named_by_its_id(daemon: DaemonProcess) -> None:
    (row,) = daemon.read("")["outbounds"]
    done = run(daemon.url, "call", row["id"], "hello there")
    assert (done.status, done.out) == (0, "hello there\n"), done


def test_a_dash_is_standard_input(daemon: DaemonProcess) -> None:
    done = run(daemon.url, "call", "remote", "chat", "-", stdin="one\ntwo ü\n")
    assert (done.status, done.out) == (0, "one\ntwo ü\n"), done


def test_json_is_the_result_alone(daemon: DaemonProcess) -> None:
    done = run(daemon.url, "call", "remote", "chat", "hello", "--json")
    assert done.status == 0, done
    assert done.json == {
        "ok": True,
        "message": "the remote task is TASK_STATE_COMPLETED",
        "text": "hello",
        "state": "TASK_STATE_COMPLETED",
        "taskId": newest_task(daemon)["id"],
        "contextId": newest_task(daemon)["contextId"],
    }


@pytest.mark.parametrize(
    ("skill", "question"), [("ask", ["Which city?", "Say its name."]), ("login", ["Log in first"])]
)
def test_a_question_is_exit_status_3_and_its_task_goes_on(
    daemon: DaemonProcess, skill: str, question: list[str]
) -> None:
    asked = run(daemon.url, "call", "remote", skill, "the weather")
    task = newest_task(daemon)
    assert asked.status == 3, asked
    lines = [line for line in asked.err.splitlines() if line != "working"]
    how = lines[-1]
    assert lines == [*question, f"task: {task['id']}", f"context: {task['contextId']}", how]
    assert how == f'answer it: a2ad call remote {skill} --task {task["id"]} "…"'
    assert asked.out == ("So far so good.\n" if skill == "ask" else "")
    answered = run(daemon.url, "call", "remote", skill, "Oslo", "--task", task["id"])
    assert answered.status == 0, answered
    assert answered.out.rstrip("\n").endswith("Sunny in Oslo" if skill == "ask" else "inside")
    assert newest_task(daemon)["id"] == task["id"]


def test_a_questions_options_are_a_list_aside(daemon: DaemonProcess) -> None:
    asked = run(daemon.url, "call", "remote", "pick", "x")
    assert (asked.status, asked.out) == (3, "So far so good.\n"), asked
    assert "Which city?\n  oslo  Oslo, in the north\n  rome  Rome\ntask: " in asked.err
    assert '"options"' in run(daemon.url, "call", "remote", "pick", "x", "--json").json["text"]


def test_a_question_as_json_has_the_task(daemon: DaemonProcess) -> None:
    asked = run(daemon.url, "call", "remote", "login", "x", "--json")
    assert asked.status == 3, asked
    assert asked.json["state"] == "TASK_STATE_AUTH_REQUIRED"
    assert asked.json["taskId"] == newest_task(daemon)["id"]


@pytest.mark.parametrize(
    ("skill", "out", "told"),
    [
        ("fail", "half\n", "a2ad: the remote task failed: Out of paper"),
        ("reject", "", "a2ad: the remote task was rejected: Not today"),
    ],
)
def test_a_failure_is_exit_status_1_with_the_remotes_words(
    daemon: DaemonProcess, skill: str, out: str, told: str
) -> None:
    done = run(daemon.url, "call", "remote", skill, "x")
    assert (done.status, done.out) == (1, out), done
    assert done.err.splitlines()[-1] == told
    as_json = run(daemon.url, "call", "remote", skill, "x", "--json")
    assert as_json.status == 1
    assert as_json.json["ok"] is False
    assert as_json.json["state"] == f"TASK_STATE_{'FAILED' if skill == 'fail' else 'REJECTED'}"
    assert as_json.json["message"] == ("Out of paper" if skill == "fail" else "Not today")


def test_what_is_no_text_is_printed_once_behind_what_was_streamed(daemon: DaemonProcess) -> None:
    done = run(daemon.url, "call", "remote", "mixed", "x")
    assert done.status == 0, done
    for each in ("Numbers:", "Place:", '{"count":42}', "a.txt, text/plain, 5 bytes", "https://x.example/b.png"):
        assert done.out.count(each) == 1, done
    stored = Path(done.out.partition("5 bytes: ")[2].partition("]")[0])
    assert stored.read_text() == "hello"


@pytest.mark.parametrize(
    ("skill", "out", "last"),
    [
        ("closing", "All is done.\n", "completed"),
        ("both", "the answer\n", "completed: All is done."),
        ("direct", "You said x\n", None),
    ],
)
def test_closing_words_and_direct_messages_are_said_once(
    daemon: DaemonProcess, skill: str, out: str, last: str | None
) -> None:
    done = run(daemon.url, "call", "remote", skill, "x")
    assert (done.status, done.out) == (0, out), done
    assert (done.err.splitlines() or [None])[-1] == last


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_cancels_the_remote_task(
    daemon: DaemonProcess, door: Path, number: int, status: int
) -> None:
    with started(daemon.url, "call", "remote", "wait", str(door)) as call:
        call.await_text("before ")
        call.process.send_signal(number)
        done = call.result()
    assert done.status == status, done
    await_state(daemon, newest_task(daemon)["id"], "CANCELED")


def test_a_closed_pipe_ends_it_and_cancels_the_remote_task(daemon: DaemonProcess) -> None:
    with started(daemon.url, "call", "remote", "tick", "x") as call:
        call.await_text("tick\n")
        call.close_stdout()
        done = call.result()
    assert done.status == 1, done
    assert done.err.splitlines() == ["working"]
    await_state(daemon, newest_task(daemon)["id"], "CANCELED")


def test_what_cannot_be_written_is_told_in_one_line_and_ends_it(daemon: DaemonProcess) -> None:
    """At once: the task, which would go on for ever, is canceled."""
    done = run_to_full_disk(daemon.url, "call", "remote", "tick", "x")
    assert done.status == 1, done
    assert done.err.splitlines() == ["working", "a2ad: the answer cannot be written: No space left on device"]
    await_state(daemon, newest_task(daemon)["id"], "CANCELED")
    for options in ([], ["--json"]):
        done = run_to_full_disk(daemon.url, "call", "remote", "chat", "x", *options)
        assert done.status == 1, done
        assert done.err.splitlines()[-1] == "a2ad: the answer cannot be written: No space left on device"
        assert done.err.count("a2ad: ") == 1, done


def test_a_terminal_is_not_driven_and_a_pipe_gets_what_was_said(daemon: DaemonProcess) -> None:
    piped = run(daemon.url, "call", "remote", "escapes", "x")
    assert piped.out == "title \x1b]0;gotcha\x07 \u202eback\n", piped
    assert "working: red [31malert\n" in piped.err
    status, screen = on_terminal(daemon.url, "call", "remote", "escapes", "x")
    assert status == 0
    assert "title ]0;gotcha back\n" in screen
    assert "working: red [31malert\n" in screen
    assert "\x1b" not in screen


def test_a_status_on_the_same_terminal_gets_a_line_of_its_own(daemon: DaemonProcess, door: Path) -> None:
    status, screen = on_terminal(
        daemon.url, "call", "remote", "wait", str(door), answers=[("working: at the door\n", door.touch)]
    )
    assert status == 0
    assert screen.removeprefix("working\n") == "before \nworking: at the door\nafter\ncompleted\n"


def test_the_conversation_that_is_named_is_the_remotes(daemon: DaemonProcess) -> None:
    usual = run(daemon.url, "call", "remote", "chat", "a", "--json").json["contextId"]
    assert run(daemon.url, "call", "remote", "chat", "b", "--json").json["contextId"] == usual
    named = run(daemon.url, "call", "remote", "chat", "c", "--context", "of-my-own", "--json").json
    assert named["contextId"] == newest_task(daemon)["contextId"] == "of-my-own" != usual


def test_what_the_daemon_refuses_is_told(daemon: DaemonProcess) -> None:
    skill = run(daemon.url, "call", "remote", "nonsense", "x")
    assert (skill.status, skill.out) == (1, "")
    assert skill.err.startswith("a2ad: skill must be one of: chat, wait,")
    as_json = run(daemon.url, "call", "remote", "nonsense", "x", "--json")
    assert (as_json.status, as_json.json["ok"], list(as_json.json["errors"])) == (1, False, ["skill"])
    unknown = run(daemon.url, "call", "nobody", "x")
    assert (unknown.status, unknown.err) == (1, "a2ad: there is no connection 'nobody'; there are: remote\n")


def test_wrong_use_is_exit_status_2(daemon: DaemonProcess) -> None:
    for arguments in (["remote"], ["remote", ""], ["remote", "chat", "two", "words"]):
        done = run(daemon.url, "call", *arguments)
        assert (done.status, done.out) == (2, ""), done
    assert run(daemon.url, "call", "remote", os.fsdecode(b"\xff")).status == 2


def test_without_a_daemon_one_line_names_the_address_and_what_starts_one() -> None:
    done = run("http://127.0.0.1:1", "call", "remote", "x")
    assert (done.status, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert "http://127.0.0.1:1" in line
    assert "`a2ad serve --listen 127.0.0.1:1` starts one" in line


def test_a_daemon_that_goes_away_is_told_in_one_line(launch: Any, door: Path) -> None:
    daemon = launch(plugin=PLUGIN)
    inbound = daemon.create_inbound(preset="remote")
    daemon.act("outbound.create", name="remote", agentCardUrl=daemon.endpoint(inbound))
    with started(daemon.url, "call", "remote", "wait", str(door)) as call:
        call.await_text("working: at the door\n", "err")
        daemon.kill()
        done = call.result()
    assert done.status == 1, done
    assert done.out.strip() == "before"
    (line,) = done.err.splitlines()[-1:]
    assert daemon.url in line
