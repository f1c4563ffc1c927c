"""From a message to a task: a new one, the continuation of one that waits, or a message that was here before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from a2ad.config import LimitsConfig
from a2ad.engine.attachments import attachment_violations, keep_attachments
from a2ad.engine.encode import client_message, encode_status, one_line
from a2ad.engine.frames import Frame, FrameLog, Reader
from a2ad.engine.questions import asked_parts, chosen, deadline_of, question_of
from a2ad.engine.schedule import Ticket
from a2ad.engine.starter import Starter, Target
from a2ad.engine.task import FRAME_BLOCK, TOO_LATE, LiveTask
from a2ad.errors import (
    InvalidParams,
    ProtocolError,
    ResourceExhausted,
    Stopping,
    TaskNotFound,
    UnsupportedOperation,
)
from a2ad.executor import Skill
from a2ad.model import TaskState, new_id, now_ms
from a2ad.schemas.a2a import SendMessageParams
from a2ad.schemas.text import dumps
from a2ad.store import MessageRow, TaskRow

if TYPE_CHECKING:
    from a2ad.engine.core import Engine

DEFAULT_SKILL = "chat"
#: what a client is told to wait when the queue is full, in seconds
RETRY_AFTER = 5


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a message. `reader` where a stream was asked for."""

    task: LiveTask
    reader: Reader | None
    repeated: bool = False


class Intake:
    def __init__(self, engine: Engine, starter: Starter) -> None:
        self._engine = engine
        self._starter = starter

    async def submit(
        self, target: Target, params: SendMessageParams, *, caller: str, peer: str, stream: bool
    ) -> Accepted:
        """Record a message and set its task going. A message that this caller has sent before gives the task that it
        went to then, whatever else it says now (`protocol.md` 3).

        Raises `InvalidParams`, `TaskNotFound`, `UnsupportedOperation`, `ResourceExhausted`, `Stopping`,
        `StoreUnavailable`, `StoreRefused`; nothing is recorded then.
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
        skill = _chosen_skill(target, params, engine.limits)
        executor = engine.host.executors[skill.executor].value
        if engine.stopping:
            raise Stopping
        attachments = await keep_attachments(params.message, engine.limits, engine.state_dir)
        if target.id in engine.closed:
            raise UnsupportedOperation("This agent is being removed")
        context_id = params.context_id or new_id()
        self._check_room(target.id, context_id)
        task_id, message_id = new_id(), params.message_id or new_id()
        ticket = Ticket(target.id, context_id)
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
        message = client_message(params.message, message_id, context_id, task_id)
        engine.live[task_id] = task

        def recorded() -> None:
            if not task.row.hidden:
                task.emit_task()
                engine.on_state(task)
            if task.canceling is None:
                self._starter.schedule(task, target, message, attachments, has_slot=has_slot, gated=gated)

        try:
            other = await task.create(
                MessageRow(0, message_id, dumps(message), caller if params.message_id else None),
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

    # a task that goes on

    async def _continue(self, target: Target, params: SendMessageParams, *, caller: str, stream: bool) -> Accepted:
        engine = self._engine
        await self._interrupted(target, params)
        attachments = await keep_attachments(params.message, engine.limits, engine.state_dir)
        task = await self._interrupted(target, params)
        # up to the commit nobody else acts
        if stream:
            engine.check_readers(task)
        row, files = task.row, [file.sha256 for file in attachments]
        message_id = params.message_id or new_id()
        message = client_message(params.message, message_id, row.context_id, row.id)
        given = MessageRow(0, message_id, dumps(message), caller if params.message_id else None)
        if (options := question_of(row).get("options")) and chosen(params.message["parts"], options) is None:
            return await self._ask_again(task, given, files, stream=stream)
        asking = task.run.asking if task.run is not None and task.run.asking.active else None
        ticket, has_slot = self._starter.line_up(task)

        def recorded() -> None:
            if task.canceling is not None:
                engine.scheduler.leave(ticket)
            elif asking is None:
                self._starter.schedule(task, target, message, attachments, has_slot=has_slot, gated=False, resumed=True)
            elif has_slot:
                asking.answer(message)
            else:
                asking.answer_in_turn(message)

        try:
            other = await task.proceed(given, files, queued=not has_slot)
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

    async def _ask_again(self, task: LiveTask, given: MessageRow, files: list[str], *, stream: bool) -> Accepted:
        """What names none of the options is no answer: it is recorded, and the question asked once more."""
        task.continuing = True
        try:
            other = await task.proceed(given, files, asked=asked_parts(task.row))
        finally:
            task.continuing = False
            if not task.waits_for_credential:
                task.audience.finish(interrupted=True)
            task.audience.wake()
        if other is not None:
            return await self._repeat(other, stream=stream)
        return Accepted(task, task.subscribe(last_event_id=None, until_interrupted=True) if stream else None)

    async def _interrupted(self, target: Target, params: SendMessageParams) -> LiveTask:
        """The task that the message is for, where it waits for one."""
        engine = self._engine
        task = await engine.load(params.task_id or "")
        while task is not None and (ending := task.canceling or (task.finishing if task.state.interrupted else None)):
            await asyncio.wait([ending])  # its question is recorded, but its run has not left the line yet
            task = await engine.load(task.id)
        if task is None or task.row.inbound_id != target.id:
            raise TaskNotFound
        if params.context_id not in {None, task.row.context_id}:
            others = attachment_violations(params.message, engine.limits)
            raise InvalidParams([("message.contextId", "is not the context of this task"), *others])
        if task.state.terminal:
            raise UnsupportedOperation("The task has ended: send a message without taskId to begin another")
        if task.state.interrupted and (task.continuing or self._expired(task)):
            raise UnsupportedOperation(TOO_LATE)
        if not task.settled_now:
            running = "The task is still running: it takes no message now"
            raise UnsupportedOperation(TOO_LATE if _was_answered(task) else running)
        if task.row.executor not in engine.host.executors:
            raise UnsupportedOperation(f"The task's executor {task.row.executor!r} is not there any more")
        if engine.stopping:
            raise Stopping
        if target.id in engine.closed:
            raise UnsupportedOperation("This agent is being removed")
        self._check_room(target.id, task.row.context_id)
        return task

    @staticmethod
    def _expired(task: LiveTask) -> bool:
        """Nobody answered in time. A run that waits sees to that itself."""
        deadline = deadline_of(question_of(task.row)) if task.run is None else None
        return deadline is not None and deadline <= now_ms()

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


def _was_answered(task: LiveTask) -> bool:
    """What the task had asked."""
    return len(task.history) > 1 and orjson.loads(task.history[-1])["role"] == "ROLE_USER"


def _chosen_skill(target: Target, params: SendMessageParams, limits: LimitsConfig) -> Skill:
    """`metadata.skill`, else `chat`, else the first one. Raises `InvalidParams`."""
    wanted = params.skill
    if wanted is None:
        return target.skills.get(DEFAULT_SKILL) or next(iter(target.skills.values()))
    skill = target.skills.get(wanted) if isinstance(wanted, str) else None
    if skill is None:
        raise InvalidParams(message_violations(target, limits, params.message))
    return skill


def message_violations(target: Target, limits: LimitsConfig, message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is wrong with a message beyond its form: pairs of a JSON path and a sentence about it."""
    violations = attachment_violations(message, limits)
    wanted = message.get("metadata", {}).get("skill")
    if wanted is not None and not message.get("taskId") and not (isinstance(wanted, str) and wanted in target.skills):
        declared = ", ".join(target.skills)
        violations.append(("message.metadata.skill", f"is not a skill of this agent; it declares: {declared}"))
    return violations
