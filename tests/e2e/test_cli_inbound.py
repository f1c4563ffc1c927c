"""`a2ad inbound`: agents are published, tried and removed from the command line."""

import json
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_support import PLUGIN, Done, on_terminal, run, started
from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import until

HOSTILE = "red \x1b[31m \u202eevil\x07"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    env = {"INBOUND_TOKEN": "of-the-daemon"}
    with running(tmp_path_factory.mktemp("inbound"), plugin=PLUGIN, env=env) as daemon:
        yield daemon


@pytest.fixture
def inbound(daemon: DaemonProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    """The id of one that is called `mine`; it is gone afterwards."""
    inbound = daemon.create_inbound(name="mine", preset="remote")
    yield inbound
    if row(daemon, inbound):
        daemon.act("inbound.remove", id=inbound)


def row(daemon: DaemonProcess, inbound: str) -> dict[str, Any]:
    return next((row for row in daemon.read("")["inbounds"] if row["id"] == inbound), {})


def command(daemon: DaemonProcess, *arguments: str, status: int = 0, **more: Any) -> Done:
    done = run(daemon.url, "inbound", *arguments, **more)
    assert done.status == status, done
    return done


def test_add_prints_the_id_alone_and_sends_every_option(daemon: DaemonProcess) -> None:
    added = command(
        daemon,
        *("add", "reports", "--description", "All reports", "--version", "2.1.0", "--preset", "remote"),
        *("--path", "/a2a/reports", "--auth-token-env", "INBOUND_TOKEN"),
    )
    found = row(daemon, added.out.strip())
    wanted = {
        "name": "reports",
        "description": "All reports",
        "version": "2.1.0",
        "preset": "remote",
        "endpointPath": "/a2a/reports",
        "authTokenEnv": "INBOUND_TOKEN",
        "enabled": True,
        "tokenSet": True,
    }
    assert {key: found[key] for key in wanted} == wanted
    assert added.err == 'a2ad: inbound server "reports" created\n'
    assert command(daemon, "remove", "reports", "--yes", "--json").json["ok"] is True


def test_one_that_is_added_with_a_token_wants_it_from_the_first_moment(daemon: DaemonProcess) -> None:
    made = command(daemon, "create", "secret", "--token-file", "-", "--json", stdin="s3cr3t\n").json
    assert made["ok"] is True
    found = row(daemon, made["id"])
    assert (found["enabled"], found["tokenSet"]) == (True, True)
    assert daemon.rpc(made["id"], "GetTask", {"id": "x"})["error"]["code"] == -32040
    headers = {"Authorization": "Bearer s3cr3t"}
    assert daemon.rpc(made["id"], "GetTask", {"id": "x"}, headers=headers)["error"]["code"] == -32001
    command(daemon, "remove", made["id"], "--yes")


def test_what_the_daemon_refuses_is_told_with_its_fields(daemon: DaemonProcess) -> None:
    refused = command(daemon, "add", "x", "--path", "/a2a/api", "--json", status=1)
    assert list(refused.json["errors"]) == ["endpointPath"]
    assert refused.err == f"a2ad: {refused.json['message']}\n"
    nobody = command(daemon, "show", "nobody", status=1)
    assert nobody.err == "a2ad: there is no inbound server 'nobody'; there is none yet\n"


def test_list_show_and_card_tell_what_the_control_api_has(daemon: DaemonProcess, inbound: str) -> None:
    found = row(daemon, inbound)
    assert command(daemon, "--json").json == command(daemon, "list", "--json").json == [found]
    assert command(daemon, "show", "mine", "--json").json == found
    assert command(daemon, "card", "mine", "--json").json == daemon.read(f"/card?id={inbound}")
    assert command(daemon, "list").out.splitlines()[1].split() == [
        *(inbound, "mine", "enabled", "remote", "none", found["cardUrl"], "-")
    ]
    for name in ("show", "card"):
        shown = dict(
            line.split(maxsplit=1) for line in command(daemon, name, inbound).out.split("\n\n")[0].splitlines()
        )
        assert (shown["name"], shown["url"]) == ("mine", found["cardUrl"])


def test_update_disable_and_enable_change_it(daemon: DaemonProcess, inbound: str) -> None:
    before = row(daemon, inbound)
    told = command(daemon, "update", "mine", "--description", "Another", "--version", "9")
    assert told.out == 'inbound server "mine" updated\n'
    assert row(daemon, inbound) == {**before, "description": "Another", "version": "9"}
    command(daemon, "update", "mine", status=2)
    command(daemon, "disable", "mine")
    assert command(daemon, "list").out.splitlines()[1].split()[2] == "disabled"
    command(daemon, "enable", inbound)
    assert row(daemon, inbound)["enabled"] is True


def test_a_token_is_set_from_a_variable_a_file_or_standard_input_and_cleared(
    daemon: DaemonProcess, inbound: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("of-the-file\n")
    for arguments, more, token in (
        (["--token-env", "MINE"], {"env": {"MINE": "of-the-variable"}}, "of-the-variable"),
        (["--token-file", str(tmp_path / "token")], {}, "of-the-file"),
        (["--token-file", "-"], {"stdin": "of-dash"}, "of-dash"),
        ([], {"stdin": "of-stdin\n"}, "of-stdin"),
    ):
        told = command(daemon, "token", "set", "mine", *arguments, **more)
        assert token not in told.out + told.err
        answer = daemon.rpc(inbound, "GetTask", {"id": "x"}, headers={"Authorization": f"Bearer {token}"})
        assert answer["error"]["code"] == -32001
    command(daemon, "token", "clear", "mine")
    assert row(daemon, inbound)["tokenSet"] is False


@pytest.mark.parametrize(
    "arguments", [["--token-env", "NOT_SET"], ["--token-file", "/nonexistent"], [], ["s3cr3t"], ["--token-file", "-"]]
)
def test_a_token_that_is_none_is_wrong_use_and_changes_nothing(
    daemon: DaemonProcess, inbound: str, arguments: list[str]
) -> None:
    command(daemon, "token", "set", "mine", *arguments, status=2, stdin=" \n")
    command(daemon, "token", "set", "mine", *arguments, status=2, stdin="two words\n")
    assert row(daemon, inbound)["tokenSet"] is False


def test_a_terminal_is_asked_twice_for_the_token_and_does_not_show_it(daemon: DaemonProcess, inbound: str) -> None:
    answers = [("Token: ", "typed-by-hand\n"), ("Repeat for confirmation: ", "typed-by-hand\n")]
    status, screen = on_terminal(daemon.url, "inbound", "token", "set", "mine", answers=answers)
    assert status == 0, screen
    assert "typed-by-hand" not in screen
    assert row(daemon, inbound)["tokenSet"] is True


def test_remove_asks_and_says_what_is_lost(daemon: DaemonProcess, inbound: str) -> None:
    daemon.send(inbound, "hello")
    question = f"Remove the inbound server 'mine' ({inbound}), with its 1 task(s), their artifacts and its token?"
    status, screen = on_terminal(daemon.url, "inbound", "remove", "mine", answers=[("[y/N]: ", "n\n")], columns=200)
    assert question in screen
    assert (status, bool(row(daemon, inbound))) == (1, True)
    status, screen = on_terminal(daemon.url, "inbound", "remove", "mine", answers=[("[y/N]: ", "y\n")], columns=200)
    assert (status, bool(row(daemon, inbound))) == (0, False), screen


def test_without_a_terminal_remove_wants_to_be_told(daemon: DaemonProcess, inbound: str) -> None:
    assert "--yes" in command(daemon, "remove", "mine", status=2).err
    assert row(daemon, inbound)


def test_names_cannot_drive_the_terminal(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound(name=HOSTILE, description=HOSTILE)
    for arguments in (
        ["list"],
        ["show", inbound],
        ["card", inbound],
        ["disable", inbound],
        ["remove", inbound, "--yes"],
    ):
        status, screen = on_terminal(daemon.url, "inbound", *arguments)
        assert status == 0
        assert screen.replace("\n", "").isprintable(), (arguments, screen)


def test_a_trial_prints_the_text_as_it_comes_and_statuses_aside(
    daemon: DaemonProcess, inbound: str, tmp_path: Path
) -> None:
    door = tmp_path / "door"
    with started(daemon.url, "inbound", "test", "mine", "--skill", "wait", str(door)) as process:
        process.await_text("before ")
        process.await_text("working: at the door", "err")
        door.touch()
        done = process.result()
    assert (done.status, done.out) == (0, "before after\n")
    assert done.err.splitlines()[-1] == "completed"


def test_a_trial_that_ends_badly_or_waits_says_so_by_its_status(daemon: DaemonProcess, inbound: str) -> None:
    failed = command(daemon, "test", "mine", "x", "--skill", "fail", status=1)
    assert (failed.out, failed.err.splitlines()[-1]) == ("half\n", "a2ad: the task failed: Out of paper")
    asked = command(daemon, "test", "mine", "x", "--skill", "ask", status=3)
    *_, task, context, how = asked.err.splitlines()
    assert how == f'answer it: a2ad inbound test mine --task {task.removeprefix("task: ")} --skill ask "…"'
    answered = command(daemon, "test", "mine", "Oslo", "--task", task.removeprefix("task: "))
    assert answered.out.endswith("Sunny in Oslo\n")
    assert context.startswith("context: ")
    assert "is not a skill of this agent" in command(daemon, "test", "mine", "x", "--skill", "nothing", status=1).err


def test_a_trial_lists_the_options_of_a_question_aside(daemon: DaemonProcess, inbound: str) -> None:
    asked = command(daemon, "test", "mine", "x", "--skill", "pick", status=3)
    assert asked.out == "So far so good.\n"
    assert "Which city?\n  oslo  Oslo, in the north\n  rome  Rome\ntask: " in asked.err
    words = shlex.split(asked.err.splitlines()[-1].removeprefix("answer it: a2ad inbound "))
    assert command(daemon, *words[:-1], "oslo").out.endswith("It is oslo\n")


@pytest.mark.parametrize(("number", "ended"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_trial_that_is_left_cancels_its_task_and_says_so(
    daemon: DaemonProcess, inbound: str, tmp_path: Path, number: int, ended: int
) -> None:
    with started(daemon.url, "inbound", "test", "mine", "--skill", "wait", str(tmp_path / "door")) as process:
        process.await_text("before ")
        process.process.send_signal(number)
        done = process.result()
    assert (done.status, done.out) == (ended, "before ")
    assert done.err.splitlines()[-1] == "a2ad: canceling the task; the same again leaves at once"
    assert daemon.read("")["tasks"][0]["state"] == "TASK_STATE_CANCELED"


def test_a_trial_shows_files_and_data_on_lines_of_their_own_and_replies(daemon: DaemonProcess, inbound: str) -> None:
    mixed = command(daemon, "test", "mine", "x", "--skill", "mixed").out
    assert mixed == (
        'Numbers:\n{"count": 42}\n[a.txt text/plain, 5 bytes]\n\n\nPlace:\n[image/png: https://x.example/b.png]\n'
    )
    assert command(daemon, "test", "mine", "hi", "--skill", "direct").out == "You said hi\n"


def test_a_trial_as_json_is_the_control_apis_answer_and_the_wire_is_json_rpc(
    daemon: DaemonProcess, inbound: str
) -> None:
    answer = command(daemon, "test", "mine", "hello", "--json").json
    assert (answer["ok"], answer["task"]["status"]["state"]) == (True, "TASK_STATE_COMPLETED")
    request, *frames = map(json.loads, command(daemon, "test", "mine", "hello", "--wire").out.splitlines())
    assert request["method"] == "SendStreamingMessage"
    assert all(frame["jsonrpc"] == "2.0" for frame in frames)
    assert list(frames[-1]["result"]) == ["task"]


def test_a_trial_that_does_not_wait_prints_the_tasks_id(daemon: DaemonProcess, inbound: str, tmp_path: Path) -> None:
    door = tmp_path / "door"
    task = command(daemon, "test", "mine", "--skill", "wait", "--no-wait", str(door)).out.strip()
    assert daemon.read(f"/task?id={task}")["state"] == "TASK_STATE_WORKING"
    door.touch()
    until(lambda: daemon.read(f"/task?id={task}")["state"] == "TASK_STATE_COMPLETED", "it goes on")
