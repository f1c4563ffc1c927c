"""Who runs when: against a model that is nothing but lists."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from a2ad.engine.schedule import Scheduler, Ticket

RUNS, PER_INBOUND = 3, 2
INBOUNDS, CONTEXTS = ("a", "b", "c"), ("1", "2", "3")


class Line:
    """A scheduler, and every ticket with what became of it."""

    def __init__(self, *, runs: int = RUNS, runs_per_inbound: int = PER_INBOUND, queued: int = 1000) -> None:
        self.scheduler = Scheduler(runs=runs, runs_per_inbound=runs_per_inbound, queued=queued)
        self.started: list[Ticket] = []
        self.gone: list[Ticket] = []
        self.waiting: list[Ticket] = []

    def enter(self, inbound: str, context: str, *, ready: bool = True, front: bool = False) -> Ticket:
        ticket = Ticket(inbound, context, lambda: self._start(ticket))
        self.again(ticket, ready=ready, front=front)
        return ticket

    def again(self, ticket: Ticket, *, ready: bool = True, front: bool = True) -> None:
        ticket.ready = False
        self.waiting.append(ticket)
        if self.scheduler.enter(ticket, front=front):
            self._start(ticket)
        elif ready:
            self.scheduler.set_ready(ticket)

    def _start(self, ticket: Ticket) -> None:
        assert ticket in self.waiting, "a ticket was started twice, or after it had left"
        self.waiting.remove(ticket)
        self.started.append(ticket)

    def leave(self, ticket: Ticket) -> None:
        if ticket in self.waiting:
            self.waiting.remove(ticket)
        self.gone.append(ticket)
        self.scheduler.leave(ticket)

    @property
    def running(self) -> list[Ticket]:
        return [ticket for ticket in self.started if ticket not in self.gone]


@dataclass
class Model:
    """The rules, said as plainly as can be."""

    line: Line
    arrived: list[Ticket] = field(default_factory=list)

    def heads(self) -> list[Ticket]:
        """Those that are first of their context."""
        seen: set[Any] = set()
        heads = []
        for ticket in self.arrived:
            if ticket not in self.line.gone and ticket.context not in seen:
                seen.add(ticket.context)
                heads.append(ticket)
        return heads

    def check(self) -> None:
        running = self.line.running
        heads = self.heads()
        assert len(running) <= RUNS
        for inbound in INBOUNDS:
            assert sum(ticket.inbound_id == inbound for ticket in running) <= PER_INBOUND
        assert all(ticket in heads for ticket in running), "a context's tasks run one after the other, in their order"
        for ticket in heads:
            if ticket in self.line.waiting and ticket.ready:
                taken = sum(held.inbound_id == ticket.inbound_id for held in running)
                assert len(running) == RUNS or taken == PER_INBOUND, "a slot is free and somebody waits for it"
        assert self.line.scheduler.running == len(running)
        assert self.line.scheduler.queued == len(self.line.waiting)


STEP = st.one_of(
    st.tuples(st.just("enter"), st.sampled_from(INBOUNDS), st.sampled_from(CONTEXTS), st.booleans()),
    st.tuples(st.just("ready"), st.integers(0, 99)),
    st.tuples(st.just("end"), st.integers(0, 99)),
    st.tuples(st.just("give up"), st.integers(0, 99)),
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(STEP, max_size=60))
def test_limits_hold_contexts_keep_their_order_and_nobody_is_forgotten(steps: list[tuple[Any, ...]]) -> None:
    line = Line()
    model = Model(line)
    for name, *arguments in steps:
        if name == "enter":
            inbound, context, ready = arguments
            model.arrived.append(line.enter(inbound, context, ready=ready))
        elif name == "ready":
            unready = [ticket for ticket in line.waiting if not ticket.ready]
            if unready:
                line.scheduler.set_ready(unready[arguments[0] % len(unready)])
        else:
            choice = line.running if name == "end" else line.waiting
            if choice:
                line.leave(choice[arguments[0] % len(choice)])
        model.check()

    for ticket in list(line.waiting):
        line.scheduler.set_ready(ticket)
    gave_up = [ticket for ticket in line.gone if ticket not in line.started]
    while line.running:
        line.leave(line.running[0])
        model.check()
    assert line.waiting == []
    assert len(line.started) + len(gave_up) == len(model.arrived)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(INBOUNDS), min_size=2, max_size=30), st.data())
def test_no_inbound_waits_while_another_is_served_again_and_again(arrivals: list[str], data: st.DataObject) -> None:
    line = Line(runs=2, runs_per_inbound=2)
    for number, inbound in enumerate(arrivals):
        line.enter(inbound, f"context {number}")
    passed_over = dict.fromkeys(INBOUNDS, 0)
    while line.running:
        could_start = {ticket.inbound_id for ticket in line.waiting}
        before = len(line.started)
        line.leave(data.draw(st.sampled_from(line.running)))
        for started in line.started[before:]:
            for inbound in could_start:
                passed_over[inbound] = 0 if inbound == started.inbound_id else passed_over[inbound] + 1
                assert passed_over[inbound] < len(INBOUNDS), f"{inbound} waits while the others are served"


def test_an_inbound_with_many_waiting_tasks_does_not_hold_up_another() -> None:
    line = Line(runs=1, runs_per_inbound=1)
    first = line.enter("busy", "0")
    for number in range(1, 6):
        line.enter("busy", str(number))
    other = line.enter("quiet", "0")

    line.leave(first)
    line.leave(line.running[0])

    assert other in line.started


def test_tasks_of_one_inbound_start_in_the_order_of_arrival() -> None:
    line = Line(runs=1)
    arrived = [line.enter("a", str(number)) for number in range(5)]

    while line.running:
        line.leave(line.running[0])

    assert line.started == arrived


def test_a_task_that_goes_on_stands_at_the_head_of_its_context() -> None:
    line = Line()
    first = line.enter("a", "1")
    second, third = line.enter("a", "1"), line.enter("a", "1")
    line.leave(first)  # it asks: the next one has its turn
    assert line.running == [second]
    line.gone.remove(first)
    line.started.remove(first)
    line.again(first)

    line.leave(second)

    assert line.running == [first]
    assert line.waiting == [third]


def test_one_that_is_not_ready_holds_up_its_own_context_and_nobody_else() -> None:
    line = Line(runs=1)
    first = line.enter("a", "1")
    undecided = line.enter("a", "2", ready=False)
    behind, other = line.enter("a", "2"), line.enter("a", "3")

    line.leave(first)
    assert line.running == [other]
    line.leave(other)
    assert line.running == []
    line.scheduler.set_ready(undecided)
    line.leave(undecided)

    assert line.started == [first, other, undecided, behind]


def test_the_queue_is_full_when_as_many_wait_as_may() -> None:
    line = Line(runs=1, queued=2)
    first = line.enter("a", "1")
    assert not line.scheduler.full
    line.enter("a", "2")
    line.enter("a", "1")
    assert line.scheduler.full
    assert not line.scheduler.would_run("a", "3")

    line.leave(first)

    assert not line.scheduler.full


def test_whoever_would_run_at_once_has_a_slot_when_it_enters() -> None:
    line = Line(runs=2, runs_per_inbound=1)
    line.enter("a", "1")

    for inbound, context, expected in (("a", "1", False), ("a", "2", False), ("b", "1", True)):
        assert line.scheduler.would_run(inbound, context) is expected
    assert line.enter("b", "1") in line.running
    assert not line.scheduler.would_run("c", "1")


def test_once_it_is_stopped_nothing_starts_and_places_can_still_be_given_up() -> None:
    line = Line(runs=1)
    first, second = line.enter("a", "1"), line.enter("a", "2")
    line.scheduler.stopped = True

    line.leave(first)
    third = line.enter("b", "1")

    assert line.running == []
    assert line.waiting == [second, third]


def test_to_leave_twice_is_to_leave_once() -> None:
    line = Line(runs=1)
    first, second = line.enter("a", "1"), line.enter("a", "2")
    line.leave(first)

    line.scheduler.leave(first)

    assert line.running == [second]
    assert line.scheduler.running == 1
