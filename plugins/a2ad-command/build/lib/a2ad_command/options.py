"""What a preset of the kind `command` may say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2ad import PresetError


@dataclass(frozen=True, slots=True)
class Options:
    """`cwd` None is the working directory of the conversation, `timeout_seconds` None the daemon's `run_seconds`."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    input: str = "stdin"
    output: str = "text"
    timeout_seconds: float | None = None


def parse_options(given: Mapping[str, Any]) -> Options:
    """Raises `PresetError`, which names every option that is wrong, and repeats no value: one may be a secret."""
    problems = [f"unknown option {name!r}; known: {', '.join(_KNOWN)}" for name in given if name not in _KNOWN]
    problems += [
        f"option {name!r} must be {expected}"
        for name, (right, expected) in _KNOWN.items()
        if name in given and not right(given[name])
    ]
    if "command" not in given:
        problems.append(f"option 'command' is missing; it must be {_KNOWN['command'][1]}")
    if problems:
        raise PresetError("; ".join(problems))
    known = dict(given)
    if "cwd" in known:
        known["cwd"] = Path(known["cwd"])
    return Options(**{**known, "command": tuple(known["command"])})


def _text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _command(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_text, value)) and any(value[:1])


def _env(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _text(name) and name and "=" not in name and _text(content) for name, content in value.items()
    )


def _absolute(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and Path(value).is_absolute()


def _seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _one_of(*words: str) -> tuple[Callable[[object], bool], str]:
    return lambda value: value in words, " or ".join(f'"{word}"' for word in words)


#: each option, with whether a value is right for it and what is expected
_KNOWN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "command": (_command, "a list of strings, the program and its arguments"),
    "env": (_env, "a table of strings"),
    "cwd": (_absolute, "an absolute path"),
    "input": _one_of("stdin", "argument"),
    "output": _one_of("text", "jsonl"),
    "timeout_seconds": (_seconds, "a number of seconds above 0"),
}
