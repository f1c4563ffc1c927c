"""The effective configuration as rows that may be shown to anyone: no row has a secret in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from a2ad.config.loading import Loaded
from a2ad.config.presets import STANDARD_PRESET, flat_preset
from a2ad.config.sections import SECTIONS
from a2ad.config.values import MASK, SECRET_NAME, mask_url


def flatten(loaded: Loaded) -> list[tuple[str, Any, str]]:
    """(dotted key, value as JSON has it, origin) of every effective value, in the order of the configuration.

    Secrets are "***": options of presets that are named like one, unless the name ends with `_env` (then the value is
    the name of an environment variable) or is a number of tokens, and passwords in URLs.
    """
    config = loaded.config
    values = {
        f"{name}.{key.name}": _plain(getattr(getattr(config, name), key.name))
        for name, section in SECTIONS.items()
        for key in fields(section)
    }
    values["store.url"] = mask_url(config.store.url)
    values["state_dir"] = str(config.state_dir)
    for preset in config.presets or (STANDARD_PRESET,):
        table = asdict(preset) | {"options": masked(preset.options)}
        values |= {f"presets.{preset.id}.{key}": _plain(value) for key, value in flat_preset(table)}
    return [(key, value, loaded.origins[key]) for key, value in values.items()]


def masked(value: Any) -> Any:
    """The value with the secrets in it replaced, at any depth."""
    if isinstance(value, Mapping):
        return {name: MASK if _is_secret(name, inner) else masked(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return mask_url(value) if isinstance(value, str) else value


def _is_secret(name: str, value: Any) -> bool:
    counted = isinstance(value, int) and name.lower().endswith("_tokens")  # of a model
    return bool(SECRET_NAME.search(name)) and not name.lower().endswith("_env") and not counted


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)
