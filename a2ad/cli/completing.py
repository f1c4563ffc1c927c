"""What a shell is offered for the words of a command line: ids and names that the running daemon knows.

Quick and silent: where no daemon answers at once, nothing is offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from a2ad.cli.table import cell, cut
from a2ad.cli.terminal import word

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from a2ad.cli.client import Daemon

#: how long a daemon may take, in seconds
PATIENCE = 1.0
#: tasks that are offered
MOST_TASKS = 50
#: what shells show beside a value, in columns
_HELP = 60
# shells put a value on the command line as it is, and somebody else may have chosen the name
_PLAIN = re.compile(r"[\w][\w.@+-]*", re.ASCII)

Row: TypeAlias = Mapping[str, Any]
Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]


def _completer(offered: Callable[[Daemon], Iterable[tuple[Any, Any]]]) -> Completer:
    return _completer_within(lambda daemon, _ctx: offered(daemon))


def _completer_within(offered: Callable[[Daemon, click.Context], Iterable[tuple[Any, Any]]]) -> Completer:
    """Offers values with what is said of each, those that begin as the word does."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        try:
            found = dict(offered(_daemon(ctx), ctx))
        except Exception:  # noqa: BLE001 - a prompt is no place for what went wrong
            return []
        return [
            CompletionItem(value, help=cut(cell(said), _HELP))
            for value, said in found.items()
            if isinstance(value, str) and value.startswith(incomplete) and _PLAIN.fullmatch(value)
        ]

    return complete


def _daemon(ctx: click.Context) -> Daemon:
    from a2ad.cli.client import configured_daemon, daemon_at
    from a2ad.config import load

    if url := ctx.params.get("url") or os.environ.get("A2AD_URL"):
        return daemon_at(str(url), "")
    file = ctx.params.get("config_file")
    return configured_daemon(load(Path(file) if file else None, environ=os.environ))


def _named(name: str) -> Completer:
    """The ids, and the names that only one has."""

    def offered(daemon: Daemon) -> Iterable[tuple[Any, Any]]:
        rows = daemon.rows(name, timeout=PATIENCE)
        names = [row.get("name") for row in rows]
        yield from ((row.get("name"), row.get("id")) for row in rows if names.count(row.get("name")) == 1)
        yield from ((row.get("id"), row.get("name")) for row in rows)

    return _completer(offered)


def _tasks(wanted: Callable[[Row], bool]) -> Completer:
    def offered(daemon: Daemon) -> Iterable[tuple[Any, Any]]:
        snapshot = daemon.snapshot(taskLimit=MOST_TASKS, timeout=PATIENCE)
        for row in daemon.listed(snapshot, "tasks"):
            if wanted(row):
                yield row.get("id"), f"{word(str(row.get('state')))}: {row.get('summary')}"

    return _completer(offered)


def _skills(name: str, wanted: Callable[[Row, str], bool] = lambda _row, _skill: True) -> Completer:
    """The skills of the inbound server or connection that the words before name; once, where a text follows."""

    def offered(daemon: Daemon, ctx: click.Context) -> Iterable[tuple[Any, Any]]:
        if ctx.params.get("words"):
            return
        # behind an option that lacks its value, click has not read the arguments yet
        given = ctx.params.get(name.removesuffix("s")) or ctx.params.get("connection") or ctx.args[0]
        row = daemon.find(name, given)
        for skill in row.get("skills") or (row.get("card") or {}).get("skills") or ():
            if wanted(row, skill["id"]):
                yield skill["id"], skill.get("name")

    return _completer_within(offered)


def _disabled(row: Row, skill: str) -> bool:
    return skill in (row.get("disabledSkills") or ())


def _presets(daemon: Daemon) -> Iterable[tuple[Any, Any]]:
    return ((row.get("id"), row.get("name")) for row in daemon.get("/presets", timeout=PATIENCE))


def _contexts(daemon: Daemon) -> Iterable[tuple[Any, Any]]:
    for row in daemon.rows("sessions", timeout=PATIENCE):
        yield row.get("contextId"), f"{row.get('state')}, {row.get('serverId')}"


def _peers(daemon: Daemon) -> Iterable[tuple[Any, Any]]:
    for row in daemon.rows("peers", timeout=PATIENCE):
        yield row.get("id"), f"{row.get('method')} from {row.get('source')}"


def _waits(row: Row) -> bool:
    return word(str(row.get("state"))) in {"input required", "auth required"}


def _goes_on(row: Row) -> bool:
    return word(str(row.get("state"))) in {"submitted", "working", "input required", "auth required"}


complete_inbound = _named("inbounds")
complete_connection = _named("outbounds")
complete_task = _tasks(lambda _row: True)
complete_open_task = _tasks(_goes_on)
complete_waiting_task = _tasks(_waits)
complete_inbound_skill = _skills("inbounds")
complete_skill = _skills("outbounds")
complete_enabled_skill = _skills("outbounds", lambda row, skill: not _disabled(row, skill))
complete_disabled_skill = _skills("outbounds", _disabled)
complete_presets = _completer(_presets)
complete_context = _completer(_contexts)
complete_peer = _completer(_peers)
