"""The process's memory: what goes back to the system, and how often Python's collector looks for cycles.

Left alone, glibc raises its own bound for what is large with the first such pieces, and keeps them: 1,000 MB after 100
bodies of 10 MB that had gone. With a low bound every buffer of a large message is mapped anew, page by page: a third
of what a message of 1 MB costs. So buffers up to `LARGE` are reused, and what is free for a while goes back.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from contextlib import suppress

#: from how many bytes on a piece of memory is one of its own, which goes back as soon as it is free
LARGE = 4 << 20
#: how much may stay at the end of the heap at once; and how much of it may be free when it is looked at, in bytes
FREE_AT_ONCE, FREE = 64 << 20, 16 << 20
LOOK_SECONDS = 10.0
#: numbers of glibc's options (mallopt(3))
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_INFO = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Info(ctypes.Structure):
    """What mallinfo2(3) says."""

    _fields_ = [(name, ctypes.c_size_t) for name in _INFO]


def configure() -> None:
    """For the whole process, once its modules are there."""
    _collect_seldom()
    with suppress(OSError, AttributeError):  # another libc
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, LARGE)
        libc.mallopt(_TRIM_THRESHOLD, FREE_AT_ONCE)


def _collect_seldom() -> None:
    """Let Python's cycle collector look at what came since, and at that less often. Tasks and requests make no
    cycles; all the same it took a tenth of a task's time to find that out, again and again.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


async def keep_low() -> None:
    """Give back what is free, from time to time. It ends where the libc knows no such thing."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _Info
        given_back = 0  # what has gone back counts as free all the same
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if libc.mallinfo2().fordblks > given_back + FREE:
                await asyncio.to_thread(libc.malloc_trim, 0)
            given_back = libc.mallinfo2().fordblks
