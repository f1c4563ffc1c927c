"""`a2ad tasks watch`: one task as it goes on, or what becomes of all of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.asking import option_lines
from a2ad.cli.completing import complete_inbound, complete_open_task
from a2ad.cli.inputs import daemon_options
from a2ad.cli.table import cell, cut, terminal_width
from a2ad.cli.terminal import (
    Conversation,
    aside,
    echo_json_line,
    exit_on_signals,
    has_colours,
    note,
    style_of,
    tell_output_error,
    word,
)
from a2ad.model import TaskState

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon, Event
    from a2ad.cli.frames import Telling

#: between two attempts to reach a daemon that has gone away, in seconds
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 2.0
#: tasks of one snapshot, those that changed last; more changes between two of them are not seen
PAGE = 100
#: on a narrower terminal the time gives way to the id and the state, in columns
_WITH_TIME = 64


@click.command()
@click.argument("task", required=False, shell_complete=complete_open_task)
@click.option("--inbound", metavar="INBOUND", shell_complete=complete_inbound, help="Without TASK: only this one's.")
@daemon_options
def watch(task: str | None, inbound: str | None, daemon: Daemon, *, as_json: bool) -> None:
    """Follow a task, or the states of all tasks.

    A task is followed until it ends; without TASK all are, until Ctrl-C. A task's text is printed as it comes, its
    statuses go to stderr. The exit status is 0 where it completed, else 1. --json prints A2A's frames, or without TASK
    the control API's rows, a line each. A daemon that goes away is waited for.

    \b
    a2ad tasks watch 0193b2c4-…
    a2ad tasks watch --inbound reports
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    if task is not None and inbound is not None:
        raise click.UsageError("--inbound goes without a TASK")
    exit_on_signals()
    try:
        if task is not None:
            sys.exit(_follow(daemon, task, as_json=as_json))
        _follow_all(daemon, daemon.find("inbounds", inbound)["id"] if inbound else None, as_json=as_json)
    except OSError as error:
        tell_output_error(error)
        sys.exit(1)


def _follow(daemon: Daemon, task_id: str, *, as_json: bool) -> int:
    """The exit status."""
    from a2ad.cli.frames import Telling

    conversation = Conversation(as_json=as_json, task="the task", agent="the agent")
    telling = Telling(conversation)
    asked = ""
    with closing(_lasting(daemon, "/task/events", conversation, id=task_id)) as events:
        for event in events:
            if event.name == "end":
                break
            if as_json:
                echo_json_line(event.data)
            telling.take(event.data)
            asked = _tell_question(telling, conversation, asked)
    return conversation.end(telling.outcome())


def _tell_question(telling: Telling, conversation: Conversation, asked: str) -> str:
    """Say once what the task waits for, and how it is answered; returns what was said last."""
    if telling.state is None or not telling.state.interrupted:
        return ""
    question = f"{word(telling.state)}: {telling.status}" if telling.status else word(telling.state)
    if question != asked:
        conversation.note(question, **style_of(word(telling.state)))
        for each in option_lines(telling.question):
            conversation.note(each)
        conversation.note(f'a2ad tasks answer {telling.task_id} "…" answers it')
    return question


def _follow_all(daemon: Daemon, inbound_id: str | None, *, as_json: bool) -> None:
    known: dict[str, str] | None = None
    with closing(_lasting(daemon, "/events", None, taskLimit=PAGE, taskServerId=inbound_id)) as events:
        for event in events:
            rows = daemon.listed(event.data, "tasks")
            changed = [row for row in rows if known is None or known.get(str(row.get("id"))) != row.get("state")]
            if known is None:  # what has ended is no news
                changed = [row for row in changed if not TaskState(row["state"]).terminal]
            elif len(changed) == PAGE:
                note(f"more than {PAGE} tasks have changed at once: `a2ad tasks list` has them all")
            for row in reversed(changed):
                if as_json:
                    echo_json_line(row)
                else:
                    _tell_row(row)
            # one that has ended does not come back; any other may, when the page was too short for it
            lasting = {name: state for name, state in (known or {}).items() if not TaskState(state).terminal}
            known = lasting | {str(row.get("id")): str(row.get("state")) for row in rows}


def _tell_row(row: dict[str, Any]) -> None:
    state = word(cell(row.get("state")))
    head = f"{cell(row.get('id'))}  "
    tail = f"  {cell(row.get('serverId'))}  {cell(row.get('error') or row.get('summary'))}"
    limit = terminal_width()
    if limit is None or limit >= _WITH_TIME:
        head = f"{cell(row.get('updatedAt'))[11:19]}  {head}"
    if limit is not None:
        tail = cut(tail, max(0, limit - len(head) - len(f"{state:14}")))
    colours = has_colours(sys.stdout)
    shown = click.style(f"{state:14}", **style_of(state)) if colours else f"{state:14}"
    click.echo(f"{head}{shown}{tail}", color=colours)


def _lasting(
    daemon: Daemon, path: str, conversation: Conversation | None, **query: Any
) -> Generator[Event, None, None]:
    """The events at a path, also past a restart of the daemon: it is waited for, and says what was missed. Raises what
    the first attempt raises, and `Refused` where the daemon that is back has nothing there.
    """
    from a2ad.cli.client import Lost, NoDaemon, Refused

    tell = conversation.note if conversation is not None else aside
    reached, away, last_id, pause = False, False, "", FIRST_PAUSE
    while True:
        try:
            for event in daemon.events(path, last_id=last_id, **query):
                if away:
                    tell("a2ad: the daemon is back")
                reached, away, pause = True, False, FIRST_PAUSE
                last_id = event.id or last_id
                yield event
        except Lost:
            reached = True
        except NoDaemon:
            if not reached:
                raise
        except Refused as refused:
            if not reached or refused.status != 503:  # it is about to stop
                raise
        if not away:
            tell(f"a2ad: the daemon at {daemon.url} is gone; waiting for it")
            away = True
        time.sleep(pause)
        pause = min(LONGEST_PAUSE, pause * 2)
