"""The tool loop of the agent `openai`: the daemon is connected to itself, and a scripted model calls its tools."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import message, running
from tests.e2e.control_support import Background, await_state, start_task, until
from tests.e2e.openai_support import KEY, OTHER, PLUGIN, TOOL, Agents, calls_of, preset, said, state_of, why
from tests.hostile import no_faults
from tests.remote import Gate
from tests.scripted_llm import DONE, ScriptedModel, asks, call, delta, fails, says, streams


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedModel]:
    with ScriptedModel() as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, scripted: ScriptedModel) -> Iterator[Agents]:
    config = "\n".join([
        preset(scripted), preset(scripted, "no-tools", tools=False), preset(scripted, "two-rounds", max_rounds=2),
        preset(scripted, "small", context_tokens=1500),
    ])  # fmt: skip
    environment = {"SCRIPTED_KEY": KEY}
    with running(tmp_path_factory.mktemp("tools"), config=config, env=environment, plugin=PLUGIN) as daemon:
        found = Agents(daemon, scripted)
        found.connect()
        yield found


@pytest.fixture
def agents(shared: Agents) -> Iterator[Agents]:
    shared.model.requests.clear()
    with no_faults(shared.daemon):
        yield shared
    shared.model.answers()


def answers_of(agents: Agents) -> dict[str, str]:
    """What the model was told last about its calls, by their ids."""
    return {each["tool_call_id"]: each["content"] for each in agents.model.messages if each["role"] == "tool"}


def test_the_outbound_tools_are_functions_whose_names_fit(agents: Agents) -> None:
    agents.ask("hi")
    functions = {tool["function"]["name"]: tool for tool in agents.model.bodies[0]["tools"]}
    assert set(functions) == {TOOL, OTHER, "a2a__b__R_sum___fix_it", "a2a__c__chat"}
    assert functions[TOOL]["type"] == "function"
    assert functions[TOOL]["function"]["parameters"]["required"] == ["prompt"]
    assert "remote agent" in functions[TOOL]["function"]["description"]


def test_a_tool_is_called_its_answer_goes_to_the_model_and_both_are_shown(agents: Agents) -> None:
    agents.model.answers(asks(call(TOOL, {"prompt": "echo hi there"}), text="Let me see. "), says("It says hi."))

    sent = {"message": message("what does it say?")}
    frames = [frame["result"] for _, frame in agents.daemon.stream(agents.inbound(), "SendStreamingMessage", sent)]

    task = frames[-1]["task"]
    shown = [
        frame["artifactUpdate"]["artifact"]["parts"][0]["data"]["status"]
        for frame in frames
        if frame.get("artifactUpdate", {}).get("artifact", {}).get("artifactId") == "tool-call-call_1"
    ]
    assert (state_of(task), said(task)) == ("COMPLETED", "Let me see. It says hi.")
    assert shown == ["working", "completed"]
    assert calls_of(task) == {
        "call_1": {"name": TOOL, "arguments": {"prompt": "echo hi there"}, "status": "completed", "result": "hi there"}
    }
    assert task["metadata"]["usage"] == {"inputTokens": 20, "outputTokens": 10}
    asked, made, told = agents.model.messages
    assert asked == {"role": "user", "content": "what does it say?"}
    assert made["content"] == "Let me see. "
    assert made["tool_calls"][0]["function"] == {"name": TOOL, "arguments": '{"prompt":"echo hi there"}'}
    assert told == {"role": "tool", "tool_call_id": "call_1", "content": "hi there"}


def test_several_calls_run_at_the_same_time_and_each_result_is_shown_when_it_is_there(
    agents: Agents, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    first = call(TOOL, {"prompt": f"gate {gate}"}, "slow", 0)
    agents.model.answers(asks(first, call(OTHER, {"prompt": "echo quick"}, "quick", 1)), says("Done."))
    task_id = start_task(agents.daemon, agents.inbound(), "both")

    def statuses() -> dict[str, str]:
        return {key: each["status"] for key, each in calls_of(agents.daemon.read(f"/task?id={task_id}")).items()}

    until(lambda: statuses() == {"slow": "working", "quick": "completed"}, "the quick call is done")
    gate.touch()
    row = await_state(agents.daemon, task_id, "COMPLETED")

    assert said(row) == "Done."
    assert list(answers_of(agents).items()) == [("slow", str(gate)), ("quick", "quick")]


def test_more_calls_than_run_at_the_same_time_are_made_in_turn(agents: Agents) -> None:
    calls = [call("a2a__b__chat", {"prompt": f"echo {n}"}, f"id{n}", n) for n in range(40)]
    agents.model.answers(asks(*calls), says("Done."))

    task = agents.ask("all of them", contextId="many")

    assert (state_of(task), said(task)) == ("COMPLETED", "Done.")
    assert len(calls_of(task)) == len(answers_of(agents)) == 40
    assert {each["status"] for each in calls_of(task).values()} <= {"completed", "failed"}


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        (TOOL, '{"prompt": "echo', "not valid JSON"),
        (TOOL, "echo hi", "not valid JSON"),
        (TOOL, '["echo hi"]', "must be a JSON object"),
        (TOOL, "", "prompt must be a text"),
        (TOOL, {"prompt": 3}, "prompt must be a text"),
        (TOOL, {"prompt": "fail"}, "The remote agent's task failed: the disk is full"),
        ("nothing", {"prompt": "x"}, f"there is no tool 'nothing'; there are: {TOOL}, "),
        ("no name!", {"prompt": "x"}, "there is no tool 'no name!'; there are: "),
        ("nothing", '{"prompt": "echo', "there is no tool 'nothing'; there are: "),
        ("nothing", {"prompt": 3}, "there is no tool 'nothing'; there are: "),
    ],
)
def test_what_goes_wrong_with_a_call_is_told_to_the_model_which_goes_on(
    agents: Agents, name: str, arguments: Any, told: str
) -> None:
    agents.model.answers(asks(call(name, arguments)), says("So be it."))

    task = agents.ask("try", contextId="wrong")

    assert (state_of(task), said(task)) == ("COMPLETED", "So be it.")
    (shown,) = calls_of(task).values()
    assert (shown["name"], shown["status"]) == (name, "failed")
    assert told in shown["result"]
    assert answers_of(agents)["call_1"] == f"The call failed: {shown['result']}"


def test_calls_of_clumsy_servers_are_made_all_the_same(agents: Agents) -> None:
    """One without an id, one whose id was there before, and an end that says `stop`."""
    first, again = call(TOOL, {"prompt": "echo one"}, ""), call(TOOL, {"prompt": "echo two"}, "call_1")
    agents.model.answers(
        asks(first, finish="stop"), asks(again, finish="stop"), asks(again, finish="stop"), says("Done.")
    )
    task = agents.ask("three times")

    assert said(task) == "Done."
    assert [each["result"] for each in calls_of(task).values()] == ["one", "two", "two"]
    assert len(answers_of(agents)) == 3


def test_an_endpoint_that_does_not_stream_is_understood(agents: Agents) -> None:
    function = {"name": TOOL, "arguments": '{"prompt": "echo whole"}'}
    made = {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "type": "function", "function": function}]}
    ended = {"prompt_tokens": 7, "completion_tokens": 2}
    whole = {"choices": [{"index": 0, "message": made, "finish_reason": "tool_calls"}], "usage": ended}
    answer = {"choices": [{"index": 0, "message": {"content": "Done."}, "finish_reason": "stop"}], "usage": ended}
    agents.model.answers(
        *[streams(json.dumps(each).encode(), content_type="application/json") for each in (whole, answer)]
    )
    task = agents.ask("hi")

    assert (said(task), calls_of(task)["x"]["result"]) == ("Done.", "whole")
    assert task["metadata"]["usage"] == {"inputTokens": 14, "outputTokens": 4}


def test_past_max_rounds_the_task_fails_and_keeps_what_there_is(agents: Agents) -> None:
    one, two = call(TOOL, {"prompt": "echo one"}, "1"), call(TOOL, {"prompt": "echo two"}, "2")
    agents.model.answers(asks(one, text="First. "), asks(two, text="Second."))

    task = agents.ask("for ever", "two-rounds", contextId="rounds")
    agents.model.answers()
    after = agents.ask("and?", "two-rounds", contextId="rounds")

    assert state_of(task) == "FAILED"
    assert why(task) == "The model failed: it still calls tools after 2 answers (max_rounds)"
    assert said(task) == "First. Second."
    assert list(calls_of(task)) == ["1"]
    assert task["metadata"] == {"usage": {"inputTokens": 20, "outputTokens": 10}, "stopReason": "max_turn_requests"}
    assert said(after) == "message 2: and?"
    assert [each["content"] for each in agents.model.messages] == ["for ever", "First. ", "one", "Second.", "and?"]


def test_a_failure_between_rounds_leaves_a_conversation_that_goes_on(agents: Agents) -> None:
    agents.model.answers(asks(call(TOOL, {"prompt": "echo one"}, "1")), streams("half", DONE[:3]))
    failed = agents.ask("try", contextId="between")
    agents.model.answers()
    after = agents.ask("and?", contextId="between")

    assert (state_of(failed), said(failed)) == ("FAILED", "half")
    assert failed["metadata"] == {"usage": {"inputTokens": 10, "outputTokens": 5}}
    assert said(after) == "message 2: and?"
    assert [each["content"] for each in agents.model.messages] == ["try", None, "one", "half", "and?"]


def test_a_refusal_between_rounds_takes_the_whole_turn_back(agents: Agents) -> None:
    """What the endpoint does not take, a tool's answer say, would be refused with every turn that follows."""
    agents.model.answers(asks(call(TOOL, {"prompt": "echo one"}, "1")), fails(400, "Content Exists Risk"))
    failed = agents.ask("try", contextId="risk")
    agents.model.answers()

    assert why(failed).endswith("Content Exists Risk")
    assert said(agents.ask("and?", contextId="risk")) == "message 1: and?"


def test_a_cancel_cancels_the_calls_and_the_conversation_goes_on(agents: Agents, tmp_path: Path) -> None:
    quick, slow = call(OTHER, {"prompt": "echo quick"}, "q", 0), call(TOOL, {"prompt": f"gate {tmp_path}/no"}, "s", 1)
    agents.model.answers(asks(quick, slow))
    task_id = start_task(agents.daemon, agents.inbound(), "both", contextId="canceled")
    remote = agents.inbound("remote")

    def at_the_gate() -> Any:
        rows = agents.daemon.read(f"?taskServerId={remote}&taskState=TASK_STATE_WORKING")["tasks"]
        done = calls_of(agents.daemon.read(f"/task?id={task_id}")).get("q", {})
        return rows if done.get("status") == "completed" else None

    (waiting,) = until(at_the_gate, "the remote's task waits")
    canceled = agents.daemon.rpc(agents.inbound(), "CancelTask", {"id": task_id})["result"]
    await_state(agents.daemon, waiting["id"], "CANCELED")
    agents.model.answers()
    after = agents.ask("and?", contextId="canceled")

    assert state_of(canceled) == "CANCELED"
    assert said(after) == "message 2: and?"
    assert answers_of(agents) == {"q": "quick", "s": "The call was interrupted: it has no result."}


def test_a_model_without_tools_calls_none(agents: Agents) -> None:
    agents.model.answers(asks(call(TOOL, {"prompt": "echo hi"})), says("Well."))
    remote = agents.inbound("remote")
    before = agents.daemon.read(f"?taskServerId={remote}")["taskTotal"]

    task = agents.ask("hi", "no-tools")

    assert "tools" not in agents.model.bodies[0]
    assert calls_of(task)["call_1"]["result"] == "there are no tools here"
    assert agents.daemon.read(f"?taskServerId={remote}")["taskTotal"] == before


def test_a_long_answer_of_a_tool_is_cut_for_the_model_alone(agents: Agents) -> None:
    made = call(TOOL, {"prompt": "long 100000"})
    agents.model.answers(asks(made), asks(made), says("Done."))

    task = agents.ask("hi", "small")

    assert state_of(task) == "COMPLETED"
    assert [len(each["result"]) for each in calls_of(task).values()] == [100_000, 100_000]
    told = list(answers_of(agents).values())
    assert all(each.endswith("of 100000 bytes are left out here]") for each in told)
    assert len(json.dumps(agents.model.messages)) < 1500 * 3


def test_a_turn_that_outgrows_the_context_fails_before_more_is_sent_and_keeps_what_there_is(agents: Agents) -> None:
    agents.model.answers(asks(call(TOOL, {"prompt": "w" * 600}), text="t" * 600))

    task = agents.ask("hi", "small", contextId="grows")
    sizes = [len(asked.body) // 3 for asked in agents.model.asked("POST")]
    agents.model.answers()
    after = agents.ask("and?", "small", contextId="grows")

    assert state_of(task) == "FAILED"
    assert "tokens, and the agent's context_tokens are 1500" in why(task)
    assert len(calls_of(task)) == len(sizes) > 1
    assert said(task) == "t" * 600 * len(sizes)
    assert max(sizes) <= 1500
    assert task["metadata"]["usage"]["inputTokens"] == 10 * len(sizes)
    assert said(after) == "message 2: and?"


def test_calls_that_were_cut_off_by_the_token_limit_are_not_made(agents: Agents) -> None:
    agents.model.answers(asks(call(TOOL, {"prompt": "echo hi"}), text="Let me", finish="length"))
    task = agents.ask("hi")
    assert (state_of(task), said(task), calls_of(task)) == ("COMPLETED", "Let me", {})
    assert task["metadata"]["stopReason"] == "max_tokens"


def test_text_beside_a_call_is_streamed_before_the_call_is_made(agents: Agents, tmp_path: Path) -> None:
    gate = Gate()
    pieces = call(TOOL, {"prompt": "echo hi"})
    agents.model.answers(streams("Wait. ", gate, *pieces, delta({}, "tool_calls"), DONE), says("Done."))
    frames = agents.daemon.stream(agents.inbound(), "SendStreamingMessage", {"message": message("hi")})
    for _, frame in frames:
        if "artifactUpdate" in frame["result"]:
            assert frame["result"]["artifactUpdate"]["artifact"]["parts"] == [{"text": "Wait. "}]
            break
    gate.open()
    assert said([frame for _, frame in frames][-1]["result"]["task"]) == "Wait. Done."


def test_two_conversations_take_their_turns_side_by_side(agents: Agents) -> None:
    gates = Gate(), Gate()
    agents.model.answers(*[streams("a", gate, "b", delta({}, "stop"), DONE) for gate in gates])
    both = [Background(agents.ask, "hi", contextId=f"side {number}") for number in range(2)]
    until(lambda: len(agents.model.bodies) == 2, "both are asked")
    for gate in gates:
        gate.open()
    assert [said(each.result()) for each in both] == ["ab", "ab"]
