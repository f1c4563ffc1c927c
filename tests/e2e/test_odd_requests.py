"""Requests that are nearly right: what looks like a version, a path, a coding or a media type, and is none."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import raw
from tests.hostile import call, exchange, post, status_of
from tests.lab import error

PLUGIN = """
from a2ad import Artifact, Executor, hookimpl


class Types(Executor):
    async def execute(self, request):
        files = [[each.media_type, each.name, each.path.read_bytes().decode()] for each in request.attachments]
        yield Artifact([{"data": files}])


@hookimpl
def a2ad_register_executors(register):
    register("types", Types())


@hookimpl
def a2ad_register_presets(register):
    register("types", {"name": "Types", "skills": [{"id": "types", "executor": "types"}]})
"""
NOBODY = call("GetTask", {"id": "nobody"})
JSON = ("Content-Type", "application/json")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    started = DaemonProcess(tmp_path_factory.mktemp("odd"), plugin=PLUGIN)
    yield started
    assert started.terminate() == 0
    assert "Traceback" not in started.log()


@pytest.fixture(scope="module")
def inbound(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(preset="types")


# the envelope (`protocol.md` 2.6)


@pytest.mark.parametrize("method", ["ListTasks", "GetExtendedAgentCard", "GetTask", "SendMessage", "NoSuchMethod"])
@pytest.mark.parametrize("params", [None, [], [{}], "", 0, False])
def test_params_that_are_no_object_are_an_invalid_request(
    daemon: DaemonProcess, inbound: str, method: str, params: Any
) -> None:
    answer = daemon.rpc(inbound, method, params)
    assert error(answer) == (-32600, "INVALID_REQUEST")
    assert answer["id"] == 1


@pytest.mark.parametrize("method", ["ListTasks", "GetExtendedAgentCard"])
def test_params_that_are_absent_are_none(daemon: DaemonProcess, inbound: str, method: str) -> None:
    _, answer = daemon.request("POST", daemon.endpoint(inbound), {"jsonrpc": "2.0", "id": 1, "method": method})
    assert "result" in answer


# the version (`protocol.md` 2.7)


def _versioned(daemon: DaemonProcess, inbound: str, version: str) -> Any:
    """The answer to a call with this version in its header."""
    line = b"A2A-Version: " + version.encode()
    return json.loads(exchange(daemon, post(f"/a2a/{inbound}", NOBODY, line)).partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("version", ["", " ", "1.0", "1.0.0", "1.0.1", "1.0.99", "1.0.007"])
def test_a_version_of_this_protocol_passes(daemon: DaemonProcess, inbound: str, version: str) -> None:
    assert error(_versioned(daemon, inbound, version)) == (-32001, "TASK_NOT_FOUND")


@pytest.mark.parametrize(
    "version",
    ["1.0.\u0661", "1.0.\uff11", "1.0.\u00b2", "\uff11.0", "1.0.", "1.0.1.1", "1.0.-1", "1.0.1-rc1", "1", "1.1", "2.0",
     "0.3", "01.0", "1.00", "v1.0", "1.0,1.0", "1.0 1.0", "null"],
)  # fmt: skip
def test_what_only_looks_like_one_is_refused(daemon: DaemonProcess, inbound: str, version: str) -> None:
    assert error(_versioned(daemon, inbound, version)) == (-32007, "VERSION_NOT_SUPPORTED")


def test_in_the_query_likewise_and_the_header_goes_first(daemon: DaemonProcess, inbound: str) -> None:
    body = json.dumps(NOBODY).encode()

    def told(query: str, *headers: tuple[str, str]) -> tuple[int, str]:
        return error(raw(daemon.url, "POST", f"/a2a/{inbound}?A2A-Version={query}", [JSON, *headers], body).json)

    refused, passed = (-32007, "VERSION_NOT_SUPPORTED"), (-32001, "TASK_NOT_FOUND")
    assert told("1.0.%D9%A1") == refused
    assert told("1.0.1") == passed
    assert told("0.3", ("A2A-Version", "1.0")) == passed
    assert told("1.0", ("A2A-Version", "0.3")) == refused


# the content coding


@pytest.mark.parametrize("coding", ["x-foo", "gzip, x-foo", "aes128gcm", "gzip;q=1", "*"])
def test_a_coding_that_is_not_known_is_an_unsupported_media_type(
    daemon: DaemonProcess, inbound: str, coding: str
) -> None:
    headers = [JSON, ("Content-Encoding", coding)]
    answer = raw(daemon.url, "POST", f"/a2a/{inbound}", headers, json.dumps(NOBODY).encode())
    assert answer.status == 415
    assert error(answer.json) == (-32005, "CONTENT_TYPE_NOT_SUPPORTED")
    assert answer.headers["A2A-Version"] == "1.0"


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "identity"])
def test_a_coding_that_is_known_is_read(daemon: DaemonProcess, inbound: str, coding: str) -> None:
    body = json.dumps(NOBODY).encode()
    packed = body if coding == "identity" else gzip.compress(body)
    answer = raw(daemon.url, "POST", f"/a2a/{inbound}", [JSON, ("Content-Encoding", coding)], packed)
    assert answer.status == 200
    assert error(answer.json) == (-32001, "TASK_NOT_FOUND")


# paths: a proxy's rules are about the path as it is spelt


@pytest.mark.parametrize("slash", ["%2F", "%2f", "%252F", "//"])
def test_an_encoded_slash_is_none(daemon: DaemonProcess, inbound: str, slash: str) -> None:
    body = json.dumps(NOBODY).encode()
    for target in (f"/a2a{slash}{inbound}", f"{slash}a2a/{inbound}", f"/a2a/{inbound}{slash}"):
        assert raw(daemon.url, "POST", target, [JSON], body).status in {400, 404}, target
    for target in (
        f"/a2a{slash}{inbound}/agent-card.json",
        f"/a2a/{inbound}{slash}agent-card.json",
        f"/a2a/{inbound}/.well-known{slash}agent-card.json",
        f"/.well-known{slash}agent-card.json",
        f"/a2a{slash}api",
        f"/a2a/api{slash}metrics",
        f"/a2a/api{slash}task?id=x",
        f"/a2a/api{slash}..{slash}{inbound}/agent-card.json",
        f"/x{slash}..{slash}a2a/api",
    ):
        assert raw(daemon.url, "GET", target).status in {400, 404}, target


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
def test_no_action_is_taken_at_a_path_with_an_encoded_slash(daemon: DaemonProcess, inbound: str, slash: str) -> None:
    body = json.dumps({"action": "inbound.remove", "id": inbound}).encode()
    for target in (f"/a2a{slash}api", f"{slash}a2a/api", f"/a2a/api{slash}", f"/a2a/{inbound}{slash}..{slash}api"):
        assert raw(daemon.url, "POST", target, [JSON], body).status in {400, 403, 404, 405}, target
    assert inbound in [row["id"] for row in daemon.read("")["inbounds"]]


def test_other_characters_may_be_spelt_as_they_like(daemon: DaemonProcess, inbound: str) -> None:
    spelt = "".join(f"%{ord(character):02X}" for character in inbound)
    answer = exchange(daemon, post(f"/%61%32a/{spelt}", NOBODY))
    assert status_of(answer) == 200


# media types of files: an executor may put one into a header of its own (RFC 9110, 8.3.1)


def _seen(daemon: DaemonProcess, inbound: str, **part: Any) -> tuple[str, str]:
    """The media type and the name that the executor gets; the file itself has to be as it was sent."""
    sent = {"role": "ROLE_USER", "parts": [{"raw": "aGk=", **part}]}
    task = daemon.rpc(inbound, "SendMessage", {"message": sent})["result"]["task"]
    assert task["history"][0]["parts"] == [{"raw": "aGk=", **part}], "what is kept is what was sent"
    ((media_type, name, content),) = task["artifacts"][0]["parts"][0]["data"]
    assert content == "hi"
    return media_type, name


@pytest.mark.parametrize(
    "media_type",
    ["text/plain\r\nX-Evil: 1", "text/plain\n", "\ntext/plain", "text/pl\0ain", 'text/plain; a="\r\n"', "text/\x7f",
     "text/plain;\x0ba", "t\u00e9xt/plain", "text/plain; a=\u00e9", "\u2028text/plain", "text", "/plain", "text/",
     "text/plain/x", "text plain/x", " text/plain", "text/plain, text/html", "<b>/x", ""],
)  # fmt: skip
def test_a_media_type_that_is_none_is_of_no_kind(daemon: DaemonProcess, inbound: str, media_type: str) -> None:
    assert _seen(daemon, inbound, mediaType=media_type)[0] == "application/octet-stream"


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "text/plain; charset=utf-8", 'text/plain;charset="utf-8"', "application/vnd.api+json", "IMAGE/PNG",
     "x-a/b.c_d-e!#$&^", "multipart/form-data; boundary=a; b=c"],
)  # fmt: skip
def test_a_media_type_reaches_the_executor_as_it_was_sent(daemon: DaemonProcess, inbound: str, media_type: str) -> None:
    assert _seen(daemon, inbound, mediaType=media_type)[0] == media_type


def test_without_a_media_type_a_file_is_of_no_kind(daemon: DaemonProcess, inbound: str) -> None:
    assert _seen(daemon, inbound) == ("application/octet-stream", "file-1")
