"""What the system says of this process (proc(5)); nothing where there is no `/proc`."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

_PROC = Path("/proc/self")


def process_figures() -> dict[str, float]:
    """`{cpuSeconds, residentBytes, openFds, maxFds, startTime}`, the last in seconds since 1970."""
    try:
        # the second field is a name in brackets, which may have any characters
        fields = (_PROC / "stat").read_text(errors="replace").rpartition(")")[2].split()
        resident = int((_PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        descriptors = len(list((_PROC / "fd").iterdir()))
        started = _booted_at() + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return {}
    return {
        "cpuSeconds": round(time.process_time(), 6),
        "residentBytes": resident,
        "openFds": descriptors,
        "maxFds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "startTime": round(started, 2),
    }


def _booted_at() -> int:
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime "))
