"""What does it cost to hand one task's chunks to many?

    python tests/bench/fan_out.py [--subscribers 500] [--chunks 500] [--size 100] [--rounds 5]

One task streams, and all subscribers have to get every chunk of it. Beside it aiohttp alone writes the same bytes, one
write for each frame, to as many responses. Both do it once as fast as they can, and once with a turn of the event loop
after each chunk, as where an agent says them one by one: then no two can leave together. Printed: chunks per second in
all, from the start until the last stream has ended, and the server's CPU for each.
"""

import argparse
import http.client
import json
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.bare import BareServer, bare_server
from tests.bench.client import Watcher, connected, post, rpc, watch
from tests.bench.support import bench_daemon, cpu_seconds, raise_descriptors, ratio, run, show
from tests.daemon import DaemonProcess, message

#: what the executor is told, and what it is called here
VERBS = {"stream": "at once", "drip": "one by one"}
Go = Callable[[], Awaitable[object]]


async def delivered(watchers: list[Watcher], chunks: int, pid: int, go: Go) -> tuple[float, float]:
    """Chunks per second, and microseconds of the server's CPU for each."""
    cpu, begun = cpu_seconds(pid), time.perf_counter()
    await go()
    for watcher in watchers:
        assert await watcher.ended
        assert watcher.chunks == chunks, watcher.chunks
        watcher.transport.close()
    count = len(watchers) * chunks
    return count / (time.perf_counter() - begun), (cpu_seconds(pid) - cpu) / count * 1e6


async def of_daemon(daemon: DaemonProcess, inbound: str, verb: str, args: argparse.Namespace) -> tuple[float, float]:
    url = daemon.endpoint(inbound)
    task_id = daemon.send(inbound, "ask")["id"]
    watchers = await watch(url, [rpc(url, "SubscribeToTask", {"id": task_id})] * args.subscribers)
    answer = message(f"{verb} {args.chunks} {args.size}", taskId=task_id)
    request = rpc(url, "SendMessage", {"message": answer, "configuration": {"returnImmediately": True}})
    connection = await connected(url)
    return await delivered(watchers, args.chunks, daemon.process.pid, lambda: connection.call(request))


async def of_bare(server: BareServer, verb: str, args: argparse.Namespace) -> tuple[float, float]:
    watchers = await watch(server.url, [post(f"{server.url}/fan", b"")] * args.subscribers)
    connection = await connected(server.url)
    go = post(f"{server.url}/go", b"turns" if verb == "drip" else b"")
    return await delivered(watchers, args.chunks, server.pid, lambda: connection.call(go))


def recorded(daemon: DaemonProcess, inbound: str, args: argparse.Namespace) -> bytes:
    """A stream of the daemon, to be written by aiohttp alone."""
    where = urlsplit(daemon.endpoint(inbound))
    params = {"message": message(f"stream {args.chunks} {args.size}")}
    envelope = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params})
    connection = http.client.HTTPConnection(where.hostname or "", where.port)
    connection.request("POST", where.path, envelope, {"Content-Type": "application/json"})
    return connection.getresponse().read()


async def measure(args: argparse.Namespace) -> None:
    figures: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    with bench_daemon() as (daemon, inbound), bare_server() as server:
        connection = await connected(server.url)
        await connection.call(post(f"{server.url}/frames", recorded(daemon, inbound, args)))
        for _ in range(args.rounds):
            for verb in VERBS:
                figures[verb, "aiohttp alone"].append(await of_bare(server, verb, args))
                figures[verb, "a2ad"].append(await of_daemon(daemon, inbound, verb, args))
    for verb, how in VERBS.items():
        speeds = []
        for name in ("aiohttp alone", "a2ad"):
            of_speed, of_cpu = zip(*figures[verb, name], strict=True)
            speeds.append(show(f"{how}: {name}", of_speed, "chunks/s"))
            show(f"{how}: {name}, CPU for each", of_cpu, "us")
        ratio(f"{how}: a2ad / aiohttp alone", speeds[1], speeds[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscribers", type=int, default=500)
    parser.add_argument("--chunks", type=int, default=500)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    raise_descriptors(args.subscribers)
    run(measure(args))


main()
