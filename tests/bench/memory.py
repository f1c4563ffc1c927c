"""Does a daemon that has done many tasks take more memory than one that has done few?

    python tests/bench/memory.py [--tasks 1000 100000] [--concurrency 16]

SendMessage over and over, each a task and a context of its own. Printed: resident memory after so many tasks, and
what came on top since the first of these numbers.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.client import load, sending
from tests.bench.support import bench_daemon, resident_kb, run

#: what is written behind the answers is written then, in seconds
SETTLED = 1.0


async def measure(args: argparse.Namespace) -> None:
    with bench_daemon() as (daemon, inbound):
        url, pid = daemon.endpoint(inbound), daemon.process.pid
        done, figures = 0, []
        for count in sorted(args.tasks):
            came = await load(url, [sending(url, "hello")] * args.concurrency, count=count - done)
            done = count
            time.sleep(SETTLED)
            figures.append(resident_kb(pid) / 1024)
            print(
                f"{count:9,} tasks: {figures[-1]:7.1f} MB, {figures[-1] - figures[0]:+6.1f} MB"
                f"   ({came.per_second:,.0f} tasks/s)",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--concurrency", type=int, default=16)
    run(measure(parser.parse_args()))


main()
