"""What does one reader that does not keep up cost the others?

    python tests/bench/slow_reader.py [--readers 50] [--chunks 5000] [--size 400] [--rounds 11]

A fast task has so many readers. All of them read; or the first reads nothing; or it reads a little every 50 ms.
Printed: chunks per second that the others get, the daemon's CPU for each, and how much less they get because of the
slow one.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.client import connected, rpc, watch
from tests.bench.support import bench_daemon, cpu_seconds, run, show
from tests.daemon import DaemonProcess, message

#: what the first reader does: seconds of its pauses, None for ever
KINDS: dict[str, float | None] = {"all read": 0, "one stalls": None, "one is slow": 0.05}
#: what the kernel keeps for the first reader, in bytes: little, so that its slowness reaches the daemon
RECEIVE_BUFFER = 1 << 14


async def one_round(
    daemon: DaemonProcess, inbound: str, args: argparse.Namespace, pause: float | None
) -> tuple[float, float]:
    """Chunks per second of the others until the last has them all, and the daemon's CPU for each, in microseconds."""
    url = daemon.endpoint(inbound)
    task_id = daemon.send(inbound, "ask")["id"]
    request = rpc(url, "SubscribeToTask", {"id": task_id})
    (first,) = await watch(url, [request], receive_buffer=RECEIVE_BUFFER if pause != 0 else None)
    others = await watch(url, [request] * (args.readers - 1))
    first.pause = pause
    answer = message(f"stream {args.chunks} {args.size}", taskId=task_id)
    connection = await connected(url)
    cpu, begun = cpu_seconds(daemon.process.pid), time.perf_counter()
    await connection.call(rpc(url, "SendMessage", {"message": answer, "configuration": {"returnImmediately": True}}))
    for watcher in others:
        assert await watcher.ended
        assert watcher.chunks == args.chunks, watcher.chunks
    seconds, cpu = time.perf_counter() - begun, cpu_seconds(daemon.process.pid) - cpu
    for each in (first, *others, connection):
        each.transport.abort()
    count = len(others) * args.chunks
    return count / seconds, cpu / count * 1e6


async def measure(args: argparse.Namespace) -> None:
    figures: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with bench_daemon() as (daemon, inbound):
        await one_round(daemon, inbound, args, 0)
        for _ in range(args.rounds):
            for kind, pause in KINDS.items():
                figures[kind].append(await one_round(daemon, inbound, args, pause))
    medians = {}
    for kind, rounds in figures.items():
        speeds, cpus = zip(*rounds, strict=True)
        medians[kind] = show(f"{kind}: the others get", speeds, "chunks/s")
        show(f"{kind}: CPU for each", cpus, "us")
    for kind in ("one stalls", "one is slow"):
        print(f"{f'{kind}: the others lose':52} {(1 - medians[kind] / medians['all read']) * 100:12.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=11)
    run(measure(parser.parse_args()))


main()
