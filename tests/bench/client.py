"""A client that costs little, so that what is measured is the server: protocols over asyncio that hardly look at what
comes.
"""

import asyncio
import json
import re
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.daemon import message

COMPLETED = b'"TASK_STATE_COMPLETED"'
CHUNK = b'"artifactUpdate"'
#: stands in a request for the messageId that each of its copies gets
MESSAGE_ID = str(uuid.uuid4())
#: streams that are opened at the same time
OPENED_AT_ONCE = 64

_HEAD_END, _LAST_CHUNK, _BLANK_LINE = b"\r\n\r\n", b"\r\n0\r\n\r\n", b"\n\n"
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)", re.IGNORECASE)


def post(url: str, body: bytes | dict[str, Any], *, token: str | None = None) -> bytes:
    """A whole HTTP request; a body that is not bytes is sent as JSON."""
    where = urlsplit(url)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {where.path or '/'} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def rpc(url: str, method: str, params: dict[str, Any], *, token: str | None = None) -> bytes:
    """The request of a JSON-RPC call."""
    return post(url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, token=token)


def sending(
    url: str, text: str, *, method: str = "SendMessage", token: str | None = None, **more: Any
) -> Callable[[], bytes]:
    """Requests that send this text, each with a messageId of its own. `more` goes into the message."""
    params = {"message": message(text, messageId=MESSAGE_ID, **more)}
    before, after = rpc(url, method, params, token=token).split(MESSAGE_ID.encode())
    return lambda: b"%b%b%b" % (before, str(uuid.uuid4()).encode(), after)


class Connection(asyncio.Protocol):
    """One request at a time, on a connection that is kept."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._missing: int | None = None
        self._tail = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    async def call(self, request: bytes) -> bytes:
        """The answer's body, chunks as they came. Raises `AssertionError` where its status is not 200."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        assert self._answer is not None, data
        if not self._parts:
            head, found, body = (self._tail + data).partition(_HEAD_END)
            if not found:
                self._tail = head
                return
            if not head.startswith(b"HTTP/1.1 200 "):
                self._fail(AssertionError(head + body[:2000]))
                return
            length = _LENGTH.search(head)
            self._missing = int(length[1]) if length else None
            self._tail, data = b"", body
        self._parts.append(data)
        if self._missing is None:  # it comes in chunks
            self._tail = (self._tail + data[-len(_LAST_CHUNK) :])[-len(_LAST_CHUNK) :]
            complete = self._tail == _LAST_CHUNK
        else:
            self._missing -= len(data)
            complete = not self._missing
        if complete:
            answer, self._parts, self._tail = b"".join(self._parts), [], b""
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


class Watcher(asyncio.Protocol):
    """A stream that is counted and not kept. `chunks` have come; `opened` is done with the first event or comment,
    `ended` with the end of the stream: true where it ended in order, false where it was cut.
    """

    def __init__(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.chunks = 0
        self.opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[bool] = loop.create_future()
        #: seconds for which it reads nothing after each time that it has read something; None: for ever
        self.pause: float | None = 0
        self._request = request
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        data = self._tail + data
        self.chunks += data.count(CHUNK)
        self._tail = data[1 - len(CHUNK) :]  # too short to be counted twice
        if not self.opened.done() and _BLANK_LINE in data:
            self.opened.set_result(None)
        if data.endswith(_LAST_CHUNK):
            self.ended.set_result(True)
        if self.pause != 0:
            self.transport.pause_reading()
            if self.pause is not None:
                asyncio.get_running_loop().call_later(self.pause, self._resume)

    def _resume(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(exc or ConnectionResetError("the stream was not opened"))
        if not self.ended.done():
            self.ended.set_result(False)


async def connected(url: str) -> Connection:
    where = urlsplit(url)
    _, connection = await asyncio.get_running_loop().create_connection(Connection, where.hostname, where.port)
    return connection


async def watch(url: str, requests: Sequence[bytes], *, receive_buffer: int | None = None) -> list[Watcher]:
    """Open streams. `receive_buffer` is what the kernel keeps for one that does not read, in bytes."""
    return [
        each
        for start in range(0, len(requests), OPENED_AT_ONCE)
        for each in await asyncio.gather(
            *(_watch(url, request, receive_buffer) for request in requests[start : start + OPENED_AT_ONCE])
        )
    ]


async def _watch(url: str, request: bytes, receive_buffer: int | None) -> Watcher:
    where = urlsplit(url)
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (where.hostname, where.port))
    _, watcher = await loop.create_connection(lambda: Watcher(request), sock=sock)
    await watcher.opened
    return watcher


@dataclass(frozen=True, slots=True)
class Load:
    """What a load came to; the latencies are in milliseconds."""

    latencies: list[float]
    seconds: float

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds


async def load(
    url: str,
    requests: Sequence[Callable[[], bytes]],
    *,
    seconds: float | None = None,
    count: int | None = None,
    expected: bytes = COMPLETED,
) -> Load:
    """Call over and over, with one connection for each of `requests`, for so long or so often.

    Raises `AssertionError` for an answer that does not have `expected` in it.
    """
    connections = [await connected(url) for _ in requests]
    latencies: list[float] = []
    begun = time.perf_counter()
    left = count

    async def work(connection: Connection, request: Callable[[], bytes]) -> None:
        nonlocal left
        while left is None or left > 0:
            left = None if left is None else left - 1
            start = time.perf_counter()
            if seconds is not None and start - begun > seconds:
                return
            answer = await connection.call(request())
            assert expected in answer, answer[:2000]
            latencies.append((time.perf_counter() - start) * 1000)

    await asyncio.gather(*map(work, connections, requests))
    elapsed = time.perf_counter() - begun
    for connection in connections:
        connection.transport.close()
    return Load(latencies, elapsed)
