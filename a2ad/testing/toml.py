"""Presets as the configuration file has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def presets_toml(presets: Sequence[Mapping[str, Any]]) -> str:
    """`[[presets]]` tables. Raises `TypeError` for what TOML does not have."""
    lines = []
    for preset in presets:
        lines += ["[[presets]]", *(f"{_value(str(key))} = {_value(value)}" for key, value in preset.items())]
    return "".join(f"{line}\n" for line in lines)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_value(str(key))} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str | bool | int):
        # a string of JSON is one of TOML, but for this character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return repr(value)
    raise TypeError(f"TOML has no {type(value).__name__}")
