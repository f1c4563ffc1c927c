"""What the daemon sends, read as strictly as the specification's own message types allow."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.request import Request, urlopen

import pytest
from a2a.types import AgentCard, ListTasksResponse, SendMessageResponse, StreamResponse, Task
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import ParseError

from tests.daemon import DaemonProcess, message
from tests.interop.sdk import parse_strictly

SKILLS = ["chat", "letters", "mirror", "numbers", "fail", "reject", "ask-by-raising", "login", "direct"]
MORE_PARTS = [
    {"text": "text", "mediaType": "text/markdown", "metadata": {"a": 1}},
    {"raw": "AAEC/w==", "filename": "a.bin", "mediaType": "application/octet-stream"},
    {"url": "https://example.org/a.pdf", "mediaType": "application/pdf"},
    {"data": None},
    {"data": [1, {"b": []}]},
]


@pytest.fixture(scope="module")
def in_a2a_dialect(launch_shared: Callable[..., DaemonProcess]) -> DaemonProcess:
    return launch_shared('[a2a]\ndialect = "a2a"\n')


def spoken(skill: str, **more: Any) -> dict[str, Any]:
    """The parameters of a message with every kind of part that the skill can take."""
    sent = message("abc", metadata={"skill": skill, "other": {"deep": [None]}}, **more)
    if skill == "mirror":
        sent["parts"] += MORE_PARTS
    return {"message": sent}


def read_stream(frames: Iterator[tuple[int | None, Any]]) -> list[StreamResponse]:
    """Every frame of a stream, strictly; their numbers count from 1."""
    read = []
    for position, (number, envelope) in enumerate(frames, 1):
        assert set(envelope) == {"jsonrpc", "id", "result"}
        assert envelope["jsonrpc"] == "2.0"
        assert len(envelope["result"]) == 1
        assert number == position
        read.append(parse_strictly(envelope["result"], StreamResponse()))
    return read


def test_the_strict_reading_refuses_what_it_should() -> None:
    status = {"state": "TASK_STATE_WORKING"}
    parse_strictly({"id": "1", "contextId": "2", "status": status}, Task())

    with pytest.raises(ParseError):
        parse_strictly({"id": "1", "contextId": "2", "status": status, "kind": "task"}, Task())
    with pytest.raises(InvalidParamsError):
        parse_strictly({"contextId": "2", "status": status}, Task())
    with pytest.raises(AssertionError):
        parse_strictly({"id": "1", "context_id": "2", "status": status}, Task())


@pytest.mark.parametrize("skill", SKILLS)
def test_every_frame_of_a_stream_is_a_valid_response(agents: DaemonProcess, inbound: str, skill: str) -> None:
    events = read_stream(agents.stream(inbound, "SendStreamingMessage", spoken(skill)))

    assert len(events) >= 1
    assert events[-1].WhichOneof("payload") == ("message" if skill == "direct" else "task")


@pytest.mark.parametrize("skill", SKILLS)
def test_every_answer_to_a_message_is_valid(agents: DaemonProcess, inbound: str, skill: str) -> None:
    answer = agents.rpc(inbound, "SendMessage", spoken(skill))
    assert set(answer) == {"jsonrpc", "id", "result"}
    sent = parse_strictly(answer["result"], SendMessageResponse())

    if skill == "direct":
        assert sent.HasField("message")
        return
    got = parse_strictly(agents.rpc(inbound, "GetTask", {"id": sent.task.id})["result"], Task())
    assert got == sent.task


def test_the_frames_of_a_subscription_and_the_cancelled_task_are_valid(agents: DaemonProcess, inbound: str) -> None:
    with closing(agents.stream(inbound, "SendStreamingMessage", spoken("work"))) as first:
        number, envelope = next(first)
        task_id = envelope["result"]["task"]["id"]
        while "message" not in envelope["result"].get("statusUpdate", {}).get("status", {}):
            number, envelope = next(first)
        with closing(agents.stream(inbound, "SubscribeToTask", {"id": task_id})) as second:
            snapshot_number, snapshot = next(second)
            cancelled = agents.rpc(inbound, "CancelTask", {"id": task_id})
            rest = list(second)

    assert parse_strictly(snapshot["result"], StreamResponse()).task.id == task_id
    assert snapshot_number == number
    assert [frame for frame, _ in rest] == list(range(number + 1, number + 1 + len(rest)))
    for _, frame in rest:
        parse_strictly(frame["result"], StreamResponse())
    assert parse_strictly(cancelled["result"], Task()).id == task_id


def test_a_conversation_with_a_question_is_valid(agents: DaemonProcess, inbound: str) -> None:
    asked = read_stream(agents.stream(inbound, "SendStreamingMessage", spoken("ask")))
    task_id = asked[-1].task.id
    rest = list(agents.stream(inbound, "SendStreamingMessage", spoken("chat", taskId=task_id)))
    numbers = [number for number, _ in rest]

    for _, envelope in rest:
        parse_strictly(envelope["result"], StreamResponse())
    assert numbers == sorted(numbers)
    assert numbers[-1] > len(asked)


def test_lists_of_tasks_are_valid(agents: DaemonProcess) -> None:
    inbound = agents.create_inbound(preset="interop")
    empty = agents.rpc(inbound, "ListTasks", {})["result"]
    for skill in SKILLS:
        agents.rpc(inbound, "SendMessage", spoken(skill))
    plain = agents.rpc(inbound, "ListTasks", {"pageSize": 3})["result"]
    whole = agents.rpc(inbound, "ListTasks", {"includeArtifacts": True})["result"]

    assert parse_strictly(empty, ListTasksResponse()).total_size == 0
    assert len(parse_strictly(plain, ListTasksResponse()).tasks) == 3
    listed = parse_strictly(whole, ListTasksResponse())
    assert listed.total_size == len(listed.tasks) == len(SKILLS) - 1


def test_numbers_are_sent_as_they_are(agents: DaemonProcess, inbound: str) -> None:
    numbers = b'{"count":42,"big":9007199254740993,"half":0.5,"list":[1,null,true]}'
    sent = b'{"data":{"int":42,"float":42.0,"min":-9223372036854775808,"max":18446744073709551615}}'
    endpoint = agents.endpoint(inbound)

    made = raw_answer(endpoint, b'{"text":"x"}', "numbers")
    mirrored = raw_answer(endpoint, sent, "mirror")
    streamed = raw_answer(endpoint, sent, "mirror", method="SendStreamingMessage")

    assert numbers in made
    assert mirrored.count(sent) == 2  # in the artifact and in the history
    assert streamed.count(sent) >= 3


def raw_answer(endpoint: str, part: bytes, skill: str, method: str = "SendMessage") -> bytes:
    """The body of the answer to a message of one part."""
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"message":{"role":"ROLE_USER","parts":[%b],'
        b'"metadata":{"skill":"%b"}}}}' % (method.encode(), part, skill.encode())
    )
    with urlopen(Request(endpoint, body, {"Content-Type": "application/json"}), timeout=60) as response:
        return bytes(response.read())


def raw_frames(endpoint: str, method: str, params: dict[str, Any]) -> Iterator[str]:
    """The lines of a stream's frames as they stand on the wire; the request's id has a line separator in it too."""
    body = json.dumps({"jsonrpc": "2.0", "id": "a\u2028b", "method": method, "params": params})
    with urlopen(Request(endpoint, body.encode(), {"Content-Type": "application/json"}), timeout=60) as response:
        yield from (line.decode() for line in response if line.startswith(b"data: "))


def test_no_frame_has_a_character_that_a_client_may_take_for_the_end_of_a_line(
    agents: DaemonProcess, inbound: str
) -> None:
    text, endpoint = "a\u2028b\u2029c\u0085d", agents.endpoint(inbound)
    sent = {"message": message(text, messageId="separators", metadata={"skill": "letters", "u\u2028": "\u0085"})}
    direct = {"message": message(text, metadata={"skill": "direct"})}
    working = {"message": message(text, metadata={"skill": "work"})}

    streamed = list(raw_frames(endpoint, "SendStreamingMessage", sent))
    repeated = list(raw_frames(endpoint, "SendStreamingMessage", sent))
    replied = list(raw_frames(endpoint, "SendStreamingMessage", direct))
    with closing(raw_frames(endpoint, "SendStreamingMessage", working)) as first:
        task_id = json.loads(next(first)[6:])["result"]["task"]["id"]
        with closing(raw_frames(endpoint, "SubscribeToTask", {"id": task_id})) as second:
            snapshot = next(second)
            agents.rpc(inbound, "CancelTask", {"id": task_id})
            rest = list(second)

    assert len(repeated) == len(replied) == 1
    for frame in [*streamed, *repeated, *replied, snapshot, *rest]:
        assert frame.splitlines() == [frame.removesuffix("\n")]
        assert json.loads(frame[6:])["id"] == "a\u2028b"
    assert json.loads(streamed[-1][6:])["result"]["task"]["artifacts"][0]["parts"] == [{"text": text}]


def card_of(daemon: DaemonProcess, token: str = "") -> Any:
    inbound = daemon.create_inbound(preset="interop")
    if token:
        daemon.act("inbound.setAuth", id=inbound, token=token)
    status, card = daemon.request("GET", f"{daemon.endpoint(inbound)}/agent-card.json")
    assert status == 200
    return card


@pytest.mark.parametrize("token", ["", "s3cr3t"])
def test_the_card_has_the_specifications_fields_alone(in_a2a_dialect: DaemonProcess, token: str) -> None:
    card = parse_strictly(card_of(in_a2a_dialect, token), AgentCard())

    assert [skill.id in list(skill.tags) for skill in card.skills] == [True] * len(card.skills)
    assert ("bearer" in card.security_schemes) == bool(token)


@pytest.mark.parametrize("token", ["", "s3cr3t"])
def test_the_references_card_has_one_field_more(agents: DaemonProcess, token: str) -> None:
    card = card_of(agents, token)

    assert card["capabilities"].pop("stateTransitionHistory") is False
    parse_strictly(card, AgentCard())


def test_frames_and_tasks_are_the_same_in_both_dialects(in_a2a_dialect: DaemonProcess) -> None:
    inbound = in_a2a_dialect.create_inbound(preset="interop")
    for skill in SKILLS:
        read_stream(in_a2a_dialect.stream(inbound, "SendStreamingMessage", spoken(skill)))
    parse_strictly(in_a2a_dialect.rpc(inbound, "ListTasks", {"includeArtifacts": True})["result"], ListTasksResponse())
