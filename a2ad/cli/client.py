"""The control API as the commands see it: where it is, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import click

from a2ad.cli.terminal import Failure
from a2ad.config import Config
from a2ad.config.values import CONTROL_PATH, THIS_MACHINE, parse_base_url

F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT = 10  # seconds
#: an action may ask a remote agent, and that takes up to ten seconds
ACTION_TIMEOUT = 30

# The control API is loopback only: no proxy can stand in between, whatever the environment says.
_opener = build_opener(ProxyHandler({}))


class NoDaemon(Failure):
    """No daemon answers where one was expected: one line that names the address, exit status 1."""


class Refused(Failure):
    """The daemon says no: `answer` is all that it says, its message and what is wrong by field is shown."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        message = str(answer["message"])
        errors = answer.get("errors")
        fields = errors.items() if isinstance(errors, dict) else ()
        told = [f"{field}: {text}" for field, texts in fields for text in texts if str(text) not in message]
        super().__init__("\n  ".join([message, *told]))


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
    return f"http://{address._replace(host=THIS_MACHINE.get(address.host, address.host))}"


def get_json(url: str, path: str) -> Any:
    """The JSON at a path of the control API; raises `NoDaemon` where none comes."""
    try:
        with _opener.open(url + path, timeout=TIMEOUT) as response:
            return json.load(response)
    except HTTPError as error:
        with error:
            raise NoDaemon(f"no a2ad daemon answered at {url}: HTTP status {error.code}") from error
    except ValueError as error:
        raise NoDaemon(f"no a2ad daemon answered at {url}: its answer is no JSON") from error
    except (OSError, HTTPException) as error:
        raise _no_daemon(url, error) from error


def rows(url: str, name: str) -> list[dict[str, Any]]:
    """A list of the snapshot, such as `outbounds`; raises `NoDaemon`."""
    snapshot = get_json(url, CONTROL_PATH)
    found = snapshot.get(name) if isinstance(snapshot, dict) else None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise NoDaemon(f"no a2ad daemon answered at {url}: its answer lists no {name}")
    return found


def find_connection(url: str, wanted: str) -> dict[str, Any]:
    """The row of a connection, by its id, else by a name that only one has. Raises `NoDaemon`, and `Failure`."""
    outbounds = rows(url, "outbounds")
    by_id = [row for row in outbounds if row.get("id") == wanted]
    found = by_id or [row for row in outbounds if row.get("name") == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(str(row.get("id")) for row in found)
        raise Failure(f"{len(found)} connections are called {wanted!r}; say by its id which one is meant: {ids}")
    names = ", ".join(str(row.get("name")) for row in outbounds)
    raise Failure(f"there is no connection {wanted!r}; " + (f"there are: {names}" if names else "there is none yet"))


def act(url: str, action: str, /, **fields: Any) -> dict[str, Any]:
    """The answer to a control action. Raises `Refused`, and `NoDaemon`."""
    headers = {"Content-Type": "application/json"}
    request = Request(url + CONTROL_PATH, _body(action, fields), headers)  # noqa: S310 - the scheme was looked at
    try:
        with _opener.open(request, timeout=ACTION_TIMEOUT) as response:
            return _read_answer(url, response.status, response.read())
    except HTTPError as error:
        with error:
            return _read_answer(url, error.code, error.read())
    except (OSError, HTTPException) as error:
        raise _no_daemon(url, error) from error


def stream(url: str, action: str, /, **fields: Any) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """The events of a control action that tells its progress: name and data, the last one is the `result`.

    Closing it ends the action. Raises `Refused`, and `NoDaemon`, also where the daemon goes away meanwhile.
    """
    address = urlsplit(url)
    assert address.hostname is not None
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    connection = kind(address.hostname, address.port, timeout=TIMEOUT)
    try:
        connection.connect()
        # from here on the daemon keeps the time, not this process
        connection.sock.settimeout(None)
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        connection.request("POST", address.path + CONTROL_PATH, _body(action, fields), headers)
        response = connection.getresponse()
        if response.headers.get_content_type() != "text/event-stream":
            yield "result", _read_answer(url, response.status, response.read())
            return
        try:
            yield from _events(response)
        except (OSError, HTTPException, ValueError) as error:
            raise NoDaemon(f"the daemon at {url} went away during the call") from error
    except (OSError, HTTPException) as error:
        raise _no_daemon(url, error) from error
    finally:
        connection.close()


def _events(response: HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    """The daemon's events up to the `result`: each has its name and one line of data."""
    name = ""
    while line := response.readline():
        field, _, value = line.decode(errors="replace").rstrip("\r\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)
            if name == "result":
                return
    raise ConnectionResetError


def _body(action: str, fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"action": action, **fields}).encode()


def _read_answer(url: str, status: int, body: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        answer = json.loads(body)
        if isinstance(answer, dict) and isinstance(answer.get("message"), str):
            if answer.get("ok") is True:
                return answer
            raise Refused(answer)
    raise NoDaemon(f"no a2ad daemon answered at {url}: HTTP status {status}")


def _no_daemon(url: str, error: Exception) -> NoDaemon:
    reason = error.reason if isinstance(error, URLError) else error
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return NoDaemon(f"no daemon answered at {url}: {said}; `a2ad serve` starts one")


def _checked(_ctx: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    try:
        return parse_base_url(url) if url else None
    except ValueError as error:
        raise click.BadParameter(f"expected an http or https URL, not {url!r}") from error
