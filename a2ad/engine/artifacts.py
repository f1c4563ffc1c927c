"""The artifacts of a running task. To append a chunk costs the same for the first and for the ten-thousandth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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


class Parts:
    """Parts that grow: closed ones as JSON, and at the end perhaps a text that is still open."""

    __slots__ = ("_closed", "_text")

    def __init__(self) -> None:
        self._closed: list[bytes] = []
        self._text: bytearray | None = None

    def add(self, parts: Iterable[EncodedPart]) -> None:
        for part in parts:
            if not part.plain:
                self._close_text()
                self._closed.append(part.body)
            elif self._text is None:
                self._text = bytearray(part.body)
            else:
                self._text += part.body

    def _close_text(self) -> None:
        if self._text is not None:
            self._closed.append(b'{"text":"' + bytes(self._text) + b'"}')
            self._text = None

    def encode(self) -> bytes:
        """A JSON array."""
        if self._text is None:
            return b"[" + b",".join(self._closed) + b"]"
        if not self._closed:
            return b"".join((b'[{"text":"', self._text, b'"}]'))
        return b"".join((b"[", b",".join(self._closed), b',{"text":"', self._text, b'"}]'))


class _Pending:
    """A segment that is not written yet."""

    __slots__ = ("artifact_id", "head", "parts", "replace")

    def __init__(self, artifact_id: str, *, replace: bool) -> None:
        self.artifact_id = artifact_id
        self.replace = replace
        self.head: bytes | None = None
        self.parts = Parts()


class Artifacts:
    """All artifacts of one task, and what of them is not durable yet."""

    __slots__ = ("_begins", "_heads", "_parts", "_pending", "_places", "_seq", "_unwritten", "pending_bytes")

    def __init__(self) -> None:
        self._heads: dict[str, dict[str, Any]] = {}
        self._parts: dict[str, Parts] = {}
        self._pending: list[_Pending] = []
        self._unwritten: list[Segment] = []
        #: what the updates of each artifact begin with
        self._begins: dict[str, bytes] = {}
        #: where each artifact stands: one that is replaced keeps its place
        self._places: dict[str, int] = {}
        self._seq = 0
        #: how much has gathered since the last `take_pending`
        self.pending_bytes = 0

    @classmethod
    def from_segments(cls, segments: Sequence[Segment]) -> Artifacts:
        artifacts = cls()
        for segment in segments:
            head = None if segment.head is None else orjson.loads(segment.head)
            parts = encode_parts(orjson.loads(segment.parts))
            artifacts._merge(segment.artifact_id, head, parts, append=not segment.replace)
            artifacts._places[segment.artifact_id] = segment.place
            artifacts._seq = segment.seq + 1
        return artifacts

    def apply(self, artifact: Artifact, row: TaskRow, *, frame: bool) -> bytes | None:
        """Take in what an executor yielded; returns its artifactUpdate where a `frame` is wanted.

        Raises `InvalidOutput`, with nothing changed.
        """
        artifact_id, head = artifact.artifact_id, _head(artifact)
        parts = encode_parts(artifact.parts)
        # a last chunk may have nothing more to say, but the wire wants a part
        parts = parts or [EncodedPart(plain=True, body=b"")]
        known = artifact_id in self._parts
        if not known and len(self._parts) >= MAX_ARTIFACTS:
            raise InvalidOutput(f"a task has at most {MAX_ARTIFACTS} artifacts")
        append = bool(artifact.append) and known
        if known and not append:
            self._pending = [held for held in self._pending if held.artifact_id != artifact_id]
        self._merge(artifact_id, head, parts, append=append)
        self._remember(artifact_id, head, parts, append=append)
        if not frame:
            return None
        return self._update(artifact_id, head, join_parts(parts), row, append=append, last_chunk=artifact.last_chunk)

    def _update(
        self,
        artifact_id: str,
        head: Mapping[str, Any],
        parts: bytes,
        row: TaskRow,
        *,
        append: bool,
        last_chunk: bool | None,
    ) -> bytes:
        """The artifactUpdate, put together from pieces: half the cost of encoding it anew, and no more memory than it
        has bytes (what orjson returns holds on to a buffer of 1 kB).
        """
        begin = self._begins.get(artifact_id)
        if begin is None:
            names = orjson.dumps({"taskId": row.id, "contextId": row.context_id, "artifact": None})
            begin = b'{"artifactUpdate":' + names[:-5] + b'{"artifactId":' + orjson.dumps(artifact_id)
            self._begins[artifact_id] = begin
        more = b"," + orjson.dumps(head)[1:-1] if head else b""
        return one_line(
            b"".join(
                (begin, more, b',"parts":', parts, _ENDS[append, None if last_chunk is None else bool(last_chunk)])
            )
        )

    def _merge(
        self, artifact_id: str, head: Mapping[str, Any] | None, parts: Sequence[EncodedPart], *, append: bool
    ) -> None:
        self._places.setdefault(artifact_id, len(self._places))
        if not append or artifact_id not in self._parts:
            self._heads[artifact_id] = {}
            self._parts[artifact_id] = Parts()
        if head:
            held = self._heads[artifact_id]
            if "metadata" in head and "metadata" in held:
                # as the official client puts the pieces together
                head = {**head, "metadata": {**_plain(held["metadata"]), **_plain(head["metadata"])}}
            held.update(head)
        self._parts[artifact_id].add(parts)

    def _remember(
        self, artifact_id: str, head: Mapping[str, Any], parts: Sequence[EncodedPart], *, append: bool
    ) -> None:
        pending = self._pending
        if append and pending and pending[-1].artifact_id == artifact_id:
            current = pending[-1]
        else:
            current = _Pending(artifact_id, replace=not append)
            pending.append(current)
        if head:
            current.head = orjson.dumps(self._heads[artifact_id])
        current.parts.add(parts)
        self.pending_bytes += 64 + sum(len(part.body) for part in parts)

    def take_pending(self) -> list[Segment]:
        """What has gathered, as segments to be written."""
        segments, self._unwritten = self._unwritten, []
        for held in self._pending:
            place = self._places[held.artifact_id]
            segments.append(Segment(self._seq, place, held.artifact_id, held.replace, held.head, held.parts.encode()))
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
        return [
            orjson.dumps({"artifactId": artifact_id, **self._heads[artifact_id], "parts": Fragment(parts.encode())})
            for artifact_id, parts in sorted(self._parts.items(), key=lambda item: self._places[item[0]])
        ]


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
    return orjson.dumps({"artifactId": segment.artifact_id, **head, "parts": Fragment(segment.parts)})


def _head(artifact: Artifact) -> dict[str, Any]:
    head: dict[str, Any] = {}
    for field in ("artifact_id", "name", "description"):
        value = getattr(artifact, field)
        if value is not None and (not isinstance(value, str) or not value.isascii()):
            _check_text(value, field)
    if not artifact.artifact_id:
        raise InvalidOutput("an artifact's artifact_id must not be empty")
    if artifact.name is not None:
        head["name"] = artifact.name
    if artifact.description is not None:
        head["description"] = artifact.description
    if artifact.metadata is not None:
        head["metadata"] = encode_metadata(artifact.metadata)
    return head


def _plain(metadata: dict[str, Any] | Fragment) -> dict[str, Any]:
    plain: dict[str, Any] = metadata if isinstance(metadata, dict) else orjson.loads(orjson.dumps(metadata))
    return plain


def _check_text(value: object, field: str) -> None:
    if not isinstance(value, str):
        raise InvalidOutput(f"an artifact's {field} must be text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOutput(f"an artifact's {field} is not valid Unicode") from None
