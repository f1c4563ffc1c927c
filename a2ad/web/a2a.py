"""The A2A endpoint: agent cards, and JSON-RPC in the order of `protocol.md` 2. The methods are in `methods`."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import structlog
from aiohttp import hdrs, web

from a2ad import errors
from a2ad.audit import Audit
from a2ad.card import Card, build_card
from a2ad.config import Config
from a2ad.engine import Engine
from a2ad.figures import Figures
from a2ad.inbound import Inbound, InboundRegistry
from a2ad.plugins import PluginHost
from a2ad.web import jsonrpc
from a2ad.web.answers import JSON_HEADERS, Answers
from a2ad.web.guard import (
    JSON_TYPES,
    LOOPBACK_NAMES,
    BodyError,
    RateLimiter,
    host_name,
    is_loopback,
    media_type,
    peer_address,
    read_body,
    route_path,
    source_address,
)
from a2ad.web.methods import PUSH_METHODS, Context, Methods
from a2ad.web.peers import Peers
from a2ad.web.sse import Streams

CARD_SUFFIXES = ("/.well-known/agent-card.json", "/agent-card.json")
WELL_KNOWN = "/.well-known/agent-card.json"
#: how a body may be coded (aiohttp reads it)
CODINGS = frozenset({"", "identity", "gzip", "deflate"})
#: a body larger than this is read in a thread, so that others need not wait for it, in bytes
LARGE_BODY = 1 << 17
#: base URLs for which a card is kept ready, at most
MAX_CARDS = 100

log = structlog.get_logger()


class A2AEndpoint:
    """Answers every request that is not the control API's."""

    def __init__(
        self,
        config: Config,
        *,
        engine: Engine,
        inbounds: InboundRegistry,
        host: PluginHost,
        audit: Audit,
        figures: Figures,
        peers: Peers,
        streams: Streams,
    ) -> None:
        self._config = config
        self._inbounds = inbounds
        self._host = host
        self._audit = audit
        self._figures = figures
        self._peers = peers
        self._answers = Answers()
        self._a2a_dialect = config.a2a.dialect == "a2a"
        self._limiter = RateLimiter(config.limits.requests_per_minute, loopback=config.limits.rate_limit_loopback)
        self._methods = Methods(engine, streams, self.card)
        self._cards: dict[tuple[Inbound, str], Card] = {}
        public = host_name(config.server.public_url.partition("//")[2].partition("/")[0])
        self._names = {*LOOPBACK_NAMES, *config.server.allowed_hosts, *([public] if public else [])}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = route_path(request)
        inbound = self._inbounds.at(path)
        if inbound is not None:
            if request.method == "POST":
                return await self._call(request, inbound)
            return _plain(405, "Only POST is answered here", Allow="POST")
        inbound = self._card_owner(path)
        if inbound is None and path == WELL_KNOWN and len(self._inbounds):
            return _plain(
                404, "No agent is the default here: ask for /a2a/<id>/agent-card.json, or set a2a.default_inbound"
            )
        if inbound is None:
            return _plain(404, "There is no agent at this path")
        if request.method not in {"GET", "HEAD"}:
            return _plain(405, "Only GET is answered here", Allow="GET, HEAD")
        return await self._serve_card(request, inbound)

    # cards

    def _card_owner(self, path: str) -> Inbound | None:
        if path == WELL_KNOWN:
            return self._inbounds.default()
        for suffix in CARD_SUFFIXES:
            if path.endswith(suffix) and (found := self._inbounds.at(path[: -len(suffix)])) is not None:
                return found
        return None

    async def _serve_card(self, request: web.BaseRequest, inbound: Inbound) -> web.Response:
        card = await self.card(request, inbound)
        headers = {**JSON_HEADERS, hdrs.ETAG: card.etag, hdrs.CACHE_CONTROL: "max-age=60"}
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get(hdrs.IF_NONE_MATCH, "").split(",")]
        if card.etag in known or known == ["*"]:
            return web.Response(status=304, headers=headers)
        return web.Response(body=card.body, headers=headers)

    async def card(self, request: web.BaseRequest, inbound: Inbound) -> Card:
        """The card as this client is to see it."""
        return await self.card_at(self.base_url(request), inbound)

    async def card_at(self, base_url: str, inbound: Inbound) -> Card:
        """The card for those who reach the daemon at this URL."""
        key = (inbound, base_url)
        card = self._cards.get(key)
        if card is None:
            if len(self._cards) >= MAX_CARDS:
                self._cards.clear()
            card = self._cards[key] = await build_card(inbound, base_url, self._config, self._host)
        return card

    def base_url(self, request: web.BaseRequest) -> str:
        """The configured public URL; else the request's own scheme and host, where that is one of this daemon's."""
        if self._config.server.public_url:
            return self._config.server.public_url
        host = request.headers.get(hdrs.HOST, "")
        sockname = request.transport.get_extra_info("sockname") if request.transport is not None else None
        own = sockname[0] if isinstance(sockname, tuple) else ""
        if host_name(host) in {*LOOPBACK_NAMES, own}:
            return f"{request.scheme}://{host}"
        if isinstance(sockname, tuple):
            return f"{request.scheme}://{f'[{own}]' if ':' in own else own}:{sockname[1]}"
        return f"http://{self._config.listen_address()}"

    # JSON-RPC

    async def _call(self, request: web.BaseRequest, inbound: Inbound) -> web.StreamResponse:
        source = source_address(request, self._config.server.trusted_proxies)
        call_id = jsonrpc.NO_ID
        peer = self._peers.open(request, inbound.id, source, "")
        try:
            caller = self._admit(request, inbound, source)
            call, large = await self._read(request, inbound)
            call_id = call.id
            _check_version(request)
            peer.method = call.method
            method = self._methods.by_name.get(call.method)
            if method is None:
                raise (
                    errors.PushNotificationNotSupported
                    if call.method in PUSH_METHODS
                    else errors.MethodNotFound(f"There is no method {call.method[:100]!r}")
                )
            context = Context(request, inbound, caller, source, peer, call.id, large=large)
            answer = await method(context, call.params)
            if isinstance(answer, web.StreamResponse):
                return answer
            return await self._answers.send(request, call.id, answer, repeatable=call.method != "SendMessage")
        except errors.ProtocolError as error:
            return self._refuse(call_id, error)
        except jsonrpc.Refused as refused:
            return self._refuse(refused.id, refused.error)
        except ConnectionError:
            raise
        except Exception:
            reference = secrets.token_hex(4)
            log.exception("request.failed", reference=reference, inbound_id=inbound.id)
            return self._refuse(call_id, errors.InternalError(f"Internal error (reference {reference})"))
        finally:
            self._peers.closed(peer)

    def _admit(self, request: web.BaseRequest, inbound: Inbound, source: str) -> str:
        """The caller's name. Raises `RateLimited`, `Unauthorized`."""
        wait = self._limiter.wait(source)
        if wait:
            self._figures.rate_limited += 1
            raise errors.RateLimited(retry_after=wait)
        caller = inbound.authenticate(request.headers.get(hdrs.AUTHORIZATION))
        if caller is None:
            self._figures.authentication_failures += 1
            self._audit.record("auth.failed", {"serverId": inbound.id, "source": source})
            raise errors.Unauthorized
        return caller

    async def _read(self, request: web.BaseRequest, inbound: Inbound) -> tuple[jsonrpc.Call, bool]:
        """The call, and whether it is a large one. What it was read from goes at once: a stream may last for days."""
        body = await self._body(request)
        self._check_content(request, inbound)
        large = len(body) > LARGE_BODY
        return await asyncio.to_thread(jsonrpc.parse, body) if large else jsonrpc.parse(body), large

    async def _body(self, request: web.BaseRequest) -> bytes:
        try:
            return await read_body(request, self._config.limits.body_bytes)
        except BodyError as error:
            raise errors.BodyTooLarge if error.status == 413 else errors.RequestTimeout from None
        except (web.RequestPayloadError, ValueError):
            raise errors.ParseError("The request body could not be read") from None

    def _check_content(self, request: web.BaseRequest, inbound: Inbound) -> None:
        """Keeps a web page from driving an endpoint on the browser's machine (`protocol.md` 2.5)."""
        if media_type(request) not in JSON_TYPES:
            raise errors.UnsupportedMediaType
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() not in CODINGS:
            raise errors.UnsupportedMediaType("The request's content coding must be gzip, deflate or none")
        if (
            not inbound.protected
            and is_loopback(peer_address(request))
            and host_name(request.headers.get(hdrs.HOST)) not in self._names
        ):
            raise errors.HostRefused

    def _refuse(self, call_id: bytes, error: errors.ProtocolError) -> web.Response:
        headers: dict[str, str] = dict(JSON_HEADERS)
        if error.status == 401:
            headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
        if error.retry_after is not None:
            headers[hdrs.RETRY_AFTER] = str(error.retry_after)
        body = jsonrpc.failure(call_id, error, a2a_dialect=self._a2a_dialect)
        return web.Response(status=error.status, body=body, headers=headers)


def _check_version(request: web.BaseRequest) -> None:
    version: Any = request.headers.get("A2A-Version")
    if version is None:
        version = request.query.get("A2A-Version", "")
    version = version.strip()
    if version not in {"", "1.0"} and not (
        version.startswith("1.0.") and version[4:].isascii() and version[4:].isdecimal()
    ):
        raise errors.VersionNotSupported(f"Only A2A version 1.0 is supported, not {version[:20]!r}")


def _plain(status: int, text: str, **headers: str) -> web.Response:
    return web.json_response({"error": text}, status=status, headers={"A2A-Version": "1.0", **headers})
