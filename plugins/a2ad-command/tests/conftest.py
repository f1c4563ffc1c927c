"""Daemons with agents that run small programs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import start

from a2ad.testing import DaemonProcess


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """`run(program, option=…)` starts a daemon with an agent `agent` that runs this program; `daemon` is for itself."""
    started: list[DaemonProcess] = []

    def run_program(program: str | list[str], *, daemon: dict[str, Any] | None = None, **options: Any) -> DaemonProcess:
        started.append(start(tmp_path, {"agent": (program, options)}, **(daemon or {})))
        return started[-1]

    yield run_program
    for process in started:
        process.kill()
