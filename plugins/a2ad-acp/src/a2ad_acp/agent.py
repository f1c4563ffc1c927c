"""The agent of a preset. What it needs to talk ACP is loaded with its first session: it takes most of a second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from a2ad import Agent, AgentContext, AgentSession
from a2ad_acp.options import Options
from a2ad_acp.process import lacks

if TYPE_CHECKING:
    from a2ad_acp.peers import Peers


class AcpAgent(Agent):
    def __init__(self, options: Options) -> None:
        self.can_resume = options.resumes
        self._options = options
        self._peers: Peers | None = None

    async def open(self, context: AgentContext) -> AgentSession:
        """Start the agent where it does not run, and open or resume a session. Raises `TaskFailed`."""
        if self._peers is None:
            made = await asyncio.to_thread(_peers, self._options)
            self._peers = self._peers or made
        return await self._peers.open(context)

    async def check(self) -> Sequence[str]:
        return lacks(self._options)

    async def close(self) -> None:
        """End every process that was started, with all of its group."""
        if self._peers is not None:
            await self._peers.close()


def _peers(options: Options) -> Peers:
    from a2ad_acp.peers import Peers  # noqa: PLC0415 - see above

    return Peers(options)
