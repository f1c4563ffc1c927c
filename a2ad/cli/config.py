"""`a2ad config`: every effective value and where it came from; `a2ad config check`: only whether it is valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.inputs import json_option
from a2ad.cli.options import common_options, config_option, load_or_exit, load_with_flags
from a2ad.cli.terminal import echo_json, note, show

if TYPE_CHECKING:
    from a2ad.config import Config

_WIDEST = 60  # columns; past it an origin stands where its own row ends


@click.group(invoke_without_command=True)
@common_options
@json_option
@click.pass_context
def config(
    ctx: click.Context, config_file: Path | None, state_dir: Path | None, plugins_dir: tuple[Path, ...], as_json: bool
) -> None:
    """Show every setting and where its value came from.

    --json has an object by key, each with `value` and `origin`. Secrets are `***`.

    \b
    a2ad config
    a2ad config --config ./a2ad.toml --json
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    if ctx.invoked_subcommand is not None:
        ctx.obj = config_file
        return
    from a2ad.config import flatten

    rows = flatten(load_or_exit(config_file, state_dir=state_dir, plugins_dir=plugins_dir))
    if as_json:
        echo_json({key: {"value": value, "origin": origin} for key, value, origin in rows})
        return
    lines = [(f"{key} = {json.dumps(value, ensure_ascii=False)}", origin) for key, value, origin in rows]
    width = max(len(line) for line, _ in lines if len(line) <= _WIDEST)
    for line, origin in lines:
        show(_printable(f"{line:<{width}}    ({origin})"))


@config.command()
@config_option
@json_option
@click.pass_obj
def check(group_file: Path | None, config_file: Path | None, *, as_json: bool) -> None:
    """Say whether the configuration is valid, or what is wrong.

    --json has `ok`, `problems` and `files`.

    \b
    a2ad config check --config ./a2ad.toml
    """  # noqa: D301
    problems, files = _checked(config_file or group_file)
    if as_json:
        echo_json({"ok": not problems, "problems": problems, "files": files})
    for problem in problems:
        note(_printable(problem))
    if problems:
        raise SystemExit(1)
    if not as_json:
        show(_printable(f"configuration is valid ({', '.join(files) or 'no file'})"))


def _checked(config_file: Path | None) -> tuple[list[str], list[str]]:
    """What is wrong, and the files that were read."""
    from a2ad.errors import ConfigError

    try:
        loaded = load_with_flags(config_file)
    except ConfigError as error:
        return list(error.problems), []
    return _problems(loaded.config), [_printable(str(path)) for path in loaded.files]


def _problems(config: Config) -> list[str]:
    """What only the plugins can tell: presets and a store that nobody brings."""
    from a2ad.builtin import check_store_scheme
    from a2ad.cli.loading import load_quietly
    from a2ad.errors import ConfigError

    host = load_quietly(config)
    problems: list[str] = []
    checks: list[Any] = [host.check_presets, lambda: check_store_scheme(config, host)]
    for ask in checks:
        try:
            ask()
        except ConfigError as error:
            problems += error.problems
    return problems


def _printable(line: str) -> str:
    # a name from the system need not be UTF-8
    return line.encode("utf-8", "backslashreplace").decode()
