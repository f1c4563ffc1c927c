"""From a message to a task: a new one, the continuation of one that waits, or a message that was here before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from a2ad.engine.attachments import keep_attachments, kept_attachments
from a2ad.engine.encode import encode_client_message, encode_status, one_line
from a2ad.engine.frames import Frame, FrameLog, Reader
from a2ad.engine.run import Run
from a2ad.engine.schedule import Ticket
from a2ad.engine.task import FRAME_BLOCK, LiveTask
from a2ad.engine.workdirs import context_dir
from a2ad.errors import (
    InvalidParams,
    ProtocolError,
    ResourceExhausted,
    Stopping,
    TaskNotFound,
    UnsupportedOperation,
)
from a2ad.executor import Attachment, Preset, Skill, TaskRequest, prompt_text
from a2ad.hookspecs import Decision
from a2ad.model import TaskState, new_id, now_ms
from a2ad.schemas.a2a import SendMessageParams
from a2ad.store import MessageRow, TaskRow

if TYPE_CHECKING:
    from a2ad.engine.core import Engine

DEFAULT_SKILL = "chat"
#: what a client is told to wait when the queue is full, in seconds
RETRY_AFTER = 5


class Target(Protocol):
    """What the engine has to know of an inbound."""

    @property
    def id(self) -> str: ...
    @property
    def preset(self) -> Preset: ...
    @property
    def skills(self) -> Mapping[str, Skill]: ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a message. `reader` where a stream was asked for."""

    task: LiveTask
    reader: Reader | None
    repeated: bool = False


class Intake:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def submit(
        self, target: Target, params: SendMessageParams, *, caller: str, peer: str, stream: bool
    ) -> Accepted:
        """Record a message and set its task going. A message that this caller has sent before gives the task that it
        made then, whatever else it says now (`protocol.md` 3).

        Raises `InvalidParams`, `TaskNotFound`, `UnsupportedOperation`, `ResourceExhausted`, `Stopping`,
        `StoreUnavailable`; nothing is recorded then.
        """
        try:
            if params.task_id is not None:
                return await self._continue(target, params, caller=caller, stream=stream)
            return await self._begin(target, params, caller=caller, peer=peer, stream=stream)
        except ProtocolError:
            if params.message_id is not None:
                live = self._engine.live.get(params.task_id or "")
                if live is not None:
                    await live.ledger.saved()  # a copy of this very message may be on its way
                other = await self._engine.store.find_message(target.id, caller, params.message_id)
                if other is not None:
                    return await self._repeat(other, stream=stream)
            raise

    # a new task

    async def _begin(
        self, target: Target, params: SendMessageParams, *, caller: str, peer: str, stream: bool
    ) -> Accepted:
        engine = self._engine
        skill = _chosen_skill(target, params.skill)
        executor = engine.host.executors[skill.executor].value
        if engine.stopping:
            raise Stopping
        attachments = await keep_attachments(params.message, engine.limits, engine.state_dir)
        if target.id in engine.closed:
            raise UnsupportedOperation("This agent is being removed")
        context_id = params.context_id or new_id()
        self._check_room(target.id, context_id)
        task_id, message_id = new_id(), params.message_id or new_id()
        ticket = Ticket(target.id, context_id, _nothing)
        has_slot = engine.scheduler.enter(ticket)
        gated = engine.host.has_gates
        state = TaskState.WORKING if has_slot and not gated else TaskState.SUBMITTED
        now = now_ms()
        task = engine.adopt(
            TaskRow(
                id=task_id,
                inbound_id=target.id,
                context_id=context_id,
                caller=caller,
                peer=peer,
                skill=skill.id,
                executor=skill.executor,
                state=state,
                status=encode_status(state, now),
                created_at=now,
                updated_at=now,
                frame_limit=FRAME_BLOCK,
                queued=state is TaskState.SUBMITTED,
                hidden=executor.may_reply and not params.return_immediately,
            )
        )
        task.ticket = ticket
        body = encode_client_message(params.message, message_id, context_id, task_id)
        engine.live[task_id] = task

        def recorded() -> None:
            if not task.row.hidden:
                task.emit_task()
                engine.on_state(task)
            if task.canceling is None:
                self._schedule(task, target, orjson.loads(body), attachments, has_slot=has_slot, gated=gated)

        try:
            other = await task.create(
                MessageRow(0, message_id, body, caller if params.message_id else None),
                [file.sha256 for file in attachments],
            )
        except asyncio.CancelledError:
            engine.guard(task, partial(self._recorded_later, task, recorded))
            raise
        except BaseException:
            self._forget(task)
            raise
        if other is not None:
            self._forget(task)
            return await self._repeat(other, stream=stream)
        reader = task.audience.follow(until_interrupted=True) if stream else None
        recorded()
        return Accepted(task, reader)

    async def _recorded_later(self, task: LiveTask, recorded: Callable[[], None]) -> None:
        """Nobody waits for the answer any more, but the message is on its way into the store."""
        await task.ledger.saved()
        if task.ledger.recorded:
            recorded()
        else:
            self._forget(task)

    def _forget(self, task: LiveTask) -> None:
        """It was not recorded."""
        assert task.ticket is not None
        self._engine.scheduler.leave(task.ticket)
        del self._engine.live[task.id]

    def _check_room(self, inbound_id: str, context_id: str) -> None:
        scheduler = self._engine.scheduler
        if scheduler.full and not scheduler.would_run(inbound_id, context_id):
            raise ResourceExhausted(retry_after=RETRY_AFTER)

    def _schedule(
        self,
        task: LiveTask,
        target: Target,
        message: dict[str, Any],
        attachments: tuple[Attachment, ...],
        *,
        has_slot: bool,
        gated: bool,
        resumed: bool = False,
    ) -> None:
        """Let its run begin: now, after the policy hooks, or when its turn comes."""
        ticket = task.ticket
        assert ticket is not None
        start = self._starter(task, target, message, attachments, resumed=resumed)
        ticket.start = partial(start, begin=True)
        if gated:
            self._engine.guard(task, partial(self._decide, task, message, has_slot=has_slot))
        elif has_slot:
            start(begin=task.row.queued)
        else:
            self._engine.scheduler.set_ready(ticket)

    def _starter(
        self,
        task: LiveTask,
        target: Target,
        message: dict[str, Any],
        attachments: tuple[Attachment, ...],
        *,
        resumed: bool,
    ) -> Callable[..., None]:
        engine = self._engine
        run = Run(engine, task, engine.host.executors[task.row.executor].value)
        request = TaskRequest(
            task_id=task.id,
            context_id=task.row.context_id,
            inbound_id=target.id,
            skill=task.row.skill,
            message=message,
            preset=target.preset,
            peer=task.row.peer,
            caller=task.row.caller,
            attachments=attachments,
            resumed=resumed,
            _workdir=partial(context_dir, engine.state_dir, target.id, task.row.context_id),
            _history=lambda: [orjson.loads(body) for body in task.history],
            _ask=run.asking.ask,
        )

        def start(*, begin: bool) -> None:
            assert task.run is None
            task.run = run
            run.start(request, begin=begin)

        return start

    async def _decide(self, task: LiveTask, message: dict[str, Any], *, has_slot: bool) -> None:
        """Ask the policy hooks; a veto makes the task REJECTED (design.md, "The life of a task")."""
        row, engine = task.row, self._engine
        denied = await engine.host.inbound_task(
            Decision(
                inbound_id=row.inbound_id,
                task_id=row.id,
                context_id=row.context_id,
                skill=row.skill,
                message=message,
                text=prompt_text(message["parts"]),
                peer=row.peer,
                caller=row.caller,
            )
        )
        engine.audit.record(
            "policy.decision",
            {"taskId": row.id, "serverId": row.inbound_id, "skill": row.skill, "caller": row.caller,
             "decision": "allow" if denied is None else "deny", "reason": denied.reason if denied else None},
        )  # fmt: skip
        if task.canceling is not None or task.state is not TaskState.SUBMITTED:
            return
        ticket = task.ticket
        assert ticket is not None
        if denied is not None:
            await task.settle(TaskState.REJECTED, denied.reason)
            engine.scheduler.leave(ticket)
            engine.release(task)
        elif engine.stopping:
            return
        elif has_slot:
            ticket.start()
        else:
            engine.scheduler.set_ready(ticket)

    # a task that goes on

    async def _continue(self, target: Target, params: SendMessageParams, *, caller: str, stream: bool) -> Accepted:
        engine = self._engine
        await self._interrupted(target, params)
        attachments = await keep_attachments(params.message, engine.limits, engine.state_dir)
        task = await self._interrupted(target, params)
        # up to the commit nobody else acts
        if stream:
            engine.check_readers(task)
        row = task.row
        task.continuing = True
        asking = task.run.asking if task.run is not None and task.run.asking.active else None
        ticket = task.ticket = task.ticket or Ticket(row.inbound_id, row.context_id, _nothing)
        ticket.ready = False
        has_slot = engine.scheduler.enter(ticket, front=True)
        message_id = params.message_id or new_id()
        body = encode_client_message(params.message, message_id, row.context_id, row.id)

        def recorded() -> None:
            if task.canceling is not None:
                engine.scheduler.leave(ticket)
            elif asking is None:
                message = orjson.loads(body)
                self._schedule(task, target, message, attachments, has_slot=has_slot, gated=False, resumed=True)
            elif has_slot:
                asking.answer(orjson.loads(body))
            else:
                asking.answer_in_turn(orjson.loads(body))

        try:
            other = await task.proceed(
                message_id,
                body,
                caller if params.message_id else None,
                [file.sha256 for file in attachments],
                queued=not has_slot,
            )
        except asyncio.CancelledError:
            engine.guard(task, partial(self._answered_later, task, recorded))
            raise
        except BaseException:
            task.continuing = False
            engine.scheduler.leave(ticket)
            raise
        task.continuing = False
        if other is not None:
            engine.scheduler.leave(ticket)
            return await self._repeat(other, stream=stream)
        reader = task.subscribe(last_event_id=None, until_interrupted=True) if stream else None
        recorded()
        return Accepted(task, reader)

    async def _answered_later(self, task: LiveTask, recorded: Callable[[], None]) -> None:
        """As `_recorded_later`, for an answer."""
        await task.ledger.saved()
        task.continuing = False
        assert task.ticket is not None
        if task.state is TaskState.WORKING:
            recorded()
        else:
            self._engine.scheduler.leave(task.ticket)

    async def _interrupted(self, target: Target, params: SendMessageParams) -> LiveTask:
        """The task that the message is for, where it waits for one."""
        engine = self._engine
        task = await engine.load(params.task_id or "")
        while task is not None and task.canceling is not None:
            await asyncio.wait([task.canceling])
            task = await engine.load(task.id)
        if task is None or task.row.inbound_id != target.id:
            raise TaskNotFound
        if params.context_id not in {None, task.row.context_id}:
            raise InvalidParams([("message.contextId", "is not the context of this task")])
        if task.state.terminal:
            raise UnsupportedOperation("The task has ended: send a message without taskId to begin another")
        if not task.settled_now:
            raise UnsupportedOperation("The task is still running: it takes no message now")
        if task.row.executor not in engine.host.executors:
            raise UnsupportedOperation(f"The task's executor {task.row.executor!r} is not there any more")
        if engine.stopping:
            raise Stopping
        if target.id in engine.closed:
            raise UnsupportedOperation("This agent is being removed")
        self._check_room(target.id, task.row.context_id)
        return task

    # a message that was here before

    async def _repeat(self, task_id: str, *, stream: bool) -> Accepted:
        task = await self._engine.load(task_id, hidden=True)
        if task is None:
            raise TaskNotFound
        reader = None
        if stream and task.row.hidden:
            reader = self._follow_hidden(task)
        elif stream:
            self._engine.check_readers(task)
            reader = task.subscribe(last_event_id=None, until_interrupted=True)
        return Accepted(task, reader, repeated=True)

    @staticmethod
    def _follow_hidden(task: LiveTask) -> Reader:
        if task.row.reply is None:
            return task.audience.follow(until_interrupted=True)
        reply = Frame(1, one_line(b'{"message":' + task.row.reply + b"}"), 0)
        reader = Reader(FrameLog(1), [reply], until_interrupted=True)
        reader.finish()
        return reader

    # after a restart

    def runs_again(self, task: LiveTask, target: Target) -> bool:
        """Whether a task that the last process left unfinished may run: it had not begun, or its executor resumes."""
        registered = self._engine.host.executors.get(task.row.executor)
        if registered is None or task.row.skill not in target.skills or not task.history:
            return False
        return task.row.queued or task.state is TaskState.SUBMITTED or registered.value.can_resume

    def recover(self, task: LiveTask, target: Target) -> None:
        """Let it run: it keeps its place in the order of arrival."""
        row, engine = task.row, self._engine
        task.ticket = Ticket(row.inbound_id, row.context_id, _nothing)
        engine.scheduler.enter(task.ticket)
        message = next(m for m in map(orjson.loads, reversed(task.history)) if m["role"] == "ROLE_USER")
        submitted = task.state is TaskState.SUBMITTED
        gated = submitted and engine.host.has_gates
        engine.guard(task, partial(self._recover, task, target, message, gated=gated))

    async def _recover(self, task: LiveTask, target: Target, message: dict[str, Any], *, gated: bool) -> None:
        engine, ticket = self._engine, task.ticket
        assert ticket is not None
        attachments = await kept_attachments(message, engine.state_dir)
        resumed = task.state is TaskState.WORKING
        has_slot = ticket.place is ticket.place.RUNNING
        self._schedule(task, target, message, attachments, has_slot=has_slot, gated=gated, resumed=resumed)


def _nothing() -> None:
    """The start of a ticket whose task is not recorded yet: it is not ready, so nobody calls it."""


def _chosen_skill(target: Target, wanted: object) -> Skill:
    """`metadata.skill`, else `chat`, else the first one. Raises `InvalidParams`."""
    if wanted is None:
        return target.skills.get(DEFAULT_SKILL) or next(iter(target.skills.values()))
    skill = target.skills.get(wanted) if isinstance(wanted, str) else None
    if skill is None:
        declared = ", ".join(target.skills)
        raise InvalidParams([("message.metadata.skill", f"is not a skill of this agent; it declares: {declared}")])
    return skill
