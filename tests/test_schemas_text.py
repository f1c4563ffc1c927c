from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2ad.errors import ParseError
from a2ad.schemas.text import MAX_DEPTH, check_depth, loads

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _typed(value: Any) -> Any:
    """1, 1.0 and true are equal in Python, and different here."""
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    return type(value), value


@given(JSON)
def test_every_json_value_is_read_exactly_with_its_type(value: Any) -> None:
    assert _typed(loads(orjson.dumps(value))) == _typed(value)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b'{"count":42}', {"count": 42}),
        (b"42.0", 42.0),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        (b'"a\\u0000b"', "a\0b"),
        (b'"12345678901234567890123456789012345678901234567890"', "1234567890" * 5),
        (b"0.1234567890123456789012345", 0.1234567890123456789012345),
        (b' \t\r\n{"a":1} \n', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_what_is_unusual_and_right_passes(raw: bytes, value: Any) -> None:
    assert _typed(loads(raw)) == _typed(value)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"   ",
        b"{",
        b"[1,]",
        b'{"a":1,}',
        b"{'a':1}",
        b"{a:1}",
        b'{"a":1} x',
        b"1 2",
        b"// comment\n1",
        b"NaN",
        b"[NaN]",
        b"Infinity",
        b"-Infinity",
        b"1e400",
        b"-1e400",
        b"+1",
        b"01",
        b".5",
        b"1.",
        b"0x10",
        b"True",
        b"undefined",
        b"18446744073709551616",
        b"-9223372036854775809",
        b'{"a":[1, 99999999999999999999]}',
        b"9" * 100_000,
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b'"\xff"',
        b'"\xc3"',
        b'"\xed\xa0\x80"',
        b'"\xf0\x9f\x98"',
        b'"\xc0\x80"',
        b'"\\ud83d"',
        b'"\\ude00\\ud83d"',
        b'{"\\ud800":1}',
        b'"\\u12"',
        b'"\\x41"',
        b'"a\nb"',
        b'"\0"',
        b"[" * 1_000_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"[" * 2000 + b"1234567890123456789" + b"]" * 2000,
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_what_is_not_json_or_would_be_changed_is_refused(raw: bytes) -> None:
    with pytest.raises(ParseError):
        loads(raw)


@given(st.binary(max_size=64))
def test_no_bytes_do_anything_but_parse_or_be_refused(raw: bytes) -> None:
    try:
        value = loads(raw)
    except ParseError:
        return
    assert orjson.loads(orjson.dumps(value)) == value


def _nested(levels: int, kind: type) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
def test_depth_is_counted_in_arrays_and_objects(kind: type) -> None:
    check_depth(_nested(MAX_DEPTH, kind))
    with pytest.raises(ParseError, match="nested too deeply"):
        check_depth(_nested(MAX_DEPTH + 1, kind))
    with pytest.raises(ParseError):
        check_depth([1, {"b": _nested(MAX_DEPTH - 1, kind)}])
