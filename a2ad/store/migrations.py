"""The schema, as numbered steps: `PRAGMA user_version` says how many a database has taken."""

from __future__ import annotations

import re
import secrets
import sqlite3

from a2ad.errors import StartupError

STEPS = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

    CREATE TABLE inbounds (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        version TEXT NOT NULL,
        endpoint_path TEXT NOT NULL UNIQUE,
        preset TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        auth_token_env TEXT NOT NULL,
        enabled INTEGER NOT NULL,
        token_hash BLOB
    ) WITHOUT ROWID;

    CREATE TABLE tasks (
        id TEXT PRIMARY KEY,
        inbound_id TEXT NOT NULL,
        context_id TEXT NOT NULL,
        caller TEXT NOT NULL,
        peer TEXT NOT NULL,
        skill TEXT NOT NULL,
        executor TEXT NOT NULL,
        state INTEGER NOT NULL,
        status BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        frame_limit INTEGER NOT NULL,
        queued INTEGER NOT NULL,
        hidden INTEGER NOT NULL,
        metadata BLOB,
        reply BLOB
    );
    CREATE INDEX tasks_recent ON tasks (inbound_id, caller, updated_at, id) WHERE hidden = 0;
    CREATE INDEX tasks_by_state ON tasks (inbound_id, caller, state, updated_at, id) WHERE hidden = 0;
    CREATE INDEX tasks_by_context ON tasks (context_id, inbound_id);
    CREATE INDEX tasks_hidden ON tasks (updated_at) WHERE hidden = 1;
    CREATE INDEX tasks_unfinished ON tasks (created_at) WHERE state IN (1, 2);

    CREATE TABLE messages (
        task_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        inbound_id TEXT NOT NULL,
        caller TEXT,
        message_id TEXT NOT NULL,
        body BLOB NOT NULL
    );
    CREATE UNIQUE INDEX messages_of_task ON messages (task_id, seq);
    CREATE UNIQUE INDEX messages_of_caller ON messages (inbound_id, caller, message_id) WHERE caller IS NOT NULL;

    CREATE TABLE artifacts (
        task_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        place INTEGER NOT NULL,
        artifact_id TEXT NOT NULL,
        replace INTEGER NOT NULL,
        head BLOB,
        parts BLOB NOT NULL
    );
    CREATE UNIQUE INDEX artifacts_of_task ON artifacts (task_id, seq);

    CREATE TABLE status_events (
        task_id TEXT NOT NULL,
        frame INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (task_id, frame)
    ) WITHOUT ROWID;

    CREATE TABLE contexts (
        inbound_id TEXT NOT NULL,
        context_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        preset TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        last_active_at INTEGER NOT NULL,
        turns INTEGER NOT NULL,
        state BLOB NOT NULL,
        PRIMARY KEY (inbound_id, context_id)
    ) WITHOUT ROWID;

    CREATE TABLE attachments (
        sha256 TEXT NOT NULL,
        task_id TEXT NOT NULL,
        PRIMARY KEY (sha256, task_id)
    ) WITHOUT ROWID;
    CREATE INDEX attachments_of_task ON attachments (task_id);

    CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        data BLOB NOT NULL
    );
    CREATE INDEX audit_at ON audit (at);

    CREATE TABLE task_counts (
        inbound_id TEXT NOT NULL,
        caller TEXT NOT NULL,
        state INTEGER NOT NULL,
        n INTEGER NOT NULL,
        PRIMARY KEY (inbound_id, caller, state)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE outbounds (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        agent_card_url TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        enabled INTEGER NOT NULL,
        timeout_ms INTEGER NOT NULL,
        bearer_token_env TEXT NOT NULL,
        preset TEXT NOT NULL,
        disabled_skills BLOB NOT NULL,
        skill_overrides BLOB NOT NULL,
        token_origins BLOB NOT NULL,
        tool_names BLOB NOT NULL,
        card BLOB
    ) WITHOUT ROWID;
    """,
    # every task paid for an index of unfinished ones, twice; `tasks_by_state` finds them as well
    """
    DROP INDEX tasks_unfinished;
    CREATE INDEX tasks_hidden_unfinished ON tasks (created_at) WHERE hidden = 1 AND state IN (1, 2);
    """,
    "ALTER TABLE artifacts ADD COLUMN at INTEGER;",
)

TABLES = frozenset(name for step in STEPS for name in re.findall(r"CREATE TABLE (\w+)", step))


def name_of(connection: sqlite3.Connection) -> str:
    """The file of a database."""
    return str(connection.execute("PRAGMA database_list").fetchone()[2])


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the database to this version's schema. Raises `StartupError` for one that a newer version wrote."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise StartupError(
            f"the database was written by a newer a2ad (schema {version}; this version knows {len(STEPS)}): "
            "start the newer version, or restore a backup"
        )
    if version == 0:
        # so that the file can give back space after a deletion; it has to be said before the first table
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    for number, step in enumerate(STEPS[version:], start=version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;")
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if missing := sorted(TABLES - there):
        raise StartupError(f"the database {name_of(connection)} lacks the table {missing[0]}: restore a backup")
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('secret', ?)", (secrets.token_bytes(32),))
