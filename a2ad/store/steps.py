"""What one durable step of a task writes. Each statement is spelt once: a task has some eight of them in its life."""

from __future__ import annotations

import sqlite3

from a2ad.model import NUMBERS
from a2ad.store import Change, MessageRow, TaskRow
from a2ad.store.writer import Tally

_NEW_TASK = """
    INSERT INTO tasks (state, status, updated_at, frame_limit, queued, hidden, metadata, reply,
        id, inbound_id, context_id, caller, peer, skill, executor, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_TASK = """
    UPDATE tasks SET state = ?, status = ?, updated_at = ?, frame_limit = ?, queued = ?, hidden = ?, metadata = ?,
        reply = ?
    WHERE id = ?
"""
_KEY_MESSAGE = "INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?, ?, ?)"
_TASK_OF_KEY = "SELECT task_id FROM messages WHERE inbound_id = ? AND caller = ? AND message_id = ?"
_MESSAGE = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)"
_FORGET_ARTIFACT = "DELETE FROM artifacts WHERE task_id = ? AND artifact_id = ?"
_SEGMENT = "INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_ATTACHMENT = "INSERT OR IGNORE INTO attachments VALUES (?, ?)"
_EVENT = "INSERT INTO status_events VALUES (?, ?, ?)"
_FORGET_OLD_EVENTS = """
    DELETE FROM status_events WHERE task_id = ?1 AND frame <= (
        SELECT frame FROM status_events WHERE task_id = ?1 ORDER BY frame DESC LIMIT 1 OFFSET ?2)
"""
_NOTHING: dict[None, None] = {}
_COUNT = "INSERT INTO task_counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n"


# Of each value that is no int, float or str itself, sqlite3 asks whether it is to be adapted, and where there is no
# answer it looks the value over at length: 0.5 µs, and a task has some 14. So there is one, and a flag is bound as int.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), _NOTHING.get)


def size_of(change: Change) -> int:
    """What a step writes, in bytes, about."""
    row, key = change.row, change.key_message
    size = len(row.status) + len(row.metadata or b"") + len(row.reply or b"")
    if key is not None:
        size += len(key.body)
    for message in change.messages:
        size += len(message.body)
    for segment in change.segments:
        size += len(segment.parts) + len(segment.head or b"")
    for event in change.events:
        size += len(event.body)
    return size


def takes_long(change: Change) -> bool:
    """It replaces an artifact that is stored: nobody knows how large that one is."""
    return any(segment.replace and segment.seq > 0 for segment in change.segments)


def write_step(connection: sqlite3.Connection, tally: Tally, change: Change, replay_frames: int) -> str | None:
    """Write all of it. Where its key message is there already, nothing: the id of the task that has it."""
    execute, row = connection.execute, change.row
    if change.key_message is not None:
        other = _take_key(connection, row, change.key_message)
        if other is not None:
            return other
    _write_row(connection, tally, change)
    for message in change.messages:
        values = (row.id, message.seq, row.inbound_id, message.caller, message.message_id, message.body)
        execute(_MESSAGE, values)
    for seq, place, artifact_id, replace, head, parts, at in change.segments:
        if replace and seq > 0:
            execute(_FORGET_ARTIFACT, (row.id, artifact_id))
        execute(_SEGMENT, (row.id, seq, place, artifact_id, +replace, head, parts, at))
    for digest in change.attachments:
        execute(_ATTACHMENT, (digest, row.id))
    _write_events(connection, change, replay_frames)
    return None


def _take_key(connection: sqlite3.Connection, row: TaskRow, key: MessageRow) -> str | None:
    """Write the key message; the id of the task that has it already, if any."""
    values = (row.id, key.seq, row.inbound_id, key.caller, key.message_id, key.body)
    if connection.execute(_KEY_MESSAGE, values).rowcount:
        return None
    found = connection.execute(_TASK_OF_KEY, (row.inbound_id, key.caller, key.message_id)).fetchone()
    return str(found[0])


def _write_row(connection: sqlite3.Connection, tally: Tally, change: Change) -> None:
    row, previous = change.row, change.previous
    state = NUMBERS[row.state]
    mutable = (state, row.status, row.updated_at, row.frame_limit, +row.queued, +row.hidden, row.metadata, row.reply)
    if previous is None:
        fixed = (row.id, row.inbound_id, row.context_id, row.caller, row.peer, row.skill, row.executor, row.created_at)
        connection.execute(_NEW_TASK, mutable + fixed)
    else:
        connection.execute(_TASK, (*mutable, row.id))
        if not change.was_hidden:
            _add(tally, row, NUMBERS[previous], -1)
    if not row.hidden:
        _add(tally, row, state, 1)


def _write_events(connection: sqlite3.Connection, change: Change, replay_frames: int) -> None:
    """Keep the task's newest status frames."""
    task_id = change.row.id
    for event in change.events:
        connection.execute(_EVENT, (task_id, event.frame, event.body))
    if change.events:
        connection.execute(_FORGET_OLD_EVENTS, (task_id, replay_frames))


def _add(tally: Tally, row: TaskRow, state: int, by: int) -> None:
    key = (row.inbound_id, row.caller, state)
    tally[key] = tally.get(key, 0) + by


def flush_counts(connection: sqlite3.Connection, tally: Tally) -> None:
    """The counters of a transaction's steps, each once."""
    for key, by in tally.items():
        if by:
            connection.execute(_COUNT, (*key, by))
