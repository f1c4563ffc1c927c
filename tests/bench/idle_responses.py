"""What does an idle stream cost in aiohttp alone, and what with aiohttp-sse's response?

    python tests/bench/idle_responses.py [--streams 2000]

Each kind is served by a process of its own: a bare StreamResponse that is held open, and an EventSourceResponse
with its ping. Printed: kB of resident memory and asyncio tasks for each stream, and CPU at rest.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp_sse import EventSourceResponse

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.support import resident_kb

HOLD = 5.0


async def plain(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b":\n\n")
    await asyncio.get_running_loop().create_future()
    return response


async def sse(request: web.Request) -> web.StreamResponse:
    response = EventSourceResponse(ping_interval=4)
    await response.prepare(request)
    await response.send("first")
    await response.wait()
    return response


async def tasks(_: web.Request) -> web.Response:
    return web.Response(text=str(len(asyncio.all_tasks())))


async def serve(kind: str) -> None:
    app = web.Application()
    app.router.add_get("/", {"plain": plain, "sse": sse}[kind])
    app.router.add_get("/tasks", tasks)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().create_future()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(kind: str, streams: int) -> None:
    server = subprocess.Popen([sys.executable, __file__, "--serve", kind], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}"
    try:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as http:
            before = resident_kb(server.pid)
            held = [await http.get(url) for _ in range(streams)]
            await asyncio.sleep(1)
            memory = (resident_kb(server.pid) - before) / streams
            cpu, start = cpu_seconds(server.pid), time.perf_counter()
            await asyncio.sleep(HOLD)
            cpu = (cpu_seconds(server.pid) - cpu) / (time.perf_counter() - start) * 100
            async with http.get(f"{url}/tasks") as answer:
                per_stream = (int(await answer.text()) - 2) / streams
            print(f"{kind:6} {memory:6.1f} kB per stream   {per_stream:.1f} asyncio tasks   {cpu:4.1f} % CPU at rest")
            for response in held:
                response.close()
    finally:
        server.kill()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--serve", choices=["plain", "sse"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        from uvloop import run
    except ImportError:
        from asyncio import run
    if args.serve:
        run(serve(args.serve))
    for kind in ("plain", "sse"):
        run(measure(kind, args.streams))


main()
