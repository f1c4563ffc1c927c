"""Live agent sessions: one per (inbound, context), opened when first needed, kept, and closed when idle; and those that
are a task's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import structlog

from a2ad.agent import Agent, AgentContext, AgentSession, Tools
from a2ad.errors import StoreRefused, StoreUnavailable
from a2ad.executor import Preset, TaskRejected, TaskRequest
from a2ad.executors.shown import outcomes_shown
from a2ad.model import depth_of, new_id, now_ms
from a2ad.plugins import PluginHost
from a2ad.store import ContextRecord, Store

#: live sessions at the same time; past it the one that was idle longest is closed
MAX_SESSIONS = 1000
#: how often idle sessions are looked for, in seconds, at least
SWEEP_SECONDS = 30.0
#: how long a session or an agent may take to close, in seconds; and a session while the daemon stops, for the agents
#: come after it, in the time that an executor has to close
CLOSE_SECONDS, STOP_SECONDS = 5.0, 1.0

log = structlog.get_logger()


@dataclass(slots=True)
class LiveSession:
    """`task_id` is the task whose turn is going on or waits for an answer; `depth`, how many daemons its message came
    through.
    """

    record: ContextRecord
    agent_kind: str
    session: AgentSession
    task_id: str | None = None
    depth: int = 0
    last_active: float = field(default=0.0)  # by the loop's clock
    #: it is its task's alone, and ends with it
    fresh: bool = False

    @property
    def busy(self) -> bool:
        return self.task_id is not None

    @property
    def conversation(self) -> str:
        """What its calls of remote agents are one conversation by."""
        record = self.record
        return record.session_id if self.fresh else f"{record.inbound_id}\0{record.context_id}"


class SessionPool:
    """`store` and `tools` have to be set before the first session is opened: the store may come from a plugin, as the
    sessions may. `tools` gives a session, by its id, what it calls remote agents with.
    """

    store: Store
    tools: Callable[[str], Tools]

    def __init__(self, *, host: PluginHost, idle_seconds: float) -> None:
        self.host = host
        self._idle_seconds = idle_seconds
        self._sessions: dict[tuple[str, str], LiveSession] = {}
        #: those of one task each, by session id
        self._fresh: dict[str, LiveSession] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[LiveSession]:
        return chain(self._sessions.values(), self._fresh.values())

    def resumes(self, preset: Preset) -> bool:
        """Whether a turn that was cut off is taken again: the rule of every executor whose work an agent does."""
        try:
            return self.host.agent(preset).can_resume
        except Exception:  # noqa: BLE001 - it could not be made: the log says so, and its tasks will
            return False

    def get(self, inbound_id: str, context_id: str) -> LiveSession | None:
        return self._sessions.get((inbound_id, context_id))

    def by_session(self, session_id: str) -> LiveSession | None:
        return next((live for live in self if live.record.session_id == session_id), None)

    def of_context(self, context_id: str, inbound_id: str | None = None) -> list[LiveSession]:
        """The sessions of a context, of one inbound where it is named."""
        return [
            live
            for (inbound, context), live in self._sessions.items()
            if context == context_id and inbound_id in {None, inbound}
        ]

    async def acquire(self, request: TaskRequest) -> LiveSession:
        """The session of the request's context, now busy with its task: the live one, else a new one, resumed where
        that can be. Raises `TaskRejected` where a turn of another task is open in it.
        """
        key = (request.inbound_id, request.context_id)
        live = self._sessions.get(key)
        if live is not None and live.record.preset != request.preset.id and not live.busy:
            await self.drop(live)
            live = None
        if live is not None and live.task_id is not None:
            raise TaskRejected(f"The task {live.task_id} of this conversation waits for an answer: answer or cancel it")
        if live is None:
            live = self._sessions[key] = await self._open(request)
        live.task_id = request.task_id
        live.depth = depth_of(request.message)
        live.last_active = asyncio.get_running_loop().time()
        await self._make_room()
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())
        return live

    @asynccontextmanager
    async def fresh(self, request: TaskRequest, record: ContextRecord, workdir: Path) -> AsyncIterator[LiveSession]:
        """A session of the request's task alone, resumed where the record has a state; it is closed after the block."""
        live = await self._open_for(request, record, lambda: workdir)
        live.fresh = True
        live.task_id = request.task_id
        live.depth = depth_of(request.message)
        self._fresh[record.session_id] = live
        try:
            yield live
        finally:
            del self._fresh[record.session_id]
            await self._close(live, CLOSE_SECONDS)

    async def _open(self, request: TaskRequest) -> LiveSession:
        preset = request.preset
        record = await self.store.context(request.inbound_id, request.context_id)
        if record is None or record.preset != preset.id:
            now = now_ms()
            record = ContextRecord(request.inbound_id, request.context_id, new_id(), preset.id, now, now)
        live = await self._open_for(request, record, request._workdir)  # noqa: SLF001 - made when it is asked for
        try:
            await self._keep_state(live)  # a turn that the daemon's end cuts off has to find its session again
        except BaseException:
            await self.drop(live)
            raise
        return live

    async def _open_for(self, request: TaskRequest, record: ContextRecord, workdir: Callable[[], Path]) -> LiveSession:
        context = AgentContext(
            session_id=record.session_id,
            context_id=request.context_id,
            inbound_id=request.inbound_id,
            tools=self.tools(record.session_id),
            resume=record.state,
            _workdir=workdir,
        )
        with outcomes_shown():
            session = await self.host.agent(request.preset).open(context)
        return LiveSession(record, request.preset.agent, session, last_active=asyncio.get_running_loop().time())

    async def turn_ended(self, live: LiveSession) -> None:
        """Count the turn, and keep what a later process needs to go on with the conversation."""
        record = live.record
        record.turns += 1
        record.last_active_at = now_ms()
        live.last_active = asyncio.get_running_loop().time()
        await self._keep_state(live)

    async def _keep_state(self, live: LiveSession) -> None:
        state = live.session.state()
        if state is not None:
            live.record.state = state
            try:
                await self.store.save_context(live.record)
            except (StoreUnavailable, StoreRefused) as error:
                # what the turn came to is worth more; the next one is kept with it
                log.warning("session.state_not_kept", context_id=live.record.context_id, error=str(error))

    async def drop(self, live: LiveSession) -> None:
        """Close the handle; the conversation goes on with the next task of the context."""
        await self._drop(live, CLOSE_SECONDS)

    async def _drop(self, live: LiveSession, seconds: float) -> None:
        key = (live.record.inbound_id, live.record.context_id)
        if self._sessions.get(key) is live:
            del self._sessions[key]
        await self._close(live, seconds)

    async def _close(self, live: LiveSession, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await live.session.close()
        except TimeoutError:  # its agent's `close` is to end what it has left
            log.warning("session.close_late", context_id=live.record.context_id, seconds=seconds)
        except Exception:
            log.warning("session.close_failed", context_id=live.record.context_id, exc_info=True)

    async def drop_inbound(self, inbound_id: str) -> None:
        for live in [live for (inbound, _), live in self._sessions.items() if inbound == inbound_id]:
            await self.drop(live)

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        try:
            await asyncio.gather(*(self._drop(live, STOP_SECONDS) for live in list(self)))
        finally:  # agents have processes to end: whatever the sessions do
            await asyncio.gather(*(_close_agent(agent) for agent in self.host.made_agents()))

    async def _make_room(self) -> None:
        while len(self._sessions) > MAX_SESSIONS:
            idle = [live for live in self._sessions.values() if not live.busy]
            if not idle:
                return
            await self.drop(min(idle, key=lambda live: live.last_active))

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, max(1.0, self._idle_seconds / 2)))
            for live in list(self._sessions.values()):
                if not live.busy and loop.time() - live.last_active > self._idle_seconds:
                    await self.drop(live)


async def _close_agent(agent: Agent) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await agent.close()
    except Exception:
        log.warning("agent.close_failed", agent=type(agent).__name__, exc_info=True)
