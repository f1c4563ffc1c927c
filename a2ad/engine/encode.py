"""From the inside to the wire: each message, part and status is encoded once and then only put together."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import orjson
from orjson import Fragment

from a2ad.errors import ParseError
from a2ad.executor import Text
from a2ad.model import PartDict, TaskState, new_id, timestamp
from a2ad.schemas.a2a import read_part
from a2ad.schemas.protojson import Violations
from a2ad.schemas.text import check_depth, check_finite, dumps
from a2ad.store import TaskRow

_STATE_NAMES = {state: state.value.encode() for state in TaskState}
PART_FIELDS = frozenset({"text", "raw", "url", "data", "metadata", "filename", "mediaType"})


#: (plain, body). Plain: a text part with nothing else to it, and the body is what stands between the quotes of its
#: text, so that neighbours are merged by putting one behind the other. Else the body is the part's JSON.
EncodedPart: TypeAlias = tuple[bool, bytes]


class InvalidOutput(ValueError):
    """An executor yielded something that is no valid A2A object; the text says what."""


def encode_parts(parts: Sequence[PartDict]) -> list[EncodedPart]:
    """Check and encode an executor's parts. Raises `InvalidOutput`."""
    try:
        if type(parts) is list and len(parts) == 1 and (plain := _plain_text(parts[0])) is not None:
            return [plain]  # as nearly every chunk is
        if isinstance(parts, (str, bytes, Mapping)) or not isinstance(parts, Sequence):
            raise InvalidOutput(f"parts must be a list of part dicts, not {type(parts).__name__}")
        return [_encode_part(part, f"parts[{i}]") for i, part in enumerate(parts)]
    except TypeError as error:
        raise InvalidOutput(f"a part cannot be written as JSON: {error}") from None


def _plain_text(part: object) -> EncodedPart | None:
    """A part that has a text and nothing else. Raises `TypeError` where that is not valid Unicode."""
    if type(part) is dict and len(part) == 1 and type(text := part.get("text")) is str:
        return True, orjson.dumps(text)[1:-1]
    return None


def _encode_part(part: object, path: str) -> EncodedPart:
    if (plain := _plain_text(part)) is not None:
        return plain
    if not isinstance(part, Mapping):
        raise InvalidOutput(f"{path} must be a dict, not {type(part).__name__}")
    unknown = sorted(set(part) - PART_FIELDS, key=str)
    if unknown:
        raise InvalidOutput(f"{path} has unknown fields: {', '.join(map(str, unknown))}")
    read = _read_part(part, path)
    if len(read) == 1 and "text" in read:
        return True, orjson.dumps(read["text"])[1:-1]
    return False, dumps(read)


def _read_part(part: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The part as the wire has it: checked as a client's would be, nulls dropped, `raw` in base64."""
    given = dict(part)
    if isinstance(given.get("metadata"), Mapping):
        given["metadata"] = dict(given["metadata"])
    if isinstance(given.get("raw"), (bytes, bytearray)):
        given["raw"] = base64.b64encode(given["raw"]).decode()
    violations: Violations = []
    try:
        read = read_part(given, path, violations)
        check_finite((read.get("data"), read.get("metadata")))
    except (ParseError, RecursionError):
        raise InvalidOutput(f"{path} is nested too deeply") from None
    except ValueError as error:
        raise InvalidOutput(f"{path} {error}") from None
    if violations:
        raise InvalidOutput("; ".join(f"{field} {text}" for field, text in violations))
    if "raw" in read:
        read["raw"] = base64.b64encode(read["raw"]).decode()
    return read


def join_parts(parts: Sequence[EncodedPart]) -> bytes:
    """A JSON array of parts, neighbouring plain texts merged."""
    if len(parts) == 1:
        ((plain, body),) = parts
        return b'[{"text":"' + body + b'"}]' if plain else b"[" + body + b"]"
    pieces: list[bytes] = []
    open_text = False
    for plain, body in parts:
        if plain and open_text:
            pieces[-1] = pieces[-1][:-2] + body + b'"}'
        else:
            pieces.append(b'{"text":"' + body + b'"}' if plain else body)
        open_text = plain
    return b"[" + b",".join(pieces) + b"]"


def encode_metadata(metadata: Mapping[str, Any] | None) -> Fragment | None:
    """An executor's metadata. Raises `InvalidOutput`."""
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise InvalidOutput(f"metadata must be a mapping, not {type(metadata).__name__}")
    try:
        given = dict(metadata)
        check_depth(given)
        check_finite(given)
        return Fragment(dumps(given))
    except (ParseError, RecursionError):
        raise InvalidOutput("metadata is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise InvalidOutput(f"metadata cannot be written as JSON: {error}") from None


def client_message(message: Mapping[str, Any], message_id: str, context_id: str, task_id: str) -> dict[str, Any]:
    """A client's message as it stands in the history: its known fields, with the ids it now has."""
    parts = [
        {**part, "raw": base64.b64encode(part["raw"]).decode()} if "raw" in part else part for part in message["parts"]
    ]
    return {**message, "messageId": message_id, "contextId": context_id, "taskId": task_id, "parts": parts}


class AgentMessage(NamedTuple):
    id: str
    body: bytes


def encode_agent_message(
    text: Text, context_id: str, task_id: str | None, metadata: Mapping[str, Any] | None = None
) -> AgentMessage:
    """A message of the agent's, for a status or as a direct answer. Raises `InvalidOutput`."""
    parts = encode_parts([{"text": text}] if isinstance(text, str) else text)
    message: dict[str, Any] = {"messageId": new_id(), "contextId": context_id}
    if task_id is not None:
        message["taskId"] = task_id
    message |= {"role": "ROLE_AGENT", "parts": Fragment(join_parts(parts))}
    if metadata is not None:
        message["metadata"] = encode_metadata(metadata)
    return AgentMessage(message["messageId"], dumps(message))


def encode_status(state: TaskState, at: int, message: bytes | None = None) -> bytes:
    """A TaskStatus; `at` in milliseconds since 1970."""
    said = b"" if message is None else b'"message":' + message + b","
    return b'{"state":"%b",%b"timestamp":"%b"}' % (_STATE_NAMES[state], said, timestamp(at).encode())


def status_update(row: TaskRow, metadata: Fragment | None = None) -> bytes:
    ids = orjson.dumps({"taskId": row.id, "contextId": row.context_id})[:-1]
    more = b"" if metadata is None else b',"metadata":' + orjson.dumps(metadata)
    return one_line(b"".join((b'{"statusUpdate":', ids, b',"status":', row.status, more, b"}}")))


def task_result(task: bytes) -> bytes:
    """A frame's result."""
    return one_line(b"".join((b'{"task":', task, b"}")))


def one_line(body: bytes) -> bytes:
    """The official Python client splits lines at these three as well: escaped, they pass (`protocol.md` 4)."""
    if body.isascii():
        return body
    if b"\xc2\x85" in body:
        body = body.replace(b"\xc2\x85", b"\\u0085")
    if b"\xe2\x80" in body:
        body = body.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return body


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task at one moment. `history` and `artifacts` are encoded, each item on its own."""

    row: TaskRow
    history: Sequence[bytes]
    artifacts: Sequence[bytes]

    def encode(self, history_length: int | None = None, *, artifacts: bool = True) -> bytes:
        """The A2A Task. `history_length`: None is all, 0 none, n the n newest (A2A 1.0.1, 3.2.4)."""
        row, history = self.row, self.history
        if history_length is not None:
            history = history[max(0, len(history) - history_length) :]
        # one copy of what may be large, where orjson would make two of each fragment
        pieces = [orjson.dumps({"id": row.id, "contextId": row.context_id})[:-1], b',"status":', row.status]
        if artifacts and self.artifacts:
            pieces += (b',"artifacts":[', b",".join(self.artifacts), b"]")
        if history:
            pieces += (b',"history":[', b",".join(history), b"]")
        if row.metadata is not None:
            pieces += (b',"metadata":', row.metadata)
        pieces.append(b"}")
        return b"".join(pieces)
