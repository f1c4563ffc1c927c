"""A preset's options, read once."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from marshmallow import Schema, ValidationError, fields

from a2ad import Preset, PresetError

Permission: TypeAlias = Literal["ask", "allow", "deny"]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run an agent. Times are in seconds; README.md says what each option means."""

    preset: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None
    permission: Permission
    permission_seconds: float
    resumes: bool
    start_seconds: float
    tools: bool
    mode: str | None


def _checked(test: Callable[[Any], bool], expected: str, **more: Any) -> fields.Raw:
    """Marshmallow's own fields take `"1"` for a number and `1` for True: here a type is a type."""

    def check(value: Any) -> None:
        if not test(value):
            raise ValidationError(f"must be {expected}")

    return fields.Raw(validate=check, error_messages={"required": f"is missing: {expected}"}, **more)


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _seconds(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value) and value > 0


def _command(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_text, value))


def _env(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _text(name) and "=" not in name and isinstance(text, str) and "\0" not in text for name, text in value.items()
    )


def _folder(value: Any) -> bool:
    return _text(value) and Path(value).expanduser().is_absolute()


def _one_of(*words: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in words


class _Schema(Schema):
    command = _checked(_command, "a list of strings that are not empty: a program and its arguments", required=True)
    env = _checked(_env, "a table of names and strings", load_default=dict)
    cwd = _checked(_folder, "an absolute path", load_default=None)
    permission = _checked(_one_of("ask", "allow", "deny"), '"ask", "allow" or "deny"', load_default="ask")
    permission_seconds = _checked(_seconds, "a number of seconds above 0", load_default=3600.0)
    after_restart = _checked(_one_of("fail", "again"), '"fail" or "again"', load_default="fail")
    start_seconds = _checked(_seconds, "a number of seconds above 0", load_default=60.0)
    tools = _checked(lambda value: isinstance(value, bool), "true or false", load_default=True)
    mode = _checked(_text, "the id of one of the agent's modes", load_default=None)


#: where a value may be a secret, it is not shown
_UNSHOWN = {"env", "command"}


def read_options(preset: Preset) -> Options:
    """Raises `PresetError`, which names every option that is wrong, and what was expected."""
    try:
        values = _Schema().load(dict(preset.options))
    except ValidationError as error:
        raise PresetError("; ".join(_problems(error.messages_dict, preset.options))) from None
    return Options(
        preset=preset.id,
        command=tuple(values["command"]),
        env=dict(values["env"]),
        cwd=None if values["cwd"] is None else Path(values["cwd"]).expanduser(),
        permission=values["permission"],
        permission_seconds=float(values["permission_seconds"]),
        resumes=values["after_restart"] == "again",
        start_seconds=float(values["start_seconds"]),
        tools=values["tools"],
        mode=values["mode"],
    )


def _problems(messages: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    problems = []
    for name, texts in messages.items():
        if name not in _Schema().fields:
            problems.append(f"unknown option {name!r}; known: {', '.join(_Schema().fields)}")
        else:
            shown = name in options and name not in _UNSHOWN
            problems.append(f"option {name!r} {texts[0]}" + (f", not {reprlib.repr(options[name])}" if shown else ""))
    return problems
