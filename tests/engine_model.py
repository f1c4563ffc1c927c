"""What a user of the engine may rely on after each step: a small model of the tasks, and the comparison with it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from a2ad import TaskState
from a2ad.engine.artifacts import stored_view
from a2ad.errors import Stopping, StoreUnavailable
from a2ad.model import STATE_NUMBERS
from tests.engine_client import Client
from tests.engine_lab import INBOUNDS, Lab, Stand

RUNS, PER_INBOUND, QUEUED = 3, 2, 4
WORKING, SUBMITTED = TaskState.WORKING, TaskState.SUBMITTED
TEXT = ["text", "result", "a "]
MORE = ["text", "result", "b "]
INPUT, AUTH = TaskState.INPUT_REQUIRED.value, TaskState.AUTH_REQUIRED.value
KINDS: dict[str, list[Any]] = {
    "complete": [TEXT, ["text", "other", "x"], MORE],
    "nothing": [],
    "gate": [TEXT, ["gate"], MORE],
    "notes": [["note", "1"], TEXT, ["note", "2"], ["gate"], ["note", "3"], MORE],
    "replace": [TEXT, ["text", "other", "x"], ["gate"], ["replace", "result", "y"], MORE],
    "ask": [TEXT, ["ask", INPUT], MORE],
    "ask-auth": [["ask", AUTH], ["note", "1"], TEXT],
    "ask-gate": [["note", "1"], ["ask", INPUT], TEXT, ["gate"], MORE],
    "input": [TEXT, ["input"]],
    "auth": [["auth"]],
    "fail": [TEXT, ["fail"]],
    "reject": [["reject"]],
    "stubborn": [TEXT, ["stubborn"], MORE],
    "closing": [TEXT, ["status", TaskState.COMPLETED.value, "bye"], MORE, ["note", "dropped"]],
    "closing-failed": [["status", TaskState.FAILED.value, "bye"]],
}
ENDS = {
    "input": TaskState.INPUT_REQUIRED,
    "auth": TaskState.AUTH_REQUIRED,
    "fail": TaskState.FAILED,
    "reject": TaskState.REJECTED,
}
#: what must not be found in the log: the store was asked for something that cannot be
FAULTS = {"store.operation_failed", "store.read_failed", "request.failed"}


def outcome(steps: list[Any]) -> TaskState:
    """Where a run of these steps ends."""
    for step in steps:
        if step[0] == "status":
            return TaskState(step[1])
        if step[0] in ENDS:
            return ENDS[step[0]]
    return TaskState.COMPLETED


def question(steps: list[Any]) -> TaskState:
    return next(TaskState(step[1]) for step in steps if step[0] == "ask")


@dataclass(eq=False)
class Known:
    """A task that was answered."""

    id: str
    inbound: str
    context: str
    skill: str
    arrival: int
    messages: list[str]
    #: a message of its client that the executor has not been given yet
    pending: str | None
    state: TaskState = SUBMITTED
    #: how it ended from outside: canceled, refused by the policy, or stopped with the daemon
    forced: TaskState | None = None
    frozen: Any = None

    @property
    def over(self) -> bool:
        return self.frozen is not None


@dataclass(eq=False)
class Call:
    """A SendMessage that blocks, or has blocked."""

    task: Known
    work: asyncio.Future[Any]


@dataclass
class Model:
    lab: Lab
    tasks: dict[str, Known] = field(default_factory=dict)
    scripts: dict[str, list[Any]] = field(default_factory=dict)
    #: messages that may be given to the executor once more
    again: Counter[tuple[str, str]] = field(default_factory=Counter)
    clients: list[Client] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    #: every numbered frame that anybody has seen: task → number → result
    frames: dict[str, dict[int, bytes]] = field(default_factory=dict)
    #: the numbers of those that are status frames and have to be there again
    statuses: dict[str, set[int]] = field(default_factory=dict)
    #: the highest number of a task that an earlier process has shown
    floor: dict[str, int] = field(default_factory=dict)
    logged: list[Any] = field(default_factory=list)

    # what is expected

    def predict(self, task: Known) -> TaskState:
        if task.over:
            return task.state
        if task.forced is not None:
            return task.forced
        desk = self.lab.desk
        if task.pending is not None and (task.pending, task.id, desk.process) in desk.given:
            task.pending = None
        if task.pending is not None:
            begun = any(stand.task_id == task.id for stand in desk.stands)
            return WORKING if begun or len(task.messages) > 1 else SUBMITTED
        stand = desk.here(task.id)
        if stand is None:
            return task.state
        steps = self.scripts[stand.message_id]
        return {"ended": outcome(steps), "asking": question(steps) if stand.at == "asking" else None}.get(
            stand.at
        ) or WORKING

    @property
    def active(self) -> list[Stand]:
        """The runs that have a slot and wait to be released."""
        return [stand for stand in self.lab.desk.waiting() if not self.tasks[stand.task_id].over]

    @property
    def waiting(self) -> list[Known]:
        return [task for task in self.tasks.values() if task.pending is not None and not task.over]

    def would_run(self, inbound: str, context: str) -> bool:
        active = self.active
        key = (inbound, context)
        busy = any(stand.context == key for stand in active) or any(
            (task.inbound, task.context) == key for task in self.waiting
        )
        return not busy and len(active) < RUNS and sum(stand.context[0] == inbound for stand in active) < PER_INBOUND

    # the comparison

    async def check(self) -> None:
        await self.lab.calm()
        for client in self.clients:
            await client.drain()
        rows = self.rows()
        for task in self.tasks.values():
            task.state = self.predict(task)
            assert task.id in rows, "a task that was answered is not in the store"
            assert rows[task.id][0] is task.state, (task, rows[task.id], self.lab.desk.here(task.id))
            if task.state.terminal and not task.over:
                await self._freeze(task)
        assert set(rows) == set(self.tasks), "a task is recorded that nobody was told of"
        self._check_rows()
        await self._check_views()
        self._check_runs()
        self._check_given()
        for client in self.clients:
            await self._check_client(client)
        self.clients = [client for client in self.clients if not client.ended]
        self._check_calls()
        await self._check_counts()
        assert not [entry for entry in self.logged if entry["event"] in FAULTS], self.logged

    def _query(self, sql: str) -> list[Any]:
        connection = sqlite3.connect(self.lab.folder / "a2ad.db")
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def rows(self) -> dict[str, Any]:
        """What is durable: task → (state, queued, updated at)."""
        found = self._query("SELECT id, state, queued, updated_at FROM tasks")
        return {task_id: (STATE_NUMBERS[state], bool(queued), at) for task_id, state, queued, at in found}

    def content(self) -> list[Any]:
        """All that is recorded of tasks."""
        tables = ("tasks", "messages", "artifacts", "attachments", "status_events")
        return [self._query(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]

    async def _view(self, task: Known) -> Any:
        return json.loads((await self.lab.engine.view(task.id, task.inbound)).encode())

    async def _freeze(self, task: Known) -> None:
        stored = await self.lab.store.real.task(task.id)
        assert stored is not None
        task.frozen = json.loads(stored_view(stored).encode())
        assert await self._view(task) == task.frozen, "what is told is not what is stored"

    def _check_rows(self) -> None:
        """What has ended changes no more."""
        ended = {task.id: task for task in self.tasks.values() if task.over}
        artifacts: dict[str, set[str]] = {task_id: set() for task_id in ended}
        for task_id, artifact_id in self._query("SELECT task_id, artifact_id FROM artifacts"):
            if task_id in ended:
                artifacts[task_id].add(artifact_id)
        for task_id, task in ended.items():
            assert artifacts[task_id] == {held["artifactId"] for held in task.frozen.get("artifacts", ())}

    async def _check_views(self) -> None:
        for task in self.tasks.values():
            view = await self._view(task)
            assert view["status"]["state"] == task.state.value
            mine = [message["messageId"] for message in view["history"] if message["role"] == "ROLE_USER"]
            assert mine == task.messages
            if task.over:
                assert view == task.frozen, "a task changed after its end"
                assert json.loads(await self.lab.engine.encoded(task.id, task.inbound, None)) == task.frozen

    def _check_runs(self) -> None:
        active = self.active
        contexts = Counter(stand.context for stand in active)
        assert all(count == 1 for count in contexts.values()), "two tasks of a context run at once"
        assert len(active) <= RUNS
        assert all(sum(key[0] == inbound for key in contexts) <= PER_INBOUND for inbound in INBOUNDS)
        for stand in self.lab.desk.waiting():
            assert not self.tasks[stand.task_id].over or stand.at == "stubborn", "its task has ended, and it runs"
            held = [other for other in self.lab.desk.waiting() if other.task_id == stand.task_id]
            assert held == [stand] or stand.at == "stubborn", "a task has two runs"
        for task in self.waiting:
            others = [other for other in self.waiting if other.context == task.context and other is not task]
            blocked = (task.inbound, task.context) in contexts or any(o.inbound == task.inbound for o in others)
            full = len(active) == RUNS or sum(key[0] == task.inbound for key in contexts) == PER_INBOUND
            assert blocked or full, "it waits for nothing"

    def _check_given(self) -> None:
        given = Counter((message, task_id) for message, task_id, _ in self.lab.desk.given)
        for key, count in given.items():
            assert count <= 1 + self.again[key], ("a message was given to the executor twice", self.tasks[key[1]])
        first: dict[tuple[str, str], int] = {}
        begun = set()
        for stand in self.lab.desk.stands:
            task = self.tasks.get(stand.task_id)
            if task is None or task.id in begun:
                continue
            begun.add(task.id)
            assert first.get(stand.context, -1) <= task.arrival, "a context's tasks ran out of their order"
            first[stand.context] = task.arrival

    async def _check_client(self, client: Client) -> None:
        task = self.tasks[client.task_id]
        known = self.frames.setdefault(task.id, {})
        for number, result in client.numbered():
            assert known.setdefault(number, result) == result, "two frames have one number"
            if result.startswith(b'{"statusUpdate"'):
                self.statuses.setdefault(task.id, set()).add(number)
        live = client.live_numbers()
        if live:
            assert live == list(range(live[0], live[0] + len(live))), "a frame is missing"
            assert live[0] > self.floor.get(task.id, 0), "a number came again after a restart"
        failure = client.reader.failure
        if not client.ended:
            view = await self._view(task)
            assert client.task["status"] == view["status"]
            assert client.task.get("artifacts") == view.get("artifacts")
            assert not task.over
            assert not client.reader.until_interrupted or not task.state.interrupted or task.state.value == AUTH
        elif failure is None:
            (kind, last), state = next(iter(client.frames[-1][1].items())), client.task["status"]["state"]
            assert kind == "task"
            assert TaskState(state).terminal or (TaskState(state).interrupted and client.reader.until_interrupted)
            if len(client.frames) > 1 and "statusUpdate" in client.frames[-2][1]:
                assert client.frames[-2][1]["statusUpdate"]["status"] == last["status"]
            if TaskState(state).terminal:
                assert last == task.frozen
        else:
            assert isinstance(failure, Stopping)

    def _check_calls(self) -> None:
        for call in list(self.calls):
            state = call.task.state
            settled = state.terminal or state.interrupted
            assert call.work.done() or not settled, "somebody waits for a task that has settled"
            if call.work.done():
                self.calls.remove(call)
                error = call.work.exception()
                if error is None:
                    told = TaskState(call.work.result()["status"]["state"])
                    assert told.terminal or told.interrupted or call.task.pending is not None
                    assert not told.terminal or call.work.result() == call.task.frozen
                else:
                    assert isinstance(error, (Stopping, StoreUnavailable)), repr(error)

    async def _check_counts(self) -> None:
        expected = Counter((task.inbound, task.state) for task in self.tasks.values())
        assert {key: n for key, n in (await self.lab.engine.store.counts()).items() if n} == dict(expected)

    # the end of a process

    async def end_orderly(self, running: list[Stand], *, waited_for: bool) -> None:
        """The daemon has stopped; `running` ran then, and ended in time or not."""
        await self.lab.calm()
        for task in (self.tasks[stand.task_id] for stand in running):
            if waited_for:
                task.state = self.predict(task)
            else:
                self._left_running(task)
        for client in self.clients:
            await client.drain()
            assert client.ended, "a stream is left open"
            assert client.reader.failure is None or isinstance(client.reader.failure, Stopping)
        for call in self.calls:
            assert call.work.done(), "somebody is left waiting"
            assert call.work.exception() is None or isinstance(call.work.exception(), Stopping)
        self._forget()

    async def end_by_crash(self, touched: Known | None) -> None:
        """The process dies now, while something that was done to `touched` may be on its way into the store."""
        rows = self.rows()
        for client in self.clients:
            await client.drain()
            self.frames.setdefault(client.task_id, {}).update(client.numbered())
            durable = rows[client.task_id][0]
            assert client.task["status"]["state"] == durable.value, "a state was told before it was durable"
        for stand in self.active:
            if touched is None or stand.task_id != touched.id:
                self._left_running(self.tasks[stand.task_id])
        self._forget()
        self.statuses.clear()

    def _forget(self) -> None:
        self.floor = {task_id: max(known, default=0) for task_id, known in self.frames.items()}
        self.clients, self.calls = [], []

    def _left_running(self, task: Known) -> None:
        """It was WORKING when the process ended."""
        if task.skill == "resume":
            task.pending = task.messages[-1]
            self.again[task.messages[-1], task.id] += 1
        else:
            task.forced = TaskState.FAILED

    def after_crash(self, inbound: str, message_id: str, touched: Known | None, *, committed: bool) -> None:
        """What was on its way is recorded in whole or not at all; what it means follows from the record."""
        rows = self.rows()
        for task_id in set(rows) - set(self.tasks):
            assert committed
            (context,) = self._query(f"SELECT context_id FROM tasks WHERE id = '{task_id}'")[0]
            touched = Known(task_id, inbound, context, "chat", len(self.tasks), [message_id], message_id)
            self.tasks[task_id] = touched
        if touched is None:
            return
        for task in self.waiting:
            # the place that `touched` gave up was another's: its run has begun, as far as the record goes
            if committed and task.skill == "chat" and rows[task.id][:2] == (WORKING, False):
                task.pending = None
                self._left_running(task)
        sql = f"SELECT message_id FROM messages WHERE task_id = '{touched.id}' AND caller IS NOT NULL ORDER BY seq"
        messages = [found for (found,) in self._query(sql)]
        assert messages == touched.messages or (committed and messages == [*touched.messages, message_id])
        touched.messages = messages
        state, queued, _ = rows[touched.id]
        touched.pending = None
        if state.terminal:
            touched.forced = state
        elif state is SUBMITTED or queued:
            touched.pending = messages[-1]
        elif state is WORKING:
            self._left_running(touched)
        else:
            touched.state = state

    def check_replay(self, client: Client, last: int | None) -> None:
        """What a subscriber gets first."""
        (number, first), *_ = client.batches[0]
        assert list(first) == ["task"]
        replayed = dict(client.replayed)
        if last is None:
            assert not replayed
            return
        assert number <= last
        assert all(list(result) == ["statusUpdate"] for result in replayed.values()), "a chunk came twice"
        assert sorted(replayed) == list(replayed)
        assert all(number > last for number in replayed)
        due = {number for number in self.statuses.get(client.task_id, ()) if number > last}
        assert due <= set(replayed), "a status frame is missing"
