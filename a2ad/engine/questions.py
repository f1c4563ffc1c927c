"""What an interrupted task asks, as its status says it; and which of the options an answer names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


def chosen(parts: Sequence[PartDict], options: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The option that an answer names, by its id or else its name: in a text, or in a data part as `"…"` or
    `{"option": "…"}`.
    """
    named, offered = {name for part in parts for name in _names(part)}, list(options)
    return next((each for key in ("id", "name") for each in offered if _plain(each.get(key)) in named), None)


def _names(part: PartDict) -> list[str]:
    data = part.get("data")
    found = [part.get("text"), data.get("option", data.get("optionId")) if isinstance(data, dict) else data]
    return [name for name in map(_plain, found) if name]


def _plain(text: object) -> str:
    """As it is compared: who answers need not heed case, blanks around it, or a full stop."""
    return text.strip().rstrip(".").casefold() if isinstance(text, str) else ""
