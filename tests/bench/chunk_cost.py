"""Does a stream's chunk cost more at its end than at its start?

    python tests/bench/chunk_cost.py [--chunks 10000] [--rounds 5]

Streams one task of many chunks from a real daemon and prints, for each thousand, the milliseconds until it was
there (median of the rounds) and the daemon's resident memory at that moment.
"""

import argparse
import http.client
import json
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.support import bench_daemon, resident_kb
from tests.daemon import DaemonProcess, message

STEP = 1000


def one_round(daemon: DaemonProcess, inbound: str, chunks: int) -> tuple[list[float], list[int]]:
    where = urlsplit(daemon.endpoint(inbound))
    connection = http.client.HTTPConnection(where.hostname or "", where.port)
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendStreamingMessage",
        "params": {"message": message(f"stream {chunks}")},
    }
    connection.request("POST", where.path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    times, memory, seen, start = [], [], 0, time.perf_counter()
    for line in response:
        seen += b'"artifactUpdate"' in line
        if seen and seen % STEP == 0 and len(times) < seen // STEP:
            now = time.perf_counter()
            times.append((now - start) * 1000)
            memory.append(resident_kb(daemon.process.pid))
            start = now
    return times, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with bench_daemon() as (daemon, inbound):
        one_round(daemon, inbound, STEP)
        rounds = [one_round(daemon, inbound, args.chunks) for _ in range(args.rounds)]
    medians = [statistics.median(each) for each in zip(*(times for times, _ in rounds), strict=True)]
    for number, (milliseconds, memory) in enumerate(zip(medians, rounds[-1][1], strict=True), start=1):
        print(f"thousand {number:4}: {milliseconds:7.1f} ms   {memory / 1024:7.1f} MB")
    print(f"last / first: {medians[-1] / medians[0]:.2f}")


main()
