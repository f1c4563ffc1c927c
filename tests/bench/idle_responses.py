"""What does an idle stream cost in aiohttp alone, and what with aiohttp-sse's response?

    python tests/bench/idle_responses.py [--streams 2000] [--hold 5]

Each kind is served by a process of its own: a bare StreamResponse that is held open, and an EventSourceResponse
with its ping. Printed: kB of resident memory and asyncio tasks for each stream, and CPU at rest.
"""

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.bare import bare_server
from tests.bench.client import connected, post, watch
from tests.bench.support import cpu_at_rest, raise_descriptors, resident_kb, run

SETTLED = 1.0
PATHS = {"plain": "/hold", "sse": "/hold-sse"}


async def measure(kind: str, streams: int, hold: float) -> None:
    with bare_server() as server:
        connection = await connected(server.url)
        count_tasks = post(f"{server.url}/tasks", b"")
        before, tasks = resident_kb(server.pid), int(await connection.call(count_tasks))
        held = await watch(server.url, [post(server.url + PATHS[kind], b"")] * streams)
        await asyncio.sleep(SETTLED)
        memory = (resident_kb(server.pid) - before) / streams
        cpu = await cpu_at_rest(server.pid, hold)
        per_stream = (int(await connection.call(count_tasks)) - tasks) / streams
        print(f"{kind:6} {memory:6.1f} kB per stream   {per_stream:.1f} asyncio tasks   {cpu:4.1f} % CPU at rest")
        for watcher in held:
            watcher.transport.abort()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--hold", type=float, default=5)
    args = parser.parse_args()
    raise_descriptors(args.streams)
    for kind in PATHS:
        run(measure(kind, args.streams, args.hold))


main()
