"""What a key accepts, as marshmallow fields that coerce nothing and say what they expected.

Each field also reads itself from an environment variable's text (`from_text`). Text that does not fit is handed on as
it is: the check that follows refuses it with the same sentence as in a file.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from marshmallow import ValidationError, fields

from a2ad.config.values import mask_url

T = TypeVar("T")

_SHOWN = 80  # characters of a refused value that an error repeats


def shown(value: object) -> str:
    """A value as an error names it: as in TOML, or only its kind where it is a table or an array."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "an array" if value else "an empty array"
    if isinstance(value, str | int | float):
        text = json.dumps(mask_url(value) if isinstance(value, str) else value, ensure_ascii=False)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return str(value)


class Key(fields.Field[T]):
    """One value. `expected` completes the sentence "expected …"; `secret` keeps the value out of errors."""

    def __init__(self, expected: str, *, required: bool = False, secret: bool = False) -> None:
        self.expected = expected
        self.secret = secret
        messages: dict[str, Any] = {"null": f"expected {expected}", "required": f"missing; expected {expected}"}
        super().__init__(required=required, error_messages=messages)

    def parse(self, value: Any) -> T:
        """The value that is meant; raises `ValueError`, `TypeError`, or `ValidationError` with its items' refusals."""
        raise NotImplementedError

    def from_text(self, text: str) -> Any:
        """What a file would have said, from an environment variable's text."""
        return text

    def refusal(self, value: object) -> str:
        return f"expected {self.expected}" if self.secret else f"expected {self.expected}, not {shown(value)}"

    def _deserialize(self, value: Any, *_attr: Any, **_kwargs: Any) -> T:
        try:
            return self.parse(value)
        except (ValueError, TypeError) as error:
            raise ValidationError(self.refusal(value)) from error


class Text(Key[Any]):
    """A string, and what `parse` makes of it. `empty` admits "" without parsing it: the key's "not set"."""

    def __init__(
        self,
        expected: str = "a string",
        parse: Callable[[str], Any] = str,
        *,
        empty: bool = False,
        required: bool = False,
        secret: bool = False,
    ) -> None:
        super().__init__(expected, required=required, secret=secret)
        self._parse = parse
        self._empty = empty

    def parse(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError("not a string")
        return value if self._empty and not value else self._parse(value)


class Choice(Key[str]):
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        super().__init__(" or ".join(json.dumps(word) for word in words))
        self._words = words

    def parse(self, value: Any) -> str:
        if value not in self._words:
            raise ValueError("not one of the words")
        return str(value)


class Flag(Key[bool]):
    """`true` or `false`; in the environment also `1` and `0`."""

    def __init__(self) -> None:
        super().__init__("true or false")

    def parse(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError("not a boolean")
        return value

    def from_text(self, text: str) -> Any:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)


class Whole(Key[int]):
    """A whole number, `least` or more."""

    def __init__(self, least: int) -> None:
        super().__init__(f"a whole number, {least} or more")
        self._least = least

    def parse(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError("not an integer")
        if value < self._least:
            raise ValueError("too small")
        return value

    def from_text(self, text: str) -> Any:
        try:
            return int(text)
        except ValueError:
            return text


class Amount(Key[float]):
    """A number that may have a fraction: 0 or more, or with `positive` above 0."""

    def __init__(self, *, positive: bool = False) -> None:
        super().__init__("a number above 0" if positive else "a number, 0 or more")
        self._positive = positive

    def parse(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError("not a number")
        if not math.isfinite(value) or value < 0 or (self._positive and value == 0):
            raise ValueError("out of range")
        return value

    def from_text(self, text: str) -> Any:
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
        return text


class Items(Key[tuple[Any, ...]]):
    """An array whose items are all of one kind; in the environment a TOML array, or separated by commas."""

    def __init__(self, expected: str, parse: Callable[[str], Any]) -> None:
        super().__init__(f"an array of {expected}")
        self._item = Text(expected, parse)

    def parse(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise TypeError("not an array")
        items, refusals = [], []
        for item in value:
            try:
                items.append(self._item.parse(item))
            except (ValueError, TypeError):
                refusals.append(f"expected {self.expected}, not {shown(item)} in it")
        if refusals:
            raise ValidationError(refusals)
        return tuple(items)

    def from_text(self, text: str) -> Any:
        if text.lstrip().startswith("["):
            try:
                return tomllib.loads(f"items = {text.strip()}")["items"]
            except (ValueError, RecursionError):
                return text
        return [item.strip() for item in text.split(",") if item.strip()]


class Options(Key[dict[str, Any]]):
    """A table whose keys are someone else's. Its value may hold secrets, so no error repeats it."""

    def __init__(self) -> None:
        super().__init__("a table", secret=True)

    def parse(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError("not a table")
        return dict(value)
