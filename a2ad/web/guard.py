"""Who may come in: addresses, Host and Origin names, rates (`protocol.md` 2 and 7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from urllib.parse import urlsplit

from aiohttp import StreamReader, web

from a2ad.outbound.net import OUTBOUND_HEADER
from a2ad.web.server import Connection

#: exactly these, and a Unix socket (`protocol.md` 1)
LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")
JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")
#: how long a client may pause in the middle of a body, and take for all of it, in seconds
BODY_SECONDS, BODY_SECONDS_ALL = 30.0, 300.0

Networks = Sequence[IPv4Network | IPv6Network]


class BodyError(Exception):
    """`status` 413 or 408."""

    def __init__(self, status: int) -> None:
        self.status = status


def peer_address(request: web.BaseRequest) -> str:
    """The address at the other end of the connection; `unix` for a Unix socket."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    return connection.peer


def is_loopback(address: str) -> bool:
    return address in LOOPBACK or address == "unix"


def source_address(request: web.BaseRequest, trusted: Networks) -> str:
    """Whom an A2A request comes from: behind trusted proxies, the rightmost address that is not one of them."""
    address = peer_address(request)
    if not trusted:
        return address
    hops = [hop.strip() for header in request.headers.getall("X-Forwarded-For", ()) for hop in header.split(",")]
    while hops and _within(address, trusted):
        hop = hops.pop()
        if not _is_address(hop):
            break  # whoever wrote that, it was not a proxy to be trusted
        address = hop
    return address


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a scope may be any text


def _within(address: str, networks: Networks) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return any(parsed in network for network in networks)


@lru_cache(maxsize=256)
def host_name(host: str | None) -> str:
    """The name in a Host header, in lower case, without port and brackets; empty where it is not `name` or
    `name:port`.
    """
    match = _HOST.fullmatch(host or "")
    if match is None or int(match["port"] or 0) > 65535:
        return ""
    if match["v6"] is not None:
        return match["v6"].lower() if ":" in match["v6"] and _is_address(match["v6"]) else ""
    return match["name"].lower()


def route_path(request: web.BaseRequest) -> str:
    """The path that decides who answers. A slash that is written as `%2F` is none: a proxy in front, whose rules keep
    some paths from the world, sees none either.
    """
    raw = request.rel_url.raw_path
    return raw if "%" not in raw or "%2f" in raw.lower() else request.path


def media_type(request: web.BaseRequest) -> str:
    """The Content-Type without its parameters, in lower case; empty where none was sent."""
    return _media_type(request.headers.get("Content-Type", ""))


@lru_cache(maxsize=256)
def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


async def read_body(request: web.BaseRequest, limit: int) -> bytes:
    """The whole body. Raises `BodyError` as soon as it is past `limit` bytes, or stands still too long."""
    content = request.content
    if content.is_eof():  # it came together with the headers, as most do
        body = content.read_nowait()
        if len(body) > limit:
            raise BodyError(413)
        return body
    declared = request.content_length
    if declared is not None and declared > limit:
        raise BodyError(413)
    if request.version >= (1, 1) and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun
    end = asyncio.get_running_loop().time() + BODY_SECONDS_ALL
    pieces: list[bytes] = []
    try:
        return await _read_pieces(content, limit, end, pieces)
    finally:
        pieces.clear()  # an exception of aiohttp's and its frames keep each other


async def _read_pieces(content: StreamReader, limit: int, end: float, pieces: list[bytes]) -> bytes:
    size = 0
    while True:
        if content.is_eof():
            piece = content.read_nowait()
        else:
            try:
                async with asyncio.timeout(min(BODY_SECONDS, end - asyncio.get_running_loop().time())):
                    piece = await content.readany()
            except TimeoutError:
                raise BodyError(408) from None
        if not piece:
            return b"".join(pieces)
        size += len(piece)
        if size > limit:
            raise BodyError(413)
        pieces.append(piece)


def control_refusal(request: web.BaseRequest, allowed_hosts: Sequence[str]) -> str | None:
    """Why a request must not reach the control API, or None. Against proxies, DNS rebinding and other sites' pages."""
    if not is_loopback(peer_address(request)):
        return "the control API answers to this machine alone"
    headers = request.headers
    if any(name in headers for name in PROXY_HEADERS):
        return "the request came through a proxy"
    if OUTBOUND_HEADER in headers:
        return "the request came from a daemon that calls a remote agent"
    hosts = headers.getall("Host", ())
    if len(hosts) != 1:
        return "there must be one Host header"
    name = host_name(hosts[0])
    if name not in LOOPBACK_NAMES and name not in allowed_hosts:
        return "the Host is not one of the daemon's names"
    origins = headers.getall("Origin", ())
    if origins:
        if not all(_same_origin(origin, request.scheme, hosts[0]) for origin in origins):
            return "the request came from another site"
    elif headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}:
        navigation = request.method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate"
        if not (navigation and (request.path in {"/", "/a2a/panel"} or request.path.startswith("/a2a/panel/"))):
            return "the request came from another site"
    return None


def _same_origin(origin: str, scheme: str, host: str) -> bool:
    """Scheme, host and port of this very request."""
    try:
        ours, theirs = urlsplit(f"{scheme}://{host}"), urlsplit(origin)
        default = {"http": 80, "https": 443}
        return (ours.scheme, ours.hostname, ours.port or default[ours.scheme]) == (
            theirs.scheme,
            theirs.hostname,
            theirs.port or default.get(theirs.scheme),
        ) and not (theirs.path or theirs.query or theirs.username)
    except ValueError:
        return False


class RateLimiter:
    """A bucket of requests for each source address: filled at `per_minute`, and never more than a minute's worth."""

    #: sources remembered before the quiet ones are forgotten
    MAX_SOURCES = 10_000

    def __init__(self, per_minute: int, *, loopback: bool) -> None:
        self._per_minute = per_minute
        self._loopback = loopback
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, source: str) -> int:
        """0 where the request may pass, else the seconds until the next one may."""
        if not self._per_minute or (not self._loopback and is_loopback(source)):
            return 0
        now = asyncio.get_running_loop().time()
        left, at = self._buckets.get(source, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * self._per_minute / 60)
        if left < 1:
            self._buckets[source] = (left, now)
            return max(1, int((1 - left) * 60 / self._per_minute) + 1)
        if source not in self._buckets and len(self._buckets) >= self.MAX_SOURCES:
            self._forget(now)
        self._buckets[source] = (left - 1, now)
        return 0

    def _forget(self, now: float) -> None:
        """Those whose bucket is full again; where that is nobody, the half that was here first."""
        self._buckets = {
            source: (left, at)
            for source, (left, at) in self._buckets.items()
            if left + (now - at) * self._per_minute / 60 < self._per_minute
        }
        if len(self._buckets) >= self.MAX_SOURCES:
            self._buckets = dict(list(self._buckets.items())[self.MAX_SOURCES // 2 :])
