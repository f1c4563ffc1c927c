"""JSON and JSON-RPC: what is read, what is refused, and how both are told (protocol.md 2.6 to 2.9)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message
from tests.lab import error, exchange, result, violations


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    started = DaemonProcess(tmp_path_factory.mktemp("envelopes"))
    yield started
    assert "request.failed" not in started.log()
    started.kill()


@pytest.fixture(scope="module")
def agent(daemon: DaemonProcess) -> str:
    return daemon.create_inbound()


def _post(daemon: DaemonProcess, agent: str, body: bytes) -> Any:
    answer = exchange(daemon.endpoint(agent), body=body)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    return answer.json


def _parts(*parts: str) -> bytes:
    """SendMessage with parts that are written by hand."""
    return (
        '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","parts":['
        + ",".join(parts)
        + "]}}}"
    ).encode()


def _deep(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b"}",
        b"nonsense",
        b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"',
        b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"}}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"ListTasks"}',
        _parts('{"data":NaN}'),
        _parts('{"data":Infinity}'),
        _parts('{"data":[-Infinity]}'),
        _parts('{"data":1e999}'),
        _parts('{"data":18446744073709551616}'),
        _parts('{"data":-9223372036854775809}'),
        _parts('{"data":' + "1" * 10_000 + "}"),
        _parts('{"text":"\\ud83d"}'),
        _parts('{"text":"\\ude00\\ud83d"}'),
        _parts('{"data":{"\\ud800":1}}'),
        _parts('{"text":"a\nb"}'),
        _parts('{"data":' + _deep(100_000) + "}"),
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"\xef\xbb\xbf" + _parts('{"text":"x"}'),
        _parts('{"text":"x"}').decode().encode("utf-16"),
        _parts('{"text":"x"}').replace(b"x", b"\xff"),
        _parts('{"text":"x"}').replace(b"x", b"\xed\xa0\x80"),
        _parts('{"text":"x"}').replace(b"x", b"\xc3"),
    ],
    ids=lambda body: repr(body[-40:]),
)
def test_what_is_no_json_is_a_parse_error_without_an_id(daemon: DaemonProcess, agent: str, body: bytes) -> None:
    answer = _post(daemon, agent, body)

    assert error(answer) == (-32700, "PARSE_ERROR")
    assert answer["id"] is None
    assert answer["jsonrpc"] == "2.0"


def test_what_nests_too_deeply_for_others_is_a_parse_error_too(daemon: DaemonProcess, agent: str) -> None:
    for body in (_parts('{"data":' + _deep(101) + "}"), _parts('{"text":"x","metadata":{"a":' + _deep(100) + "}}")):
        assert error(_post(daemon, agent, body)) == (-32700, "PARSE_ERROR")


@pytest.mark.parametrize(
    ("part", "kept"),
    [
        ('{"text":"a\\u0000b"}', {"text": "a\0b"}),
        ('{"text":"\\ud83d\\ude00"}', {"text": "\N{GRINNING FACE}"}),
        ('{"text":"\u2028\u2029\u0085\ufeff"}', {"text": "\u2028\u2029\x85\ufeff"}),
        ('{"data":{"count":42,"ratio":42.0,"big":18446744073709551615,"small":-9223372036854775808}}', None),
        ('{"data":null}', {"data": None}),
        ('{"data":{"a":1,"a":2}}', {"data": {"a": 2}}),
        ('{"data":' + _deep(100) + "}", None),
        ('{"text":"x","text":"y"}', {"text": "y"}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_unusual_but_right_comes_back_exactly(
    daemon: DaemonProcess, agent: str, part: str, kept: dict[str, Any] | None
) -> None:
    task = result(_post(daemon, agent, _parts(part)))["task"]

    again = result(daemon.rpc(agent, "GetTask", {"id": task["id"]}))
    wanted = json.dumps([json.loads(part) if kept is None else kept])
    assert json.dumps(task["history"][0]["parts"]) == wanted
    assert json.dumps(again["history"][0]["parts"]) == wanted


@pytest.mark.parametrize(
    "call_id",
    ['"x"', '""', '"é\\u2028"', "0", "7", "-1", "1.5", "1.0", "null", "9007199254740993", "18446744073709551615"],
)
def test_the_id_comes_back_exactly_with_every_result_and_error(daemon: DaemonProcess, agent: str, call_id: str) -> None:
    for rest in ('"method":"ListTasks"', '"method":"Nope"', '"method":"GetTask"', '"method":5', '"params":[]'):
        body = f'{{"jsonrpc":"2.0","id":{call_id},{rest}}}'.encode()
        echoed = exchange(daemon.endpoint(agent), body=body).json["id"]
        assert json.dumps(echoed) == json.dumps(json.loads(call_id))


def test_the_id_of_a_stream_is_that_of_its_request(daemon: DaemonProcess, agent: str) -> None:
    for call_id in ("x", 1.5, None, 2**64 - 1):
        call = {
            "jsonrpc": "2.0",
            "id": call_id,
            "method": "SendStreamingMessage",
            "params": {"message": message("a b")},
        }
        answer = exchange(daemon.endpoint(agent), body=json.dumps(call).encode())
        frames = [json.loads(line[6:]) for line in answer.body.splitlines() if line.startswith(b"data: ")]
        assert len(frames) > 2
        assert all(frame["id"] == call_id and type(frame["id"]) is type(call_id) for frame in frames)


@pytest.mark.parametrize(
    ("envelope", "echoed"),
    [
        ({"jsonrpc": "1.0", "id": 7, "method": "ListTasks"}, 7),
        ({"jsonrpc": 2.0, "id": 7, "method": "ListTasks"}, 7),
        ({"jsonrpc": "2.0 ", "id": 7, "method": "ListTasks"}, 7),
        ({"jsonrpc": None, "id": 7, "method": "ListTasks"}, 7),
        ({"id": 7, "method": "ListTasks"}, 7),
        ({"jsonrpc": "2.0", "id": "a"}, "a"),
        ({"jsonrpc": "2.0", "id": "a", "method": None}, "a"),
        ({"jsonrpc": "2.0", "id": "a", "method": 5}, "a"),
        ({"jsonrpc": "2.0", "id": "a", "method": ["ListTasks"]}, "a"),
        ({"jsonrpc": "2.0", "id": "a", "method": "ListTasks", "params": []}, "a"),
        ({"jsonrpc": "2.0", "id": "a", "method": "ListTasks", "params": "x"}, "a"),
        ({"jsonrpc": "2.0", "id": "a", "method": "ListTasks", "params": 0}, "a"),
        ({"jsonrpc": "2.0", "id": "a", "method": "ListTasks", "params": False}, "a"),
        ({"jsonrpc": "2.0", "id": True, "method": "ListTasks"}, None),
        ({"jsonrpc": "2.0", "id": [], "method": "ListTasks"}, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "ListTasks"}, None),
        ({"jsonrpc": "2.0", "id": [1], "method": 5}, None),
        ({"jsonrpc": "2.0", "method": "ListTasks"}, None),
        ({}, None),
        ([], None),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}], None),
        ("ListTasks", None),
        (5, None),
        (None, None),
        (True, None),
    ],
    ids=json.dumps,
)
def test_what_is_no_request_is_refused_with_the_id_that_could_be_read(
    daemon: DaemonProcess, agent: str, envelope: Any, echoed: Any
) -> None:
    answer = _post(daemon, agent, json.dumps(envelope).encode())

    assert error(answer) == (-32600, "INVALID_REQUEST")
    assert answer["id"] == echoed


def test_a_notification_starts_nothing(daemon: DaemonProcess, agent: str) -> None:
    call = {"jsonrpc": "2.0", "method": "SendMessage", "params": {"message": message("x", contextId="unheard")}}
    assert error(_post(daemon, agent, json.dumps(call).encode()))[0] == -32600
    assert result(daemon.rpc(agent, "ListTasks", {"contextId": "unheard"}))["totalSize"] == 0


def test_absent_parameters_are_no_parameters(daemon: DaemonProcess, agent: str) -> None:
    assert "tasks" in result(daemon.rpc(agent, "ListTasks", {}))
    assert "tasks" in result(_post(daemon, agent, b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"}'))
    assert violations(daemon.rpc(agent, "GetTask", {})) == ["id"]
    assert violations(_post(daemon, agent, b'{"jsonrpc":"2.0","id":1,"method":"GetTask"}')) == ["id"]


@pytest.mark.parametrize(
    "method", ["", "sendMessage", "message/send", "tasks/get", "SendMessage ", "__init__", "x" * 10_000, "\0", "_send"]
)
def test_an_unknown_method_is_not_found(daemon: DaemonProcess, agent: str, method: str) -> None:
    answer = daemon.rpc(agent, method, {})
    assert error(answer) == (-32601, "METHOD_NOT_FOUND")
    assert len(answer["error"]["message"]) < 500


@pytest.mark.parametrize(
    "method",
    [
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    ],
)
def test_push_notifications_are_not_supported(daemon: DaemonProcess, agent: str, method: str) -> None:
    for params in ({}, {"taskId": "x", "id": "y"}, {"id": 5}):
        assert error(daemon.rpc(agent, method, params)) == (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED")


def test_all_violations_are_told_at_once(daemon: DaemonProcess, agent: str) -> None:
    params = {
        "message": {
            "role": "ROLE_AGENT",
            "messageId": 1,
            "parts": [{"text": 5}, {}, {"text": "a", "data": 1}, {"raw": "!"}],
            "metadata": [],
        },
        "configuration": {"historyLength": -1},
    }
    expected = {
        "message.role",
        "message.messageId",
        "message.parts[0].text",
        "message.parts[1]",
        "message.parts[2]",
        "message.parts[3].raw",
        "message.metadata",
        "configuration.historyLength",
    }
    for method in ("SendMessage", "SendStreamingMessage"):
        assert set(violations(daemon.rpc(agent, method, params))) == expected
    found = violations(daemon.rpc(agent, "ListTasks", {"pageSize": 0, "status": "x", "statusTimestampAfter": "y"}))
    assert set(found) == {"pageSize", "status", "statusTimestampAfter"}


def test_both_dialects_have_their_numbers_and_the_same_reasons(daemon: DaemonProcess, agent: str, launch: Any) -> None:
    other = launch(config='[a2a]\ndialect = "a2a"\n')
    theirs = other.create_inbound()
    old = {"A2A-Version": "0.3"}
    text_only = {"message": message("x"), "configuration": {"acceptedOutputModes": ["image/png"]}}
    done = daemon.send(agent, "x")["id"], other.send(theirs, "x")["id"]

    for method, params, headers, ours, specified, reason in (
        ("ListTasks", {}, old, -32007, -32009, "VERSION_NOT_SUPPORTED"),
        ("GetTask", {"id": "nope"}, {}, -32001, -32001, "TASK_NOT_FOUND"),
        ("CancelTask", {"id": "done"}, {}, -32002, -32002, "TASK_NOT_CANCELABLE"),
        ("GetTaskPushNotificationConfig", {}, {}, -32003, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("SubscribeToTask", {"id": "done"}, {}, -32004, -32004, "UNSUPPORTED_OPERATION"),
        ("SendMessage", text_only, {}, -32005, -32005, "CONTENT_TYPE_NOT_SUPPORTED"),
        ("Nope", {}, {}, -32601, -32601, "METHOD_NOT_FOUND"),
        ("GetTask", {}, {}, -32602, -32602, "INVALID_PARAMS"),
    ):
        first, second = ({**params, "id": i} if params == {"id": "done"} else params for i in done)
        assert error(daemon.rpc(agent, method, first, headers=headers)) == (ours, reason)
        assert error(other.rpc(theirs, method, second, headers=headers)) == (specified, reason)

    assert "stateTransitionHistory" in result(daemon.rpc(agent, "GetExtendedAgentCard", {}))["capabilities"]
    assert "stateTransitionHistory" not in result(other.rpc(theirs, "GetExtendedAgentCard", {}))["capabilities"]
