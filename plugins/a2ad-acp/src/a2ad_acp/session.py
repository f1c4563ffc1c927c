"""A conversation with an agent: it is open in a process while there is one, and finds itself again in the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

from acp.schema import EnvVariable, McpServerStdio

from a2ad import (
    AgentContext,
    AgentSession,
    Artifact,
    Attachment,
    NeedsInput,
    TaskFailed,
    TextDelta,
    ToolCall,
    ToolResult,
    TurnEnd,
)
from a2ad_acp.blocks import prompt_blocks
from a2ad_acp.opening import Place, open_session
from a2ad_acp.options import Options
from a2ad_acp.peer import Peer
from a2ad_acp.question import Question
from a2ad_acp.turn import Turn

Event: TypeAlias = TextDelta | ToolCall | ToolResult | NeedsInput | Artifact | TurnEnd


class AcpSession(AgentSession):
    """`open` it first; `join` gives it a process. What goes wrong in a turn fails that turn, and the next one opens the
    session again.
    """

    def __init__(self, options: Options, context: AgentContext, join: Callable[[object], Awaitable[Peer]]) -> None:
        self._options = options
        self._context = context
        self._join = join
        self._peer: Peer | None = None
        self._opened = False
        #: the agent's id of the session, and the directory that belongs to it
        self._kept = _kept(context.resume)
        self._question: Question | None = None
        #: the end of a turn that was cancelled
        self._settling: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises `TaskFailed`."""
        peer = await self._join(self)
        if self._peer is not None and self._peer is not peer:
            self._peer.leave(self)
        self._peer, self._opened = peer, False
        place = self._place()
        try:
            self._kept = {"session": await open_session(peer, place), "cwd": place.cwd}
        except BaseException:
            peer.leave(self)
            raise
        self._opened = True

    def _place(self) -> Place:
        kept, servers = self._kept, []
        if self._options.tools:
            server = self._context.tools.mcp_server
            env = [EnvVariable(name=name, value=value) for name, value in server["env"].items()]
            servers = [McpServerStdio(name="a2ad", command=server["command"], args=list(server["args"]), env=env)]
        if kept is not None and Path(kept["cwd"]).is_dir():
            return Place(kept["cwd"], servers, kept["session"])
        return Place(str(self._options.cwd or self._context.workdir.absolute()), servers, None)

    def state(self) -> dict[str, str] | None:
        return self._kept

    async def prompt(self, parts: Sequence[dict[str, Any]], attachments: Sequence[Attachment]) -> AsyncIterator[Event]:
        if self._settling is not None:
            await asyncio.wait([self._settling])
        if self._peer is None or not (self._opened and self._peer.usable):
            await self.open()
        assert self._peer is not None
        assert self._kept is not None
        peer, session_id = self._peer, self._kept["session"]
        blocks = await prompt_blocks(parts, attachments, images=peer.takes_images, folder=self._folder)
        turn = Turn(self._options.permission)
        answering = peer.begin(session_id, blocks, turn)
        try:
            async with aclosing(self._events(turn)) as events:
                async for event in events:
                    yield event
        except TaskFailed:
            self._let_go()
            raise
        finally:
            self._question = None
            if not answering.done():
                self._settling = asyncio.create_task(peer.cancel(session_id, turn, answering))

    def _folder(self) -> Path:
        return self._context.workdir.absolute() / "attachments"

    async def _events(self, turn: Turn) -> AsyncGenerator[Event, None]:
        while True:
            item = await turn.next()
            if isinstance(item, TaskFailed):
                raise item
            if not isinstance(item, Question):
                yield item
                if isinstance(item, TurnEnd):
                    return
                continue
            self._question = item
            if not item.settled.is_set():
                yield item.needs(self._options.permission_seconds)

    async def answer(self, parts: Sequence[dict[str, Any]]) -> None:
        if self._question is not None:
            self._question.answer(parts[0]["text"])  # the id of an option: it had some

    async def unanswered(self) -> None:
        if self._question is not None:
            self._question.expire()

    async def close(self) -> None:
        self._let_go()
        if self._peer is not None:
            self._peer.leave(self)

    def _let_go(self) -> None:
        """Of the agent's session, not of the conversation."""
        if self._opened and self._peer is not None and self._kept is not None:
            self._peer.close_session(self._kept["session"])
        self._opened = False


def _kept(state: Any) -> dict[str, str] | None:
    """What a session said of itself; not what another kind of agent said, if the preset had one."""
    if isinstance(state, dict) and state.keys() == {"session", "cwd"} and all(map(_is_text, state.values())):
        return state
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
