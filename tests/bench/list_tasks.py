"""Does ListTasks cost more where there are more tasks, and a start?

    python tests/bench/list_tasks.py [--tasks 10000 1000000] [--requests 200]

Fills the database of a real daemon with copies of a task that it ran itself, in bulk by SQL, starts it again, and
prints for each number of tasks how long it took until it listened, and how long a page of 50 takes over HTTP: the first
page, one in the middle of the list, and with each filter. A context has 20 tasks, one of them 5,000.
"""

import argparse
import http.client
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

from a2ad.model import timestamp
from tests.bench.stored import store_tasks
from tests.bench.support import resident_kb
from tests.daemon import DaemonProcess

PAGE, STARTS = 50, 5


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
    inbound, context_id, after = store_tasks(folder, count)
    daemon = DaemonProcess(folder)
    try:
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
