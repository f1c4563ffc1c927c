"""`TaskRequest.ask`: a run that waits for an answer gives its slot back, and takes one again to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from a2ad.engine.questions import question_parts
from a2ad.executor import Text
from a2ad.model import TaskState, now_ms

if TYPE_CHECKING:
    from a2ad.engine.core import Engine
    from a2ad.engine.run import Run

#: how often a deadline that is past looks whether the answer on its way has arrived, in seconds
RECHECK_SECONDS = 0.05


class Asking:
    """The question of one run. It is asked, and then answered, or given up by the run itself."""

    __slots__ = ("_answer", "_engine", "_held_run", "_job", "since")

    def __init__(self, engine: Engine, run: Run) -> None:
        self._engine = engine
        # not to keep each other: what has ended is to leave memory at once, not when the collector comes by
        self._held_run = ref(run)
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._job: asyncio.Task[None] | None = None
        #: since when it waits, by `loop.time()`
        self.since = 0.0

    @property
    def _run(self) -> Run:
        run = self._held_run()
        if run is None:
            raise RuntimeError("the task does not run any more")
        return run

    @property
    def active(self) -> bool:
        """The run waits, and holds no slot."""
        return self._answer is not None

    async def ask(
        self,
        question: Text,
        *,
        state: TaskState,
        options: Sequence[Mapping[str, Any]] | None,
        deadline: float | None,
        tool: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        """Interrupt the task, and wait for the next message to it; `TimeoutError` past the deadline (seconds).

        Where there are options, it names one of them: `intake` takes no other for an answer.
        """
        if deadline is not None and not deadline > 0:
            raise ValueError("a deadline is a number of seconds above 0")
        if not all(map(_is_option, options or ())):
            raise ValueError("options must be dicts with the texts id and name, and perhaps kind")
        moment, until = None, None
        if deadline is not None:
            moment, until = now_ms() + round(deadline * 1000), asyncio.get_running_loop().time() + deadline
        return await self._ask(question_parts(question, options, moment, tool), TaskState(state), until)

    async def _ask(self, parts: Sequence[dict[str, Any]], state: TaskState, until: float | None) -> dict[str, Any]:
        run, task = self._run, self._run.task
        if run.stopping or task.run is not run or task.finishing or task.state.terminal:
            raise RuntimeError("the task does not run any more")
        if self.active:
            raise RuntimeError("the task is asking already")
        if not state.interrupted:
            raise ValueError("a question makes a task INPUT_REQUIRED or AUTH_REQUIRED")
        loop = asyncio.get_running_loop()
        answer = self._answer = loop.create_future()
        self.since = loop.time()
        try:
            try:
                await task.settle(state, parts)
                self._leave_line()
                if await self._answered(answer, until):
                    message: dict[str, Any] = answer.result()
                    return message
            except asyncio.CancelledError:
                # the run is being stopped; or the executor has given up waiting, and works on
                if not run.stopping and not answer.cancelled():
                    await self._work_on(answer)
                raise
            await self._work_on(answer)
            if answer.done() and not answer.cancelled():
                late: dict[str, Any] = answer.result()
                return late  # it came while the run went back to work, and its sender was told that it is taken
            raise TimeoutError("nobody answered in time")
        finally:
            self._answer = None
            run.deadline += loop.time() - self.since

    async def _work_on(self, answer: asyncio.Future[dict[str, Any]]) -> None:
        """Wait until the run may go on without an answer; who gives up waiting for that too waits all the same."""
        job = self._job = self._engine.spawn(self._back_to_work(answer))
        given_up = False
        while not job.done():
            try:
                await asyncio.wait([job])
            except asyncio.CancelledError:
                if self._run.stopping:
                    job.cancel()
                    raise
                given_up = True
        if given_up:
            raise asyncio.CancelledError
        job.result()

    async def _back_to_work(self, answer: asyncio.Future[dict[str, Any]]) -> None:
        task = self._run.task
        while task.continuing or task.ledger.saving is not None:
            await task.ledger.saved()
            await asyncio.sleep(0)
        if task.state.interrupted:
            self._leave_line()
            await self._go_on()
        elif not task.state.terminal:
            await asyncio.wait([answer])  # there is one, and it is on its way, or waits for a slot

    async def _answered(self, answer: asyncio.Future[dict[str, Any]], until: float | None) -> bool:
        task, loop = self._run.task, asyncio.get_running_loop()
        while True:
            if not task.state.interrupted:
                until = None  # the answer is recorded: it waits for a slot alone
            timeout = None if until is None else until - loop.time()
            if timeout is not None and timeout <= 0:
                if not task.continuing:
                    return answer.done()
                timeout = RECHECK_SECONDS  # somebody's answer is on its way into the store
            done, _ = await asyncio.wait([answer], timeout=timeout)
            if done:
                return True

    def answer(self, message: dict[str, Any]) -> None:
        """The message that it waits for; the run has a slot again."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(message)
            self._run.lending.resume(self._run)

    def close(self) -> None:
        """The run has ended: whoever still waits in `ask` waits in vain."""
        if self._job is not None:
            self._job.cancel()
        if self._answer is not None:
            self._answer.cancel()

    def answer_in_turn(self, message: dict[str, Any]) -> None:
        """As `answer`, as soon as there is a slot for the run."""
        ticket = self._run.task.ticket
        assert ticket is not None

        async def go_on() -> None:
            await self._run.insist(self._run.task.begin)
            self.answer(message)

        ticket.start = lambda: self._engine.guard(self._run.task, go_on)
        self._engine.scheduler.set_ready(ticket)

    def _leave_line(self) -> None:
        ticket = self._run.task.ticket
        if ticket is not None:
            self._engine.scheduler.leave(ticket)
            self._run.lending.let_go()

    async def _go_on(self) -> None:
        """Without an answer: the task works on, as soon as it has a slot again."""
        task, ticket = self._run.task, self._run.task.ticket
        assert ticket is not None
        turn = asyncio.get_running_loop().create_future()

        def start() -> None:
            if not turn.done():
                turn.set_result(None)

        ticket.start = start
        task.continuing = True
        try:
            if not self._engine.scheduler.enter(ticket, front=True):
                self._engine.scheduler.set_ready(ticket)
                await turn
            self._run.lending.resume(self._run)
            await self._run.insist(lambda: task.transition(TaskState.WORKING))
        finally:
            task.continuing = False


def _is_option(option: object) -> bool:
    return isinstance(option, Mapping) and all(isinstance(option.get(name), str) for name in ("id", "name"))
