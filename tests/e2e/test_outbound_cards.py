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
from tests.remote import Exchange, Remote, Script, answer, call, connect, parts_of, row, snapshot, stream, task
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
        (interface(url="http://a:pass@b/"), "set a token instead"), (without("supportedInterfaces"), "interface"),
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
    told = [daemon.act(f"outbound.{action}", status=409, **fields)["message"] for action in ("create", "discover")]
    assert all(words in each and "pass@" not in each for each in told)
    assert outbounds(daemon) == before
    asked = len(remote.requests)
    outbound = str(daemon.act("outbound.create", enabled=False, **fields)["id"])
    assert (row(daemon, outbound)["state"], len(remote.requests)) == ("disabled", asked)
    daemon.act("outbound.enable", id=outbound)
    until(lambda: row(daemon, outbound)["state"] == "error", "the connection tells its error")
    assert words in row(daemon, outbound)["lastError"]
    assert words in call(daemon, outbound, status=409)["message"]


@pytest.mark.parametrize("url", ["http://me@127.0.0.1/", "http://me:pass@127.0.0.1/agent-card.json"])
def test_a_url_with_a_user_in_it_is_not_asked(daemon: DaemonProcess, remote: Remote, url: str) -> None:
    told = "a URL with a user name or a password in it is not asked: set a token instead"
    refused = daemon.act("outbound.create", status=409, name="x", agentCardUrl=url)
    assert refused["errors"] == {"agentCardUrl": [told]}
    assert daemon.act("outbound.discover", status=409, agentCardUrl=url)["message"] == told
    outbound = connect(daemon, remote)
    refused = daemon.act("outbound.update", status=409, id=outbound, tokenOrigins=[url])
    assert refused["errors"] == {"tokenOrigins": [told]}
    daemon.act("outbound.remove", id=outbound)


@pytest.mark.parametrize(("body", "why"), [(b"<html>", ": "), (b"{}", ": it has no name"), (b"[]", ": it has no name")])
def test_what_is_no_card_is_told_so(daemon: DaemonProcess, remote: Remote, body: bytes, why: str) -> None:
    remote.on("GET", http_answer(200, body))
    told = daemon.act("outbound.discover", status=409, agentCardUrl=remote.card_url)["message"]
    assert told.startswith(f"what is there is no agent card{why}")


def test_the_actions_tell_what_was_connected_and_what_there_is_not(daemon: DaemonProcess, remote: Remote) -> None:
    fields: dict[str, Any] = {"name": "told twice", "agentCardUrl": remote.card_url}
    made = f'outbound connection "told twice" created: agent "Remote" at {remote.url}/rpc, skills: 1'
    first, second = (daemon.act("outbound.create", **fields) for _ in range(2))
    assert first["message"] == made
    assert second["message"] == f"{made}; there is another connection of that name"
    daemon.act("outbound.remove", id=second["id"])
    for action in ("update", "remove", "enable", "disable", "refresh", "setAuth", "call"):
        more = {"update": {"name": "x"}, "call": {"text": "x"}}.get(action, {})
        refused = daemon.act(f"outbound.{action}", status=409, id=second["id"], **more)
        assert refused["message"] == f"id {second['id']!r} is no outbound connection"
        assert list(refused["errors"]) == ["id"]
    daemon.act("outbound.remove", id=first["id"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("agentCardUrl", "http://127.0.0.1:1"), ("agentCardUrl", None), ("enabled", False), ("enabled", None)],
)
def test_what_cannot_be_updated_is_refused_and_nothing_changes(
    daemon: DaemonProcess, remote: Remote, field: str, value: Any
) -> None:
    outbound = connect(daemon, remote)
    before = row(daemon, outbound)
    for given in (value, before[field]):
        refused = daemon.act("outbound.update", status=409, id=outbound, name="other", **{field: given})
        assert list(refused["errors"]) == [field]
        assert field in refused["message"]
    assert row(daemon, outbound) == before


def test_origins_that_may_get_the_token_are_kept_in_one_spelling(daemon: DaemonProcess, remote: Remote) -> None:
    given = ["https://A.example/x?y", "https://a.example:443", "http://b.example", "http://127.0.0.1:4104/"]
    kept = ["https://a.example:443", "http://b.example:80", "http://127.0.0.1:4104"]
    outbound = connect(daemon, remote, tokenOrigins=given)
    assert row(daemon, outbound)["tokenOrigins"] == kept
    daemon.act("outbound.update", id=outbound, tokenOrigins=given[1:2])
    assert row(daemon, outbound)["tokenOrigins"] == kept[:1]


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
    daemon.act("outbound.refresh", id=outbound)
    assert row(daemon, outbound)["skillCount"] == 1
    daemon.act("outbound.refresh", id=outbound)
    assert (row(daemon, outbound)["skillCount"], row(daemon, outbound)["toolCount"]) == (3, 3)
    daemon.act("outbound.refresh", id=outbound)
    # each refresh asks once, and nothing else does: a card that was just fetched is not fetched again
    assert [asked.headers.get("if-none-match") for asked in remote.requests] == [None, '"1"', '"1"', '"2"']
    remote.on("GET", http_answer(500))
    assert "HTTP 500" in daemon.act("outbound.refresh", status=409, id=outbound)["message"]
    assert (row(daemon, outbound)["state"], row(daemon, outbound)["skillCount"]) == ("error", 3)


@pytest.mark.parametrize(
    "refused", [http_answer(404), http_answer(403), http_answer(200, b"<html>"), http_answer(200, b'{"name": "x"}')]
)
def test_a_card_that_cannot_be_used_any_more_ends_the_connection_until_it_can(
    daemon: DaemonProcess, remote: Remote, refused: Script
) -> None:
    remote.on("SendStreamingMessage", answer(snapshot("COMPLETED", "", parts_of("done"))))
    card = http_answer(200, json.dumps(remote.card).encode())
    remote.on("GET", card, refused)
    outbound = connect(daemon, remote)
    assert call(daemon, outbound)["text"] == "done"
    told = daemon.act("outbound.refresh", status=409, id=outbound)["message"]
    assert call(daemon, outbound, status=409)["message"] == f"there is no connection to 'remote': {told}"
    assert len(remote.asked("SendStreamingMessage")) == 1
    assert (row(daemon, outbound)["state"], row(daemon, outbound)["toolCount"]) == ("error", 1)
    remote.on("GET", card)
    daemon.act("outbound.refresh", id=outbound)
    assert call(daemon, outbound)["text"] == "done"


@pytest.mark.parametrize("code", [429, 500, 503])
def test_while_a_card_is_away_calls_go_on_with_the_last_one(daemon: DaemonProcess, remote: Remote, code: int) -> None:
    remote.on("SendStreamingMessage", answer(snapshot("COMPLETED", "", parts_of("done"))))
    outbound = connect(daemon, remote)
    remote.on("GET", http_answer(code))
    assert f"HTTP {code}" in daemon.act("outbound.refresh", status=409, id=outbound)["message"]
    assert row(daemon, outbound)["state"] == "error"
    assert call(daemon, outbound)["text"] == "done"


def test_a_short_token_takes_no_skill_and_no_id_away(daemon: DaemonProcess, remote: Remote) -> None:
    """It is in them by chance; one of six characters or more is not."""
    remote.card["skills"] += [{"id": "chat-1"}]
    remote.on("SendStreamingMessage", answer(snapshot("COMPLETED", "", parts_of("t1 it is"))))
    outbound = connect(daemon, remote)
    for token, skills in (("chat", ["chat", "chat-1"]), ("t1", ["chat", "chat-1"]), ("chat-1", ["chat"])):
        daemon.act("outbound.setAuth", id=outbound, token=token)
        daemon.act("outbound.refresh", id=outbound)
        assert [skill["id"] for skill in row(daemon, outbound)["card"]["skills"]] == skills
        told = call(daemon, outbound, skill="chat")
        assert (told["taskId"], told["text"]) == ("t1", "t1 it is")
    remote.on("SendStreamingMessage", answer(snapshot("COMPLETED", "", parts_of("x"), contextId="of chat-1")))
    assert "gives the token back as an id" in call(daemon, outbound, status=409)["message"]


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
