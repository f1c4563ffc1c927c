"""A daemon's database with many tasks in it: copies of one that the daemon ran itself, in bulk by SQL."""

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from a2ad.model import NUMBERS, TaskState, new_id, now_ms, timestamp
from tests.daemon import DaemonProcess

PER_CONTEXT, LARGE_CONTEXT = 20, 5000
SHARES = {
    TaskState.COMPLETED: 0.8,
    TaskState.FAILED: 0.1,
    TaskState.CANCELED: 0.099,
    TaskState.INPUT_REQUIRED: 0.001,
}
TABLES = ("tasks", "messages", "artifacts")


def fill(state_dir: Path, count: int) -> tuple[str, int]:
    """Copy the only task so often, a second apart; a small context's id, and the time of the 1,000th newest."""
    now = now_ms()
    states = random.Random(1).choices(list(SHARES), list(SHARES.values()), k=count)
    with closing(sqlite3.connect(state_dir / "a2ad.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -400000")
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in TABLES:
            found = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in found.description]
            rows[table] = [dict(zip(names, row, strict=True)) for row in found]
        (task,) = rows["tasks"]
        ids = [new_id() for _ in range(count)]

        def context(number: int) -> str:
            contexts = max(1, (count - LARGE_CONTEXT) // PER_CONTEXT)
            return "large" if number < LARGE_CONTEXT else f"context-{number % contexts}"

        def tasks() -> Iterator[dict[str, Any]]:
            for number, (task_id, state) in enumerate(zip(ids, states, strict=True)):
                at = now - (count - number) * 1000
                status = json.loads(task["status"]) | {"state": state.value, "timestamp": timestamp(at)}
                yield task | {
                    "id": task_id, "context_id": context(number), "state": NUMBERS[state], "updated_at": at,
                    "created_at": at, "status": json.dumps(status, separators=(",", ":")).encode(),
                }  # fmt: skip

        def parts(table: str) -> Iterator[dict[str, Any]]:
            for number, task_id in enumerate(ids):
                for row in rows[table]:
                    copied = row | {"task_id": task_id}
                    if "message_id" in row:
                        body = json.loads(row["body"]) | {"taskId": task_id, "contextId": context(number)}
                        copied |= {"message_id": f"{row['message_id']}-{number}", "body": json.dumps(body).encode()}
                    yield copied

        connection.execute("BEGIN")
        for table, copies in (("tasks", tasks()), *((table, parts(table)) for table in TABLES[1:])):
            names = list(rows[table][0])
            marks = ", ".join(f":{name}" for name in names)
            connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", copies)
        key = (task["inbound_id"], task["caller"])
        for state, n in Counter(states).items():
            connection.execute(
                "INSERT INTO task_counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
                (*key, NUMBERS[state], n),
            )
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    return context(count - 1), now - 1000 * 1000


def store_tasks(folder: Path, count: int) -> tuple[str, str, int]:
    """Run a daemon in this folder for as long as it takes, and give it so many tasks. Returns the inbound's id, and
    what `fill` does.
    """
    daemon = DaemonProcess(folder)
    try:
        inbound = daemon.create_inbound()
        daemon.send(inbound, "What was sold in Oslo last week, and how much of it was ours?", messageId="m")
        assert daemon.terminate() == 0
    finally:
        daemon.kill()
    return inbound, *fill(daemon.state_dir, count)
