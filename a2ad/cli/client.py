"""The control API as the commands see it: where it is, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

import click

from a2ad.config import Config
from a2ad.config.values import parse_base_url

F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT = 10  # seconds
SNAPSHOT = "/a2a/api"

#: where a daemon that listens on every address is reached from this machine
_THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound

# The control API is loopback only: no proxy can stand in between, whatever the environment says.
_opener = build_opener(ProxyHandler({}))


class NoDaemon(click.ClickException):
    """No daemon answers where one was expected: one line that names the address, exit status 1."""


def url_option(command: F) -> F:
    """Adds `--url`, or `A2AD_URL` from the environment (the parameter `url`, a string or None)."""
    return click.option(
        "--url", envvar="A2AD_URL", metavar="URL", callback=_checked, help="Where the daemon's control API listens."
    )(command)


def control_url(config: Config, url: str | None) -> str:
    """The base URL of the control API: the one that was given, else where the configuration says that it listens."""
    if url:
        return url
    address = config.control_address() or config.listen_address()
    return f"http://{address._replace(host=_THIS_MACHINE.get(address.host, address.host))}"


def get_json(url: str, path: str) -> Any:
    """The JSON at a path of the control API; raises `NoDaemon` where none comes."""
    try:
        with _opener.open(url + path, timeout=TIMEOUT) as response:
            return json.load(response)
    except HTTPError as error:
        with error:
            raise NoDaemon(f"no a2ad daemon answered at {url}: HTTP status {error.code}") from error
    except URLError as error:
        raise NoDaemon(f"no daemon answered at {url}: {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise NoDaemon(f"no a2ad daemon answered at {url}: {str(error) or type(error).__name__}") from error


def _checked(_ctx: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    try:
        return parse_base_url(url) if url else None
    except ValueError as error:
        raise click.BadParameter(f"expected an http or https URL, not {url!r}") from error
