"""What a remote must not get or do: other people's tokens, the control API, files elsewhere, a chain without end."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import until
from tests.hostile import FAULTS, logged_so_far, no_faults
from tests.remote import (
    Remote,
    Script,
    answer,
    artifact,
    call,
    connect,
    parts_of,
    refusal,
    row,
    snapshot,
    status,
    stream,
    watched,
)
from tests.remote import http as http_answer

#: as JSON writes it, it looks different; and it begins again within itself
TOKEN = 'se"se\\s-secret-0123456789'
DONE = snapshot("COMPLETED", "", parts_of("done"))

#: an agent that calls its first tool with what it hears, and says what came of it
PLUGIN = """
from a2ad import Agent, AgentSession, TextDelta, ToolError, TurnEnd, hookimpl

class Session(AgentSession):
    def __init__(self, context):
        self.tools = context.tools

    async def prompt(self, parts, attachments):
        try:
            yield TextDelta(await self.tools.call("a2a__depths__chat", {"prompt": parts[0]["text"]}))
        except ToolError as error:
            yield TextDelta(f"error: {error}")
        yield TurnEnd()

class Caller(Agent):
    async def open(self, context):
        return Session(context)

@hookimpl
def a2ad_register_agents(register):
    register("caller", lambda preset: Caller())

@hookimpl
def a2ad_register_presets(register):
    register("caller", {"agent": "caller"})
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("secrets"), plugin=PLUGIN) as process:
        yield process


@pytest.fixture
def remote(daemon: DaemonProcess) -> Iterator[Remote]:
    with no_faults(daemon), Remote() as found:
        yield found


def bearers(remote: Remote, verb: str = "POST") -> list[str | None]:
    return [asked.headers.get("authorization") for asked in remote.requests if asked.verb == verb]


def with_token(daemon: DaemonProcess, remote: Remote, **fields: Any) -> str:
    """A connection whose token the remote has seen."""
    outbound = connect(daemon, remote, **fields)
    daemon.act("outbound.setAuth", id=outbound, token=TOKEN)
    daemon.act("outbound.refresh", id=outbound)
    assert bearers(remote, "GET")[-1] == f"Bearer {TOKEN}"
    return outbound


# the token


def test_a_token_goes_to_the_cards_origin_and_to_those_that_the_operator_lists(
    daemon: DaemonProcess, remote: Remote
) -> None:
    with Remote() as other:
        outbound = with_token(daemon, remote)
        remote.on("SendStreamingMessage", answer(DONE))
        call(daemon, outbound)
        assert bearers(remote) == [f"Bearer {TOKEN}"]
        for url in (f"{other.url}/rpc", f"http://localhost:{remote.port}/rpc"):
            remote.card["supportedInterfaces"][0]["url"] = url
            other.on("SendStreamingMessage", http_answer(401))
            remote.on("SendStreamingMessage", http_answer(401))
            daemon.act("outbound.refresh", id=outbound)
            assert "tokenOrigins" in call(daemon, outbound, status=409)["message"]
        assert bearers(other) == [None]
        assert bearers(remote)[1:] == [None]
        remote.card["supportedInterfaces"][0]["url"] = f"{other.url}/rpc"
        daemon.act("outbound.refresh", id=outbound)
        daemon.act("outbound.update", id=outbound, tokenOrigins=[other.url])
        other.on("SendStreamingMessage", answer(DONE))
        assert call(daemon, outbound)["text"] == "done"
        assert bearers(other) == [None, f"Bearer {TOKEN}"]
        daemon.act("outbound.setAuth", id=outbound)
        call(daemon, outbound)
        assert bearers(other)[-1] is None


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirect_takes_a_call_or_a_card_to_another_origin(daemon: DaemonProcess, remote: Remote, code: int) -> None:
    with Remote() as other:
        outbound = with_token(daemon, remote)
        remote.on("SendStreamingMessage", http_answer(code, Location=f"{other.url}/rpc"))
        assert "another origin" in call(daemon, outbound, status=409)["message"]
        remote.on("GET", http_answer(code, Location=other.card_url))
        assert "another origin" in daemon.act("outbound.refresh", status=409, id=outbound)["message"]
        fields = {"agentCardUrl": remote.card_url, "token": TOKEN}
        assert "another origin" in daemon.act("outbound.discover", status=409, **fields)["message"]
        assert other.requests == []
        assert len(remote.asked("SendStreamingMessage")) == 1


THEFT: dict[str, Script] = {
    "text": answer(snapshot("COMPLETED", "", parts_of(f"the token is {TOKEN}."))),
    "two parts": answer(snapshot("COMPLETED", "", parts_of([{"text": TOKEN[:9]}, {"text": TOKEN[9:]}]))),
    "chunks": stream(snapshot("WORKING"), *(artifact(letter, append=True) for letter in TOKEN), status("COMPLETED")),
    "chunks after the end": stream(
        status("COMPLETED"), *(artifact(each, append=True) for each in (TOKEN[:4], TOKEN[4:]))
    ),
    "data": answer(snapshot("COMPLETED", "", parts_of([{"data": {TOKEN: [TOKEN]}}]))),
    "file": answer(snapshot("COMPLETED", "", parts_of([{"url": f"http://x/{TOKEN}", "filename": TOKEN}]))),
    "message": answer({"message": {"role": "ROLE_AGENT", "parts": [{"text": TOKEN}]}}),
    "status": stream(snapshot("WORKING", TOKEN), status("FAILED", f"no: {TOKEN}")),
    "question": answer(snapshot("INPUT_REQUIRED", f"What is {TOKEN}?")),
    "error": refusal(-32602, f"{TOKEN} is wrong"),
    "long error": refusal(-32602, "x" * 3985 + TOKEN + "y" * 100),
    "refusal": refusal(-32602, f"{TOKEN} is wrong", 400),
    "code": refusal(TOKEN, "no"),  # type: ignore[arg-type]
    "state": answer(snapshot(TOKEN)),
    "task id": answer(snapshot("COMPLETED", "", parts_of("x"), id=TOKEN)),
    "context id": answer(snapshot("COMPLETED", "", parts_of("x"), contextId=TOKEN)),
    "redirect": http_answer(302, Location=f"http://{TOKEN}/"),
}


@pytest.mark.parametrize("name", THEFT)
def test_a_token_that_comes_back_is_told_nowhere(daemon: DaemonProcess, remote: Remote, name: str) -> None:
    remote.on("SendStreamingMessage", THEFT[name])
    outbound = with_token(daemon, remote)
    got, told = daemon.request(
        "POST", f"{daemon.url}/a2a/api", {"action": "outbound.call", "id": outbound, "text": "x"}
    )
    assert got in {200, 409}
    events = list(watched(daemon, outbound))
    texts = "".join(update.get("text", "") for kind, update in events if kind == "progress")
    seen = [json.dumps(each, ensure_ascii=False) for each in (told, events, daemon.read(""))]
    for shown in (*seen, texts, told["message"], told.get("text", ""), logged_so_far(daemon, f"mark{len(seen)}")):
        assert not _has_token(shown), shown
    assert len(remote.asked("SendStreamingMessage")) == 2


def test_a_token_that_is_an_ordinary_word_stays_in_answers_but_not_in_failures(
    daemon: DaemonProcess, remote: Remote
) -> None:
    outbound = connect(daemon, remote)
    daemon.act("outbound.setAuth", id=outbound, token="test")
    text = "this is a test of testing"
    remote.on(
        "SendStreamingMessage",
        answer(snapshot("COMPLETED", "", parts_of(text))),
        answer(snapshot("INPUT_REQUIRED", "Which test?")),
        answer(snapshot("FAILED", "The test failed", parts_of(text))),
        answer(snapshot("FAILED", "", parts_of(text))),
        refusal(-32602, "test is wrong"),
    )
    assert call(daemon, outbound)["text"] == text
    assert call(daemon, outbound)["text"] == "Which test?"
    failed = call(daemon, outbound, status=409)
    assert (failed["message"], failed["text"]) == ("The *** failed", f"{text}\n\nThe *** failed")
    assert call(daemon, outbound, status=409)["text"] == "this is a *** of ***ing"
    assert "*** is wrong" in call(daemon, outbound, status=409)["message"]


def _has_token(text: str) -> bool:
    """Or the beginning of it: enough to be worth something."""
    words = (TOKEN[:14], json.dumps(TOKEN)[1:14], json.dumps(json.dumps(TOKEN)[1:14])[1:-1])
    return any(word in text for word in words)


def test_a_card_that_repeats_the_token_does_not_show_it(daemon: DaemonProcess, remote: Remote) -> None:
    outbound = with_token(daemon, remote)
    before = dict(remote.card)
    thief = {"id": "s", "name": TOKEN, "description": f"say {TOKEN}"}
    remote.card.update(name=TOKEN, description=TOKEN, version=TOKEN, skills=[thief, {"id": TOKEN}])
    shown = _shown(daemon, remote, outbound)
    for more in ({"supportedInterfaces": []}, {"supportedInterfaces": [{"protocolBinding": TOKEN}]}):
        remote.card.update({**before, **more})
        shown += _shown(daemon, remote, outbound, status=409)
    remote.on("GET", http_answer(302, Location=f"/{TOKEN}"), http_answer(404))
    shown += _shown(daemon, remote, outbound, status=409)
    for each in (*shown, logged_so_far(daemon, "marked-card")):
        assert not _has_token(json.dumps(each, ensure_ascii=False)), each


def _shown(daemon: DaemonProcess, remote: Remote, outbound: str, status: int = 200) -> list[Any]:
    fields = {"agentCardUrl": remote.card_url, "token": TOKEN}
    told = [daemon.act("outbound.refresh", status=status, id=outbound)]
    told += [daemon.act("outbound.discover", status=status, **fields)]
    return [*told, daemon.read(""), daemon.read("/tools")]


def test_a_token_is_not_shown_in_part_where_a_text_is_cut_off(daemon: DaemonProcess, remote: Remote) -> None:
    outbound = with_token(daemon, remote)
    cut = {"id": "cut", "name": "x" * 185 + TOKEN, "description": "x" * 985 + TOKEN}
    remote.card.update(name="x" * 185 + TOKEN, description="x" * 985 + TOKEN, skills=[cut])
    for each in _shown(daemon, remote, outbound):
        assert not _has_token(json.dumps(each, ensure_ascii=False)), each


def test_a_card_that_repeats_the_token_is_not_kept_with_it(daemon: DaemonProcess, remote: Remote) -> None:
    """It lies in its file and nowhere else (issue 4, 5)."""
    outbound = with_token(daemon, remote)
    remote.card.update(description=f"{TOKEN} it is")
    daemon.act("outbound.refresh", id=outbound)
    daemon.act("outbound.disable", id=outbound)  # it waits for what was being written
    assert _holders(daemon) == ["outbound-tokens.json"]


def _holders(daemon: DaemonProcess) -> list[str]:
    """The files that have a token, also as JSON writes it."""
    files = [path for path in daemon.state_dir.rglob("*") if path.is_file()]
    return [path.name for path in files if TOKEN[6:].encode() in path.read_bytes()]


@pytest.mark.parametrize(
    "script",
    [
        answer({"message": {"role": "ROLE_AGENT", "parts": [{"text": "yes"}]}}),
        stream(artifact("yes"), status("COMPLETED")),
        stream(status("COMPLETED"), artifact("yes")),
        stream(artifact("y"), snapshot("INPUT_REQUIRED", "", parts_of("yes"))),
    ],
)
def test_what_only_begins_as_a_token_is_shown_at_last(daemon: DaemonProcess, remote: Remote, script: Script) -> None:
    remote.on("SendStreamingMessage", script)
    events = list(watched(daemon, with_token(daemon, remote)))
    assert "".join(update.get("text", "") for kind, update in events if kind == "progress") == "yes"


def test_a_token_lies_in_a_file_of_its_own_and_outlives_the_daemon(launch: Callable[..., DaemonProcess]) -> None:
    """And a remote that is away at the start is connected once it is back; a variable that is missing is an error."""
    with Remote() as remote:
        daemon = launch()
        outbound = with_token(daemon, remote)
        missing = str(
            daemon.act("outbound.create", name="m", agentCardUrl=remote.card_url, bearerTokenEnv="NO_SUCH")["id"]
        )
        assert (row(daemon, missing)["state"], "NO_SUCH" in row(daemon, missing)["lastError"]) == ("error", True)
        assert "NO_SUCH" in call(daemon, missing, status=409)["message"]
        holders = [
            path for path in daemon.state_dir.rglob("*") if path.is_file() and b"secret-0123" in path.read_bytes()
        ]
        assert [path.stat().st_mode & 0o777 for path in holders] == [0o600]
        assert daemon.terminate() == 0
        holders[0].chmod(0o644)
    daemon = launch(env={"NO_SUCH": "from-the-environment"})
    assert holders[0].stat().st_mode & 0o777 == 0o600
    until(lambda: row(daemon, outbound)["state"] == "error", "the remote is away")
    assert (row(daemon, outbound)["tokenSet"], row(daemon, outbound)["skillCount"]) == (True, 1)
    with Remote(port=remote.port) as back:
        until(lambda: row(daemon, outbound)["state"] == row(daemon, missing)["state"] == "connected", "it is back")
        back.on("SendStreamingMessage", answer(DONE))
        for each in (outbound, missing):
            assert call(daemon, each)["text"] == "done"
        assert bearers(back) == [f"Bearer {TOKEN}", "Bearer from-the-environment"]
        daemon.act("outbound.remove", id=outbound)
        assert b"secret-0123" not in holders[0].read_bytes()
    assert daemon.terminate() == 0
    assert not [fault for fault in FAULTS if fault in daemon.log()]


# the control API

CONTROL_API = "control API is no remote agent"
#: what only a resolver takes for an address, and what a call of it is told: until then it is a name like any other
RESOLVED = {"127.1": "cannot be asked", "0x7f000001": "HTTP 403", "2130706433": "cannot be asked"}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]", "LOCALHOST.",
        "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/a2a/api", "/a2a/api/", "/a2a/./api", "/%61%32a/api"])
def test_the_daemons_own_control_api_is_no_remote(daemon: DaemonProcess, remote: Remote, host: str, path: str) -> None:
    own = f"http://{host}:{daemon.url.rpartition(':')[2]}{path}"
    before = daemon.read("")
    assert daemon.act("outbound.discover", status=409, agentCardUrl=own)["ok"] is False
    redirect = own.encode().decode("latin-1")  # headers are bytes
    remote.on("GET", http_answer(302, Location=redirect))
    assert daemon.act("outbound.create", status=409, name="x", agentCardUrl=remote.card_url)["ok"] is False
    assert daemon.read("")["outbounds"] == before["outbounds"]
    harmless = http_answer(200, json.dumps(remote.card).encode())
    card = {**remote.card, "supportedInterfaces": [{**remote.card["supportedInterfaces"][0], "url": own}]}
    leading_here = http_answer(200, json.dumps(card).encode())
    remote.on("GET", harmless, leading_here)
    outbound = connect(daemon, remote)
    remote.on("SendStreamingMessage", http_answer(307, Location=redirect))
    assert call(daemon, outbound, status=409, text="x")["ok"] is False
    fields = {"agentCardUrl": remote.card_url}
    for action, more in (("refresh", {"id": outbound}), ("discover", fields), ("create", {"name": "x", **fields})):
        if host not in RESOLVED:
            assert CONTROL_API in daemon.act(f"outbound.{action}", status=409, **more)["message"]
    if host in RESOLVED:
        daemon.act("outbound.refresh", id=outbound)
    assert RESOLVED.get(host, CONTROL_API) in call(daemon, outbound, status=409, text="x")["message"]
    assert len(remote.asked("SendStreamingMessage")) == 1
    daemon.act("outbound.remove", id=outbound)
    assert daemon.read("") == before


# files


@pytest.mark.parametrize(
    "name",
    ["../../../evil.sh", "/etc/passwd", "..", "", "a\x00b\n\u202e.txt", ".hidden", "C:\\x\\y.bin", "x" * 5000, "é/ü"],
)
def test_files_are_kept_byte_by_byte_under_a_name_that_does_no_harm(
    daemon: DaemonProcess, remote: Remote, name: str
) -> None:
    content = bytes(range(256)) * 10 + name.encode()
    raw = base64.urlsafe_b64encode(content).decode().rstrip("=")
    part = {"raw": raw, "filename": name, "mediaType": "application/x-sh"}
    remote.on("SendStreamingMessage", answer(snapshot("COMPLETED", "", parts_of([{"text": "here"}, part]))))
    outside = {path for path in daemon.folder.rglob("*") if "outbound-files" not in path.parts}
    text = call(daemon, connect(daemon, remote))["text"]
    told, line = text.splitlines()
    path = Path(line.rpartition(": ")[2].removesuffix("]"))
    assert (told, path.read_bytes()) == ("here", content)
    assert path.parent.resolve() == (daemon.state_dir / "outbound-files").resolve()
    assert re.fullmatch(r"[0-9a-f]{32}-[A-Za-z0-9_-][A-Za-z0-9._-]*", path.name)
    assert line.startswith("[file")
    assert line.endswith(f", application/x-sh, {len(content)} bytes: {path}]")
    assert path.stat().st_mode & 0o777 == 0o600
    assert raw not in text
    assert {path for path in daemon.folder.rglob("*") if "outbound-files" not in path.parts} == outside


def test_a_file_that_is_none_is_told(daemon: DaemonProcess, remote: Remote) -> None:
    part = {"raw": "!!! no base64", "filename": "x.bin"}
    remote.on("SendStreamingMessage", answer(snapshot("COMPLETED", "", parts_of([{"text": "here"}, part]))))
    assert "not kept" in call(daemon, connect(daemon, remote))["text"]


def test_of_the_files_of_an_answer_twenty_are_kept(daemon: DaemonProcess, remote: Remote) -> None:
    """In whatever artifacts they are; each further one is told as not kept."""
    contents = [f"file {number} of this test".encode() for number in range(23)]
    parts = [
        {"raw": base64.b64encode(content).decode(), "filename": "same.txt", "mediaType": "text/plain"}
        for content in contents
    ]
    artifacts = [parts_of(parts[:15], "one"), parts_of(parts[15:], "two")]
    remote.on("SendStreamingMessage", answer(snapshot("COMPLETED", "", *artifacts)))
    before = set((daemon.state_dir / "outbound-files").glob("*"))
    lines = call(daemon, connect(daemon, remote))["text"].replace("\n\n", "\n").split("\n")
    kept = [Path(line.rpartition(": ")[2].removesuffix("]")) for line in lines[:20]]
    assert [path.read_bytes() for path in kept] == contents[:20]
    assert set((daemon.state_dir / "outbound-files").glob("*")) - before == set(kept)
    assert [line.startswith("[file same.txt, text/plain, not kept: ") for line in lines[20:]] == [True] * 3


# chains


@pytest.mark.parametrize(
    ("given", "passed"), [(None, 1), (0, 1), (3, 4), (7, 8), (-1, 1), ("7", 1), (True, 1), (3.0, 4)]
)
def test_a_call_says_how_many_daemons_it_came_through(
    daemon: DaemonProcess, remote: Remote, given: Any, passed: int
) -> None:
    remote.on("SendStreamingMessage", answer(DONE))
    outbound = connect(daemon, remote, name="depths")
    inbound = daemon.create_inbound(preset="caller")
    found = daemon.send(inbound, "hello", metadata={"a2ad/depth": given} if given is not None else {})
    assert found["artifacts"][-1]["parts"] == [{"text": "done"}]
    (asked,) = remote.asked("SendStreamingMessage")
    assert asked.message["metadata"]["a2ad/depth"] == passed
    daemon.act("outbound.remove", id=outbound)


@pytest.mark.parametrize("given", [8, 9, 10**15])
def test_a_chain_ends_at_eight(daemon: DaemonProcess, remote: Remote, given: int) -> None:
    outbound = connect(daemon, remote, name="depths")
    inbound = daemon.create_inbound(preset="caller")
    found = daemon.send(inbound, "hello", metadata={"a2ad/depth": given})
    assert "the chain ends here" in found["artifacts"][-1]["parts"][0]["text"]
    assert remote.asked("SendStreamingMessage") == []
    daemon.act("outbound.remove", id=outbound)
