"""`a2ad plugins`: which plugins there are and what became of each; `a2ad plugins new`: a package to start from; and the
commands that plugins add.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

import click
import structlog

from a2ad.builtin import load_plugins
from a2ad.cli.client import NoDaemon, control_url, rows, url_option
from a2ad.cli.new_plugin import is_module, is_name, write_package
from a2ad.cli.options import config_option, load_or_exit
from a2ad.cli.table import table
from a2ad.cli.terminal import Failure
from a2ad.config import Config, load
from a2ad.errors import ConfigError
from a2ad.plugins import PluginHost

COLUMNS = ("name", "version", "state", "source", "error")


@click.group(invoke_without_command=True)
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
@click.pass_context
def plugins(
    ctx: click.Context, url: str | None, config_file: Path | None, plugins_dir: tuple[Path, ...], as_json: bool
) -> None:
    """List the plugins of the daemon, or those that it would load."""
    if ctx.invoked_subcommand is not None:
        return
    config = load_or_exit(config_file, plugins_dir=plugins_dir).config
    address = control_url(config, url)
    try:
        found = rows(address, "plugins")
        ignored = "; --plugins-dir is not asked" if plugins_dir else ""
        click.echo(f"a2ad: the plugins of the daemon at {address}{ignored}", err=True)
    except NoDaemon:
        if url:
            raise
        click.echo(f"a2ad: no daemon answered at {address}; this is what it would load", err=True)
        found = [plugin.to_json() for plugin in load_quietly(config).plugins]
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for line in table(COLUMNS, found):
            click.echo(line)


@plugins.command()
@click.argument("name")
def new(name: str) -> None:
    """Write a package with an executor, a preset and a test that passes, into a new folder NAME."""
    if not is_name(name):
        what = "expected a Python identifier, such as my_agent, that neither begins nor ends with an underscore"
        raise click.BadParameter(what, param_hint="NAME")
    if os.path.lexists(name):
        raise Failure(f"{name} exists already")
    if is_module(name):
        raise click.BadParameter(f"there is a module {name} already", param_hint="NAME")
    if taken := _taken(name):
        raise click.BadParameter(f"there is {taken} {name} already", param_hint="NAME")
    try:
        folder = write_package(name)
    except OSError as error:
        raise Failure(f"{name} cannot be written: {error.strerror}") from None
    click.echo(f"Written: {', '.join(sorted(str(path) for path in folder.rglob('*') if path.is_file()))}")
    click.echo(f"\nTo try it:\n\npip install -e '{name}[test]'\npython -m pytest {name}\na2ad plugins")


def _taken(name: str) -> str | None:
    """What is called so of that which the package would bring."""
    try:
        host = load_quietly(load(environ=os.environ).config)
    except ConfigError:
        return None  # it is not the configuration that is asked for
    if name in {info.name for info in host.plugins}:
        return "a plugin"
    return "an executor" if name in host.executors else "a preset" if name in host.presets else None


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


def load_quietly(config: Config) -> PluginHost:
    """What the daemon would load. Its rows say what failed; and nothing that a plugin prints gets into the output."""
    with redirect_stdout(sys.stderr):
        host, _ = load_plugins(config, log=quiet_log())
        with suppress(ConfigError):  # a configured preset's: `a2ad config check` says so
            host.check_presets()
    return host


def quiet_log() -> Any:
    """A log that says nothing: what failed is told by other means."""
    return structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
