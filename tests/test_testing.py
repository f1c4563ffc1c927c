"""The daemon that plugins' tests start, as they use it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2ad.testing import DaemonProcess, doctor, message, text_of

Launch = Callable[..., DaemonProcess]

PLUGIN = """
import asyncio
from a2ad import Agent, AgentSession, Artifact, Executor, PresetError, Reply, TextDelta, TurnEnd, hookimpl

class Patient(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "asked "}], append=True)
        answer = await request.ask("which?")
        yield Artifact(parts=[{"text": answer["parts"][0]["text"]}], append=True)

class Brief(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply(parts=[{"text": "in "}, {"text": "short"}])

class Session(AgentSession):
    def __init__(self, options):
        self.options = options

    async def prompt(self, parts, attachments):
        yield TextDelta(repr(self.options))
        yield TurnEnd()

class Options(Agent):
    def __init__(self, preset):
        self.options = dict(preset.options)
        if "wrong" in self.options:
            raise PresetError("wrong is no option")

    async def check(self):
        return ["no this", "no that"] if "absent" in self.options else []

    async def open(self, context):
        return Session(self.options)

@hookimpl
def a2ad_register_executors(register):
    register("patient", Patient())
    register("brief", Brief())

@hookimpl
def a2ad_register_agents(register):
    register("options", Options)

@hookimpl
def a2ad_register_presets(register):
    register("brief", {"skills": [{"id": "chat", "executor": "brief"}]})
    register("patient", {"skills": [{"id": "chat", "executor": "patient"}]})
"""

OPTIONS: dict[str, Any] = {
    "text": 'a "quoted"\n\\ line with \t, \x7f, é and 🌍',
    "a key": [1, 2.5, True, "x", {"deep": {"er": []}}],
    "number": -3,
    "flag": False,
    "infinite": float("inf"),
}


def test_presets_reach_the_daemon_as_they_are_given(a2ad_launch: Launch) -> None:
    presets = [{"id": "mine", "agent": "options", "options": OPTIONS}, {"id": "other", "agent": "echo"}]
    daemon = a2ad_launch(plugin=PLUGIN, presets=presets, config="[limits]\nruns = 3\n")
    assert text_of(daemon.send(daemon.create_inbound(preset="mine"), "x")) == repr(OPTIONS)
    assert daemon.read("/metrics")["runsLimit"] == 3


def test_what_no_configuration_can_say_is_an_error(a2ad_launch: Launch) -> None:
    with pytest.raises(TypeError, match="NoneType"):
        a2ad_launch(presets=[{"id": "mine", "options": {"nothing": None}}])


def test_a_task_is_followed_answered_and_canceled(a2ad_launch: Launch) -> None:
    daemon = a2ad_launch(plugin=PLUGIN)
    agent = daemon.create_inbound(preset="patient")
    first, second = daemon.begin(agent, "go"), daemon.send(agent, "go")
    assert second["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    frames = daemon.subscribe(agent, second["id"])
    assert next(frames)["task"]["id"] == second["id"]

    assert text_of(daemon.answer(agent, second, "this one")) == "asked this one"
    assert text_of(list(frames)[-1]["task"]) == "asked this one"
    assert daemon.cancel(agent, first["id"])["status"]["state"] == "TASK_STATE_CANCELED"
    assert daemon.task(agent, first["id"])["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_direct_answer_is_a_message(a2ad_launch: Launch) -> None:
    daemon = a2ad_launch(plugin=PLUGIN)
    answer = daemon.send(daemon.create_inbound(preset="brief"), "hello")
    assert (answer["role"], text_of(answer)) == ("ROLE_AGENT", "in short")


def test_what_is_below_the_control_api_is_read_with_or_without_a_slash(a2ad_daemon: DaemonProcess) -> None:
    assert a2ad_daemon.read("metrics").keys() == a2ad_daemon.read("/metrics").keys()
    assert a2ad_daemon.read("?taskLimit=1").keys() == a2ad_daemon.read("").keys()


def test_doctor_looks_at_the_presets_of_a_plugin_file(tmp_path: Path) -> None:
    options: dict[str, dict[str, Any]] = {"well": {}, "lacks": {"absent": 1}, "odd": {"wrong": 1}}
    presets = [{"id": each, "agent": "options", "options": given} for each, given in options.items()]
    found = doctor(tmp_path, presets, plugin=PLUGIN)
    assert {subject: said for subject, said in found.items() if "options" in subject} == {
        "preset well (options)": "",
        "preset lacks (options)": "no this\nno that",
        "preset odd (options)": "wrong is no option",
    }
    assert found["plugin plugin"] == ""


def test_the_log_has_what_plugins_warn_of_and_more_where_they_ask_for_it(a2ad_launch: Launch) -> None:
    text = """
import logging
from a2ad import hookimpl
log, chatty = logging.getLogger("mine"), logging.getLogger("chatty")
chatty.setLevel(logging.INFO)
@hookimpl
def a2ad_startup(daemon):
    log.info("quiet")
    chatty.info("told")
    log.warning("warned")
    print("printed")
"""
    daemon = a2ad_launch("--log-level", "debug", plugin=text)
    daemon.terminate()
    assert "warned" in daemon.log()
    assert "told" in daemon.log()
    assert "quiet" not in daemon.log()
    assert "printed" not in daemon.log()


def test_tasks_are_there_after_a_restart_and_after_a_kill(a2ad_daemon: DaemonProcess) -> None:
    agent = a2ad_daemon.create_inbound()
    task = a2ad_daemon.result(agent, "SendMessage", {"message": message("hello")})["task"]
    a2ad_daemon.restart()
    assert text_of(a2ad_daemon.task(agent, task["id"])) == "hello"
    a2ad_daemon.kill()
    a2ad_daemon.start()
    assert text_of(a2ad_daemon.task(agent, task["id"])) == "hello"
    assert text_of(task, "no such artifact") == ""


def test_a_daemon_that_does_not_start_is_an_error_with_what_it_said(a2ad_launch: Launch) -> None:
    with pytest.raises(AssertionError, match="unknown agent 'nobody'"):
        a2ad_launch(presets=[{"id": "mine", "agent": "nobody"}])


def test_a_call_that_fails_is_an_error_with_the_answer(a2ad_daemon: DaemonProcess) -> None:
    agent = a2ad_daemon.create_inbound()
    with pytest.raises(AssertionError, match="TASK_NOT_FOUND"):
        a2ad_daemon.task(agent, "no such task")
    with pytest.raises(AssertionError, match="409"):
        a2ad_daemon.act("inbound.enable", id="no such inbound")


def test_the_configuration_of_the_test_run_does_not_reach_the_daemon(
    a2ad_launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2AD_LIMITS__RUNS", "5")
    daemon = a2ad_launch(env={"A2AD_LIMITS__QUEUED": "6"})
    metrics = daemon.read("/metrics")
    assert (metrics["runsLimit"], metrics["queuedLimit"]) == (64, 6)
