"""What stands before the methods: routes, sizes, media types, tokens, hosts, versions, envelopes (protocol.md 2)."""

import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message
from tests.lab import answer_on, connect, error, exchange, head, violations

LIMIT = 4096
TOKEN = "s3cr3t"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    config = f'[limits]\nbody_bytes = {LIMIT}\n[server]\nallowed_hosts = ["agents.test"]\n'
    started = DaemonProcess(tmp_path_factory.mktemp("requests"), config=config)
    yield started
    assert "request.failed" not in started.log()
    started.kill()


@pytest.fixture(scope="module")
def url(daemon: DaemonProcess) -> str:
    """The endpoint of an agent without a token."""
    return daemon.endpoint(daemon.create_inbound(name="open"))


@pytest.fixture(scope="module")
def guarded(daemon: DaemonProcess) -> str:
    inbound = daemon.create_inbound(name="guarded")
    daemon.act("inbound.setAuth", id=inbound, token=TOKEN)
    return daemon.endpoint(inbound)


def _call(method: str = "ListTasks", params: Any = None, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}, **more}).encode()


def _padded(size: int) -> bytes:
    call = _call()
    return call + b" " * (size - len(call))


# routes


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_an_endpoint_answers_post_alone(url: str, method: str) -> None:
    answer = exchange(url, method)

    assert answer.status == 405
    assert answer.headers["Allow"] == "POST"
    assert answer.headers["A2A-Version"] == "1.0"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("suffix", ["/agent-card.json", "/.well-known/agent-card.json"])
def test_a_card_is_only_read(url: str, method: str, suffix: str) -> None:
    answer = exchange(url + suffix, method, _call())

    assert answer.status == 405
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize("path", ["/a2a/nobody", "/a2a", "/a2a/", "/elsewhere", "/a2a/%2e%2e/api", "/a2a/%00", "/%ff"])
def test_there_is_nothing_at_other_paths(daemon: DaemonProcess, path: str) -> None:
    for method in ("GET", "POST"):
        assert exchange(daemon.url + path, method, _call()).status in {404, 405}
    assert exchange(daemon.url + path, "POST", _call()).status != 200


def test_a_disabled_agent_is_not_there_until_it_is_enabled(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound(name="sometimes")
    url = daemon.endpoint(inbound)
    assert exchange(url, body=_call()).status == 200

    daemon.act("inbound.disable", id=inbound)
    assert [exchange(url, body=_call()).status, exchange(f"{url}/agent-card.json", "GET").status] == [404, 404]

    daemon.act("inbound.enable", id=inbound)
    assert [exchange(url, body=_call()).status, exchange(f"{url}/agent-card.json", "GET").status] == [200, 200]


# the token


def test_every_request_needs_the_token_and_the_card_does_not(guarded: str) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN.upper()}"},
        {"Authorization": "Bearer t\xf6ken"},
        {"X-Authorization": f"Bearer {TOKEN}"},
    ):
        for method in ("SendMessage", "SendStreamingMessage", "SubscribeToTask", "GetTask", "NoSuchMethod"):
            answer = exchange(guarded, body=_call(method), headers={"Accept": "text/event-stream", **headers})
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.headers["A2A-Version"] == "1.0"
            assert answer.headers["Content-Type"] == "application/json"
            assert error(answer.json) == (-32040, "UNAUTHORIZED")
            assert TOKEN.encode() not in answer.body
    assert exchange(guarded, body=_call(), headers={"Authorization": f"Bearer {TOKEN}"}).status == 200
    assert exchange(guarded, body=_call(), headers={"Authorization": f"bearer  {TOKEN}"}).status == 200
    card = exchange(f"{guarded}/agent-card.json", "GET")
    assert card.status == 200
    assert TOKEN.encode() not in card.body


@pytest.mark.parametrize(
    ("framing", "started"),
    [
        ("Content-Length: 1000000000000", b""),
        ("Content-Length: 1000000000000", b"{"),
        ("Transfer-Encoding: chunked", b""),
        ("Transfer-Encoding: chunked", b"5\r\n{\r\n"),
    ],
)
def test_a_wrong_token_is_refused_before_a_body_that_never_ends(guarded: str, framing: str, started: bytes) -> None:
    with connect(guarded) as sock:
        sock.sendall(head(guarded, "Authorization: Bearer wrong", "Content-Type: application/json", framing) + started)
        answer = answer_on(sock)

    assert answer.status == 401
    assert error(answer.json) == (-32040, "UNAUTHORIZED")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b" " * (LIMIT * 4), b"[]"])
def test_a_wrong_token_is_told_before_anything_that_is_wrong_with_the_body(guarded: str, body: bytes) -> None:
    for headers in ({"Content-Type": "text/plain"}, {"A2A-Version": "0.3"}, {"Host": "evil.test"}, {}):
        assert exchange(guarded, body=body, headers=headers).status == 401


# size


@pytest.mark.parametrize(("size", "status"), [(LIMIT - 1, 200), (LIMIT, 200), (LIMIT + 1, 413), (LIMIT * 50, 413)])
def test_a_body_past_the_limit_is_refused_with_and_without_its_length(url: str, size: int, status: int) -> None:
    body = _padded(size)
    chunks = (body[start : start + 1000] for start in range(0, size, 1000))

    for answer in (exchange(url, body=body), exchange(url, body=chunks)):
        assert answer.status == status
        assert answer.headers["A2A-Version"] == "1.0"
        if status == 413:
            assert error(answer.json)[1] == "REQUEST_TOO_LARGE"
            assert answer.json["id"] is None


def test_a_body_that_never_ends_is_refused_at_the_limit(url: str) -> None:
    with connect(url) as sock:
        sock.sendall(head(url, "Content-Type: application/json", "Transfer-Encoding: chunked"))
        for _ in range(LIMIT // 1000 + 2):
            sock.sendall(b"3e8\r\n" + b" " * 1000 + b"\r\n")
        assert answer_on(sock).status == 413


def test_a_body_that_declares_too_much_is_refused_before_it_comes(url: str) -> None:
    with connect(url) as sock:
        sock.sendall(head(url, "Content-Type: application/json", f"Content-Length: {LIMIT + 1}"))
        assert answer_on(sock).status == 413


def test_a_body_that_grows_when_it_is_unpacked_counts_as_what_it_becomes(url: str) -> None:
    packed = {"Content-Encoding": "gzip"}

    assert exchange(url, body=gzip.compress(_padded(LIMIT)), headers=packed).status == 200
    assert exchange(url, body=gzip.compress(b" " * 20_000_000), headers=packed).status == 413
    assert exchange(url, body=b"this is not gzip", headers=packed).status < 500


# media type and host


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "application/a2a+json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/a2a+json ; a=b",
    ],
)
def test_json_media_types_pass(url: str, kind: str) -> None:
    assert exchange(url, body=_call(), headers={"Content-Type": kind}).status == 200


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/json",
        "application/jsonp",
        "application/json2; x",
        "json",
        "*/*",
        "application/problem+json",
    ],
)
def test_other_media_types_are_refused_and_nothing_happens(daemon: DaemonProcess, url: str, kind: str | None) -> None:
    body = _call("SendMessage", {"message": message("hello", contextId=f"from {kind}")})
    headers = {} if kind is None else {"Content-Type": kind}

    answer = exchange(url, body=body, headers=headers, json_type=False)

    assert answer.status == 415
    assert error(answer.json)[1] == "CONTENT_TYPE_NOT_SUPPORTED"
    tasks = exchange(url, body=_call("ListTasks", {"contextId": f"from {kind}"})).json["result"]
    assert tasks["totalSize"] == 0


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:65535", 200),
        ("[::1]:3080", 200),
        ("agents.test", 200),
        ("agents.test:8443", 200),
        ("evil.test", 403),
        ("evil.test:3080", 403),
        ("127.0.0.1.evil.test", 403),
        ("localhost.evil.test", 403),
        ("localhost@evil.test", 403),
        ("10.0.0.1", 403),
        ("[::2]", 403),
        ("[::1", 403),
        ("", 403),
        ("127.0.0.1/x", 403),
    ],
)
def test_an_open_agent_on_loopback_is_called_by_its_own_names_only(
    url: str, guarded: str, host: str, status: int
) -> None:
    answer = exchange(url, body=_call(), headers={"Host": host})
    assert answer.status == status
    if status == 403:
        assert error(answer.json)[1] == "HOST_REFUSED"

    assert exchange(guarded, body=_call(), headers={"Host": host, "Authorization": f"Bearer {TOKEN}"}).status == 200
    assert exchange(f"{url}/agent-card.json", "GET", headers={"Host": host}).status == 200


# versions


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1.0.3", "1.0.12", "", None])
def test_version_1_0_and_none_pass(url: str, version: str | None) -> None:
    headers = {} if version is None else {"A2A-Version": version}
    answer = exchange(url, body=_call(), headers=headers)

    assert "result" in answer.json
    assert answer.headers["A2A-Version"] == "1.0"
    if version is not None:
        assert "result" in exchange(f"{url}?A2A-Version={version}", body=_call()).json


@pytest.mark.parametrize(
    "version", ["0.3", "0.3.0", "1", "1.1", "2.0", "1.0.", "1.0.x", "1.0.3.4", "v1.0", "1.00", "x"]
)
def test_other_versions_are_refused(url: str, version: str) -> None:
    for answer in (
        exchange(url, body=_call(id="v"), headers={"A2A-Version": version}),
        exchange(f"{url}?A2A-Version={version}", body=_call(id="v")),
        exchange(f"{url}?A2A-Version=1.0", body=_call(id="v"), headers={"A2A-Version": version}),
    ):
        assert answer.status == 200
        assert error(answer.json) == (-32007, "VERSION_NOT_SUPPORTED")
        assert answer.json["id"] == "v"
        assert answer.headers["A2A-Version"] == "1.0"


def test_the_header_goes_before_the_query(url: str) -> None:
    assert "result" in exchange(f"{url}?A2A-Version=0.3", body=_call(), headers={"A2A-Version": "1.0"}).json


def test_every_answer_of_an_endpoint_says_its_version(url: str) -> None:
    send = {"message": message("hello")}
    answers = [
        exchange(url, body=_call("SendMessage", send)),
        exchange(url, body=_call("SendStreamingMessage", send), headers={"Accept": "text/event-stream"}),
        exchange(url, body=_call("SendStreamingMessage", send), headers={"Accept": "application/json"}),
        exchange(url, body=_call("NoSuchMethod")),
        exchange(url, body=b"{"),
        exchange(url, body=_call("GetExtendedAgentCard")),
        exchange(f"{url}/agent-card.json", "GET"),
        exchange(f"{url}/agent-card.json", "HEAD"),
        exchange(f"{url}/.well-known/agent-card.json", "GET", headers={"If-None-Match": "*"}),
        exchange(f"{url}/agent-card.json", "DELETE"),
    ]
    assert [answer.headers.get_all("A2A-Version") for answer in answers] == [["1.0"]] * len(answers)


# nothing ever 500


def test_bytes_changed_at_random_are_answered_and_never_with_500(daemon: DaemonProcess, url: str) -> None:
    luck = random.Random(20261201)
    wanted = [
        _call("SendMessage", {"message": message("hello", messageId="m", metadata={"skill": "chat"})}, id=1.5),
        _call(
            "ListTasks",
            {"pageSize": 5, "status": "TASK_STATE_COMPLETED", "statusTimestampAfter": "2026-01-01T00:00:00Z"},
        ),
        _call("SubscribeToTask", {"id": "x", "historyLength": 1}),
    ]
    for _ in range(400):
        body = bytearray(luck.choice(wanted))
        for _ in range(luck.randint(1, 4)):
            place = luck.randrange(len(body))
            body[place : place + luck.randint(0, 3)] = luck.randbytes(luck.randint(0, 3))
        answer = exchange(url, body=bytes(body))
        assert answer.status == 200
        assert answer.json.get("error", {}).get("code") != -32603, bytes(body)
    assert violations(exchange(url, body=_call("GetTask")).json) == ["id"]
