"""How tasks leave the SQLite store: in groups, so that nobody waits for a large deletion."""

from __future__ import annotations

import sqlite3
from typing import Any

from a2ad.model import STATE_NUMBERS
from a2ad.store import Expired
from a2ad.store.writer import Tally

#: tasks in one transaction
GROUP = 500
#: lines of the audit trail that are kept at most
AUDIT_LINES = 100_000
#: pages given back to the file system after a deletion
FREE_PAGES = 4000

_COLUMNS = "id, inbound_id, context_id, caller, state, hidden"


def delete_inbound_tasks(connection: sqlite3.Connection, tally: Tally, *, inbound_id: str) -> Expired:
    """Some tasks of an inbound, whatever their state."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM tasks WHERE inbound_id = ? LIMIT ?", (inbound_id, GROUP))
    return _delete(connection, tally, rows.fetchall())


def delete_expired(connection: sqlite3.Connection, tally: Tally, *, before: int) -> Expired:
    """Some tasks that ended before this moment (milliseconds), and lines of the audit trail as old."""
    ended = f"state IN ({', '.join(str(number) for number, state in STATE_NUMBERS.items() if state.terminal)})"
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM tasks WHERE hidden = 1 AND updated_at < ? AND {ended} LIMIT ?", (before, GROUP)
    ).fetchall()
    counted = connection.execute(f"SELECT inbound_id, caller, state FROM task_counts WHERE n > 0 AND {ended}")
    for key in counted.fetchall():
        if len(rows) >= GROUP:
            break
        rows += connection.execute(
            f"SELECT {_COLUMNS} FROM tasks WHERE inbound_id = ? AND caller = ? AND state = ? AND hidden = 0"
            " AND updated_at < ? ORDER BY updated_at LIMIT ?",
            (*key, before, GROUP - len(rows)),
        ).fetchall()
    expired = _delete(connection, tally, rows)
    connection.execute("DELETE FROM audit WHERE at < ? OR id <= (SELECT max(id) FROM audit) - ?", (before, AUDIT_LINES))
    return expired


def _delete(connection: sqlite3.Connection, tally: Tally, rows: list[Any]) -> Expired:
    for task_id, inbound_id, _, caller, state, hidden in rows:
        for table in ("messages", "artifacts", "status_events", "attachments"):
            connection.execute(f"DELETE FROM {table} WHERE task_id = ?", (task_id,))
        connection.execute("DELETE FROM tasks WHERE id = ?", (task_id,))
        if not hidden:
            key = (inbound_id, caller, state)
            tally[key] = tally.get(key, 0) - 1
    empty = []
    for inbound_id, context_id in {(row[1], row[2]) for row in rows}:
        left = connection.execute(
            "SELECT 1 FROM tasks WHERE context_id = ? AND inbound_id = ? LIMIT 1", (context_id, inbound_id)
        )
        if left.fetchone() is None:
            empty.append((inbound_id, context_id))
            connection.execute("DELETE FROM contexts WHERE inbound_id = ? AND context_id = ?", (inbound_id, context_id))
    still_free = _give_back(connection)
    return Expired(len(rows), empty, more=bool(rows) or still_free)


def _give_back(connection: sqlite3.Connection) -> bool:
    """Return free pages to the file system; whether there are more. A page at a time: `sqlite3` takes one step of this
    pragma alone.
    """
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    for _ in range(min(free, FREE_PAGES)):
        connection.execute("PRAGMA incremental_vacuum(1)")
    return bool(free > FREE_PAGES)
