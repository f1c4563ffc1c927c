"""What commands say on stdout and stderr: nothing that comes from elsewhere drives the terminal."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import click

from a2ad.model import TaskState

#: the exit status where a remote agent waits for an answer
UNANSWERED = 3


class Failure(click.ClickException):
    """One line on stderr and exit status 1."""

    def show(self, file: Any = None) -> None:  # noqa: ARG002 - click's signature
        note(self.message)


def note(text: str) -> None:
    """Something about the command itself, on stderr."""
    aside(f"a2ad: {text}")


def aside(text: str) -> None:
    click.echo(safe(text), err=True)


def echo_json(value: Any) -> None:
    """JSON on stdout; in ASCII, so no terminal minds it."""
    click.echo(json.dumps(value, indent=2))


def safe(text: str) -> str:
    """Without what would drive a terminal. A carriage return goes, too: what follows it would hide what is there."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text  # the usual case, without the import
    from a2ad.outbound.text import printable

    return printable(text).encode(errors="replace").decode()


def tell_output_error(error: OSError) -> None:
    """What became of our own output; that nobody reads it any more needs no word."""
    if not isinstance(error, BrokenPipeError):
        note(f"the answer cannot be written: {error.strerror}")


def exit_on_signals() -> None:
    """Ctrl-C and SIGTERM end the process in order, with status 130 and 143."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))


class Conversation:
    """A remote agent's answer as it comes: its text on stdout, statuses on stderr; as JSON, the result alone on stdout.

    On a terminal nothing goes out that would drive it; elsewhere the text is passed as it is.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        # there is none where the shell closed it
        self._out: TextIO = sys.stdout or io.StringIO()
        self._tty = self._out.isatty()
        if isinstance(self._out, io.TextIOWrapper):
            self._out.reconfigure(errors="replace")
        self._said: list[str] = []
        self._mid_line = False
        self._status = ("", "")

    def say(self, text: str) -> None:
        """What is new of the answer."""
        self._said.append(text)
        if not self._as_json:
            self._write(text)

    def state(self, state: str, message: str) -> None:
        """The remote task's state, and what it says about it. An end is told by `finish`."""
        if (state, message) == self._status:
            return
        self._status = (state, message)
        found = TaskState(state)
        if not (found.terminal or found.interrupted):
            self._aside(f"{_word(state)}: {message}" if message else _word(state))

    def finish(self, result: Mapping[str, Any]) -> int:
        """Tell what the call came to, `outbound.call`'s answer; returns the exit status."""
        state, text = result.get("state"), str(result.get("text") or "")
        status = self._status[1] if self._status[0] == state else ""
        found = TaskState(state) if state else None
        settled = found is None or found is TaskState.COMPLETED
        rest = _unsaid(text, "".join(self._said) + ("" if settled else status))
        if self._as_json:
            echo_json(result)
        elif rest:
            self._write(rest if self._mid_line else rest.removeprefix("\n"))
        if self._mid_line:
            self._write("\n")
        if found is not None and found.interrupted:
            self._aside(status or f"the remote agent waits: {_word(found)}")
            for name, key in (("task", "taskId"), ("context", "contextId")):
                if result.get(key):
                    self._aside(f"{name}: {result[key]}")
            return UNANSWERED
        if result.get("ok") is not True:
            self._aside(f"a2ad: {_line(_failure(found, status, result))}")
            return 1
        if found is not None:
            shown = status and _squeezed(status) != _squeezed(text)
            self._aside(f"{_word(found)}: {status}" if shown else _word(found))
        return 0

    def leave(self) -> None:
        """Go to a new line, where the answer ends in the middle of one."""
        if self._tty and self._mid_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        text = safe(text) if self._tty else text
        if text:
            self._out.write(text)
            self._out.flush()
            self._mid_line = not text.endswith("\n")

    def _aside(self, text: str) -> None:
        """A line on stderr; on the same screen not in the middle of one of the answer."""
        if sys.stderr is not None and sys.stderr.isatty():
            self.leave()
        aside(text)


#: how a task can end in vain
_ENDS = {
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "was rejected",
    TaskState.CANCELED: "was canceled",
}


def _failure(state: TaskState | None, status: str, result: Mapping[str, Any]) -> str:
    if state in _ENDS:
        told = f"the remote task {_ENDS[state]}"
        return f"{told}: {status}" if status else told
    return str(result.get("message") or "no reason given")


def _word(state: str) -> str:
    return state.removeprefix("TASK_STATE_").lower().replace("_", " ")


def _line(text: str) -> str:
    return " ".join(text.split())


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _unsaid(text: str, said: str) -> str:
    """What of a result was not said as it came: data, files, a closing message, the end of what was cut off. It begins
    with a line break where it does not go on from what was said.

    What was said may lack the line breaks between artifacts and parts, so blanks do not count. Where its order is
    another one, a line is rather said twice than left out.
    """
    if text.startswith(said):
        return text[len(said) :]
    said = _squeezed(said)
    if said.endswith(_squeezed(text)):
        return ""
    at = 0
    lines: list[str] = []
    for each in text.split("\n"):
        squeezed = _squeezed(each)
        if said.startswith(squeezed, at):
            at += len(squeezed)
        else:
            lines.append(f"\n{each}")
    return "".join(lines)
