"""Daemons whose agents are small programs, and what is left of a process."""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from a2ad.testing import DaemonProcess

#: a bound that only a hang reaches, in seconds
PATIENCE = 60.0

#: at the head of a program that tells its process id in its working directory
TELLS_PID = """
import os, pathlib
pathlib.Path(f"pid-{os.getpid()}").touch()
"""


def preset(folder: Path, name: str, program: str | list[str], **options: Any) -> dict[str, Any]:
    """A preset whose agent runs a Python script, or a command."""
    if isinstance(program, str):
        script = folder / f"{name}.py"
        script.write_text(program)
        program = [sys.executable, str(script)]
    return {"id": name, "agent": "command", "options": {"command": program, **options}}


def start(folder: Path, programs: Mapping[str, Any], **more: Any) -> DaemonProcess:
    """A daemon with an agent for each of the programs, under its name: the script, or (script, options)."""
    presets = []
    for name, program in programs.items():
        script, options = program if isinstance(program, tuple) else (program, {})
        presets.append(preset(folder, name, script, **options))
    daemon = DaemonProcess(folder, presets=presets, **more)
    for name in programs:
        daemon.create_inbound(name=name, preset=name, endpointPath=f"/a2a/{name}")
    return daemon


def state_of(task: Any) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def said(task: Any) -> str:
    """The text of the status message."""
    return "".join(part["text"] for part in task["status"]["message"]["parts"])


def wait_for(condition: Callable[[], Any]) -> Any:
    """What the condition is once it is true."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return value


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def told_pids(folder: Path, count: int) -> list[int]:
    """The ids of so many processes that tell them (`TELLS_PID`) somewhere below the folder."""

    def found() -> list[int] | None:
        files = list(folder.rglob("pid-*"))
        return [int(file.name.removeprefix("pid-")) for file in files] if len(files) >= count else None

    return wait_for(found)


def gone(pids: list[int]) -> bool:
    return not any(map(alive, pids))
