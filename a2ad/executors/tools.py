"""The outbound tools as agents' sessions have them: each call is one of the task that the session works on."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager

from a2ad.agent import ToolError
from a2ad.engine import Engine, lend_slot
from a2ad.executors.pool import SessionPool
from a2ad.outbound.call import Caller
from a2ad.outbound.registry import OutboundRegistry
from a2ad.outbound.tools import ToolBox


class SessionTools:
    """Called with a session's id, gives its tool box. `control_url` is where `a2ad mcp` finds this daemon."""

    def __init__(self, *, pool: SessionPool, engine: Engine, outbounds: OutboundRegistry, control_url: str) -> None:
        self._pool = pool
        self._engine = engine
        self._outbounds = outbounds
        self._control_url = control_url

    def __call__(self, session_id: str) -> ToolBox:
        # -P: what lies in the directory where the agent starts it must not be taken for a module of Python's
        arguments = ["-P", "-m", "a2ad", "mcp", "--url", self._control_url, "--session", session_id]
        return ToolBox(
            self._outbounds,
            lambda: self._caller(session_id),
            lend=lambda: self._lend(session_id),
            mcp_server={"command": sys.executable, "args": arguments, "env": {}},
        )

    def _caller(self, session_id: str) -> Caller:
        live = self._pool.by_session(session_id)
        if live is None:
            raise ToolError("this conversation has ended")
        return Caller(f"session\0{live.conversation}", f"inbound:{live.record.inbound_id}", live.depth)

    def _lend(self, session_id: str) -> AbstractAsyncContextManager[None]:
        live = self._pool.by_session(session_id)
        return lend_slot(self._engine, live.task_id if live is not None else None)
