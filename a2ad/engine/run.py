"""A run: one asyncio task that drives an executor's generator and applies each of its events.

The generator is driven by hand, so that a cancel reaches it wherever it is: where it awaits, `CancelledError` is
raised there; where it is suspended at a `yield`, it is thrown in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import structlog

from a2ad.engine.asking import Asking
from a2ad.engine.encode import InvalidOutput, encode_agent_message
from a2ad.engine.lending import Lending
from a2ad.engine.task import RETRY_FIRST, LiveTask
from a2ad.engine.threads import ThreadedGenerator
from a2ad.errors import StoreRefused, StoreUnavailable, error_text
from a2ad.executor import Artifact, Executor, Preset, Reply, Status, TaskFailed, TaskOutcome, TaskRequest, Text
from a2ad.model import TaskState, now_ms

if TYPE_CHECKING:
    from a2ad.engine.core import Engine

T = TypeVar("T")
#: what a generator may yield before the other tasks of the loop have a turn, in bytes
TURN_BYTES = 1 << 16
#: what an event counts at least towards it
EVENT_BYTES = 256

log = structlog.get_logger()


class Outcome(NamedTuple):
    state: TaskState
    text: Text | None = None
    metadata: Mapping[str, Any] | None = None


class Run:
    """`start` it once; `stop` it from outside. Who stops it says what becomes of the task."""

    __slots__ = ("__weakref__", "_engine", "_inside", "asking", "deadline", "executor", "generator", "lending",
                 "preset", "stopping", "task", "work")  # fmt: skip

    def __init__(self, engine: Engine, task: LiveTask, executor: Executor) -> None:
        self.task = task
        self.executor = executor
        self.asking = Asking(engine, self)
        self.lending = Lending(engine)
        self.stopping = False
        #: `loop.time()` at which it has run too long
        self.deadline = 0.0
        self.generator: Any = None
        self._engine = engine
        self._inside = False
        #: the asyncio task, and what it works for, once it has started
        self.work: asyncio.Task[None]
        self.preset: Preset

    def start(self, request: TaskRequest, *, begin: bool) -> None:
        """`begin`: it is not recorded yet that the task runs, and has to be first."""
        loop = asyncio.get_running_loop()
        self.preset = request.preset
        self.deadline = loop.time() + self._engine.limits.run_seconds
        self._engine.figures.runs += 1
        self.work = loop.create_task(self._live(request, begin=begin))

    async def stop(self, grace: float) -> bool:
        """Interrupt it, and wait for its end for `grace` seconds. False: it goes on, and counts no more."""
        self.stopping = True
        self.work.cancel()
        done, _ = await asyncio.wait([self.work], timeout=grace)
        return bool(done)

    async def _live(self, request: TaskRequest, *, begin: bool) -> None:
        try:
            if begin:
                await self.insist(self.task.begin)
            outcome = await self._drive(request)
            if not self.stopping:
                await self._end(outcome)
        except asyncio.CancelledError:
            if self.stopping:
                return
            await self._engine.end_badly(self.task, "The executor canceled itself")
        except StoreRefused:
            await self._engine.end_badly(self.task, "The task could not be recorded")
        except BaseException:
            log.exception("run.end_failed", task_id=self.task.id)
            if not self.stopping:
                await self._engine.end_badly(self.task, "The executor's end could not be recorded")
        if not self.stopping:
            self._engine.run_ended(self)

    async def _end(self, outcome: Outcome) -> None:
        """Record it. Whatever is wrong with the outcome, the task ends."""
        task = self.task
        if task.state.terminal:
            return
        try:
            await task.settle(*outcome)
        except InvalidOutput as error:
            self._blame()
            await task.settle(TaskState.FAILED, f"The executor ended with a message that is not valid: {error}")

    async def _drive(self, request: TaskRequest) -> Outcome:
        """Drive the generator to its end, and say what its end means."""
        try:
            generator = self.generator = self._open(request)
        except BaseException as error:  # noqa: BLE001 - whatever a plugin raises, SystemExit too, is its task's alone
            return self._failure(error)
        try:
            return await self._iterate(generator)
        except asyncio.CancelledError:
            if not self.stopping:
                self._blame()
                return Outcome(TaskState.FAILED, "The executor canceled itself")
            if not self._inside:
                await self._throw_cancel(generator)
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            return self._failure(error)
        finally:
            await self._close(generator)

    def _open(self, request: TaskRequest) -> Any:
        generator: Any = self.executor.execute(request)
        if hasattr(generator, "__anext__"):
            return generator
        if hasattr(generator, "__next__"):
            stuck = self._engine.stuck_threads
            if len(stuck) >= self._engine.limits.runs:
                raise TaskFailed("Too many threads of canceled tasks are still blocked")
            return ThreadedGenerator(generator, f"a2ad-run-{self.task.id[:13]}", stuck)
        if asyncio.iscoroutine(generator):
            generator.close()
        raise TypeError(f"{type(self.executor).__name__}.execute must be a generator, async or plain")

    async def _iterate(self, generator: Any) -> Outcome:
        task, asking, behind = self.task, self.asking, self._engine.behind
        first, unheard = True, task.artifacts.none
        # who follows it gets its first frame before more of them are made
        passed = TURN_BYTES if task.audience.log.readers else 0
        while True:
            self._inside = True
            try:
                event = await generator.__anext__()
            except StopAsyncIteration:
                return Outcome(TaskState.COMPLETED)
            self._inside = False
            if self.stopping:
                raise asyncio.CancelledError
            if asking.active:
                raise InvalidOutput("an executor that asks waits for the answer before it goes on")
            if task.needs_frames:
                await self.insist(task.flush)
            is_artifact = isinstance(event, Artifact)
            if not is_artifact and not (isinstance(event, Status) and event.state == TaskState.WORKING):
                return await self._take_last(event, generator, first=first)
            if unheard:
                unheard = await self._appear(is_artifact=is_artifact)
            size = task.add_artifact(event) if is_artifact else task.note(event.message, event.metadata)
            first = False
            behind.add(task)
            if task.ahead:
                await self._keep_pace()
            passed += max(EVENT_BYTES, size)
            if passed >= TURN_BYTES:
                passed = 0
                await asyncio.sleep(0)

    async def _appear(self, *, is_artifact: bool) -> bool:
        """Before anything is heard of the task, up to its first artifact. False: this is it."""
        task = self.task
        if task.row.hidden:
            await self.insist(task.show)
        if is_artifact:
            self._engine.figures.tasks.first_artifact.add((now_ms() - task.row.created_at) / 1000)
        return not is_artifact

    async def _keep_pace(self) -> None:
        """With the fastest reader, and with the store."""
        log = self.task.audience.log
        if log.too_far_ahead:
            await log.pace()
        if self.task.ahead_of_store:
            await self.insist(self.task.flush)

    async def _take_last(self, event: object, generator: Any, *, first: bool) -> Outcome:
        """An event after which the run is over."""
        if isinstance(event, Reply):
            return await self._take_reply(event, generator, first=first)
        if not isinstance(event, Status):
            raise InvalidOutput(f"an executor yields Artifact, Status or Reply, not {type(event).__name__}")
        try:
            state = TaskState(event.state)
        except ValueError:
            raise InvalidOutput(f"{event.state!r} is not a task state") from None
        if state is TaskState.SUBMITTED:
            raise InvalidOutput("a task that runs cannot be SUBMITTED again")
        outcome = Outcome(state, event.message, event.metadata)
        if state.terminal:
            await self._end(outcome)
            await self._drain(generator)
        return outcome

    async def _take_reply(self, event: Reply, generator: Any, *, first: bool) -> Outcome:
        """A direct answer; where the caller wanted a task (`returnImmediately`), the closing message of one."""
        task = self.task
        if not (first and self.executor.may_reply):
            raise InvalidOutput("a Reply must be the only event, and its class must say `may_reply = True`")
        if not event.parts:
            raise InvalidOutput("a reply must have at least one part")
        outcome = Outcome(TaskState.COMPLETED, event.parts, event.metadata)
        if task.row.hidden:
            message = encode_agent_message(event.parts, task.row.context_id, None, event.metadata)
            await self.insist(lambda: task.reply(message))
        else:
            await self._end(outcome)
        await self._drain(generator)
        return outcome

    async def _drain(self, generator: Any) -> None:
        """After its last event, what still comes is dropped, for the grace at most."""

        async def rest() -> None:
            async for event in generator:
                log.warning("run.event_after_end", task_id=self.task.id, event=type(event).__name__)
                await asyncio.sleep(0)

        await self._bounded(rest)

    async def _throw_cancel(self, generator: Any) -> None:
        athrow = getattr(generator, "athrow", None)
        if athrow is not None:
            try:
                await athrow(asyncio.CancelledError())
            except (StopAsyncIteration, asyncio.CancelledError):
                return
            except BaseException:
                log.warning("run.error_on_cancel", task_id=self.task.id, exc_info=True)

    async def _close(self, generator: Any) -> None:
        if isinstance(generator, AsyncGeneratorType) and generator.ag_frame is None:
            return  # it has ended

        async def close() -> None:
            aclose = getattr(generator, "aclose", None)
            if aclose is not None:
                await aclose()

        await self._bounded(close)

    async def _bounded(self, closing: Callable[[], Awaitable[object]]) -> None:
        """Let the generator's own last steps take the grace at most; past it they are left to themselves."""

        async def step() -> None:
            # in an asyncio task of its own, SystemExit would end the loop
            try:
                await closing()
            except asyncio.CancelledError:
                return
            except BaseException as error:  # noqa: BLE001 - as above
                log.warning("run.error_on_close", task_id=self.task.id, error=error_text(error))

        work = asyncio.create_task(step())
        try:
            await asyncio.wait([work], timeout=self._engine.limits.cancel_grace_seconds)
        finally:
            if not work.done():
                work.cancel()
                self._engine.abandon(work, self.task)

    def _failure(self, error: BaseException) -> Outcome:
        if isinstance(error, TaskOutcome):
            return Outcome(error.state, error.message)
        if isinstance(error, InvalidOutput):
            self._blame()
            return Outcome(TaskState.FAILED, f"The executor yielded something that is not valid: {error}")
        self._blame()
        log.error("run.failed", task_id=self.task.id, executor=self.task.row.executor, exc_info=error)
        return Outcome(TaskState.FAILED, error_text(error))

    def _blame(self) -> None:
        host = self._engine.host
        host.errors.add(host.plugin_of(self.task.row.executor, self.preset))

    async def insist(self, step: Callable[[], Awaitable[T]]) -> T:
        """What has to be durable before the run goes on is tried until the store takes it."""
        while True:
            try:
                return await step()
            except StoreUnavailable as error:
                self.task.audience.fail(error)
                log.warning("run.waits_for_the_store", task_id=self.task.id)
                await asyncio.sleep(RETRY_FIRST)
