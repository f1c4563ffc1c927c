"""Questions with a deadline that no run waits with: past it, the task goes on without an answer.

A run that waits looks at its deadline itself (`asking`). The moment stands in the question, so that it is the same
after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from a2ad.engine.questions import deadline_of, question_of
from a2ad.errors import StoreUnavailable
from a2ad.model import now_ms
from a2ad.store import TaskRow

if TYPE_CHECKING:
    from a2ad.engine.core import Directory, Engine
    from a2ad.engine.starter import Starter

log = structlog.get_logger()


class Expiry:
    def __init__(self, engine: Engine, starter: Starter) -> None:
        self._engine = engine
        self._starter = starter
        self._directory: Directory
        #: by task, in milliseconds since 1970
        self._due: dict[str, int] = {}

    def start(self, directory: Directory) -> None:
        self._directory = directory

    def note(self, row: TaskRow) -> None:
        """The task waits for an answer, and has no run."""
        deadline = deadline_of(question_of(row))
        if deadline is not None:
            self._due[row.id] = deadline

    def look(self) -> None:
        """Let those go on whose time is up."""
        if not self._due:
            return
        now = now_ms()
        for task_id, deadline in list(self._due.items()):
            if deadline <= now:
                del self._due[task_id]
                self._engine.spawn(self._expire(task_id, deadline))

    async def _expire(self, task_id: str, deadline: int) -> None:
        engine = self._engine
        try:
            task = await engine.load(task_id)
        except StoreUnavailable:
            self._due[task_id] = deadline
            return
        if task is None or not task.state.interrupted or deadline_of(question_of(task.row)) != deadline:
            return
        if task.run or task.continuing or task.canceling or task.finishing or task.ledger.saving:
            self._due[task_id] = deadline  # an answer is on its way, or its end: then once more
            return
        target = self._directory.target(task.row.inbound_id)
        if target is not None and target.id not in engine.closed and not engine.stopping:
            log.info("task.unanswered", task_id=task_id)
            self._starter.go_on_unanswered(task, target)
