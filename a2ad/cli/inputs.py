"""What commands are given: texts, files, tokens, and how a daemon is found."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from a2ad.cli.options import config_option, load_or_exit

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon

F = TypeVar("F", bound=Callable[..., Any])


def daemon_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--url`, `--config` and `--json`; the command gets `daemon`, where the control API is, and `as_json`."""
    return json_option(daemon_option(command))


def daemon_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--url` and `--config`; the command gets `daemon`, a `Daemon`."""

    @functools.wraps(command)
    def found(*arguments: Any, url: str | None, config_file: Path | None, **more: Any) -> Any:
        return command(*arguments, daemon=find_daemon(url, config_file), **more)

    return url_option(config_option(found))


def find_daemon(url: str | None, config_file: Path | None) -> Daemon:
    """Where the daemon is: at the URL of `--url` or `A2AD_URL`, else where the configuration says that it listens."""
    from a2ad.cli.client import configured_daemon, daemon_at

    if url:
        source = click.get_current_context().get_parameter_source("url")
        return daemon_at(url, "A2AD_URL" if source is click.core.ParameterSource.ENVIRONMENT else "--url")
    return configured_daemon(load_or_exit(config_file), f" --config {config_file}" if config_file else "")


def url_option(command: F) -> F:
    """Adds `--url`, or `A2AD_URL` from the environment (the parameter `url`, a string or None)."""
    return click.option(
        "--url", envvar="A2AD_URL", metavar="URL", callback=_checked, help="Where the daemon's control API listens."
    )(command)


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


def file_parts(paths: tuple[Path, ...]) -> list[dict[str, Any]]:
    """Files as parts of a message, each with its name and the media type that its name stands for."""
    from base64 import b64encode
    from mimetypes import guess_type

    parts = []
    for path in paths:
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise click.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint="--file") from None
        media_type, encoding = guess_type(path.name, strict=False)
        if media_type is None or encoding is not None:  # a compressed file is not of the type inside
            media_type = "application/octet-stream"
        name = path.name.encode(errors="replace").decode()
        parts.append({"raw": b64encode(raw).decode(), "filename": name, "mediaType": media_type})
    return parts


def token_options(command: F) -> F:
    """Adds `--token-env` and `--token-file` (`token_env`, a name or None, and `token_file`, a path or None)."""
    command = click.option(
        "--token-file",
        type=click.Path(path_type=Path, allow_dash=True),
        metavar="PATH",
        help="Take the token from a file; `-` is standard input, where a terminal is asked without showing it.",
    )(command)
    return click.option("--token-env", metavar="VAR", help="Take the token from a variable of this command.")(command)


def given_token(token_env: str | None, token_file: Path | None, *, twice: bool = False) -> str | None:
    """The token of these options, without the blanks around it; None without. It never comes from the command line,
    where others could read it. On a terminal it is asked for, `twice` where a slip would lock somebody out.
    """
    if token_env is not None and token_file is not None:
        raise click.UsageError("--token-env and --token-file exclude each other")
    if token_env is not None:
        return _token_of_variable(token_env)
    if token_file is None:
        return None
    found = (_asked(twice=twice) if str(token_file) == "-" else _read(token_file)).strip()
    if not found:
        raise click.UsageError("the token is empty")
    from a2ad.credentials import is_token

    if not is_token(found):
        raise click.BadParameter("that is no token: it has blanks or characters that no header can have",
                                 param_hint="--token-file")  # fmt: skip
    return found


def needed_token(token_env: str | None, token_file: Path | None, *, twice: bool = False) -> str:
    """As `given_token`; without the options it is asked for on a terminal, else read from standard input."""
    if token_env is None and token_file is None:
        token_file = Path("-")
    token = given_token(token_env, token_file, twice=twice)
    assert token is not None
    return token


def _token_of_variable(name: str) -> str:
    """The token that a variable of this command's environment holds, or a systemd credential; wrong use without."""
    from a2ad.credentials import is_token, read_secret

    token = read_secret(name)
    if token is None:
        raise click.BadParameter(f"the variable {name} is not set", param_hint="--token-env")
    if not is_token(token):
        raise click.BadParameter(f"the variable {name} holds no token", param_hint="--token-env")
    return token


def _asked(*, twice: bool) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True, confirmation_prompt=twice))
    return _decoded(sys.stdin.buffer.read(), "standard input")


def _read(path: Path) -> str:
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint="--token-file") from None


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise click.BadParameter(f"{where} is no text", param_hint="--token-file") from None


def _checked(_ctx: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    from a2ad.config.values import parse_base_url

    try:
        return parse_base_url(url) if url else None
    except ValueError as error:
        raise click.BadParameter(f"expected an http or https URL, not {url!r}") from error
