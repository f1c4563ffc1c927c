"""`a2ad mcp`: the tools of the running daemon for any MCP client, over stdin and stdout."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import click

from a2ad.cli.inputs import daemon_option
from a2ad.cli.terminal import Failure

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon


@click.command()
@click.option("--session", metavar="ID", help="Call for this session of an agent of the daemon's own.")
@daemon_option
def mcp(session: str | None, daemon: Daemon) -> None:
    """Serve the remote agents' skills as tools to an MCP client.

    It speaks MCP on stdin and stdout; an MCP client starts it.

    \b
    a2ad mcp
    a2ad mcp --url http://127.0.0.1:3080
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    # An end like that of stdin: what is open is closed by the system, and the daemon cancels the calls.
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(0))
    try:
        from a2ad.mcp import log_to_stderr
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise Failure("`a2ad mcp` needs the extra `mcp`: pip install 'a2ad[mcp]'") from None
    import asyncio

    log_to_stderr()
    asyncio.run(_serve(daemon, session))


async def _serve(daemon: Daemon, session: str | None) -> None:
    from a2ad.agent import ToolError
    from a2ad.cli.client import NoDaemon
    from a2ad.mcp import connected, serve
    from a2ad.model import new_id

    caller = {"session": session} if session else {"caller": new_id()}
    async with connected(daemon.url, caller) as connection:
        try:
            await serve(connection)
        except ToolError as error:
            raise NoDaemon(f"{error} ({daemon.origin}); {daemon.remedy}") from None
