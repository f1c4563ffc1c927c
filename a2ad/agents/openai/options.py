"""What a preset says about a model and its endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a2ad.agent import PresetError
from a2ad.config import keys
from a2ad.config.tables import Table, check_table
from a2ad.config.values import parse_base_url, parse_filled
from a2ad.errors import ConfigError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,255}")


@dataclass(frozen=True, slots=True)
class Options:
    base_url: str  # without `/chat/completions` and without a slash at its end
    model: str
    api_key_env: str = ""  # empty: no key is sent
    system: str = ""
    temperature: float | None = None  # None: the endpoint's own
    max_rounds: int = 16  # requests that one turn may take
    context_tokens: int = 32_000  # what a request may come to, by the conversation's estimate
    images: bool = False
    tools: bool = True


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise ValueError("not a name")
    return text


class _OptionsTable(Table):
    noun = "option"

    # a URL may hold a password, and a key may be given where its name is wanted: neither is repeated
    base_url = keys.Text(
        'an http or https URL without user name and query, such as "https://api.deepseek.com"',
        parse_base_url,
        required=True,
        secret=True,
    )
    model = keys.Text("a string that is not empty", parse_filled, required=True)
    api_key_env = keys.Text(
        "the name of an environment variable or a systemd credential", _variable, empty=True, secret=True
    )
    system = keys.Text()
    temperature = keys.Amount()
    max_rounds = keys.Whole(1)
    context_tokens = keys.Whole(1000)
    images = keys.Flag()
    tools = keys.Flag()


def read_options(options: Mapping[str, Any]) -> Options:
    """Raises `PresetError` with everything that is wrong."""
    try:
        return Options(**check_table(_OptionsTable(), options, "options"))
    except ConfigError as error:
        raise PresetError("; ".join(error.problems)) from None
