"""A run: one asyncio task that drives an executor's generator and applies each of its events.

The generator is driven by hand, so that a cancel reaches it wherever it is: where it awaits, `CancelledError` is
raised there; where it is suspended at a `yield`, it is thrown in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import structlog

from a2ad.engine.behind import MOST_BYTES
from a2ad.engine.encode import InvalidOutput, encode_agent_message
from a2ad.engine.task import RETRY_FIRST, LiveTask
from a2ad.engine.threads import ThreadedGenerator
from a2ad.errors import StoreUnavailable
from a2ad.executor import Artifact, Executor, Reply, Status, TaskOutcome, TaskRequest, Text
from a2ad.model import TaskState

if TYPE_CHECKING:
    from a2ad.engine import Engine

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

    def __init__(self, engine: Engine, task: LiveTask, executor: Executor) -> None:
        self.task = task
        self.executor = executor
        self.stopping = False
        #: `loop.time()` at which it has run too long
        self.deadline = 0.0
        #: since when it waits in `ask`, by `loop.time()`
        self.asking_since = 0.0
        self.generator: Any = None
        self._engine = engine
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._inside = False
        self._replied = False
        #: the asyncio task, once it has started
        self.work: asyncio.Task[None]

    @property
    def asking(self) -> bool:
        return self._answer is not None

    def start(self, request: TaskRequest, *, begin: bool) -> None:
        """`begin`: the task is not WORKING yet, and has to be that first."""
        loop = asyncio.get_running_loop()
        self.deadline = loop.time() + self._engine.limits.run_seconds
        self.work = loop.create_task(self._live(request, begin=begin))

    def answer(self, message: dict[str, Any]) -> None:
        """The message that `ask` waits for; the run has a slot again."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    async def answer_later(self, message: dict[str, Any]) -> None:
        """As `answer`, for a message that had to wait for a slot."""
        await self.insist(self.task.begin)
        self.answer(message)

    async def stop(self, grace: float) -> bool:
        """Interrupt it, and wait for its end for `grace` seconds. False: it goes on, and counts no more."""
        self.stopping = True
        work = self.work
        await self.task.saved()
        work.cancel()
        done, _ = await asyncio.wait([work], timeout=grace)
        return bool(done)

    async def _live(self, request: TaskRequest, *, begin: bool) -> None:
        task = self.task
        try:
            if begin:
                await self.insist(task.begin)
            outcome = await self._drive(request)
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            return
        if not self.stopping:
            await self._end(outcome)
            self._engine.run_ended(self)

    async def _end(self, outcome: Outcome) -> None:
        if self._replied or self.task.state.terminal:
            return
        try:
            await self.task.settle(*outcome)
        except InvalidOutput as error:
            await self.task.settle(TaskState.FAILED, f"The executor ended with a message that is not valid: {error}")
        except Exception:
            log.exception("run.end_failed", task_id=self.task.id)
            await self.task.settle(TaskState.FAILED, "The executor's end could not be recorded")

    async def _drive(self, request: TaskRequest) -> Outcome:
        """Drive the generator to its end, and say what its end means."""
        try:
            generator = self.generator = self._open(request)
        except (TaskOutcome, Exception, SystemExit) as error:  # noqa: BLE001
            return self._failure(error)
        try:
            return await self._iterate(generator)
        except asyncio.CancelledError:
            if not self.stopping:
                return Outcome(TaskState.FAILED, "The executor canceled itself")
            if not self._inside:
                await self._throw_cancel(generator)
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a plugin raises, SystemExit too, is its task's alone
            return self._failure(error)
        finally:
            await self._close(generator)

    def _open(self, request: TaskRequest) -> Any:
        generator: Any = self.executor.execute(request)
        if hasattr(generator, "__anext__"):
            return generator
        if hasattr(generator, "__next__"):
            return ThreadedGenerator(generator, f"a2ad-run-{self.task.id[:13]}")
        if asyncio.iscoroutine(generator):
            generator.close()
        raise TypeError(f"{type(self.executor).__name__}.execute must be a generator, async or plain")

    async def _iterate(self, generator: Any) -> Outcome:
        passed, first = 0, True
        while True:
            self._inside = True
            try:
                event = await generator.__anext__()
            except StopAsyncIteration:
                return Outcome(TaskState.COMPLETED)
            self._inside = False
            if self.stopping:
                raise asyncio.CancelledError
            if self.task.needs_frames:
                await self.insist(self.task.flush)
            if isinstance(event, Artifact):
                passed += await self._take_artifact(event)
            else:
                outcome = await self._take_other(event, generator, first=first)
                if outcome is not None:
                    return outcome
                passed += EVENT_BYTES
            first = False
            if passed >= TURN_BYTES:
                passed = 0
                await asyncio.sleep(0)

    async def _take_artifact(self, event: Artifact) -> int:
        """Its size, about."""
        task = self.task
        if task.row.hidden:
            await self.insist(task.show)
        before = task.artifacts.pending_bytes
        task.add_artifact(event)
        size = task.artifacts.pending_bytes - before
        self._engine.behind.add(task)
        if task.artifacts.pending_bytes > MOST_BYTES:
            await self.insist(task.flush)
        if task.audience.log.too_far_ahead:
            await task.audience.log.pace()
        return max(EVENT_BYTES, size)

    async def _take_other(self, event: object, generator: Any, *, first: bool) -> Outcome | None:
        if isinstance(event, Status):
            return await self._take_status(event, generator)
        if isinstance(event, Reply):
            return await self._take_reply(event, first=first)
        raise InvalidOutput(f"an executor yields Artifact, Status or Reply, not {type(event).__name__}")

    async def _take_status(self, event: Status, generator: Any) -> Outcome | None:
        try:
            state = TaskState(event.state)
        except ValueError:
            raise InvalidOutput(f"{event.state!r} is not a task state") from None
        if state is TaskState.SUBMITTED:
            raise InvalidOutput("a task that runs cannot be SUBMITTED again")
        if state is TaskState.WORKING:
            if self.task.row.hidden:
                await self.insist(self.task.show)
            self.task.note(event.message, event.metadata)
            self._engine.behind.add(self.task)
            return None
        outcome = Outcome(state, event.message, event.metadata)
        if state.terminal:
            await self._end(outcome)
            await self._drain(generator)
        return outcome

    async def _take_reply(self, event: Reply, *, first: bool) -> Outcome | None:
        """A direct answer; where the caller wanted a task (`returnImmediately`), the closing message of one."""
        task = self.task
        if not (first and self.executor.may_reply):
            raise InvalidOutput("a Reply must be the only event, and its class must say `may_reply = True`")
        if not event.parts:
            raise InvalidOutput("a reply must have at least one part")
        if not task.row.hidden:
            return Outcome(TaskState.COMPLETED, event.parts, event.metadata)
        message = encode_agent_message(event.parts, task.row.context_id, None, event.metadata)
        await self.insist(lambda: task.reply(message))
        self._replied = True
        return None

    async def _drain(self, generator: Any) -> None:
        """After a terminal state what still comes is dropped, for the grace at most."""

        async def rest() -> None:
            async for event in generator:
                log.warning("run.event_after_end", task_id=self.task.id, event=type(event).__name__)

        await self._bounded(rest())

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
        if getattr(generator, "ag_frame", generator) is None:
            return  # an async generator that has ended
        aclose = getattr(generator, "aclose", None)
        if aclose is not None:
            await self._bounded(aclose())

    async def _bounded(self, closing: Any) -> None:
        """Let the generator's own last steps take the grace at most; past it they are left to themselves."""
        step = asyncio.ensure_future(closing)
        done, _ = await asyncio.wait([step], timeout=self._engine.limits.cancel_grace_seconds)
        if not done:
            step.cancel()
            self._engine.abandon(step, self.task)
        elif not step.cancelled() and (error := step.exception()) is not None:
            log.warning("run.error_on_close", task_id=self.task.id, error=repr(error))

    def _failure(self, error: BaseException) -> Outcome:
        if isinstance(error, TaskOutcome):
            return Outcome(error.state, error.message)
        if isinstance(error, InvalidOutput):
            return Outcome(TaskState.FAILED, f"The executor yielded something that is not valid: {error}")
        log.error("run.failed", task_id=self.task.id, executor=self.task.row.executor, exc_info=error)
        return Outcome(TaskState.FAILED, _told(error))

    async def insist(self, step: Callable[[], Awaitable[T]]) -> T:
        """What has to be durable before the run goes on is tried until the store takes it."""
        while True:
            try:
                return await step()
            except StoreUnavailable as error:
                self.task.audience.fail(error)
                await asyncio.sleep(RETRY_FIRST)

    async def ask(
        self, question: Text, *, state: TaskState, options: Sequence[Mapping[str, Any]] | None, deadline: float | None
    ) -> dict[str, Any]:
        """`TaskRequest.ask`: the run gives its slot back, and its clock stands still, until the answer is there."""
        if self.stopping or self.task.run is not self or self.task.finishing:
            raise RuntimeError("the task does not run any more")
        if self.asking:
            raise RuntimeError("the task is asking already")
        state = TaskState(state)
        if not state.interrupted:
            raise ValueError("a question makes a task INPUT_REQUIRED or AUTH_REQUIRED")
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self.asking_since = loop.time()
        try:
            await self.task.settle(state, _question_parts(question, options, deadline))
            self._engine.pause(self)
            try:
                async with asyncio.timeout(deadline):
                    message = await asyncio.shield(self._answer)
            except TimeoutError:
                if not self.task.continuing and not self._answer.done() and self.task.state.interrupted:
                    await self._engine.resume_unanswered(self)
                    raise
                message = await self._answer
        finally:
            self._answer = None
            self.deadline += loop.time() - self.asking_since
        return message


def _question_parts(
    question: Text, options: Sequence[Mapping[str, Any]] | None, deadline: float | None
) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": question}] if isinstance(question, str) else list(question)
    if options:
        text = question if isinstance(question, str) else "\n".join(p["text"] for p in question if "text" in p)
        data: dict[str, Any] = {"question": text, "options": [dict(option) for option in options]}
        if deadline is not None:
            data["deadline"] = deadline
        parts.append({"data": data})
    return parts


def _told(error: BaseException) -> str:
    """An exception's text, made Unicode; its name where it has none, or none that it can tell."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a plugin's own code
        text = ""
    return text.encode(errors="replace").decode() or type(error).__name__
