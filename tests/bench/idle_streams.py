"""What does an idle stream cost the daemon, and what aiohttp alone?

    python tests/bench/idle_streams.py [--streams 2000] [--hold 10] [--rounds 3]

Each stream is that of a task which works without a word; beside it, a bare StreamResponse that is held open. The
daemon's keepalive is on. Both are a fresh process in each round. Printed: kB of resident memory for each stream, CPU
at rest in per cent of a core, and how long an ordinary call among them takes, one at a time.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.bare import bare_server
from tests.bench.client import load, post, sending, watch
from tests.bench.support import bench_daemon, cpu_at_rest, raise_descriptors, resident_kb, run, show

#: ordinary calls: before the streams, so that all is imported, and among them
WARM, CALLS = 50, 200
SETTLED = 1.0


@dataclass(frozen=True, slots=True)
class Side:
    pid: int
    url: str
    call: Callable[[], bytes]
    streams: Callable[[], bytes]


@contextmanager
def own() -> Iterator[Side]:
    with bench_daemon() as (daemon, inbound):
        url = daemon.endpoint(inbound)
        streams = sending(url, "wait 3600", method="SendStreamingMessage")
        yield Side(daemon.process.pid, url, sending(url, "hello"), streams)


@contextmanager
def bare() -> Iterator[Side]:
    with bare_server() as server:
        held = post(f"{server.url}/hold", b"")
        yield Side(server.pid, server.url, sending(f"{server.url}/echo", "hello"), lambda: held)


async def one_round(side: Side, args: argparse.Namespace) -> tuple[float, float, float]:
    """kB for a stream, CPU in per cent, and milliseconds of a call (the median)."""
    await load(side.url, [side.call], count=WARM)
    before = resident_kb(side.pid)
    held = await watch(side.url, [side.streams() for _ in range(args.streams)])
    await asyncio.sleep(SETTLED)
    memory = (resident_kb(side.pid) - before) / args.streams
    cpu = await cpu_at_rest(side.pid, args.hold)
    calls = await load(side.url, [side.call], count=CALLS)
    for watcher in held:
        assert not watcher.ended.done()
        watcher.transport.abort()
    return memory, cpu, statistics.median(calls.latencies)


async def measure(args: argparse.Namespace) -> None:
    figures: dict[str, list[tuple[float, float, float]]] = {"aiohttp alone": [], "a2ad": []}
    for _ in range(args.rounds):
        for name, start in (("aiohttp alone", bare), ("a2ad", own)):
            with start() as side:
                figures[name].append(await one_round(side, args))
    memory = []
    for name, rounds in figures.items():
        of_memory, of_cpu, of_calls = zip(*rounds, strict=True)
        memory.append(show(f"{name}: memory of a stream", of_memory, "kB"))
        show(f"{name}: CPU at rest", of_cpu, "%")
        show(f"{name}: a call among them", of_calls, "ms")
    print(f"{'a2ad - aiohttp alone':52} {memory[1] - memory[0]:12.2f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--hold", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    raise_descriptors(args.streams)
    run(measure(args))


main()
