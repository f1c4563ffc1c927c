"""JSON from the network: strict, exact and bounded."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

from a2ad.errors import ParseError

#: protobuf's own limit; orjson writes no more than 254 levels, and an answer wraps the data in a few of its own
MAX_DEPTH = 100
#: each costs many times its two bytes in memory
MAX_CONTAINERS = 1_000_000
#: a run of so many digits may be a number that is too large; and how it looks once every digit is a 0
_LONG_NUMBER, _ZEROS = b"0" * 19, bytes.maketrans(b"123456789", b"000000000")
#: from this size on, in bytes, orjson's buffer is about as large as what is in it
_BUFFER = 4096
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


def loads(raw: bytes, most: int = MAX_CONTAINERS) -> Any:
    """Parse JSON (RFC 8259, UTF-8 without a byte order mark) of `most` arrays and objects. Raises `ParseError`.

    Integers outside -2^63 to 2^64-1 and lone surrogates are refused, not changed: orjson would read the first as
    floats, so a text with so long a run of digits is read by the standard library, with a check.
    """
    # each takes two bytes at least
    if len(raw) > 2 * most and raw.count(b"[") + raw.count(b"{") > most:
        raise ParseError(f"The request has more than {most} arrays and objects")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"The request is not valid JSON: {error.msg}") from None
    if _LONG_NUMBER in raw.translate(_ZEROS):
        try:
            json.loads(raw, parse_int=_exact_int)
        except RecursionError:
            raise ParseError("The request is nested too deeply") from None
    return value


def dumps(value: Any) -> bytes:
    """As `orjson.dumps`, for what is kept: what that returns holds on to the 1 to 4 kB of the buffer it was made in."""
    encoded = orjson.dumps(value)
    return bytes(memoryview(encoded)) if len(encoded) < _BUFFER else encoded  # a copy, with the room that it needs


def _exact_int(digits: str) -> int:
    if len(digits) > 21 or not _INT_MIN <= int(digits) <= _INT_MAX:
        raise ParseError("An integer is outside -2^63 to 2^64-1")
    return int(digits)


def check_depth(value: Any, limit: int = MAX_DEPTH) -> None:
    """Raise `ParseError` where `value` nests more than `limit` levels of arrays and objects."""
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, (list, tuple)):
        inner = value  # type: ignore[assignment]
    else:
        return
    if limit == 0:
        raise ParseError("The request is nested too deeply")
    for item in inner:
        if type(item) is not str and isinstance(item, (dict, list, tuple)):
            check_depth(item, limit - 1)


def check_finite(value: Any) -> None:
    """Raise `ValueError` for a NaN or an infinity, which JSON has not and orjson would write as null."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("has a number that is not finite")
    elif isinstance(value, dict):
        for item in value.values():
            check_finite(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            check_finite(item)
