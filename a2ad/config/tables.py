"""Tables of keys, arrays of tables, and what is wrong with them as whole sentences."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, validates_schema

from a2ad.config.keys import Key
from a2ad.errors import ConfigError


class Table(Schema):
    """A table whose keys are all known. A key that is not there stays away from the result."""

    class Meta:
        unknown = EXCLUDE  # told by `_all_known`, which knows what the key was probably meant to be

    error_messages = {"type": "expected a table"}  # noqa: RUF012 - marshmallow's own declaration
    noun = "key"

    @validates_schema(pass_original=True, skip_on_field_errors=False)
    def _all_known(self, _data: Any, original: Any, **_kwargs: Any) -> None:
        if not isinstance(original, Mapping):
            return
        if strangers := [str(name) for name in original if name not in self.fields]:
            raise ValidationError({name: [self._unknown(name)] for name in strangers})

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, self.fields, n=1)
        hint = f'did you mean "{close[0]}"?' if close else f"expected one of {', '.join(self.fields)}"
        return f"unknown {self.noun}; {hint}"


def nested(table: type[Schema]) -> fields.Nested:
    """A field for a table in a table."""
    return fields.Nested(table, error_messages={"null": "expected a table"})


class Tables(Key[list[dict[str, Any]]]):
    """An array of tables that each have an `id` of their own; with `filled` there is at least one."""

    def __init__(self, table: type[Schema], *, filled: bool = False) -> None:
        super().__init__("an array of tables, at least one" if filled else "an array of tables")
        self._table = nested(table)
        self._filled = filled

    def parse(self, value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list | tuple) or (self._filled and not value):
            raise TypeError("not an array, or an empty one")
        tables: list[dict[str, Any]] = []
        refusals: dict[int, Any] = {}
        taken: set[str] = set()
        for index, item in enumerate(value):
            try:
                tables.append(self._table.deserialize(item))
            except ValidationError as error:
                refusals[index] = error.messages
            if name := _identifier(item):
                if name in taken:
                    refusals.setdefault(index, {})["id"] = ["this id is taken; expected one of its own"]
                taken.add(name)
        if refusals:
            raise ValidationError(refusals)
        return tables


def _identifier(item: object) -> str | None:
    name = item.get("id") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) and name.strip() else None


def check_table(schema: Schema, table: object, where: str) -> dict[str, Any]:
    """The keys that `table` has, as the values that they mean.

    Raises `ConfigError` with every problem as `<where>: <dotted key>: expected …`.
    """
    try:
        checked: dict[str, Any] = schema.load(table)  # type: ignore[arg-type]  # it says so itself where it is no table
    except ValidationError as error:
        raise ConfigError([f"{where}: {problem}" for problem in _problems(error.messages, table)]) from error
    return checked


def _problems(messages: Any, value: Any, path: str = "") -> Iterator[str]:
    if not isinstance(messages, Mapping):
        yield from (f"{path}: {message}" if path else str(message) for message in messages)
        return
    for name, inner in messages.items():
        if name == "_schema":  # marshmallow's name for the table itself
            yield from _problems(inner, value, path)
        elif isinstance(name, int):
            label = _identifier(value[name])
            yield from _problems(inner, value[name], f"{path}.{label}" if label else f"{path}[{name}]")
        else:
            below = value.get(name) if isinstance(value, Mapping) else None
            yield from _problems(inner, below, f"{path}.{name}" if path else name)
