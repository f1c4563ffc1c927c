"""The daemon calls agents on the official Python server, unchanged, and says what they said: right, and once."""

import json
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, running
from tests.interop.outbound_support import Remote, RemoteServer, said, until_noted
from tests.lab import at_once, until

SERVER = Path(__file__).with_name("outbound_python_server.py")
TOKEN = "s3cr3t-of-the-remote"


def start(folder: Path, port: int = 0) -> RemoteServer:
    return RemoteServer([sys.executable, str(SERVER), str(port)], folder)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("caller"), env={"REMOTE_TOKEN": TOKEN}) as process:
        yield process
        assert "Traceback" not in process.log(), process.log()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteServer]:
    remote = start(tmp_path_factory.mktemp("remote"))
    yield remote
    remote.kill()


@pytest.fixture(scope="module")
def streaming(daemon: DaemonProcess, server: RemoteServer) -> Remote:
    return Remote(daemon, f"{server.url}/streaming", name="python")


@pytest.fixture(scope="module")
def blocking(daemon: DaemonProcess, server: RemoteServer) -> Remote:
    return Remote(daemon, f"{server.url}/blocking", name="blocking")


@pytest.fixture(params=["streaming", "blocking"])
def remote(request: pytest.FixtureRequest) -> Remote:
    """The agent as a server with streaming has it, and as one without."""
    found: Remote = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def own(tmp_path: Path, daemon: DaemonProcess) -> Iterator[Callable[[int], RemoteServer]]:
    """`own(port)` starts a server that the test may kill."""
    started: list[RemoteServer] = []

    def begin(port: int = 0) -> RemoteServer:
        started.append(start(tmp_path, port))
        return started[-1]

    yield begin
    for each in started:
        each.kill()


def test_a_card_is_found_by_the_endpoint_and_its_skills_are_tools(streaming: Remote) -> None:
    row = streaming.row

    assert row["state"] == "connected"
    assert row["skillCount"] == row["toolCount"] == len(row["card"]["skills"])
    assert row["card"]["endpoint"] == streaming.endpoint
    assert (row["card"]["name"], row["card"]["version"]) == ("Python agent", "3.2.1")
    assert (row["card"]["streaming"], row["card"]["protocolVersion"]) == (True, "1.0")
    tools = [tool for tool in streaming.daemon.read("/tools") if tool["connection"] == streaming.id]
    assert {tool["name"] for tool in tools} == {f"a2a__python__{skill['id']}" for skill in row["card"]["skills"]}
    assert set(tools[0]["schema"]["properties"]) == {"prompt", "taskId"}


def test_a_discovery_shows_the_card_and_connects_to_nothing(daemon: DaemonProcess, server: RemoteServer) -> None:
    before = daemon.read("")["outbounds"]

    url = f"{server.url}/blocking/.well-known/agent-card.json"
    preview = daemon.act("outbound.discover", agentCardUrl=url)["preview"]

    assert (preview["name"], preview["streaming"]) == ("Python agent", False)
    assert preview["endpoint"] == f"{server.url}/blocking"
    assert daemon.read("")["outbounds"] == before


def test_a_remote_says_who_it_talks_to_in_terms_of_the_protocol(remote: Remote) -> None:
    seen = json.loads(remote.call("context")["text"])

    assert seen["metadata"] == {"skill": "context", "a2ad/depth": 1.0}
    assert seen["version"] == "1.0"


def test_a_finished_task_gives_its_text(remote: Remote) -> None:
    answer = remote.call("echo", "hello\nthere \U0001f600")

    assert (answer["text"], answer["state"]) == ("hello\nthere \U0001f600", "TASK_STATE_COMPLETED")
    task = remote.ask("GetTask", id=answer["taskId"])
    assert task["contextId"] == answer["contextId"]


def test_chunks_are_told_as_they_come_and_put_together(remote: Remote) -> None:
    text = "one two\u2028 three \n\n four"

    progress, result = remote.followed("chunks", text)

    assert result["ok"] is True
    assert result["text"] == said(progress) == text


def test_progress_is_told_while_the_remote_works(streaming: Remote, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with streaming.calling("gate", str(gate)) as events:
        until_noted(events, "at the gate")
        gate.touch()
        *rest, (last, result) = events

    assert last == "result"
    assert result["text"] == "before after"
    assert said([data for _, data in rest]).endswith("after")


def test_a_remote_without_streaming_is_waited_for(blocking: Remote, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()

    assert blocking.call("gate", str(gate))["text"] == "before after"


def test_parts_of_every_kind_are_text_and_files_are_stored(remote: Remote) -> None:
    answer = remote.call("parts")

    first, second = answer["text"].split("\n\n")
    text, data, stored, named = first.split("\n")
    assert (text, second) == ("a text", "another text")
    assert json.loads(data) == {"count": 2, "deep": [True, None]}
    assert named == "[report.pdf, application/pdf: https://example.org/report.pdf]"
    found = re.fullmatch(r"\[file \.\./all bytes\.bin, application/x-bytes, 256 bytes: (.+)\]", stored)
    assert found is not None, stored
    path = Path(found[1])
    assert path.is_relative_to(remote.daemon.state_dir / "outbound-files")
    assert path.read_bytes() == bytes(range(256))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("skill", ["twice", "closing"])
def test_what_stands_in_artifact_and_closing_message_is_said_once(remote: Remote, skill: str) -> None:
    progress, result = remote.followed(skill, "the answer")

    assert result["text"] == "the answer"
    assert said(progress) == ("the answer" if skill == "twice" else "")


def test_a_direct_message_is_the_answer_and_no_task(remote: Remote) -> None:
    progress, result = remote.followed("message", "hello")

    assert result["text"] == said(progress) == "You said hello"
    assert result["state"] is None
    assert "taskId" not in result


def test_a_task_that_says_nothing_is_completed(remote: Remote) -> None:
    answer = remote.call("silent")

    assert (answer["text"], answer["state"]) == ("", "TASK_STATE_COMPLETED")


@pytest.mark.parametrize(
    ("skill", "state", "asks", "says"),
    [
        ("ask", "INPUT", "Which city?", "Sunny in Oslo"),
        ("ponder", "INPUT", "Which city?", "Sunny in Oslo"),
        ("login", "AUTH", "Log in first", "Logged in as Oslo"),
    ],
)
def test_a_task_that_asks_is_continued_with_its_id(
    remote: Remote, skill: str, state: str, asks: str, says: str
) -> None:
    asked = remote.call(skill)
    done = remote.call(skill, "Oslo", taskId=asked["taskId"])

    assert (asked["state"], asked["text"]) == (f"TASK_STATE_{state}_REQUIRED", asks)
    assert (done["state"], done["text"]) == ("TASK_STATE_COMPLETED", says)
    assert (done["taskId"], done["contextId"]) == (asked["taskId"], asked["contextId"])


@pytest.mark.parametrize(
    ("skill", "state", "text"),
    [("fail", "FAILED", "half of it\n\nthe disk is full"), ("reject", "REJECTED", "not my business")],
)
def test_a_task_that_failed_is_a_409_with_the_remotes_words(remote: Remote, skill: str, state: str, text: str) -> None:
    answer = remote.call(skill, status=409)

    assert answer["ok"] is False
    assert (answer["state"], answer["text"]) == (f"TASK_STATE_{state}", text)
    assert text.rsplit("\n", maxsplit=1)[-1] in answer["message"]
    assert answer["taskId"]


def test_an_agent_that_breaks_is_a_409_with_what_the_server_says(remote: Remote) -> None:
    answer = remote.call("crash", status=409)

    assert "the agent broke" in answer["message"]


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


def test_a_remote_that_makes_no_progress_is_given_up_and_its_task_canceled(
    daemon: DaemonProcess, server: RemoteServer, tmp_path: Path
) -> None:
    impatient = Remote(daemon, f"{server.url}/streaming", name="impatient", timeoutMs=1500)

    answer = impatient.call("gate", str(tmp_path / "never"), status=409, caller="impatient")

    assert "no progress for 1.5 s" in answer["message"]
    impatient.task_of("impatient", "CANCELED")


def test_a_server_that_is_killed_and_comes_back_without_the_task_is_a_clear_error(
    daemon: DaemonProcess, own: Callable[..., RemoteServer], tmp_path: Path
) -> None:
    server = own()
    remote = Remote(daemon, f"{server.url}/streaming", name="forgetful")
    with remote.calling("gate", str(tmp_path / "never")) as events:
        until_noted(events, "at the gate")
        server.kill()
        own(server.port)
        *_, (last, result) = events

    assert last == "result"
    assert result["ok"] is False
    assert "not found" in result["message"].lower()
    assert remote.call("echo", "hello again")["text"] == "hello again"


def test_a_server_that_stays_away_is_a_clear_error_until_it_is_back(
    daemon: DaemonProcess, own: Callable[..., RemoteServer]
) -> None:
    server = own()
    remote = Remote(daemon, f"{server.url}/blocking", name="away")
    tools = [tool for tool in daemon.read("/tools") if tool["connection"] == remote.id]
    server.kill()

    answer = remote.call("echo", status=409)

    assert "cannot be reached" in answer["message"]
    assert until(lambda: remote.row["state"] == "error" and remote.row)["lastError"]
    assert [tool for tool in daemon.read("/tools") if tool["connection"] == remote.id] == tools != []
    own(server.port)
    until(lambda: remote.row["state"] == "connected")
    assert remote.call("echo", "back")["text"] == "back"
    assert "lastError" not in remote.row


def test_a_token_is_sent_where_it_is_needed_and_told_to_nobody(daemon: DaemonProcess, server: RemoteServer) -> None:
    remote = Remote(daemon, f"{server.url}/protected", name="protected")

    without = remote.call("echo", status=409)
    daemon.act("outbound.setAuth", id=remote.id, token=f"{TOKEN}-wrong")
    wrong = remote.call("echo", status=409)
    daemon.act("outbound.setAuth", id=remote.id, token=TOKEN)
    progress, right = remote.followed("chunks", f"it is {TOKEN} indeed")

    assert "401" in without["message"]
    assert wrong["message"].endswith("not with Bearer ***")
    assert right["text"] == said(progress) == "it is *** indeed"
    assert remote.row["tokenSet"] is True
    assert TOKEN not in json.dumps(daemon.read("")) + daemon.log()


def test_a_token_of_the_environment_is_sent(daemon: DaemonProcess, server: RemoteServer) -> None:
    remote = Remote(daemon, f"{server.url}/protected", name="by variable", bearerTokenEnv="REMOTE_TOKEN")

    assert remote.call("echo", "let me in")["text"] == "let me in"


def test_each_caller_has_one_conversation_with_a_remote(remote: Remote) -> None:
    def contexts(**caller: Any) -> list[str]:
        seen = [remote.call("context", **caller), remote.call("context", **caller), remote.call("echo", **caller)]
        assert json.loads(seen[0]["text"])["contextId"] == seen[0]["contextId"]
        return [answer["contextId"] for answer in seen]

    of_operator, of_one, of_other = contexts(), contexts(caller="one"), contexts(caller="other")

    assert len(set(of_operator)) == len(set(of_one)) == len(set(of_other)) == 1
    assert len({of_operator[0], of_one[0], of_other[0]}) == 3


def test_a_context_that_is_given_is_used_for_that_call_alone(remote: Remote) -> None:
    usual = remote.call("context")["contextId"]

    given = remote.call("context", contextId="of-my-own")

    assert json.loads(given["text"])["contextId"] == given["contextId"] == "of-my-own"
    assert remote.call("context")["contextId"] == usual


def test_calls_at_the_same_time_do_not_mix(remote: Remote) -> None:
    answers = at_once([lambda n=n: remote.call("chunks", f"this is {n}", caller=f"c{n % 4}") for n in range(16)])

    assert [answer["text"] for answer in answers] == [f"this is {n}" for n in range(16)]
