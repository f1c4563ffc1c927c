"""Fixtures for every test: real daemons as processes of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """`launch(*options, plugin="…", config="…")` starts a daemon; all are ended with the test."""
    started: list[DaemonProcess] = []

    def start(*options: str, **more: object) -> DaemonProcess:
        daemon = DaemonProcess(tmp_path, *options, **more)  # type: ignore[arg-type]
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        daemon.kill()


@pytest.fixture
def daemon(launch: Callable[..., DaemonProcess]) -> DaemonProcess:
    """A daemon with the embedded defaults."""
    return launch()
