"""The real engine in this process, on a real database, with an executor that goes on when it is told to.

Time stands still until `advance`; a crash leaves what was committed and nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from a2ad import (
    Artifact,
    AuthRequired,
    Deny,
    Executor,
    InputRequired,
    Status,
    TaskFailed,
    TaskRejected,
    TaskState,
    hookimpl,
)
from a2ad.audit import Audit
from a2ad.config import LimitsConfig, load
from a2ad.engine import Engine
from a2ad.errors import StoreUnavailable
from a2ad.figures import Figures
from a2ad.plugins import PluginHost
from a2ad.schemas import a2a
from a2ad.store import StoreSettings
from a2ad.store.sqlite import SqliteStore, open_sqlite

#: passes of the event loop in which nothing more happens by itself
CALM_PASSES = 25
WITHIN = 30.0
INBOUNDS = ("in", "other")


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is set by hand."""

    now = 0.0

    def time(self) -> float:
        return self.now


class Clock:
    """Stands in for the module `time` of `a2ad.model`: no two moments are the same."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def time_ns(self) -> int:
        self.ms += 1
        return self.ms * 1_000_000


# the executor


@dataclass(eq=False)
class Stand:
    """Where a run of the executor is."""

    task_id: str
    message_id: str
    resumed: bool
    context: tuple[str, str]
    process: int
    at: str = "running"  # gate, stubborn, asking, ended
    gate: asyncio.Future[None] | None = None


class Desk:
    """Every run that the executor has begun, in order, and every message that it was given."""

    def __init__(self) -> None:
        self.process = 0
        self.dead = False
        self.stands: list[Stand] = []
        #: (message id, task id, process), at the start of a run or as the answer to a question
        self.given: list[tuple[str, str, int]] = []

    def begin(self, request: Any) -> Stand:
        message_id = request.message["messageId"]
        stand = Stand(
            request.task_id, message_id, request.resumed, (request.inbound_id, request.context_id), self.process
        )
        self.stands.append(stand)
        self.given.append((message_id, request.task_id, self.process))
        return stand

    async def wait(self, stand: Stand, at: str) -> None:
        stand.at, stand.gate = at, asyncio.get_running_loop().create_future()
        while not stand.gate.done():
            try:
                await asyncio.shield(stand.gate)
            except asyncio.CancelledError:
                if at != "stubborn" or self.dead:
                    raise
        stand.at, stand.gate = "running", None

    def here(self, task_id: str) -> Stand | None:
        """The task's newest run of this process."""
        stands = [stand for stand in self.stands if stand.task_id == task_id and stand.process == self.process]
        return stands[-1] if stands else None

    def waiting(self) -> list[Stand]:
        """Those that wait to be released."""
        return [stand for stand in self.stands if stand.process == self.process and stand.gate is not None]

    @staticmethod
    def release(stand: Stand) -> None:
        if stand.gate is not None and not stand.gate.done():
            stand.gate.set_result(None)


class Scripted(Executor):
    """Does what the message's data part says, step by step."""

    desk: Desk

    async def execute(self, request: Any) -> Any:
        desk = Scripted.desk
        stand = desk.begin(request)
        try:
            for name, *arguments in next(part["data"] for part in request.message["parts"] if "data" in part):
                if name == "text":
                    artifact_id, text = arguments
                    yield Artifact([{"text": text}], artifact_id=artifact_id, append=True, last_chunk=False)
                elif name == "replace":
                    yield Artifact([{"text": arguments[1]}, {"data": arguments}], artifact_id=arguments[0], name="new")
                elif name == "note":
                    yield Status(TaskState.WORKING, arguments[0])
                elif name == "status":
                    yield Status(TaskState(arguments[0]), arguments[1], metadata={"closing": True})
                elif name in {"gate", "stubborn"}:
                    await desk.wait(stand, name)
                elif name == "ask":
                    stand.at = "asking"
                    answer = await request.ask("which?", state=TaskState(arguments[0]))
                    stand.at = "running"
                    desk.given.append((answer["messageId"], request.task_id, desk.process))
                    yield Artifact([{"text": answer["messageId"]}], artifact_id="answer")
                else:
                    raise {"fail": TaskFailed, "reject": TaskRejected, "input": InputRequired, "auth": AuthRequired}[
                        name
                    ](f"{name}, says the script")
        finally:
            stand.at, stand.gate = "ended", None


class Resuming(Scripted):
    can_resume = True


async def _policy(decision: Any) -> Deny | None:
    await asyncio.sleep(0)
    return Deny("the policy says no") if "forbidden" in decision.text else None


def make_host(folder: Path, *, gated: bool) -> PluginHost:
    """Two skills, `chat` and `resume`, and perhaps a policy hook."""

    def executors(register: Any) -> None:
        register("scripted", Scripted())
        register("resuming", Resuming())

    def presets(register: Any) -> None:
        skills = [{"id": "chat", "executor": "scripted"}, {"id": "resume", "executor": "resuming"}]
        register("lab", {"agent": "none", "skills": skills})

    def agents(register: Any) -> None:
        register("none", lambda preset: None)
        register("echo", lambda preset: None)

    hooks = {
        "a2ad_register_executors": executors,
        "a2ad_register_presets": presets,
        "a2ad_register_agents": agents,
        **({"a2ad_inbound_task": _policy} if gated else {}),
    }
    host = PluginHost(load(environ={"HOME": str(folder)}).config)
    host.load([("lab", SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()}))])
    return host


# the store, seen from where the process may die


class Watched:
    """Passes everything on to the store. It can hold writes back, and be dead."""

    def __init__(self, store: SqliteStore) -> None:
        self.real = store
        self.open = 0
        self.holding = False
        self.dead = False
        self._held: list[Callable[[], Awaitable[Any]]] = []

    def write(self, change: Any) -> Awaitable[Any]:
        if self.holding and not self.dead:
            self._held.append(lambda: self.real.write(change))
            return asyncio.get_running_loop().create_future()
        return self._pass(lambda: self.real.write(change))

    async def commit_held(self) -> None:
        for write in self._held:
            await write()

    def _pass(self, call: Callable[[], Any]) -> Any:
        if self.dead:
            failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreUnavailable())
            failed.exception()  # whoever asked may be gone as well
            return failed
        answer = call()
        if not inspect.isawaitable(answer):
            return answer
        self.open += 1
        future = asyncio.ensure_future(answer)
        future.add_done_callback(self._closed)
        return future

    def _closed(self, future: asyncio.Future[Any]) -> None:
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.real, name)
        return (lambda *args, **more: self._pass(lambda: member(*args, **more))) if callable(member) else member


# the whole


@dataclass
class Lab:
    """One state directory; `start` and `stop` or `crash` as often as wanted."""

    folder: Path
    host: PluginHost
    limits: LimitsConfig
    replay_frames: int = 200
    desk: Desk = field(default_factory=Desk)
    open: bool = False
    #: what ended with its process: what it may say of that counts no more
    killed: WeakSet[asyncio.Task[Any]] = field(default_factory=WeakSet)
    engine: Engine = field(init=False)
    store: Watched = field(init=False)

    @property
    def loop(self) -> ClockLoop:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ClockLoop)
        return loop

    def target(self, inbound_id: str) -> Any:
        preset = self.host.presets["lab"]
        return SimpleNamespace(id=inbound_id, preset=preset, skills={skill.id: skill for skill in preset.skills})

    async def start(self) -> None:
        Scripted.desk = self.desk
        self.desk.process += 1
        self.desk.dead = False
        self.store = Watched(await open_sqlite(StoreSettings("", self.folder, replay_frames=self.replay_frames)))
        self.open = True
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

    async def calm(self) -> None:
        """Until nothing happens by itself any more."""
        quiet, deadline = 0, time.monotonic() + WITHIN
        while quiet < CALM_PASSES:
            assert time.monotonic() < deadline, "the engine does not come to rest"
            await asyncio.sleep(0)
            busy = self.store.open > 0
            quiet = 0 if busy else quiet + 1
            if busy:
                time.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(2):
            self.loop.now += seconds / 2
            await self.calm()

    async def until(self, done: Callable[[], bool]) -> None:
        """Let as much time pass as it takes, within reason."""
        for _ in range(60):
            await self.calm()
            if done():
                return
            await self.advance(1)
        raise AssertionError("it did not come to an end")

    async def stop(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """In good order, up to where the store would be closed: `close` follows."""
        stopping = asyncio.ensure_future(self.engine.stop())
        await self.calm()
        meanwhile()
        await self.until(stopping.done)
        await stopping

    async def crash(self, *, commit_held: bool = False) -> None:
        """The process dies: what was committed stays."""
        if commit_held:
            await self.store.commit_held()
        self.store.dead = self.desk.dead = True
        await self.close()

    async def close(self) -> None:
        """End what still runs, and close the database."""
        self.desk.dead = True
        self.open = False
        try:
            await self._kill()
        finally:
            self.engine._upkeep.stop()
            await self.store.real.close()  # its thread would keep the whole test run from ending
        for stand in self.desk.stands:
            stand.gate = None
        await self._kill()  # what a timer has begun meanwhile

    async def _kill(self) -> None:
        mine, begun = asyncio.current_task(), set[asyncio.Task[Any]]()
        for _ in range(200):
            others = {task for task in asyncio.all_tasks() if task is not mine}
            if not others:
                return
            self.killed.update(others)
            for task in others & begun:  # one that has not begun would leave what it was given
                task.cancel()
            begun = others
            self.loop.now += 1
            await asyncio.sleep(0)
        raise AssertionError(f"they do not end: {others}")


def message(steps: list[Any], *, text: str = "", **fields: Any) -> a2a.SendMessageParams:
    """Parameters of SendMessage as a client would have sent them."""
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    parts.append({"data": steps})
    return a2a.send_message({"message": {"role": "ROLE_USER", "parts": parts, **fields}})
