"""What an interrupted task asks, as its status says it; and which of the options an answer names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from a2ad.executor import Text, prompt_text
from a2ad.model import PartDict, timestamp
from a2ad.store import TaskRow

NOBODY_ANSWERED = "Nobody answered in time"


def question_parts(
    question: Text,
    options: Sequence[Mapping[str, Any]] | None,
    deadline: int | None,
    tool: Mapping[str, Any] | None,
) -> list[dict[str, Any]]:
    """The question as text, and what belongs to it as a data part; `deadline` in milliseconds since 1970."""
    parts: list[dict[str, Any]] = [{"text": question}] if isinstance(question, str) else list(question)
    more: dict[str, Any] = {}
    if options:
        more["options"] = [dict(option) for option in options]
    if deadline is not None:
        more["deadline"] = timestamp(deadline)
    if tool is not None:
        more["tool"] = dict(tool)
    if more:
        parts.append({"data": {"question": "\n".join(part["text"] for part in parts if "text" in part), **more}})
    return parts


def asked_parts(row: TaskRow) -> list[PartDict]:
    """What a task that waits for an answer has asked."""
    parts: list[PartDict] = (orjson.loads(row.status).get("message") or {}).get("parts", [])
    return parts


def question_of(row: TaskRow) -> dict[str, Any]:
    """`{question, options?, deadline?, tool?}` of a task that waits for an answer; the question may be empty."""
    parts = asked_parts(row)
    for part in reversed(parts):
        data = part.get("data")
        if isinstance(data, dict) and isinstance(data.get("question"), str):
            asked = {name: data[name] for name in ("question", "deadline", "tool") if name in data}
            if isinstance(options := data.get("options"), list):
                asked["options"] = [option for option in options if isinstance(option, dict)]
            return asked
    return {"question": prompt_text([part for part in parts if "text" in part])}


def deadline_of(question: Mapping[str, Any]) -> int | None:
    """The moment past which nobody's answer is waited for, in milliseconds since 1970."""
    try:
        return round(datetime.fromisoformat(question["deadline"]).timestamp() * 1000)
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


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
