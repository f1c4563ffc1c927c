"""`kill -9` at random moments under load: nothing that was answered is lost or changed, and nothing is stuck.

`tests/bench/kills.py` does the same hundreds of times.
"""

from collections.abc import Callable
from pathlib import Path

from tests.crash_support import CONFIG, PLUGIN, PRESET, Load, account, check_database, environment
from tests.daemon import DaemonProcess

ROUNDS = 8
SEED = 20260


async def test_kills_at_random_moments_lose_nothing_that_was_answered(
    launch: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    more = {"plugin": PLUGIN, "config": CONFIG, "env": environment(tmp_path)}
    daemon = launch(**more)
    load = Load(daemon.create_inbound(preset=PRESET), SEED)
    for _ in range(ROUNDS):
        await load.until_killed(daemon, load.random.randrange(5, 100))
        daemon = launch(**more)
        await account(daemon, load, newest=200)

    await account(daemon, load)
    assert load.counts["asked again"] > 0
    assert load.counts["streams cut"] > 0
    assert "Traceback" not in daemon.log()
    check_database(daemon.state_dir)
