"""The cards of remotes: those that nothing can be done with, without end, changed, odd; and what of them is used."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import Background, until
from tests.hostile import no_faults
from tests.remote import Exchange, Remote, answer, call, connect, parts_of, row, snapshot, stream, task
from tests.remote import http as http_answer


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("cards")) as process:
        yield process


@pytest.fixture
def remote(daemon: DaemonProcess) -> Iterator[Remote]:
    with no_faults(daemon), Remote() as found:
        yield found


def outbounds(daemon: DaemonProcess) -> int:
    return len(daemon.read("")["outbounds"])


def without(*names: str, **more: Any) -> Callable[[dict[str, Any]], None]:
    def change(card: dict[str, Any]) -> None:
        for name in names:
            del card[name]
        card.update(more)

    return change


def interface(**more: Any) -> Callable[[dict[str, Any]], None]:
    return lambda card: card["supportedInterfaces"][0].update(more)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (interface(protocolBinding="GRPC"), "GRPC 1.0"), (interface(protocolVersion="0.3.0"), "JSONRPC 0.3.0"),
        (interface(protocolVersion="2.0"), "JSONRPC 2.0"), (interface(protocolVersion=1), "JSONRPC"),
        (interface(url=None), "url"), (interface(url="/rpc"), "/rpc"), (interface(url="file:///x"), "file:"),
        (interface(url="http://a@b/"), "http://a@b/"), (without("supportedInterfaces"), "interface"),
        (without("supportedInterfaces", url="http://x", protocolVersion="0.3.0"), "JSONRPC 0.3.0"),
        (without(capabilities={"extensions": [{"uri": "urn:x:secret", "required": True}]}), "urn:x:secret"),
        (without("name"), "card"), (without(name=None), "card"), (without(supportedInterfaces={"a": 1}), "interface"),
    ],
)  # fmt: skip
def test_a_card_that_nothing_can_be_done_with_is_told_and_not_stored(
    daemon: DaemonProcess, remote: Remote, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    before = outbounds(daemon)
    change(remote.card)
    fields = {"name": "x", "agentCardUrl": remote.card_url}
    assert words in daemon.act("outbound.create", status=409, **fields)["message"]
    assert words in daemon.act("outbound.discover", status=409, **fields)["message"]
    assert outbounds(daemon) == before
    asked = len(remote.requests)
    outbound = str(daemon.act("outbound.create", enabled=False, **fields)["id"])
    assert (row(daemon, outbound)["state"], len(remote.requests)) == ("disabled", asked)
    daemon.act("outbound.enable", id=outbound)
    until(lambda: row(daemon, outbound)["state"] == "error", "the connection tells its error")
    assert words in row(daemon, outbound)["lastError"]
    assert words in call(daemon, outbound, status=409)["message"]


def test_a_card_has_ten_seconds_and_a_remote_that_is_not_there_is_not_stored(
    daemon: DaemonProcess, remote: Remote
) -> None:
    async def drip(exchange: Exchange) -> None:
        await exchange.head(200, Content_Type="application/json")
        while True:
            await exchange.write(b" ")
            await asyncio.sleep(0.2)

    remote.on("GET", drip)
    before = outbounds(daemon)
    with Remote() as away:
        pass
    fields = {"name": "x", "agentCardUrl": remote.card_url}
    slow = [Background(daemon.act, f"outbound.{action}", status=409, **fields) for action in ("create", "discover")]
    fields["agentCardUrl"] = away.card_url
    assert "cannot be reached" in daemon.act("outbound.create", status=409, **fields)["message"]
    assert all("within 10 s" in each.result()["message"] for each in slow)
    assert outbounds(daemon) == before
    outbound = str(daemon.act("outbound.create", enabled=False, **fields)["id"])
    assert row(daemon, outbound)["state"] == "disabled"


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "no-such-host.invalid"])
def test_a_host_that_there_cannot_be_is_an_error(daemon: DaemonProcess, remote: Remote, host: str) -> None:
    assert "message" in daemon.act("outbound.discover", status=409, agentCardUrl=f"http://{host}/agent-card.json")
    interface(url=f"http://{host}/rpc")(remote.card)
    fields = {"action": "outbound.create", "name": "x", "agentCardUrl": remote.card_url, "timeoutMs": 300}
    got, told = daemon.request("POST", f"{daemon.url}/a2a/api", fields)
    if got == 200:  # it may exist; who calls is told
        got, told = daemon.request(
            "POST", f"{daemon.url}/a2a/api", {"action": "outbound.call", "id": told["id"], "text": "x"}
        )
    assert (got, told["ok"]) == (409, False)


def test_https_where_there_is_none_is_an_error(daemon: DaemonProcess, remote: Remote) -> None:
    fields = {"agentCardUrl": remote.card_url.replace("http:", "https:")}
    assert "message" in daemon.act("outbound.discover", status=409, **fields)


def test_the_first_interface_that_can_be_used_is_and_gets_what_it_declares(
    daemon: DaemonProcess, remote: Remote
) -> None:
    first, second = remote.card["supportedInterfaces"][0], f"{remote.url}/second"
    remote.card["supportedInterfaces"] = [
        7, {**first, "protocolBinding": "GRPC"}, {**first, "protocolVersion": "0.3"},
        {**first, "url": second, "tenant": "acme", "protocolVersion": "1.0.1"}, first,
    ]  # fmt: skip
    extensions = [{"uri": "urn:x"}, {"uri": "urn:a2ad:depth:v1", "required": True}, 7]
    remote.card["capabilities"]["extensions"] = extensions
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"))).on(
        "GetTask", answer(task("COMPLETED", "", parts_of("done")))
    )
    outbound = connect(daemon, remote)
    assert call(daemon, outbound, skill="chat")["text"] == "done"
    assert row(daemon, outbound)["card"]["endpoint"] == second
    posts = [asked for asked in remote.requests if asked.verb == "POST"]
    assert [asked.method for asked in posts] == ["SendStreamingMessage", "SubscribeToTask", "GetTask"]
    for asked in posts:
        assert (asked.target, asked.params["tenant"]) == ("/second", "acme")
        assert (asked.headers["a2a-version"], asked.headers["a2a-extensions"]) == ("1.0", "urn:a2ad:depth:v1")
    assert posts[0].message["metadata"] == {"skill": "chat", "a2ad/depth": 1}
    assert "text/event-stream" in posts[0].headers["accept"]


def test_a_changed_card_is_taken_up_and_one_that_is_not_is_not_sent_again(
    daemon: DaemonProcess, remote: Remote
) -> None:
    first = json.dumps(remote.card).encode()
    skills = [{"id": f"s{number}"} for number in range(3)]
    second = json.dumps({**remote.card, "skills": skills}).encode()
    remote.on("GET", http_answer(200, first, ETag='"1"'), http_answer(304), http_answer(200, second, ETag='"2"'))
    outbound = connect(daemon, remote)
    until(lambda: len(remote.requests) >= 2, "it was asked in the background")
    daemon.act("outbound.refresh", id=outbound)
    assert (row(daemon, outbound)["skillCount"], row(daemon, outbound)["toolCount"]) == (3, 3)
    daemon.act("outbound.refresh", id=outbound)
    tags = [asked.headers.get("if-none-match") for asked in remote.requests]
    assert tags[:2] == [None, '"1"']
    assert tags[-1] == '"2"'
    remote.on("GET", http_answer(500))
    assert "HTTP 500" in daemon.act("outbound.refresh", status=409, id=outbound)["message"]
    assert (row(daemon, outbound)["state"], row(daemon, outbound)["skillCount"]) == ("error", 3)


def test_texts_of_cards_are_bounded_and_on_one_line(daemon: DaemonProcess, remote: Remote) -> None:
    odd = "\x1b[2J\u202eevil\u2066\r\n\u200bname\x00"
    skills = [{"id": f"s{number}", "name": odd * 100, "description": odd + "x" * 10_000} for number in range(50)]
    remote.card.update(name=odd * 100, description=odd + "x" * 10_000, version=odd, skills=[7, {}, *skills])
    outbound = connect(daemon, remote, name=odd)
    shown = row(daemon, outbound)
    assert shown["skillCount"] == 50
    texts = [shown["card"][field] for field in ("name", "description", "version")]
    texts += [skill[field] for skill in shown["card"]["skills"] for field in ("name", "description")]
    tools = [tool for tool in daemon.read("/tools") if tool["connection"] == outbound]
    texts += [tool[field] for tool in tools for field in ("name", "title", "description")]
    assert len({tool["name"] for tool in tools}) == 50
    for text in texts:
        assert "evil" in text
        assert len(text) <= 1400
        assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]", text)


def test_of_ten_thousand_skills_the_first_are_taken(daemon: DaemonProcess, remote: Remote) -> None:
    remote.card["skills"] = [{"id": f"s{number % 9_990}", "name": "same"} for number in range(10_000)]
    outbound = connect(daemon, remote)
    assert (row(daemon, outbound)["skillCount"], row(daemon, outbound)["toolCount"]) == (500, 500)
    remote.card["skills"] += [{"id": "x" * 1_000_000}]
    assert "larger than" in daemon.act("outbound.refresh", status=409, id=outbound)["message"]
    assert row(daemon, outbound)["skillCount"] == 500
    daemon.act("outbound.remove", id=outbound)
