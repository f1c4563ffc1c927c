"""The reading side of the SQLite store, on aiosqlite: few statements per call, since each is a hop to its thread."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import aiosqlite
import orjson
import structlog

from a2ad.errors import StoreUnavailable
from a2ad.model import NUMBERS, STATE_NUMBERS, TaskState
from a2ad.store import (
    ArtifactTimes,
    ContextRecord,
    InboundRecord,
    OutboundRecord,
    Segment,
    StatusEvent,
    StoredTask,
    TaskPage,
    TaskQuery,
    TaskRow,
)

COLUMNS = (
    "id, inbound_id, context_id, caller, peer, skill, executor, state, status, created_at, updated_at, frame_limit,"
    " queued, hidden, metadata, reply"
)
#: (inbound, caller) pairs in one statement; SQLite takes 500 terms in a compound select
MAX_PAIRS = 200
#: the messages and artifacts of one page, about
PAGE_BYTES = 8 << 20

log = structlog.get_logger()


class Reader:
    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def close(self) -> None:
        await self._connection.close()

    async def _all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return [tuple(row) for row in await self._connection.execute_fetchall(sql, values)]
        except (sqlite3.Error, ValueError) as error:
            log.exception("store.read_failed")
            raise StoreUnavailable(f"The task store could not be read: {type(error).__name__}") from None

    async def task(self, task_id: str) -> StoredTask | None:
        rows = await self._all(f"SELECT {COLUMNS} FROM tasks WHERE id = ?", (task_id,))
        if not rows:
            return None
        return (await self._complete([_row(rows[0])], history="all", artifacts=True))[0]

    async def tasks(self, query: TaskQuery) -> TaskPage:
        counted = await self._all("SELECT inbound_id, caller, state, n FROM task_counts")
        pairs, total = set(), 0
        for inbound_id, caller, state, n in counted:
            if query.inbound_id in {"", inbound_id} and (query.callers is None or caller in query.callers):
                pairs.add((inbound_id, caller))
                if query.state in {None, STATE_NUMBERS[state]}:
                    total += n
        if pairs and (query.context_id is not None or query.after is not None):
            total = await self._count(query, sorted(pairs))
        rows: list[TaskRow] = []
        if total and pairs:
            rows = [_row(row) for row in await self._page(query, sorted(pairs))]
        wanted = await self._within(rows[: query.limit], query)
        tasks = await self._complete(wanted, history=query.history, artifacts=query.artifacts)
        return TaskPage(tasks, total, more=len(rows) > len(wanted))

    async def _within(self, rows: list[TaskRow], query: TaskQuery) -> list[TaskRow]:
        """As many as fit into `PAGE_BYTES`, and at least one."""
        tables = [("messages", "body")] if query.history == "all" else []
        tables += [("artifacts", "parts")] if query.artifacts else []
        if not tables or len(rows) < 2:
            return rows
        marks = ", ".join("?" * len(rows))
        sql = " UNION ALL ".join(
            f"SELECT task_id, sum(length({column})) FROM {table} WHERE task_id IN ({marks}) GROUP BY task_id"
            for table, column in tables
        )
        sizes: defaultdict[str, int] = defaultdict(int)
        for task_id, size in await self._all(sql, [row.id for row in rows] * len(tables)):
            sizes[task_id] += size
        total = 0
        for count, row in enumerate(rows):
            total += sizes[row.id]
            if total > PAGE_BYTES and count:
                return rows[:count]
        return rows

    async def _page(self, query: TaskQuery, pairs: Sequence[tuple[str, str]]) -> list[Any]:
        """One row more than asked for. Each (inbound, caller) is read along its own index and the runs are merged:
        so a page costs the same however many tasks there are, and whoever may see them.
        """
        where, values = _filter(query)
        order = "ORDER BY updated_at DESC, id DESC"
        wanted = query.offset + query.limit + 1
        found: list[Any] = []
        for start in range(0, len(pairs), MAX_PAIRS):
            chosen = pairs[start : start + MAX_PAIRS]
            term = f"SELECT * FROM (SELECT {COLUMNS} FROM {where} {order} LIMIT {wanted})"
            sql = " UNION ALL ".join([term] * len(chosen))
            if len(chosen) > 1:
                sql += f" {order} LIMIT {wanted}"
            found += await self._all(sql, [value for pair in chosen for value in (*pair, *values)])
        if len(pairs) > MAX_PAIRS:
            found.sort(key=lambda row: (row[10], row[0]), reverse=True)
        return found[query.offset : wanted]

    async def _count(self, query: TaskQuery, pairs: Sequence[tuple[str, str]]) -> int:
        where, values = _filter(query, cursor=False)
        total = 0
        for start in range(0, len(pairs), MAX_PAIRS):
            chosen = pairs[start : start + MAX_PAIRS]
            sql = " UNION ALL ".join([f"SELECT count(*) FROM {where}"] * len(chosen))
            rows = await self._all(sql, [value for pair in chosen for value in (*pair, *values)])
            total += sum(row[0] for row in rows)
        return total

    async def _complete(self, rows: Sequence[TaskRow], *, history: str, artifacts: bool) -> list[StoredTask]:
        marks, ids = ", ".join("?" * len(rows)), [row.id for row in rows]
        messages: defaultdict[str, list[bytes]] = defaultdict(list)
        last: dict[str, int] = {}
        segments: defaultdict[str, list[Segment]] = defaultdict(list)
        if history != "none" and rows:
            first = "AND seq = 0 " if history == "first" else ""
            sql = f"SELECT task_id, seq, body FROM messages WHERE task_id IN ({marks}) {first}ORDER BY task_id, seq"
            for task_id, seq, body in await self._all(sql, ids):
                messages[task_id].append(body)
                last[task_id] = seq
        if artifacts and rows:
            sql = (
                "SELECT task_id, seq, place, artifact_id, replace, head, parts, at FROM artifacts"
                f" WHERE task_id IN ({marks}) ORDER BY task_id, seq"
            )
            for task_id, seq, place, artifact_id, replace, head, parts, at in await self._all(sql, ids):
                segments[task_id].append(Segment(seq, place, artifact_id, bool(replace), head, parts, at))
        return [StoredTask(row, messages[row.id], segments[row.id], last.get(row.id, -1)) for row in rows]

    async def unfinished(self) -> list[TaskRow]:
        # SUBMITTED and WORKING; the hidden ones in the words of their partial index
        sql = (
            f"SELECT {COLUMNS} FROM tasks WHERE hidden = 1 AND state IN (1, 2)"
            f" UNION ALL SELECT {', '.join(f't.{column}' for column in COLUMNS.split(', '))}"
            " FROM (SELECT DISTINCT inbound_id, caller FROM task_counts) AS c CROSS JOIN tasks AS t"
            " INDEXED BY tasks_by_state"
            " ON t.inbound_id = c.inbound_id AND t.caller = c.caller AND t.state IN (1, 2) AND t.hidden = 0"
            " ORDER BY created_at, id"
        )
        return [_row(row) for row in await self._all(sql)]

    async def find_message(self, inbound_id: str, caller: str, message_id: str) -> str | None:
        sql = "SELECT task_id FROM messages WHERE inbound_id = ? AND caller = ? AND message_id = ?"
        rows = await self._all(sql, (inbound_id, caller, message_id))
        return rows[0][0] if rows else None

    async def status_events(self, task_id: str, after: int) -> list[StatusEvent]:
        sql = "SELECT frame, body FROM status_events WHERE task_id = ? AND frame > ? ORDER BY frame"
        return [StatusEvent(*row) for row in await self._all(sql, (task_id, after))]

    async def artifact_times(self, task_id: str) -> list[ArtifactTimes]:
        sql = (
            "SELECT artifact_id, min(at), max(at), count(*) FROM artifacts WHERE task_id = ?"
            " GROUP BY artifact_id ORDER BY min(seq)"
        )
        return [ArtifactTimes(*row) for row in await self._all(sql, (task_id,))]

    async def unused_attachments(self, digests: Sequence[str]) -> list[str]:
        marks = ", ".join("?" * len(digests))
        rows = await self._all(f"SELECT DISTINCT sha256 FROM attachments WHERE sha256 IN ({marks})", digests)
        used = {row[0] for row in rows}
        return [digest for digest in digests if digest not in used]

    async def counts(self) -> dict[tuple[str, TaskState], int]:
        rows = await self._all("SELECT inbound_id, state, sum(n) FROM task_counts GROUP BY inbound_id, state")
        return {(inbound_id, STATE_NUMBERS[state]): n for inbound_id, state, n in rows}

    async def outbounds(self) -> list[OutboundRecord]:
        rows = await self._all("SELECT * FROM outbounds ORDER BY created_at, id")
        return [
            OutboundRecord(
                id=row[0],
                name=row[1],
                agent_card_url=row[2],
                created_at=row[3],
                enabled=bool(row[4]),
                timeout_ms=row[5],
                bearer_token_env=row[6],
                preset=row[7],
                disabled_skills=tuple(orjson.loads(row[8])),
                skill_overrides=orjson.loads(row[9]),
                token_origins=tuple(orjson.loads(row[10])),
                tool_names=orjson.loads(row[11]),
                card=row[12],
            )
            for row in rows
        ]

    async def inbounds(self) -> list[InboundRecord]:
        columns = "id, name, description, version, endpoint_path, preset, created_at, auth_token_env, enabled"
        rows = await self._all(f"SELECT {columns}, token_hash FROM inbounds ORDER BY created_at, id")
        return [
            InboundRecord(
                id=row[0],
                name=row[1],
                description=row[2],
                version=row[3],
                endpoint_path=row[4],
                preset=row[5],
                created_at=row[6],
                auth_token_env=row[7],
                enabled=bool(row[8]),
                token_hash=row[9],
            )
            for row in rows
        ]

    async def context(self, inbound_id: str, context_id: str) -> ContextRecord | None:
        sql = "SELECT * FROM contexts WHERE inbound_id = ? AND context_id = ?"
        rows = await self._all(sql, (inbound_id, context_id))
        if not rows:
            return None
        inbound_id, context_id, session_id, preset, created_at, last_active_at, turns, state = rows[0]
        return ContextRecord(
            inbound_id=inbound_id,
            context_id=context_id,
            session_id=session_id,
            preset=preset,
            created_at=created_at,
            last_active_at=last_active_at,
            turns=turns,
            state=orjson.loads(state),
        )


def _filter(query: TaskQuery, *, cursor: bool = True) -> tuple[str, list[Any]]:
    """The table with its condition, for one (inbound, caller), and the values that come after those two."""
    clauses, values = ["inbound_id = ? AND caller = ? AND hidden = 0"], list[Any]()
    table = "tasks"
    if query.state is not None:
        clauses.append("state = ?")
        values.append(NUMBERS[query.state])
    if query.context_id is not None:
        # a context has few tasks: better those than the order of all
        table = "tasks INDEXED BY tasks_by_context"
        clauses.append("context_id = ?")
        values.append(query.context_id)
    if query.after is not None:
        clauses.append("updated_at >= ?")
        values.append(query.after)
    if cursor and query.cursor is not None:
        clauses.append("(updated_at, id) < (?, ?)")
        values += query.cursor
    return f"{table} WHERE {' AND '.join(clauses)}", values


def _row(row: Iterable[Any]) -> TaskRow:
    (id_, inbound_id, context_id, caller, peer, skill, executor, state, status, created_at, updated_at, frame_limit,
     queued, hidden, metadata, reply) = row  # fmt: skip
    return TaskRow(
        id=id_,
        inbound_id=inbound_id,
        context_id=context_id,
        caller=caller,
        peer=peer,
        skill=skill,
        executor=executor,
        state=STATE_NUMBERS[state],
        status=status,
        created_at=created_at,
        updated_at=updated_at,
        frame_limit=frame_limit,
        queued=bool(queued),
        hidden=bool(hidden),
        metadata=metadata,
        reply=reply,
    )
