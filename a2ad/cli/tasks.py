"""`a2ad tasks`: what the agents of this daemon were asked to do, and what became of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.acts import act, done, given, refusals
from a2ad.cli.completing import complete_inbound, complete_open_task, complete_task, complete_waiting_task
from a2ad.cli.groups import ListGroup
from a2ad.cli.inputs import daemon_options, text_argument
from a2ad.cli.table import cell, table
from a2ad.cli.terminal import echo_json, note, show_lines, word
from a2ad.cli.watch import watch
from a2ad.model import TaskState

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon

COLUMNS = ("id", "state", "inbound", "skill", "updated", "summary")
WEAKEST = ("inbound", "skill", "updated", "summary")
_STATES = {word(state).replace(" ", "-"): state for state in TaskState}


class StateType(click.Choice[str]):
    """A task's state, also as A2A names it."""

    def __init__(self) -> None:
        super().__init__(list(_STATES), case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Its short name; wrong use where it is none."""
        return super().convert(word(str(value)).replace(" ", "-"), param, ctx)


@click.group(cls=ListGroup)
def tasks() -> None:
    """List, show, follow, answer and cancel tasks. Without a command they are listed.

    \b
    a2ad tasks
    a2ad tasks list --state failed
    a2ad tasks watch
    """  # noqa: D301 - click's own mark for lines that are to stay as they are


tasks.add_command(watch)


@tasks.command("list")
@click.option("--state", type=StateType(), help="Only those in this state.")
@click.option(
    "--inbound", metavar="INBOUND", shell_complete=complete_inbound, help="Only those of this inbound server."
)
@click.option("--context", metavar="ID", help="Only those of this conversation.")
@click.option(
    "--limit", type=click.IntRange(1, 500), default=50, show_default=True, metavar="N", help="At most so many."
)
@click.option("--offset", type=click.IntRange(0), default=0, metavar="N", help="Pass over so many.")
@daemon_options
def list_(
    state: str | None, inbound: str | None, context: str | None, limit: int, offset: int, daemon: Daemon, *,
    as_json: bool,
) -> None:  # fmt: skip
    """List tasks, those first that changed last.

    --json has the rows of the control API.

    \b
    a2ad tasks list
    a2ad tasks list --state input-required --inbound reports
    a2ad tasks list --limit 100 --offset 100 --json
    """  # noqa: D301
    snapshot = daemon.snapshot(
        taskLimit=limit,
        taskOffset=offset or None,
        taskState=_STATES[state] if state else None,
        taskServerId=daemon.find("inbounds", inbound)["id"] if inbound else None,
        taskContextId=context,
    )
    found = daemon.listed(snapshot, "tasks")
    if as_json:
        echo_json(found)
    else:
        show_lines(table(COLUMNS, [_row(row) for row in found], weakest=WEAKEST))
    total = snapshot["taskTotal"]
    if offset + len(found) < total and found:
        note(f"{offset + 1} to {offset + len(found)} of {total}; --offset {offset + len(found)} shows what follows")


@tasks.command()
@click.argument("task", shell_complete=complete_task)
@daemon_options
def show(task: str, daemon: Daemon, *, as_json: bool) -> None:
    """Show a task: its timeline, artifacts and messages.

    --json has all that the control API says of it.

    \b
    a2ad tasks show 0193b2c4-…
    """  # noqa: D301
    from a2ad.cli.task_view import task_lines

    with refusals(as_json):
        found = daemon.get("/task", id=task)
    if as_json:
        echo_json(found)
    else:
        show_lines(task_lines(found))


@tasks.command()
@click.argument("task", shell_complete=complete_open_task)
@daemon_options
def cancel(task: str, daemon: Daemon, *, as_json: bool) -> None:
    """Cancel a task that has not ended.

    \b
    a2ad tasks cancel 0193b2c4-…
    """  # noqa: D301
    done(act(daemon, "task.cancel", as_json, id=task), as_json)


@tasks.command()
@click.argument("task", shell_complete=complete_waiting_task)
@click.argument("text", required=False)
@click.option("--option", metavar="ID", help="One of the options that it offers, by its id or name.")
@daemon_options
def answer(task: str, text: str | None, option: str | None, daemon: Daemon, *, as_json: bool) -> None:
    """Answer a task that waits, in the place of its client. A TEXT of `-` is standard input.

    \b
    a2ad tasks answer 0193b2c4-… "the second one"
    a2ad tasks answer 0193b2c4-… --option allow_once
    """  # noqa: D301
    from a2ad.cli.client import Refused

    if (text is None) == (option is None):
        raise click.UsageError("give either a TEXT or an --option")
    fields = given({"text": None if text is None else text_argument(text), "option": option})
    try:
        done(act(daemon, "task.answer", as_json, id=task, **fields), as_json)
    except Refused as refused:
        options = refused.answer.get("options")
        if isinstance(options, list) and not as_json:
            note(f"the options: {', '.join(cell(each.get('id') or each.get('name')) for each in options)}")
        raise


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "state": word(str(row.get("state"))),
        "inbound": row.get("serverId"),
        "updated": f"{ago(str(row.get('updatedAt')))} ago",
        "summary": row.get("error") or row.get("summary"),
    }


def ago(timestamp: str) -> str:
    """How long ago that was, in its largest unit: `5 s`, `3 min`, `2 h`, `4 d`."""
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
