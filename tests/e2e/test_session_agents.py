"""The session executor with an agent that calls tools, asks, remembers and fails."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message

PLUGIN = """
import asyncio
from a2ad import (Agent, AgentSession, NeedsAuth, NeedsInput, Status, TaskFailed, TaskState, TextDelta, ToolCall,
                  ToolResult, TurnEnd, hookimpl)

class Session(AgentSession):
    def __init__(self, context):
        self.turns = (context.resume or {"turns": 0})["turns"]
        self.answered = asyncio.Queue()

    async def prompt(self, parts, attachments):
        self.turns += 1
        word = parts[0]["text"]
        if word == "tool":
            yield ToolCall("1", "search", {"q": "x"})
            yield TextDelta("found ")
            yield ToolResult("1", {"hits": 2})
            yield ToolCall("2", "broken")
            yield ToolResult("2", "no", error=True)
        elif word == "ask":
            yield NeedsInput("Which?", options=[{"id": "a", "name": "A", "kind": "allow_once"}])
            yield TextDelta("you said " + (await self.answered.get()))
        elif word == "auth":
            yield NeedsAuth("a key")
            yield TextDelta("key " + (await self.answered.get()))
        elif word == "crash":
            raise RuntimeError("the agent broke")
        elif word == "refuse":
            yield TurnEnd("refusal")
        elif word == "short":
            yield TextDelta("cut")
            yield TurnEnd("max_tokens", {"inputTokens": 3, "outputTokens": 1})
        elif word == "endless":
            yield TextDelta("so far")
            yield TurnEnd("max_turn_requests")
        elif word == "counted":
            yield TurnEnd(usage={"inputTokens": 3, "outputTokens": 1})
        elif word == "drive the terminal":
            yield Status(TaskState.WORKING, [{"text": "\\x1b[2Jcleared"}])
            options = [{"id": "a\\x1b", "name": "A\\x1b\\nB", "kind": "allow_once"}]
            yield NeedsInput("Which\\x1b[8m?\\x07\\nSay", options, tool={"name": "rm\\x00\\nls", "arguments": None})
            yield TextDelta(await self.answered.get())
            raise TaskFailed("ended\\x1b]0;title\\x07 badly")
        elif word == "fail":
            raise TaskFailed("out of paper")
        elif word == "end badly":
            yield TextDelta("half")
            yield Status(TaskState.FAILED, "out of ink", {"usage": {"inputTokens": 1, "outputTokens": 0}})
        elif word == "hang":
            yield TextDelta("hanging")
            await asyncio.sleep(3600)
        yield TextDelta(f"turn {self.turns}")
        yield TurnEnd()

    async def answer(self, parts):
        self.answered.put_nowait(parts[0]["text"])

    def state(self):
        return {"turns": self.turns}

class Fake(Agent):
    async def open(self, context):
        return Session(context)

@hookimpl
def a2ad_register_agents(register):
    register("fake", lambda preset: Fake())

@hookimpl
def a2ad_register_presets(register):
    register("fake", {"agent": "fake"})
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    process = DaemonProcess(tmp_path_factory.mktemp("agents"), plugin=PLUGIN)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def inbound(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(preset="fake")


def _text(task: Any) -> str:
    return "".join(part["text"] for a in task["artifacts"] if a["artifactId"] == "result" for part in a["parts"])


def test_tool_calls_are_artifacts_with_one_data_part_each(daemon: DaemonProcess, inbound: str) -> None:
    frames = [
        frame["result"] for _, frame in daemon.stream(inbound, "SendStreamingMessage", {"message": message("tool")})
    ]

    updates = [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]
    first = [
        update["artifact"]["parts"][0]["data"]
        for update in updates
        if update["artifact"]["artifactId"] == "tool-call-1"
    ]
    assert first == [
        {"name": "search", "arguments": {"q": "x"}, "status": "working", "result": None},
        {"name": "search", "arguments": {"q": "x"}, "status": "completed", "result": {"hits": 2}},
    ]
    assert not any(update["append"] for update in updates if update["artifact"]["artifactId"].startswith("tool-call"))
    last = frames[-1]["task"]
    assert [artifact["artifactId"] for artifact in last["artifacts"]] == ["tool-call-1", "result", "tool-call-2"]
    assert last["artifacts"][2]["parts"][0]["data"]["status"] == "failed"
    assert _text(last) == "found turn 1"
    text = [update for update in updates if update["artifact"]["artifactId"] == "result"]
    assert [update["append"] for update in text] == [False, True, True]
    assert [update["lastChunk"] for update in text] == [False, False, True]


@pytest.mark.parametrize(
    ("word", "state", "answer", "said"), [("ask", "INPUT", "A", "you said a"), ("auth", "AUTH", "blue", "key blue")]
)
def test_an_agent_that_needs_something_waits_for_the_next_message(
    daemon: DaemonProcess, inbound: str, word: str, state: str, answer: str, said: str
) -> None:
    task = daemon.send(inbound, word)
    assert task["status"]["state"] == f"TASK_STATE_{state}_REQUIRED"

    other = daemon.send(inbound, "hello", contextId=task["contextId"])
    assert other["status"]["state"] == "TASK_STATE_REJECTED"
    assert task["id"] in other["status"]["message"]["parts"][0]["text"]

    done = daemon.send(inbound, answer, taskId=task["id"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert _text(done) == f"{said}turn 1"


def test_an_answer_that_names_none_of_the_options_has_them_repeated(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, "ask")
    question = task["status"]["message"]["parts"]

    for wrong in ("blue", "B"):
        again = daemon.send(inbound, wrong, taskId=task["id"])
        assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert again["status"]["message"]["parts"] == question

    parts = [{"data": {"option": "a"}}, {"text": "as you like"}]
    done = daemon.send(inbound, "", taskId=task["id"], parts=parts)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"


def test_one_session_serves_a_context_and_counts_its_turns(daemon: DaemonProcess, inbound: str) -> None:
    first = daemon.send(inbound, "hello")
    second = daemon.send(inbound, "hello", contextId=first["contextId"])
    assert (_text(first), _text(second)) == ("turn 1", "turn 2")
    rows = [row for row in daemon.read("")["sessions"] if row["contextId"] == first["contextId"]]
    assert [(row["agent"], row["state"], row["turns"]) for row in rows] == [("fake", "idle", 2)]


def test_how_a_turn_ends_is_how_the_task_ends(daemon: DaemonProcess, inbound: str) -> None:
    assert daemon.send(inbound, "refuse")["status"]["state"] == "TASK_STATE_REJECTED"
    short = daemon.send(inbound, "short")
    assert short["status"]["state"] == "TASK_STATE_COMPLETED"
    assert short["metadata"] == {"usage": {"inputTokens": 3, "outputTokens": 1}, "stopReason": "max_tokens"}
    endless = daemon.send(inbound, "endless")
    assert (endless["status"]["state"], _text(endless)) == ("TASK_STATE_FAILED", "so far")
    assert endless["metadata"] == {"stopReason": "max_turn_requests"}
    assert daemon.send(inbound, "counted")["metadata"] == {**short["metadata"], "stopReason": "end_turn"}
    assert "metadata" not in daemon.send(inbound, "hello")
    crashed = daemon.send(inbound, "crash")
    assert crashed["status"]["state"] == "TASK_STATE_FAILED"
    assert crashed["status"]["message"]["parts"] == [{"text": "the agent broke"}]
    assert daemon.send(inbound, "hello", contextId=crashed["contextId"])["status"]["state"] == "TASK_STATE_COMPLETED"


def test_what_an_agent_says_in_statuses_drives_no_terminal_and_what_it_answers_is_left_alone(
    daemon: DaemonProcess, inbound: str
) -> None:
    task = daemon.send(inbound, "drive the terminal")
    text, data = task["status"]["message"]["parts"]
    assert text == {"text": "Which[8m?\nSay"}
    assert data["data"]["question"] == text["text"]
    assert data["data"]["options"] == [{"id": "a\x1b", "name": "A B", "kind": "allow_once"}]
    assert data["data"]["tool"]["name"] == "rm ls"

    done = daemon.send(inbound, "a b", taskId=task["id"])
    assert _text(done) == "a\x1b"
    assert done["status"]["message"]["parts"] == [{"text": "ended]0;title badly"}]
    told = [part["text"] for each in done["history"] for part in each["parts"] if "text" in part]
    assert "\x1b" not in "".join(told)


def test_a_turn_that_ends_with_a_status_closes_its_text_first(daemon: DaemonProcess, inbound: str) -> None:
    params = {"message": message("end badly")}
    frames = [frame["result"] for _, frame in daemon.stream(inbound, "SendStreamingMessage", params)]

    assert [frame["artifactUpdate"]["lastChunk"] for frame in frames if "artifactUpdate" in frame] == [False, True]
    task = frames[-1]["task"]
    assert (task["status"]["state"], _text(task)) == ("TASK_STATE_FAILED", "half")
    assert task["status"]["message"]["parts"] == [{"text": "out of ink"}]
    assert task["metadata"] == {"usage": {"inputTokens": 1, "outputTokens": 0}}


def test_turns_that_failed_or_were_canceled_count_also_after_the_daemon_was_killed(
    launch: Callable[..., DaemonProcess],
) -> None:
    daemon = launch(plugin=PLUGIN)
    inbound = daemon.create_inbound(preset="fake")
    for word in ("fail", "end badly", "counted"):
        daemon.send(inbound, word, contextId="c")
    frames = daemon.stream(inbound, "SendStreamingMessage", {"message": message("hang", contextId="c")})
    task_id = next(frame["result"]["task"]["id"] for _, frame in frames)
    next(frame for _, frame in frames if "artifactUpdate" in frame["result"])
    daemon.rpc(inbound, "CancelTask", {"id": task_id})
    daemon.kill()

    assert _text(launch(plugin=PLUGIN).send(inbound, "hello", contextId="c")) == "turn 5"


def test_an_idle_session_is_closed_and_its_conversation_goes_on_also_after_a_restart(
    launch: Callable[..., DaemonProcess],
) -> None:
    daemon = launch(plugin=PLUGIN, config="[limits]\nidle_session_seconds = 0.2\n")
    inbound = daemon.create_inbound(preset="fake")
    task = daemon.send(inbound, "hello")
    end = time.monotonic() + 30
    while daemon.read("")["sessions"] and time.monotonic() < end:
        time.sleep(0.05)
    assert daemon.read("")["sessions"] == []
    assert _text(daemon.send(inbound, "hello", contextId=task["contextId"])) == "turn 2"
    assert daemon.terminate() == 0

    again = launch(plugin=PLUGIN)
    assert _text(again.send(inbound, "hello", contextId=task["contextId"])) == "turn 3"
