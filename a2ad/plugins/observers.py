"""How a plugin hears of events: in a thread of its own, in order. One that hangs loses events, and holds up nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Full, Queue
from typing import Any

from a2ad.hookspecs import Event

#: events that wait for one observer
WAITING = 10_000


class Observer:
    """`tell` gets each event and must not raise. `name` is the plugin's."""

    def __init__(self, name: str, tell: Callable[[Event], None], log: Any) -> None:
        self._name = name
        self._tell = tell
        self._log = log
        self._events: Queue[Event] = Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._missed = 0

    def put(self, event: Event) -> None:
        """Never waits: where too many events wait, this one is dropped. The log says when that begins, and how many
        they were.
        """
        try:
            self._events.put_nowait(event)
        except Full:
            if not self._missed:
                self._log.error("plugin does not keep up: it misses events", plugin=self._name, waiting=WAITING)
            self._missed += 1
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"a2ad-events-{self._name}", daemon=True)
            self._thread.start()

    def drain(self, until: float) -> bool:
        """Wait for what was put until then (`time.monotonic`). False: some of it is left."""
        events = self._events
        with events.all_tasks_done:
            while events.unfinished_tasks:
                if not events.all_tasks_done.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                    self._log.error("plugin did not hear of everything in time", plugin=self._name)
                    return False
        return True

    def _run(self) -> None:
        while True:
            event = self._events.get()
            self._tell(event)
            self._events.task_done()
            if self._missed and self._events.empty():
                self._log.warning("plugin has caught up", plugin=self._name, missed=self._missed)
                self._missed = 0
