"""The subagent executor with an agent that follows a script: every task has a session of its own."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message

Launch = Callable[..., DaemonProcess]

#: each line of the prompt is a step; what happens to its sessions is told in the file `told`
PLUGIN = """
import asyncio, json, pathlib
from a2ad import (Agent, AgentSession, Artifact, InputRequired, NeedsAuth, NeedsInput, Status, TaskFailed, TaskState,
                  TextDelta, ToolCall, ToolError, ToolResult, TurnEnd, hookimpl)

TOLD = pathlib.Path("told").absolute()

def tell(*what):
    with TOLD.open("a") as file:
        file.write(json.dumps(what) + "\\n")

class Session(AgentSession):
    def __init__(self, context, resumes):
        self.context, self.resumes = context, resumes
        self.turns = (context.resume or {"turns": 0})["turns"]
        self.answered = asyncio.Queue()
        tell("open", context.session_id, context.resume)

    async def prompt(self, parts, attachments):
        self.turns += 1
        for step in parts[0]["text"].splitlines():
            word, _, rest = step.partition(" ")
            if word == "say":
                yield TextDelta(rest)
            elif word == "call":
                yield ToolCall(rest, "search", {"q": rest})
            elif word == "got":
                yield ToolResult(rest, {"hits": 2})
            elif word == "broke":
                yield ToolResult(rest, "no", error=True)
            elif word == "wait":
                while not pathlib.Path(TOLD.with_name(rest)).exists():
                    await asyncio.sleep(0.02)
            elif word == "ask":
                yield NeedsInput(rest, options=[{"id": "blue", "name": "The blue one", "kind": "allow_once"}])
                yield TextDelta(await self.answered.get())
            elif word == "hurry":
                yield NeedsInput(rest, deadline=1)
                yield TextDelta(await self.answered.get())
            elif word == "auth":
                yield NeedsAuth(rest)
                yield TextDelta(await self.answered.get())
            elif word == "pause":
                yield Status(TaskState.INPUT_REQUIRED, rest)
            elif word == "raise":
                raise {"failed": TaskFailed, "input": InputRequired, "bug": RuntimeError}[rest](rest)
            elif word == "file":
                (self.context.workdir / rest).touch()
                yield TextDelta(",".join(sorted(each.name for each in self.context.workdir.iterdir())))
            elif word == "turn":
                yield TextDelta(f"turn {self.turns}")
            elif word == "remote":
                (tool,) = self.context.tools.list()
                yield TextDelta(await self.context.tools.call(tool["name"], {"prompt": rest}))
            elif word == "end":
                yield TurnEnd(rest, {"inputTokens": 3, "outputTokens": 1})
        yield TurnEnd()

    async def answer(self, parts):
        self.answered.put_nowait(parts[0]["text"])

    async def unanswered(self):
        self.answered.put_nowait("nobody")

    def state(self):
        return {"turns": self.turns} if self.resumes else None

    async def cancel(self):
        tell("cancel", self.context.session_id)

    async def close(self):
        tell("close", self.context.session_id)

class Scripted(Agent):
    def __init__(self, preset):
        self.can_resume = self.resumes = preset.options.get("resumes", False)

    async def open(self, context):
        return Session(context, self.resumes)

@hookimpl
def a2ad_register_agents(register):
    register("scripted", Scripted)

@hookimpl
def a2ad_register_presets(register):
    skill = {"id": "chat", "executor": "subagent"}
    register("delegate", {"agent": "scripted", "skills": [skill]})
    register("resumes", {"agent": "scripted", "skills": [skill], "options": {"resumes": True}})
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    process = DaemonProcess(tmp_path_factory.mktemp("subagent"), plugin=PLUGIN)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def inbound(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(preset="delegate")


def script(*steps: str) -> str:
    return "\n".join(steps)


def text_of(task: Any) -> str:
    return "".join(part["text"] for a in task["artifacts"] if a["artifactId"] == "result" for part in a["parts"])


def steps_of(task: Any) -> list[Any]:
    (steps,) = (artifact for artifact in task["artifacts"] if artifact["artifactId"] == "steps")
    ((part,),) = (steps["parts"],)
    return part["data"]["steps"]


def state_of(task: Any) -> str:
    return task["status"]["state"].removeprefix("TASK_STATE_")


def told(daemon: DaemonProcess) -> list[Any]:
    """What has happened to sessions, from the first to the last."""
    return [json.loads(line) for line in (daemon.folder / "told").read_text().splitlines()]


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def task_folder(daemon: DaemonProcess, inbound: str, task: Any) -> Path:
    return daemon.state_dir / "contexts" / inbound / "tasks" / task["id"]


def test_tool_calls_are_streamed_while_they_happen_and_listed_at_the_end(daemon: DaemonProcess, inbound: str) -> None:
    text = script("call one", "wait seen", "got one", "say found ", "call two", "broke two", "say it")
    frames = daemon.stream(inbound, "SendStreamingMessage", {"message": message(text)})
    first = next(frame["result"]["artifactUpdate"] for _, frame in frames if "artifactUpdate" in frame["result"])
    assert first["artifact"]["artifactId"] == "tool-call-one"
    assert first["artifact"]["parts"][0]["data"]["status"] == "working"
    assert [row["state"] for row in daemon.read("")["sessions"]] == ["busy"]

    (daemon.folder / "seen").touch()
    rest = [frame["result"] for _, frame in frames]
    updates = [frame["artifactUpdate"]["artifact"]["artifactId"] for frame in rest if "artifactUpdate" in frame]
    assert updates == ["tool-call-one", "result", "tool-call-two", "tool-call-two", "result", "result", "steps"]
    task = rest[-1]["task"]
    assert (state_of(task), text_of(task)) == ("COMPLETED", "found it")
    assert steps_of(task) == [
        {"id": "one", "name": "search", "arguments": {"q": "one"}, "status": "completed", "result": {"hits": 2}},
        {"id": "two", "name": "search", "arguments": {"q": "two"}, "status": "failed", "result": "no"},
    ]


def test_each_task_has_a_session_and_a_directory_of_its_own_also_in_one_context(
    daemon: DaemonProcess, inbound: str
) -> None:
    (daemon.folder / "told").unlink(missing_ok=True)
    tasks = [daemon.send(inbound, script(f"file {name}", "say -", "turn"), contextId="one") for name in ("a", "b")]
    assert [text_of(task) for task in tasks] == ["a-turn 1", "b-turn 1"]
    assert [steps_of(task) for task in tasks] == [[], []]
    assert [
        (task_folder(daemon, inbound, task) / "work" / name).exists() for task, name in zip(tasks, "ab", strict=True)
    ]

    opened, closed, opened_2, closed_2 = told(daemon)
    assert [event[0] for event in (opened, closed, opened_2, closed_2)] == ["open", "close", "open", "close"]
    assert opened[1] == closed[1] != opened_2[1] == closed_2[1]
    assert daemon.read("")["sessions"] == []


@pytest.mark.parametrize(("word", "state"), [("ask", "INPUT"), ("auth", "AUTH")])
def test_a_question_waits_for_the_next_message_and_holds_up_no_other_task(
    daemon: DaemonProcess, inbound: str, word: str, state: str
) -> None:
    task = daemon.send(inbound, script("call one", f"{word} Which?", "got one"))
    assert state_of(task) == f"{state}_REQUIRED"
    assert task["status"]["message"]["parts"][0] == {"text": "Which?"}

    other = daemon.send(inbound, "turn", contextId=task["contextId"])
    assert (state_of(other), text_of(other)) == ("COMPLETED", "turn 1")

    done = daemon.answer(inbound, task, "blue")
    assert (state_of(done), text_of(done)) == ("COMPLETED", "blue")
    assert [step["status"] for step in steps_of(done)] == ["completed"]


@pytest.mark.parametrize("word", ["pause what?", "raise input"])
def test_a_task_that_the_agent_interrupts_goes_on_in_another_session(
    daemon: DaemonProcess, inbound: str, word: str
) -> None:
    task = daemon.send(inbound, script("file first", "call one", "got one", word))
    assert state_of(task) == "INPUT_REQUIRED"
    assert "steps" not in {artifact["artifactId"] for artifact in task["artifacts"]}

    done = daemon.answer(inbound, task, script("call two", "say >", "file second"))
    assert text_of(done) == ">first,second"
    assert [step["id"] for step in steps_of(done)] == ["one", "two"]


def test_how_the_turn_ends_is_how_the_task_ends_and_the_steps_are_listed(daemon: DaemonProcess, inbound: str) -> None:
    refused = daemon.send(inbound, script("call one", "end refusal"))
    assert (state_of(refused), len(steps_of(refused))) == ("REJECTED", 1)
    short = daemon.send(inbound, script("say cut", "end max_tokens"))
    assert short["metadata"] == {"usage": {"inputTokens": 3, "outputTokens": 1}, "stopReason": "max_tokens"}
    assert (state_of(short), text_of(short), steps_of(short)) == ("COMPLETED", "cut", [])
    worn = daemon.send(inbound, script("say cut", "call one", "end max_turn_requests"))
    assert (state_of(worn), text_of(worn), len(steps_of(worn))) == ("FAILED", "cut", 1)
    assert worn["metadata"] == {"usage": {"inputTokens": 3, "outputTokens": 1}, "stopReason": "max_turn_requests"}
    for why in ("failed", "bug"):
        failed = daemon.send(inbound, script("say half", "call one", f"raise {why}"))
        assert (state_of(failed), text_of(failed), len(steps_of(failed))) == ("FAILED", "half", 1)
        assert failed["status"]["message"]["parts"] == [{"text": why}]
    assert daemon.read("")["sessions"] == []


def test_cancel_stops_the_turn_and_closes_the_session(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, script("call one", "wait never"), configuration={"returnImmediately": True})
    until(lambda: daemon.read("")["sessions"])
    assert daemon.read("")["sessions"][0]["taskId"] == task["id"]
    (daemon.folder / "told").write_text("")
    assert state_of(daemon.cancel(inbound, task["id"])) == "CANCELED"
    until(lambda: [event[0] for event in told(daemon)] == ["cancel", "close"])
    assert daemon.read("")["sessions"] == []


def test_a_remote_agent_is_a_tool_of_the_session_and_no_two_tasks_are_one_conversation_with_it(
    daemon: DaemonProcess, inbound: str
) -> None:
    remote = daemon.create_inbound(preset="standard")
    daemon.act("outbound.create", name="remote", agentCardUrl=f"{daemon.endpoint(remote)}/agent-card.json")
    tasks = [daemon.send(inbound, "remote hello, you", contextId="caller") for _ in range(2)]
    assert [text_of(task) for task in tasks] == ["hello, you"] * 2
    called = daemon.result(remote, "ListTasks", {})["tasks"]
    assert len({task["contextId"] for task in called}) == 2


def test_no_skill_gets_it_that_does_not_ask_for_it(launch: Launch) -> None:
    daemon = launch()
    daemon.send(daemon.create_inbound(), "hello")
    assert [row["executor"] for row in daemon.read("")["tasks"]] == ["session"]


def test_past_their_number_a_task_is_rejected(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN, config="[limits]\nruns = 1\n")
    inbound = daemon.create_inbound(preset="delegate")
    asking = [daemon.send(inbound, "ask Which?") for _ in range(2)]
    assert [state_of(task) for task in asking] == ["INPUT_REQUIRED"] * 2
    refused = daemon.send(inbound, "turn")
    assert state_of(refused) == "REJECTED"
    assert "2 sub-agents" in refused["status"]["message"]["parts"][0]["text"]

    daemon.answer(inbound, asking[0], "blue")
    assert state_of(daemon.send(inbound, "turn")) == "COMPLETED"


ends = pytest.mark.parametrize("end", ["terminate", "kill"])


def again(daemon: DaemonProcess, end: str) -> None:
    getattr(daemon, end)()
    daemon.start()


@ends
def test_a_task_that_waited_is_answered_after_a_restart_where_the_agent_can_resume(launch: Launch, end: str) -> None:
    daemon = launch(plugin=PLUGIN)
    inbound = daemon.create_inbound(preset="resumes")
    text = script("file kept", "call one", "got one", "ask Which?", "say >", "turn")
    task = daemon.send(inbound, text)
    (opened,) = [event for event in told(daemon)[:1] if event[0] == "open"]
    again(daemon, end)
    assert daemon.task(inbound, task["id"])["status"] == task["status"]
    assert [event[0] for event in told(daemon)].count("open") == 1, "nothing is opened before there is an answer"

    done = daemon.answer(inbound, task, " the BLUE one.")
    assert (state_of(done), text_of(done)) == ("COMPLETED", "keptblue>turn 2")
    assert [step["id"] for step in steps_of(done)] == ["one"]
    assert ["open", opened[1], {"turns": 1}] in told(daemon)


@ends
def test_a_task_that_waited_fails_where_the_agent_cannot_resume(launch: Launch, end: str) -> None:
    daemon = launch(plugin=PLUGIN)
    inbound = daemon.create_inbound(preset="delegate")
    tasks = [daemon.send(inbound, text) for text in ("ask Which?", "auth A key?", "pause what?")]
    again(daemon, end)
    for task in tasks:
        failed = daemon.task(inbound, task["id"])
        assert state_of(failed) == "FAILED"
        assert failed["status"]["message"]["parts"] == [
            {"text": "The daemon stopped while the task waited for an answer"}
        ]
        refused = daemon.rpc(inbound, "SendMessage", {"message": message("blue", taskId=task["id"])})
        assert refused["error"]["code"] == -32004
    assert daemon.act("task.answer", status=409, id=tasks[0]["id"], option="blue")["errors"]["id"]


@ends
def test_a_task_that_ran_is_taken_again_where_the_agent_can_resume_and_else_fails(launch: Launch, end: str) -> None:
    daemon = launch(plugin=PLUGIN, config="[limits]\nshutdown_seconds = 0.2\n")
    tasks = {}
    for preset in ("resumes", "delegate"):
        inbound = daemon.create_inbound(preset=preset)
        tasks[inbound] = daemon.begin(inbound, script("file one", "wait seen", "turn"))
    until(lambda: len(daemon.read("")["sessions"]) == 2)
    again(daemon, end)
    (daemon.folder / "seen").touch()
    resumed, lost = tasks.items()
    until(lambda: state_of(daemon.task(resumed[0], resumed[1]["id"])) == "COMPLETED")
    assert text_of(daemon.task(resumed[0], resumed[1]["id"])) == "oneturn 1"
    failed = daemon.task(lost[0], lost[1]["id"])
    assert failed["status"]["message"]["parts"] == [{"text": "The daemon stopped while the task ran"}]


def test_another_question_than_the_one_that_was_answered_is_asked(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN)
    inbound = daemon.create_inbound(preset="resumes")
    task = daemon.send(inbound, script("ask First?", "ask Second?"))
    task = daemon.answer(inbound, task, "blue")
    again(daemon, "kill")
    task = daemon.answer(inbound, task, "blue")
    assert state_of(task) == "INPUT_REQUIRED"
    assert task["status"]["message"]["parts"][0] == {"text": "First?"}


def test_what_answered_a_turn_that_had_ended_is_the_prompt_that_is_taken_again(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN)
    inbound = daemon.create_inbound(preset="resumes")
    task = daemon.send(inbound, script("say a", "pause what?"))
    again(daemon, "kill")
    task = daemon.answer(inbound, task, script("say b", "ask Which?", "turn"))
    again(daemon, "kill")
    done = daemon.answer(inbound, task, "blue")
    assert (state_of(done), text_of(done)) == ("COMPLETED", "bblueturn 3")


def test_a_deadline_that_passes_after_a_restart_ends_a_question(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN)
    inbound = daemon.create_inbound(preset="resumes")
    task = daemon.send(inbound, script("hurry Which?", "turn"))
    again(daemon, "kill")
    until(lambda: state_of(daemon.task(inbound, task["id"])) == "COMPLETED")
    assert text_of(daemon.task(inbound, task["id"])) == "nobodyturn 2"


def test_a_question_that_nobody_answers_for_too_long_is_let_go_of_as_a_conversation_s(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN, config="[limits]\nask_seconds = 0.2\n")
    delegate, resumes = (daemon.create_inbound(preset=preset) for preset in ("delegate", "resumes"))
    lost, waits = daemon.begin(delegate, "ask Which?"), daemon.begin(resumes, script("ask Which?", "turn"))
    until(lambda: state_of(daemon.task(delegate, lost["id"])) == "FAILED")
    failed = daemon.task(delegate, lost["id"])
    assert failed["status"]["message"]["parts"] == [{"text": "Nobody answered in time"}]
    until(lambda: not daemon.read("")["sessions"])
    assert state_of(daemon.task(resumes, waits["id"])) == "INPUT_REQUIRED"
    assert text_of(daemon.answer(resumes, waits, "blue")) == "blueturn 2"


def test_its_directory_goes_with_the_task_and_with_the_inbound(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN, config="[store]\nretention_days = 0.00003\n")  # some three seconds
    inbound = daemon.create_inbound(preset="delegate")
    ended = daemon.send(inbound, "file here", contextId="one")
    waits = daemon.send(inbound, script("file here", "ask Which?"), contextId="one")
    until(lambda: not task_folder(daemon, inbound, ended).exists())
    assert (task_folder(daemon, inbound, waits) / "work" / "here").exists()
    assert state_of(daemon.task(inbound, waits["id"])) == "INPUT_REQUIRED"

    daemon.act("inbound.remove", id=inbound)
    assert not task_folder(daemon, inbound, waits).exists()


def test_a_daemon_that_stops_closes_the_sessions_of_tasks_that_run(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN, config="[limits]\nshutdown_seconds = 1\n")
    inbound = daemon.create_inbound(preset="delegate")
    daemon.send(inbound, "ask Which?")
    daemon.send(inbound, "wait never", configuration={"returnImmediately": True})
    until(lambda: len(daemon.read("")["sessions"]) == 2)
    assert daemon.terminate() == 0
    events = told(daemon)
    opened = {event[1] for event in events if event[0] == "open"}
    assert opened == {event[1] for event in events if event[0] == "close"}
