"""The control API as the commands see it: where it is, and what it says."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from a2ad.cli.terminal import Failure

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

    from a2ad.config import Loaded

TIMEOUT = 10.0  # seconds
#: an action may ask a remote agent, and that takes up to ten seconds
ACTION_TIMEOUT = 30.0
#: what a list of the snapshot is called, of one row
NOUNS = {"inbounds": "inbound server", "outbounds": "connection"}


class NoDaemon(Failure):
    """No daemon answers where one was expected: one line that says where that is and who said so, exit status 1."""


class Lost(NoDaemon):
    """The daemon went away while it told something."""


class Refused(Failure):
    """The daemon says no: `answer` is all that it says, its message and what is wrong by field is shown. `status` is
    that of HTTP.
    """

    def __init__(self, answer: Mapping[str, Any], status: int) -> None:
        self.answer = answer
        self.status = status
        message = str(answer["message"])
        errors = answer.get("errors")
        fields = errors.items() if isinstance(errors, dict) else ()
        told = [f"{field}: {text}" for field, texts in fields for text in texts if str(text) not in message]
        super().__init__("\n  ".join([message, *told]))


class Event(NamedTuple):
    """Of a stream of the control API: its name, its id (empty where it has none), and its JSON."""

    name: str
    id: str
    data: Any


@dataclass(frozen=True, slots=True)
class Daemon:
    """The daemon at a base URL. `origin` says where the URL is from, `remedy` how a daemon gets there."""

    url: str
    origin: str
    remedy: str

    def get(self, path: str = "", /, *, timeout: float = TIMEOUT, **query: Any) -> Any:
        """The JSON at a path below `/a2a/api`; None is left out of the query. Raises `Refused`, and `NoDaemon`."""
        with self._answer("GET", path, query, timeout=timeout) as response:
            body = response.read()
        with suppress(ValueError):
            found = json.loads(body)
            if response.status == 200:
                return found
            if isinstance(found, dict) and isinstance(found.get("message"), str):
                raise Refused(found, response.status)
        raise self._other("its answer is no JSON" if response.status == 200 else f"HTTP status {response.status}")

    def snapshot(self, **query: Any) -> dict[str, Any]:
        """The snapshot, with a page of tasks as `query` wants it. Raises `Refused`, and `NoDaemon`."""
        found = self.get(**query)
        if not isinstance(found, dict):
            raise self._other("its answer is no snapshot")
        return found

    def rows(self, name: str, *, timeout: float = TIMEOUT) -> list[dict[str, Any]]:
        """A list of the snapshot, such as `outbounds`; raises `NoDaemon`."""
        return self.listed(self.snapshot(taskLimit=1, timeout=timeout), name)

    def listed(self, snapshot: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
        """As `rows`, of a snapshot that is there."""
        found = snapshot.get(name)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise self._other(f"its answer lists no {name}")
        return found

    def find(self, name: str, wanted: str) -> dict[str, Any]:
        """A row of `inbounds` or `outbounds`, by its id, else by a name that only one has. Raises `NoDaemon`, and
        `Failure`.
        """
        known, noun = self.rows(name), NOUNS[name]
        by_id = [row for row in known if row.get("id") == wanted]
        found = by_id or [row for row in known if row.get("name") == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(str(row.get("id")) for row in found)
            raise Failure(f"{len(found)} {noun}s are called {wanted!r}; say by its id which one is meant: {ids}")
        names = ", ".join(str(row.get("name")) for row in known)
        raise Failure(f"there is no {noun} {wanted!r}; " + (f"there are: {names}" if names else "there is none yet"))

    def act(self, action: str, /, **fields: Any) -> dict[str, Any]:
        """The answer to a control action. Raises `Refused`, and `NoDaemon`."""
        body = {"action": action, **fields}
        with self._answer("POST", "", {}, body=body, timeout=ACTION_TIMEOUT) as response:
            return self._read_answer(response)

    def act_on(self, action: str, /, **fields: Any) -> Generator[Event, None, None]:
        """The events of a control action that tells its progress, the last one is the `result`: its answer. A daemon
        that tells no progress has this one alone.

        Closing it leaves the daemon. Raises `Refused`, and `NoDaemon`, also where the daemon goes away meanwhile.
        """
        body = {"action": action, **fields}
        with self._answer("POST", "", {}, body=body, accept="text/event-stream", timeout=None) as response:
            if not _is_stream(response):
                yield Event("result", "", self._read_answer(response))
                return
            for event in self._events(response):
                yield event
                if event.name == "result":
                    return
        raise Lost(f"the daemon at {self.url} went away during the call")

    def events(self, path: str, /, *, last_id: str = "", **query: Any) -> Generator[Event, None, None]:
        """The events at a path below `/a2a/api`, those after `last_id` where the daemon can. Raises `Refused`, and
        `NoDaemon`: `Lost` where it goes away before the caller has closed this.
        """
        headers = {"Last-Event-ID": last_id} if last_id else {}
        with self._answer("GET", path, query, accept="text/event-stream", headers=headers, timeout=None) as response:
            if not _is_stream(response):
                self._read_answer(response)
                raise self._other("its answer is no stream")
            yield from self._events(response)
        raise Lost(f"the daemon at {self.url} went away")

    def _events(self, response: HTTPResponse) -> Iterator[Event]:
        from http.client import HTTPException

        try:
            yield from _parsed(response)
        except (OSError, HTTPException, ValueError) as error:
            raise Lost(f"the daemon at {self.url} went away") from error

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        *,
        timeout: float | None,
        body: Any = None,
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[HTTPResponse]:
        """Without a timeout, only to connect is bounded: from there on the daemon keeps the time."""
        from http.client import HTTPException
        from urllib.parse import urlencode, urlsplit

        from a2ad.config.values import CONTROL_PATH

        address = urlsplit(self.url)
        given = urlencode({name: value for name, value in query.items() if value is not None})
        target = f"{address.path}{CONTROL_PATH}{path}" + (f"?{given}" if given else "")
        sent = {
            "Accept": accept,
            **({"Content-Type": "application/json"} if body is not None else {}),
            **(headers or {}),
        }
        with closing(_connection(address, TIMEOUT if timeout is None else timeout)) as connection:
            try:
                connection.connect()
                if timeout is None:
                    connection.sock.settimeout(None)
                connection.request(method, target, json.dumps(body).encode() if body is not None else None, sent)
                with connection.getresponse() as response:
                    yield response
            except (OSError, HTTPException) as error:
                raise self._silent(error) from error

    def _read_answer(self, response: HTTPResponse) -> dict[str, Any]:
        with suppress(ValueError):
            answer = json.loads(response.read())
            if isinstance(answer, dict) and isinstance(answer.get("message"), str):
                if answer.get("ok") is True:
                    return answer
                raise Refused(answer, response.status)
        raise self._other(f"HTTP status {response.status}")

    def _other(self, reason: str) -> NoDaemon:
        return NoDaemon(f"no a2ad daemon answered at {self.url} ({self.origin}): {reason}")

    def _silent(self, error: Exception) -> NoDaemon:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return NoDaemon(f"no daemon answered at {self.url} ({self.origin}): {said}; {self.remedy}")


def daemon_at(url: str, origin: str) -> Daemon:
    """The daemon at a URL that somebody gave."""
    from urllib.parse import urlsplit

    from a2ad.config.values import LOOPBACK_NAMES

    address = urlsplit(url)
    if address.scheme != "http" or address.hostname not in LOOPBACK_NAMES:
        return Daemon(url, origin, "start one there with `a2ad serve`")
    place = address.netloc if address.port else f"{address.netloc}:80"
    return Daemon(url, origin, f"`a2ad serve --listen {place}` starts one there")


def configured_daemon(loaded: Loaded, flag: str = "") -> Daemon:
    """The daemon where the configuration says that its control API listens; `flag` is what names the configuration."""
    from a2ad.config.values import THIS_MACHINE

    control = loaded.config.control_address()
    address = control or loaded.config.listen_address()
    keys = ("server.control_listen",) if loaded.config.server.control_listen else ("server.listen", "server.public_url")
    origins = [f"{key} from {loaded.origins[key]}" for key in keys if loaded.origins[key] != "default"]
    url = f"http://{address._replace(host=THIS_MACHINE.get(address.host, address.host))}"
    return Daemon(url, "; ".join(origins) or "the default", f"`a2ad serve{flag}` starts one")


def _connection(address: Any, timeout: float) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection

    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    return kind(address.hostname, address.port, timeout=timeout)


def _is_stream(response: HTTPResponse) -> bool:
    return response.headers.get_content_type() == "text/event-stream"


def _parsed(response: HTTPResponse) -> Iterator[Event]:
    """Server-sent events as they come; a comment is none."""
    name, event_id, data = "", "", list[str]()
    while line := response.readline():
        field, _, value = line.decode(errors="replace").rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "id":
            event_id = value
        elif field == "data":
            data.append(value)
        elif not field and not value and data:
            yield Event(name, event_id, json.loads("\n".join(data)))
            name, event_id, data = "", "", []
