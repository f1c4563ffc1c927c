"""The executor of delegated work: each task has a session of its own, which ends with it (reference 4).

What the session says becomes artifacts as in a conversation (`session`); at the end an artifact `steps` lists the tool
calls. What a later run of an interrupted task needs is kept beside its working directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from a2ad.engine.workdirs import task_dir
from a2ad.executor import (
    Artifact,
    AuthRequired,
    Event,
    Executor,
    InputRequired,
    Preset,
    Status,
    TaskFailed,
    TaskRejected,
    TaskRequest,
    Text,
)
from a2ad.executors.pool import LiveSession, SessionPool
from a2ad.executors.prompt import Prompt, prompt_again, prompt_of
from a2ad.executors.session import Calls, take_turn
from a2ad.model import INTERRUPTED, new_id, now_ms
from a2ad.store import ContextRecord

_LOST = "The agent of this task has ended and cannot go on with it: send a new task"


@dataclass(slots=True)
class _Kept:
    """`state` is the session's; `in_turn`, that its turn has not ended; `begun`, which message of the task's history
    that began with.
    """

    session_id: str
    state: Any = None
    in_turn: bool = True
    begun: int = 0
    calls: Calls = field(default_factory=dict)


class SubagentExecutor(Executor):
    """`most` sessions at the same time, those that wait for an answer among them."""

    def __init__(self, pool: SessionPool, *, state_dir: Path, most: int) -> None:
        self._pool = pool
        self._state_dir = state_dir
        self._most = most
        self._working = 0

    async def execute(self, request: TaskRequest) -> AsyncIterator[Event]:
        if self._working >= self._most:
            raise TaskRejected(f"{self._most} sub-agents are at work or wait for an answer: it takes no more now")
        self._working += 1
        try:
            async with aclosing(self._work(request)) as events:
                async for event in events:
                    yield event
        finally:
            self._working -= 1

    async def _work(self, request: TaskRequest) -> AsyncGenerator[Event, None]:
        folder = task_dir(self._state_dir, request.inbound_id, request.task_id)
        resumes = self._pool.resumes(request.preset)
        kept = await asyncio.to_thread(_read, folder) if request.resumed else None
        if request.resumed and kept is None and not resumes:
            raise TaskFailed(_LOST)
        kept = kept or _Kept(new_id())
        if request.resumed and kept.in_turn:
            prompt = await prompt_again(request, self._state_dir, begun=kept.begun)
        else:
            kept.begun = len(request.history) - 1 if request.resumed else 0
            prompt = prompt_of(request)
        now = now_ms()
        record = ContextRecord(
            request.inbound_id, request.context_id, kept.session_id, request.preset.id, now, now, state=kept.state
        )
        async with self._pool.fresh(request, record, folder / "work") as live:
            keeper = _Keeper(folder, live, kept)
            if resumes:  # a turn that the daemon's end cuts off has to find its session again
                await keeper.keep(in_turn=True)
                request = keeper.asking(request)
            async with aclosing(_with_steps(live, request, prompt, keeper)) as events:
                async for event in events:
                    yield event

    def goes_on(self, preset: Preset, *, waits: bool) -> bool:  # noqa: ARG002 - as a conversation's
        return self._pool.resumes(preset)


class _Keeper:
    """Keeps, whenever a task is interrupted or could be cut off, what a later run needs to go on with it."""

    def __init__(self, folder: Path, live: LiveSession, kept: _Kept) -> None:
        self._folder = folder
        self._live = live
        self._kept = kept
        self.calls = kept.calls

    async def keep(self, *, in_turn: bool) -> None:
        kept = replace(self._kept, state=self._live.session.state(), in_turn=in_turn)
        await asyncio.to_thread(_write, self._folder, kept)

    def asking(self, request: TaskRequest) -> TaskRequest:
        """The request, whose `ask` keeps it first."""

        async def ask(question: Text, **how: Any) -> dict[str, Any]:
            await self.keep(in_turn=True)
            return await request.ask(question, **how)

        return replace(request, _ask=ask)


async def _with_steps(
    live: LiveSession, request: TaskRequest, prompt: Prompt, keeper: _Keeper
) -> AsyncGenerator[Event, None]:
    interrupted = False
    ending: list[Event] = []
    try:
        async with aclosing(take_turn(live.session, request, prompt, ending, keeper.calls)) as events:
            async for event in events:
                if isinstance(event, Status) and event.state in INTERRUPTED:
                    await keeper.keep(in_turn=False)
                    interrupted = True
                yield event
    except asyncio.CancelledError:
        await live.session.cancel()
        raise
    except (InputRequired, AuthRequired):
        await keeper.keep(in_turn=False)
        raise
    except Exception:
        yield _steps(keeper.calls)
        raise
    if not interrupted:
        yield _steps(keeper.calls)
    for event in ending:
        yield event


def _steps(calls: Calls) -> Artifact:
    steps = [{"id": call_id, **call} for call_id, call in calls.items()]
    return Artifact(parts=[{"data": {"steps": steps}}], artifact_id="steps")


def _read(folder: Path) -> _Kept | None:
    """None where it is not there, or not what was written: the agent's own directory is beside it."""
    try:
        kept = _Kept(**orjson.loads((folder / "session.json").read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    calls = kept.calls.values() if isinstance(kept.calls, dict) else [None]
    sound = isinstance(kept.session_id, str) and type(kept.begun) is int and kept.begun >= 0
    return kept if sound and all(isinstance(call, dict) for call in calls) else None


def _write(folder: Path, kept: _Kept) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = folder / "session.json.new"
    new.write_bytes(orjson.dumps(asdict(kept)))
    new.replace(folder / "session.json")
