"""What do messages cost, small and large, with a token and without?

    python tests/bench/sizes.py [--sizes 100 10000 1000000] [--concurrency 16] [--seconds 1] [--rounds 5]

SendMessage and SendStreamingMessage with texts of so many bytes, which the executor says back; beside it aiohttp alone,
which parses the same message and answers with a task made of it, or with the same four frames. Printed: calls per
second, the server's CPU for each, and the ratios to aiohttp alone.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.bare import BareServer, bare_server
from tests.bench.client import load, sending
from tests.bench.support import PRESET, bench_daemon, cpu_seconds, ratio, run, show
from tests.daemon import DaemonProcess

TOKEN = "bench-token"
METHODS = {"SendMessage": "/echo", "SendStreamingMessage": "/stream"}


@dataclass(slots=True)
class Side:
    """One server with one kind of call, and what its rounds gave."""

    name: str
    pid: int
    url: str
    request: Callable[[], bytes]
    speeds: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    async def one_round(self, args: argparse.Namespace) -> None:
        cpu = cpu_seconds(self.pid)
        came = await load(self.url, [self.request] * args.concurrency, seconds=args.seconds)
        self.speeds.append(came.per_second)
        self.cpus.append((cpu_seconds(self.pid) - cpu) / len(came.latencies) * 1000)


def sides(method: str, size: int, server: BareServer, daemon: DaemonProcess, inbounds: tuple[str, str]) -> list[Side]:
    text = "x" * size
    urls = [server.url + METHODS[method], *map(daemon.endpoint, inbounds)]
    names = ("aiohttp alone", "a2ad", "a2ad, token")
    pids = (server.pid, daemon.process.pid, daemon.process.pid)
    return [
        Side(name, pid, url, sending(url, text, method=method, token=token))
        for name, pid, url, token in zip(names, pids, urls, (None, None, TOKEN), strict=True)
    ]


async def measure(args: argparse.Namespace) -> None:
    with bare_server() as server, bench_daemon() as (daemon, open_inbound):
        protected = daemon.create_inbound(preset=PRESET)
        daemon.act("inbound.setAuth", id=protected, token=TOKEN)
        inbounds = (open_inbound, protected)
        rows = {
            f"{method}, {size:,} B": sides(method, size, server, daemon, inbounds)
            for method in METHODS
            for size in args.sizes
        }
        for _ in range(args.rounds):
            for row in rows.values():
                for side in row:
                    await side.one_round(args)
    for name, row in rows.items():
        print(name)
        medians = []
        for side in row:
            medians.append(show(f"  {side.name}", side.speeds, "calls/s"))
            show(f"  {side.name}: CPU for each", side.cpus, "ms")
        for side, median in zip(row[1:], medians[1:], strict=True):
            ratio(f"  {side.name} / aiohttp alone", median, medians[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 10_000, 1_000_000])
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    run(measure(parser.parse_args()))


main()
