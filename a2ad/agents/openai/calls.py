"""The function calls of an answer, put together from pieces: servers disagree about how to number and name them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from a2ad.agents.openai.halves import whole
from a2ad.errors import ParseError, RemoteInvalid
from a2ad.model import new_id
from a2ad.outbound.text import NAME, line
from a2ad.schemas.text import check_depth, loads

#: calls in one answer
MAX_CALLS = 1000
#: arrays and objects in the arguments of one
MAX_CONTAINERS = 10_000
#: what a model is shown again of arguments that could not be read, in characters
SHOWN = 1000
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`arguments` is None where they are no JSON object; then `trouble` says why."""

    id: str
    name: str
    arguments: dict[str, Any] | None
    trouble: str = ""
    #: what an endpoint wants to see again with the call, whatever it is
    extra: Any = None

    def to_json(self) -> dict[str, Any]:
        """As it goes into the conversation. Arguments that cannot be read would be refused there."""
        arguments = orjson.dumps(self.arguments or {}).decode()
        name = _NOT_IN_NAMES.sub("_", self.name)[:64] or "unknown"
        call = {"id": self.id, "type": "function", "function": {"name": name, "arguments": arguments}}
        return call if self.extra is None else {**call, "extra_content": self.extra}


@dataclass(slots=True)
class _Draft:
    id: str
    name: str
    arguments: list[str]
    extra: str = ""  # JSON


class CallDrafts:
    """The calls of one answer as far as they have come."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._by_index: dict[int, _Draft] = {}

    def __len__(self) -> int:
        return len(self._drafts)

    def take(self, pieces: Iterable[Any]) -> int:
        """Add an event's `tool_calls`; how many characters that were. Raises `RemoteInvalid`."""
        return sum(self._take(piece) for piece in pieces if isinstance(piece, dict))

    def _take(self, piece: dict[str, Any]) -> int:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name, arguments = piece.get("id"), function.get("name"), function.get("arguments")
        draft = self._draft(piece.get("index"), _string(call_id), _string(name))
        draft.id = draft.id or _string(call_id)
        draft.name = draft.name or _string(name)
        if isinstance(arguments, dict):
            arguments = _written(arguments) or "(nested too deeply, or no Unicode)"
        draft.arguments.append(_string(arguments))
        size = len(draft.arguments[-1])
        if piece.get("extra_content") is not None:
            draft.extra = _written(piece["extra_content"])
            size += len(draft.extra)
        return size + len(_string(call_id)) + len(_string(name))

    def _draft(self, index: Any, call_id: str, name: str) -> _Draft:
        """Which call a piece belongs to: by its number where that is given and another id or name does not speak
        against it, else by its id; a name without either begins another one.
        """
        if isinstance(index, int):
            found = self._by_index.get(index)
            if found is None or _differ(found.id, call_id) or (not call_id and _differ(found.name, name)):
                found = self._by_index[index] = self._new()
            return found
        if call_id:
            return next((draft for draft in self._drafts if draft.id == call_id), None) or self._new()
        return self._new() if name or not self._drafts else self._drafts[-1]

    def _new(self) -> _Draft:
        if len(self._drafts) == MAX_CALLS:
            raise RemoteInvalid(f"it calls more than {MAX_CALLS} tools in one answer")
        self._drafts.append(_Draft("", "", []))
        return self._drafts[-1]

    def finished(self, taken: Collection[str], mask: Callable[[str], str]) -> list[FunctionCall]:
        """The calls, each with an id of its own that is none of `taken`. `mask` takes the key out of arguments."""
        calls: list[FunctionCall] = []
        ids = set(taken)
        for draft in self._drafts:
            usable = _ID.fullmatch(draft.id) and draft.id not in ids and mask(draft.id) == draft.id
            own = draft.id if usable else f"call_{new_id()}"
            ids.add(own)
            arguments, trouble = _read(mask(whole("".join(draft.arguments))))
            # with the key in it, it is not kept: it would be in the conversation's state
            extra = orjson.loads(draft.extra) if draft.extra and mask(draft.extra) == draft.extra else None
            calls.append(FunctionCall(own, line(whole(draft.name), NAME, mask), arguments, trouble, extra))
        return calls


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _written(value: Any) -> str:
    """As JSON; empty where it is nested too deeply for that, or has half a character in it."""
    try:
        check_depth(value)
        return orjson.dumps(value).decode()
    except (ParseError, TypeError):
        return ""


def _differ(one: str, other: str) -> bool:
    return bool(one and other and one != other)


def _read(text: str) -> tuple[dict[str, Any] | None, str]:
    """The arguments, or why they cannot be used."""
    if not text.strip():
        return {}, ""
    try:
        arguments = loads(text.encode(), MAX_CONTAINERS)
        check_depth(arguments)
    except ParseError as error:
        return None, f"The arguments are not valid JSON ({error}). They were: {text[:SHOWN]}"
    if not isinstance(arguments, dict):
        return None, f"The arguments must be a JSON object. They were: {text[:SHOWN]}"
    return arguments, ""
