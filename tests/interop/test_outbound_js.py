"""The daemon calls agents on the official JavaScript server, unchanged, and says what they said: right, and once."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess, running
from tests.interop.outbound_support import Remote, RemoteServer, said, until_noted
from tests.interop.test_a2a_js import INSTALLS_WITHIN, node_is_there
from tests.lab import at_once

SOURCES = Path(__file__).with_name("js_server")
TOKEN = "s3cr3t-of-the-remote"

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(not node_is_there(), reason="the JavaScript server needs Node.js 20 or newer and npm"),
]

Starter = Callable[..., RemoteServer]


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """`begin(port)` starts a server, with its packages from the registry that npm is set up for."""
    folder = tmp_path_factory.mktemp("js-server")
    for name in ("package.json", "server.mjs"):
        shutil.copy(SOURCES / name, folder / name)
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=INSTALLS_WITHIN, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    started: list[RemoteServer] = []

    def start(port: int = 0) -> RemoteServer:
        started.append(RemoteServer(["node", "server.mjs", str(port)], folder))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("caller")) as process:
        yield process
        assert "Traceback" not in process.log(), process.log()


@pytest.fixture(scope="module")
def server(begin: Starter) -> RemoteServer:
    return begin()


@pytest.fixture(scope="module")
def streaming(daemon: DaemonProcess, server: RemoteServer) -> Remote:
    return Remote(daemon, f"{server.url}/streaming", name="js")


@pytest.fixture(scope="module")
def blocking(daemon: DaemonProcess, server: RemoteServer) -> Remote:
    return Remote(daemon, f"{server.url}/blocking", name="blocking")


@pytest.fixture(params=["streaming", "blocking"])
def remote(request: pytest.FixtureRequest) -> Remote:
    """The agent as a server with streaming has it, and as one without."""
    found: Remote = request.getfixturevalue(request.param)
    return found


def test_a_card_is_found_by_the_endpoint_and_its_skills_are_tools(streaming: Remote) -> None:
    row = streaming.row

    assert row["state"] == "connected"
    assert row["skillCount"] == row["toolCount"] == len(row["card"]["skills"])
    assert (row["card"]["name"], row["card"]["endpoint"]) == ("JavaScript agent", streaming.endpoint)
    tools = [tool for tool in streaming.daemon.read("/tools") if tool["connection"] == streaming.id]
    assert {tool["name"] for tool in tools} == {f"a2a__js__{skill['id']}" for skill in row["card"]["skills"]}


@pytest.mark.parametrize("skill", ["echo", "chunks", "twice"])
def test_what_a_task_says_is_told_as_it_comes_and_once(remote: Remote, skill: str) -> None:
    text = "one two\u2028 three \n\n four \U0001f600"

    progress, result = remote.followed(skill, text)

    assert result["text"] == said(progress) == text
    assert result["state"] == "TASK_STATE_COMPLETED"
    assert remote.ask("GetTask", id=result["taskId"])["contextId"] == result["contextId"]


def test_a_closing_message_is_the_answer_where_there_is_no_artifact(remote: Remote) -> None:
    progress, result = remote.followed("closing", "the answer")

    assert result["text"] == "the answer"
    assert said(progress) == ""


def test_a_direct_message_is_the_answer_and_no_task(remote: Remote) -> None:
    progress, result = remote.followed("message", "hello")

    assert result["text"] == said(progress) == "You said hello"
    assert result["state"] is None
    assert "taskId" not in result


def test_progress_is_told_while_the_remote_works(streaming: Remote, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with streaming.calling("gate", str(gate)) as events:
        until_noted(events, "at the gate")
        gate.touch()
        *_, (last, result) = events

    assert last == "result"
    assert result["text"] == "before after"


def test_parts_of_every_kind_are_text_and_files_are_stored(remote: Remote) -> None:
    answer = remote.call("parts")

    first, second = answer["text"].split("\n\n")
    text, data, stored, named = first.split("\n")
    assert (text, second) == ("a text", "another text")
    assert data == '{"count":2,"deep":[true,null]}'
    assert named == "[report.pdf, application/pdf: https://example.org/report.pdf]"
    found = re.fullmatch(r"\[file \.\./all bytes\.bin, application/x-bytes, 256 bytes: (.+)\]", stored)
    assert found is not None, stored
    assert Path(found[1]).is_relative_to(remote.daemon.state_dir / "outbound-files")
    assert Path(found[1]).read_bytes() == bytes(range(256))


@pytest.mark.parametrize(
    ("skill", "state", "asks", "says"),
    [
        ("ask", "INPUT", "Which city?", "Sunny in Oslo"),
        ("study", "INPUT", "Which city?", "Let me see: sunny in Oslo"),
        ("ponder", "INPUT", "Which city?", "Sunny in Oslo"),
        ("login", "AUTH", "Log in first", "Logged in as Oslo"),
    ],
)
def test_a_task_that_asks_is_continued_although_the_first_frame_repeats_the_question(
    remote: Remote, skill: str, state: str, asks: str, says: str
) -> None:
    asked = remote.call(skill)
    progress, done = remote.followed(skill, "Oslo", taskId=asked["taskId"])

    assert (asked["state"], asked["text"]) == (f"TASK_STATE_{state}_REQUIRED", asks)
    assert (done["state"], done["text"]) == ("TASK_STATE_COMPLETED", says)
    assert said(progress) == says
    assert (done["taskId"], done["contextId"]) == (asked["taskId"], asked["contextId"])


@pytest.mark.parametrize(
    ("skill", "state", "text"),
    [
        ("fail", "FAILED", "half of it\n\nthe disk is full"),
        ("reject", "REJECTED", "not my business"),
        ("crash", "FAILED", "Agent execution error: the agent broke"),
    ],
)
def test_a_task_that_failed_is_a_409_with_the_remotes_words(remote: Remote, skill: str, state: str, text: str) -> None:
    answer = remote.call(skill, status=409)

    assert (answer["state"], answer["text"]) == (f"TASK_STATE_{state}", text)
    assert text.rsplit("\n", maxsplit=1)[-1] in answer["message"]
    assert answer["taskId"]


def test_a_task_that_is_canceled_at_the_server_ends_the_call(streaming: Remote, tmp_path: Path) -> None:
    with streaming.calling("gate", str(tmp_path / "never"), caller="canceled there") as events:
        until_noted(events, "at the gate")
        task = streaming.task_of("canceled there", "WORKING")
        streaming.ask("CancelTask", id=task["id"])
        *_, (last, result) = events

    assert last == "result"
    assert (result["ok"], result["state"]) == (False, "TASK_STATE_CANCELED")


def test_who_hangs_up_cancels_the_remotes_task(streaming: Remote, tmp_path: Path) -> None:
    with streaming.calling("gate", str(tmp_path / "never"), caller="hung up") as events:
        until_noted(events, "at the gate")
        streaming.task_of("hung up", "WORKING")

    streaming.task_of("hung up", "CANCELED")


def test_a_server_that_is_killed_and_comes_back_without_the_task_is_a_clear_error(
    daemon: DaemonProcess, begin: Starter, tmp_path: Path
) -> None:
    server = begin()
    remote = Remote(daemon, f"{server.url}/streaming", name="forgetful")
    with remote.calling("gate", str(tmp_path / "never")) as events:
        until_noted(events, "at the gate")
        server.kill()
        begin(server.port)
        *_, (last, result) = events

    assert last == "result"
    assert result["ok"] is False
    assert "not found" in result["message"].lower()
    assert remote.call("echo", "hello again")["text"] == "hello again"


def test_the_public_card_of_an_endpoint_that_wants_a_token_is_found(
    daemon: DaemonProcess, server: RemoteServer
) -> None:
    preview = daemon.act("outbound.discover", agentCardUrl=f"{server.url}/protected")["preview"]

    assert preview["endpoint"] == f"{server.url}/protected"


def test_a_token_is_sent_where_it_is_needed_and_told_to_nobody(daemon: DaemonProcess, server: RemoteServer) -> None:
    endpoint = f"{server.url}/protected"
    remote = Remote(daemon, endpoint, name="protected", agentCardUrl=f"{endpoint}/.well-known/agent-card.json")

    without = remote.call("echo", status=409)
    daemon.act("outbound.setAuth", id=remote.id, token=f"{TOKEN}-wrong")
    wrong = remote.call("echo", status=409)
    daemon.act("outbound.setAuth", id=remote.id, token=TOKEN)
    progress, right = remote.followed("chunks", f"it is {TOKEN} indeed")

    assert "401" in without["message"]
    assert wrong["message"].endswith("not with Bearer ***")
    assert right["text"] == said(progress) == "it is *** indeed"
    assert TOKEN not in json.dumps(daemon.read("")) + daemon.log()


def test_each_caller_has_one_conversation_with_a_remote(remote: Remote) -> None:
    def contexts(**caller: str) -> set[str]:
        seen = [remote.call("context", **caller), remote.call("context", **caller)]
        assert {json.loads(answer["text"])["contextId"] for answer in seen} == {seen[0]["contextId"]}
        return {answer["contextId"] for answer in [*seen, remote.call("echo", **caller)]}

    found = [contexts(), contexts(caller="one"), contexts(caller="other")]

    assert [len(each) for each in found] == [1, 1, 1]
    assert len(set.union(*found)) == 3


def test_calls_at_the_same_time_do_not_mix(remote: Remote) -> None:
    answers = at_once([lambda n=n: remote.call("chunks", f"this is {n}", caller=f"c{n % 4}") for n in range(16)])

    assert [answer["text"] for answer in answers] == [f"this is {n}" for n in range(16)]
