"""`a2ad send` talks to agents on the official Python server, with streaming and without (issue 4, point 4)."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_support import Done, run, started
from tests.e2e.control_support import raw
from tests.interop.outbound_support import RemoteServer

SERVER = Path(__file__).with_name("outbound_python_server.py")
TOKEN = "s3cr3t-of-the-remote"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteServer]:
    remote = RemoteServer([sys.executable, str(SERVER), "0"], tmp_path_factory.mktemp("remote"))
    yield remote
    remote.kill()


@pytest.fixture(params=["streaming", "blocking"])
def agent(server: RemoteServer, request: pytest.FixtureRequest) -> str:
    return f"{server.url}/{request.param}"


def send(agent: str, skill: str, text: str = "hello", *options: str, **more: Any) -> Done:
    return run(None, "send", agent, text, "--skill", skill, *options, **more)


@pytest.mark.parametrize(
    ("skill", "out"),
    [
        ("echo", "one two three\n"),
        ("chunks", "one two three\n"),
        ("twice", "one two three\n"),
        ("closing", "one two three\n"),
        ("message", "You said one two three\n"),
        ("silent", ""),
    ],
)
def test_what_the_agent_says_is_said_once(agent: str, skill: str, out: str) -> None:
    done = send(agent, skill, "one two three")
    assert (done.status, done.out) == (0, out), done


def test_text_comes_as_it_arrives(server: RemoteServer, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with started(None, "send", f"{server.url}/streaming", str(gate), "--skill", "gate") as sent:
        sent.await_text("before ")
        sent.await_text("working: at the gate\n", "err")
        gate.touch()
        done = sent.result()
    assert (done.status, done.out) == (0, "before after\n"), done


@pytest.mark.parametrize(("skill", "question"), [("ask", "Which city?"), ("login", "Log in first")])
def test_a_question_is_exit_status_3_and_its_task_goes_on(agent: str, skill: str, question: str) -> None:
    asked = send(agent, skill)
    assert asked.status == 3, asked
    *_, told, task, context, _how = asked.err.splitlines()
    assert told == question
    ids = ["--task", task.removeprefix("task: "), "--context", context.removeprefix("context: ")]
    answered = send(agent, skill, "Oslo", *ids)
    assert (answered.status, answered.out) == (0, f"{'Sunny in' if skill == 'ask' else 'Logged in as'} Oslo\n")


@pytest.mark.parametrize(
    ("skill", "out", "told"),
    [
        ("fail", "half of it\n", "a2ad: the remote task failed: the disk is full"),
        ("reject", "", "a2ad: the remote task was rejected: not my business"),
    ],
)
def test_a_failure_is_exit_status_1_with_the_agents_words(agent: str, skill: str, out: str, told: str) -> None:
    done = send(agent, skill)
    assert (done.status, done.out) == (1, out), done
    assert done.err.splitlines()[-1] == told


def test_an_agent_that_breaks_is_exit_status_1(agent: str) -> None:
    done = send(agent, "crash")
    assert (done.status, done.out) == (1, ""), done
    assert done.err.splitlines()[-1].startswith("a2ad: ")


def test_data_and_files_are_told(agent: str) -> None:
    done = send(agent, "parts")
    assert done.status == 0, done
    for each in (
        "a text",
        "another text",
        "[file ../all bytes.bin, application/x-bytes, 256 bytes]",
        "[report.pdf, application/pdf: https://example.org/report.pdf]",
    ):
        assert done.out.count(each) == 1, done
    assert '"deep":[true,null]' in done.out


def test_the_token_is_sent_and_not_said(server: RemoteServer) -> None:
    agent = f"{server.url}/protected"
    sent = send(agent, "echo", f"it is {TOKEN}", "--token-env", "REMOTE_TOKEN", env={"REMOTE_TOKEN": TOKEN})
    assert (sent.status, sent.out) == (0, "it is ***\n"), sent
    without = send(agent, "echo")
    assert (without.status, without.out) == (1, ""), without
    assert "401" in without.err
    wrong = send(agent, "echo", "hello", "--token-env", "REMOTE_TOKEN", env={"REMOTE_TOKEN": "another-one"})
    assert wrong.status == 1
    assert "not with Bearer ***" in wrong.err


def test_a_signal_cancels_the_task(server: RemoteServer, tmp_path: Path) -> None:
    agent = f"{server.url}/streaming"
    with started(None, "send", agent, str(tmp_path / "gate"), "--skill", "gate", "--context", "of-this-test") as sent:
        sent.await_text("before ")
        sent.process.send_signal(signal.SIGINT)
        done = sent.result()
    assert done.status == 130, done
    params = {"contextId": "of-this-test", "pageSize": 10}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params}).encode()
    headers = [("Content-Type", "application/json"), ("A2A-Version", "1.0")]
    listed = raw(server.url, "POST", "/streaming", headers, body)
    (task,) = listed.json["result"]["tasks"]
    assert task["status"]["state"] == "TASK_STATE_CANCELED"
