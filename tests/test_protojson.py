import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2ad.errors import ParseError
from a2ad.schemas.protojson import (
    MAX_ID,
    Fields,
    Reader,
    Violations,
    any_value,
    base64_bytes,
    boolean,
    enum,
    identifier,
    int32,
    repeated,
    string,
    struct,
)

_COLOUR = enum({"RED": "red", "BLUE": "blue"}, {1: "red", 2: "blue"}, "a colour")


def _read(reader: Reader, value: Any) -> tuple[Any, Violations]:
    violations: Violations = []
    return reader(value, "here", violations), violations


@pytest.mark.parametrize(
    ("reader", "value", "found"),
    [
        (string, "", ""),
        (string, "héllo \N{GRINNING FACE}\0", "héllo \N{GRINNING FACE}\0"),
        (identifier, "x" * MAX_ID, "x" * MAX_ID),
        (boolean, True, True),
        (boolean, False, False),
        (int32, 5, 5),
        (int32, 5.0, 5),
        (int32, "5", 5),
        (int32, "-5", -5),
        (int32, -(2**31), -(2**31)),
        (int32, 2**31 - 1, 2**31 - 1),
        (_COLOUR, "RED", "red"),
        (_COLOUR, 2, "blue"),
        (struct, {"a": None, "b": [1]}, {"a": None, "b": [1]}),
        (any_value, None, None),
        (any_value, [1, "a", {}], [1, "a", {}]),
        (repeated(string), [], []),
        (repeated(int32), [1, "2", 3.0], [1, 2, 3]),
    ],
)
def test_a_value_of_its_kind_is_read(reader: Reader, value: Any, found: Any) -> None:
    assert _read(reader, value) == (found, [])


@pytest.mark.parametrize(
    ("reader", "values"),
    [
        (string, [1, 1.5, True, None, [], {}]),
        (identifier, [1, None, "x" * (MAX_ID + 1)]),
        (boolean, ["true", 1, 0, None, [], {}]),
        (int32, ["", "x", "1.5", " 1", "1e3", 1.5, True, None, [], {}, 2**31, -(2**31) - 1, "2147483648", 1e300]),
        (base64_bytes, [1, None, "a", "****", "YQ==YQ==", "Y Q==", "YQ=\n=", "é"]),
        (_COLOUR, ["red", "", "GREEN", 0, 3, -1, 1.0, True, None, [], {}]),
        (struct, ["", 1, None, [], True]),
        (repeated(string), ["", {}, None, 1]),
    ],
)
def test_every_other_value_is_a_violation_at_its_path(reader: Reader, values: list[Any]) -> None:
    for value in values:
        found = _read(reader, value)[1]
        assert [path for path, _ in found] == ["here"], value
        assert found[0][1].startswith("must be "), value


@given(st.binary(max_size=200))
def test_base64_is_read_standard_and_url_safe_with_and_without_padding(raw: bytes) -> None:
    standard, url_safe = base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()

    for text in (standard, url_safe, standard.rstrip("="), url_safe.rstrip("=")):
        assert _read(base64_bytes, text) == (raw, [])


def test_every_item_of_an_array_is_checked_with_its_index() -> None:
    _, violations = _read(repeated(repeated(string)), [["a", 1], "b", [None]])

    assert [path for path, _ in violations] == ["here[0][1]", "here[1]", "here[2][0]"]


@pytest.mark.parametrize("reader", [struct, any_value])
def test_what_nests_too_deeply_is_no_json_that_we_read(reader: Reader) -> None:
    value: dict[str, Any] = {}
    for _ in range(101):
        value = {"a": value}
    with pytest.raises(ParseError):
        _read(reader, value)


_INNER = Fields({"inName": string}, required=("inName",))
_MESSAGE = Fields(
    {"plain": string, "someCount": int32, "anyData": any_value, "theInner": _INNER, "listOf": repeated(_INNER)},
    required=("plain",),
    keep_null=("anyData",),
)


def test_fields_are_found_by_both_names_and_handed_on_by_one() -> None:
    camel = {"plain": "p", "someCount": 1, "anyData": {"a_b": 1}, "theInner": {"inName": "x"}}
    proto = {"plain": "p", "some_count": 1, "any_data": {"a_b": 1}, "the_inner": {"in_name": "x"}}

    assert _read(_MESSAGE, camel) == _read(_MESSAGE, proto) == (camel, [])


def test_a_null_is_an_absent_field_except_where_null_is_a_value() -> None:
    given = {"plain": "p", "someCount": None, "anyData": None, "theInner": None, "listOf": None}

    assert _read(_MESSAGE, given) == ({"plain": "p", "anyData": None}, [])
    assert _read(_MESSAGE, {"plain": None})[1] == [("here.plain", "is required")]


def test_unknown_fields_are_ignored_whatever_they_hold() -> None:
    assert _read(_MESSAGE, {"plain": "p", "other": {"plain": 5}, "PLAIN": 1, "some-count": "x"}) == ({"plain": "p"}, [])


def test_a_field_under_both_of_its_names_is_a_violation() -> None:
    _, violations = _read(_MESSAGE, {"plain": "p", "someCount": 1, "some_count": 1})

    assert [path for path, _ in violations] == ["here.someCount"]


def test_all_violations_are_found_at_once() -> None:
    _, violations = _read(_MESSAGE, {"someCount": "x", "the_inner": {}, "listOf": [{"inName": 1}, 5, {}]})

    assert [path for path, _ in violations] == [
        "here.someCount",
        "here.theInner.inName",
        "here.listOf[0].inName",
        "here.listOf[1]",
        "here.listOf[2].inName",
        "here.plain",
    ]


@pytest.mark.parametrize("value", ["", 1, None, [], True])
def test_what_is_no_object_is_no_message(value: Any) -> None:
    assert _read(_MESSAGE, value) == ({}, [("here", "must be an object")])
