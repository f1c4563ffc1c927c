"""What the engine's state machine does each of its steps with."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import structlog
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

import a2ad.model
from a2ad import TaskState
from a2ad.config import LimitsConfig
from a2ad.engine import Accepted
from a2ad.plugins import PluginHost
from a2ad.schemas import a2a
from tests.engine_client import Client
from tests.engine_lab import Clock, ClockLoop, Desk, Lab, make_host, message
from tests.engine_model import KINDS, PER_INBOUND, QUEUED, RUNS, Call, Known, Model

LIMITS = LimitsConfig(runs=RUNS, runs_per_inbound=PER_INBOUND, queued=QUEUED)
CALLER = "anonymous"


@cache
def _host(*, gated: bool) -> PluginHost:
    return make_host(Path(tempfile.gettempdir()), gated=gated)


class EngineDriver(RuleBasedStateMachine):
    """A lab, its model, and what a client, an operator and a clock can do."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="a2ad-machine-"))
        self.loop = ClockLoop()
        self.faults: list[Any] = []
        self.loop.set_exception_handler(self.fault)
        self.clock = mock.patch.object(a2ad.model, "time", Clock())
        self.clock.start()
        self.logs = structlog.testing.capture_logs()
        self.logged = self.logs.__enter__()
        self.count = 0

    @initialize(gated=st.booleans())
    def begin(self, *, gated: bool) -> None:
        self.gated = gated
        self.lab = Lab(self.folder, _host(gated=gated), LIMITS)
        self.model = Model(self.lab, logged=self.logged)
        self.run(self.lab.start())

    def teardown(self) -> None:
        try:
            if hasattr(self, "lab"):
                self.run(self.lab.crash())
            gc.collect()
            assert not self.faults, self.faults
        finally:
            self.loop.close()
            self.logs.__exit__(None, None, None)
            self.clock.stop()
            shutil.rmtree(self.folder)

    def fault(self, loop: Any, context: dict[str, Any]) -> None:
        """What nobody heard of, other than from a process that was killed."""
        if context.get("task", context.get("future")) not in self.lab.killed:
            self.faults.append(context)

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        if hasattr(self, "lab"):
            self.run(self.model.check())

    # helpers

    def new_id(self) -> str:
        self.count += 1
        return f"m{self.count}"

    def pick(self, choice: list[Any], index: int) -> Any:
        return choice[index % len(choice)] if choice else None

    def script(self, kind: str, **fields: Any) -> a2a.SendMessageParams:
        fields.setdefault("messageId", self.new_id())
        self.model.scripts.setdefault(fields["messageId"], KINDS[kind])
        return message(KINDS[kind], **fields)

    async def deliver(self, inbound: str, params: a2a.SendMessageParams, mode: str = "immediate") -> Any:
        """As the endpoint does: the acceptance, and for one who waits the task."""
        engine = self.lab.engine
        stream = mode == "stream"
        return await engine.submit(self.lab.target(inbound), params, caller=CALLER, peer="::1", stream=stream)

    def take_in(self, accepted: Accepted, task: Known, mode: str) -> None:
        """Keep the stream, or wait for the task."""
        if accepted.reader is not None:
            new = not accepted.repeated and len(task.messages) == 1
            self.model.clients.append(Client(task.id, accepted.reader, snapshot=not new))
        if mode == "block":
            self.model.calls.append(Call(task, asyncio.ensure_future(self.settle(accepted), loop=self.loop)))

    @staticmethod
    async def settle(accepted: Accepted) -> Any:
        await accepted.task.settled()
        return json.loads(accepted.task.view().encode())

    def record(self, accepted: Accepted, inbound: str, params: a2a.SendMessageParams, *, denied: bool = False) -> Known:
        row = accepted.task.row
        assert row.id not in self.model.tasks
        task = Known(row.id, inbound, row.context_id, row.skill, len(self.model.tasks), [str(params.message_id)],
                     params.message_id)  # fmt: skip
        if denied:
            task.pending, task.forced = None, TaskState.REJECTED
        self.model.tasks[row.id] = task
        return task

    async def both(self, first: Any, second: Any, between: int) -> tuple[Any, Any]:
        """Two calls at about the same moment; what became of each."""
        one = asyncio.ensure_future(first)
        for _ in range(between):
            await asyncio.sleep(0)
        two = asyncio.ensure_future(second)
        await self.lab.until(lambda: one.done() and two.done())
        return tuple(await asyncio.gather(one, two, return_exceptions=True))  # type: ignore[return-value]

    def interrupted(self, index: int) -> Known | None:
        tasks = self.model.tasks.values()
        return self.pick([task for task in tasks if task.state.interrupted and task.pending is None], index)

    def accept_answer(self, task: Known, accepted: Accepted, params: a2a.SendMessageParams, mode: str) -> None:
        assert accepted.task.id == task.id
        assert not accepted.repeated
        task.messages.append(str(params.message_id))
        task.pending = params.message_id
        self.take_in(accepted, task, mode)

    async def cancel(self, task: Known) -> Any:
        found = await self.lab.engine.cancel(task.id, task.inbound)
        return json.loads(found.view().encode())

    def canceled(self, task: Known, answer: Any) -> None:
        assert answer["status"]["state"] == TaskState.CANCELED
        task.forced, task.pending = TaskState.CANCELED, None

    async def nothing(self, task: Known) -> None:
        pass

    async def release_run(self, task: Known) -> None:
        stand = self.lab.desk.here(task.id)
        if stand is not None:
            Desk.release(stand)
