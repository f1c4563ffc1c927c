"""`a2ad serve`: the daemon in the foreground."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a2ad.cli.options import common_options, load_or_exit

if TYPE_CHECKING:
    import asyncio

    from a2ad.config import Config


@click.command()
@common_options
@click.option("--listen", metavar="HOST:PORT", help="Where A2A clients connect; port 0 takes a free one.")
@click.option("--demo", is_flag=True, help="Publish an agent `demo` and print the two commands that try it.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="How the log on stderr looks.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="How much of it there is.")
def serve(
    config_file: Path | None,
    state_dir: Path | None,
    plugins_dir: tuple[Path, ...],
    listen: str | None,
    log_format: str | None,
    log_level: str | None,
    *,
    demo: bool,
) -> None:
    """Run the daemon: it publishes agents as A2A servers.

    It runs until SIGTERM or Ctrl-C; a second one ends it at once.

    \b
    a2ad serve --demo
    a2ad serve --listen 127.0.0.1:0 --state-dir ./state --plugins-dir ./plugins
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    loaded = load_or_exit(
        config_file,
        state_dir=state_dir,
        plugins_dir=plugins_dir,
        listen=listen,
        log_format=log_format,
        log_level=log_level,
    )
    from a2ad.errors import ConfigError, StartupError
    from a2ad.logs import configure
    from a2ad.service import locked

    configure(loaded.config.log)
    try:
        with locked(loaded.config.state_dir):
            status = _run(loaded.config, demo=demo)
    except (StartupError, ConfigError) as error:
        for line in error.problems if isinstance(error, ConfigError) else [str(error)]:
            click.echo(f"a2ad: {line}", err=True)
        status = 1
    _leave(status)


def _run(config: Config, *, demo: bool) -> int:
    """Run the loop by hand. What a plugin's own asyncio tasks raise, SystemExit too, must not end it; and
    `asyncio.run` would wait for ever for code that does not heed its cancellation.
    """
    import asyncio

    import structlog

    from a2ad import memory
    from a2ad.service import serve as serve_until_stopped

    memory.configure()
    _raise_descriptors()
    loop = _new_event_loop()
    asyncio.set_event_loop(loop)
    daemon = loop.create_task(serve_until_stopped(config, demo=demo, announce=_announce))
    while True:
        try:
            loop.run_until_complete(daemon)
            break
        except (SystemExit, KeyboardInterrupt) as error:
            if daemon.done():
                raise
            structlog.get_logger().error("plugin.tried_to_exit", error=type(error).__name__)
    return 0


def _raise_descriptors() -> None:
    """Sockets are many here, and the soft limit is often 1,024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 1 << 20), hard)
        )


def _leave(status: int) -> None:
    """End the process now: a plugin's threads must not keep it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    import asyncio

    try:
        import uvloop
    except ImportError:  # it is there on Linux alone
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _announce(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()
