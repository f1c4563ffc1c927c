"""A large answer whose client leaves is let go of at once, not when the cyclic collector comes by."""

from typing import Any

from tests.daemon import DaemonProcess
from tests.e2e.control_support import until
from tests.e2e.test_large_answers import _crowd, _resident, daemon, inbound, large

__all__ = ["daemon", "inbound", "large"]


def test_an_answer_whose_client_has_left_is_not_kept(
    daemon: DaemonProcess, inbound: str, large: dict[str, Any]
) -> None:
    before = _resident(daemon)
    with _crowd(daemon, inbound, large["id"]) as (unread, _):
        assert _resident(daemon) - before > 10 * (len(unread) - 1)
    until(lambda: daemon.read("")["peers"] == [], "all have left")
    until(lambda: _resident(daemon) - before < 50, "nothing is kept of them", within=10)
