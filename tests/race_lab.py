"""The real engine in this process on a real database, whose writes a test can hold back: for one exact order of things.

Time stands still until `advance`. Whatever a test does, `race` ends it with what must be true after everything: nobody
keeps a place in the line, nothing that has ended stays in memory, nothing terminal was ever written over.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import structlog

from a2ad import TaskState, hookimpl
from a2ad.audit import Audit
from a2ad.config import LimitsConfig, load
from a2ad.engine import Accepted, Engine, LiveTask, Reader
from a2ad.figures import Figures
from a2ad.model import STATE_NUMBERS
from a2ad.plugins import PluginHost
from a2ad.schemas import a2a
from a2ad.store import StoreSettings
from a2ad.store.sqlite import open_sqlite
from tests.race_scripts import Puppet, Replying, Resuming
from tests.race_store import ClockLoop, HeldStore, loop

CALM_PASSES = 20
WITHIN = 20.0
STEP = 0.5


@cache
def make_host(*, gated: bool) -> PluginHost:
    """Its executors and its policy are those of the lab that is there."""
    kinds: dict[str, Any] = {"a": Puppet(), "b": Puppet(), "c": Puppet(), "reply": Replying(), "resume": Resuming()}

    def executors(register: Any) -> None:
        for name, executor in kinds.items():
            register(name, executor)

    def presets(register: Any) -> None:
        register("lab", {"agent": "echo", "skills": [{"id": name, "executor": name} for name in kinds]})

    def agents(register: Any) -> None:
        register("echo", lambda preset: None)

    async def policy(decision: Any) -> Any:
        gate = Puppet.lab.gate
        return None if gate is None else await gate(decision)

    hooks: dict[str, Any] = {
        "a2ad_register_executors": executors,
        "a2ad_register_presets": presets,
        "a2ad_register_agents": agents,
        **({"a2ad_inbound_task": policy} if gated else {}),
    }
    host = PluginHost(load(environ={"HOME": "/nonexistent"}).config)
    host.load([("lab", SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()}))])
    return host


class Lab:
    """`scripts[skill]` is an executor's `execute`: the skills are a, b, c, and `reply` and `resume`, named by kind."""

    def __init__(self, folder: Path, limits: LimitsConfig, *, gate: bool = False, replay_frames: int = 200) -> None:
        self.folder = folder
        self.limits = limits
        self.scripts: dict[str, Callable[..., Any]] = {}
        self.gate: Callable[[Any], Awaitable[Any]] | None = None
        self.host = make_host(gated=gate)
        Puppet.lab = self
        self.replay_frames = replay_frames
        self.engine: Engine
        self.store: HeldStore
        self.log: list[Any] = []
        self.faults: list[Any] = []
        #: what still runs is to die
        self.closing = False

    # its life

    def target(self, inbound_id: str) -> Any:
        preset = self.host.presets["lab"]
        return SimpleNamespace(id=inbound_id, preset=preset, skills={skill.id: skill for skill in preset.skills})

    async def start(self) -> None:
        self.store = HeldStore(await open_sqlite(StoreSettings("", self.folder, replay_frames=self.replay_frames)))
        self.engine = Engine(
            store=self.store,  # type: ignore[arg-type]
            host=self.host,
            audit=Audit(self.store, self.host),  # type: ignore[arg-type]
            figures=Figures(),
            limits=self.limits,
            state_dir=self.folder,
            replay_frames=self.replay_frames,
        )
        await self.engine.start(self)  # type: ignore[arg-type]
        await self.calm()

    async def restart(self) -> None:
        """Another process on the same database; what still runs of this one is dead."""
        await self.close()
        await self.start()

    async def crash(self) -> None:
        """As `restart`, with what is committed at this moment: what ends now has no effect any more."""
        kept = self.folder / "kept.db"
        with sqlite3.connect(self.folder / "a2ad.db") as live, sqlite3.connect(kept) as copy:
            live.backup(copy)
        live.close()
        copy.close()
        await self.close()
        for name in ("a2ad.db", "a2ad.db-wal", "a2ad.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        kept.rename(self.folder / "a2ad.db")
        await self.start()

    async def close(self) -> None:
        """What is left dies as a process does: what it says of that counts no more."""
        gc.collect()
        faults = list(self.faults)
        self.closing = True
        for held in self.store.holds:
            held.release()
        mine = asyncio.current_task()
        for _ in range(100):
            others = [task for task in asyncio.all_tasks() if task is not mine]
            if not others:
                break
            for task in others:
                task.cancel()
            loop().now += 1
            await asyncio.sleep(0)
        self.engine._upkeep.stop()
        await self.store.real.close()
        gc.collect()
        self.faults[:] = faults
        self.closing = False

    def fault(self, context: dict[str, Any]) -> None:
        if "store was closed" not in str(context.get("exception")):  # that is the end of a process, not an error
            self.faults.append(context)

    async def stop(self) -> float:
        """In good order; how long it took, in seconds of the loop's clock."""
        before = loop().now
        stopping = asyncio.ensure_future(self.engine.stop())
        await self.until(stopping.done, 60)
        await stopping
        return loop().now - before

    # time

    async def calm(self) -> None:
        """Until nothing happens by itself any more."""
        quiet, end = 0, time.monotonic() + WITHIN
        while quiet < CALM_PASSES:
            assert time.monotonic() < end, "the engine does not come to rest"
            await asyncio.sleep(0)
            busy = self.store.open > 0 or loop().in_threads > 0
            quiet = 0 if busy else quiet + 1
            if busy:
                time.sleep(0)

    async def advance(self, seconds: float) -> None:
        await self.calm()
        end = loop().now + seconds
        while loop().now < end:
            loop().now = min(end, loop().now + STEP)
            await self.calm()

    async def until(self, done: Callable[[], object], within: float = 30) -> None:
        end = loop().now + within
        await self.calm()
        while not done():
            assert loop().now < end, "it did not happen"
            await self.advance(STEP / 10)

    # what clients do

    async def send(
        self, text: str = "x", *, skill: str = "a", task: LiveTask | str | None = None, stream: bool = False,
        parts: list[Any] | None = None, **fields: Any,
    ) -> Accepted:  # fmt: skip
        """Hand a message in, as a client does."""
        body: dict[str, Any] = {"role": "ROLE_USER", "parts": parts or [{"text": text}], **fields}
        if task is None:
            body["metadata"] = {"skill": skill}
        else:
            body["taskId"] = task if isinstance(task, str) else task.id
        return await self.engine.submit(
            self.target("in"), a2a.send_message({"message": body}), caller="anonymous", peer="::1", stream=stream
        )

    async def begin(self, text: str = "x", **more: Any) -> LiveTask:
        """The task of a message that was sent and has come as far as it comes by itself."""
        accepted = await self.send(text, **more)
        await self.calm()
        return accepted.task

    async def go(self, work: Awaitable[Any]) -> asyncio.Future[Any]:
        """Begin it, and let everything come as far as it comes."""
        future = asyncio.ensure_future(work)
        await self.calm()
        return future

    # what they see

    async def stored(self, task_id: str) -> TaskState | None:
        found = await self.store.real.task(task_id)
        return None if found is None else found.row.state

    async def state(self, task_id: str) -> str:
        """What a client sees, which has to be what is stored."""
        seen = (await self.engine.view(task_id)).row.state
        assert seen is await self.stored(task_id), f"{seen} is shown, and stored is {await self.stored(task_id)}"
        return seen.name

    async def ended(self, task: LiveTask, state: str, *readers: Reader | None) -> None:
        """It has ended with this state: in memory, in the store, in all streams, and once."""
        assert await self.state(task.id) == state
        assert [found.name for found in self.store.durable[task.id] if found.terminal] == [state]
        for reader in readers:
            assert reader is not None
            seen = await frames(reader)
            assert reader.failure is None
            updates = [state_in(frame) for frame in seen if "statusUpdate" in frame]
            assert [found for found in updates if TaskState[found].terminal] == [state], updates
            assert [(list(frame), state_in(frame)) for frame in seen[-2:]] == [
                (["statusUpdate"], state),
                (["task"], state),
            ]

    def sql(self, statement: str, *values: Any) -> list[Any]:
        connection = sqlite3.connect(self.folder / "a2ad.db", timeout=5, isolation_level=None)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    # what is always true in the end

    async def at_rest(self) -> None:
        """Everything that a test began has ended: there is no place, no task and no work left of it."""
        await self.advance(1.0)
        engine, line = self.engine, self.engine.scheduler
        assert (line.running, line.queued) == (0, 0)
        assert not line._contexts
        assert not line._waiting
        assert not line._by_inbound
        left = [(task.state.name, task.run, task.canceling) for task in engine.live.values() if not task.idle]
        assert not left, left
        assert not [task for task in engine.live.values() if task.state.terminal]
        assert not engine._loading
        assert not engine._jobs
        assert not engine.behind._tasks
        assert engine.submitting == 0
        self.check_store()

    def check_store(self) -> None:
        counted = dict(self.sql("SELECT state, sum(n) FROM task_counts GROUP BY state HAVING sum(n) != 0"))
        assert counted == dict(self.sql("SELECT state, count(*) FROM tasks WHERE hidden = 0 GROUP BY state"))
        for table in ("messages", "artifacts", "status_events", "attachments"):
            orphans = self.sql(f"SELECT count(*) FROM {table} WHERE task_id NOT IN (SELECT id FROM tasks)")
            assert orphans == [(0,)], f"{table} holds rows of tasks that are not there"
        assert not self.sql("SELECT id FROM tasks WHERE id NOT IN (SELECT task_id FROM messages)"), "without a message"
        working = [number for number, state in STATE_NUMBERS.items() if state.name in {"SUBMITTED", "WORKING"}]
        stuck = self.sql(f"SELECT id FROM tasks WHERE state IN ({working[0]}, {working[1]})")
        assert not stuck, "it is WORKING for ever"
        for states in self.store.durable.values():
            assert not any(state.terminal for state in states[:-1]), f"something terminal was written over: {states}"


def race(*, gate: bool = False, **limits: Any) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A test that gets a `lab`, on a loop of its own; other parameters are pytest's."""

    def decorate(story: Callable[..., Any]) -> Callable[..., None]:
        def test(tmp_path: Path, **more: Any) -> None:
            gc.freeze()  # what the test leaves behind is found quickly then
            clock = ClockLoop()
            lab = Lab(tmp_path, replace(LimitsConfig(), **limits), gate=gate)
            clock.set_exception_handler(lambda _, context: lab.fault(context))
            with structlog.testing.capture_logs() as log:
                lab.log = log
                try:
                    clock.run_until_complete(_play(story, lab, more))
                finally:
                    clock.run_until_complete(clock.shutdown_default_executor())
                    clock.close()
                    gc.unfreeze()
            assert not lab.faults, f"errors that nobody handles: {lab.faults}"

        parameters = inspect.signature(story).parameters.values()
        kind = inspect.Parameter.KEYWORD_ONLY
        names = [parameter.name for parameter in parameters if parameter.name != "lab"]
        signature = inspect.Signature([inspect.Parameter(name, kind) for name in ("tmp_path", *names)])
        test.__signature__ = signature  # type: ignore[attr-defined]
        test.__name__, test.__qualname__, test.__module__ = story.__name__, story.__qualname__, story.__module__
        test.__doc__ = story.__doc__
        return test

    return decorate


async def _play(story: Callable[..., Any], lab: Lab, more: dict[str, Any]) -> None:
    await lab.start()
    try:
        await story(lab, **more)
        await lab.at_rest()
    finally:
        await lab.close()


async def frames(reader: Reader) -> list[dict[str, Any]]:
    """All of a stream that has ended, its numbers rising."""
    found: list[Any] = []
    while True:
        assert reader.ready, "the stream is still open"
        batch = await reader.take()
        if not batch:
            break
        found += batch
    numbers = [frame.number for frame in found]
    assert numbers == sorted(set(numbers)), numbers
    return [json.loads(frame.result) for frame in found]


def state_in(frame: dict[str, Any]) -> str:
    """The state that a frame tells; artifacts tell none, which counts as WORKING."""
    status = (frame.get("statusUpdate") or frame.get("task") or {}).get("status", {"state": "TASK_STATE_WORKING"})
    return str(status["state"].removeprefix("TASK_STATE_"))


def outcome(future: asyncio.Future[Any]) -> Any:
    """What came of it, an error too."""
    assert future.done(), "it is still waiting"
    return future.exception() or future.result()
