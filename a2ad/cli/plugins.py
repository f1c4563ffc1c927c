"""`a2ad plugins`: which plugins there are and what became of each; `a2ad plugins new`: a package to start from."""

from __future__ import annotations

import os
from pathlib import Path

import click

from a2ad.cli.inputs import find_daemon, json_option, url_option
from a2ad.cli.options import config_option, load_or_exit
from a2ad.cli.table import table
from a2ad.cli.terminal import Failure, echo_json, note, show, show_lines

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
@json_option
@click.pass_context
def plugins(
    ctx: click.Context, url: str | None, config_file: Path | None, plugins_dir: tuple[Path, ...], as_json: bool
) -> None:
    """List the daemon's plugins, or those that it would load.

    --json has the rows of the control API.

    \b
    a2ad plugins
    a2ad plugins --plugins-dir ./plugins --json
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    if ctx.invoked_subcommand is not None:
        return
    from a2ad.cli.client import NoDaemon

    config = load_or_exit(config_file, plugins_dir=plugins_dir).config
    daemon = find_daemon(url, config_file)
    try:
        found = daemon.rows("plugins")
        ignored = "; --plugins-dir is not asked" if plugins_dir else ""
        note(f"the plugins of the daemon at {daemon.url}{ignored}")
    except NoDaemon:
        if url:
            raise
        from a2ad.cli.loading import load_quietly

        note(f"no daemon answered at {daemon.url} ({daemon.origin}); this is what it would load")
        found = [plugin.to_json() for plugin in load_quietly(config).plugins]
    if as_json:
        echo_json(found)
    else:
        show_lines(table(COLUMNS, found, weakest=("source", "version")))


@plugins.command()
@click.argument("name")
@json_option
def new(name: str, *, as_json: bool) -> None:
    """Write a package to start from into a new folder NAME.

    It has an executor, a preset and tests that pass. --json has the `files` that were written.

    \b
    a2ad plugins new my_agent
    """  # noqa: D301
    from a2ad.cli.new_plugin import is_module, is_name, write_package

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
    files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    if as_json:
        echo_json({"files": files})
        return
    show(f"Written: {', '.join(files)}")
    show(f"\nTo try it:\n\npip install -e '{name}[test]'\npython -m pytest {name}\na2ad plugins")


def _taken(name: str) -> str | None:
    """What is called so of that which the package would bring."""
    from a2ad.cli.loading import load_quietly
    from a2ad.config import load
    from a2ad.errors import ConfigError

    try:
        host = load_quietly(load(environ=os.environ).config)
    except ConfigError:
        return None  # it is not the configuration that is asked for
    if name in {info.name for info in host.plugins}:
        return "a plugin"
    return "an executor" if name in host.executors else "a preset" if name in host.presets else None
