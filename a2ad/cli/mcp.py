"""`a2ad mcp`: the tools of the running daemon for any MCP client, over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import click

from a2ad.cli.client import NoDaemon, control_url, url_option
from a2ad.cli.options import config_option, load_or_exit
from a2ad.cli.terminal import Failure


@click.command()
@url_option
@config_option
@click.option("--session", metavar="ID", help="Call for this session of an agent of the daemon's own.")
def mcp(url: str | None, config_file: Path | None, session: str | None) -> None:
    """Serve the remote agents' skills as MCP tools on stdin and stdout. An MCP client starts this."""
    # An end like that of stdin: what is open is closed by the system, and the daemon cancels the calls.
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(0))
    address = control_url(load_or_exit(config_file).config, url)
    try:
        from a2ad.mcp import log_to_stderr
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise Failure("`a2ad mcp` needs the extra `mcp`: pip install 'a2ad[mcp]'") from None
    log_to_stderr()
    asyncio.run(_serve(address, session))


async def _serve(address: str, session: str | None) -> None:
    from a2ad.agent import ToolError
    from a2ad.mcp import connected, serve
    from a2ad.model import new_id

    caller = {"session": session} if session else {"caller": new_id()}
    async with connected(address, caller) as daemon:
        try:
            await serve(daemon)
        except ToolError as error:
            raise NoDaemon(f"{error}; `a2ad serve` starts one") from None
