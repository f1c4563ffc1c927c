"""The agent and its sessions: each turn is one run of the program."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from a2ad import Agent, AgentContext, AgentSession, Attachment, Preset, TaskFailed, TurnEnd, prompt_text
from a2ad_command.events import Event, jsonl_events, text_events
from a2ad_command.options import Options, parse_options
from a2ad_command.program import Program

#: what of the daemon's environment the program gets
INHERITED = ("PATH", "HOME", "LANG")


class CommandAgent(Agent):
    """Raises `PresetError` where the preset's options are wrong."""

    def __init__(self, preset: Preset) -> None:
        self._options = parse_options(preset.options)
        #: what runs now, of all sessions
        self._programs: set[Program] = set()

    async def open(self, context: AgentContext) -> AgentSession:
        return CommandSession(self._options, context, self._programs)

    async def check(self) -> Sequence[str]:
        program, cwd = self._options.command[0], self._options.cwd
        if cwd is not None and not cwd.is_dir():
            return [f"its cwd {cwd} is not there"]
        if os.sep in program and cwd is None and not Path(program).is_absolute():
            return ()  # it is looked for in the conversation's own directory
        path = self._options.env.get("PATH", os.environ.get("PATH"))
        place = cwd / program if os.sep in program and cwd is not None else Path(program)
        if shutil.which(place, path=path) is not None:
            return ()
        if os.sep in program and place.is_file():
            return [f"the program {program} is not executable"]
        return [f"the program {program} is not found"]

    async def close(self) -> None:
        await _kill(self._programs)


class CommandSession(AgentSession):
    """It remembers nothing: what a program keeps from turn to turn is in the working directory."""

    def __init__(self, options: Options, context: AgentContext, programs: set[Program]) -> None:
        self._options = options
        self._context = context
        self._programs = programs
        self._mine: set[Program] = set()

    async def prompt(
        self, parts: Sequence[dict[str, Any]], attachments: Sequence[Attachment]
    ) -> AsyncIterator[Event | TurnEnd]:
        name = Path(self._options.command[0]).name
        program = self._start(name, _prompt(parts, attachments))
        self._programs.add(program)
        self._mine.add(program)
        read = text_events if self._options.output == "text" else jsonl_events
        try:
            async with aclosing(read(program.read)) as events:
                async for event in events:
                    yield event
            await program.finish()
        except TimeoutError:
            raise TaskFailed(f"{name} took longer than {self._options.timeout_seconds} seconds") from None
        finally:
            status, stderr = await program.end()
            self._programs.discard(program)
            self._mine.discard(program)
        if status:
            raise TaskFailed(_failure(name, status, stderr))
        yield TurnEnd()

    def _start(self, name: str, prompt: str) -> Program:
        options, seconds = self._options, self._options.timeout_seconds
        given, as_argument = prompt.encode(), options.input == "argument"
        try:
            return Program(
                [*options.command, given] if as_argument else options.command,
                prompt=None if as_argument else given,
                env={**{key: os.environ[key] for key in INHERITED if key in os.environ}, **options.env},
                cwd=options.cwd or self._context.workdir,
                deadline=None if seconds is None else asyncio.get_running_loop().time() + seconds,
            )
        except OSError as error:
            where = "its cwd: " if options.cwd is not None and error.filename == options.cwd else ""
            raise TaskFailed(f"{name} could not be started: {where}{error.strerror}") from None
        except ValueError as error:  # a null character in an argument
            raise TaskFailed(f"{name} could not be started: {error}") from None

    async def close(self) -> None:
        await _kill(self._mine)


async def _kill(programs: set[Program]) -> None:
    await asyncio.gather(*(program.kill() for program in programs))


def _prompt(parts: Sequence[dict[str, Any]], attachments: Sequence[Attachment]) -> str:
    files = [f"[{file.name}, {file.media_type}, {file.size} bytes: {file.path}]" for file in attachments]
    return "\n".join([text for text in [prompt_text(parts)] if text] + files)


def _failure(name: str, status: int, stderr: str) -> str:
    how = f"ended with status {status}" if status > 0 else f"was ended by {_signal_name(-status)}"
    return f"{name} {how}" + (f": {stderr}" if stderr else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
