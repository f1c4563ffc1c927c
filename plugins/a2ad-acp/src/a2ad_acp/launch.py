"""Becomes the agent's program: `launch.py PARENT PROGRAM ARGUMENTS…`, run by its path, with the standard library alone.

Before that it asks the kernel to end it together with the daemon. The request belongs to this process and outlives the
exec; a function that runs between fork and exec in the daemon, which has threads, would not be safe.
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def _close_others() -> None:
    """Not all loops close what is the daemon's own."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib takes longer to load than all of this
            if int(name) > 2:
                with contextlib.suppress(OSError):  # the one that the list came from
                    os.close(int(name))


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before the request was made
    _close_others()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and what is ignored stays so
    try:
        os.execv(program, sys.argv[2:])  # noqa: S606 - the command is the operator's
    except OSError as error:
        os.write(2, f"{program}: {error.strerror}\n".encode())
        os._exit(126)


main()
