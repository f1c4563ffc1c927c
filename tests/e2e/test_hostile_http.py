"""Requests that no honest client sends: none leaves a secret in the log, an error in it, or a wrong answer."""

import json
import random
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import text_of, until
from tests.hostile import (
    call,
    connect,
    exchange,
    logged_so_far,
    no_faults,
    post,
    read_answer,
    send_message,
    state_and_text,
    status_of,
)

Launch = Callable[..., DaemonProcess]
LIST = call("ListTasks", {})


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("http")) as started:
        yield started


@pytest.fixture(scope="module")
def open_agent(shared: DaemonProcess) -> str:
    shared.create_inbound(endpointPath="/a2a/open")
    return "/a2a/open"


@pytest.fixture(scope="module", params=["text", "json"])
def logging(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """A daemon that logs in this format, and has an inbound at `/a2a/x` with a token."""
    folder = tmp_path_factory.mktemp("logging")
    started = DaemonProcess(folder, "--log-format", request.param, "--log-level", "debug")
    inbound = started.create_inbound(endpointPath="/a2a/x")
    started.act("inbound.setAuth", id=inbound, token=TOKEN)
    yield started
    started.kill()


TOKEN = "tQx7-Vy2_secret.Pw9"
A = b"Authorization: Bearer " + TOKEN.encode()
START = b"POST /a2a/x HTTP/1.1\r\nHost: localhost\r\n"
BAD = {
    "a control character behind it": START + A + b"\x01\r\n\r\n",
    "a NUL in it": START + A + b"\x00x\r\n\r\n",
    "a bare line feed in it": START + A + b"\nX\n\n",
    "a bare carriage return in it": START + A + b"\rX: y\r\n\r\n",
    "more than 8 kB of it": START + A + b"x" * 10_000 + b"\r\n\r\n",
    "it on a folded line": START + b"Authorization: Bearer\r\n " + TOKEN.encode() + b"\r\n\r\n",
    "a folded line behind it": START + A + b"\r\n\tmore\r\n\r\n",
    "a line without a colon": START + A + b"\r\nno colon\r\n\r\n",
    "a space before the colon": START + b"Authorization : Bearer " + TOKEN.encode() + b"\r\n\r\n",
    "it as the name of a header": START + TOKEN.encode() + b"\x02: x\r\n\r\n",
    "an empty name": START + b": Bearer " + TOKEN.encode() + b"\r\n\r\n",
    "two lengths": START + A + b"\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "a negative length": START + A + b"\r\nContent-Length: -2\r\n\r\n{}",
    "a length that is it": START + A + b"\r\nContent-Length: " + TOKEN.encode() + b"\r\n\r\n{}",
    "a chunk that is it": START + A + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + TOKEN.encode() + b"\r\n",
    "a trailer that is bad": START + A + b"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\n{}\r\n0\r\nX " + TOKEN.encode() + b"\x01\r\n\r\n",
    "an unknown transfer coding": START + A + b"\r\nTransfer-Encoding: " + TOKEN.encode() + b"\r\n\r\n{}",
    "an unknown content coding": START + A + b"\r\nContent-Type: application/json\r\nContent-Encoding: br\r\n"
    b"Content-Length: 2\r\n\r\n{}",
    "a body that is not gzip": START + A + b"\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    b"Content-Length: 20\r\n\r\n" + TOKEN.encode() + b"x",
    "it in the path": b"POST /a2a/x/" + TOKEN.encode() + b"\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "it in the version": b"POST /a2a/x HTTP/" + TOKEN.encode() + b"\r\nHost: localhost\r\n\r\n",
    "it as the method": TOKEN.encode() + b" /a2a/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "it as the whole request": TOKEN.encode() + b"\r\n\r\n",
    "it in a URL that is none": b"POST http://[" + TOKEN.encode() + b"/a2a/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "it in a port": b"POST http://a:" + TOKEN.encode() + b"/a2a/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "it as the body": post("/a2a/x", TOKEN.encode(), A),
    "it as the id of a call": post("/a2a/x", {"jsonrpc": "1", "id": {"x": TOKEN}}, A),
    "it in an action": post("/a2a/api", {"action": "inbound.setAuth", "id": "x", "token": TOKEN}),
    "it in a deep action": post("/a2a/api", {"action": [[[]]], "token": TOKEN}),
    "it of a wrong type": post("/a2a/api", {"action": "inbound.setAuth", "id": "x", "token": [TOKEN]}),
    "it with a line break": post("/a2a/api", {"action": "inbound.setAuth", "id": "x", "token": f"{TOKEN}\n"}),
}


def test_no_malformed_request_leaves_its_token_in_the_log_or_in_the_answer(logging: DaemonProcess) -> None:
    for name, request in BAD.items():
        with connect(logging) as sock:
            sock.sendall(request)
            sock.shutdown(socket.SHUT_WR)
            answer = read_answer(sock)
        assert TOKEN.encode() not in answer, name
        assert status_of(answer) < 500, (name, answer)
        assert TOKEN not in logged_so_far(logging, f"mark-{name}".replace(" ", "-")), name
    assert "Traceback" not in logging.log()


def test_what_would_act_on_a_terminal_is_escaped_in_the_log(logging: DaemonProcess) -> None:
    harmful = "\x1b[31m \x07 \x7f \x9b31m \x85 \u2028 \u2029 \u202e \u202a \u2066 \u2069 \u200e \u200f \u061c"
    quoted = "".join(f"%{byte:02x}" for byte in harmful.encode())
    sent = [
        f"GET /a2a/api/{quoted}first HTTP/1.1\r\nHost: evil\r\n\r\n".encode(),
        b"GET /a2a/api/\xc2\x9b\xe2\x80\xaesecond HTTP/1.1\r\nHost: evil\r\n\r\n",
        b"GET /a2a/api/third HTTP/1.1\r\nHost: e\xc2\x9bvil\xe2\x80\xae\r\n\r\n",
        post("/a2a/api", {"action": "task.cancel", "id": f"{harmful}fourth"}),
        post("/a2a/api", {"action": f"{harmful}fifth", "id": f"x\nid={harmful}"}),
        post("/a2a/api", {"action": "session.cancel", "id": f"sixth{harmful}"}),
    ]
    for request in sent:
        assert status_of(exchange(logging, request)) in {200, 400, 403, 404, 409}
    log = logged_so_far(logging, "after-escapes")
    for mark in ("first", "third", "fourth", "fifth", "sixth"):  # the second is not HTTP, and not quoted
        assert mark in log
    for character in set(harmful) - {" ", "[", "3", "1", "m"}:
        assert character not in log, hex(ord(character))


HOSTS = [
    "localhost?x", "localhost#x", "localhost/x", "localhost\\x", "[::1]x", "[::1", "::1", "127.0.0.1:abc",
    "localhost:1:2", "localhost:", "localhost:+80", "localhost:99999", "localhost:123456", '"localhost"',
    "'localhost'", 'localhost:80"><x', "user@localhost", "localhost@evil.example", "localhost,evil.example",
    "localhost evil.example", "localhost;x", "localhost%00", "localhost.", "127.1", "2130706433", "0x7f.1",
    "[127.0.0.1]", "[localhost]", "[::ffff:7f00:1]:x", "http://localhost", "localhost\xa0", "\uff4cocalhost",
    "evil.example", "[]", "-",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_is_none_is_refused_and_stands_in_no_card(
    shared: DaemonProcess, open_agent: str, host: str
) -> None:
    raw = host.encode()
    for path in ("/a2a/api", "/a2a/api/presets"):
        request = b"GET " + path.encode() + b" HTTP/1.1\r\nHost: " + raw + b"\r\n\r\n"
        assert status_of(exchange(shared, request)) in {400, 403}
    for path in (f"{open_agent}/agent-card.json", "/.well-known/agent-card.json"):
        answer = exchange(shared, b"GET " + path.encode() + b" HTTP/1.1\r\nHost: " + raw + b"\r\n\r\n")
        if status_of(answer) != 400:
            card = json.loads(answer.partition(b"\r\n\r\n")[2])
            assert {each["url"] for each in card["supportedInterfaces"]} == {f"{shared.url}{open_agent}"}


FORWARDED = [
    b"", b",", b" , ,", b"unknown", b"\xff", b"\xc2\x9b", b"1.2.3.4:80", b"[::1]", b"999.1.1.1", b"1.2.3", b"::g",
    b"127.0.0.1", b"127.0.0.1, 127.0.0.1", b"::ffff:1.2.3.4", b"fe80::1%eth0", b"fe80::1%\xff", b"fe80::1%\xe2\x80\xae",
    b"1.2.3.4, \xff", b"\xff, 1.2.3.4", b"1.2.3.4\t", b"," * 4000, b"1.1.1.1," * 900, b'"1.2.3.4"', b"x" * 4000,
]  # fmt: skip


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Behind a trusted proxy on this machine: one inbound with a token, one without."""
    config = '[server]\ntrusted_proxies = ["127.0.0.1"]\n'
    started = DaemonProcess(tmp_path_factory.mktemp("proxied"), config=config)
    started.await_control()
    inbound = started.create_inbound(endpointPath="/a2a/closed")
    started.act("inbound.setAuth", id=inbound, token=TOKEN)
    started.create_inbound(endpointPath="/a2a/open")
    yield started
    started.kill()


@pytest.mark.parametrize("value", FORWARDED, ids=lambda value: repr(value[:20]))
def test_garbage_from_a_trusted_proxy_changes_no_answer(proxied: DaemonProcess, value: bytes) -> None:
    header = b"X-Forwarded-For: " + value
    with no_faults(proxied):
        for lines in ([header], [header, header], [header, b"Authorization: Bearer no"]):
            assert status_of(exchange(proxied, post("/a2a/closed", send_message(), *lines))) == 401
        for path, lines in (("/a2a/closed", [header, A]), ("/a2a/open", [header])):
            answer = exchange(proxied, post(path, send_message(), *lines))
            assert status_of(answer) == 200
            assert "result" in json.loads(answer.partition(b"\r\n\r\n")[2]), answer
        assert proxied.read("")["taskTotal"] >= 2


# Expect: 100-continue

GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.fixture(scope="module")
def closed_agent(shared: DaemonProcess) -> str:
    shared.act("inbound.setAuth", id=shared.create_inbound(endpointPath="/a2a/closed"), token=TOKEN)
    return "/a2a/closed"


@pytest.mark.parametrize("value", [b"100-continue", b"100-Continue"])
def test_the_body_is_asked_for_once_the_caller_is_known(shared: DaemonProcess, closed_agent: str, value: bytes) -> None:
    head, _, body = post(closed_agent, send_message("expected"), A, b"Expect: " + value).partition(b"\r\n\r\n")
    with connect(shared) as sock:
        for _ in range(2):  # on one connection
            sock.sendall(head + b"\r\n\r\n")
            assert sock.recv(len(GO_ON), socket.MSG_WAITALL) == GO_ON
            sock.sendall(body)
            answer = read_answer(sock)
            assert status_of(answer) == 200
            task = json.loads(answer.partition(b"\r\n\r\n")[2])["result"]["task"]
            assert text_of(task) == "expected"


@pytest.mark.parametrize(
    ("path", "lines", "status"),
    [
        ("/a2a/closed", [], 401),
        ("/a2a/closed", [b"Authorization: Bearer no"], 401),
        ("/a2a/nothing", [A], 404),
        ("/a2a/api", [b"Origin: http://evil.example"], 403),
        ("/a2a/api", [b"X-Real-IP: 127.0.0.1"], 403),
    ],
)
def test_a_body_that_is_not_wanted_is_not_asked_for(
    shared: DaemonProcess, closed_agent: str, path: str, lines: list[bytes], status: int
) -> None:
    head = post(path, send_message(), *lines, b"Expect: 100-continue").partition(b"\r\n\r\n")[0]
    assert status_of(exchange(shared, head + b"\r\n\r\n")) == status


def test_a_body_that_is_too_large_is_not_asked_for(shared: DaemonProcess, closed_agent: str) -> None:
    lines = [f"POST {closed_agent} HTTP/1.1".encode(), b"Host: localhost", A, b"Content-Type: application/json",
             b"Content-Length: 99999999", b"Expect: 100-continue", b"", b""]  # fmt: skip
    assert status_of(exchange(shared, b"\r\n".join(lines))) == 413


def test_an_old_client_is_never_sent_an_interim_answer(shared: DaemonProcess, closed_agent: str) -> None:
    request = post(closed_agent, send_message(), A, b"Expect: 100-continue", version=b"1.0")
    assert status_of(exchange(shared, request)) == 200  # RFC 9110, 10.1.1


# the control API

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
ACTIONS: list[Any] = [
    None, True, 5, 1.5, "", " ", "nothing", "x" * 1_000_000, [], {}, ["task.cancel"], {"action": "task.cancel"}, DEEP,
    "\x00", "task.cancel\n", "Task.Cancel", "__class__", "outbound." + "x" * 1000,
]  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: repr(action)[:20])
def test_an_action_that_is_none_is_a_409(shared: DaemonProcess, action: Any) -> None:
    with no_faults(shared):
        status, answer = shared.request("POST", f"{shared.url}/a2a/api", {"action": action, "id": "x"})
    assert (status, answer["ok"]) == (409, False)
    assert len(answer["message"]) < 1000


@pytest.mark.parametrize(
    "body",
    [
        b'{"action":' + b"[" * 1000 + b"]" * 1000 + b"}",
        b'{"action":' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}",
        b'{"action":"task.cancel","id":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"action":"task.cancel","id":"x","x":' + b"[" * 900 + b"12345678901234567890" + b"]" * 900 + b"}",
        b'{"action":"\\ud800"}',
        b'{"action":"task.cancel","id":"\\udfff"}',
        b"[" * 100_000,
        b'{"action":1e999}',
        b'{"action":"task.cancel","id":' + b"9" * 5000 + b"}",
    ],
    ids=range(9),
)
def test_an_action_without_a_bottom_is_refused(shared: DaemonProcess, body: bytes) -> None:
    with no_faults(shared):
        status, answer = shared.request("POST", f"{shared.url}/a2a/api", body)
    assert status in {400, 409}
    assert answer["ok"] is False


NAMES = ["A\0B", "A B", " ", " A", "A\n", "A\t", "../x", "A/B", "A=B", "\u00c4", "x" * 300, "\x1b[31m", "1A"]


def test_a_variable_that_can_have_no_such_name_is_refused_and_the_daemon_starts_again(
    launch: Launch, tmp_path: Any
) -> None:
    env = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    daemon = launch(env=env)
    fields = {"name": "n", "description": "d", "version": "1"}
    inbound = daemon.act("inbound.create", **fields)["id"]
    for name in NAMES:
        answer = daemon.act("inbound.create", status=409, **fields, authTokenEnv=name)
        assert list(answer["errors"]) == ["authTokenEnv"]
        daemon.act("inbound.update", status=409, id=inbound, authTokenEnv=name)
    assert daemon.terminate() == 0

    again = launch(env=env)
    assert [row["id"] for row in again.read("")["inbounds"]] == [inbound]
    assert state_and_text(again.send(inbound, "hello"))[0] == "COMPLETED"


@pytest.mark.parametrize("sent", [b"a\xffc", b"\xc3\xa9", b"\xed\xa0\x80", b"a?c", b"a\xef\xbf\xbdc", b"a\xc3\xbfc"])
def test_a_token_that_cannot_be_decoded_is_the_wrong_one(shared: DaemonProcess, sent: bytes) -> None:
    path = f"/a2a/t{sent.hex()}"
    inbound = shared.create_inbound(endpointPath=path)
    shared.act("inbound.setAuth", id=inbound, token="a?c")
    with no_faults(shared):
        status = status_of(exchange(shared, post(path, LIST, b"Authorization: Bearer " + sent)))
    assert status == (200 if sent == b"a?c" else 401)


def test_connections_that_are_reset_at_any_moment_leave_nothing_behind(shared: DaemonProcess, open_agent: str) -> None:
    chance = random.Random(2)
    with no_faults(shared):
        for number in range(200):
            method = chance.choice(["SendMessage", "SendStreamingMessage", "ListTasks", "GetTask"])
            sent = {**send_message("word " * chance.choice([1, 2000])), "method": method}
            data = post(open_agent, sent, b"Expect: 100-continue") if number % 7 == 0 else post(open_agent, sent)
            sock = connect(shared)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, not closed
            sock.sendall(data[: chance.randrange(1, len(data))] if number % 3 == 0 else data)
            if number % 3 == 1:
                sock.recv(chance.randrange(1, 400))
            sock.close()
        until(lambda: shared.read("/metrics")["peers"] == 0, "the daemon has noticed")
        until(lambda: shared.read("/metrics")["runs"] == 0, "what was begun has ended")
