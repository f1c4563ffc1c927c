"""From a program's output to the events of a turn."""

from __future__ import annotations

import base64
import codecs
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import orjson

from a2ad import Artifact, Status, TaskFailed, TaskState, TextDelta

#: reads the next piece of the output, empty at the end
Read: TypeAlias = Callable[[], Awaitable[bytes]]
Event: TypeAlias = TextDelta | Artifact | Status

#: the longest line of the mode `jsonl`, in bytes
LINE_BYTES = 16 << 20
#: arrays and objects in one: to read more would hold up the daemon
MAX_CONTAINERS = 100_000
#: how deep the data of a part may be nested
MAX_DEPTH = 100
#: how much of a line an error shows, in characters
SHOWN = 300


async def text_events(read: Read) -> AsyncGenerator[Event, None]:
    """The text as it comes, whole characters at a time; bytes that are no UTF-8 become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while piece := await read():
        if text := decoder.decode(piece):
            yield TextDelta(text)
    if text := decoder.decode(b"", final=True):
        yield TextDelta(text)


async def jsonl_events(read: Read) -> AsyncGenerator[Event, None]:
    """An event for each line. Raises `TaskFailed`, which shows the line that is none."""
    async for line in _lines(read):
        yield parse_line(line)


async def _lines(read: Read) -> AsyncGenerator[str, None]:
    held: list[bytes] = []
    size = 0
    while piece := await read():
        first, *others = piece.split(b"\n")
        held.append(first)
        size += len(first)
        for other in others:
            yield b"".join(held).decode(errors="replace")
            held, size = [other], len(other)
        if size > LINE_BYTES:
            raise _no_event(b"".join(held)[: 4 * SHOWN].decode(errors="replace"), f"is longer than {LINE_BYTES} bytes")
    if size:
        yield b"".join(held).decode(errors="replace")


def parse_line(line: str) -> Event:
    """The event that a line says. Raises `TaskFailed`."""
    if line.count("[") + line.count("{") > MAX_CONTAINERS:
        raise _no_event(line, f"has more than {MAX_CONTAINERS} arrays and objects")
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _no_event(line, f"is not JSON ({error})") from None
    if not isinstance(said, dict):
        raise _no_event(line, "is not an object")
    kind = said.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _no_event(line, f'has no "type" of {", ".join(_KINDS)}')
    make, fields = _KINDS[kind]
    for name, (right, required) in fields.items():
        if name in said and not right(said[name]):
            raise _no_event(line, f'has a wrong "{name}"')
        if required and name not in said:
            raise _no_event(line, f'has no "{name}"')
    if unknown := sorted(set(said) - set(fields)):
        raise _no_event(line, f"has unknown fields: {', '.join(unknown)[:SHOWN]}")
    return make(said)


def _no_event(line: str, problem: str) -> TaskFailed:
    shown = line if len(line) <= SHOWN else f"{line[:SHOWN]}…"
    return TaskFailed(f"A line of the output {problem}: {shown}")


def _text(value: object) -> bool:
    return isinstance(value, str)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _parts(value: object) -> bool:
    return isinstance(value, list) and all(map(_part, value))


def _part(value: object) -> bool:
    """Whether it is a part as a2ad takes it: one content, known fields, each of its type; null is none."""
    if not isinstance(value, dict) or len(value.keys() & {"text", "raw", "url", "data"}) != 1:
        return False
    return all(
        name in _PART_FIELDS and (_PART_FIELDS[name](entry) or (entry is None and name in _MAY_BE_NULL))
        for name, entry in value.items()
    )


def _base64(value: object) -> bool:
    """Standard or URL-safe, with or without padding."""
    if not isinstance(value, str):
        return False
    text = value.translate(_URL_SAFE).rstrip("=")
    try:
        base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return False
    return True


def _shallow(value: object, levels: int = MAX_DEPTH) -> bool:
    """Whether it is nested no deeper than so many arrays and objects."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_shallow(each, levels - 1) for each in inner)


def _message(value: object) -> bool:
    return _text(value) or (_parts(value) and bool(value))


def _state(value: object) -> bool:
    return isinstance(value, str) and value in _STATES


def _artifact(said: Mapping[str, Any]) -> Artifact:
    return Artifact(
        parts=said["parts"],
        artifact_id=said.get("artifactId", "result"),
        name=said.get("name"),
        append=said.get("append", False),
        last_chunk=said.get("lastChunk"),
    )


def _status(said: Mapping[str, Any]) -> Status:
    return Status(_STATES[said["state"]], said.get("message"))


_URL_SAFE = str.maketrans("-_", "+/")
#: what is right for each field of a part
_PART_FIELDS: dict[str, Callable[[object], bool]] = {
    "text": _text,
    "raw": _base64,
    "url": _text,
    "data": _shallow,
    "metadata": lambda value: isinstance(value, dict) and _shallow(value),
    "filename": _text,
    "mediaType": _text,
}
_MAY_BE_NULL = frozenset({"metadata", "filename", "mediaType"})
#: what a line may call a state: by its name on the wire, or without what all of those begin with
_STATES = {name: state for state in TaskState if state is not TaskState.SUBMITTED for name in (state.value, state.name)}
#: each type of line: what makes the event, and its fields, each with what is right for it and whether it is required
_KINDS: dict[str, tuple[Callable[[Mapping[str, Any]], Event], dict[str, tuple[Callable[[object], bool], bool]]]] = {
    "text": (lambda said: TextDelta(said["text"]), {"text": (_text, True)}),
    "artifact": (
        _artifact,
        {
            "parts": (_parts, True),
            "artifactId": (lambda value: _text(value) and bool(value), False),
            "name": (_text, False),
            "append": (_flag, False),
            "lastChunk": (_flag, False),
        },
    ),
    "status": (_status, {"state": (_state, True), "message": (_message, False)}),
}
