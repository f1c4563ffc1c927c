"""A daemon whose agents are scripted models, for the tests of the agent `openai`."""

import threading
from pathlib import Path
from typing import Any

from tests.daemon import DaemonProcess
from tests.remote import Exchange, Script
from tests.scripted_llm import MODEL, ScriptedModel

KEY = "sk-scripted-0123456789abcdef"
#: an executor that is reached as a tool: what it is told comes first in its prompt
PLUGIN = """
import asyncio
from pathlib import Path
from a2ad import Artifact, Executor, Status, TaskFailed, TaskState, hookimpl


class Remote(Executor):
    async def execute(self, request):
        word, _, rest = request.text.partition(" ")
        if word == "gate":
            yield Status(TaskState.WORKING, "at the gate")
            while not Path(rest).exists():
                await asyncio.sleep(0.01)
        elif word == "fail":
            raise TaskFailed("the disk is full")
        elif word == "long":
            rest = "x" * int(rest)
        yield Artifact(parts=[{"text": rest}])


@hookimpl
def a2ad_register_executors(register):
    register("remote", Remote())


@hookimpl
def a2ad_register_presets(register):
    register("remote", {"skills": [{"id": skill, "executor": "remote"} for skill in ("chat", "Résumé: fix/it")]})
"""
TOOL, OTHER = "a2a__b__chat", "a2a__c__R_sum___fix_it"


def preset(model: ScriptedModel, preset_id: str = "model", **options: Any) -> str:
    """A preset's table; an option that is None is left out."""
    chosen = {"base_url": model.base_url, "model": MODEL, "api_key_env": "SCRIPTED_KEY", **options}
    lines = [f"{name} = {_toml(value)}" for name, value in chosen.items() if value is not None]
    head = ["[[presets]]", f'id = "{preset_id}"', 'agent = "openai"', "[presets.options]"]
    return "\n".join([*head, *lines, ""])


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


class Agents:
    """The daemon, its model, and an inbound for each preset, by the preset's name."""

    def __init__(self, daemon: DaemonProcess, model: ScriptedModel) -> None:
        self.daemon = daemon
        self.model = model
        self._inbounds: dict[str, str] = {}

    def inbound(self, preset_id: str = "model") -> str:
        if preset_id not in self._inbounds:
            self._inbounds[preset_id] = self.daemon.create_inbound(name=preset_id, preset=preset_id)
        return self._inbounds[preset_id]

    def ask(self, text: str, preset_id: str = "model", **more: Any) -> Any:
        """Send a message; the task."""
        return self.daemon.send(self.inbound(preset_id), text, **more)

    def connect(self) -> None:
        """Make the daemon's own executor a tool: by two connections, since each has one conversation at a time."""
        card = f"{self.daemon.endpoint(self.inbound('remote'))}/agent-card.json"
        for name in ("b", "c"):
            self.daemon.act("outbound.create", name=name, agentCardUrl=card)


def launch_agents(folder: Path, model: ScriptedModel, *presets: str, limits: str = "", **more: Any) -> DaemonProcess:
    config = "\n".join([limits, *(presets or [preset(model)])])
    return DaemonProcess(folder, config=config, env={"SCRIPTED_KEY": KEY}, **more)


def state_of(task: Any) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def said(task: Any) -> str:
    """The text of the artifact `result`."""
    artifacts = task.get("artifacts", [])
    return "".join(part["text"] for each in artifacts if each["artifactId"] == "result" for part in each["parts"])


def why(task: Any) -> str:
    """The text of the status message."""
    return str(task["status"]["message"]["parts"][0]["text"])


def calls_of(task: Any) -> dict[str, Any]:
    """The data of the tool calls, by id."""
    prefix = "tool-call-"
    return {
        artifact["artifactId"].removeprefix(prefix): artifact["parts"][0]["data"]
        for artifact in task.get("artifacts", [])
        if artifact["artifactId"].startswith(prefix)
    }


def until_left(*before: Script) -> tuple[Script, threading.Event]:
    """A script that goes silent after the others; the event is set once the client has hung up."""
    left = threading.Event()

    async def script(exchange: Exchange) -> None:
        for each in before:
            await each(exchange)
        await exchange.gone()
        left.set()

    return script, left
