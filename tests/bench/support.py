"""What the measurements share: the daemon and its executor that does as its text says, figures, and how they print."""

import asyncio
import os
import re
import resource
import statistics
import sys
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.daemon import DaemonProcess

PRESET = "bench"
#: "stream N [size]": N appended chunks; "drip N [size]": the same, with a turn of the loop after each; "wait S": works
#: for S seconds; "ask": asks, and does what the answer says; anything else is echoed
PLUGIN = """
import asyncio
from a2ad import Artifact, Executor, hookimpl

class Bench(Executor):
    async def execute(self, request):
        text = request.text
        if text == "ask":
            text = (await request.ask("What is it to be?"))["parts"][0]["text"]
        words = text.split()
        if words[:1] in (["stream"], ["drip"]):
            count, size = int(words[1]), int(words[2]) if len(words) > 2 else 20
            for i in range(count):
                yield Artifact(parts=[{"text": "x" * size}], append=i > 0, last_chunk=i == count - 1)
                if words[0] == "drip":
                    await asyncio.sleep(0)
        elif words[:1] == ["wait"]:
            await asyncio.sleep(float(words[1]))
        else:
            yield Artifact(parts=[{"text": text}], last_chunk=True)

@hookimpl
def a2ad_register_executors(register, config):
    register("bench", Bench())

@hookimpl
def a2ad_register_presets(register, config):
    register("bench", {"skills": [{"id": "chat", "executor": "bench"}]})
"""
#: a configuration that stands in no measurement's way
LIMITS = """
[limits]
runs = 10000
runs_per_inbound = 10000
queued = 100000
subscribers_per_task = 10000
requests_per_minute = 0
body_bytes = 104857600
"""


@contextmanager
def bench_daemon() -> Iterator[tuple[DaemonProcess, str]]:
    """A daemon with nothing in its database, and its inbound's id; killed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        daemon = DaemonProcess(Path(folder), plugin=PLUGIN, config=LIMITS)
        try:
            yield daemon, daemon.create_inbound(preset=PRESET)
        finally:
            daemon.kill()


def run(work: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run` on the loop that the daemon has."""
    try:
        from uvloop import run
    except ImportError:
        from asyncio import run
    run(work)


def raise_descriptors(count: int) -> None:
    """Let this process, and those that it starts, have so many sockets; ends it where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 100
    if hard != resource.RLIM_INFINITY and hard < needed:
        sys.exit(f"{needed} open files are needed, and {hard} are allowed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))


# figures of a process


def resident_kb(pid: int) -> int:
    """Resident memory of a process, in kB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def cpu_at_rest(pid: int, seconds: float) -> float:
    """CPU that a process takes while nothing is asked of it, in per cent of one core."""
    loop = asyncio.get_running_loop()
    cpu, begun = cpu_seconds(pid), loop.time()
    await asyncio.sleep(seconds)
    return (cpu_seconds(pid) - cpu) / (loop.time() - begun) * 100


# what is printed


def show(name: str, values: Sequence[float], unit: str) -> float:
    """Print the median of what the rounds gave, with the least and the most; returns it."""
    median = statistics.median(values)
    print(f"{name:52} {median:12,.2f} {unit:16} [{min(values):,.2f} .. {max(values):,.2f}]", flush=True)
    return median


def ratio(name: str, value: float, of: float) -> None:
    print(f"{name:52} {value / of:12.2f}", flush=True)
