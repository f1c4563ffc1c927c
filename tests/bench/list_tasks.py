"""Does ListTasks cost more where there are more tasks, and a start?

    python tests/bench/list_tasks.py [--tasks 10000 1000000] [--requests 200]

Fills the database of a real daemon with copies of a task that it ran itself, in bulk by SQL, starts it again, and
prints for each number of tasks how long it took until it listened, and how long a page of 50 takes over HTTP: the first
page, one in the middle of the list, and with each filter. A context has 20 tasks, one of them 5,000.
"""

import argparse
import http.client
import json
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

from a2ad.model import NUMBERS, TaskState, new_id, now_ms, timestamp
from tests.bench.support import resident_kb
from tests.daemon import DaemonProcess

PAGE, STARTS = 50, 5
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


class Client:
    """One connection that is kept; `list` is ListTasks."""

    def __init__(self, daemon: DaemonProcess, inbound: str) -> None:
        where = urlsplit(daemon.endpoint(inbound))
        self._path = where.path
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)

    def list(self, **params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params})
        self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
        return json.loads(self._connection.getresponse().read())["result"]

    def snapshot(self) -> Any:
        self._connection.request("GET", "/a2a/api")
        return json.loads(self._connection.getresponse().read())


def measured(name: str, requests: int, call: Callable[[], Any]) -> None:
    times = []
    for _ in range(requests):
        begun = time.perf_counter()
        answer = call()
        times.append((time.perf_counter() - begun) * 1000)
    times.sort()
    matches = answer.get("totalSize", answer.get("taskTotal"))
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    print(f"  {name:32} p50 {p50:7.2f} ms   p99 {p99:7.2f} ms   {matches:9,} matches", flush=True)


def one_size(folder: Path, count: int, requests: int) -> None:
    daemon = DaemonProcess(folder)
    try:
        inbound = daemon.create_inbound()
        daemon.send(inbound, "What was sold in Oslo last week, and how much of it was ours?", messageId="m")
        assert daemon.terminate() == 0
        context_id, after = fill(daemon.state_dir, count)
        starts = []
        for _ in range(STARTS):
            daemon.kill()
            begun = time.monotonic()
            daemon = DaemonProcess(folder)
            starts.append((time.monotonic() - begun) * 1000)
        size = (daemon.state_dir / "a2ad.db").stat().st_size
        started = f"listening after {statistics.median(starts):.0f} ms (median of {STARTS})"
        print(f"{count:,} tasks, {size >> 20} MiB: {started}")
        client = Client(daemon, inbound)
        token, begun, pages = "", time.perf_counter(), 0
        while pages < count // 200:  # to the middle
            token = client.list(pageSize=100, pageToken=token, historyLength=0)["nextPageToken"]
            pages += 1
        per_page = (time.perf_counter() - begun) * 1000 / pages
        print(f"  {f'{pages:,} pages of 100 on the way':32} mean {per_page:6.2f} ms")
        listed = client.list
        measured("first page", requests, lambda: listed(pageSize=PAGE))
        measured("a page in the middle", requests, lambda: listed(pageSize=PAGE, pageToken=token))
        measured("with artifacts", requests, lambda: listed(pageSize=PAGE, includeArtifacts=True))
        measured("contextId, a small one", requests, lambda: listed(pageSize=PAGE, contextId=context_id))
        measured("contextId, the large one", requests, lambda: listed(pageSize=PAGE, contextId="large"))
        for state in ("COMPLETED", "INPUT_REQUIRED", "WORKING"):
            wanted = f"TASK_STATE_{state}"
            measured(f"status {state}", requests, lambda wanted=wanted: listed(pageSize=PAGE, status=wanted))
        measured("statusTimestampAfter, the newest", requests,
                 lambda: listed(pageSize=PAGE, statusTimestampAfter=timestamp(after)))  # fmt: skip
        measured("statusTimestampAfter, all", max(5, requests // 20),
                 lambda: listed(pageSize=PAGE, statusTimestampAfter="2020-01-01T00:00:00Z"))  # fmt: skip
        measured("snapshot of the control API", requests, client.snapshot)
        print(f"  resident memory of the daemon: {resident_kb(daemon.process.pid) / 1024:.0f} MB")
    finally:
        daemon.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--requests", type=int, default=200)
    args = parser.parse_args()
    for count in args.tasks:
        folder = Path(tempfile.mkdtemp())
        try:
            one_size(folder, count, args.requests)
        finally:
            shutil.rmtree(folder)


main()
