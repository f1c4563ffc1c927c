"""The embedded store: one SQLite file in WAL mode, one `writer`, and aiosqlite for the reading (`reader`)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import orjson
import structlog

from a2ad.errors import StartupError
from a2ad.model import TaskState
from a2ad.store import (
    ArtifactTimes,
    Change,
    ContextRecord,
    Expired,
    InboundRecord,
    OutboundRecord,
    StatusEvent,
    StoredTask,
    StoreHealth,
    StoreSettings,
    TaskPage,
    TaskQuery,
    TaskRow,
)
from a2ad.store.deletion import delete_expired, delete_inbound_tasks
from a2ad.store.migrations import migrate
from a2ad.store.reader import Reader
from a2ad.store.steps import flush_counts, size_of, takes_long, write_step
from a2ad.store.writer import BUSY_SECONDS, Tally, Writer

#: a log that is larger is given back once what has expired is gone, in bytes
LOG_BYTES = 1 << 20

log = structlog.get_logger()


class SqliteStore:
    """Implements `a2ad.store.Store`. Made by `open_sqlite`."""

    def __init__(
        self, path: Path, writer: Writer, reader: Reader, lists: Reader, secret: bytes, replay_frames: int
    ) -> None:
        self._path = path
        self._writer = writer
        self._reader = reader
        #: reads pages of tasks alone: one that has much to count must not hold up the others
        self._lists = lists
        self._secret = secret
        self._replay_frames = replay_frames

    @property
    def secret(self) -> bytes:
        return self._secret

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()
        await self._lists.close()

    def write(self, change: Change) -> asyncio.Future[str | None]:
        replay = self._replay_frames
        return self._writer.submit(
            lambda connection, tally: write_step(connection, tally, change, replay),
            size_of(change),
            long=takes_long(change),
        )

    async def task(self, task_id: str) -> StoredTask | None:
        return await self._reader.task(task_id)

    async def tasks(self, query: TaskQuery) -> TaskPage:
        return await self._lists.tasks(query)

    async def unfinished(self) -> Sequence[TaskRow]:
        return await self._reader.unfinished()

    async def find_message(self, inbound_id: str, caller: str, message_id: str) -> str | None:
        return await self._reader.find_message(inbound_id, caller, message_id)

    async def status_events(self, task_id: str, after: int) -> Sequence[StatusEvent]:
        return await self._reader.status_events(task_id, after)

    async def artifact_times(self, task_id: str) -> Sequence[ArtifactTimes]:
        return await self._reader.artifact_times(task_id)

    async def counts(self) -> dict[tuple[str, TaskState], int]:
        return await self._reader.counts()

    async def inbounds(self) -> Sequence[InboundRecord]:
        return await self._reader.inbounds()

    async def context(self, inbound_id: str, context_id: str) -> ContextRecord | None:
        return await self._reader.context(inbound_id, context_id)

    @property
    def health(self) -> StoreHealth:
        return self._writer.health

    async def delete_tasks(self, inbound_id: str) -> None:
        while (await self._writer.submit(partial(delete_inbound_tasks, inbound_id=inbound_id), long=True)).more:
            pass
        await asyncio.to_thread(_truncate_log, self._path)
        await self._execute("DELETE FROM contexts WHERE inbound_id = ?", (inbound_id,))

    async def expire(self, before: int) -> Expired:
        expired = await self._writer.submit(partial(delete_expired, before=before), long=True)
        if not expired.more and self._path.with_name(f"{self._path.name}-wal").stat().st_size > LOG_BYTES:
            await asyncio.to_thread(_truncate_log, self._path)
        return expired

    async def unused_attachments(self, digests: Sequence[str]) -> Sequence[str]:
        return await self._reader.unused_attachments(digests)

    def audit(self, at: int, kind: str, data: bytes) -> asyncio.Future[None]:
        def operation(connection: sqlite3.Connection, _tally: Tally) -> None:
            connection.execute("INSERT INTO audit (at, kind, data) VALUES (?, ?, ?)", (at, kind, data))

        return self._writer.submit(operation)

    async def save_inbound(self, record: InboundRecord) -> None:
        columns = "id, name, description, version, endpoint_path, preset, created_at, auth_token_env, enabled"
        await self._execute(
            f"INSERT OR REPLACE INTO inbounds ({columns}, token_hash) VALUES ({_marks(10)})", astuple(record)
        )

    async def delete_inbound(self, inbound_id: str) -> None:
        await self._execute("DELETE FROM inbounds WHERE id = ?", (inbound_id,))

    async def outbounds(self) -> Sequence[OutboundRecord]:
        return await self._reader.outbounds()

    async def save_outbound(self, record: OutboundRecord) -> None:
        values = (
            record.id, record.name, record.agent_card_url, record.created_at, record.enabled, record.timeout_ms,
            record.bearer_token_env, record.preset, orjson.dumps(record.disabled_skills),
            orjson.dumps(record.skill_overrides), orjson.dumps(record.token_origins),
            orjson.dumps(record.tool_names), record.card,
        )  # fmt: skip
        await self._execute(f"INSERT OR REPLACE INTO outbounds VALUES ({_marks(13)})", values)

    async def delete_outbound(self, outbound_id: str) -> None:
        await self._execute("DELETE FROM outbounds WHERE id = ?", (outbound_id,))

    async def save_context(self, record: ContextRecord) -> None:
        values = (*astuple(record)[:-1], orjson.dumps(record.state))
        await self._execute(f"INSERT OR REPLACE INTO contexts VALUES ({_marks(8)})", values)

    async def _execute(self, sql: str, values: Sequence[Any]) -> None:
        def operation(connection: sqlite3.Connection, _tally: Tally) -> None:
            connection.execute(sql, values)

        await self._writer.submit(operation, sum(len(value) for value in values if isinstance(value, bytes)))


async def open_sqlite(settings: StoreSettings) -> SqliteStore:
    """Open or create the database. Raises `StartupError` with a sentence for the operator."""
    path = Path(settings.url.removeprefix("sqlite:///")) if settings.url else settings.state_dir / "a2ad.db"
    try:
        connection = await asyncio.to_thread(_connect, path, settings.synchronous)
        secret: bytes = connection.execute("SELECT value FROM meta WHERE key = 'secret'").fetchone()[0]
    except sqlite3.Error as error:
        raise StartupError(f"the database {path} cannot be opened: {error}") from None
    reader, lists = [await _open_reader(path) for _ in range(2)]
    writer = Writer(connection, flush_counts, settings.commits, waits_for_disk=settings.synchronous != "normal")
    return SqliteStore(path, writer, reader, lists, secret, settings.replay_frames)


async def _open_reader(path: Path) -> Reader:
    connection = await aiosqlite.connect(path, isolation_level=None, cached_statements=256)
    await connection.execute("PRAGMA query_only = ON")
    return Reader(connection)


def _truncate_log(path: Path) -> None:
    """Move the log into the file and give its room back. Where someone is in the way, the next time does it."""
    try:
        with closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        log.info("store.log_not_truncated", error=str(error))


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        path.chmod(0o600)
        migrate(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous.upper()}")
        connection.execute("PRAGMA journal_size_limit = 67108864")
    except BaseException:
        connection.close()
        raise
    return connection


def _marks(count: int) -> str:
    return ", ".join("?" * count)
