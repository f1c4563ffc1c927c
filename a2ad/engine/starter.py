"""From a recorded task to its run: at once, after the policy hooks, or when its turn comes; after a restart, again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from a2ad.engine.attachments import kept_attachments
from a2ad.engine.run import Run
from a2ad.engine.schedule import Ticket, not_yet
from a2ad.engine.task import LiveTask
from a2ad.engine.workdirs import context_dir
from a2ad.executor import Attachment, Preset, Skill, TaskRequest, prompt_text
from a2ad.hookspecs import Decision
from a2ad.model import TaskState
from a2ad.store import TaskQuery, TaskRow

if TYPE_CHECKING:
    from a2ad.engine.core import Directory, Engine

#: tasks that are read at a time at the start
WAITING_PAGE = 500


class Target(Protocol):
    """What the engine has to know of an inbound."""

    @property
    def id(self) -> str: ...
    @property
    def preset(self) -> Preset: ...
    @property
    def skills(self) -> Mapping[str, Skill]: ...


class Starter:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def schedule(
        self,
        task: LiveTask,
        target: Target,
        message: dict[str, Any],
        attachments: tuple[Attachment, ...],
        *,
        has_slot: bool,
        gated: bool,
        resumed: bool = False,
        unanswered: bool = False,
    ) -> None:
        """Let its run begin: now, after the policy hooks, or when its turn comes."""
        ticket = task.ticket
        assert ticket is not None
        start = self._start_of(task, target, message, attachments, resumed=resumed, unanswered=unanswered)
        if has_slot and not gated:
            # not queued: the message was recorded together with WORKING, and the run need not record that first
            start(begin=task.row.queued or unanswered)
            return
        ticket.start = partial(start, begin=True)
        if gated:
            self._engine.guard(task, partial(self._decide, task, message, has_slot=has_slot))
        else:
            self._engine.scheduler.set_ready(ticket)

    def _start_of(
        self,
        task: LiveTask,
        target: Target,
        message: dict[str, Any],
        attachments: tuple[Attachment, ...],
        *,
        resumed: bool,
        unanswered: bool,
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
            unanswered=unanswered,
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
            ticket.start = not_yet
            engine.release(task)
        elif engine.stopping:
            return
        elif has_slot:
            ticket.go()
        else:
            engine.scheduler.set_ready(ticket)

    def line_up(self, task: LiveTask) -> tuple[Ticket, bool]:
        """Have a task that goes on take its place again, in front; whether it has a run slot now. It is `continuing`
        from here on, until its run has begun.
        """
        row = task.row
        task.continuing = True
        ticket = task.ticket = task.ticket or Ticket(row.inbound_id, row.context_id)
        ticket.ready = False
        return ticket, self._engine.scheduler.enter(ticket, front=True)

    def go_on_unanswered(self, task: LiveTask, target: Target) -> None:
        """Let a task that waits for an answer, without a run, go on without one."""
        row = task.row
        if row.executor not in self._engine.host.executors:
            return  # as for an answer: it may be there again after the next start
        _, has_slot = self.line_up(task)
        message = {"role": "ROLE_USER", "contextId": row.context_id, "taskId": row.id, "parts": []}
        self.schedule(task, target, message, (), has_slot=has_slot, gated=False, resumed=True, unanswered=True)

    # after a restart

    def runs_again(self, task: LiveTask, target: Target) -> bool:
        """Whether a task that the last process left unfinished may run: no run had its message, or it can resume."""
        registered = self._engine.host.executors.get(task.row.executor)
        if registered is None or task.row.skill not in target.skills or not task.history or task.state.interrupted:
            return False
        new = task.row.queued or task.state is TaskState.SUBMITTED
        return new or registered.value.goes_on(target.preset, waits=False)

    async def lost_questions(self, directory: Directory) -> list[TaskRow]:
        """Tasks that wait for an answer which their executor could not take any more."""
        lost = []
        for (inbound_id, state), number in (await self._engine.store.counts()).items():
            target = directory.target(inbound_id)
            if number and state.interrupted and target is not None:
                for row in await self._waiting(inbound_id, state):
                    if self._takes(row, target):
                        self._engine.expiry.note(row)
                    else:
                        lost.append(row)
        return lost

    async def _waiting(self, inbound_id: str, state: TaskState) -> list[TaskRow]:
        query = TaskQuery(inbound_id, state=state, limit=WAITING_PAGE, history="none")
        rows: list[TaskRow] = []
        while True:
            page = await self._engine.store.tasks(query)
            rows += [stored.row for stored in page.tasks]
            if not page.more:
                return rows
            query = replace(query, cursor=(rows[-1].updated_at, rows[-1].id))

    def _takes(self, row: TaskRow, target: Target) -> bool:
        registered = self._engine.host.executors.get(row.executor)
        return registered is None or registered.value.goes_on(target.preset, waits=True)

    def recover(self, task: LiveTask, target: Target) -> None:
        """Let it run: it keeps its place in the order of arrival. Raises where its message cannot be read."""
        row, engine = task.row, self._engine
        message = next(m for m in map(orjson.loads, reversed(task.history)) if m["role"] == "ROLE_USER")
        task.ticket = Ticket(row.inbound_id, row.context_id)
        engine.scheduler.enter(task.ticket)
        submitted = task.state is TaskState.SUBMITTED
        gated = submitted and engine.host.has_gates
        engine.guard(task, partial(self._recover, task, target, message, gated=gated))

    async def _recover(self, task: LiveTask, target: Target, message: dict[str, Any], *, gated: bool) -> None:
        engine, ticket = self._engine, task.ticket
        assert ticket is not None
        attachments = await kept_attachments(message, engine.state_dir)
        resumed = task.state is TaskState.WORKING
        has_slot = ticket.place is ticket.place.RUNNING
        self.schedule(task, target, message, attachments, has_slot=has_slot, gated=gated, resumed=resumed)
