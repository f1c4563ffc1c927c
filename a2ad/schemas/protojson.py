"""Readers for ProtoJSON: small functions that check one kind of value and report each violation with its JSON path.

marshmallow serves the control API and the configuration; here, for every message of every client, it would cost
five times what these readers do (a message of one part, measured with marshmallow 4.4 on Python 3.11: 9 µs and 47 µs).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from a2ad.schemas.text import check_depth

Violations: TypeAlias = list[tuple[str, str]]
#: `read(value, path, violations)` returns the value as the inside knows it
Reader: TypeAlias = Callable[[Any, str, Violations], Any]

_URL_SAFE = str.maketrans("-_", "+/")
_INTEGER = re.compile(r"-?\d{1,10}")
#: an object with more fields than this is asked for those that count
MANY_FIELDS = 64
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
MAX_ID = 1024
#: in an array; what is longer is no message of a person's or an agent's, and takes long to check
MAX_ITEMS = 1000


def string(value: Any, path: str, violations: Violations) -> str:
    if type(value) is not str:
        violations.append((path, "must be a string"))
        return ""
    return value


def identifier(value: Any, path: str, violations: Violations) -> str:
    text = string(value, path, violations)
    if len(text) > MAX_ID:
        violations.append((path, f"must be at most {MAX_ID} characters long"))
    return text


def boolean(value: Any, path: str, violations: Violations) -> bool:
    if type(value) is not bool:
        violations.append((path, "must be true or false"))
        return False
    return value


def int32(value: Any, path: str, violations: Violations) -> int:
    """A whole number, also as 5.0 or "5", as ProtoJSON allows."""
    if (type(value) is float and value.is_integer()) or (type(value) is str and _INTEGER.fullmatch(value)):
        value = int(value)
    if type(value) is not int or not INT32_MIN <= value <= INT32_MAX:
        violations.append((path, "must be a whole number of 32 bits"))
        return 0
    return value


def base64_bytes(value: Any, path: str, violations: Violations) -> bytes:
    """Base64, standard or URL-safe, with or without padding; returns the bytes."""
    text = string(value, path, violations).translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        violations.append((path, "must be base64"))
        return b""


def struct(value: Any, path: str, violations: Violations) -> dict[str, Any]:
    if type(value) is not dict:
        violations.append((path, "must be an object"))
        return {}
    check_depth(value)
    return value


def any_value(value: Any, path: str, violations: Violations) -> Any:  # noqa: ARG001 - a Reader like the others
    check_depth(value)
    return value


def enum(names: Mapping[str, Any], numbers: Mapping[int, Any], what: str) -> Reader:
    """An enum by its name or its number."""

    def read(value: Any, path: str, violations: Violations) -> Any:
        found = names.get(value) if type(value) is str else numbers.get(value) if type(value) is int else None
        if found is None:
            violations.append((path, f"must be {what}"))
        return found

    return read


def repeated(item: Reader, most: int = MAX_ITEMS) -> Reader:
    """An array of at most so many items."""

    def read(value: Any, path: str, violations: Violations) -> list[Any]:
        if type(value) is not list:
            violations.append((path, "must be an array"))
            return []
        if len(value) > most:
            violations.append((path, f"must have at most {most} items, not {len(value)}"))
            return []
        return [item(entry, f"{path}[{i}]", violations) for i, entry in enumerate(value)]

    return read


class Fields:
    """A message: its fields by camelCase name, and the names of those that must be there.

    A field is found by its proto name as well. Unknown fields are ignored; a null is an absent field, except in those
    named `keep_null`.
    """

    def __init__(
        self, fields: Mapping[str, Reader], *, required: tuple[str, ...] = (), keep_null: tuple[str, ...] = ()
    ) -> None:
        self._fields = {name: (name, reader) for name, reader in fields.items()}
        for name, reader in fields.items():
            self._fields[re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name)] = (name, reader)
        self._required = required
        self._keep_null = frozenset(keep_null)

    def __call__(self, value: Any, path: str, violations: Violations) -> dict[str, Any]:
        if type(value) is not dict:
            violations.append((path, "must be an object"))
            return {}
        prefix = f"{path}." if path else ""
        found: dict[str, Any] = {}
        fields = self._fields
        keys = value if len(value) <= MANY_FIELDS else [key for key in fields if key in value]
        for key in keys:
            if key in fields:
                name, reader = fields[key]
                entry = value[key]
                if entry is None and name not in self._keep_null:
                    continue
                if name in found:
                    violations.append((prefix + name, "is given twice, under two names"))
                    continue
                found[name] = reader(entry, prefix + name, violations)
        for name in self._required:
            if name not in found:
                violations.append((prefix + name, "is required"))
        return found
