"""Real ACP agents: installed once into a cache of the user's, run by a daemon, pointed at a scripted model."""

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.types import Task
from google.protobuf import json_format
from httpx import AsyncClient

from tests.cache import CACHE
from tests.daemon import DaemonProcess
from tests.interop.sdk import request

pytest.importorskip("a2ad_acp", reason="plugins/a2ad-acp is not installed")

#: for one command of an installation, in seconds
INSTALL_SECONDS = 600
#: for whatever an agent does: some start slowly
WITHIN = 120.0


def installed(name: str, program: str, *commands: list[str]) -> Path:
    """The program of an agent, below a folder where these commands have installed it once; they run there. Skips the
    test where they cannot.
    """
    folder = CACHE / name
    done = folder / "installed"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for command in commands:
            try:
                subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_SECONDS)
            except (OSError, subprocess.SubprocessError) as error:
                last = (getattr(error, "stderr", b"") or b"").decode(errors="replace").strip().splitlines()[-1:]
                pytest.skip(f"{name} cannot be installed: {error} {' '.join(last)}")
        done.touch()
    return folder / program


def preset_config(options: dict[str, Any]) -> str:
    """A daemon's configuration: the preset `acp` with these options, and an echo to be called."""
    lines = ["[[presets]]", 'id = "acp"', 'agent = "acp"', "[presets.options]"]
    lines += [f"{name} = {_toml(value)}" for name, value in options.items()]
    return "\n".join([*lines, "[[presets]]", 'id = "echo"', ""])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


@asynccontextmanager
async def talking(daemon: DaemonProcess, inbound_id: str) -> AsyncIterator[Client]:
    """The official client, with more patience than it has of itself."""
    async with AsyncClient(timeout=WITHIN) as http:
        config = ClientConfig(streaming=True, httpx_client=http)
        async with await create_client(daemon.endpoint(inbound_id), config) as client:
            yield client


async def say(client: Client, text: str, **more: Any) -> dict[str, Any]:
    """The task, as JSON has it, once it has ended or waits."""
    *_, last = [event async for event in client.send_message(request(text, **more))]
    return as_dict(last.task)


def as_dict(task: Task) -> dict[str, Any]:
    return dict(json_format.MessageToDict(task))


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def text_of(task: dict[str, Any]) -> str:
    """What the agent said."""
    artifacts = [artifact for artifact in task.get("artifacts", ()) if artifact["artifactId"] == "result"]
    return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])


def calls_of(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Its tool calls."""
    artifacts = [a for a in task.get("artifacts", ()) if a["artifactId"].startswith("tool-call-")]
    return [artifact["parts"][0]["data"] for artifact in artifacts]


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def children(daemon: DaemonProcess) -> list[int]:
    """Processes that the daemon has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == daemon.process.pid:
            found.append(int(status.parent.name))
    return found


def group_is_gone(leader: int) -> bool:
    """Whether there is no process in its group any more, but for those that nobody has reaped yet."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            return False
    return True


def venv(*packages: str) -> list[list[str]]:
    """The commands that install packages of PyPI into a virtual environment of their own."""
    return [[sys.executable, "-m", "venv", "."], ["bin/pip", "install", "--quiet", *packages]]
