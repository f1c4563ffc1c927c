"""The daemon of the tests: what plugins' tests have, too (`a2ad.testing`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from a2ad import testing
from a2ad.testing import message
from a2ad.testing.daemon import STARTS_WITHIN

__all__ = ["STARTS_WITHIN", "DaemonProcess", "message", "running"]


class DaemonProcess(testing.DaemonProcess):
    """With a coroutine that nobody awaits as an error."""

    def __init__(self, folder: Path, *options: str, env: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(folder, *options, env={"PYTHONWARNINGS": "error::RuntimeWarning", **(env or {})}, **more)


@contextmanager
def running(folder: Path, **more: Any) -> Iterator[DaemonProcess]:
    """A daemon for the tests of a module; afterwards it has to end in order."""
    daemon = DaemonProcess(folder, **more)
    try:
        yield daemon
        assert daemon.terminate() == 0
    finally:
        daemon.kill()
