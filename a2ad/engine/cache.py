"""Ended tasks that were read lately, encoded: they never change, so a copy is as good as the store's."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

#: how much is kept, in bytes
CAPACITY = 8 << 20
#: a task larger than this is left to the store, in bytes
LARGEST = 1 << 17
#: what an entry costs besides the task itself, about, in bytes
OVERHEAD = 500


class Encoded(NamedTuple):
    """The A2A Task with all its history and artifacts."""

    inbound_id: str
    body: bytes


class EndedCache:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._tasks: OrderedDict[str, Encoded] = OrderedDict()
        self._size = 0
        #: changes whenever tasks are deleted from the store: what was read before is not put in after
        self.generation = 0

    def get(self, task_id: str) -> Encoded | None:
        held = self._tasks.get(task_id)
        if held is not None:
            self._tasks.move_to_end(task_id)
        return held

    def put(self, task_id: str, task: Encoded) -> None:
        if len(task.body) > LARGEST or task_id in self._tasks:
            return
        self._tasks[task_id] = task
        self._size += OVERHEAD + len(task.body)
        while self._size > self._capacity:
            self._drop(next(iter(self._tasks)))

    def _drop(self, task_id: str) -> None:
        self._size -= OVERHEAD + len(self._tasks.pop(task_id).body)

    def clear(self) -> None:
        self._tasks.clear()
        self._size = 0
        self.generation += 1

    def drop_inbound(self, inbound_id: str) -> None:
        """Forget the tasks of an inbound that is being removed."""
        self.generation += 1
        for task_id in [key for key, task in self._tasks.items() if task.inbound_id == inbound_id]:
            self._drop(task_id)
