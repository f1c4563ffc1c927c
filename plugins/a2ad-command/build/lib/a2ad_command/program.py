"""A program that runs: its output as it comes, its end, and the end of everything that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from a2ad_command.pipe import Pipe

_LAUNCH = str(Path(__file__).with_name("launch.py"))
#: how long a process group that was told to end may take, in seconds; past it, it is killed
GRACE_SECONDS = 2.0
#: how long what the program leaves behind may go on writing the answer, in seconds
LINGER_SECONDS = 1.0
#: how long the system may take to end what is killed, in seconds
KILL_SECONDS = 1.0
#: how often it is looked whether anything of a group is left, in seconds
LOOK_SECONDS = 0.02
#: of what was written to stderr, the last so many bytes are kept
TAIL_BYTES = 4096


class Program:
    """Has to be made on the thread of the event loop: the program ends with the thread that it was started from.

    `deadline` is by the loop's clock, or None. Raises `OSError` and `ValueError` where it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str | bytes],
        *,
        prompt: bytes | None,
        env: Mapping[str, str],
        cwd: Path,
        deadline: float | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline
        self._process = process = _spawn(command, prompt, env, cwd)
        self._group = process.pid
        #: nothing of the group is left, or all of it is killed: from now on its number may be another's
        self._gone = False
        self._exited = asyncio.Event()
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdout, self._stderr = Pipe(process.stdout), Pipe(process.stderr)
        self._tail = b""
        self._lingering: asyncio.TimerHandle | None = None
        self._collecting = self._loop.create_task(self._collect())
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except OSError:
            self._signal(signal.SIGKILL)
            process.wait()
            self._let_go()
            raise
        self._loop.add_reader(self._pidfd, self._on_exit)

    async def read(self) -> bytes:
        """The next piece of its output, empty at the end. Raises `TimeoutError` past the deadline."""
        if self._deadline is not None and self._loop.time() >= self._deadline:
            raise TimeoutError  # of a program that never pauses, too
        async with asyncio.timeout_at(self._deadline):
            return await self._stdout.read()

    async def finish(self) -> None:
        """Wait until it has ended by itself. Raises `TimeoutError` past the deadline."""
        async with asyncio.timeout_at(self._deadline):
            await self._exited.wait()
        await self._collecting

    async def end(self) -> tuple[int, str]:
        """Leave nothing of it: its process group is told to end, and killed after the grace, or as soon as somebody
        does not want to wait for that. Nothing is read any more.

        Returns its exit status, negative for a signal, and the end of what it wrote to stderr.
        """
        try:
            if self._signal(signal.SIGTERM):
                await self._await_end(GRACE_SECONDS)
        finally:
            try:
                await self.kill()
            finally:
                self._let_go()
        return self._process.returncode, self._tail.decode(errors="replace").strip()

    async def kill(self) -> None:
        """End the process group at once, and wait for the system to do so."""
        self._signal(signal.SIGKILL)
        try:
            await self._await_end(KILL_SECONDS)
        finally:
            self._gone = True

    def _signal(self, number: int) -> bool:
        """Whether there is somebody who gets it."""
        if not self._gone:
            try:
                os.killpg(self._group, number)
            except ProcessLookupError:
                self._gone = True
            except PermissionError:  # a member has become another user: it cannot be ended from here
                return True
        return not self._gone

    async def _await_end(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()
                # until now its number, which is its group's, was not anybody else's
                self._process.wait()
                while self._signal(0):  # noqa: ASYNC110 - its children: nobody tells of their end
                    await asyncio.sleep(LOOK_SECONDS)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._exited.set()
        self._lingering = self._loop.call_later(LINGER_SECONDS, self._cut)

    def _cut(self) -> None:
        for pipe in (self._stdout, self._stderr):
            pipe.cut()

    async def _collect(self) -> None:
        while piece := await self._stderr.read():
            self._tail = (self._tail + piece)[-TAIL_BYTES:]

    def _let_go(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        self._collecting.cancel()
        for pipe in (self._stdout, self._stderr):
            pipe.close()


def _spawn(
    command: Sequence[str | bytes], prompt: bytes | None, env: Mapping[str, str], cwd: Path
) -> subprocess.Popen[bytes]:
    stdin = subprocess.DEVNULL if prompt is None else _as_file(prompt)
    not_given = "" if "LC_CTYPE" in env else "LC_CTYPE"
    try:
        return subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
            [sys.executable, "-I", "-S", _LAUNCH, str(os.getpid()), not_given, *command],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    finally:
        if stdin >= 0:
            os.close(stdin)


def _as_file(prompt: bytes) -> int:
    """A descriptor that reads the prompt: with a file in memory, nobody has to wait until the program reads it."""
    descriptor = os.memfd_create("prompt")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(prompt)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
