"""Becomes the program, with the signal set that ends it when the daemon dies. Runs as a file of its own.

    python -I -S launch.py <pid of the daemon> <variable> <program> <argument>…

The parent-death signal has to be set between fork and exec. `preexec_fn` could, but it runs Python in a copy of a
process that has other threads, and where that comes to a deadlock, the daemon waits for it for ever. The variable is
one that the program is not to have: Python itself sets `LC_CTYPE` in the locale C.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
#: what a shell says of a program that cannot be run
CANNOT_RUN = 127


def _main(parent: str, variable: str, *program: str) -> int:
    os.environ.pop(variable, None)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        return CANNOT_RUN  # it has died already
    # Python ignores them, and a program would inherit that
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - the operator's own command
    except OSError as error:
        sys.stderr.write(f"cannot run {program[0]}: {error.strerror}\n")
    return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
