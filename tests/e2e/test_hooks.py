"""Every hook from outside: a plugin that implements it, and what a client or the operator sees of that.

A test's name begins with the hook's (`tests/test_hookspecs.py` counts them).
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli_support import run
from tests.daemon import DaemonProcess

PLUGIN = """
import asyncio, json, pathlib
import click
from a2ad import Agent, AgentSession, Artifact, Deny, Executor, TextDelta, TurnEnd, hookimpl

TOLD = pathlib.Path("told").absolute()

def tell(*what):
    with TOLD.open("a") as file:
        file.write(json.dumps(what) + "\\n")

class Shout(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": request.text.upper()}])

class Session(AgentSession):
    async def prompt(self, parts, attachments):
        yield TextDelta("you said " + parts[0]["text"])
        yield TurnEnd()

class Parrot(Agent):
    async def open(self, context):
        return Session()

@hookimpl
def a2ad_register_executors(register, config):
    register("shout", Shout(), summary=f"At most {config.limits.runs} at a time")

@hookimpl
def a2ad_register_agents(register, config):
    register("parrot", lambda preset: Parrot(), summary="Says it again")

@hookimpl
def a2ad_register_presets(register, config):
    skills = [{"id": "chat"}, {"id": "shout", "executor": "shout"}]
    register("both", {"name": "Both", "description": "Says it, or shouts", "agent": "parrot", "skills": skills})

@hookimpl
def a2ad_register_stores(register):
    async def open_store(settings):
        from dataclasses import replace
        from a2ad.store.sqlite import open_sqlite
        tell("open_store", settings.url)
        return await open_sqlite(replace(settings, url=""))

    register("mine", open_store)

@hookimpl
def a2ad_register_commands(cli):
    @cli.command()
    def greet():
        click.echo("hello from a plugin")

@hookimpl
def a2ad_agent_card(card, inbound):
    card["description"] += f" (published as {inbound.id})"

@hookimpl
async def a2ad_inbound_task(decision):
    await asyncio.sleep(0)
    return Deny(f"{decision.caller} may not say that") if "forbidden" in decision.text else None

@hookimpl
def a2ad_outbound_call(call):
    return Deny(f"{call.connection} is not to hear that") if "forbidden" in call.text else None

@hookimpl
def a2ad_event(event):
    tell("event", event.name, dict(event.data))

@hookimpl
async def a2ad_startup(daemon):
    tell("startup", daemon.config.limits.runs)

@hookimpl
def a2ad_shutdown(daemon):
    tell("shutdown", daemon.config.limits.runs)
"""
CONFIG = '[limits]\nruns = 7\n[store]\nurl = "mine:somewhere"\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    process = DaemonProcess(tmp_path_factory.mktemp("hooks"), plugin=PLUGIN, config=CONFIG)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def inbound(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(preset="both")


def told(daemon: DaemonProcess, *what: Any) -> list[Any]:
    """What the plugin has told so far that begins with these words."""
    lines = (daemon.folder / "told").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each[: len(what)] == list(what)]


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return value


def text_of(task: Any) -> str:
    return task["artifacts"][0]["parts"][0]["text"]


def test_a2ad_register_executors_brings_what_does_the_work_of_a_skill(daemon: DaemonProcess, inbound: str) -> None:
    assert text_of(daemon.send(inbound, "hello", metadata={"skill": "shout"})) == "HELLO"


def test_a2ad_register_agents_brings_what_a_session_talks_to(daemon: DaemonProcess, inbound: str) -> None:
    assert text_of(daemon.send(inbound, "hello")) == "you said hello"


def test_a2ad_register_presets_adds_to_the_presets(daemon: DaemonProcess) -> None:
    presets = {preset["id"]: preset for preset in daemon.read("/presets")}
    assert set(presets) == {"standard", "both"}
    assert presets["both"]["description"] == "Says it, or shouts"


def test_a2ad_register_stores_brings_where_tasks_are_kept(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, "kept")
    assert told(daemon, "open_store") == [["open_store", "mine:somewhere"]]
    assert daemon.task(inbound, task["id"]) == task


def test_a2ad_register_commands_adds_to_the_command_line(daemon: DaemonProcess) -> None:
    environment = {"A2AD_PLUGINS__DIRS": str(daemon.folder / "plugins")}
    assert run(None, "greet", env=environment).out == "hello from a plugin\n"
    assert "greet" in run(None, "--help", env=environment).out


def test_a2ad_agent_card_changes_what_the_card_says(daemon: DaemonProcess, inbound: str) -> None:
    _, card = daemon.request("GET", f"{daemon.endpoint(inbound)}/agent-card.json")
    assert card["description"] == f"An agent (published as {inbound})"


def test_a2ad_inbound_task_rejects_a_task_before_it_runs(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, "something forbidden")
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert task["status"]["message"]["parts"] == [{"text": "anonymous may not say that"}]


def test_a2ad_outbound_call_keeps_a_call_from_leaving(daemon: DaemonProcess) -> None:
    remote = daemon.create_inbound(preset="standard")
    card = f"{daemon.endpoint(remote)}/agent-card.json"
    connection = daemon.act("outbound.create", name="remote", agentCardUrl=card)["id"]
    assert daemon.act("outbound.call", id=connection, text="hello")["text"] == "hello"
    refused = daemon.act("outbound.call", id=connection, text="forbidden", status=409)
    assert "remote is not to hear that" in refused["message"]
    assert daemon.result(remote, "ListTasks", {})["totalSize"] == 1


def test_a2ad_event_hears_what_happened_in_order(daemon: DaemonProcess, inbound: str) -> None:
    task = daemon.send(inbound, "heard")

    def states() -> list[str]:
        events = [data for _, _, data in told(daemon, "event", "task.state")]
        return [data["state"].removeprefix("TASK_STATE_") for data in events if data["taskId"] == task["id"]]

    until(lambda: states() == ["SUBMITTED", "WORKING", "COMPLETED"])
    assert any(data["change"] == "create" for _, _, data in told(daemon, "event", "inbound.changed"))


def test_a2ad_startup_is_called_once_the_daemon_accepts_connections(daemon: DaemonProcess) -> None:
    assert until(lambda: told(daemon, "startup")) == [["startup", 7]]


def test_a2ad_shutdown_is_called_when_the_daemon_stops(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch(plugin=PLUGIN, config=CONFIG)
    until(lambda: told(daemon, "startup"))
    assert not told(daemon, "shutdown")
    assert daemon.terminate() == 0
    assert told(daemon, "shutdown") == [["shutdown", 7]]
