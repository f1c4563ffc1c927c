"""What the tools are called: `a2a__<connection>__<skill>` as models take it (reference 3)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

LONGEST = 64
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def plain_name(connection: str, skill: str) -> str:
    """Every other character becomes `_`, and what is past 64 characters is cut off."""
    return _OTHER.sub("_", f"a2a__{connection}__{skill}")[:LONGEST]


def tool_names(skills: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    """The name of each (connection id, skill id), from triples of connection id, connection name and skill id.

    Who comes first keeps the plain name; where it is taken, a hash of both ids follows it. So the names depend on
    nothing but the order: that of the connections' making.
    """
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for connection_id, connection, skill in skills:
        name = plain_name(connection, skill)
        salt = 0
        while name in taken:
            digest = hashlib.sha256(f"{connection_id}\0{skill}\0{salt}".encode(errors="replace")).hexdigest()[:_HASH]
            name = f"{plain_name(connection, skill)[: LONGEST - _HASH - 1]}_{digest}"
            salt += 1
        taken.add(name)
        names[connection_id, skill] = name
    return names
