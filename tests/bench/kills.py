"""Does a daemon that is killed again and again lose, double, change or leave behind anything?

    python tests/bench/kills.py [--kills 300] [--seed 1]

`kill -9` at random moments under mixed load (blocking sends, streams, questions and answers, cancels, messages that
are repeated), always on the same state directory; one start in eight is killed as well, wherever it has got to. After
each kill the next daemon has to account for everything (`tests/crash_support.py`); the first thing that is wrong ends
it, with status 1 and the state directory left where it is. Prints what was sent, how old the oldest chunk was that a
kill took from a stream, and how long a start took.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.crash_support import (
    CONFIG,
    PLUGIN,
    PRESET,
    PROMISED_SECONDS,
    Load,
    account,
    check_database,
    environment,
)
from tests.daemon import DaemonProcess

#: of the tasks, so many of the newest are looked at after each kill; all of them after every so many, and at the end
NEWEST, ALL_EVERY = 300, 50
START_SECONDS = 1.0


async def soak(folder: Path, kills: int, seed: int) -> tuple[Load, list[float], int]:
    """What was sent, the seconds of each start until the daemon listened, and how many starts were killed."""
    more: dict[str, Any] = {"plugin": PLUGIN, "config": CONFIG, "env": environment(folder)}
    daemon = DaemonProcess(folder, **more)
    starts: list[float] = []
    early = 0
    try:
        load = Load(daemon.create_inbound(preset=PRESET), seed)
        while len(starts) + early < kills:
            await load.until_killed(daemon, load.random.randrange(1, 120))
            while load.random.random() < 1 / 8:
                early += 1
                kill_start(daemon, load.random.random() * START_SECONDS, environment(folder))
            begun = time.monotonic()
            daemon = DaemonProcess(folder, **more)
            starts.append(time.monotonic() - begun)
            last = len(starts) + early >= kills
            every = last or len(starts) % ALL_EVERY == 0
            await account(daemon, load, newest=None if every else NEWEST)
            if every:
                check_database(daemon.state_dir)
                print(f"{len(starts) + early} kills, {len(load.messages_to())} tasks", flush=True)
        assert "Traceback" not in daemon.log(), "there is a traceback in the log"
    finally:
        daemon.kill()
    return load, starts, early


def kill_start(daemon: DaemonProcess, after: float, env: dict[str, str]) -> None:
    """Start the daemon's command once more, and kill it so many seconds later."""
    with daemon.log_path.open("ab") as log:
        process = subprocess.Popen(
            daemon.command, stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, **env}, cwd=daemon.folder
        )
    time.sleep(after)
    process.kill()
    process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    begun = time.monotonic()
    try:
        load, starts, early = asyncio.run(soak(folder, args.kills, args.seed))
    except BaseException:
        print(f"the state is in {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder)
    messages = len(load.sent)
    print(f"{len(starts) + early} kills ({early} of them while the daemon started) in {time.monotonic() - begun:.0f} s")
    print(f"{messages} messages to {len(load.messages_to())} tasks: {dict(load.counts)}")
    print(f"start to listening: median {statistics.median(starts):.2f} s, longest {max(starts):.2f} s")
    late = [age for age in load.lost_ages if age > PROMISED_SECONDS]
    oldest = max(load.lost_ages, default=0.0)
    print(f"streams that lost chunks: {len(load.lost_ages)}; oldest chunk that was lost: {oldest * 1000:.0f} ms old")
    print(f"of these older than the promised {PROMISED_SECONDS * 1000:.0f} ms: {len(late)}")


main()
