"""The requests and streams that are open now, for the operator (`protocol.md` 7, "peer")."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

from aiohttp import web

from a2ad.model import now_ms, timestamp


class Peer:
    """One request in progress. `waiting`: it does nothing but wait for its task, and may be cancelled."""

    __slots__ = ("_connected", "_handler", "_request", "method", "number", "server_id", "source", "streaming",
                 "task_id", "waiting")  # fmt: skip

    def __init__(self, number: int, request: web.BaseRequest, server_id: str, source: str, method: str) -> None:
        self.number = number
        self.server_id = server_id
        self.source = source
        self.method = method
        self.streaming = False
        self.waiting = False
        self.task_id: str | None = None
        self._request = request
        self._connected = now_ms()
        self._handler = asyncio.current_task()

    @property
    def id(self) -> str:
        return f"peer-{self.number}"

    @property
    def gone(self) -> bool:
        transport = self._request.transport
        return transport is None or transport.is_closing()

    def close(self) -> None:
        """End the connection; the task goes on."""
        if self._request.transport is not None:
            self._request.transport.abort()
        self.give_up()

    def give_up(self) -> None:
        if self.waiting and self._handler is not None:
            self._handler.cancel()

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "serverId": self.server_id,
            "source": self.source,
            "method": self.method,
            "streaming": self.streaming,
            "taskIds": [] if self.task_id is None else [self.task_id],
            "connectedAt": timestamp(self._connected),
        }


class Peers:
    def __init__(self) -> None:
        self._open: dict[int, Peer] = {}
        self._numbers = count(1)

    def __iter__(self) -> Iterator[Peer]:
        return (peer for peer in list(self._open.values()) if not peer.gone)

    def open(self, request: web.BaseRequest, server_id: str, source: str, method: str) -> Peer:
        peer = Peer(next(self._numbers), request, server_id, source, method)
        self._open[peer.number] = peer
        return peer

    def closed(self, peer: Peer) -> None:
        del self._open[peer.number]

    def get(self, peer_id: str) -> Peer | None:
        return next((peer for peer in self._open.values() if peer.id == peer_id), None)

    def sweep(self) -> None:
        """Let go of requests that wait for a task while their client has left."""
        for peer in list(self._open.values()):
            if peer.waiting and peer.gone:
                peer.give_up()
