"""aiohttp's low-level server, without an application: the paths are the operator's, and change while it runs.

What cannot be read as HTTP is answered and logged without a word of it: it may hold a token.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from aiohttp import web

log = structlog.get_logger()


class HttpServer(web.Server):
    """Makes a `Connection` for each connection."""

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)


class Connection(web.RequestHandler):
    """`peer` is the address at its other end, `unix` for a Unix socket, empty where that is not known; `on_lost` are
    called when the client leaves.
    """

    __slots__ = ("on_lost", "peer")

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.on_lost: tuple[Callable[[], object], ...] = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peername = transport.get_extra_info("peername")
        sock = transport.get_extra_info("socket")
        if isinstance(peername, tuple):
            self.peer = str(peername[0])
        else:  # of a TCP connection that was reset already, nobody knows whose it was: no neighbour's
            self.peer = "unix" if sock is not None and sock.family == socket.AF_UNIX else ""

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        for callback in self.on_lost:
            callback()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - the parser's, with an excerpt of what was sent
    ) -> web.StreamResponse:
        """An answer to a request that could not be read, or whose handler failed."""
        if request.writer.output_size > 0 or isinstance(exc, ConnectionError):
            raise ConnectionError("the response has begun, or nobody is there to read it")
        if status == 500:
            reference = secrets.token_hex(4)
            log.error("request.failed", reference=reference, exc_info=exc)
            text = f"internal error (reference {reference})"
        else:
            log.info("request.malformed", source=request.remote, error=type(exc).__name__)
            text = "the request is not valid HTTP" if status == 400 else "the request cannot be answered"
        response = web.json_response({"error": text}, status=status)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """What goes wrong between the requests of a connection: its own text may quote them."""
        error = kw.get("exc_info")
        tell = log.info if isinstance(error, web.RequestPayloadError) else log.warning  # a body that was no gzip
        tell("connection.failed", error=type(error).__name__, at=str(args[0]) if args else "")


def check_connected(request: web.BaseRequest) -> None:
    """Raises `ConnectionResetError` where the client has left; aiohttp-sse takes it for granted that it has not."""
    if request.transport is None:
        raise ConnectionResetError("the client has left")


@contextmanager
def on_disconnect(request: web.BaseRequest, callback: Callable[[], object]) -> Iterator[None]:
    """Have something called if the request's client leaves meanwhile."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    if connection.transport is None:
        callback()
    connection.on_lost += (callback,)
    try:
        yield
    finally:
        connection.on_lost = tuple(other for other in connection.on_lost if other is not callback)
