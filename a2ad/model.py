"""The A2A 1.0.1 words that every layer uses: task states and what may follow them, times, identifiers, parts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

#: An A2A part as its JSON: exactly one of `text`, `raw` (base64, or bytes before it is encoded), `url`, `data`.
PartDict: TypeAlias = dict[str, Any]


class TaskState(StrEnum):
    """The life cycle of a task (A2A 1.0.1, 4.1.3). The value is what goes over the wire."""

    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"

    __hash__ = str.__hash__  # an enum's own is a Python function, and states are looked up all the time

    #: it is in `TERMINAL`, or in `INTERRUPTED`
    terminal: bool
    interrupted: bool
    #: as people write it: `input_required`
    word: str


#: the enum's numbers in a2a.proto; input may use them, output never does
STATE_NUMBERS = dict(enumerate(TaskState, start=1))
NUMBERS = {state: number for number, state in STATE_NUMBERS.items()}

TERMINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})
INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
for _state in TaskState:
    _state.terminal = _state in TERMINAL
    _state.interrupted = _state in INTERRUPTED
    _state.word = _state.value.removeprefix("TASK_STATE_").lower()

#: What may follow what (`protocol.md` 5). WORKING may follow itself, a progress note; so may what waits for an answer
#: and gets what is none.
TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.SUBMITTED: frozenset({TaskState.WORKING}) | TERMINAL,
    TaskState.WORKING: frozenset({TaskState.WORKING}) | INTERRUPTED | TERMINAL,
    TaskState.INPUT_REQUIRED: frozenset({TaskState.WORKING, TaskState.INPUT_REQUIRED}) | TERMINAL,
    TaskState.AUTH_REQUIRED: frozenset({TaskState.WORKING, TaskState.AUTH_REQUIRED}) | TERMINAL,
    **{state: frozenset() for state in TERMINAL},
}


#: in a message's metadata: how many daemons it has come through
DEPTH = "a2ad/depth"


def depth_of(message: Mapping[str, Any]) -> int:
    """How many daemons a message came through, 0 where it does not say."""
    depth = (message.get("metadata") or {}).get(DEPTH)
    if isinstance(depth, float) and depth.is_integer():
        depth = int(depth)
    return depth if type(depth) is int and depth > 0 else 0


def now_ms() -> int:
    """The time in whole milliseconds since 1970, UTC: the resolution of every time on the wire."""
    return time.time_ns() // 1_000_000


def timestamp(ms: int) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`, as `2026-12-01T09:30:00.000Z`."""
    seconds, millis = divmod(ms, 1000)
    return f"{_second(seconds)}.{millis:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def as_unicode(text: str) -> str:
    """The text with a question mark for each lone surrogate: what comes in may have some, no wire takes them."""
    return text.encode(errors="replace").decode()


class _Random:
    """The system's random bytes as hexadecimal digits, with one call to it for many."""

    DIGITS, STOCK = 16, 4096

    def __init__(self) -> None:
        self._stock = ""
        self._used = 0

    def take(self) -> str:
        """`DIGITS` of them."""
        start = self._used
        if start >= len(self._stock):
            self._stock, start = os.urandom(self.STOCK).hex(), 0
        self._used = start + self.DIGITS
        return self._stock[start : self._used]


_random = _Random()
#: the two bits that say which UUID it is, and two random ones
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


def new_id() -> str:
    """A UUID, version 7 (RFC 9562): 62 random bits, and a time in front, to the quarter of a microsecond.

    So ids sort as they were made, and the store's indexes grow at one end.
    """
    ms, ns = divmod(time.time_ns(), 1_000_000)
    at, random = f"{ms:012x}", _random.take()
    return f"{at[:8]}-{at[8:]}-7{ns * 4096 // 1_000_000:03x}-{_VARIANT[random[0]]}{random[1:4]}-{random[4:]}"
