"""What the measurements share: the executor that does as its text says, and the figures of a process."""

import re
from pathlib import Path

PRESET = "bench"
#: "stream N [size]": N appended chunks; "wait S": works for S seconds; anything else is echoed
PLUGIN = """
import asyncio
from a2ad import Artifact, Executor, hookimpl

class Bench(Executor):
    async def execute(self, request):
        words = request.text.split()
        if words[:1] == ["stream"]:
            count, size = int(words[1]), int(words[2]) if len(words) > 2 else 20
            for i in range(count):
                yield Artifact(parts=[{"text": "x" * size}], append=i > 0, last_chunk=i == count - 1)
        elif words[:1] == ["wait"]:
            await asyncio.sleep(float(words[1]))
        else:
            yield Artifact(parts=[{"text": request.text}], last_chunk=True)

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
requests_per_minute = 0
body_bytes = 104857600
"""


def resident_kb(pid: int) -> int:
    """Resident memory of a process, in kB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0
