"""Who runs when: a bounded number of runs, in all and per inbound; tasks of one context one after the other.

Everything happens between two awaits of the event loop: no locks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto


class Place(Enum):
    """Where a ticket is."""

    CONTEXT = auto()  # behind another task of its context
    WAITING = auto()  # for a run slot
    RUNNING = auto()
    LENT = auto()  # it runs, and waits for something else: others may have its slot
    OUT = auto()


def not_yet() -> None:
    """The start of a ticket that has none, yet or any more: it is not ready, so nobody calls it."""


class Ticket:
    """A task's place in the line. `start` is called when its turn comes, unless `enter` gave it a slot."""

    __slots__ = ("context", "inbound_id", "lent", "place", "ready", "start")

    def __init__(self, inbound_id: str, context_id: str, start: Callable[[], None] = not_yet) -> None:
        self.inbound_id = inbound_id
        self.context = (inbound_id, context_id)
        self.start = start
        self.place = Place.OUT
        #: whether it may be started: it is durable, and no gate is deciding about it
        self.ready = False
        #: it has lent its slot and not got it back
        self.lent = False

    def go(self) -> None:
        """Start it, once; the ticket holds on to nothing of the run then."""
        start, self.start = self.start, not_yet
        start()


class Scheduler:
    def __init__(self, *, runs: int, runs_per_inbound: int, queued: int) -> None:
        self._runs = runs
        self._runs_per_inbound = runs_per_inbound
        self._queued = queued
        #: the first one of a line runs, or waits for a slot. Most are of one: a deque would be 760 bytes
        self._contexts: dict[tuple[str, str], list[Ticket]] = {}
        self._waiting: dict[str, deque[Ticket]] = {}
        self._by_inbound: dict[str, int] = {}
        self.running = 0
        self.queued = 0
        self.stopped = False

    def stop(self) -> None:
        """Start nothing more. Those that only wait to have their slot back have it."""
        self.stopped = True
        for waiting in list(self._waiting.values()):
            for ticket in [held for held in waiting if held.lent]:
                self.queued -= 1
                self._unwait(ticket)
                self._occupy(ticket)
                ticket.go()

    @property
    def full(self) -> bool:
        """No further task may wait."""
        return self.queued >= self._queued

    def would_run(self, inbound_id: str, context_id: str) -> bool:
        """Whether a new task of this context would have a run slot at once."""
        return (
            (inbound_id, context_id) not in self._contexts
            and inbound_id not in self._waiting
            and self._has_slot(inbound_id)
        )

    def enter(self, ticket: Ticket, *, front: bool = False) -> bool:
        """Take a place in the line; `front` is for a task that goes on. True: it has a run slot now, and `start` is
        left to the caller.
        """
        assert ticket.place is Place.OUT
        line = self._contexts.setdefault(ticket.context, [])
        if not line and ticket.inbound_id not in self._waiting and self._has_slot(ticket.inbound_id):
            line.append(ticket)
            self._occupy(ticket)
            return True
        self.queued += 1
        if line:
            ticket.place = Place.CONTEXT
            if front:
                line.insert(1, ticket)
            else:
                line.append(ticket)
        else:
            line.append(ticket)
            self._wait(ticket, front=front)
        return False

    def set_ready(self, ticket: Ticket) -> None:
        """It may be started when its turn comes."""
        ticket.ready = True
        self.dispatch()

    def leave(self, ticket: Ticket) -> None:
        """Give up the place, whatever it is, and let the next ones move up."""
        place, ticket.place = ticket.place, Place.OUT
        ticket.lent = False
        if place is Place.OUT:
            return
        line = self._contexts[ticket.context]
        head = line[0] is ticket
        line.remove(ticket)
        if place is Place.RUNNING:
            self._free(ticket)
        elif place is not Place.LENT:
            self.queued -= 1
            if place is Place.WAITING:
                self._unwait(ticket)
        if not line:
            del self._contexts[ticket.context]
        elif head:
            self._wait(line[0])
        if self.queued:
            self.dispatch()

    def lend(self, ticket: Ticket) -> bool:
        """Let others have the slot while the run waits for a call of its own: it may be one of them that answers it.
        False where it has none.
        """
        if ticket.place is Place.WAITING and ticket.lent:
            # it was about to take the slot again, and waits for another call now
            self.queued -= 1
            self._unwait(ticket)
        elif ticket.place is Place.RUNNING:
            self._free(ticket)
        else:
            return False
        ticket.place = Place.LENT
        ticket.lent = True
        self.dispatch()
        return True

    def reclaim(self, ticket: Ticket, start: Callable[[], None]) -> bool:
        """Take a slot again. True: it has one, or needs none any more; else `start` is called once it has."""
        if ticket.place is not Place.LENT:
            return True
        if self.stopped or self._has_slot(ticket.inbound_id):  # what runs may end, whatever the limits
            self._occupy(ticket)
            return True
        ticket.start = start
        ticket.ready = True  # one that got its slot as it entered was never marked so
        self.queued += 1
        self._wait(ticket, front=True)
        return False

    def dispatch(self) -> None:
        """Start what may be started: the inbounds in turn, each in the order of arrival."""
        progress = True
        while progress and not self.stopped:
            progress = False
            for inbound_id in list(self._waiting):
                if self.running >= self._runs:
                    return
                if not self._has_slot(inbound_id):
                    continue
                ticket = next((held for held in self._waiting.get(inbound_id, ()) if held.ready), None)
                if ticket is None:
                    continue
                self._unwait(ticket)
                if (rest := self._waiting.pop(inbound_id, None)) is not None:
                    self._waiting[inbound_id] = rest  # behind the other inbounds
                self.queued -= 1
                self._occupy(ticket)
                progress = True
                ticket.go()

    def _has_slot(self, inbound_id: str) -> bool:
        return (
            not self.stopped
            and self.running < self._runs
            and self._by_inbound.get(inbound_id, 0) < self._runs_per_inbound
        )

    def _occupy(self, ticket: Ticket) -> None:
        ticket.place = Place.RUNNING
        ticket.lent = False
        self.running += 1
        self._by_inbound[ticket.inbound_id] = self._by_inbound.get(ticket.inbound_id, 0) + 1

    def _free(self, ticket: Ticket) -> None:
        self.running -= 1
        self._by_inbound[ticket.inbound_id] -= 1
        if not self._by_inbound[ticket.inbound_id]:
            del self._by_inbound[ticket.inbound_id]

    def _wait(self, ticket: Ticket, *, front: bool = False) -> None:
        ticket.place = Place.WAITING
        waiting = self._waiting.setdefault(ticket.inbound_id, deque())
        if front:
            waiting.appendleft(ticket)
        else:
            waiting.append(ticket)

    def _unwait(self, ticket: Ticket) -> None:
        waiting = self._waiting[ticket.inbound_id]
        waiting.remove(ticket)
        if not waiting:
            del self._waiting[ticket.inbound_id]
