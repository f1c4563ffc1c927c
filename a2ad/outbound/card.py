"""The agent card of a remote: what of it counts here, and how it is fetched (A2A 1.0.1, 8)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
from yarl import URL

from a2ad.errors import ParseError, RemoteAway, RemoteError, RemoteInvalid, RemoteRefused
from a2ad.outbound.net import Net, bearer, check_available, is_public, origin_of, read_bounded
from a2ad.outbound.text import DESCRIPTION, NAME, QUOTED, Mask, line
from a2ad.schemas.text import check_depth, loads

CARD_BYTES = 1 << 20
CARD_SECONDS = 10.0
MAX_SKILLS = 500
#: how long a card is taken for fresh where it does not say, and at most, in seconds
FRESH_SECONDS, FRESH_MOST = 300.0, 86_400.0
#: the message says how many daemons a call has come through, in `metadata["a2ad/depth"]`
DEPTH_EXTENSION = "urn:a2ad:depth:v1"
SUPPORTED_EXTENSIONS = frozenset({DEPTH_EXTENSION})
WELL_KNOWN = "/.well-known/agent-card.json"
_MAX_AGE = re.compile(r"\bmax-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_VERSION = re.compile(r"1(\.0(\.\d+)?)?")


@dataclass(frozen=True, slots=True)
class RemoteSkill:
    id: str
    name: str
    description: str


@dataclass(frozen=True, slots=True)
class RemoteCard:
    """What a card says, its texts bounded and on one line. `endpoint` is where the JSON-RPC 1.0 interface answers."""

    name: str
    description: str
    version: str
    skills: tuple[RemoteSkill, ...]
    streaming: bool
    endpoint: str
    protocol_version: str
    tenant: str
    #: those of its extensions that this daemon supports
    extensions: tuple[str, ...]

    def preview(self) -> dict[str, Any]:
        """As `outbound.discover` shows it (`protocol.md` 7)."""
        return {
            "name": self.name,
            "description": self.description,
            "version": self.version,
            "endpoint": self.endpoint,
            "skills": [{"id": skill.id, "name": skill.name, "description": skill.description} for skill in self.skills],
            "streaming": self.streaming,
            "protocolVersion": self.protocol_version,
        }


@dataclass(frozen=True, slots=True)
class FetchedCard:
    """A card and what HTTP said about it. `public`: it came from an address of the open internet."""

    card: RemoteCard
    body: bytes
    url: str
    etag: str
    fresh_seconds: float
    public: bool


def parse_card(body: bytes, mask: Mask) -> RemoteCard:
    """The card, without the token, wherever the remote put it. Raises `RemoteInvalid` for what is no card,
    `RemoteRefused` for one that this daemon cannot talk to.
    """
    try:
        card = loads(body)
        check_depth(card)
    except ParseError as error:
        raise RemoteInvalid(f"what is there is no agent card: {str(error).replace('The request', 'it')}") from None
    if not isinstance(card, dict) or not isinstance(card.get("name"), str):
        raise RemoteInvalid("what is there is no agent card: it has no name")
    capabilities = card.get("capabilities")
    capabilities = capabilities if isinstance(capabilities, dict) else {}
    extensions = _extensions(capabilities.get("extensions"))
    interface = _interface(card)
    tenant = interface.get("tenant")
    if any(mask.hides(each) for each in (interface["url"], tenant) if isinstance(each, str)):
        raise RemoteInvalid("the agent card has the token in its interface")
    return RemoteCard(
        name=line(card["name"], NAME, mask),
        description=line(card.get("description"), DESCRIPTION, mask),
        version=line(card.get("version"), NAME, mask),
        skills=_skills(card.get("skills"), mask),
        streaming=capabilities.get("streaming") is True,
        endpoint=interface["url"],
        protocol_version=interface["protocolVersion"],
        tenant=tenant if isinstance(tenant, str) else "",
        extensions=extensions,
    )


def _extensions(declared: Any) -> tuple[str, ...]:
    found = [each for each in declared if isinstance(each, dict)] if isinstance(declared, list) else []
    uris = {each["uri"]: each.get("required") is True for each in found if isinstance(each.get("uri"), str)}
    if missing := [uri for uri, required in uris.items() if required and uri not in SUPPORTED_EXTENSIONS]:
        raise RemoteRefused(
            f"the agent requires the extension {line(missing[0], QUOTED)!r}, which is not supported here"
        )
    return tuple(uri for uri in uris if uri in SUPPORTED_EXTENSIONS)


def _interface(card: dict[str, Any]) -> dict[str, Any]:
    """The first JSON-RPC 1.0 interface: they stand in the remote's order of preference."""
    declared = card.get("supportedInterfaces")
    interfaces = [each for each in declared if isinstance(each, dict)] if isinstance(declared, list) else []
    offered = []
    for each in interfaces:
        binding, version = each.get("protocolBinding"), each.get("protocolVersion")
        if binding == "JSONRPC" and isinstance(version, str) and _VERSION.fullmatch(version):
            if not isinstance(each.get("url"), str):
                raise RemoteInvalid("the agent card's JSON-RPC interface has no url")
            origin_of(each["url"])
            return each
        offered.append(f"{line(binding, QUOTED) or 'no binding'} {line(version, QUOTED) or 'without a version'}")
    if not offered and isinstance(card.get("url"), str):
        transport, version = card.get("preferredTransport"), card.get("protocolVersion")
        offered.append(f"{line(transport, QUOTED) or 'JSONRPC'} {line(version, QUOTED) or '0.x'}")
    raise RemoteRefused(
        f"the agent offers no JSONRPC 1.0 interface, but {', '.join(offered[:10])}"
        if offered
        else "the agent card names no interface"
    )


def _skills(declared: Any, mask: Mask) -> tuple[RemoteSkill, ...]:
    skills: dict[str, RemoteSkill] = {}
    for each in declared if isinstance(declared, list) else []:
        if not isinstance(each, dict) or not isinstance(each.get("id"), str) or len(each["id"]) > 1000:
            continue
        skill_id = each["id"]
        if mask.hides(skill_id):
            continue
        name = line(each.get("name"), NAME, mask) or line(skill_id, NAME)
        skills.setdefault(skill_id, RemoteSkill(skill_id, name, line(each.get("description"), DESCRIPTION, mask)))
        if len(skills) >= MAX_SKILLS:
            break
    return tuple(skills.values())


async def fetch_card(net: Net, url: str, *, token: str | None = None, known: FetchedCard | None = None) -> FetchedCard:
    """The card at a URL, or where agents keep theirs below it, within `CARD_SECONDS`.

    `known` is returned, fresh again, where the remote says that nothing changed. Raises `RemoteError`.
    """
    origin_of(url)
    places = [known.url] if known is not None else _places(url)
    refusal: RemoteError | None = None
    try:
        async with asyncio.timeout(CARD_SECONDS):
            for place in places:
                try:
                    fetched = await _fetch(net, place, token=token, known=known)
                    _check_place(fetched.card, url, place)
                    return fetched
                except (RemoteRefused, RemoteInvalid) as error:
                    refusal = refusal or error
                    if isinstance(error, RemoteRefused) and error.status not in {401, 403, 404, 405}:
                        break
    except TimeoutError:
        raise RemoteAway(f"no agent card came from {origin_of(url)} within {CARD_SECONDS:g} s") from None
    assert refusal is not None
    raise refusal


def _places(url: str) -> list[str]:
    """The URL itself; where that is no card, the well-known places of the endpoint and of the origin."""
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        return [url]
    base = f"{parts.scheme}://{parts.netloc}"
    return list(dict.fromkeys([url, f"{base}{parts.path.rstrip('/')}{WELL_KNOWN}", f"{base}{WELL_KNOWN}"]))


def _check_place(card: RemoteCard, url: str, place: str) -> None:
    """The card of the origin is meant by the origin's URL, or by that of the endpoint which the card names: not by any
    path, which may be a slip of the pen.
    """
    path = urlsplit(url).path.rstrip("/")
    if place != url and path and urlsplit(place).path == WELL_KNOWN and card.endpoint.rstrip("/") != url.rstrip("/"):
        raise RemoteRefused(f"there is no agent card at {line(url, QUOTED)}", status=404)


async def _fetch(net: Net, url: str, *, token: str | None, known: FetchedCard | None) -> FetchedCard:
    headers = {"Accept": "application/json, application/a2a+json", "A2A-Version": "1.0", **bearer(token)}
    if known is not None and known.etag:
        headers["If-None-Match"] = known.etag
    async with net.request("GET", url, headers=headers) as response:
        public = is_public(response.peer)
        fresh = _fresh_seconds(response.headers.get("Cache-Control", ""))
        if response.status == 304 and known is not None:
            return FetchedCard(known.card, known.body, url, known.etag, fresh, public)
        check_available(response)
        if response.status != 200:
            raise RemoteRefused(
                f"there is no agent card at {line(url, QUOTED)}: HTTP {response.status}", status=response.status
            )
        body = await read_bounded(response, CARD_BYTES)
        etag = response.headers.get("ETag", "")[:1000]
    mask = Mask([token or ""])
    card = parse_card(body, mask)
    body = mask(orjson.dumps(orjson.loads(body)).decode()).encode()  # spelt in one way: so no other hides the token
    net.check(card.endpoint)
    await _check_interface(card, url, public=public)
    return FetchedCard(card, body, url, etag, fresh, public)


async def _check_interface(card: RemoteCard, url: str, *, public: bool) -> None:
    """A card of the open internet must not lead into a private network. Names are looked at again at every call."""
    host = URL(card.endpoint).raw_host or ""
    if not public or origin_of(card.endpoint) == origin_of(url):
        return
    parts = urlsplit(card.endpoint)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, parts.port or 443, type=1)
    except OSError:
        return  # a call will say so
    if any(not is_public(str(address[4][0])) for address in found):
        raise RemoteRefused(f"the card came from a public address and leads to {host}, which is a private one")


def _fresh_seconds(cache_control: str) -> float:
    directives = cache_control.lower()
    if "no-store" in directives or "no-cache" in directives:
        return 0.0
    match = _MAX_AGE.search(directives)
    return min(float(match[1]), FRESH_MOST) if match is not None else FRESH_SECONDS
