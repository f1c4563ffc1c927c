"""Requests to remotes that mean harm, through the real client and over real sockets: sizes, redirects, addresses."""

import gzip
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from a2ad.errors import RemoteAway, RemoteError, RemoteInvalid, RemoteRefused
from a2ad.outbound.card import _check_interface, fetch_card, parse_card
from a2ad.outbound.net import Net
from a2ad.outbound.text import Mask
from tests.remote import Exchange, Remote, Script, agent_card, http


@pytest.fixture
async def net() -> AsyncIterator[Net]:
    found = Net()
    yield found
    await found.close()


@pytest.fixture
def remote() -> Iterator[Remote]:
    with Remote() as found:
        yield found


def served(remote: Remote, **headers: str) -> Script:
    return http(200, json.dumps(remote.card).encode(), **headers)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3), ("0", 0), ("", None), ("soon", None), ("-1", None), ("1.5", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 01 Jan 99999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0),
    ],
)  # fmt: skip
async def test_retry_after_is_seconds_or_a_date_or_nothing(
    net: Net, remote: Remote, value: str, seconds: float | None
) -> None:
    remote.on("GET", http(503, Retry_After=value))
    with pytest.raises(RemoteAway) as raised:
        await fetch_card(net, remote.card_url)
    assert raised.value.retry_after == seconds


async def test_retry_after_may_be_a_date_to_come(net: Net, remote: Remote) -> None:
    remote.on("GET", http(429, Retry_After=format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)))
    with pytest.raises(RemoteAway) as raised:
        await fetch_card(net, remote.card_url)
    assert 500 < (raised.value.retry_after or 0) <= 600


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("max-age=60", 60), ("public, Max-Age=5", 5), ('max-age="7"', 7), ("max-age=0", 0), ("no-cache", 0),
        ("no-store, max-age=60", 0), ("s-maxage=9", 300), ("", 300), ("max-age=x", 300), ("max-age=999999999", 86_400),
    ],
)  # fmt: skip
async def test_a_card_is_fresh_for_as_long_as_it_says(net: Net, remote: Remote, told: str, seconds: float) -> None:
    remote.on("GET", served(remote, Cache_Control=told))
    assert (await fetch_card(net, remote.card_url)).fresh_seconds == seconds


async def test_a_card_that_did_not_change_is_not_sent_again(net: Net, remote: Remote) -> None:
    remote.on("GET", served(remote, ETag='"1"', Cache_Control="max-age=1"), http(304, Cache_Control="max-age=2"))
    first = await fetch_card(net, remote.card_url)
    second = await fetch_card(net, remote.card_url, known=first)
    assert [asked.headers.get("if-none-match") for asked in remote.requests] == [None, '"1"']
    assert (second.card, second.body, second.etag, second.fresh_seconds) == (first.card, first.body, '"1"', 2)
    with pytest.raises(RemoteRefused, match="304"):
        await fetch_card(net, remote.card_url)


async def test_an_etag_of_any_bytes_does_no_harm(net: Net, remote: Remote) -> None:
    remote.on("GET", served(remote, ETag='"\xff\xfe"'))
    first = await fetch_card(net, remote.card_url)
    assert (await fetch_card(net, remote.card_url, known=first)).card == first.card


@pytest.mark.parametrize("status_code", [301, 302, 303, 307, 308])
async def test_a_redirect_within_the_origin_is_followed(net: Net, remote: Remote, status_code: int) -> None:
    remote.on("GET", http(status_code, Location="/else/where.json"), served(remote))
    assert (await fetch_card(net, remote.card_url, token="secret")).card.name == "Remote"
    assert [asked.target for asked in remote.requests] == ["/agent-card.json", "/else/where.json"]
    assert [asked.headers["authorization"] for asked in remote.requests] == ["Bearer secret"] * 2


@pytest.mark.parametrize(
    "location",
    [
        "", "http://[", "//[x]/", "http://127.0.0.1:99999/", "ftp://x/", "\x80\xff", "http://a@127.0.0.1/", "data:,x",
        "//",
    ],
)  # fmt: skip
async def test_a_redirect_to_nowhere_is_refused(net: Net, remote: Remote, location: str) -> None:
    remote.on("GET", http(302, Location=location))
    with pytest.raises(RemoteRefused):
        await fetch_card(net, remote.card_url)
    assert len(remote.requests) <= 6


async def test_a_call_is_sent_on_as_it_is_within_the_origin_alone(net: Net, remote: Remote) -> None:
    remote.on("x", http(307, Location="/there"), http(200, b"ok"))
    async with net.request("POST", f"{remote.url}/rpc", headers={"X": "y"}, body=b'{"method": "x"}') as response:
        assert await response.read() == b"ok"
    assert [(asked.target, asked.body) for asked in remote.requests] == [
        (at, b'{"method": "x"}') for at in ("/rpc", "/there")
    ]


async def test_a_redirect_leads_to_no_other_origin_and_a_call_nowhere(net: Net, remote: Remote) -> None:
    with Remote() as other:
        for location in (other.card_url, f"http://localhost:{remote.port}/", f"https:{remote.url[5:]}/x"):
            remote.on("GET", http(307, Location=location))
            with pytest.raises(RemoteRefused, match="another origin") as raised:
                await fetch_card(net, remote.card_url)
            assert f"redirects to {location}," in str(raised.value)
        remote.on("POST", http(302, Location="/agent-card.json"), http(308, Location=f"{other.url}/rpc"))
        for _ in range(2):
            with pytest.raises(RemoteRefused, match="not followed"):
                async with net.request("POST", f"{remote.url}/rpc", headers={}, body=b"{}"):
                    pass
        assert other.requests == []
    assert [asked.verb for asked in remote.requests[-2:]] == ["POST", "POST"]


async def test_a_card_is_looked_for_where_agents_keep_it_and_nowhere_else(net: Net, remote: Remote) -> None:
    page = http(200, b"<html>", Content_Type="text/html")
    places = ["/agents/a?x=1", "/agents/a/.well-known/agent-card.json", "/.well-known/agent-card.json"]
    remote.on("GET", http(405), served(remote))
    assert (await fetch_card(net, f"{remote.url}{places[0]}")).url == f"{remote.url}{places[1]}"
    assert [asked.target for asked in remote.requests] == places[:2]
    remote.requests.clear()
    remote.card["supportedInterfaces"][0]["url"] = f"{remote.url}{places[0]}"
    remote.on("GET", http(405), page, served(remote))
    assert (await fetch_card(net, f"{remote.url}{places[0]}")).url == f"{remote.url}{places[2]}"
    remote.on("GET", page, http(404), http(404))
    with pytest.raises(RemoteInvalid):  # what the address itself said
        await fetch_card(net, f"{remote.url}{places[0]}")
    assert [asked.target for asked in remote.requests] == places * 2
    for status_code in (401, 403, 410):  # what asks for a token may be the endpoint: its card need not
        remote.on("GET", http(status_code))
        with pytest.raises(RemoteRefused, match=str(status_code)):
            await fetch_card(net, f"{remote.url}/agents/a")
    remote.on("GET", http(404))
    with pytest.raises(RemoteRefused, match="404"):
        await fetch_card(net, remote.card_url)
    assert len(remote.requests) == 6 + 3 + 3 + 1 + 1


@pytest.mark.parametrize("path", ["/agents/b", "/agents/a/b", "/agents", "/x"])
async def test_a_path_that_has_no_card_does_not_lead_to_another_agent_of_the_origin(
    net: Net, remote: Remote, path: str
) -> None:
    """The card of the origin is that of its own URL, and of the endpoint that it names: no path that was mistyped."""
    remote.card["supportedInterfaces"][0]["url"] = f"{remote.url}/agents/a"

    async def at_the_origin(exchange: Exchange) -> None:
        found = exchange.asked.target == "/.well-known/agent-card.json"
        await (served(remote) if found else http(404))(exchange)

    remote.on("GET", at_the_origin)
    with pytest.raises(RemoteRefused, match="there is no agent card at") as raised:
        await fetch_card(net, f"{remote.url}{path}")
    assert f"{remote.url}{path}" in str(raised.value)
    for own in (remote.url, f"{remote.url}/", f"{remote.url}/agents/a", f"{remote.url}/agents/a/"):
        assert (await fetch_card(net, own)).card.name == "Remote"


async def test_a_card_has_a_largest_size_also_where_it_is_packed_or_has_no_end(net: Net, remote: Remote) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.head(200, Content_Type="application/json")
        while True:
            await exchange.write(b"[" * 65536)

    body = json.dumps(agent_card(f"{remote.url}/rpc", description="x")).encode()
    remote.on("GET", http(200, body + b" " * ((1 << 20) - len(body))))
    assert (await fetch_card(net, remote.card_url)).card.description == "x"
    bomb = http(200, gzip.compress(b" " * (64 << 20)), Content_Encoding="gzip")
    for script in (http(200, body + b" " * ((1 << 20) - len(body) + 1)), endless, bomb):
        remote.on("GET", script)
        with pytest.raises(RemoteInvalid):
            await fetch_card(net, remote.card_url)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x"])
async def test_an_answer_that_is_not_packed_as_it_says_is_an_error(net: Net, remote: Remote, encoding: str) -> None:
    remote.on("GET", http(200, b"\x01\x02 no such thing", Content_Encoding=encoding))
    with pytest.raises(RemoteError):
        await fetch_card(net, remote.card_url)


#: of 127.0.0.1 in letters that names are normalised from (UTS 46)
SPELLINGS = ["\u246027.0.0.1", "127\u30020\u30020\u30021", "\uff11\uff12\uff17.0.0.1"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "0.0.0.0", *SPELLINGS]
)
async def test_who_comes_from_the_open_internet_leads_to_no_private_address(
    net: Net, remote: Remote, host: str
) -> None:
    """By whatever name; the card is refused (issue 4, 5), and where a name leads elsewhere later, so is the call."""
    with pytest.raises(RemoteRefused):
        async with net.request("POST", f"http://{host}:{remote.port}/rpc", headers={}, body=b"{}", public_only=True):
            pass
    card = parse_card(json.dumps(agent_card(f"http://{host}:{remote.port}/rpc")).encode(), Mask([]))
    with pytest.raises(RemoteRefused):
        await _check_interface(card, "https://agents.example/card.json", public=True)
    assert remote.requests == []


@pytest.mark.parametrize(
    "host", ["a..b", ".a", "x" * 64, "a" * 300, "xn--a", "a%00b", "1.2.3.4.5", "\u00e9" * 70, "*:1"]
)
async def test_a_host_that_there_cannot_be_is_an_error(net: Net, host: str) -> None:
    with pytest.raises(RemoteError):
        await fetch_card(net, f"http://{host}/agent-card.json")
    with suppress(RemoteError):
        card = parse_card(json.dumps(agent_card(f"http://{host}/rpc")).encode(), Mask([]))
        await _check_interface(card, "https://agents.example/card.json", public=True)


@pytest.mark.parametrize("path", ["/a2a/api", "/a2a/./api/", "/x/../a2a/api", "/%612a/api", "//a2a//api", "/a2a/panel"])
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1.2.3", "localhost", "LocalHost.", "a.localhost", "[::1]", "[::]", *SPELLINGS]
)
async def test_the_control_api_of_this_daemon_is_no_remote(remote: Remote, path: str, host: str) -> None:
    net = Net({remote.port: False})
    try:
        with pytest.raises(RemoteRefused, match="control API"):
            async with net.request("POST", f"http://{host}:{remote.port}{path}", headers={}):
                pass
    finally:
        await net.close()
    assert remote.requests == []
