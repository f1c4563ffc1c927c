"""`a2ad config`: every effective value and where it came from; `a2ad config check`: only whether it is valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a2ad.cli.options import common_options, config_option, load_or_exit
from a2ad.config import Config, flatten
from a2ad.errors import ConfigError

_WIDEST = 60  # columns; past it an origin stands where its own row ends


@click.group(invoke_without_command=True)
@common_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def config(
    ctx: click.Context, config_file: Path | None, state_dir: Path | None, plugins_dir: tuple[Path, ...], as_json: bool
) -> None:
    """Show the effective configuration and where each value came from."""
    if ctx.invoked_subcommand is not None:
        ctx.obj = config_file
        return
    rows = flatten(load_or_exit(config_file, state_dir=state_dir, plugins_dir=plugins_dir))
    if as_json:
        table = {key: {"value": value, "origin": origin} for key, value, origin in rows}
        click.echo(json.dumps(table, indent=2))
        return
    lines = [(f"{key} = {_shown(value)}", origin) for key, value, origin in rows]
    width = max(len(line) for line, _ in lines if len(line) <= _WIDEST)
    for line, origin in lines:
        click.echo(_printable(f"{line:<{width}}    ({origin})"))


@config.command()
@config_option
@click.pass_obj
def check(group_file: Path | None, config_file: Path | None) -> None:
    """Say whether the configuration is valid, or everything that is wrong with it."""
    loaded = load_or_exit(config_file or group_file)
    problems = _problems(loaded.config)
    for problem in problems:
        click.echo(_printable(f"a2ad: {problem}"), err=True)
    if problems:
        raise SystemExit(1)
    files = ", ".join(str(path) for path in loaded.files)
    click.echo(_printable(f"configuration is valid ({files or 'no file'})"))


def _problems(config: Config) -> list[str]:
    """What only the plugins can tell: presets and a store that nobody brings."""
    from a2ad.builtin import check_store_scheme
    from a2ad.cli.plugins import load_quietly

    host = load_quietly(config)
    problems: list[str] = []
    for ask in (host.check_presets, lambda: check_store_scheme(config, host)):
        try:
            ask()
        except ConfigError as error:
            problems += error.problems
    return problems


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _printable(line: str) -> str:
    # a name from the system need not be UTF-8
    return line.encode("utf-8", "backslashreplace").decode()
