"""The agent processes of one preset: one at a time, and another where that has ended or does not do its work."""

from __future__ import annotations

import asyncio

from a2ad import AgentContext, TaskFailed
from a2ad_acp.messages import LINE_BYTES
from a2ad_acp.options import Options
from a2ad_acp.peer import Peer
from a2ad_acp.process import AgentProcess
from a2ad_acp.session import AcpSession


class Peers:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._starting: asyncio.Task[Peer] | None = None
        self._peers: set[Peer] = set()
        self._closed = False

    async def open(self, context: AgentContext) -> AcpSession:
        """A session for the context. Raises `TaskFailed`."""
        session = AcpSession(self._options, context, self.join)
        await session.open()
        return session

    async def join(self, user: object) -> Peer:
        """The process that there is, else a new one; the user is to `leave` it. Raises `TaskFailed`."""
        peer = await self._current()
        if not peer.usable:  # it ended while this was told of it
            peer = await self._current()
        if not peer.usable:
            raise TaskFailed("The agent ended as soon as it had started")
        peer.users.add(user)
        return peer

    async def _current(self) -> Peer:
        if self._closed:
            raise TaskFailed("The daemon is stopping")
        starting = self._starting
        if starting is None or (starting.done() and not _usable(starting)):
            starting = self._starting = asyncio.create_task(self._start())
            starting.add_done_callback(_usable)  # its failure is nobody's where all who waited have given up
        # others may wait for it, too: one that is cancelled must not take it from them
        await asyncio.wait([starting])
        if starting.cancelled():
            raise TaskFailed("The daemon is stopping")
        return starting.result()

    async def _start(self) -> Peer:
        # one that is about to end may still hold the sessions that the next one is to resume
        await asyncio.gather(*(peer.gone() for peer in self._peers if peer.ending))
        peer = Peer(self._options, await AgentProcess.start(self._options, limit=LINE_BYTES))
        self._peers = {each for each in self._peers if not each.ended} | {peer}
        await peer.initialize()
        return peer

    async def close(self) -> None:
        """End all processes, and wait for that."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await asyncio.gather(*(peer.stop() for peer in self._peers))


def _usable(starting: asyncio.Task[Peer]) -> bool:
    return not starting.cancelled() and starting.exception() is None and starting.result().usable
