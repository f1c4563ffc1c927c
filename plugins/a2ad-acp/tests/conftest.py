"""A real daemon whose preset runs the scripted agent."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.lab import until

SCRIPTED = Path(__file__).with_name("scripted_agent.py")


class Acp:
    """A daemon and its agent. `agent` are the flags of the scripted agent, `options` further ones of the preset."""

    def __init__(self, folder: Path, started: list[DaemonProcess]) -> None:
        self.folder = folder
        self.log_path = folder / "agent.log"
        self.inbound = ""
        self.daemon: DaemonProcess
        self._started = started

    def start(
        self, *agent: str, limits: dict[str, Any] | None = None, environ: dict[str, str] | None = None, **options: Any
    ) -> "Acp":
        """Start the daemon, again in the same folder where it was started before. `environ` is the daemon's own."""
        settings: dict[str, Any] = {
            "command": [sys.executable, str(SCRIPTED), *agent],
            "env": {"SCRIPT_LOG": str(self.log_path)},
            "tools": False,
            **options,
        }
        lines = ["[limits]", *(f"{name} = {value}" for name, value in (limits or {}).items())]
        lines += ["[[presets]]", 'id = "acp"', 'agent = "acp"', "[presets.options]"]
        lines += [f"{name} = {_toml(value)}" for name, value in settings.items()]
        self.daemon = DaemonProcess(self.folder, config="\n".join(lines), env=environ)
        self._started.append(self.daemon)
        self.inbound = self.inbound or self.daemon.create_inbound()
        return self

    def send(self, text: str, **more: Any) -> Any:
        """The task, once it has ended or waits."""
        return self.daemon.send(self.inbound, text, **more)

    def begin(self, text: str, **more: Any) -> Any:
        """The task as soon as it is recorded."""
        return self.daemon.send(self.inbound, text, configuration={"returnImmediately": True}, **more)

    def get(self, task_id: str) -> Any:
        return self.daemon.rpc(self.inbound, "GetTask", {"id": task_id})["result"]

    def cancel(self, task_id: str) -> Any:
        return self.daemon.rpc(self.inbound, "CancelTask", {"id": task_id})["result"]

    @staticmethod
    def state(task: Any) -> str:
        return task["status"]["state"].removeprefix("TASK_STATE_")

    @staticmethod
    def text(task: Any) -> str:
        """What the agent said."""
        artifacts = [artifact for artifact in task.get("artifacts", ()) if artifact["artifactId"] == "result"]
        return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])

    @staticmethod
    def why(task: Any) -> str:
        """What the status says."""
        return task["status"]["message"]["parts"][0]["text"]

    def say(self, text: str, **more: Any) -> str:
        """What the agent says to that, in a turn that ends well."""
        task = self.send(text, **more)
        assert self.state(task) == "COMPLETED", task
        return self.text(task)

    def fails(self, text: str, **more: Any) -> str:
        """Why a turn fails."""
        task = self.send(text, **more)
        assert self.state(task) == "FAILED", task
        return self.why(task)

    def reach(self, task: Any, *states: str) -> Any:
        """The task, once it is in one of these states."""
        until(lambda: self.state(self.get(task["id"])) in states)
        return self.get(task["id"])

    def notes(self) -> list[dict[str, Any]]:
        """What the agents wrote down, in order."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines()] if self.log_path.exists() else []

    def heard(self, method: str) -> list[dict[str, Any]]:
        return [note for note in self.notes() if note.get("method") == method]

    def pids(self) -> list[int]:
        """Of the agent processes, oldest first."""
        return [note["pid"] for note in self.notes() if "start" in note]

    def running(self) -> list[int]:
        """Those that run now."""
        return [pid for pid in self.pids() if is_running(pid)]

    def gone(self, *pids: int) -> None:
        """Wait for the end of processes."""
        until(lambda: not any(map(is_running, pids)))


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not only waiting to be reaped."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def end(started: list[DaemonProcess]) -> None:
    """End the daemons; whatever agents do, it is nothing that a daemon has not foreseen."""
    for daemon in started:
        daemon.kill()
        assert "\nTraceback" not in daemon.log(), daemon.log()


@pytest.fixture
def acp(tmp_path: Path) -> Iterator[Acp]:
    """Not started yet: `acp.start("resume", …)`."""
    started: list[DaemonProcess] = []
    yield Acp(tmp_path, started)
    end(started)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Acp]]:
    """`running("resume")`: one for the tests of a module that leave it as it is."""
    started: list[DaemonProcess] = []
    made: dict[tuple[Any, ...], Acp] = {}

    def get(*agent: str, **options: Any) -> Acp:
        key = (agent, json.dumps(options))
        if key not in made:
            made[key] = Acp(tmp_path_factory.mktemp("acp"), started).start(*agent, **options)
        return made[key]

    yield get
    end(started)
