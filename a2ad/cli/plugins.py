"""`a2ad plugins`: which plugins there are and what became of each; and the commands that plugins add."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

import click
import structlog

from a2ad.builtin import load_plugins
from a2ad.cli.client import SNAPSHOT, NoDaemon, control_url, get_json, url_option
from a2ad.cli.options import config_option, load_or_exit
from a2ad.config import Config, load
from a2ad.errors import ConfigError
from a2ad.plugins import PluginHost

COLUMNS = ("name", "version", "state", "source", "error")


@click.command()
@url_option
@config_option
@click.option(
    "--plugins-dir",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A further directory of plugins, where no daemon is asked; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plugins(url: str | None, config_file: Path | None, plugins_dir: tuple[Path, ...], as_json: bool) -> None:
    """List the plugins of the daemon, or those that it would load."""
    config = load_or_exit(config_file, plugins_dir=plugins_dir).config
    address = control_url(config, url)
    try:
        rows = _ask(address)
        ignored = "; --plugins-dir is not asked" if plugins_dir else ""
        click.echo(f"a2ad: the plugins of the daemon at {address}{ignored}", err=True)
    except NoDaemon:
        if url:
            raise
        click.echo(f"a2ad: no daemon answered at {address}; this is what it would load", err=True)
        rows = [plugin.to_json() for plugin in load_quietly(config).plugins]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        for line in _table(rows):
            click.echo(line)


@cache
def register_plugin_commands(group: click.Group) -> None:
    """Let the plugins of the effective configuration add their commands to the group, once.

    Never fails and says nothing: `a2ad --help` must work where a plugin or the configuration is broken.
    """
    try:
        config = load(environ=os.environ).config
    except (ConfigError, OSError):
        return
    host = load_quietly(config)
    with redirect_stdout(sys.stderr):
        host.register_commands(group)


def _ask(address: str) -> Sequence[Mapping[str, Any]]:
    snapshot = get_json(address, SNAPSHOT)
    rows = snapshot.get("plugins") if isinstance(snapshot, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise NoDaemon(f"no a2ad daemon answered at {address}: its answer lists no plugins")
    return rows


def load_quietly(config: Config) -> PluginHost:
    """What the daemon would load. Its rows say what failed; and nothing that a plugin prints gets into the output."""
    log = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with redirect_stdout(sys.stderr):
        host, _ = load_plugins(config, log=log)
        with suppress(ConfigError):  # a configured preset's: `a2ad config check` says so
            host.check_presets()
    return host


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [list(COLUMNS), *([_cell(row.get(column)) for column in COLUMNS] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def _cell(value: object) -> str:
    # One line of printable characters, whatever a plugin's error says.
    text = " ".join(str(value or "").split())
    return "".join(each if each.isprintable() else "?" for each in text) or "-"
