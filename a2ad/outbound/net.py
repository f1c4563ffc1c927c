"""HTTP to remote agents, within bounds: sizes, redirects, addresses, and never into this daemon's own control API."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from aiohttp.resolver import DefaultResolver
from yarl import URL

from a2ad.config.values import CONTROL_PATH, PANEL_PATH
from a2ad.errors import RemoteAway, RemoteInvalid, RemoteRefused
from a2ad.outbound.text import QUOTED, line

#: says that a daemon is calling: the control API answers nobody who sends it
OUTBOUND_HEADER = "A2AD-Outbound"
MAX_REDIRECTS = 5
#: of a URL that is asked, in characters
MAX_URL = 8000
#: responses of 1xx before the one that counts
MAX_INFORMATIONAL = 20
#: how long a connection may take to be made, in seconds
CONNECT_SECONDS = 10.0
#: sockets to all remotes together, and to one; further calls wait within their own deadline
MAX_SOCKETS, MAX_SOCKETS_PER_HOST = 2000, 300
#: a refusal's own words are read so far, in bytes
REFUSAL_BYTES = 64 << 10

Headers = Mapping[str, str]


def origin_of(url: str) -> str:
    """Scheme, host and port, as `https://agents.example:443`. Raises `RemoteRefused` for what is no web URL."""
    if len(url) > MAX_URL:
        raise RemoteRefused(f"a URL of more than {MAX_URL} characters is not asked")
    return _origin_of(url)


@lru_cache(maxsize=256)
def _origin_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else {"http": 80, "https": 443}[parts.scheme]
        if "@" in parts.netloc:
            raise RemoteRefused("a URL with a user name or a password in it is not asked: set a token instead")
        if not parts.hostname or any(letter <= " " or letter == "\x7f" for letter in url):
            raise ValueError
        URL(url)
        if ":" not in parts.hostname:
            parts.hostname.encode("idna")  # as the resolver will
    except (ValueError, KeyError):
        raise RemoteRefused(f"{line(url, QUOTED)!r} is not an absolute http or https URL") from None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None)
    return (inner or ip).is_global and not (inner or ip).is_multicast


class Response(aiohttp.ClientResponse):
    """Knows the address at the other end, also when the connection is given back already."""

    peer = ""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        peername = connection.transport.get_extra_info("peername") if connection.transport is not None else None
        self.peer = str(peername[0]) if isinstance(peername, tuple) else ""
        protocol = connection.protocol
        assert protocol is not None
        # anew for each response: the connection may have had others
        setattr(protocol, "read", _few_informational(partial(type(protocol).read, protocol)))  # noqa: B010 - a method's
        return await super().start(connection)


def _few_informational(read: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """The library reads responses of 1xx without end. Here they end in the same turn of the loop: with each further one
    its parser would take in as many again as a socket's buffer holds.
    """
    seen = 0

    async def bounded() -> Any:
        nonlocal seen
        message, payload = await read()
        if 100 <= message.code < 200:
            seen += 1
            if seen > MAX_INFORMATIONAL:
                raise RemoteInvalid("the agent sends informational responses without end")
        return message, payload

    return bounded


class Net:
    """Two HTTP clients that share no connection: one that goes anywhere, and one that goes to public addresses alone.

    `own_ports`: those that this daemon listens on, and whether all of a port is the control API's, not only what lies
    below /a2a/api. That API itself refuses whoever sends `OUTBOUND_HEADER`, by whatever name it was found.
    """

    def __init__(self, own_ports: Mapping[int, bool] | None = None) -> None:
        self._own_ports = own_ports or {}
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    def _session(self, *, public_only: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(public_only)
        if session is None:
            resolver = _PublicResolver() if public_only else DefaultResolver()
            session = self._sessions[public_only] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=resolver, limit=MAX_SOCKETS, limit_per_host=MAX_SOCKETS_PER_HOST
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity", OUTBOUND_HEADER: "1"},
                skip_auto_headers={hdrs.USER_AGENT},
                response_class=Response,
                auto_decompress=False,  # nobody is asked to compress, and what is small must not become large
            )
        return session

    @asynccontextmanager
    async def request(
        self, method: str, url: str, *, headers: Headers, body: bytes | None = None, public_only: bool = False,
        follow: bool = True,
    ) -> AsyncIterator[Response]:  # fmt: skip
        """The response to a request, whatever its status; a redirect within the origin is followed, with `follow`.

        Raises `RemoteAway` for what may go better next time, `RemoteRefused` for what is not done. What goes wrong
        while the response is being read is one of these, too.
        """
        origin = origin_of(url)
        try:
            for _ in range(MAX_REDIRECTS + 1):
                self.check(url, public_only=public_only)
                async with self._session(public_only=public_only).request(
                    method, URL(url), headers=headers, data=body, allow_redirects=False
                ) as response:
                    if response.status not in {301, 302, 303, 307, 308}:
                        assert isinstance(response, Response)
                        yield response
                        return
                    if not follow:
                        raise RemoteRefused(f"{origin} redirects (HTTP {response.status}), which is not followed")
                    url = _redirected(response, method, origin)
        except aiohttp.ClientSSLError as error:
            raise RemoteRefused(f"the connection to {origin} is not safe: {error}") from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError):  # a header that cannot be one, too
            raise RemoteRefused(f"{line(url, QUOTED)!r} cannot be asked") from None
        except (aiohttp.ClientConnectorDNSError, aiohttp.ClientConnectorError) as error:
            if isinstance(error.os_error, _NotPublicError):
                raise RemoteRefused(str(error.os_error)) from None
            why = error.os_error.strerror or error.os_error
            raise RemoteAway(f"{origin} cannot be reached: {why}", unsent=True) from None
        except aiohttp.ClientResponseError as error:
            raise RemoteInvalid(f"{origin} answers with what is no HTTP: {type(error).__name__}") from None
        except (aiohttp.ClientError, ssl.SSLError, OSError, asyncio.IncompleteReadError) as error:
            raise RemoteAway(f"the connection to {origin} broke: {type(error).__name__}") from None
        raise RemoteRefused(f"{origin} redirects in a circle")

    def check(self, url: str, *, public_only: bool = False) -> None:
        """Raises `RemoteRefused` for what is never asked."""
        host, port, path = _read(url)
        whole = self._own_ports.get(port)
        if whole is not None and _is_this_machine(host) and (whole or _below_control(path)):
            raise RemoteRefused("the daemon's own control API is no remote agent")
        if public_only and _is_address(host) and not is_public(host):
            raise RemoteRefused(_NOT_PUBLIC.format(host))


@lru_cache(maxsize=256)
def _read(url: str) -> tuple[str, int, str]:
    """Host, port and path of a URL, as the client reads it."""
    parts = URL(url)
    return parts.raw_host or "", parts.port or 0, parts.path


@lru_cache(maxsize=256)
def _is_this_machine(host: str) -> bool:
    if not _is_address(host):
        return host.rstrip(".") == "localhost" or host.endswith(".localhost")
    ip = ip_address(host)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_loopback or ip.is_unspecified


@lru_cache(maxsize=256)
def _below_control(path: str) -> bool:
    segments: list[str] = []
    for segment in unquote(path).split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in {"", "."}:
            segments.append(segment)
    return f"/{'/'.join(segments[:2])}" in {CONTROL_PATH, PANEL_PATH}


def _redirected(response: aiohttp.ClientResponse, method: str, origin: str) -> str:
    try:
        target = str(response.url.join(URL(response.headers.get(hdrs.LOCATION, ""), encoded=True)))
    except ValueError:
        raise RemoteRefused(f"{origin} redirects to what is no address") from None
    if origin_of(target) != origin:
        raise RemoteRefused(
            f"{origin} redirects to {line(target, QUOTED)}, which is another origin: that is not followed"
        )
    if method != hdrs.METH_GET and response.status not in {307, 308}:
        raise RemoteRefused(f"{origin} redirects the call (HTTP {response.status}), which is not followed")
    return target


def check_available(response: Response) -> None:
    """Raises `RemoteAway` for 429 and 5xx: it may go better later."""
    if response.status == 429 or response.status >= 500:
        origin = origin_of(str(response.url))
        raise RemoteAway(f"{origin} answers HTTP {response.status}", retry_after=retry_after(response), unsent=True)


def bearer(token: str | None) -> dict[str, str]:
    """The header that carries a token, where there is one."""
    return {hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {}


async def read_bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body. Raises `RemoteInvalid` past `limit` bytes."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > limit:
            raise RemoteInvalid(f"the answer is larger than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def retry_after(response: aiohttp.ClientResponse) -> float | None:
    """`Retry-After` in seconds, from a number or a date (RFC 9110, 10.2.3)."""
    value = response.headers.get(hdrs.RETRY_AFTER, "").strip()
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


_NOT_PUBLIC = "{} is an address of a private network, and the card came from a public one"


class _NotPublicError(OSError):
    pass


class _PublicResolver(AbstractResolver):
    """Gives public addresses alone: a name that changes its address after it was looked at gains nothing."""

    def __init__(self) -> None:
        self._resolver = DefaultResolver()

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        public = [result for result in found if is_public(result["host"])]
        if not public:
            raise _NotPublicError(_NOT_PUBLIC.format(host))
        return public

    async def close(self) -> None:
        await self._resolver.close()


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
