"""An agent's program as a process: in a group of its own, with its own environment, and an end that is certain."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from a2ad import TaskFailed, read_secret
from a2ad_acp.options import Options
from a2ad_acp.pipes import Pipes, open_pipes
from a2ad_acp.stderr import drain

#: all that the agent inherits of the daemon's environment
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE")
#: what a value of the option `env` looks like that names a secret
_SECRET = re.compile(r"\$([A-Za-z0-9_.-]+)")
#: seconds between SIGTERM and SIGKILL, and what the kernel may take for the latter
GRACE_SECONDS, KILL_SECONDS = 2.0, 1.0
POLL_SECONDS = 0.02
_SIGNALS = {each.value: each.name for each in signal.Signals}
_LAUNCHER = Path(__file__).with_name("launch.py")


class AgentProcess:
    """`start` it, talk over its `stdin` and `stdout`, `stop` it."""

    def __init__(self, process: Process, pipes: Pipes, preset: str, secrets: Sequence[str]) -> None:
        self.stdin, self.stdout = pipes.stdin, pipes.stdout
        self._process = process
        self._pipes = pipes
        self._secrets = secrets
        self._stopping: asyncio.Task[None] | None = None
        self._stderr = asyncio.create_task(drain(pipes.stderr, preset, self.masked))

    @classmethod
    async def start(cls, options: Options, *, limit: int) -> AgentProcess:
        """`limit` is the longest line of its stdout, in bytes. Raises `TaskFailed` where it cannot be started."""
        env, secrets, missing = environment(options)
        if missing:
            raise TaskFailed("; ".join(missing))
        program = _program(options, env)
        pipes = await open_pipes(limit)
        stdin, stdout, stderr = pipes.of_child
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), program, *options.command[1:]),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=options.cwd,
                start_new_session=True,
            )
        except BaseException as error:
            pipes.close()
            if isinstance(error, OSError):
                raise TaskFailed(f"The agent cannot be started: {error.strerror}") from None
            raise
        finally:
            pipes.leave_to_child()
        return cls(process, pipes, options.preset, secrets)

    @property
    def running(self) -> bool:
        return self._process.returncode is None and self._stopping is None

    async def wait(self) -> None:
        """Until it has ended, by itself or not."""
        await self._process.wait()

    @property
    def end(self) -> str:
        """How it ended, in words."""
        status = self._process.returncode
        if status is None:
            return "closed its standard output"
        return f"ended with status {status}" if status >= 0 else f"was ended by {_SIGNALS.get(-status, -status)}"

    def masked(self, text: str) -> str:
        """A text of the agent's, without the secrets that it was given."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    async def stop(self) -> None:
        """End it with all of its group; once that is begun, it is carried through."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    def kill(self) -> None:
        """End it with all of its group at this moment."""
        self._signal(signal.SIGKILL)

    async def _stop(self) -> None:
        self.stdin.close()
        self._signal(signal.SIGTERM)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await self._gone()
        finally:
            self.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self._gone()
                await self._stderr
        self._stderr.cancel()
        self._pipes.close()

    async def _gone(self) -> None:
        await self._process.wait()
        while self._signal(0):  # noqa: ASYNC110 - nobody tells of the end of a process that is no child
            await asyncio.sleep(POLL_SECONDS)

    def _signal(self, number: int) -> bool:
        """To its whole group; False where there is none any more."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # some of it runs as somebody else by now
        return True


def environment(options: Options) -> tuple[dict[str, str], list[str], list[str]]:
    """The agent's environment, the secrets in it, and a sentence for each that it names and that is not there."""
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    secrets, missing = [], []
    for name, value in options.env.items():
        env[name] = value
        if named := _SECRET.fullmatch(value):
            secret = read_secret(named[1])
            if secret is None:
                missing.append(f"The agent's {name} is to be the daemon's {named[1]}, which is not set")
                continue
            env[name] = secret
            secrets.append(secret)
    return env, secrets, missing


def lacks(options: Options) -> list[str]:
    """What keeps the agent from being started, a sentence for each, as far as that can be said from elsewhere than the
    daemon: without `cwd`, a relative path of the program is one from the daemon's directory.
    """
    env, _, missing = environment(options)
    name = options.command[0]
    if options.cwd is not None or "/" not in name or Path(name).is_absolute():
        try:
            _program(options, env)
        except TaskFailed as failure:
            missing.append(str(failure.message))
    return missing


def _program(options: Options, env: Mapping[str, str]) -> str:
    """Where the command is. Raises `TaskFailed`."""
    folder = options.cwd or Path.cwd()
    if not folder.is_dir():
        raise TaskFailed("The agent cannot be started: its directory is not there")
    name = options.command[0]
    found = shutil.which(folder / name if "/" in name else name, path=env.get("PATH"))
    if found is None:
        if "/" in name and (folder / name).is_file():
            raise TaskFailed(f"The agent cannot be started: {name!r} is not executable")
        raise TaskFailed(f"The agent cannot be started: there is no program {name!r}")
    return str(found)
