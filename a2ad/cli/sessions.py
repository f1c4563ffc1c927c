"""`a2ad sessions` and `a2ad peers`: the conversations that are live, and the requests that are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from a2ad.cli.acts import act, done, given
from a2ad.cli.completing import complete_context, complete_inbound, complete_peer
from a2ad.cli.groups import ListGroup
from a2ad.cli.inputs import daemon_options
from a2ad.cli.table import table
from a2ad.cli.terminal import echo_json, show_lines

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon

SESSION = ("context", "state", "inbound", "agent", "turns", "active", "task")
PEER = ("id", "inbound", "method", "from", "since", "task")


@click.group(cls=ListGroup)
def sessions() -> None:
    """List, interrupt and end agents' conversations. Without a command they are listed.

    CONTEXT is the id of a conversation.

    \b
    a2ad sessions
    a2ad sessions cancel 0193b2c4-…
    """  # noqa: D301 - click's own mark for lines that are to stay as they are


context_argument = click.argument("context", shell_complete=complete_context)
inbound_option = click.option(
    "--inbound", metavar="INBOUND", shell_complete=complete_inbound, help="Only that of this inbound server."
)


@sessions.command("list")
@daemon_options
def list_sessions(daemon: Daemon, *, as_json: bool) -> None:
    """List the live sessions; --json has the rows of the control API.

    \b
    a2ad sessions list --json
    """  # noqa: D301
    found = daemon.rows("sessions")
    if as_json:
        echo_json(found)
        return
    cells = [
        {
            **row,
            "context": row.get("contextId"),
            "inbound": row.get("serverId"),
            "active": row.get("lastActiveAt"),
            "task": row.get("taskId"),
        }
        for row in found
    ]
    show_lines(table(SESSION, cells, weakest=("active", "turns", "agent", "task", "inbound")))


@sessions.command()
@context_argument
@inbound_option
@daemon_options
def cancel(context: str, inbound: str | None, daemon: Daemon, *, as_json: bool) -> None:
    """Cancel what is active in a conversation; the session stays.

    \b
    a2ad sessions cancel 0193b2c4-…
    """  # noqa: D301
    _act_on(daemon, "session.cancel", context, inbound, as_json)


@sessions.command()
@context_argument
@inbound_option
@daemon_options
def close(context: str, inbound: str | None, daemon: Daemon, *, as_json: bool) -> None:
    """End a conversation's session. What is active in it is canceled.

    Its next message begins a new session.

    \b
    a2ad sessions close 0193b2c4-…
    """  # noqa: D301
    _act_on(daemon, "session.close", context, inbound, as_json)


@click.group(cls=ListGroup)
def peers() -> None:
    """List and close what clients have open now. Without a command it is listed.

    That is requests and streams.

    \b
    a2ad peers
    a2ad peers close peer-7
    """  # noqa: D301


@peers.command("list")
@daemon_options
def list_peers(daemon: Daemon, *, as_json: bool) -> None:
    """List what is open; --json has the rows of the control API.

    \b
    a2ad peers list --json
    """  # noqa: D301
    found = daemon.rows("peers")
    if as_json:
        echo_json(found)
        return
    cells = [
        {
            **row,
            "inbound": row.get("serverId"),
            "from": row.get("source"),
            "since": row.get("connectedAt"),
            "task": ", ".join(row.get("taskIds") or ()),
        }
        for row in found
    ]
    show_lines(table(PEER, cells, weakest=("since", "from", "inbound", "task")))


@peers.command("close")
@click.argument("peer", shell_complete=complete_peer)
@daemon_options
def close_peer(peer: str, daemon: Daemon, *, as_json: bool) -> None:
    """Close a connection; its task goes on.

    \b
    a2ad peers close peer-7
    """  # noqa: D301
    done(act(daemon, "inbound.close", as_json, id=peer), as_json)


def _act_on(daemon: Daemon, action: str, context: str, inbound: str | None, as_json: bool) -> None:
    server = daemon.find("inbounds", inbound)["id"] if inbound else None
    done(act(daemon, action, as_json, **given({"id": context, "serverId": server})), as_json)
