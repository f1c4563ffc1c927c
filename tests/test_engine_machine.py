"""The engine as a state machine: whatever is sent, answered, canceled, read, stopped and killed, in any order."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from a2ad import TaskState
from a2ad.engine import Accepted
from a2ad.engine.pages import list_tasks
from a2ad.errors import (
    InvalidParams,
    ResourceExhausted,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
)
from a2ad.schemas import a2a
from tests.engine_client import Client
from tests.engine_driver import EngineDriver
from tests.engine_lab import INBOUNDS, Desk
from tests.engine_model import KINDS, QUEUED

settings.register_profile("machine", max_examples=120, stateful_step_count=30, derandomize=True)
settings.register_profile("machine-long", max_examples=3000, stateful_step_count=60)

kinds = st.sampled_from(sorted(KINDS))
#: which one of those that there are; always the same range, so that an example means the same whatever there is
some = st.integers(0, 1000)
passes = st.integers(0, 6)
inbounds = st.sampled_from(["in", "in", "other"])
contexts = st.sampled_from(["c1", "c1", "c2", ""])
modes = st.sampled_from(["block", "stream", "immediate"])


class EngineMachine(EngineDriver):
    # messages

    @rule(kind=kinds, inbound=inbounds, context=contexts, mode=modes,
          skill=st.sampled_from(["chat", "chat", "resume"]), forbidden=st.integers(0, 3))  # fmt: skip
    def send(self, kind: str, inbound: str, context: str, mode: str, skill: str, forbidden: int) -> None:
        fields = {"contextId": context} if context else {}
        params = self.script(kind, metadata={"skill": skill}, text="" if forbidden else "forbidden", **fields)
        full = len(self.model.waiting) >= QUEUED and not self.model.would_run(inbound, context)
        before = self.model.content()
        try:
            accepted = self.run(self.deliver(inbound, params, mode))
        except ResourceExhausted:
            assert full
            self.run(self.lab.calm())
            assert self.model.content() == before
            return
        assert not full
        assert not accepted.repeated
        task = self.record(accepted, inbound, params, denied=not forbidden and self.gated)
        self.take_in(accepted, task, mode)

    @rule(index=some, which=some, mode=modes, kind=kinds)
    def repeat(self, index: int, which: int, mode: str, kind: str) -> None:
        task = self.pick(list(self.model.tasks.values()), index)
        if task is None:
            return
        params = self.script(kind, messageId=self.pick(task.messages, which))
        before = self.model.content()

        accepted = self.run(self.deliver(task.inbound, params, mode))

        assert accepted.repeated
        assert accepted.task.id == task.id
        self.run(self.lab.calm())
        assert self.model.content() == before
        self.take_in(accepted, task, mode)

    @rule(kind=kinds, inbound=inbounds, context=contexts, between=passes, mode=modes)
    def send_two_copies_at_once(self, kind: str, inbound: str, context: str, between: int, mode: str) -> None:
        fields = {"contextId": context} if context else {}
        params = self.script(kind, **fields)
        answers = self.run(self.both(self.deliver(inbound, params), self.deliver(inbound, params, mode), between))
        accepted = [answer for answer in answers if isinstance(answer, Accepted)]
        assert all(isinstance(answer, (Accepted, ResourceExhausted)) for answer in answers), answers
        if accepted:
            original = [answer for answer in accepted if not answer.repeated]
            assert len(original) == 1
            assert len({answer.task.id for answer in accepted}) == 1
            task = self.record(original[0], inbound, params)
            if isinstance(answers[1], Accepted):
                self.take_in(answers[1], task, mode)

    @rule(index=some, kind=kinds, with_context=st.booleans(), mode=modes)
    def answer(self, index: int, kind: str, mode: str, *, with_context: bool) -> None:
        task = self.interrupted(index)
        if task is None:
            return
        fields = {"contextId": task.context} if with_context else {}
        params = self.script(kind, taskId=task.id, **fields)
        try:
            accepted = self.run(self.deliver(task.inbound, params, mode))
        except ResourceExhausted:
            assert len(self.model.waiting) >= QUEUED
            return
        self.accept_answer(task, accepted, params, mode)

    @rule(index=some, kinds=st.tuples(kinds, kinds), between=passes)
    def answer_twice_at_once(self, index: int, kinds: tuple[str, str], between: int) -> None:
        task = self.interrupted(index)
        if task is None:
            return
        both = [self.script(kind, taskId=task.id) for kind in kinds]
        answers = self.run(self.both(*(self.deliver(task.inbound, params) for params in both), between))
        for params, answer in zip(both, answers, strict=True):
            if isinstance(answer, Accepted):
                self.accept_answer(task, answer, params, "immediate")
            else:
                assert isinstance(answer, (UnsupportedOperation, ResourceExhausted)), answer

    @rule(index=some, kind=kinds, wrong=st.sampled_from(["context", "inbound", "nothing"]))
    def answer_what_takes_no_answer(self, index: int, kind: str, wrong: str) -> None:
        task = self.pick(list(self.model.tasks.values()), index)
        if task is None:
            return
        fields = {"contextId": "wrong"} if wrong == "context" else {}
        inbound = next(other for other in INBOUNDS if (other == task.inbound) != (wrong == "inbound"))
        if wrong == "nothing" and task.state.interrupted:
            return
        expected = {"context": InvalidParams, "inbound": TaskNotFound, "nothing": UnsupportedOperation}[wrong]
        before = self.model.content()
        try:
            self.run(self.deliver(inbound, self.script(kind, taskId=task.id, **fields)))
        except expected:
            self.run(self.lab.calm())
            assert self.model.content() == before
        else:
            raise AssertionError("it was taken")

    # runs

    @rule(index=some)
    def release(self, index: int) -> None:
        stand = self.pick(self.lab.desk.waiting(), index)
        if stand is not None:
            Desk.release(stand)

    @rule(seconds=st.sampled_from([0.1, 0.3, 3.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.run(self.lab.advance(seconds))

    @rule(index=some, between=passes, other=st.sampled_from(["", "cancel", "release", "answer"]), kind=kinds)
    def cancel_it(self, index: int, between: int, other: str, kind: str) -> None:
        tasks = [task for task in self.model.tasks.values() if not task.over] or list(self.model.tasks.values())
        task = self.pick(tasks, index)
        if task is None:
            return
        over, free = task.over, task.state.interrupted and task.pending is None
        params = self.script(kind, taskId=task.id)
        second = {
            "": self.nothing,
            "cancel": self.cancel,
            "release": self.release_run,
            "answer": lambda task: self.deliver(task.inbound, params),
        }[other]
        first, then = (self.cancel, second) if index % 2 else (second, self.cancel)
        answers = self.run(self.both(first(task), then(task), between))
        answer, beside = answers if index % 2 else answers[::-1]
        if isinstance(beside, Accepted):
            assert free
            self.accept_answer(task, beside, params, "immediate")
        elif other == "answer":
            assert isinstance(beside, (UnsupportedOperation, ResourceExhausted)), beside
        if isinstance(answer, TaskNotCancelable):
            assert over or other
            assert over or self.model.rows()[task.id][0].terminal
        else:
            assert not isinstance(answer, BaseException), answer
            self.canceled(task, answer)
        if other == "cancel":
            if isinstance(beside, dict):
                self.canceled(task, beside)
            late = bool(between) and isinstance(answers[1], TaskNotCancelable)
            assert late or type(answer) is type(beside)

    # readers

    @rule(index=some, last=st.none() | st.integers(0, 12))
    def subscribe(self, index: int, last: int | None) -> None:
        task = self.pick(list(self.model.tasks.values()), index)
        if task is None:
            return
        try:
            reader = self.run(self.lab.engine.subscribe(task.id, task.inbound, last))
        except UnsupportedOperation:
            assert task.over
            return
        assert not task.over
        self.model.clients.append(client := Client(task.id, reader, snapshot=True))
        self.run(client.drain())
        self.model.check_replay(client, last)

    @rule(index=some)
    def a_reader_leaves(self, index: int) -> None:
        client = self.pick(self.model.clients, index)
        if client is not None:
            client.reader.close()
            self.model.clients.remove(client)

    @rule(inbound=st.sampled_from(INBOUNDS), context=st.sampled_from([None, "c1", "c2"]),
          state=st.none() | st.sampled_from(list(TaskState)), size=st.integers(1, 4), back=st.none() | some,
          release=st.booleans())  # fmt: skip
    def list_pages(
        self, inbound: str, context: str | None, state: TaskState | None, size: int, back: int | None, *, release: bool
    ) -> None:
        rows = self.model.rows()
        times = sorted(at for _, _, at in rows.values())
        after = None if back is None else self.pick(times, back)

        def matching() -> list[str]:
            now = self.model.rows()
            found = [(at, task_id) for task_id, (has, _, at) in now.items()
                     if self.model.tasks[task_id].inbound == inbound and state in {None, has}
                     and context in {None, self.model.tasks[task_id].context} and at >= (after or 0)]  # fmt: skip
            return [task_id for _, task_id in sorted(found, reverse=True)]

        expected, found, token = matching(), list[str](), ""
        while True:
            wanted = a2a.ListTasksParams(context, state, size, token, None, after, include_artifacts=True)
            page = self.run(list_tasks(self.lab.engine.store, inbound, wanted))
            found += [view.row.id for view in page.tasks]
            assert page.total == len(matching())
            token = page.next_token
            if not token:
                break
            assert len(page.tasks) == size
            if release and (stands := self.lab.desk.waiting()):
                Desk.release(stands[0])
                self.run(self.lab.calm())
        assert len(found) == len(set(found))
        now = self.model.rows()
        unchanged = [task_id for task_id in expected if now[task_id] == rows[task_id]]
        assert [task_id for task_id in found if task_id in unchanged] == unchanged

    # the end of a process

    @rule(release=st.booleans())
    def stop_and_start(self, *, release: bool) -> None:
        def meanwhile() -> None:
            for stand in self.lab.desk.waiting() if release else ():
                Desk.release(stand)

        running = self.model.active
        self.run(self.lab.stop(meanwhile))
        self.run(self.model.end_orderly(running, waited_for=release))
        self.run(self.lab.close())
        self.run(self.lab.start())

    @rule(index=some, commit=st.booleans(), what=st.sampled_from(["nothing", "send", "release", "cancel", "answer"]),
          kind=kinds, again=st.booleans())  # fmt: skip
    def crash_and_start(self, index: int, what: str, kind: str, *, commit: bool, again: bool) -> None:
        """The process dies while something is on its way into the store, which may or may not get there."""
        open_tasks = [] if what in {"nothing", "send"} else [t for t in self.model.tasks.values() if not t.over]
        task, inbound = self.pick(open_tasks, index), INBOUNDS[index % 2]
        params = self.script(kind, **({"taskId": task.id} if task is not None and what == "answer" else {}))
        self.lab.store.holding = True
        if what == "send":
            self.lab.killed.add(self.loop.create_task(self.deliver(inbound, params)))
        elif task is not None:
            work = {"release": self.release_run, "cancel": self.cancel}.get(
                what, lambda task: self.deliver(task.inbound, params)
            )
            self.lab.killed.add(self.loop.create_task(work(task)))
        self.run(self.lab.calm())
        self.run(self.model.end_by_crash(task))
        self.run(self.lab.crash(commit_held=commit))
        self.model.after_crash(inbound, str(params.message_id), task, committed=commit)
        self.run(self.lab.start())
        if again:
            self.run(self.model.check())
            self.run(self.model.end_by_crash(None))
            self.run(self.lab.crash())
            self.run(self.lab.start())


EngineMachine.TestCase.settings = settings(
    settings.get_profile(os.environ.get("A2AD_MACHINE", "machine")),
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestEngine = EngineMachine.TestCase
