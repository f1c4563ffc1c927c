"""The engine: which tasks are in memory, how they are found, stopped, and let go of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import structlog

from a2ad.audit import Audit
from a2ad.config import LimitsConfig
from a2ad.engine.artifacts import stored_view
from a2ad.engine.behind import WriteBehind
from a2ad.engine.cache import Encoded, EndedCache
from a2ad.engine.encode import TaskView
from a2ad.engine.expiry import Expiry
from a2ad.engine.frames import Reader
from a2ad.engine.intake import Accepted, Intake
from a2ad.engine.run import Run
from a2ad.engine.schedule import Scheduler, not_yet
from a2ad.engine.starter import Starter, Target
from a2ad.engine.task import LiveTask
from a2ad.engine.threads import ThreadedGenerator
from a2ad.engine.upkeep import Upkeep
from a2ad.errors import Stopping, StoreRefused, StoreUnavailable, TaskNotCancelable, TaskNotFound, UnsupportedOperation
from a2ad.figures import Figures
from a2ad.model import TaskState
from a2ad.plugins import PluginHost
from a2ad.schemas.a2a import SendMessageParams
from a2ad.store import Store, StoredTask, TaskRow

#: how long a run that was told to end at shutdown may still take, in seconds, at most
STOP_GRACE = 1.0
STOP_POLL = 0.02
#: how long the start waits for the store to take what it settles, in seconds
SETTLE_SECONDS = 10.0
STOPPED = "The daemon stopped while the task ran"
STOPPED_WAITING = "The daemon stopped while the task waited for an answer"

log = structlog.get_logger()


class Directory(Protocol):
    """Where the engine finds what a task's inbound is, when it is not called by one (at start-up)."""

    def target(self, inbound_id: str) -> Target | None: ...


def _works(task: LiveTask) -> bool:
    return task.run is not None and not task.run.asking.active


class Engine:
    """`start` it, `submit` messages, `stop` it. One per daemon; everything runs on one event loop."""

    def __init__(
        self,
        *,
        store: Store,
        host: PluginHost,
        audit: Audit,
        figures: Figures,
        limits: LimitsConfig,
        state_dir: Path,
        replay_frames: int,
    ) -> None:
        self.store = store
        self.host = host
        self.audit = audit
        self.figures = figures
        self.limits = limits
        self.state_dir = state_dir
        self.live: dict[str, LiveTask] = {}
        self.scheduler = Scheduler(runs=limits.runs, runs_per_inbound=limits.runs_per_inbound, queued=limits.queued)
        self.stopping = False
        #: messages that are being taken in
        self.submitting = 0
        #: inbounds that are being removed
        self.closed: set[str] = set()
        #: threads of canceled runs that have not come back
        self.stuck_threads: set[ThreadedGenerator] = set()
        #: steps of generators that did not end when they were told to
        self.abandoned: set[asyncio.Future[Any]] = set()
        self.ended = EndedCache()
        self.behind = WriteBehind()
        self.replay_frames = replay_frames
        self._starter = Starter(self)
        self.expiry = Expiry(self, self._starter)
        self._intake = Intake(self, self._starter)
        self._loading: dict[str, asyncio.Task[LiveTask | None]] = {}
        self._jobs: set[asyncio.Task[Any]] = set()
        self._upkeep = Upkeep(self)

    # start and stop

    async def start(self, directory: Directory) -> None:
        """Settle what an earlier process left behind: nothing stays WORKING without a run."""
        self.expiry.start(directory)
        self._upkeep.start()
        settling = []
        for row in [*await self.store.unfinished(), *await self._starter.lost_questions(directory)]:
            target = directory.target(row.inbound_id)
            stopped = STOPPED_WAITING if row.state.interrupted else STOPPED
            text = stopped if target is not None else "The task's inbound is not there any more"
            task = None
            try:
                task = await self.load(row.id, hidden=True)
                if task is not None and target is not None and self._starter.runs_again(task, target):
                    self._starter.recover(task, target)
                    continue
            except StoreUnavailable:
                raise
            except Exception:  # one task that cannot be read must not keep all the others
                log.exception("task.unreadable", task_id=row.id)
                text = "What is stored of the task cannot be read"
            if task is not None:
                settling.append(self.halt(task, TaskState.FAILED, text))
        if settling:
            await asyncio.wait(settling, timeout=SETTLE_SECONDS)

    async def stop(self) -> None:
        """Take no new work; let what runs end within `limits.shutdown_seconds`, and settle the rest."""
        self.stopping = True
        self.scheduler.stop()
        end = asyncio.get_running_loop().time() + self.limits.shutdown_seconds
        await self._until(lambda: not self.submitting, end)
        for task in list(self.live.values()):
            if task.run is None or task.run.asking.active:
                self._tell_stopping(task)
        await self._until(lambda: not any(_works(task) for task in self.live.values()), end)
        halting = [self._halt_at_stop(task) for task in list(self.live.values()) if task.run is not None]
        halting += [task.canceling for task in self.live.values() if task.canceling is not None]
        if halting:
            await asyncio.wait(halting, timeout=STOP_GRACE + 1)
        for task in list(self.live.values()):
            self._tell_stopping(task)
        await asyncio.wait([self.spawn(self.behind.finish())], timeout=STOP_GRACE)
        self._upkeep.stop()

    @staticmethod
    async def _until(condition: Callable[[], bool], end: float) -> None:
        loop = asyncio.get_running_loop()
        while not condition() and loop.time() < end:  # noqa: ASYNC110 - many things end here, each in its own way
            await asyncio.sleep(STOP_POLL)

    def _halt_at_stop(self, task: LiveTask) -> asyncio.Task[None]:
        assert task.run is not None
        return self.let_go(task, STOPPED_WAITING if task.run.asking.active else STOPPED)

    def _tell_stopping(self, task: LiveTask) -> None:
        task.audience.fail(Stopping())
        task.audience.finish(interrupted=False, failure=Stopping())

    # what others ask for

    async def submit(
        self, target: Target, params: SendMessageParams, *, caller: str, peer: str, stream: bool = False
    ) -> Accepted:
        """Take a message in: a new task, an answer to one, or a repetition (`intake`)."""
        self.submitting += 1
        try:
            return await self._intake.submit(target, params, caller=caller, peer=peer, stream=stream)
        finally:
            self.submitting -= 1

    async def find(self, task_id: str, inbound_id: str | None = None) -> LiveTask:
        """The task, of this inbound where one is named; loaded where it is not in memory. Raises `TaskNotFound`."""
        task = await self.load(task_id)
        if task is None or (inbound_id is not None and task.row.inbound_id != inbound_id):
            raise TaskNotFound
        return task

    async def view(self, task_id: str, inbound_id: str | None = None) -> TaskView:
        """The task as it is now. Raises `TaskNotFound`."""
        task = self.live.get(task_id)
        stored = await self.store.task(task_id) if task is None else None
        task = task or self.live.get(task_id)
        view = task.view() if task is not None else stored_view(stored) if stored is not None else None
        if view is None or view.row.hidden or (inbound_id is not None and view.row.inbound_id != inbound_id):
            raise TaskNotFound
        return view

    async def encoded(self, task_id: str, inbound_id: str, history_length: int | None) -> bytes:
        """The task as it is now, as GetTask gives it. Raises `TaskNotFound`."""
        held = self.ended.get(task_id) if history_length is None else None
        if held is not None:
            if held.inbound_id != inbound_id:
                raise TaskNotFound
            return held.body
        generation = self.ended.generation
        view = await self.view(task_id, inbound_id)
        body = view.encode(history_length)
        if view.row.state.terminal and history_length is None and generation == self.ended.generation:
            self.ended.put(task_id, Encoded(inbound_id, body))
        return body

    async def subscribe(self, task_id: str, inbound_id: str, last_event_id: int | None) -> Reader:
        """Read a task's stream to its end. Raises `TaskNotFound`, `UnsupportedOperation` for one that has ended."""
        task = await self.find(task_id, inbound_id)
        if task.state.terminal:
            raise UnsupportedOperation("The task has ended: there is nothing to subscribe to")
        self.check_readers(task)
        return task.subscribe(last_event_id=last_event_id, until_interrupted=False)

    def check_readers(self, task: LiveTask) -> None:
        """Raises `UnsupportedOperation` where the task has as many subscribers as it may have."""
        if len(task.audience.log.readers) >= self.limits.subscribers_per_task:
            raise UnsupportedOperation(f"The task has {self.limits.subscribers_per_task} subscribers: it takes no more")

    async def cancel(self, task_id: str, inbound_id: str | None = None) -> LiveTask:
        """Stop the executor and record CANCELED. Raises `TaskNotFound`, and `TaskNotCancelable` where it has ended.

        Many at once are one: all of them get the canceled task.
        """
        return await self.cancel_task(await self.find(task_id, inbound_id))

    async def cancel_task(self, task: LiveTask) -> LiveTask:
        """As `cancel`, for a task that is at hand, a hidden one too."""
        ended = task.state.terminal
        while not task.state.terminal:
            if self.live.get(task.id) is not task and not task.ledger.recorded:
                raise TaskNotFound
            # one that only lets go of its run, at shutdown or past `ask_seconds`, may be under way: then once more
            await task.audience.wait_for(task.canceling or self.halt(task, TaskState.CANCELED))
        if ended or task.row.state is not TaskState.CANCELED:
            raise TaskNotCancelable
        return task

    # tasks in memory

    def adopt(self, row: TaskRow) -> LiveTask:
        """The task of this row, new or from the store, as an object; to be found, it has to be put into `live`."""
        return LiveTask(
            row,
            self.store,
            bound=self.limits.stream_buffer_bytes,
            replay=self.replay_frames,
            max_bytes=self.limits.task_bytes,
            on_state=self.on_state,
        )

    async def load(self, task_id: str, *, hidden: bool = False) -> LiveTask | None:
        """From memory, else from the store. One read at a time for a task, so that nobody acts on an old one."""
        task = self.live.get(task_id)
        if task is None:
            loading = self._loading.get(task_id)
            if loading is None:
                loading = self._loading[task_id] = asyncio.create_task(self._load(task_id))
            task = await asyncio.shield(loading)
            if task is not None and not task.state.terminal:
                # those who wait for it act in this very step: it must be the one that others find
                task = self.live.setdefault(task_id, task)
        return None if task is None or (task.row.hidden and not hidden) else task

    async def _load(self, task_id: str) -> LiveTask | None:
        try:
            stored: StoredTask | None = await self.store.task(task_id)
            if stored is None:
                return None
            task = self.adopt(stored.row)
            ended = stored.row.state.terminal
            task.restore(stored, () if ended else await self.store.status_events(task_id, 0))
            return task if ended else self.live.setdefault(task_id, task)
        finally:
            del self._loading[task_id]

    def release(self, task: LiveTask) -> None:
        """Let go of what nobody needs in memory."""
        if task.idle and self.live.get(task.id) is task:
            del self.live[task.id]
            self.behind.discard(task)

    async def forget_inbound(self, inbound_id: str) -> None:
        """Cancel and delete all tasks of an inbound, and take no more for it. Raises `StoreUnavailable`."""
        self.closed.add(inbound_id)
        mine = [task for task in self.live.values() if task.row.inbound_id == inbound_id]
        outcomes = await asyncio.gather(*(self.cancel_task(task) for task in mine), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, StoreUnavailable):
                self.closed.discard(inbound_id)
                raise outcome
        await self.store.delete_tasks(inbound_id)
        self.ended.drop_inbound(inbound_id)
        for task in [task for task in self.live.values() if task.row.inbound_id == inbound_id]:
            task.audience.finish(interrupted=False)
            del self.live[task.id]

    def on_state(self, task: LiveTask) -> None:
        """Count it, and tell the observers where the task is now."""
        row = task.row
        self.figures.tasks.reached(row.skill, task.counted, row.state, (row.updated_at - row.created_at) / 1000)
        task.counted = row.state
        if self.host.has_observers:
            self.host.emit("task.state", {"taskId": row.id, "contextId": row.context_id, "serverId": row.inbound_id,
                                          "skill": row.skill, "state": row.state.value})  # fmt: skip

    # runs

    def run_ended(self, run: Run) -> None:
        """It is over, and nothing of it is to be recorded any more: its slot goes to the next task."""
        task = run.task
        run.asking.close()
        run.lending.close(run)
        if task.run is run:
            task.run = None
            self._leave(task)
            if task.state.interrupted:
                self.expiry.note(task.row)
            self.release(task)

    def _leave(self, task: LiveTask) -> None:
        if task.ticket is not None:
            self.scheduler.leave(task.ticket)
            task.ticket.start = not_yet  # it may hold the task, which holds the ticket

    def abandon(self, step: asyncio.Future[Any], task: LiveTask) -> None:
        """It did not end when it was told to: it goes on without effect, and nobody waits for it."""
        log.warning("run.abandoned", task_id=task.id, executor=task.row.executor)
        self.abandoned.add(step)
        step.add_done_callback(self._abandoned_ended)

    def _abandoned_ended(self, step: asyncio.Future[Any]) -> None:
        self.abandoned.discard(step)
        if not step.cancelled() and (error := step.exception()) is not None:
            log.warning("run.abandoned_ended", error=type(error).__name__)

    def halt(self, task: LiveTask, state: TaskState | None, text: str | None = None) -> asyncio.Task[None]:
        """End a task from outside, once: with this state, or (None) leave it as it is recorded."""
        if task.canceling is None:
            task.canceling = asyncio.create_task(self._do_halt(task, state, text))
        return task.canceling

    def let_go(self, task: LiveTask, text: str) -> asyncio.Task[None]:
        """End its run: the task stays as it is recorded where it can go on without that run, else it is FAILED."""
        assert task.run is not None
        goes_on = task.run.executor.goes_on(task.run.preset, waits=task.run.asking.active)
        return self.halt(task, None) if goes_on else self.halt(task, TaskState.FAILED, text)

    async def _do_halt(self, task: LiveTask, state: TaskState | None, text: str | None) -> None:
        try:
            await task.at_rest()
            run = task.run
            if run is not None:
                grace = self.limits.cancel_grace_seconds
                if not await run.stop(min(grace, STOP_GRACE) if self.stopping else grace):
                    self.abandon(run.work, task)
                run.asking.close()
                run.lending.close(run)
                task.run = None
            self._leave(task)  # or its turn could come while its end is being recorded
            if state is None:
                # nobody waits for an answer any more
                task.audience.finish(interrupted=True, failure=Stopping() if self.stopping else None)
                self.expiry.note(task.row)
            elif not task.state.terminal and task.ledger.recorded:
                await task.settle(state, text)
        except StoreRefused:
            await self.end_badly(task, text or "The task's end could not be recorded")
        finally:
            task.canceling = None
            self.release(task)

    # housekeeping

    def spawn(self, job: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run it on its own; it is held until it ends."""
        task = asyncio.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
        return task

    def guard(self, task: LiveTask, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """As `spawn`, for a step towards a task's run: where it fails, the task does, and keeps nobody's place."""
        self.spawn(self._guarded(task, job))

    async def _guarded(self, task: LiveTask, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await job()
        except Exception:
            log.exception("task.not_started", task_id=task.id)
            task.ledger.discard()
            await asyncio.wait([self.halt(task, TaskState.FAILED, "The task could not be started")])

    async def end_badly(self, task: LiveTask, text: str) -> None:
        """The store refuses what belongs to the task: without that it is FAILED, or else it is let go of as it is, to
        be settled at the next start.
        """
        task.ledger.discard()
        try:
            if not task.state.terminal:
                await task.settle(TaskState.FAILED, text)
        except StoreRefused as error:
            log.exception("task.lost", task_id=task.id)
            task.audience.fail(error)
            task.audience.finish(interrupted=False, failure=error)
            self.live.pop(task.id, None)
