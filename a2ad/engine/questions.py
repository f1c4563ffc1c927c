"""What an interrupted task asks, as its status says it; and which of the options an answer names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from a2ad.executor import prompt_text
from a2ad.model import PartDict
from a2ad.store import TaskRow


def question_of(row: TaskRow) -> dict[str, Any]:
    """`{question, options?, deadline?, tool?}` of a task that waits for an answer; the question may be empty."""
    parts = (orjson.loads(row.status).get("message") or {}).get("parts", [])
    for part in parts:
        data = part.get("data")
        if isinstance(data, dict) and isinstance(data.get("question"), str) and isinstance(data.get("options"), list):
            asked = {name: data[name] for name in ("question", "deadline", "tool") if name in data}
            return {**asked, "options": [option for option in data["options"] if isinstance(option, dict)]}
    return {"question": prompt_text([part for part in parts if "text" in part])}


def chosen(parts: Sequence[PartDict], options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The one option that an answer names: in a text, or in a data part as `"…"` or `{"option": "…"}`.

    By its id or else its name; whoever answers need not heed case, blanks around it or a full stop, as long as no other
    option could be meant. Where two are named, or one that two could be, it is none: it might be a permission.
    """
    named = {place for part in parts for text in _said(part) if (place := _named(text, options)) is not None}
    return options[named.pop()] if len(named) == 1 else None


def _said(part: PartDict) -> list[str]:
    data = part.get("data")
    found = [part.get("text"), data.get("option", data.get("optionId")) if isinstance(data, dict) else data]
    return [text for text in found if isinstance(text, str)]


def _named(text: str, options: Sequence[Mapping[str, Any]]) -> int | None:
    """Where the option stands that a text names."""
    for form in (str.strip, _loosely):
        for key in ("id", "name"):
            wanted = form(text)
            found = [
                i for i, each in enumerate(options) if isinstance(each.get(key), str) and form(each[key]) == wanted
            ]
            if wanted and found:
                return found[0] if len(found) == 1 else None
    return None


def _loosely(text: str) -> str:
    return text.strip().rstrip(".").casefold()
