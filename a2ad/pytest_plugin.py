"""The fixtures that pytest finds by itself (entry point of the group `pytest11`).

Every run of pytest in an environment with a2ad imports this: all else is imported by the tests that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from a2ad.testing import DaemonProcess


@pytest.fixture
def a2ad_launch(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """`a2ad_launch(*options, plugin="…", presets=[{…}], config="…", env={…})` starts a daemon, as `DaemonProcess` does.

    Its folder is the test's `tmp_path`; all are ended with the test.
    """
    from a2ad.testing import DaemonProcess

    started: list[DaemonProcess] = []

    def launch(*options: str, **more: Any) -> DaemonProcess:
        daemon = DaemonProcess(tmp_path, *options, **more)
        started.append(daemon)
        return daemon

    yield launch
    for daemon in started:
        daemon.kill()


@pytest.fixture
def a2ad_daemon(a2ad_launch: Callable[..., DaemonProcess]) -> DaemonProcess:
    """A daemon with the plugins that are installed, and the embedded defaults."""
    return a2ad_launch()
