"""All writes of a database go through one thread that commits what has gathered: one transaction serves many tasks.

The thread is on the standard `sqlite3`: aiosqlite has no public way to run a whole transaction in one hop, and pays
for every statement with one.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

import structlog

from a2ad.errors import StoreRefused, StoreUnavailable
from a2ad.model import now_ms
from a2ad.store import StoreHealth

T = TypeVar("T")
#: sums that the operations of one transaction add to, and that are written once before its commit: how many more
#: tasks there are, by inbound, caller and the state's number
Tally: TypeAlias = dict[tuple[str, str, int], int]
#: runs in the writer's thread, inside a transaction that it shares with others
Operation: TypeAlias = Callable[[sqlite3.Connection, Tally], T]
MAX_GROUP = 512
CLOSE_SECONDS = 3.0
#: how long a lock of someone else is waited for; and while it is known that writing fails, in seconds
BUSY_SECONDS, BUSY_SECONDS_AWAY = 5.0, 0.5
#: how often it is tried whether writing works again, in seconds
PROBE_SECONDS = 1.0

log = structlog.get_logger()


class Writer:
    """`submit` from the event loop; the operations run in order. Close it before the loop ends."""

    def __init__(self, connection: sqlite3.Connection, flush: Operation[None]) -> None:
        """`flush` runs once before each commit, to write the tally."""
        self._connection = connection
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._gathered: list[tuple[Operation[Any], asyncio.Future[Any]]] = []
        self._queue: SimpleQueue[list[tuple[Operation[Any], asyncio.Future[Any]]] | None] = SimpleQueue()
        self._closed = False
        #: whether writing works, as of the last attempt
        self.health = StoreHealth()
        self._thread = threading.Thread(target=self._run, name="a2ad-store", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[T]) -> asyncio.Future[T]:
        """The operation's result once it is durable; `StoreUnavailable` where it could not be made so just now, and
        `StoreRefused` where the fault is the operation's.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.set_exception(StoreUnavailable("The task store is closed"))
            return future
        # what one turn of the loop submits is handed over in the next: the thread is woken once for all of it
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append((operation, future))
        return future

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    async def close(self) -> None:
        """Commit what was submitted, then end the thread; a database that is locked is not waited for any longer."""
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    def _run(self) -> None:
        more = True
        while more:
            group: list[tuple[Operation[Any], asyncio.Future[Any]]] = []
            while more and not (group and (len(group) >= MAX_GROUP or self._queue.empty())):
                try:
                    handed = self._queue.get(timeout=None if self.health.error is None else PROBE_SECONDS)
                except Empty:
                    break
                more = handed is not None
                group += handed or []
            if group:
                outcomes = self._commit([operation for operation, _ in group])
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    self._loop.call_soon_threadsafe(_deliver, [future for _, future in group], outcomes)
            elif more:
                self._commit([_probe])
        self._connection.close()

    def _commit(self, operations: list[Operation[Any]]) -> list[Any]:
        """One transaction for all; where one of them is at fault, one for each. An outcome may be an exception."""
        try:
            outcomes = self._transaction(operations)
        except sqlite3.OperationalError as error:
            # locked, full, read-only, not readable: that is no operation's fault, and every one would wait again
            if operations != [_probe]:
                log.error("store.write_failed", error=str(error), operations=len(operations))  # noqa: TRY400
            if self.health.error is None:
                self._set_busy_timeout(BUSY_SECONDS_AWAY)  # what is queued has waited as long as this one
            self.health = StoreHealth(str(error), self.health.since or now_ms())
            return [StoreUnavailable(f"The task store could not be written: {error}")] * len(operations)
        except Exception as error:
            if len(operations) == 1:
                log.exception("store.operation_failed")
                return [StoreRefused(f"The task store refused a write: {type(error).__name__}")]
            return [outcome for operation in operations for outcome in self._commit([operation])]
        if self.health.error is not None:
            log.info("store.recovered", after_seconds=(now_ms() - (self.health.since or 0)) / 1000)
            self._set_busy_timeout(BUSY_SECONDS)
            self.health = StoreHealth()
        return outcomes

    def _set_busy_timeout(self, seconds: float) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def _transaction(self, operations: list[Operation[Any]]) -> list[Any]:
        connection = self._connection
        tally: Tally = {}
        connection.execute("BEGIN IMMEDIATE")
        try:
            outcomes = [operation(connection, tally) for operation in operations]
            self._flush(connection, tally)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return outcomes


def _probe(connection: sqlite3.Connection, _tally: Tally) -> None:
    """Write something: an empty transaction would not notice a full disk."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('probed_at', ?)", (now_ms(),))


def _deliver(futures: list[asyncio.Future[Any]], outcomes: list[Any]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.cancelled():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
