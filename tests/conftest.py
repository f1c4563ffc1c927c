"""Fixtures for every test: real daemons as processes of their own."""

from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from a2ad.plugins import discovery
from tests.daemon import DaemonProcess

#: the packages of this repository that bring plugins; where the tests run, they may be installed
PACKAGES = {file.parent.name for file in Path(__file__).parents[1].glob("plugins/*/pyproject.toml")}


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


@pytest.fixture
def foreign_plugins_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, the plugins of this repository's own packages are not found."""

    def own(distribution: Distribution) -> bool:
        try:
            return distribution.name in PACKAGES
        except Exception:  # noqa: BLE001 - its metadata is damaged
            return False

    monkeypatch.setattr(discovery, "distributions", lambda: (each for each in distributions() if not own(each)))
