"""What the daemon counts as it goes: plain numbers, put together when somebody asks (`web.metrics`).

To count costs an addition where the thing happens anyway; nothing is kept of a single task. All of it is touched on the
event loop alone, `CommitFigures` by whoever has the store's connection; `Tally` may be touched anywhere.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

from a2ad.model import TaskState, as_unicode, timestamp

#: values of a label, and characters of one, at most; what is beyond counts under one value
MOST_VALUES, LONGEST_VALUE = 200, 100
OTHER = "(other)"
MINUTES = 60
ENDS = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)
#: what of tasks is counted by skill and by minute
COLUMNS = ("started", *(state.word for state in ENDS))
_COLUMN = {state: COLUMNS.index(state.word) for state in ENDS}
#: bounds of the histograms, in seconds; and in operations
TASK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
FIRST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
COMMIT_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
COMMIT_OPERATIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
#: what becomes of an outbound call: how the remote's task stands then, or why there is none
CALL_RESULTS = ("message", *(state.word for state in TaskState), "refused", "away", "invalid", "dropped")


_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux


def _since_boot() -> float:
    """Seconds that no change of the clock touches, and that a machine that sleeps goes on counting."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


class Histogram:
    """How often a value was at most each of the bounds, and the sum of all values."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def to_json(self) -> dict[str, Any]:
        """`{count, sum, buckets: [{le, count}]}`; a bucket counts the smaller ones' values too, `count` all."""
        *counts, count = accumulate(self._counts)
        buckets = [{"le": bound, "count": n} for bound, n in zip(self._bounds, counts, strict=True)]
        return {"count": count, "sum": round(self._sum, 9), "buckets": buckets}


class Tally:
    """How often, by the value of a label. Not for what happens all the time: it takes a lock, since plugins fail in
    threads of their own.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._counts = dict.fromkeys(values, 0)
        self._lock = threading.Lock()

    def add(self, value: str) -> None:
        with self._lock:
            value = _label(value, self._counts)
            self._counts[value] = self._counts.get(value, 0) + 1

    def to_json(self, zeros: Iterable[str] = ()) -> dict[str, int]:
        """By value; those of `zeros` are there whether or not they were counted."""
        with self._lock:
            counts = dict(self._counts)
        for value in zeros:
            counts.setdefault(_label(value, counts), 0)
        return counts


def _label(value: str, known: Iterable[str]) -> str:
    """As a label has it: as text, no longer than it may be, and none more than there may be."""
    value = as_unicode(value[:LONGEST_VALUE])
    values = set(known)
    return value if value in values or len(values - {OTHER}) < MOST_VALUES else OTHER


class Minutes:
    """Several counts for each of the last 60 minutes, the one that has begun among them.

    Minutes pass as they really do, asleep or awake, however the clock is set meanwhile; what they are called is the
    clock's affair at the moment of the question. `advance` is called from time to time: to count needs no clock.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = _since_boot,
    ) -> None:
        self._columns = columns
        self._wall = wall
        self._steady = steady
        self._rows = deque((self._empty() for _ in range(MINUTES)), MINUTES)
        #: when the minute began, by the steady clock
        self._began = steady() - wall() % 60

    def _empty(self) -> list[int]:
        return [0] * len(self._columns)

    def add(self, column: int) -> None:
        self._rows[-1][column] += 1

    def advance(self) -> float:
        """Begin the minute that it is by now; returns when it began, by the clock."""
        wall = self._wall()
        into = wall % 60
        began = self._steady() - into
        # a clock that was set moves the boundary of minutes: to the nearest one
        for _ in range(min(MINUTES, round((began - self._began) / 60))):
            self._rows.append(self._empty())
        self._began = began
        return wall - into

    def to_json(self) -> list[dict[str, Any]]:
        """Oldest first: `{at: when it began, <column>: count …}`."""
        newest = round(self.advance())
        return [
            {"at": timestamp((newest - 60 * age) * 1000), **dict(zip(self._columns, row, strict=True))}
            for age, row in zip(range(MINUTES - 1, -1, -1), self._rows, strict=True)
        ]


class TaskFigures:
    """Of tasks as observers see them: one that a direct reply took the place of is in none of it."""

    def __init__(self) -> None:
        self.minutes = Minutes(COLUMNS)
        self.seconds = {state: Histogram(TASK_SECONDS) for state in ENDS}
        self.first_artifact = Histogram(FIRST_SECONDS)
        self._skills: dict[str, list[int]] = {}

    def declare(self, skills: Iterable[str]) -> None:
        """Skills that there are, whether or not they are asked for."""
        for skill in skills:
            self._of(skill)

    def reached(self, skill: str, before: TaskState | None, state: TaskState, seconds: float) -> None:
        """A task is in this state, so long after its beginning; `before` is the one that was told last, None for a new
        task.
        """
        if before is None:
            self._add(skill, 0)
        if state.terminal and state is not before:
            self._add(skill, _COLUMN[state])
            self.seconds[state].add(seconds)

    def _add(self, skill: str, column: int) -> None:
        self._of(skill)[column] += 1
        self.minutes.add(column)

    def _of(self, skill: str) -> list[int]:
        counts = self._skills.get(skill)
        if counts is None:
            counts = self._skills.setdefault(_label(skill, self._skills), [0] * len(COLUMNS))
        return counts

    def skills(self) -> dict[str, dict[str, int]]:
        """By skill: `{started, completed, failed, canceled, rejected}`."""
        return {skill: dict(zip(COLUMNS, counts, strict=True)) for skill, counts in self._skills.items()}


class CommitFigures:
    """Of a store's commits: how long each took, how much it made durable, and how many failed."""

    def __init__(self) -> None:
        self.seconds = Histogram(COMMIT_SECONDS)
        self.operations = Histogram(COMMIT_OPERATIONS)
        self.failures = 0

    def add(self, seconds: float, operations: int) -> None:
        self.seconds.add(seconds)
        self.operations.add(operations)


class Figures:
    """All that one daemon counts, but for its plugins' errors, which are the plugin host's."""

    def __init__(self) -> None:
        self.tasks = TaskFigures()
        self.commits = CommitFigures()
        self.runs = 0
        #: how late a timer of the event loop was
        self.loop_lag = Histogram(LAG_SECONDS)
        #: streams that were opened, and the frames and bytes that were sent on them
        self.streams = self.frames = self.bytes = 0
        self.authentication_failures = 0
        self.rate_limited = 0
        self.outbound_calls = Tally(CALL_RESULTS)
