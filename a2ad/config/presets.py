"""Presets: what a `[[presets]]` table or a plugin's mapping may say, and what it means where it says little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from a2ad.config import keys
from a2ad.config.tables import Table, Tables, check_table
from a2ad.config.values import parse_filled
from a2ad.executor import Preset, Skill


def _name(*, required: bool = False) -> keys.Text:
    return keys.Text("a string that is not empty", parse_filled, required=required)


class SkillTable(Table):
    id = _name(required=True)
    name = _name()
    description = keys.Text()
    tags = keys.Items("strings", parse_filled)
    executor = _name()


class PresetTable(Table):
    id = _name(required=True)
    name = _name()
    description = keys.Text()
    default = keys.Flag()
    agent = _name()
    options = keys.Options()
    skills = Tables(SkillTable, filled=True)


_CHAT = {"id": "chat", "description": "Talk to the agent"}


def make_preset(table: Mapping[str, Any]) -> Preset:
    """The preset that a checked table means."""
    name = table.get("name", table["id"])
    return Preset(
        id=table["id"],
        name=name,
        description=table.get("description", name),
        agent=table.get("agent", "echo"),
        options=table.get("options", {}),
        skills=tuple(_make_skill(skill) for skill in table.get("skills", [_CHAT])),
        default=table.get("default", False),
    )


def _make_skill(table: Mapping[str, Any]) -> Skill:
    name = table.get("name", table["id"])
    return Skill(
        id=table["id"],
        name=name,
        description=table.get("description", name),
        tags=table.get("tags", (table["id"],)),
        executor=table.get("executor", "session"),
    )


def parse_preset(mapping: Mapping[str, Any], where: str) -> Preset:
    """The preset that a mapping with the keys of a `[[presets]]` table means; only `id` is required.

    Raises `ConfigError` with every problem, each beginning with `where`.
    """
    return make_preset(check_table(PresetTable(), mapping, where))


def flat_preset(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys of a preset's table, one by one: `agent`, `options.model`, `skills.chat.executor`."""
    for name, value in table.items():
        if name == "options":
            yield from ((f"options.{option}", setting) for option, setting in value.items())
        elif name == "skills":
            yield from ((f"skills.{skill['id']}.{key}", setting) for skill in value for key, setting in skill.items())
        else:
            yield name, value


#: what there is where no preset is configured
STANDARD_PRESET = parse_preset(
    {
        "id": "standard",
        "name": "Standard",
        "description": "Says back what it hears, word by word",
        "default": True,
        "agent": "echo",
    },
    "the built-in preset",
)
