"""What commands are given: texts, tokens, and how a daemon is found."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from a2ad.cli.client import control_url, url_option
from a2ad.cli.options import config_option, load_or_exit

F = TypeVar("F", bound=Callable[..., Any])


def daemon_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--url`, `--config` and `--json`; the command gets `url`, where the control API is, and `as_json`."""

    @functools.wraps(command)
    def found(*arguments: Any, url: str | None, config_file: Path | None, **more: Any) -> Any:
        return command(*arguments, url=control_url(load_or_exit(config_file).config, url), **more)

    return url_option(config_option(json_option(found)))


def json_option(command: F) -> F:
    """Adds `--json` (the parameter `as_json`)."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def text_argument(given: str) -> str:
    """What is to be said to an agent: the argument, or standard input for `-`. Wrong use where it cannot be said."""
    text = sys.stdin.buffer.read() if given == "-" else os.fsencode(given)
    if not text:
        raise click.BadParameter("it is empty", param_hint="TEXT")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise click.BadParameter("it is not UTF-8", param_hint="TEXT") from None


def token_of_variable(name: str, option: str) -> str:
    """The token that a variable of this command's environment holds, or a systemd credential; wrong use without."""
    from a2ad.credentials import is_token, read_secret

    token = read_secret(name)
    if token is None:
        raise click.BadParameter(f"the variable {name} is not set", param_hint=option)
    if not is_token(token):
        raise click.BadParameter(f"the variable {name} holds no token", param_hint=option)
    return token
