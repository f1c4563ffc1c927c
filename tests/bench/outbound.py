"""What does a call to a remote agent cost beyond the call that the remote answers?

    python tests/bench/outbound.py [--concurrency 1 16] [--seconds 2] [--rounds 5]

A daemon is connected to itself, and `outbound.call` of its control API calls its own inbound: what the tools of a
session do as well. The daemon's work is then that of both ends. Beside it the inbound call alone, as SendMessage and as
SendStreamingMessage, which is how the daemon calls. Each connection of the client is a conversation of its own, in
both. Printed: milliseconds that a call takes, the daemon's CPU for each, and the ratios.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.client import load, post, sending
from tests.bench.support import bench_daemon, cpu_seconds, ratio, run, show
from tests.daemon import DaemonProcess

TEXT = "hello"
INBOUND, STREAMED, OUTBOUND = "SendMessage", "SendStreamingMessage", "outbound.call"
Requests = list[Callable[[], bytes]]


def calls(daemon: DaemonProcess, inbound: str, concurrency: int) -> dict[str, Requests]:
    """The three kinds of call, each as often as there are connections."""
    url = daemon.endpoint(inbound)
    outbound = daemon.act("outbound.create", name="self", agentCardUrl=f"{url}/agent-card.json")["id"]

    def outbound_call(number: int) -> Callable[[], bytes]:
        action = {"action": "outbound.call", "id": outbound, "text": TEXT, "caller": f"worker-{number}"}
        request = post(f"{daemon.control}/a2a/api", action)
        return lambda: request

    numbers = range(concurrency)
    return {
        INBOUND: [sending(url, TEXT, contextId=f"in-{number}") for number in numbers],
        STREAMED: [sending(url, TEXT, method=STREAMED, contextId=f"streamed-{number}") for number in numbers],
        OUTBOUND: [outbound_call(number) for number in numbers],
    }


async def measure(concurrency: int, args: argparse.Namespace) -> None:
    with bench_daemon() as (daemon, inbound):
        kinds = calls(daemon, inbound, concurrency)
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        cpus: dict[str, list[float]] = {kind: [] for kind in kinds}
        for requests in kinds.values():
            await load(daemon.url, requests, count=concurrency)
        for _ in range(args.rounds):
            for kind, requests in kinds.items():
                cpu = cpu_seconds(daemon.process.pid)
                came = await load(daemon.url, requests, seconds=args.seconds)
                times[kind].append(statistics.median(came.latencies))
                cpus[kind].append((cpu_seconds(daemon.process.pid) - cpu) / len(came.latencies) * 1000)
    print(f"{concurrency} at a time")
    time = {kind: show(f"  {kind}", values, "ms") for kind, values in times.items()}
    cpu_of = {kind: show(f"  {kind}: CPU for each", values, "ms") for kind, values in cpus.items()}
    for kind in (INBOUND, STREAMED):
        ratio(f"  {OUTBOUND} / {kind}", time[OUTBOUND], time[kind])
        ratio(f"  {OUTBOUND} / {kind}: CPU for each", cpu_of[OUTBOUND], cpu_of[kind])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for concurrency in args.concurrency:
        run(measure(concurrency, args))


main()
