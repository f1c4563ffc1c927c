"""Ended tasks that were asked for lately: they never change, so a copy is as good as the store's."""

from __future__ import annotations

from collections import OrderedDict

from a2ad.engine.encode import TaskView

#: how much is kept, in bytes of messages and artifacts
CAPACITY = 8 << 20
#: a task larger than this is left to the store
LARGEST = 1 << 18
#: what a task costs besides its messages and artifacts, about
OVERHEAD = 1200


class EndedCache:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._views: OrderedDict[str, tuple[TaskView, int]] = OrderedDict()
        self._size = 0

    def get(self, task_id: str) -> TaskView | None:
        held = self._views.get(task_id)
        if held is None:
            return None
        self._views.move_to_end(task_id)
        return held[0]

    def put(self, view: TaskView) -> None:
        size = OVERHEAD + sum(map(len, view.history)) + sum(map(len, view.artifacts))
        if size > LARGEST or view.row.id in self._views:
            return
        self._views[view.row.id] = (view, size)
        self._size += size
        while self._size > self._capacity:
            _, (_, freed) = self._views.popitem(last=False)
            self._size -= freed

    def drop_inbound(self, inbound_id: str) -> None:
        """Forget the tasks of an inbound that is being removed."""
        for task_id in [key for key, (view, _) in self._views.items() if view.row.inbound_id == inbound_id]:
            self._size -= self._views.pop(task_id)[1]
