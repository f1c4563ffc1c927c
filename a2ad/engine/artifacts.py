"""The artifacts of a running task. To append a chunk costs the same for the first and for the ten-thousandth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import orjson
from orjson import Fragment

from a2ad.engine.encode import (
    EncodedPart,
    InvalidOutput,
    TaskView,
    encode_metadata,
    encode_parts,
    join_parts,
    one_line,
)
from a2ad.executor import Artifact
from a2ad.schemas.text import dumps
from a2ad.store import Segment, StoredTask, TaskRow

_JSON = {False: b"false", True: b"true"}
#: of one task
MAX_ARTIFACTS = 10_000


#: how an artifactUpdate ends, by `append` and `lastChunk`
_ENDS = {
    (append, last): b'},"append":%s%s}}' % (_JSON[append], b"" if last is None else b',"lastChunk":' + _JSON[last])
    for append in (False, True)
    for last in (None, False, True)
}


#: a moment in the growth of parts: how many were closed, and how much of a text was there
Mark: TypeAlias = tuple[int, int]
_OPEN, _CLOSE = b'{"text":"', b'"}'


class Parts:
    """Parts that grow: closed ones as JSON, and at the end perhaps a text that is still open."""

    __slots__ = ("_closed", "_text")

    def __init__(self) -> None:
        self._closed: list[bytes] = []
        self._text: bytearray | None = None

    def add(self, parts: Iterable[EncodedPart]) -> None:
        for plain, body in parts:
            if not plain:
                self._close_text()
                self._closed.append(body)
            elif self._text is None:
                self._text = bytearray(body)
            else:
                self._text += body

    def _close_text(self) -> None:
        if self._text is not None:
            self._closed.append(_OPEN + bytes(self._text) + _CLOSE)
            self._text = None

    def mark(self) -> Mark:
        return len(self._closed), 0 if self._text is None else len(self._text)

    def encode(self, since: Mark = (0, 0)) -> bytes:
        """A JSON array: all of them, or what was added since a moment."""
        count, offset = since
        pieces, text = self._closed[count:], self._text
        if offset and pieces:  # the text of then is closed by now
            pieces[0] = _OPEN + pieces[0][len(_OPEN) + offset :]
        elif offset and text is not None:
            text = text[offset:]
        if text is not None:
            pieces.append(b"".join((_OPEN, text, _CLOSE)))
        return b"".join((b"[", b",".join(pieces), b"]"))


class _Unwritten:
    """What of an artifact waits to be written: what came `since` then, in place of what is stored or behind it."""

    __slots__ = ("head_changed", "replaces", "since")

    def __init__(self, since: Mark, *, replaces: bool) -> None:
        self.since = since
        self.replaces = replaces
        self.head_changed = False


class _Held:
    """One artifact as it is now. `begin` is what its updates begin with; one that is replaced keeps its place."""

    __slots__ = ("begin", "head", "id", "parts", "place", "unwritten")

    def __init__(self, artifact_id: str, place: int) -> None:
        self.id = artifact_id
        self.place = place
        self.head: dict[str, Any] = {}
        self.parts = Parts()
        self.begin = b""
        self.unwritten: _Unwritten | None = None

    def clear(self) -> None:
        self.head, self.parts = {}, Parts()

    def merge(self, head: Mapping[str, Any]) -> None:
        """As the official client puts the pieces together."""
        if "metadata" in head and "metadata" in self.head:
            head = {**head, "metadata": {**_plain(self.head["metadata"]), **_plain(head["metadata"])}}
        self.head.update(head)

    def encode(self) -> bytes:
        head = orjson.dumps({"artifactId": self.id, **self.head})[:-1]
        return b"".join((head, b',"parts":', self.parts.encode(), b"}"))


class Artifacts:
    """All artifacts of one task, and what of them is not durable yet."""

    __slots__ = ("_held", "_pending", "_seq", "_unwritten", "pending_bytes")

    def __init__(self) -> None:
        #: by id, in the order in which they began
        self._held: dict[str, _Held] = {}
        self._pending: list[_Held] = []
        self._unwritten: list[Segment] = []
        self._seq = 0
        #: how much has gathered since the last `take_pending`
        self.pending_bytes = 0

    @property
    def none(self) -> bool:
        """None has begun."""
        return not self._held

    @classmethod
    def from_segments(cls, segments: Sequence[Segment]) -> Artifacts:
        artifacts = cls()
        for segment in segments:
            held = artifacts._held.get(segment.artifact_id)
            if held is None:
                held = artifacts._held[segment.artifact_id] = _Held(segment.artifact_id, segment.place)
            elif segment.replace:
                held.clear()
            if segment.head is not None:
                held.merge(orjson.loads(segment.head))
            held.parts.add(encode_parts(orjson.loads(segment.parts)))
            artifacts._seq = segment.seq + 1
        return artifacts

    def apply(self, artifact: Artifact, row: TaskRow, *, frame: bool) -> bytes | None:
        """Take in what an executor yielded; returns its artifactUpdate where a `frame` is wanted.

        Raises `InvalidOutput`, with nothing changed.
        """
        artifact_id = artifact.artifact_id
        held = self._held.get(artifact_id) if isinstance(artifact_id, str) else None
        head = _head(artifact) if held is None or _has_head(artifact) else {}
        # a last chunk may have nothing more to say, but the wire wants a part
        parts = encode_parts(artifact.parts) or [(True, b"")]
        append, replaces = bool(artifact.append) and held is not None, held is not None and not artifact.append
        if held is None:
            if len(self._held) >= MAX_ARTIFACTS:
                raise InvalidOutput(f"a task has at most {MAX_ARTIFACTS} artifacts")
            held = self._held[artifact_id] = _Held(artifact_id, len(self._held))
        if replaces:
            held.clear()
        unwritten = held.unwritten
        if unwritten is None or replaces:
            if unwritten is None:
                self._pending.append(held)
            unwritten = held.unwritten = _Unwritten(held.parts.mark(), replaces=replaces)
        if head:
            held.merge(head)
            unwritten.head_changed = True
        held.parts.add(parts)
        size = 64
        for _, body in parts:
            size += len(body)
        self.pending_bytes += size
        if not frame:
            return None
        return self._update(held, head, parts, row, append=append, last_chunk=artifact.last_chunk)

    def _update(
        self,
        held: _Held,
        head: Mapping[str, Any],
        parts: Sequence[EncodedPart],
        row: TaskRow,
        *,
        append: bool,
        last_chunk: bool | None,
    ) -> bytes:
        """The artifactUpdate, put together from pieces: half the cost of encoding it anew, and no more memory than it
        has bytes (what orjson returns holds on to a buffer of 1 kB).
        """
        if not held.begin:
            names = orjson.dumps({"taskId": row.id, "contextId": row.context_id, "artifact": None})
            held.begin = b'{"artifactUpdate":' + names[:-5] + b'{"artifactId":' + orjson.dumps(held.id)
        more = b"," + orjson.dumps(head)[1:-1] if head else b""
        end = _ENDS[append, None if last_chunk is None else bool(last_chunk)]
        return one_line(b"".join((held.begin, more, b',"parts":', join_parts(parts), end)))

    def take_pending(self, at: int | None = None) -> list[Segment]:
        """What has gathered, as segments to be written at this moment: one for each artifact."""
        segments, self._unwritten = self._unwritten, []
        for held in self._pending:
            unwritten, held.unwritten = held.unwritten, None
            assert unwritten is not None
            head = dumps(held.head) if unwritten.head_changed else None
            parts = held.parts.encode(unwritten.since)
            segments.append(Segment(self._seq, held.place, held.id, unwritten.replaces, head, parts, at))
            self._seq += 1
        self._pending = []
        self.pending_bytes = 0
        return segments

    def give_back(self, segments: list[Segment]) -> None:
        """They could not be written: `take_pending` returns them again."""
        self._unwritten = segments
        self.pending_bytes += sum(len(segment.parts) for segment in segments)

    def encode(self) -> list[bytes]:
        """Each artifact whole, in the order in which they began."""
        return [held.encode() for held in sorted(self._held.values(), key=_place)]


def _place(held: _Held) -> int:
    return held.place


def stored_view(stored: StoredTask) -> TaskView:
    """A task as the store has it."""
    segments = stored.segments
    if len({segment.artifact_id for segment in segments}) == len(segments):
        artifacts = [_encode_whole(segment) for segment in sorted(segments, key=lambda segment: segment.place)]
    else:
        artifacts = Artifacts.from_segments(segments).encode()
    return TaskView(stored.row, stored.messages, artifacts)


def _encode_whole(segment: Segment) -> bytes:
    """An artifact that was written in one piece: its parts need not be read."""
    head = orjson.loads(segment.head) if segment.head is not None else {}
    return b"".join((orjson.dumps({"artifactId": segment.artifact_id, **head})[:-1], b',"parts":', segment.parts, b"}"))


def _has_head(artifact: Artifact) -> bool:
    return artifact.name is not None or artifact.description is not None or artifact.metadata is not None


def _head(artifact: Artifact) -> dict[str, Any]:
    head: dict[str, Any] = {}
    artifact_id, name, description = artifact.artifact_id, artifact.name, artifact.description
    _check_text(artifact_id, "artifact_id")
    if not artifact_id:
        raise InvalidOutput("an artifact's artifact_id must not be empty")
    if name is not None:
        head["name"] = _check_text(name, "name")
    if description is not None:
        head["description"] = _check_text(description, "description")
    if artifact.metadata is not None:
        head["metadata"] = encode_metadata(artifact.metadata)
    return head


def _plain(metadata: dict[str, Any] | Fragment) -> dict[str, Any]:
    plain: dict[str, Any] = metadata if isinstance(metadata, dict) else orjson.loads(orjson.dumps(metadata))
    return plain


def _check_text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidOutput(f"an artifact's {field} must be text, not {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidOutput(f"an artifact's {field} is not valid Unicode") from None
    return value
