"""Many at once: streams, blocking calls and readers that stall, on one daemon."""

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.bench.support import PLUGIN, PRESET, resident_kb
from tests.daemon import DaemonProcess, message

STREAMS, CALLS, STALLED, CHUNKS = 300, 200, 10, 200
RAISED = "[limits]\nruns = 1000\nruns_per_inbound = 1000\nshutdown_seconds = 5\n"
RESIDENT_MB = 150


def _body(method: str, text: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": text, "method": method, "params": {"message": message(text)}}


async def _stream(http: aiohttp.ClientSession, url: str) -> dict[str, object]:
    """The last frame's task, after frames whose ids rise by one."""
    numbers, last = [], b""
    async with http.post(url, json=_body("SendStreamingMessage", f"stream {CHUNKS} 50")) as response:
        async for line in response.content:
            if line.startswith(b"id: "):
                numbers.append(int(line[4:]))
            elif line.startswith(b"data: "):
                last = line[6:]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= CHUNKS + 3
    task: dict[str, object] = json.loads(last)["result"]["task"]
    return task


async def _call(http: aiohttp.ClientSession, url: str, number: int) -> dict[str, object]:
    async with http.post(url, json=_body("SendMessage", f"call {number}")) as response:
        task: dict[str, object] = (await response.json())["result"]["task"]
        return task


def _stall(url: str) -> socket.socket:
    """A client that asks for a large stream and reads nothing of it."""
    where = urlsplit(url)
    body = json.dumps(_body("SendStreamingMessage", "stream 2000 100")).encode()
    sock = socket.create_connection((where.hostname or "", where.port or 0))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = f"POST {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return sock


async def _load(url: str) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as http:
        streams = [_stream(http, url) for _ in range(STREAMS)]
        calls = [_call(http, url, number) for number in range(CALLS)]
        both = await asyncio.gather(*streams, *calls)
    return both[:STREAMS], both[STREAMS:]


@pytest.mark.parametrize(
    "config", [RAISED, "[limits]\nshutdown_seconds = 5\n"], ids=["raised limits", "default limits"]
)
def test_everyone_gets_the_right_answer_though_some_read_nothing(
    launch: Callable[..., DaemonProcess], config: str
) -> None:
    daemon = launch(plugin=PLUGIN, config=config)
    inbound = daemon.create_inbound(preset=PRESET)
    with ExitStack() as stack:
        for _ in range(STALLED):
            stack.enter_context(_stall(daemon.endpoint(inbound)))
        streams, calls = asyncio.run(_load(daemon.endpoint(inbound)))
        resident = resident_kb(daemon.process.pid)
        assert daemon.terminate(timeout=20) == 0

    text = "x" * 50 * CHUNKS
    assert [task["artifacts"][0]["parts"] for task in streams] == [[{"text": text}]] * STREAMS  # type: ignore[index]
    said = {task["artifacts"][0]["parts"][0]["text"] for task in calls}  # type: ignore[index]
    assert said == {f"call {number}" for number in range(CALLS)}
    assert resident < RESIDENT_MB * 1024
    assert "Traceback" not in daemon.log()
