"""All writes of a database are committed in groups: one transaction serves what many tasks wrote in a turn of the loop.

On the standard `sqlite3`: aiosqlite has no public way to run a whole transaction in one hop, and pays for every
statement with one.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import structlog

from a2ad.errors import StoreRefused, StoreUnavailable
from a2ad.figures import CommitFigures
from a2ad.model import now_ms
from a2ad.store import StoreHealth

T = TypeVar("T")
#: sums that the operations of one transaction add to, and that are written once before its commit: how many more
#: tasks there are, by inbound, caller and the state's number
Tally: TypeAlias = dict[tuple[str, str, int], int]
#: runs inside a transaction that it shares with others; once more where that fails, so it does nothing else
Operation: TypeAlias = Callable[[sqlite3.Connection, Tally], T]
Submitted: TypeAlias = tuple[Operation[Any], asyncio.Future[Any]]
MAX_GROUP = 512
CLOSE_SECONDS = 3.0
#: how long a lock of someone else is waited for; and while it is known that writing fails, in seconds
BUSY_SECONDS, BUSY_SECONDS_AWAY = 5.0, 0.5
#: how often it is tried whether writing works again, in seconds
PROBE_SECONDS = 1.0
#: what the loop commits itself, at most: operations, and bytes
SMALL_GROUP, SMALL_BYTES = 200, 1 << 19
#: a commit that takes longer than this means that the disk is busy, in seconds
SLOW_SECONDS = 0.03
#: how long the thread does the work then, in seconds: twice as long each time that it is still so
SLOW_FOR_SECONDS, SLOW_FOR_MOST = 1.0, 30.0
#: how many turns of the loop a commit waits for others to join it, at most
TURNS = 4
#: after so many commits of the loop, or so many bytes, there is one of the thread's, which looks after the log
COMMITS_HERE, BYTES_HERE = 250, 8 << 20
#: from how many pages on the thread moves the log into the file (some 16 MB)
LOG_PAGES = 4000

log = structlog.get_logger()


class Writer:
    """`submit` from the event loop; the operations run in order. Close it before the loop ends.

    One connection, and whoever has it commits. At rest that is the loop: a small group is written into the page cache
    in some 100 µs, and to hand it to the thread and back costs more than that (measured: two thirds of a task's CPU).
    The thread has it for what may take longer: large groups, deletions, every commit that waits for the disk, and one
    now and then, which moves the log into the file when it is long; and whatever failed in the loop, a lock of
    somebody else first of all. Until the thread has given it back, all that is submitted goes to the thread.
    """

    def __init__(
        self, connection: sqlite3.Connection, flush: Operation[None], commits: CommitFigures, *, waits_for_disk: bool
    ) -> None:
        """`flush` runs once before each commit, to write the tally. `waits_for_disk`: every commit does."""
        self._connection = connection
        self._flush = flush
        self._figures = commits
        #: how long the last transaction took, in seconds
        self._took = 0.0
        self._waits_for_disk = waits_for_disk
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Submitted] = []
        self._gathered_bytes = 0
        self._gathered_long = False
        #: groups that the thread has been given and not given back; while there are any, the connection is the thread's
        self._handed = 0
        #: commits of the loop since the thread's last one, and what they wrote, in bytes
        self._commits = self._written = 0
        self._slow_until = 0.0
        self._slow_for = SLOW_FOR_SECONDS
        self._queue: SimpleQueue[list[Submitted] | None] = SimpleQueue()
        self._closed = False
        #: whether writing works, as of the last attempt
        self.health = StoreHealth()
        self._lend_to_loop()
        self._thread = threading.Thread(target=self._run, name="a2ad-store", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[T], size: int = 0, *, long: bool = False) -> asyncio.Future[T]:
        """The operation's result once it is durable; `StoreUnavailable` where it could not be made so just now, and
        `StoreRefused` where the fault is the operation's. `size`: what it writes, in bytes; `long`: it may take long.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.set_exception(StoreUnavailable("The task store is closed"))
            return future
        if not self._gathered:
            self._loop.call_soon(self._gather, 0, TURNS)
        self._gathered.append((operation, future))
        self._gathered_bytes += size
        self._gathered_long = self._gathered_long or long
        return future

    def _gather(self, known: int, turns: int) -> None:
        """Wait for as long as each turn of the loop brings more, but not for ever: one transaction for all of it."""
        count = len(self._gathered)
        if count > known and turns and self._gathered_bytes <= SMALL_BYTES:
            self._loop.call_soon(self._gather, count, turns - 1)
        else:
            self._take_up()

    def _take_up(self) -> None:
        """Commit what has gathered, here or in the thread."""
        group, size, long = self._gathered, self._gathered_bytes, self._gathered_long
        self._gathered, self._gathered_bytes, self._gathered_long = [], 0, False
        if not group:
            return
        if not long and self._may_commit_here(len(group), size) and self._commit_here(group):
            self._commits += 1
            self._written += size
        else:
            self._commits = self._written = 0
            self._handed += 1
            self._queue.put(group)

    def _may_commit_here(self, count: int, size: int) -> bool:
        return (
            not self._handed
            and count <= SMALL_GROUP
            and size <= SMALL_BYTES
            and not self._waits_for_disk
            and self._commits < COMMITS_HERE
            and self._written < BYTES_HERE
            and monotonic() >= self._slow_until
        )

    def _commit_here(self, group: list[Submitted]) -> bool:
        """False where it went wrong, in whatever way: the thread finds out, and has the time."""
        try:
            outcomes = self._transaction([operation for operation, _ in group])
        except Exception:  # noqa: BLE001 - it comes again in the thread
            return False
        if self._took <= SLOW_SECONDS:
            self._slow_for = SLOW_FOR_SECONDS
        else:
            self._slow_until = monotonic() + self._slow_for
            self._slow_for = min(2 * self._slow_for, SLOW_FOR_MOST)
        _deliver([future for _, future in group], outcomes)
        return True

    async def close(self) -> None:
        """Commit what was submitted, then end the thread; a database that is locked is not waited for any longer."""
        if not self._closed:
            self._closed = True
            self._take_up()
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    # the thread

    def _run(self) -> None:
        more = True
        taken = 0
        while more:
            group, count, more = self._next_group()
            taken += count
            outcomes: list[Any] = []
            if group:
                self._keep_from_loop()
                outcomes = self._commit([operation for operation, _ in group])
            elif more:
                self._commit([_probe])
            given_back = 0
            if self.health.error is None:
                self._lend_to_loop()
                given_back, taken = taken, 0
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._committed, [future for _, future in group], outcomes, given_back)
        self._connection.close()

    def _next_group(self) -> tuple[list[Submitted], int, bool]:
        """What the loop has handed over, from how many groups it is, and whether there will be more. While writing
        fails, nothing after a while: then it is tried whether it works again.
        """
        group: list[Submitted] = []
        count = 0
        while not group or (len(group) < MAX_GROUP and not self._queue.empty()):
            try:
                handed = self._queue.get(timeout=None if self.health.error is None else PROBE_SECONDS)
            except Empty:
                break
            if handed is None:
                return group, count, False
            group += handed
            count += 1
        return group, count, True

    def _committed(self, futures: list[asyncio.Future[Any]], outcomes: list[Any], given_back: int) -> None:
        self._handed -= given_back  # here alone, on the loop
        _deliver(futures, outcomes)

    def _lend_to_loop(self) -> None:
        """The loop waits for nobody, and leaves the log as it is."""
        self._set_busy_timeout(0)
        self._connection.execute("PRAGMA wal_autocheckpoint = 0")

    def _keep_from_loop(self) -> None:
        self._set_busy_timeout(BUSY_SECONDS if self.health.error is None else BUSY_SECONDS_AWAY)
        self._connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")

    def _commit(self, operations: list[Operation[Any]]) -> list[Any]:
        """One transaction for all; where one of them is at fault, one for each. An outcome may be an exception."""
        try:
            outcomes = self._transaction(operations)
        except sqlite3.OperationalError as error:
            # locked, full, read-only, not readable: that is no operation's fault, and every one would wait again
            self._figures.failures += 1
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
            self.health = StoreHealth()
        return outcomes

    def _set_busy_timeout(self, seconds: float) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def _transaction(self, operations: list[Operation[Any]]) -> list[Any]:
        connection = self._connection
        tally: Tally = {}
        start = monotonic()
        connection.execute("BEGIN IMMEDIATE")
        try:
            outcomes = [operation(connection, tally) for operation in operations]
            self._flush(connection, tally)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._took = monotonic() - start
        self._figures.add(self._took, len(operations))
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
