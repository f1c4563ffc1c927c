"""A daemon that calls itself, and one that calls another: the reference's own example (1.1, 1.4), agents with tools,
run limits, chains, conversations, policy, and remotes that go away.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import running
from tests.e2e.control_support import Background, await_state, get_task, start_task, text_of
from tests.e2e.outbound_support import PLUGIN, Launch, Pair, connect, launching, said
from tests.lab import until


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with running(tmp_path_factory.mktemp("self"), plugin=PLUGIN) as daemon:
        yield Pair(daemon)
        assert "Traceback" not in daemon.log(), daemon.log()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Launch]:
    """`begin(name, **more)` starts a daemon in a folder of that name, once more with its state and on its port."""
    with launching(tmp_path) as start:
        yield start


def test_a_daemon_is_connected_to_itself_as_the_reference_shows_it(pair: Pair) -> None:
    row = pair.row
    tools = {tool["name"]: tool for tool in pair.daemon.read("/tools")}

    assert (row["name"], row["state"], row["enabled"]) == ("b", "connected", True)
    assert (row["skillCount"], row["toolCount"], row["timeoutMs"]) == (2, 2, 60000)
    assert set(tools) == {"a2a__b__chat", "a2a__b__other"}
    assert (tools["a2a__b__chat"]["title"], tools["a2a__b__chat"]["skill"]) == ("Chat", "chat")
    assert row["tools"] == {"chat": "a2a__b__chat", "other": "a2a__b__other"}
    assert pair.operator("echo hello there")["text"] == "hello there"


def test_an_agents_session_is_offered_the_tools_and_calls_them(pair: Pair) -> None:
    offered = json.loads(said(pair.daemon.send(pair.caller, "tools")))
    task = pair.call("echo hello")

    assert [tool["name"] for tool in offered] == ["a2a__b__chat", "a2a__b__other"]
    assert all(set(tool) == {"name", "title", "description", "schema"} for tool in offered)
    assert said(task) == "hello"
    (call,) = [artifact for artifact in task["artifacts"] if artifact["artifactId"] == "tool-call-1"]
    assert call["parts"][0]["data"]["status"] == "completed"
    assert call["parts"][0]["data"]["result"] == "hello"


def test_a_remote_task_that_fails_is_a_tool_error_with_its_words(pair: Pair) -> None:
    task = pair.call("fail")

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert said(task) == "error: The remote agent's task failed: the disk is full"
    told = pair.operator("fail", status=409)
    assert (told["message"], told["text"]) == ("the disk is full", "half\n\nthe disk is full")


@pytest.mark.parametrize(("word", "says"), [("ask", "Sunny in Oslo"), ("raise", "resumed with Oslo")])
def test_a_tool_that_needs_input_says_its_task_and_is_called_again_with_it(pair: Pair, word: str, says: str) -> None:
    first = pair.call(word)
    asked = said(first)
    task_id = asked.split('"taskId": "')[1].split('"')[0]
    elsewhere = pair.call("Oslo", task=task_id)
    other_process = pair.operator("Oslo", 409, taskId=task_id, caller="a process")
    done = pair.call("Oslo", task=task_id, contextId=first["contextId"])

    assert asked.startswith("Which city?\n\n")
    assert said(elsewhere) == "error: no task of this conversation waits under that taskId"
    assert other_process["message"] == "no task of this conversation waits under that taskId"
    assert said(done) == says
    assert pair.other.read(f"/task?id={task_id}")["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("arguments", ["{}", '{"prompt": ""}', '{"prompt": 3}', '{"prompt": "x", "taskId": 1}', "[]"])
def test_arguments_that_are_wrong_are_a_tool_error(pair: Pair, arguments: str) -> None:
    answer = said(pair.daemon.send(pair.caller, f"call a2a__b__chat {arguments}"))

    assert answer.startswith("error: ")
    assert "must be" in answer


def test_a_tool_that_is_not_there_is_a_tool_error(pair: Pair) -> None:
    assert said(pair.call("x", tool="a2a__b__nothing")) == "error: there is no tool 'a2a__b__nothing'"


def test_policy_hooks_are_asked_about_every_call_and_deny_it(pair: Pair) -> None:
    before = len(pair.remote_tasks())
    session_call = said(pair.call("echo forbidden"))
    operators = pair.operator("echo forbidden", status=409, skill="other")

    assert session_call == "error: denied by policy: not that word"
    assert "denied by policy: not that word" in operators["message"]
    assert len(pair.remote_tasks()) == before
    calls = [json.loads(line) for line in (pair.daemon.folder / "calls").read_text().splitlines()]
    assert ["b", "a2a__b__chat", "chat", "echo forbidden", f"inbound:{pair.caller}"] in calls
    assert ["b", "a2a__b__other", "other", "echo forbidden", "operator"] in calls


def test_every_caller_has_a_conversation_of_its_own(pair: Pair) -> None:
    first = pair.call("context")
    again = said(pair.call("context", contextId=first["contextId"]))
    session = said(pair.daemon.send(pair.caller, "session", contextId=first["contextId"]))
    found = {
        "session": said(first),
        "second": said(pair.call("context")),
        "operator": pair.operator("context")["text"],
        "process": pair.operator("context", caller="a process")["text"],
    }

    assert len(set(found.values())) == 4
    assert again == pair.operator("context", session=session)["text"] == found["session"]
    assert pair.operator("context")["text"] == found["operator"]


def test_a_session_that_is_not_there_calls_nothing(pair: Pair) -> None:
    before = len(pair.remote_tasks())

    answer = pair.operator("echo x", status=409, session="no-such-session")

    assert "has ended" in answer["message"]
    assert len(pair.remote_tasks()) == before


def test_canceling_the_task_whose_agent_waits_for_a_tool_cancels_the_remotes(pair: Pair, tmp_path: Path) -> None:
    prompt = f"gate {tmp_path / 'never'}"
    call = json.dumps({"prompt": prompt})
    task_id = start_task(pair.daemon, pair.caller, f"call a2a__b__chat {call}")
    (waiting,) = until(lambda: pair.remote_tasks("WORKING"), within=20)

    answer = pair.daemon.rpc(pair.caller, "CancelTask", {"id": task_id})

    assert answer["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    await_state(pair.other, waiting["id"], "CANCELED")
    assert said(pair.call("echo after all", contextId=answer["result"]["contextId"])) == "after all"


def test_a_connection_that_is_removed_ends_its_calls_and_the_remotes_tasks(pair: Pair, tmp_path: Path) -> None:
    outbound = connect(pair.daemon, pair.other.endpoint(pair.remote), name="short-lived")
    prompt = json.dumps({"prompt": f"gate {tmp_path / 'never'}"})
    task_id = start_task(pair.daemon, pair.caller, f"call a2a__short-lived__chat {prompt}")
    (waiting,) = until(lambda: pair.remote_tasks("WORKING"), within=20)

    pair.daemon.act("outbound.remove", id=outbound)

    await_state(pair.other, waiting["id"], "CANCELED")
    await_state(pair.daemon, task_id, "COMPLETED")
    told = pair.daemon.rpc(pair.caller, "GetTask", {"id": task_id})["result"]
    assert said(told).startswith("error: the connection 'short-lived' was taken away")


def test_disabled_skills_are_no_tools_and_overrides_change_titles_alone(pair: Pair) -> None:
    overrides = {"chat": {"name": "Ask B", "description": "Ask B anything"}}
    outbound = connect(
        pair.daemon, pair.other.endpoint(pair.remote), name="c", disabledSkills=["other"], skillOverrides=overrides
    )
    try:
        (tool,) = [tool for tool in pair.daemon.read("/tools") if tool["connection"] == outbound]
        answer = pair.operator("echo x", id=outbound, skill="chat")
        refused = pair.operator("echo x", 409, id=outbound, skill="other")
        by_tool = said(pair.call("echo x", tool="a2a__c__other"))
        pair.daemon.act("outbound.update", id=outbound, disabledSkills=[], skillOverrides={})
        after = [tool for tool in pair.daemon.read("/tools") if tool["connection"] == outbound]
    finally:
        pair.daemon.act("outbound.remove", id=outbound)

    assert (tool["name"], tool["title"], tool["description"]) == ("a2a__c__chat", "Ask B", "Ask B anything")
    assert answer["text"] == "x"
    assert refused["message"] == "the skill 'other' is disabled"
    assert by_tool == "error: there is no tool 'a2a__c__other'"
    assert [(tool["name"], tool["title"]) for tool in after] == [("a2a__c__chat", "Chat"), ("a2a__c__other", "other")]


def test_conversations_questions_and_tools_are_the_same_after_a_restart(begin: Launch) -> None:
    pair = Pair(begin("one"), begin("two"))
    first = pair.call("context")
    asked = pair.operator("raise")
    before = [said(first), *(pair.operator("context", **who)["text"] for who in ({}, {"caller": "p"}))]
    tools = pair.daemon.read("/tools")
    assert pair.daemon.terminate() == 0

    pair.daemon = begin("one")

    assert pair.daemon.read("/tools") == tools
    after = [said(pair.call("context", contextId=first["contextId"]))]
    after += [pair.operator("context", **who)["text"] for who in ({}, {"caller": "p"})]
    assert after == before
    done = pair.operator("Oslo", taskId=asked["taskId"])
    assert (done["text"], done["contextId"]) == ("resumed with Oslo", asked["contextId"])


def test_tools_stay_while_the_remote_is_away_also_over_a_restart(begin: Launch) -> None:
    pair = Pair(begin("one"), begin("two"), timeoutMs=2000)
    tools = pair.daemon.read("/tools")
    assert pair.other.terminate() == 0

    away = said(pair.call("echo x"))
    until(lambda: pair.row["state"] == "error")
    assert away.startswith("error: ")
    assert pair.daemon.read("/tools") == tools != []
    assert (pair.row["toolCount"], bool(pair.row["lastError"])) == (2, True)
    assert pair.daemon.terminate() == 0
    pair.daemon = begin("one")
    until(lambda: pair.row["state"] == "error")
    assert pair.daemon.read("/tools") == tools
    assert "there is no connection to 'b'" in said(pair.call("echo x"))

    pair.other = begin("two")
    until(lambda: pair.row["state"] == "connected")
    assert said(pair.call("echo back")) == "back"


def test_a_remote_that_is_killed_while_it_works_is_taken_up_again_when_it_is_back(
    begin: Launch, tmp_path: Path
) -> None:
    """The other daemon keeps its tasks: it settles what the crash left behind, and the call says so."""
    pair = Pair(begin("one"), begin("two"))
    call = Background(pair.call, f"gate {tmp_path / 'never'}")
    until(lambda: pair.remote_tasks("WORKING"))
    pair.other.kill()

    pair.other = begin("two")

    (settled,) = pair.remote_tasks("FAILED")
    status = get_task(pair.other, pair.remote, settled["id"])["status"]
    assert said(call.result()) == f"error: The remote agent's task failed: {status['message']['parts'][0]['text']}"


def test_the_operators_call_tells_the_text_of_its_only_artifact(pair: Pair) -> None:
    answer = pair.operator("echo once", skill="other")
    task = pair.other.rpc(pair.remote, "GetTask", {"id": answer["taskId"]})["result"]

    assert answer["text"] == text_of(task) == "once"
    assert answer["contextId"] == task["contextId"]
