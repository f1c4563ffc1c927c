"""The options that several commands have, and the configuration that they lead to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from a2ad.config import FLAGS, Loaded, load
from a2ad.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

#: the parameter that click makes of an option → the key that it sets
_KEYS = {option.removeprefix("--").replace("-", "_"): key for option, key in FLAGS.items()}


def config_option(command: F) -> F:
    """Adds `--config` (the parameter `config_file`, a Path or None)."""
    path = click.Path(path_type=Path)
    return click.option("--config", "config_file", type=path, metavar="FILE", help="The configuration file.")(command)


def common_options(command: F) -> F:
    """Adds `--config`, `--state-dir` and `--plugins-dir` (`config_file`, `state_dir`, and the tuple `plugins_dir`)."""
    path = click.Path(path_type=Path)
    command = click.option(
        "--plugins-dir", type=path, multiple=True, metavar="DIR", help="A further directory of plugins; repeatable."
    )(command)
    command = click.option("--state-dir", type=path, metavar="DIR", help="Where the daemon keeps its own files.")(
        command
    )
    return config_option(command)


def load_or_exit(config_file: Path | None, **flags: Any) -> Loaded:
    """The configuration. Its problems go to stderr, a line each, and end the process with status 1.

    `flags` are the parameters of a command's options (`listen`, `state_dir`, `plugins_dir`, `log_format`, `log_level`)
    or dotted keys; None and empty tuples mean that the option was not given.
    """
    try:
        return load(config_file, environ=os.environ, flags={_KEYS.get(name, name): flags[name] for name in flags})
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"a2ad: {problem}", err=True)
        raise SystemExit(1) from None
