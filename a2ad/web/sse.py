"""The streams of frames: Server-Sent Events, written straight to aiohttp's StreamResponse.

aiohttp-sse's response keeps an asyncio task with a timer for each stream's ping, and splits and joins each frame's
text anew. Measured with 2,000 idle streams (aiohttp 3.14, aiohttp-sse 3.0, uvloop; `tests/bench/idle_responses.py`):
13.3 kB, three asyncio tasks and 2.2 % CPU at rest in all, against 10.5 kB, two tasks and no CPU of a bare response.
So one timer writes the keepalive of all streams of frames here; aiohttp-sse serves the control API's few others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aiohttp import hdrs, web

from a2ad.engine import Frame, Lagged, Reader
from a2ad.errors import InternalError, ProtocolError
from a2ad.web import jsonrpc
from a2ad.web.peers import Peers

HEADERS = {
    hdrs.CONTENT_TYPE: "text/event-stream",
    hdrs.CACHE_CONTROL: "no-cache",
    "X-Accel-Buffering": "no",
}
A2A_HEADERS = {**HEADERS, "A2A-Version": "1.0"}
COMMENT = b":\n\n"
CHUNKED_COMMENT = b"3\r\n:\n\n\r\n"
#: a client that takes nothing for so long is gone, in seconds
SEND_SECONDS = 60


class Form:
    """How a stream is written: what stands before and after each result, with what it opens and what closes it."""

    __slots__ = ("after", "before")
    headers: Mapping[str, str] = HEADERS

    def __init__(self, before: bytes, after: bytes) -> None:
        self.before = before
        self.after = after

    @property
    def opening(self) -> bytes:
        """What is written before there is any frame."""
        return b""

    def closing(self, failure: ProtocolError | None) -> bytes:
        """What is written after the last frame; `failure` is why there are no more, where the task has not ended."""
        raise NotImplementedError


class Envelopes(Form):
    """Responses to the JSON-RPC request of this (encoded) id."""

    __slots__ = ("_a2a_dialect", "_call_id")
    headers = A2A_HEADERS

    def __init__(self, call_id: bytes, *, a2a_dialect: bool) -> None:
        super().__init__(b'\ndata: {"jsonrpc":"2.0","id":' + call_id + b',"result":', b"}\n\n")
        self._call_id = call_id
        self._a2a_dialect = a2a_dialect

    def closing(self, failure: ProtocolError | None) -> bytes:
        if failure is None:
            return b""
        return b"data: " + jsonrpc.failure(self._call_id, failure, a2a_dialect=self._a2a_dialect) + b"\n\n"


class Stream:
    """One open stream. The times are the loop's."""

    __slots__ = ("_chunked", "_request", "last_write", "reader", "writing")

    def __init__(self, request: web.BaseRequest, reader: Reader, now: float) -> None:
        self.reader = reader
        self.last_write = now
        self.writing = False
        self._request = request
        self._chunked = request.version >= (1, 1)

    def keep_alive(self) -> None:
        """A comment between two frames. It goes to the transport itself: `StreamResponse.write` may wait, and the
        timer must not.
        """
        transport = self._request.transport
        if transport is not None and not self.writing and not transport.get_write_buffer_size():
            transport.write(CHUNKED_COMMENT if self._chunked else COMMENT)

    def check(self, now: float) -> None:
        """End it where nobody reads any more."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            self.reader.fail(ConnectionResetError())
        elif self.writing and (isinstance(self.reader.failure, Lagged) or now - self.last_write > SEND_SECONDS):
            transport.abort()


class Streams:
    """All open streams, and the one timer that they share."""

    def __init__(self, peers: Peers, *, keepalive_seconds: float, a2a_dialect: bool) -> None:
        self._peers = peers
        self._keepalive = keepalive_seconds
        self._a2a_dialect = a2a_dialect
        self._open: set[Stream] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now, step = loop.time(), min(1.0, self._keepalive / 4)
        for stream in list(self._open):
            stream.check(now)
            if now - stream.last_write > self._keepalive - step:
                if not stream.writing:
                    stream.last_write = now
                stream.keep_alive()
        self._peers.sweep()
        self._timer = loop.call_later(step, self._tick)

    async def serve(self, request: web.BaseRequest, call_id: bytes, reader: Reader) -> web.StreamResponse:
        """Answer a call with the reader's frames as they come, to their end."""
        return await self.write(request, reader, Envelopes(call_id, a2a_dialect=self._a2a_dialect))

    async def write(self, request: web.BaseRequest, reader: Reader, form: Form) -> web.StreamResponse:
        """Write the reader's frames as they come, to their end."""
        loop = asyncio.get_running_loop()
        stream = Stream(request, reader, loop.time())
        response = web.StreamResponse(headers=form.headers)
        try:
            await response.prepare(request)
            if form.opening or not reader.ready:
                await response.write(form.opening or COMMENT)  # the headers must not wait for the first frame
            self._open.add(stream)
            while frames := await reader.take():
                stream.writing = True
                stream.last_write = loop.time()
                await response.write(_events(frames, form.before, form.after))
                stream.writing = False
                stream.last_write = loop.time()
                del frames  # nothing of them is held while there are no others
            await self._finish(request, response, reader, form)
        except ConnectionError as error:
            error.__traceback__ = None  # the client has left; its task goes on, and nothing is kept of its stream
        finally:
            self._open.discard(stream)
            reader.close()
        return response

    @staticmethod
    async def _finish(request: web.BaseRequest, response: web.StreamResponse, reader: Reader, form: Form) -> None:
        failure = reader.failure
        if isinstance(failure, (Lagged, ConnectionError)):
            # half a stream must not look like a whole one
            if request.transport is not None:
                request.transport.abort()
            return
        told = failure if failure is None or isinstance(failure, ProtocolError) else InternalError()
        await response.write_eof(form.closing(told))


def last_event_id(request: web.BaseRequest) -> int | None:
    """The frame after which the client wants to go on; None where it does not say, or it is no frame's number."""
    last = request.headers.get("Last-Event-ID", "").strip()
    return int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else None


def _events(frames: Sequence[Frame], before: bytes, after: bytes) -> bytes:
    """The frames as events; empty where there are none. Nothing but this is held while a client is slow to take it."""
    return b"".join([piece for number, result, _ in frames for piece in (b"id: %d" % number, before, result, after)])
