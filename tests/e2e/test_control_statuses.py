"""What the control API answers to what is wrong: 400, 404, 405, 409, 413 and 415 (reference 1.3, `protocol.md` 7)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import raw

JSON = ("Content-Type", "application/json")
ACTIONS_ON_AN_INBOUND = ["update", "remove", "enable", "disable", "setAuth", "sendTest"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("statuses"), config="[limits]\nbody_bytes = 20_000\n")
    yield daemon
    daemon.kill()
    assert "Traceback" not in daemon.log()  # nothing of this is an internal error


@pytest.fixture(scope="module")
def inbound(shared: DaemonProcess) -> str:
    return shared.create_inbound(name="standing", endpointPath="/standing")


def creation(**fields: Any) -> dict[str, Any]:
    return {"action": "inbound.create", "name": "new", "description": "d", "version": "1", **fields}


def refused(daemon: DaemonProcess, body: Any, *fields: str) -> dict[str, Any]:
    """A 409 that names these fields, in its message and in `errors`; nothing has changed by it."""
    before = daemon.read("")["inbounds"]

    status, answer = daemon.request("POST", f"{daemon.control}/a2a/api", body)

    assert status == 409, answer
    assert answer["ok"] is False
    assert isinstance(answer["message"], str)
    assert answer["message"]
    if fields:
        assert set(answer["errors"]) == set(fields)
        for field in fields:
            assert field in answer["message"]
            assert answer["errors"][field]
            assert all(isinstance(text, str) and text for text in answer["errors"][field])
    assert daemon.read("")["inbounds"] == before
    return dict(answer)


@pytest.mark.parametrize(
    "body", [b"{", b"", b"nonsense", b'{"action":}', b"\xff\xfe", b'{"action":"inbound.create"', b"[" * 5000, b"NaN"]
)
def test_a_body_that_is_not_json_is_400(shared: DaemonProcess, body: bytes) -> None:
    answer = raw(shared.url, "POST", "/a2a/api", [JSON], body)

    assert answer.status == 400
    assert answer.json["ok"] is False
    assert answer.json["message"]


def test_a_post_without_any_body_is_400(shared: DaemonProcess) -> None:
    assert raw(shared.url, "POST", "/a2a/api", [JSON]).status == 400


@pytest.mark.parametrize("body", [[], "text", 7, None, True, [{"action": "inbound.create"}]])
def test_a_body_that_is_json_but_no_object_is_409(shared: DaemonProcess, body: Any) -> None:
    status, answer = shared.request("POST", f"{shared.url}/a2a/api", json.dumps(body).encode())

    assert (status, answer["ok"]) == (409, False)


@pytest.mark.parametrize("action", [None, "", 7, [], {}, "inbound", "inbound.destroy", "INBOUND.CREATE", "__class__"])
def test_an_action_that_is_not_one_is_409_and_named(shared: DaemonProcess, action: Any) -> None:
    refused(shared, {"action": action, "name": "n", "description": "d", "version": "1"}, "action")


def test_a_body_without_an_action_is_409(shared: DaemonProcess) -> None:
    refused(shared, {}, "action")


@pytest.mark.parametrize("action", ["update", "remove", "enable", "disable", "refresh", "setAuth", "call"])
def test_an_unknown_connection_is_named(shared: DaemonProcess, action: str) -> None:
    refused(shared, {"action": f"outbound.{action}", "id": "out-nothing", "name": "n", "text": "t"}, "id")


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("name", "", "name"),
        ("name", 7, "name"),
        ("agentCardUrl", "", "agentCardUrl"),
        ("agentCardUrl", "file:///etc/passwd", "agentCardUrl"),
        ("agentCardUrl", "ftp://remote.example/card.json", "agentCardUrl"),
        ("agentCardUrl", "http://user:word@remote.example/card.json", "agentCardUrl"),
        ("agentCardUrl", "/a2a/demo", "agentCardUrl"),
        ("bearerTokenEnv", "not a name", "bearerTokenEnv"),
        ("preset", "nothing", "preset"),
        ("enabled", "yes", "enabled"),
        ("timeoutMs", 0, "timeoutMs"),
        ("timeoutMs", 1.5, "timeoutMs"),
        ("timeoutMs", True, "timeoutMs"),
        ("timeoutMs", "60000", "timeoutMs"),
        ("timeoutMs", 10**12, "timeoutMs"),
        ("disabledSkills", "chat", "disabledSkills"),
        ("disabledSkills", ["chat", 7], "disabledSkills[1]"),
        ("skillOverrides", [], "skillOverrides"),
        ("skillOverrides", {"chat": "Talk"}, "skillOverrides.chat"),
        ("skillOverrides", {"chat": {"name": 7}}, "skillOverrides.chat.name"),
        ("skillOverrides", {"chat": {"title": "Talk"}}, "skillOverrides.chat.title"),
        ("tokenOrigins", ["remote.example"], "tokenOrigins"),
    ],
)
def test_a_field_of_a_connection_that_is_wrong_is_named_and_nothing_is_stored(
    shared: DaemonProcess, field: str, value: Any, named: str
) -> None:
    body = {"action": "outbound.create", "name": "n", "agentCardUrl": "http://127.0.0.1:9/", "enabled": False}

    refused(shared, {**body, field: value}, named)

    assert shared.read("")["outbounds"] == []


@pytest.mark.parametrize("missing", ["name", "description", "version"])
def test_a_missing_field_of_create_is_named(shared: DaemonProcess, missing: str) -> None:
    body = creation()
    del body[missing]

    refused(shared, body, missing)


def test_all_missing_fields_are_named_at_once(shared: DaemonProcess) -> None:
    refused(shared, {"action": "inbound.create"}, "name", "description", "version")
    refused(shared, {"action": "inbound.sendTest"}, "id", "text")


@pytest.mark.parametrize("field", ["name", "description", "version", "endpointPath", "preset", "authTokenEnv"])
@pytest.mark.parametrize("value", [7, True, [], {}])
def test_a_field_of_create_that_is_no_string_is_named(shared: DaemonProcess, field: str, value: Any) -> None:
    refused(shared, creation(**{field: value}), field)


@pytest.mark.parametrize("field", ["name", "description", "version"])
def test_a_required_field_of_create_that_is_null_is_named(shared: DaemonProcess, field: str) -> None:
    refused(shared, creation(**{field: None}), field)


@pytest.mark.parametrize("value", ["true", 1, 0, [], "yes"])
def test_enabled_takes_true_and_false_alone(shared: DaemonProcess, value: Any) -> None:
    refused(shared, creation(enabled=value), "enabled")


@pytest.mark.parametrize("field", ["name", "description", "version"])
def test_an_empty_required_field_is_named(shared: DaemonProcess, field: str) -> None:
    refused(shared, creation(**{field: ""}), field)


@pytest.mark.parametrize(
    "path",
    [
        "/standing",
        "relative",
        "/",
        "//",
        "//double",
        "/trailing/",
        "/..",
        "/../standing",
        "/a/../b",
        "/a/./b",
        "/with space",
        " /space",
        "/space ",
        "/line\nbreak",
        "/tab\t",
        "/query?x",
        "/fragment#x",
        "/percent%2e",
        "/back\\slash",
        "/ümlaut",
        "/nul\x00",
        "/star*",
        "/{brace}",
        "http://127.0.0.1/x",
        "/a2a/api",
        "/a2a/api/",
        "/a2a/api/card",
        "/a2a/panel",
        "/a2a/panel/x",
        "/.well-known",
        "/.well-known/agent-card.json",
    ],
)
def test_an_endpoint_path_that_cannot_be_is_refused_on_create_and_on_update(
    shared: DaemonProcess, inbound: str, path: str
) -> None:
    other = shared.create_inbound(name="other")

    refused(shared, creation(endpointPath=path), "endpointPath")
    refused(shared, {"action": "inbound.update", "id": other, "endpointPath": path}, "endpointPath")

    shared.act("inbound.remove", id=other)


def test_a_path_that_only_looks_like_a_reserved_one_is_taken(shared: DaemonProcess) -> None:
    for path in ("/a2a/api-of-mine", "/a2a/panels", "/a2a/.hidden", "/a.b_c~d-e/f"):
        created = shared.create_inbound(endpointPath=path)
        assert shared.request("GET", f"{shared.url}{path}/agent-card.json")[0] == 200
        shared.act("inbound.remove", id=created)


def test_an_unknown_preset_is_refused_and_the_known_ones_are_named(shared: DaemonProcess, inbound: str) -> None:
    answer = refused(shared, creation(preset="nonesuch"), "preset")
    refused(shared, {"action": "inbound.update", "id": inbound, "preset": "nonesuch"}, "preset")

    assert "standard" in answer["message"]


@pytest.mark.parametrize("action", ACTIONS_ON_AN_INBOUND)
@pytest.mark.parametrize("value", ["unknown-00000000", 7, None, "", [], {}])
def test_an_inbound_that_is_not_there_is_refused_and_its_field_named(
    shared: DaemonProcess, action: str, value: Any
) -> None:
    refused(shared, {"action": f"inbound.{action}", "id": value, "text": "hello", "name": "x", "token": "t"}, "id")


@pytest.mark.parametrize("action", [*(f"inbound.{a}" for a in ACTIONS_ON_AN_INBOUND), "inbound.close", "task.cancel",
                                    "session.cancel", "session.close"])  # fmt: skip
def test_a_missing_id_is_named(shared: DaemonProcess, action: str) -> None:
    refused(shared, {"action": action, "text": "hello"}, "id")


@pytest.mark.parametrize("action", ["inbound.close", "task.cancel"])
@pytest.mark.parametrize("value", ["unknown", 7, None])
def test_a_peer_or_a_task_that_is_not_there_is_refused(shared: DaemonProcess, action: str, value: Any) -> None:
    refused(shared, {"action": action, "id": value}, "id")


def test_a_task_that_has_ended_cannot_be_canceled(shared: DaemonProcess, inbound: str) -> None:
    task = shared.act("inbound.sendTest", id=inbound, text="hello")["task"]

    answer = shared.act("task.cancel", status=409, id=task["id"])

    assert answer["ok"] is False
    assert "ended" in answer["message"]
    assert shared.read(f"/task?id={task['id']}")["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("field", "value"),
    [("text", 7), ("text", None), ("text", ""), ("contextId", 7), ("skill", 7), ("skill", "nonesuch"), ("skill", ""),
     ("taskId", "nonesuch"), ("returnImmediately", "yes")],
)  # fmt: skip
def test_a_wrong_field_of_send_test_is_named_and_nothing_is_recorded(
    shared: DaemonProcess, inbound: str, field: str, value: Any
) -> None:
    before = shared.read("")["taskTotal"]

    refused(shared, {"action": "inbound.sendTest", "id": inbound, "text": "hello", field: value}, field)

    assert shared.read("")["taskTotal"] == before


@pytest.mark.parametrize("token", [7, True, [], {}, "with space", "line\nbreak", "ümlaut"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(
    shared: DaemonProcess, inbound: str, token: Any
) -> None:
    answer = refused(shared, {"action": "inbound.setAuth", "id": inbound, "token": token}, "token")

    if isinstance(token, str):
        assert token not in json.dumps(answer, ensure_ascii=False)
    assert shared.request("GET", f"{shared.url}/standing/agent-card.json")[1].get("securitySchemes") is None


def test_an_update_without_a_change_is_refused(shared: DaemonProcess, inbound: str) -> None:
    refused(shared, {"action": "inbound.update", "id": inbound})


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_another_method_is_405_and_told_which_ones_there_are(shared: DaemonProcess, method: str) -> None:
    own = raw(shared.url, method, "/a2a/api")
    reads = [raw(shared.url, method, f"/a2a/api/{name}") for name in ("presets", "card", "task", "session", "metrics")]

    assert own.status == 405
    assert set(own.headers["Allow"].replace(" ", "").split(",")) >= {"GET", "POST"}
    assert [answer.status for answer in reads] == [405] * 5
    assert all("GET" in answer.headers["Allow"] and "POST" not in answer.headers["Allow"] for answer in reads)


def test_a_post_to_what_is_only_read_is_405(shared: DaemonProcess) -> None:
    for name in ("presets", "card", "task", "session", "metrics", "events"):
        answer = raw(shared.url, "POST", f"/a2a/api/{name}", [JSON], json.dumps(creation(name="stray")).encode())
        assert (answer.status, answer.json["ok"]) == (405, False)
        assert "POST" not in answer.headers["Allow"]
    assert "stray" not in [row["name"] for row in shared.read("")["inbounds"]]


def test_what_is_not_there_is_404(shared: DaemonProcess) -> None:
    for path in ("/nothing", "/card?id=nothing", "/card", "/task?id=nothing", "/task", "/session?contextId=nothing",
                 "/session", "/presets/x", "/../x"):  # fmt: skip
        answer = raw(shared.url, "GET", f"/a2a/api{path}")
        assert answer.status == 404, path


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_body_past_the_limit_is_413_with_and_without_a_length(shared: DaemonProcess, pieces: int) -> None:
    def body(size: int) -> bytes:
        empty = len(json.dumps(creation(name="large", description="")))
        return json.dumps(creation(name="large", description="x" * (size - empty))).encode()

    too_large = body(20_001)
    chunked = [too_large[at : at + 20_001 // pieces + 1] for at in range(0, 20_001, 20_001 // pieces + 1)]
    by_length = raw(shared.url, "POST", "/a2a/api", [JSON], too_large)
    by_reading = raw(shared.url, "POST", "/a2a/api", [JSON], chunked)

    assert (by_length.status, by_reading.status) == (413, 413)
    assert by_length.json["ok"] is by_reading.json["ok"] is False
    assert "large" not in [row["name"] for row in shared.read("")["inbounds"]]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_at_the_limit_is_read(shared: DaemonProcess, *, chunked: bool) -> None:
    body = json.dumps(creation(name="fits", padding="")).encode()
    body = json.dumps(creation(name="fits", padding="x" * (20_000 - len(body)))).encode()
    assert len(body) == 20_000

    answer = raw(shared.url, "POST", "/a2a/api", [JSON], [body[:9000], body[9000:]] if chunked else body)

    assert answer.status == 200
    shared.act("inbound.remove", id=answer.json["id"])


@pytest.mark.parametrize(
    "media_type",
    [None, "", "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded",
     "multipart/form-data; boundary=x", "text/json", "application/xml", "*/*", "application/jsonp",
     "text/plain; application/json", "text/plain, application/json"],
)  # fmt: skip
def test_a_post_that_a_page_may_send_without_asking_is_415_and_has_no_effect(
    shared: DaemonProcess, media_type: str | None
) -> None:
    headers = [] if media_type is None else [("Content-Type", media_type)]

    answer = raw(shared.url, "POST", "/a2a/api", headers, json.dumps(creation(name="simple")).encode())

    assert (answer.status, answer.json["ok"]) == (415, False)
    assert "simple" not in [row["name"] for row in shared.read("")["inbounds"]]


@pytest.mark.parametrize("media_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_taken_with_parameters_and_in_any_case(shared: DaemonProcess, media_type: str) -> None:
    answer = raw(shared.url, "POST", "/a2a/api", [("Content-Type", media_type)], json.dumps(creation()).encode())

    assert answer.status == 200
    shared.act("inbound.remove", id=answer.json["id"])


def test_unknown_fields_are_ignored(shared: DaemonProcess) -> None:
    created = shared.act("inbound.create", name="n", description="d", version="1", colour="green", id="mine")

    assert created["id"] != "mine"
    shared.act("inbound.remove", id=created["id"])


@pytest.mark.parametrize("query", ["taskLimit=0", "taskLimit=501", "taskLimit=-1", "taskLimit=x", "taskLimit=1.5",
                                   "taskOffset=-1", "taskOffset=x", "taskOffset=1e3", "taskState=COMPLETED",
                                   "taskState=nothing", "taskLimit=99999999999999999999",
                                   "taskOffset=99999999999999999999"])  # fmt: skip
@pytest.mark.parametrize("path", ["/a2a/api", "/a2a/api/events"])
def test_a_page_parameter_that_is_out_of_range_is_400_and_named(shared: DaemonProcess, path: str, query: str) -> None:
    answer = raw(shared.url, "GET", f"{path}?{query}")

    assert answer.status == 400
    assert query.partition("=")[0] in answer.json["message"]
