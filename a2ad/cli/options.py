"""The options that several commands have, and the configuration that they lead to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from a2ad.cli.terminal import note

if TYPE_CHECKING:
    from a2ad.config import Loaded

F = TypeVar("F", bound=Callable[..., Any])


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
    from a2ad.errors import ConfigError

    try:
        return load_with_flags(config_file, **flags)
    except ConfigError as error:
        for problem in error.problems:
            note(problem)
        raise SystemExit(1) from None


def load_with_flags(config_file: Path | None, **flags: Any) -> Loaded:
    """As `load_or_exit`, but raises `ConfigError`."""
    from a2ad.config import FLAGS, load

    # the parameter that click makes of an option → the key that it sets
    keys = {option.removeprefix("--").replace("-", "_"): key for option, key in FLAGS.items()}
    return load(config_file, environ=os.environ, flags={keys.get(name, name): flags[name] for name in flags})
