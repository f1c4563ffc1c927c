"""What an agent writes to its stderr, in the daemon's log: line by line, and not without bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

#: what is shown of a line, in characters; and what is held of one, in bytes, for a secret that begins in the shown part
SHOWN, HELD_BYTES = 1000, 1 << 14
#: lines that are shown at once, and per second in the long run
BURST, PER_SECOND = 50, 10
#: what is read at a time, and how long a flood waits then, in seconds: the daemon has other work
CHUNK_BYTES, PAUSE_SECONDS = 1 << 16, 0.005

log = structlog.get_logger()


async def drain(stream: asyncio.StreamReader, preset: str, masked: Callable[[str], str]) -> None:
    """Read it to its end. `masked` takes secrets out of a line."""
    lines = _Lines(preset, masked)
    rest = b""
    while chunk := await stream.read(CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            lines.show(line)
        rest = rest[:HELD_BYTES]
        if len(chunk) == CHUNK_BYTES:
            await asyncio.sleep(PAUSE_SECONDS)
    lines.show(rest)
    lines.tell_left_out()


class _Lines:
    def __init__(self, preset: str, masked: Callable[[str], str]) -> None:
        self._preset = preset
        self._masked = masked
        self._allowed = float(BURST)
        self._at = time.monotonic()
        self._left_out = 0

    def show(self, line: bytes) -> None:
        if not line.strip():
            return
        now = time.monotonic()
        self._allowed = min(BURST, self._allowed + (now - self._at) * PER_SECOND)
        self._at = now
        if self._allowed < 1:
            self._left_out += 1
            return
        self._allowed -= 1
        self.tell_left_out()
        log.info(
            "acp.stderr", preset=self._preset, line=self._masked(line[:HELD_BYTES].decode(errors="replace"))[:SHOWN]
        )

    def tell_left_out(self) -> None:
        if self._left_out:
            log.info("acp.stderr_left_out", preset=self._preset, lines=self._left_out)
            self._left_out = 0
