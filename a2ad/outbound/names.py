"""What the tools are called: `a2a__<connection>__<skill>` as models take it (reference 3)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable

LONGEST = 64
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def plain_name(connection: str, skill: str) -> str:
    """Every other character becomes `_`, and what is past 64 characters is cut off."""
    return _OTHER.sub("_", f"a2a__{connection}__{skill}")[:LONGEST]


def name_tools(skills: Iterable[str], *, connection_id: str, connection: str, taken: Collection[str]) -> dict[str, str]:
    """A name for each skill of a connection: the plain one; where it is taken, with a hash of both ids behind it.

    Of two that want one name, the skill that has it letter for letter comes first. `taken` are the names that there
    are already: nobody loses the name that he has (they are kept in the store), whatever a card says later.
    """
    names: dict[str, str] = {}
    others = set(taken)
    for skill in sorted(skills, key=lambda skill: (plain_name("", skill) != f"a2a____{skill}", skill)):
        name = plain_name(connection, skill)
        salt = 0
        while name in others:
            digest = hashlib.sha256(f"{connection_id}\0{skill}\0{salt}".encode(errors="replace")).hexdigest()[:_HASH]
            name = f"{plain_name(connection, skill)[: LONGEST - _HASH - 1]}_{digest}"
            salt += 1
        others.add(name)
        names[skill] = name
    return names
