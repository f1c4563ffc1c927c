"""aiohttp alone, in a process of its own: what it takes to read and write the same bytes, and nothing else.

    python tests/bench/bare.py

Prints its URL. The measurements start it by themselves.
"""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from aiohttp_sse import EventSourceResponse

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.support import run

JSON = {"Content-Type": "application/json"}
BACKLOG = 1024
BODY_BYTES = 100 << 20
AT = "2026-12-01T00:00:00.000Z"


class Bare:
    """The handlers. `/echo` and `/stream` parse a SendMessage and answer as the daemon does; `/fan` writes the frames
    that were sent to `/frames`, to all that have come by then, once `/go` is called: with a turn of the loop after each
    where the body of that call is not empty.
    """

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.go = asyncio.Event()
        self.turns = False

    async def echo(self, request: web.Request) -> web.Response:
        call, task = _task(await request.read())
        return web.Response(body=_envelope(call, {"task": task}), headers=JSON)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        call, task = _task(await request.read())
        response = await _opened(request)
        ids = {"taskId": task["id"], "contextId": task["contextId"]}
        (artifact,) = task["artifacts"]
        results: list[dict[str, Any]] = [
            {"task": {**task, "artifacts": []}},
            {"artifactUpdate": {**ids, "artifact": artifact, "append": False, "lastChunk": True}},
            {"statusUpdate": {**ids, "status": task["status"]}},
            {"task": task},
        ]
        for number, result in enumerate(results, start=1):
            await response.write(b"id: %d\ndata: %b\n\n" % (number, _envelope(call, result)))
        return response

    async def keep_frames(self, request: web.Request) -> web.Response:
        self.frames = [frame + b"\n\n" for frame in (await request.read()).split(b"\n\n")[:-1]]
        return web.Response()

    async def fan(self, request: web.Request) -> web.StreamResponse:
        response = await _opened(request)
        await response.write(b":\n\n")
        await self.go.wait()
        for frame in self.frames:
            await response.write(frame)
            if self.turns:
                await asyncio.sleep(0)
        return response

    async def start(self, request: web.Request) -> web.Response:
        self.turns = bool(await request.read())
        self.go.set()
        self.go = asyncio.Event()
        return web.Response()

    async def hold(self, request: web.Request) -> web.StreamResponse:
        response = await _opened(request)
        await response.write(b":\n\n")
        await asyncio.get_running_loop().create_future()
        return response

    async def hold_sse(self, request: web.Request) -> web.StreamResponse:
        response = EventSourceResponse(ping_interval=4, allow_all_methods=True, sep="\n")
        await response.prepare(request)
        await response.send("first")
        await response.wait()
        return response

    async def count_tasks(self, _: web.Request) -> web.Response:
        return web.Response(text=str(len(asyncio.all_tasks())))


async def _opened(request: web.Request) -> web.StreamResponse:
    await request.read()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    return response


def _task(body: bytes) -> tuple[Any, dict[str, Any]]:
    """The call's id, and a task that says back what it was sent."""
    call = orjson.loads(body)
    message = call["params"]["message"]
    task = {
        "id": str(uuid.uuid4()),
        "contextId": str(uuid.uuid4()),
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": AT},
        "artifacts": [{"artifactId": "result", "parts": message["parts"]}],
        "history": [message],
    }
    return call["id"], task


def _envelope(call_id: Any, result: dict[str, Any]) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": call_id, "result": result})


@dataclass(frozen=True, slots=True)
class BareServer:
    url: str
    pid: int


@contextmanager
def bare_server() -> Iterator[BareServer]:
    """The server as a process; killed afterwards."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield BareServer(process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()


async def serve() -> None:
    bare = Bare()
    app = web.Application(client_max_size=BODY_BYTES)
    handlers = {
        "/echo": bare.echo,
        "/stream": bare.stream,
        "/frames": bare.keep_frames,
        "/fan": bare.fan,
        "/go": bare.start,
        "/hold": bare.hold,
        "/hold-sse": bare.hold_sse,
        "/tasks": bare.count_tasks,
    }
    for path, handler in handlers.items():
        app.router.add_post(path, handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    run(serve())
