"""A child's standard streams as pipes. Not all loops use pipes, and where they are sockets, /dev/stderr is no file."""

from __future__ import annotations

import asyncio
import os
from typing import NamedTuple


class Pipes(NamedTuple):
    """The daemon's ends as streams, and the child's as descriptors, in the order of their numbers."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    of_child: tuple[int, int, int]
    transports: tuple[asyncio.BaseTransport, ...]

    def leave_to_child(self) -> None:
        """Once it has its ends, or never will."""
        for descriptor in self.of_child:
            os.close(descriptor)

    def close(self) -> None:
        for transport in self.transports:
            transport.close()


async def open_pipes(limit: int) -> Pipes:
    """`limit` is the longest line that the child writes, in bytes."""
    stdin, read_end = await _writer()
    stdout, out, out_end = await _reader(limit)
    stderr, err, err_end = await _reader(limit)
    return Pipes(stdin, stdout, stderr, (read_end, out_end, err_end), (stdin.transport, out, err))


async def _reader(limit: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport, int]:
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=limit)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    return reader, transport, write_end


async def _writer() -> tuple[asyncio.StreamWriter, int]:
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(write_end, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop), read_end
