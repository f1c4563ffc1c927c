"""Characters in halves: some servers cut a text between the two UTF-16 units of one, and send each half escaped.

A half by itself is no Unicode, and nothing that is made of it can be written. It stays in a text only until its other
half may have come.
"""

from __future__ import annotations

import json
from typing import Any

from a2ad.errors import ParseError
from a2ad.schemas.text import check_depth, loads


def loads_halves(raw: bytes, most: int) -> Any:
    """As `loads`, but texts may have halves in them; and NaN and infinities, which some write, are None."""
    try:
        return loads(raw, most)
    except ParseError:
        if raw.count(b"[") + raw.count(b"{") > most:
            raise
        try:
            value = json.loads(raw.decode(), parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            pass
        else:
            check_depth(value)
            return value
        raise


def whole(text: str) -> str:
    """A text whose halves are put together; one that is alone becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class HalfJoiner:
    """`whole` for a text that comes in pieces."""

    def __init__(self) -> None:
        self._first = ""

    def feed(self, piece: str) -> str:
        """What is complete."""
        text, self._first = self._first + piece, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._first = text[:-1], text[-1]
        return whole(text)

    def end(self) -> str:
        return whole(self._first)
