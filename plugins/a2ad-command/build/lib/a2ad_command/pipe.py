"""The reading end of a program's output, which others may hold after the program has ended."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from typing import IO

#: the most that is read at once, in bytes
CHUNK_BYTES = 1 << 16


class Pipe:
    """For one reader. What nobody reads stays in the pipe, and the program waits."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._descriptor = file.fileno()
        os.set_blocking(self._descriptor, False)
        self._cut = False
        #: how much may still be read, in bytes
        self._left = sys.maxsize
        self._waiting: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """The next piece; empty once everybody has closed it, or it is cut and what was in it is read."""
        while True:
            try:
                piece = os.read(self._descriptor, min(CHUNK_BYTES, self._left))
            except BlockingIOError:
                if self._cut:
                    return b""
                await self._readable()
                continue
            if self._cut:
                self._left -= len(piece)
            return piece

    def cut(self) -> None:
        """Whoever writes to it from now on is not heard any more."""
        if self._file.closed:
            return
        self._cut = True
        self._left = fcntl.fcntl(self._descriptor, fcntl.F_GETPIPE_SZ)
        self._wake()

    def close(self) -> None:
        """Not to be read any more: a `read` that waits does so for ever, until it is cancelled."""
        if self._waiting is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        self._file.close()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_reader(self._descriptor, self._wake)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if not self._file.closed:  # else the number may be another file's by now
                loop.remove_reader(self._descriptor)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
