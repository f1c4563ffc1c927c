"""The daemon of the tests: what plugins' tests have, too (`a2ad.testing`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from a2ad.testing import DaemonProcess, message
from a2ad.testing.daemon import STARTS_WITHIN

__all__ = ["STARTS_WITHIN", "DaemonProcess", "message", "running"]


@contextmanager
def running(folder: Path, **more: Any) -> Iterator[DaemonProcess]:
    """A daemon for the tests of a module; afterwards it has to end in order."""
    daemon = DaemonProcess(folder, **more)
    try:
        yield daemon
        assert daemon.terminate() == 0
    finally:
        daemon.kill()
