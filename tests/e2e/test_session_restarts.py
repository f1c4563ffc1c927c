"""What becomes of a session's turn when the daemon ends in it, and of questions that nobody answers."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.lab import until

#: an agent that tells its prompts, and that keeps those of the turns that ended
PLUGIN = """
import asyncio
from a2ad import Agent, AgentSession, NeedsAuth, NeedsInput, Status, TaskState, TextDelta, TurnEnd, hookimpl

OPTIONS = [{"id": "a", "name": "A", "kind": "allow_once"}]

class Session(AgentSession):
    def __init__(self, context):
        self.resumed = context.resume is not None
        self.prompts = list((context.resume or {"prompts": []})["prompts"])
        self.answered = asyncio.Queue()

    async def prompt(self, parts, attachments):
        word, *more = parts[0]["text"].split()
        if word == "hang":
            yield TextDelta("begun ")
            await asyncio.sleep(0 if self.resumed else 1000)
        elif word == "ask":
            for name in more:
                yield NeedsInput(f"May I {name}?", OPTIONS, tool={"name": name, "arguments": [attachments[0].size]
                                 if attachments else None})
                yield TextDelta(f"{name} {await self.answered.get()} ")
        elif word == "auth":
            yield NeedsAuth("a key")
            yield TextDelta(f"key {await self.answered.get()} ")
        elif word == "late":
            yield NeedsInput("Quick?", deadline=0.2)
            yield TextDelta(await self.answered.get())
        elif word == "within":
            yield NeedsInput("Quick?", OPTIONS, deadline=float(more[0]))
            yield TextDelta(await self.answered.get())
        elif word == "withdraw":
            withdrawn = asyncio.Event()
            asyncio.get_running_loop().call_later(0.2, withdrawn.set)
            yield NeedsInput("Ever?", withdrawn=withdrawn)
            yield TextDelta("never mind ")
        elif word == "stop":
            yield Status(TaskState.INPUT_REQUIRED, "And?")
        self.prompts.append(parts[0]["text"])
        yield TextDelta(" | ".join(self.prompts))
        yield TurnEnd()

    async def answer(self, parts):
        self.answered.put_nowait(parts[0]["text"])

    def state(self):
        return {"prompts": self.prompts}

class Patient(Session):
    async def unanswered(self):
        self.answered.put_nowait("nobody ")

class Fails(Agent):
    async def open(self, context):
        return Session(context)

class Resumes(Agent):
    can_resume = True

    async def open(self, context):
        return Patient(context)

@hookimpl
def a2ad_register_agents(register):
    register("fails", lambda preset: Fails())
    register("resumes", lambda preset: Resumes())

@hookimpl
def a2ad_register_presets(register):
    register("fails", {"agent": "fails"})
    register("resumes", {"agent": "resumes"})
"""
LIMITS = "[limits]\nshutdown_seconds = 0.2\n"
Launch = Callable[..., DaemonProcess]
ends = pytest.mark.parametrize("end", ["terminate", "kill"])


def _start(launch: Launch, preset: str, config: str = LIMITS) -> tuple[DaemonProcess, str]:
    daemon = launch(plugin=PLUGIN, config=config)
    return daemon, daemon.create_inbound(preset=preset)


def _again(launch: Launch, daemon: DaemonProcess, end: str) -> DaemonProcess:
    getattr(daemon, end)()
    return launch(plugin=PLUGIN, config=LIMITS)


def _text(task: Any) -> str:
    return "".join(part["text"] for artifact in task.get("artifacts", ()) for part in artifact["parts"])


def _get(daemon: DaemonProcess, inbound: str, task: Any) -> Any:
    return daemon.rpc(inbound, "GetTask", {"id": task["id"]})["result"]


def _ended(daemon: DaemonProcess, inbound: str, task: Any) -> Any:
    def ended() -> Any:
        now = _get(daemon, inbound, task)
        return now if now["status"]["state"] in {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED"} else None

    return until(ended)


@ends
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hang", "The daemon stopped while the task ran"),
        ("ask rm", "The daemon stopped while the task waited for an answer"),
        ("auth", "The daemon stopped while the task waited for an answer"),
    ],
)
def test_a_turn_that_was_cut_off_fails(launch: Launch, end: str, text: str, why: str) -> None:
    daemon, inbound = _start(launch, "fails")
    before = daemon.send(inbound, "one")
    task = daemon.send(inbound, text, contextId=before["contextId"], configuration={"returnImmediately": True})
    state = "WORKING" if text == "hang" else "REQUIRED"
    until(lambda: state in _get(daemon, inbound, task)["status"]["state"])
    daemon = _again(launch, daemon, end)
    failed = _get(daemon, inbound, task)
    assert failed["status"]["message"]["parts"] == [{"text": why}]
    assert _text(daemon.send(inbound, "two", contextId=before["contextId"])) == "one | two"


@ends
def test_a_turn_that_ran_is_taken_again_where_the_agent_can_resume(launch: Launch, end: str) -> None:
    daemon, inbound = _start(launch, "resumes")
    task = daemon.send(inbound, "hang", configuration={"returnImmediately": True})
    until(lambda: _text(_get(daemon, inbound, task)) == "begun ")
    daemon = _again(launch, daemon, end)
    assert _text(_ended(daemon, inbound, task)) == "begun hang"
    assert _text(daemon.send(inbound, "two", contextId=task["contextId"])) == "hang | two"


@ends
@pytest.mark.parametrize(("text", "answer", "says"), [("ask rm", "A", "rm a "), ("auth", "k", "key k ")])
def test_the_answer_after_a_restart_goes_to_the_same_question(
    launch: Launch, end: str, text: str, answer: str, says: str
) -> None:
    daemon, inbound = _start(launch, "resumes")
    task = daemon.send(inbound, text)
    daemon = _again(launch, daemon, end)
    assert _get(daemon, inbound, task)["status"] == task["status"]
    done = daemon.send(inbound, answer, taskId=task["id"])
    assert (done["status"]["state"], _text(done)) == ("TASK_STATE_COMPLETED", says + text)


def test_only_the_first_question_gets_it_and_the_others_are_asked(launch: Launch) -> None:
    daemon, inbound = _start(launch, "resumes")
    task = daemon.send(inbound, "ask rm rm")
    daemon = _again(launch, daemon, "kill")
    asked = daemon.send(inbound, "A", taskId=task["id"])
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    done = daemon.send(inbound, "A", taskId=task["id"])
    assert _text(done) == "rm a rm a ask rm rm"


def test_an_answer_that_was_taken_before_is_asked_for_again(launch: Launch) -> None:
    daemon, inbound = _start(launch, "resumes")
    task = daemon.send(inbound, "ask rm ls")
    asked = daemon.send(inbound, "A", taskId=task["id"])
    daemon = _again(launch, daemon, "kill")
    # what waits now is the second question; the turn begins with the first one
    first = daemon.send(inbound, "A", taskId=task["id"])
    assert first["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert first["status"]["message"]["parts"][0] == task["status"]["message"]["parts"][0]
    assert first["status"]["message"]["parts"][0] != asked["status"]["message"]["parts"][0]


def test_a_deadline_ends_a_question_as_the_agent_has_it(launch: Launch) -> None:
    daemon, inbound = _start(launch, "fails")
    task = daemon.send(inbound, "late", configuration={"returnImmediately": True})
    failed = _ended(daemon, inbound, task)
    assert failed["status"]["message"]["parts"] == [{"text": "Nobody answered the agent's question in time"}]
    patient = daemon.create_inbound(preset="resumes")
    task = daemon.send(patient, "late", configuration={"returnImmediately": True})
    assert _text(_ended(daemon, patient, task)) == "nobody late"


@ends
def test_a_deadline_that_passes_after_a_restart_or_before_it_ends_a_question_too(launch: Launch, end: str) -> None:
    daemon, inbound = _start(launch, "resumes")
    task = daemon.send(inbound, "within 1")
    daemon = _again(launch, daemon, end)
    done = _ended(daemon, inbound, task)
    assert (done["status"]["state"], _text(done)) == ("TASK_STATE_COMPLETED", "nobody within 1")
    assert [message["role"] for message in done["history"]] == ["ROLE_USER", "ROLE_AGENT"]


def test_a_question_with_a_deadline_can_be_answered_after_a_restart_until_then(launch: Launch) -> None:
    daemon, inbound = _start(launch, "resumes")
    task = daemon.send(inbound, "within 600")
    daemon = _again(launch, daemon, "kill")
    assert _get(daemon, inbound, task)["status"] == task["status"], "and its deadline is the same moment"
    assert _text(daemon.send(inbound, "A", taskId=task["id"])) == "awithin 600"


def test_a_deadline_ends_a_question_that_its_run_was_let_go_of(launch: Launch) -> None:
    daemon, inbound = _start(launch, "resumes", "[limits]\nask_seconds = 0.2\n")
    task = daemon.begin(inbound, "within 2")
    assert _text(_ended(daemon, inbound, task)) == "nobody within 2"


def test_a_question_that_is_withdrawn_is_asked_no_longer(launch: Launch) -> None:
    daemon, inbound = _start(launch, "fails")
    task = daemon.send(inbound, "withdraw", configuration={"returnImmediately": True})
    assert _text(_ended(daemon, inbound, task)) == "never mind withdraw"


def test_a_question_about_a_tool_says_which(launch: Launch) -> None:
    daemon, inbound = _start(launch, "fails")
    task = daemon.send(inbound, "ask rm")
    assert task["status"]["message"]["parts"][1]["data"] == {
        "question": "May I rm?",
        "options": [{"id": "a", "name": "A", "kind": "allow_once"}],
        "tool": {"name": "rm", "arguments": None},
    }


def test_an_answer_to_a_turn_that_had_ended_is_the_next_prompt(launch: Launch) -> None:
    daemon, inbound = _start(launch, "fails")
    task = daemon.send(inbound, "stop")
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert _text(daemon.send(inbound, "more", taskId=task["id"])) == "more"
