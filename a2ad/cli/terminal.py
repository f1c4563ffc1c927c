"""What commands say on stdout and stderr: nothing that comes from elsewhere drives the terminal."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

import click

from a2ad.model import TaskState

#: the exit status where a task waits for an answer
UNANSWERED = 3
#: how the state of something looks, by its word
_STYLES: dict[str, dict[str, Any]] = {
    state: style
    for style, states in (
        ({"fg": "green"}, ("completed", "connected", "enabled", "ok", "loaded")),
        ({"fg": "cyan"}, ("working", "submitted", "connecting", "busy")),
        ({"fg": "yellow"}, ("input required", "auth required", "question", "stopping")),
        ({"fg": "red"}, ("failed", "rejected", "error", "wrong", "degraded")),
        ({"dim": True}, ("canceled", "disabled", "idle")),
    )
    for state in states
}


class Failure(click.ClickException):
    """One line on stderr and exit status 1."""

    def show(self, file: Any = None) -> None:  # noqa: ARG002 - click's signature
        note(self.message)


def note(text: str) -> None:
    """Something about the command itself, on stderr."""
    aside(f"a2ad: {text}")


def aside(text: str, **style: Any) -> None:
    """A line on stderr, in a style where that has colours."""
    coloured = bool(style) and has_colours(sys.stderr)
    click.echo(click.style(safe(text), **style) if coloured else safe(text), err=True, color=coloured)


def show(text: str = "") -> None:
    """A line on stdout, which comes from elsewhere."""
    click.echo(safe(text))


def show_lines(lines: Iterable[str]) -> None:
    """Lines on stdout that are safe already, and coloured where that is wanted, such as a table's."""
    for line in lines:
        click.echo(line, color=has_colours(sys.stdout))


def echo_json(value: Any) -> None:
    """JSON on stdout; in ASCII, so no terminal minds it."""
    click.echo(json.dumps(value, indent=2))


def echo_json_line(value: Any) -> None:
    """JSON on one line of stdout: one of many values."""
    click.echo(json.dumps(value))


def has_colours(stream: TextIO | None) -> bool:
    """Whether colours are wanted there: on a terminal, unless `NO_COLOR`, `CLICOLOR=0` or `TERM=dumb` says no;
    elsewhere only where `FORCE_COLOR` or `CLICOLOR_FORCE` says so. `NO_COLOR` has the last word.
    """
    environ = os.environ
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in {"", "0"} for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    said_no = environ.get("CLICOLOR") == "0" or environ.get("TERM") == "dumb"
    return stream is not None and stream.isatty() and not said_no


def style_of(state: str) -> dict[str, Any]:
    """The style of a state's word, for `click.style`."""
    return _STYLES.get(state, {})


def word(state: str) -> str:
    """A task's state as people say it: `input required` for `TASK_STATE_INPUT_REQUIRED`."""
    return state.removeprefix("TASK_STATE_").lower().replace("_", " ")


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

    On a terminal nothing goes out that would drive it; elsewhere the text is passed as it is. `task` is what the task
    is called that answers, `agent` what its agent is, and `answering` says by which command a task's id is answered.
    """

    def __init__(
        self,
        *,
        as_json: bool,
        task: str = "the remote task",
        agent: str = "the remote agent",
        answering: Callable[[str], str] | None = None,
    ) -> None:
        self._as_json = as_json
        self._answering = answering
        self._task = task
        self._agent = agent
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

    def say_line(self, text: str) -> None:
        """What is new of the answer and stands on a line of its own."""
        self.say(f"\n{text}\n" if self._mid_line else f"{text}\n")

    def state(self, state: str, message: str) -> None:
        """The task's state, and what it says about it. An end is told by `finish`."""
        if (state, message) == self._status:
            return
        self._status = (state, message)
        found = TaskState(state)
        if not (found.terminal or found.interrupted):
            self.note(f"{word(state)}: {message}" if message else word(state), **style_of(word(state)))

    def finish(self, result: Mapping[str, Any]) -> int:
        """Tell what the call came to, `outbound.call`'s answer; returns the exit status."""
        if self._as_json:
            echo_json(result)
        return self.end(result)

    def end(self, result: Mapping[str, Any]) -> int:
        """As `finish`, where the result is not printed as JSON, or is already."""
        state, text = result.get("state"), str(result.get("text") or "")
        status = self._status[1] if self._status[0] == state else ""
        found = TaskState(state) if state else None
        settled = found is None or found is TaskState.COMPLETED
        question = result.get("question") or {}
        if found is not None and found.interrupted and not question:
            from a2ad.cli.asking import apart

            text, question = apart(text)
        rest = _unsaid(text, "".join(self._said) + ("" if settled else status))
        if rest and not self._as_json:
            self._write(rest if self._mid_line else rest.removeprefix("\n"))
        if self._mid_line:
            self._write("\n")
        if found is not None and found.interrupted:
            self.note(status or f"{self._agent} waits: {word(found)}", **style_of(word(found)))
            self._ask(question, result)
            return UNANSWERED
        if result.get("ok") is not True:
            self.note(f"a2ad: {_line(_failure(self._task, found, status, result))}", fg="red")
            return 1
        if found is not None:
            shown = status and _squeezed(status) != _squeezed(text)
            self.note(f"{word(found)}: {status}" if shown else word(found), **style_of(word(found)))
        return 0

    def _ask(self, question: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """What is to be known of a task that waits: what can be answered, its ids, and how it is answered."""
        from a2ad.cli.asking import option_lines

        for each in option_lines(question):
            self.note(each)
        for name, key in (("task", "taskId"), ("context", "contextId")):
            if result.get(key):
                self.note(f"{name}: {result[key]}")
        if self._answering is not None and result.get("taskId"):
            self.note(f"answer it: {self._answering(str(result['taskId']))}")

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

    def note(self, text: str, **style: Any) -> None:
        """A line on stderr; on the same screen not in the middle of one of the answer."""
        if sys.stderr is not None and sys.stderr.isatty():
            self.leave()
        aside(text, **style)


#: how a task can end in vain
_ENDS = {
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "was rejected",
    TaskState.CANCELED: "was canceled",
}


def _failure(task: str, state: TaskState | None, status: str, result: Mapping[str, Any]) -> str:
    if state in _ENDS:
        told = f"{task} {_ENDS[state]}"
        return f"{told}: {status}" if status else told
    return str(result.get("message") or "no reason given")


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
