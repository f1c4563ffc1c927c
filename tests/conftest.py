"""Fixtures for every test: real daemons as processes of their own."""

from collections.abc import Callable

import pytest

from tests.daemon import DaemonProcess


@pytest.fixture
def launch(a2ad_launch: Callable[..., DaemonProcess]) -> Callable[..., DaemonProcess]:
    """`launch(*options, plugin="…", config="…")` starts a daemon; all are ended with the test."""
    return a2ad_launch


@pytest.fixture
def daemon(a2ad_daemon: DaemonProcess) -> DaemonProcess:
    """A daemon with the embedded defaults."""
    return a2ad_daemon
