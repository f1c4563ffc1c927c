"""protobuf's own reader and writer of the official types say what ProtoJSON is; ours has to agree."""

import base64
import copy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from a2a.types import ListTasksRequest, SendMessageRequest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.json_format import ParseError as ProtoError
from hypothesis import given, settings
from hypothesis import strategies as st

from a2ad.errors import InvalidParams, ParseError
from a2ad.model import TaskState
from a2ad.schemas import a2a

TEXT = st.text(max_size=12)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
STRUCT = st.dictionaries(TEXT, VALUE, max_size=3)


@st.composite
def _base64(draw: st.DrawFn) -> str:
    raw = draw(st.binary(max_size=20))
    text = draw(st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]))(raw).decode()
    return text.rstrip("=") if draw(st.booleans()) else text


def _object(draw: st.DrawFn, optional: dict[str, st.SearchStrategy[Any]], fixed: dict[str, Any]) -> dict[str, Any]:
    """Some of the optional fields, each under either of its names, and some of them null."""
    found = dict(fixed)
    for name, values in optional.items():
        if draw(st.booleans()):
            found[name] = draw(st.none() | values) if name != "data" else draw(values)
    return {_snake(name) if draw(st.booleans()) else name: value for name, value in found.items()}


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


@st.composite
def _part(draw: st.DrawFn) -> dict[str, Any]:
    content = draw(
        st.one_of(
            st.fixed_dictionaries({"text": TEXT}),
            st.fixed_dictionaries({"raw": _base64()}),
            st.fixed_dictionaries({"url": TEXT}),
            st.fixed_dictionaries({"data": VALUE}),
        )
    )
    return _object(draw, {"metadata": STRUCT, "filename": TEXT, "mediaType": TEXT}, content)


@st.composite
def send_requests(draw: st.DrawFn) -> dict[str, Any]:
    message = _object(
        draw,
        {
            "messageId": TEXT,
            "contextId": TEXT,
            "taskId": TEXT,
            "metadata": STRUCT,
            "extensions": st.lists(TEXT, max_size=3),
            "referenceTaskIds": st.lists(TEXT, max_size=3),
        },
        {"role": draw(st.sampled_from(["ROLE_USER", 1])), "parts": draw(st.lists(_part(), min_size=1, max_size=3))},
    )
    count = st.integers(0, 2**31 - 1)
    configuration = _object(
        draw,
        {
            "acceptedOutputModes": st.lists(TEXT, max_size=2),
            "historyLength": count | count.map(str) | st.integers(0, 1000).map(float),
            "returnImmediately": st.booleans(),
        },
        {},
    )
    return _object(draw, {"tenant": TEXT, "metadata": STRUCT}, {"message": message, "configuration": configuration})


def _oracle(request: dict[str, Any]) -> SendMessageRequest | None:
    try:
        return ParseDict(request, SendMessageRequest(), ignore_unknown_fields=True)
    except (ProtoError, TypeError, AttributeError):
        return None


def _to_json(message: dict[str, Any]) -> dict[str, Any]:
    parts = [
        {**part, "raw": base64.b64encode(part["raw"]).decode()} if "raw" in part else part for part in message["parts"]
    ]
    return {**message, "parts": parts}


@settings(max_examples=80)
@given(send_requests())
def test_what_protobuf_reads_we_read_and_with_the_same_meaning(request: dict[str, Any]) -> None:
    theirs = _oracle(request)
    assert theirs is not None

    ours = a2a.send_message(request)

    assert ParseDict(_to_json(ours.message), type(theirs.message)()) == theirs.message
    assert ours.message_id == (theirs.message.message_id or None)
    assert ours.accepted_output_modes == tuple(theirs.configuration.accepted_output_modes)
    assert ours.return_immediately == theirs.configuration.return_immediately
    has_length = theirs.configuration.HasField("history_length")
    assert ours.history_length == (theirs.configuration.history_length if has_length else None)


@settings(max_examples=50)
@given(send_requests())
def test_what_protobuf_writes_we_read_back_and_it_is_the_same(request: dict[str, Any]) -> None:
    theirs = ParseDict(request, SendMessageRequest(), ignore_unknown_fields=True)

    for proto_names in (False, True):
        written = MessageToDict(theirs, preserving_proto_field_name=proto_names)
        again = a2a.send_message(written)
        assert ParseDict(_to_json(again.message), type(theirs.message)()) == theirs.message


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a request, but for what is inside free JSON."""
    found = [path] if path else []
    if isinstance(value, dict) and (not path or path[-1] not in {"data", "metadata"}):
        for key, item in value.items():
            found += _places(item, (*path, key))
    elif isinstance(value, list) and path[-1] != "data":
        for index, item in enumerate(value):
            found += _places(item, (*path, index))
    return found


WRONG = [None, True, False, 0, 1, 5, -1, 1.5, 2**31, 2**40, "", "x", "1", [], ["x"], [1], [None], {}, {"text": 1}]
#: rules that the specification or the protocol page adds to ProtoJSON's
OWN_RULES = (
    "is required",
    "must have exactly one of text, raw, url and data",
    "must have at least one part",
    "must be ROLE_USER",
    "must not be negative",
    "must be base64",
)
#: protobuf's reader looks for the names of fields in a text or a list as well, and ignores what it does not find
TAKEN_FOR_OBJECTS = (str, list)


@settings(max_examples=250)
@given(send_requests(), st.data())
def test_a_value_of_the_wrong_type_is_refused_where_protobuf_refuses_it(request: dict[str, Any], data: Any) -> None:
    request = copy.deepcopy(request)
    place = data.draw(st.sampled_from(_places(request)))
    holder: Any = request
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = data.draw(st.sampled_from(WRONG))

    theirs = _oracle(request)
    try:
        a2a.send_message(request)
        ours: list[tuple[str, str]] = []
    except InvalidParams as error:
        ours = list(error.violations)

    if theirs is None:
        assert ours
    else:
        value = holder[place[-1]]
        assert all(
            text in OWN_RULES or (text == "must be an object" and isinstance(value, TAKEN_FOR_OBJECTS))
            for _, text in ours
        ), ours


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "contextId": TEXT,
            "status": st.sampled_from([*range(9), *(state.value for state in TaskState)]),
            "pageSize": st.integers(1, 100),
            "pageToken": TEXT,
            "historyLength": st.integers(0, 2**31 - 1),
            "includeArtifacts": st.booleans(),
        },
    )
)
def test_the_filters_of_a_list_mean_what_they_mean_to_protobuf(request: dict[str, Any]) -> None:
    theirs = ParseDict(request, ListTasksRequest())
    for proto_names in (False, True):
        ours = a2a.list_tasks(MessageToDict(theirs, preserving_proto_field_name=proto_names))

        assert (ours.context_id or "", ours.page_token) == (theirs.context_id, theirs.page_token)
        assert (list(TaskState).index(ours.state) + 1 if ours.state else 0) == theirs.status
        assert ours.page_size == (theirs.page_size if theirs.HasField("page_size") else 50)
        assert ours.include_artifacts == theirs.include_artifacts


@given(
    st.datetimes(datetime(1902, 1, 1), datetime(2400, 1, 1)),  # noqa: DTZ001 - the offset comes below
    st.integers(-1439, 1439),
)
def test_a_timestamp_of_any_offset_is_the_moment_that_protobuf_reads(moment: datetime, minutes: int) -> None:
    local = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    theirs = ParseDict({"statusTimestampAfter": local.isoformat()}, ListTasksRequest()).status_timestamp_after

    ours = a2a.list_tasks({"statusTimestampAfter": local.isoformat()}).after

    nanoseconds = theirs.ToNanoseconds()
    assert ours == -(-nanoseconds // 1_000_000)
    assert theirs.ToDatetime(tzinfo=UTC) == local


@given(st.recursive(st.integers() | TEXT | st.none(), lambda i: st.lists(i) | st.dictionaries(TEXT, i), max_leaves=20))
def test_no_value_does_anything_but_be_read_or_be_refused(value: Any) -> None:
    for read in (a2a.send_message, a2a.get_task, a2a.task_id, a2a.list_tasks):
        for params in ({"message": value, "id": value, "pageSize": value}, {"message": {"parts": value, "role": 1}}):
            try:
                read(params)
            except (InvalidParams, ParseError):
                continue
