"""The command line as processes: run to the end, watched while it runs, and on a terminal."""

import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from a2ad.cli import COMMANDS, main

#: a bound that only a hang reaches, in seconds
PATIENCE = 60.0
#: the command as it is installed
PROGRAM = Path(sys.executable).parent / "a2ad"


def every_command() -> dict[str, click.Command]:
    """The built-in commands by what follows `a2ad`: groups and what is in them."""

    def below(path: str, found: click.Command | None) -> Iterator[tuple[str, click.Command]]:
        assert found is not None, path
        yield path, found
        if isinstance(found, click.Group):
            for name, each in found.commands.items():
                yield from below(f"{path} {name}", each)

    with click.Context(main) as root:
        return {path: each for name in COMMANDS for path, each in below(name, main.get_command(root, name))}


def is_group(found: click.Command) -> bool:
    return isinstance(found, click.Group)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "a2ad", *arguments]


def environment(url: str | None, env: dict[str, str] | None = None) -> dict[str, str]:
    """Nothing of the test run's own configuration; `url` is where the commands find the daemon."""
    own = {"COLUMNS", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"}
    inherited = {name: value for name, value in os.environ.items() if not (name.startswith("A2AD_") or name in own)}
    found = {"A2AD_URL": url} if url is not None else {}
    return {**inherited, "XDG_CONFIG_HOME": "/nonexistent", "TERM": "xterm", **found, **(env or {})}


class Done:
    """What a command came to. No command ends with a traceback."""

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status = status
        self.out = out.decode()
        self.err = err.decode()
        assert "Traceback" not in self.err, self.err

    def __repr__(self) -> str:
        return f"status {self.status}\nstdout: {self.out!r}\nstderr: {self.err!r}"

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(url: str | None, *arguments: str, stdin: str | bytes = b"", env: dict[str, str] | None = None) -> Done:
    """Run a command to its end; neither stdin, stdout nor stderr is a terminal."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        command(*arguments),
        input=given,
        capture_output=True,
        env=environment(url, env),
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def run_to_full_disk(url: str | None, *arguments: str) -> Done:
    """Run a command to its end whose standard output has no room."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(url),
            timeout=PATIENCE,
            check=False,
        )
    return Done(done.returncode, b"", done.stderr)


class Started:
    """A command that runs; `out` and `err` are read as far as they are waited for."""

    def __init__(self, url: str | None, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(url, env),
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._pipes = {"out": self.process.stdout, "err": self.process.stderr}
        self._read = {"out": b"", "err": b""}

    def await_text(self, text: str, name: str = "out") -> None:
        """Wait until stdout, or stderr (`err`), has this in it."""
        ends = time.monotonic() + PATIENCE
        while text.encode() not in self._read[name]:
            ready, _, _ = select.select([self._pipes[name]], [], [], ends - time.monotonic())
            piece = os.read(self._pipes[name].fileno(), 65536) if ready else b""
            assert piece, (text, self._read, self.process.poll())
            self._read[name] += piece

    def close_stdout(self) -> None:
        """As `head` does."""
        self._pipes["out"].close()

    def result(self) -> Done:
        """Wait for its end."""
        out, err = b"", b""
        if not self._pipes["out"].closed:
            out, err = self.process.communicate(timeout=PATIENCE)
        else:
            err = self._pipes["err"].read()
            self.process.wait(PATIENCE)
        return Done(self.process.returncode, self._read["out"] + out, self._read["err"] + err)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in self._pipes.values():
            pipe.close()


@contextmanager
def started(url: str | None, *arguments: str, **more: Any) -> Iterator[Started]:
    """A command that runs; it is killed where it still does at the end."""
    process = Started(url, *arguments, **more)
    try:
        yield process
    finally:
        process.kill()


#: makes its standard input the terminal of its session, and goes on as the command
_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def on_terminal(
    url: str | None,
    *arguments: str,
    answers: Sequence[tuple[str, str | Callable[[], Any]]] = (),
    env: dict[str, str] | None = None,
    columns: int = 80,
    colours: bool = False,
) -> tuple[int, str]:
    """Run a command on a terminal of its own: its exit status, and all that stood on the screen.

    `answers` are pairs: once the first is on the screen, the second is typed, or done.
    """
    screen, waiting = b"", list(answers)
    ends = time.monotonic() + PATIENCE
    terminal, line = os.openpty()
    fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _ON_TERMINAL, *command(*arguments)[1:]],
        stdin=line,
        stdout=line,
        stderr=line,
        start_new_session=True,
        env=environment(url, {**({} if colours else {"NO_COLOR": "1"}), **(env or {})}),
    )
    os.close(line)
    try:
        while piece := _read(terminal, ends):
            screen += piece
            if waiting and waiting[0][0].replace("\n", "\r\n").encode() in screen:
                _, reply = waiting.pop(0)
                if isinstance(reply, str):
                    os.write(terminal, reply.encode())
                else:
                    reply()
        status = process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    text = screen.decode().replace("\r\n", "\n")
    assert "Traceback" not in text, text
    return status, text


def _read(terminal: int, ends: float) -> bytes:
    """What comes next; nothing at its end."""
    ready, _, _ = select.select([terminal], [], [], max(0, ends - time.monotonic()))
    assert ready, "the command hangs"
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody holds the other end any more
        return b""


#: The preset `remote`: skills for every occasion. A door is a file; `wait` goes on once the one that the text names
#: is there.
PLUGIN = r"""
import asyncio
from pathlib import Path

from a2ad import (Artifact, AuthRequired, Executor, InputRequired, Reply, Status, TaskFailed, TaskRejected, TaskState,
                  hookimpl)


def piece(text, name="result", last=False):
    return Artifact(parts=[{"text": text}], artifact_id=name, append=True, last_chunk=last)


class Wait(Executor):
    async def execute(self, request):
        yield piece("before ")
        yield Status(TaskState.WORKING, "at the door")
        while not Path(request.text).exists():
            await asyncio.sleep(0.01)
        yield piece("after", last=True)


class Tick(Executor):
    async def execute(self, request):
        while True:
            yield piece("tick\n")
            await asyncio.sleep(0.01)


class Ask(Executor):
    async def execute(self, request):
        yield piece("So far so good.")
        answer = await request.ask("Which city?\nSay its name.")
        yield piece(" Sunny in " + answer["parts"][0]["text"], last=True)


class Pick(Executor):
    async def execute(self, request):
        yield piece("So far so good.")
        options = [{"id": "oslo", "name": "Oslo, in the north"}, {"id": "rome", "name": "Rome"}]
        answer = await request.ask("Which city?", options=options)
        yield piece(" It is " + answer["parts"][0]["text"], last=True)


class Login(Executor):
    async def execute(self, request):
        if not request.resumed:
            raise AuthRequired("Log in first")
        yield Artifact(parts=[{"text": "inside"}])


class Fail(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "half"}])
        raise TaskFailed("Out of\npaper")


class Reject(Executor):
    async def execute(self, request):
        raise TaskRejected("Not today")
        yield


class Mixed(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "Numbers:"}, {"data": {"count": 42}},
                              {"raw": b"hello", "filename": "a.txt", "mediaType": "text/plain"}], artifact_id="one")
        yield Artifact(parts=[{"text": "Place:"}, {"url": "https://x.example/b.png", "mediaType": "image/png"}],
                       artifact_id="two")


class Closing(Executor):
    async def execute(self, request):
        yield Status(TaskState.COMPLETED, "All is done.")


class Both(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "the answer"}])
        yield Status(TaskState.COMPLETED, "All is done.")


class Direct(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply(parts=[{"text": "You said " + request.text}])


class Escapes(Executor):
    async def execute(self, request):
        yield Status(TaskState.WORKING, "red \x1b[31malert")
        yield piece("title \x1b]0;")
        yield piece("gotcha\x07 \u202eback\n", last=True)


EXECUTORS = {"wait": Wait(), "tick": Tick(), "ask": Ask(), "login": Login(), "fail": Fail(), "reject": Reject(),
             "mixed": Mixed(), "closing": Closing(), "both": Both(), "direct": Direct(), "escapes": Escapes(),
             "pick": Pick()}


@hookimpl
def a2ad_register_executors(register):
    for name, executor in EXECUTORS.items():
        register(name, executor)


@hookimpl
def a2ad_register_presets(register):
    skills = [{"id": "chat"}, *({"id": name, "executor": name} for name in EXECUTORS)]
    register("remote", {"name": "Remote", "agent": "echo", "skills": skills})
"""
