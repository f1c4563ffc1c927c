from typing import Any

import pytest

from a2ad.errors import InvalidParams, ParseError
from a2ad.model import TaskState
from a2ad.schemas import a2a


def _message(**fields: Any) -> dict[str, Any]:
    return {"message": {"role": "ROLE_USER", "parts": [{"text": "hello"}], **fields}}


def _wrong(read: Any, params: Any) -> list[str]:
    with pytest.raises(InvalidParams) as caught:
        read(params)
    return [field for field, _ in caught.value.violations]


def test_a_message_keeps_what_it_knows_and_nothing_else() -> None:
    params = a2a.send_message(
        {
            "tenant": "t",
            "message": {
                "messageId": "m",
                "contextId": "c",
                "taskId": "t",
                "role": "ROLE_USER",
                "parts": [
                    {"text": "hi", "mediaType": "text/plain", "kind": "text"},
                    {"raw": "AP8", "filename": "f.bin", "mediaType": "application/octet-stream"},
                    {"url": "https://example.org/x"},
                    {"data": {"snake_case": None, "n": 42}, "metadata": {"k": None}},
                ],
                "metadata": {"skill": "chat", "more": [1, None]},
                "extensions": ["https://example.org/e"],
                "referenceTaskIds": ["r"],
                "kind": "message",
            },
            "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 3, "returnImmediately": True},
            "metadata": {"request": 1},
        }
    )

    assert params.message == {
        "messageId": "m",
        "contextId": "c",
        "taskId": "t",
        "role": "ROLE_USER",
        "parts": [
            {"text": "hi", "mediaType": "text/plain"},
            {"raw": b"\0\xff", "filename": "f.bin", "mediaType": "application/octet-stream"},
            {"url": "https://example.org/x"},
            {"data": {"snake_case": None, "n": 42}, "metadata": {"k": None}},
        ],
        "metadata": {"skill": "chat", "more": [1, None]},
        "extensions": ["https://example.org/e"],
        "referenceTaskIds": ["r"],
    }
    assert (params.message_id, params.context_id, params.task_id, params.skill) == ("m", "c", "t", "chat")
    assert (params.accepted_output_modes, params.history_length) == (("text/plain",), 3)
    assert params.return_immediately
    assert not params.wants_push


def test_ids_that_are_empty_or_null_are_absent() -> None:
    for empty in ("", None):
        params = a2a.send_message(_message(messageId=empty, contextId=empty, taskId=empty))
        assert (params.message_id, params.context_id, params.task_id) == (None, None, None)


def test_proto_names_enum_numbers_and_numbers_as_text_are_read() -> None:
    params = a2a.send_message(
        {
            "message": {
                "message_id": "m",
                "context_id": "c",
                "role": 1,
                "parts": [{"raw": "-_8", "media_type": "x/y"}],
            },
            "configuration": {"history_length": "2", "return_immediately": True, "accepted_output_modes": ["*/*"]},
        }
    )

    assert (params.message_id, params.context_id, params.message["role"]) == ("m", "c", "ROLE_USER")
    assert params.message["parts"] == [{"raw": b"\xfb\xff", "mediaType": "x/y"}]
    assert (params.history_length, params.return_immediately) == (2, True)


@pytest.mark.parametrize("data", [None, 0, False, "", [], {}, 2**64 - 1, [None]])
def test_a_data_part_may_hold_any_value(data: Any) -> None:
    part = a2a.send_message(_message(parts=[{"data": data}])).message["parts"][0]

    assert part == {"data": data}
    assert type(part["data"]) is type(data)


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"metadata": {}},
        {"text": None},
        {"text": "a", "url": "b"},
        {"text": "a", "data": None},
        {"raw": "", "text": ""},
        {"kind": "text"},
    ],
)
def test_a_part_has_exactly_one_content(part: dict[str, Any]) -> None:
    assert _wrong(a2a.send_message, _message(parts=[{"text": "fine"}, part])) == ["message.parts[1]"]


def test_all_violations_of_a_message_are_told_at_once_with_their_paths() -> None:
    params = {
        "tenant": 1,
        "message": {
            "messageId": 5,
            "contextId": "x" * 1025,
            "taskId": [],
            "role": "ROLE_AGENT",
            "parts": [{"text": 1}, "x", {"raw": "!"}, {}, {"url": 1, "metadata": []}],
            "metadata": "m",
            "extensions": ["a", 1],
            "referenceTaskIds": "r",
        },
        "configuration": {"acceptedOutputModes": [1], "historyLength": -1, "returnImmediately": "yes"},
        "metadata": 1,
    }

    assert set(_wrong(a2a.send_message, params)) == {
        "tenant",
        "message.messageId",
        "message.contextId",
        "message.taskId",
        "message.role",
        "message.parts[0].text",
        "message.parts[1]",
        "message.parts[2].raw",
        "message.parts[3]",
        "message.parts[4].url",
        "message.parts[4].metadata",
        "message.metadata",
        "message.extensions[1]",
        "message.referenceTaskIds",
        "configuration.acceptedOutputModes[0]",
        "configuration.historyLength",
        "configuration.returnImmediately",
        "metadata",
    }


@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({}, ["message"]),
        ({"message": None}, ["message"]),
        ({"message": []}, ["message"]),
        ({"message": {}}, ["message.role", "message.parts"]),
        (_message(parts=[]), ["message.parts"]),
        (_message(parts={}), ["message.parts"]),
        (_message(parts=[None]), ["message.parts[0]"]),
        (_message(role=2), ["message.role"]),
        (_message(role=0), ["message.role"]),
        (_message(role="ROLE_UNSPECIFIED"), ["message.role"]),
        (_message(role="user"), ["message.role"]),
        ({**_message(), "configuration": []}, ["configuration"]),
        ({**_message(), "configuration": {"historyLength": 1.5}}, ["configuration.historyLength"]),
        ({**_message(), "configuration": {"historyLength": 2**31}}, ["configuration.historyLength"]),
    ],
)
def test_each_rule_of_a_message_names_its_field_once(params: dict[str, Any], fields: list[str]) -> None:
    assert _wrong(a2a.send_message, params) == fields


def test_a_push_configuration_is_noticed() -> None:
    configuration = {"taskPushNotificationConfig": {"url": "https://example.org"}}
    assert a2a.send_message({**_message(), "configuration": configuration}).wants_push


@pytest.mark.parametrize("read", [a2a.get_task, a2a.task_id])
def test_a_task_is_named_by_its_id(read: Any) -> None:
    assert read({"id": "x"}).id == "x"
    for missing in ({}, {"id": ""}, {"id": None}):
        assert _wrong(read, missing) == ["id"]
    assert _wrong(read, {"id": 1}) == ["id"]
    assert _wrong(read, {"id": "x" * 1025, "tenant": 5}) == ["id", "tenant"]


def test_a_history_length_is_a_number_from_nought() -> None:
    assert [a2a.get_task({"id": "x", "historyLength": n}).history_length for n in (0, 1, "7", 2**31 - 1)] == [
        0,
        1,
        7,
        2**31 - 1,
    ]
    assert a2a.get_task({"id": "x"}).history_length is None
    assert a2a.get_task({"id": "x", "historyLength": None}).history_length is None
    assert _wrong(a2a.get_task, {"id": "x", "history_length": -1}) == ["historyLength"]


def test_the_filters_of_a_list_have_defaults() -> None:
    assert a2a.list_tasks({}) == a2a.ListTasksParams(
        context_id=None,
        state=None,
        page_size=50,
        page_token="",
        history_length=None,
        after=None,
        include_artifacts=False,
    )
    unset = {"status": "TASK_STATE_UNSPECIFIED", "contextId": "", "pageToken": "", "includeArtifacts": None}
    assert a2a.list_tasks(unset) == a2a.list_tasks({"status": 0}) == a2a.list_tasks({})


@pytest.mark.parametrize(("number", "state"), list(enumerate(TaskState, start=1)))
def test_a_state_is_read_by_its_name_and_its_number(number: int, state: TaskState) -> None:
    assert a2a.list_tasks({"status": number}).state is a2a.list_tasks({"status": state.value}).state is state


def test_all_violations_of_a_list_are_told_at_once() -> None:
    params = {
        "contextId": 1,
        "status": "completed",
        "pageSize": 0,
        "pageToken": 1,
        "historyLength": -1,
        "statusTimestampAfter": "yesterday",
        "includeArtifacts": 1,
    }
    assert set(_wrong(a2a.list_tasks, params)) == set(params)


@pytest.mark.parametrize("size", [0, -1, 101, "x", 1.5, 2**31, True, ""])
def test_a_page_has_1_to_100_tasks(size: Any) -> None:
    assert _wrong(a2a.list_tasks, {"pageSize": size}) == ["pageSize"]
    assert [a2a.list_tasks({"page_size": n}).page_size for n in (1, 100, "100")] == [1, 100, 100]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T00:00:00.0010001Z", 2),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01t01:00:00+01:00", 0),
        ("1969-12-31T19:00:00-05:00", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1970-01-01T05:45:00z", 20_700_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_a_timestamp_has_any_offset_and_is_rounded_up(text: str, ms: int) -> None:
    assert a2a.list_tasks({"statusTimestampAfter": text}).after == ms
    assert a2a.list_tasks({"status_timestamp_after": text}).after == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-12-01",
        "2026-12-01T09:30:00",
        "2026-12-01 09:30:00Z",
        "2026-12-01T09:30Z",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-12-01T25:00:00Z",
        "2026-12-01T09:30:00+25:00",
        "2026-12-01T09:30:00+0100",
        "2026-12-01T09:30:00.Z",
        "2026-12-01T09:30:00.0000000001Z",
        "20261201T093000Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "٢٠٢٦-12-01T09:30:00Z",
        0,
        {"seconds": 1},
    ],
)
def test_what_is_no_timestamp_is_refused_and_does_not_crash(text: Any) -> None:
    assert set(_wrong(a2a.list_tasks, {"statusTimestampAfter": text})) == {"statusTimestampAfter"}


def test_metadata_and_data_may_nest_only_so_deep() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert a2a.send_message(_message(parts=[{"data": deep}])).message["parts"] == [{"data": deep}]
    for params in (
        _message(parts=[{"data": [deep]}]),
        _message(metadata={"a": deep}),
        {**_message(), "metadata": {"a": deep}},
    ):
        with pytest.raises(ParseError):
            a2a.send_message(params)
