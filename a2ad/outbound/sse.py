"""A reader of Server-Sent Events (WHATWG HTML, 9.2.6) that takes the bytes as they come, split anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """`data` is its lines, joined by line breaks; `id` the last one that the stream gave so far, or None; `name` is
    its type, `message` where it has none.
    """

    data: bytes
    id: str | None
    name: str = field(default="message", compare=False)


#: of data, in one event
MAX_LINES = 100_000


class EventTooLarge(Exception):
    """An event, or a line of one, is larger than it may be."""


class EventReader:
    """Lines end in LF, CR or CRLF; comments and unknown fields are skipped. An event holds `limit` bytes at most."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._after_cr = False
        self._first = True
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self.last_id: str | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that are complete with this chunk. Raises `EventTooLarge`."""
        events: list[ServerEvent] = []
        if not chunk:
            return events
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        # the common case, a line that ends in LF, is searched for by the interpreter's own C
        start = 0
        for at, end in _line_ends(chunk):
            self._line += chunk[start:at]
            start = end
            self._end_line(events)
        self._line += chunk[start:]
        self._after_cr = chunk.endswith(b"\r")
        if self._size + len(self._line) > self._limit:
            raise EventTooLarge
        return events

    def end(self) -> list[ServerEvent]:
        """The stream has ended: an event whose last blank line is missing counts."""
        events: list[ServerEvent] = []
        if self._line:
            self._end_line(events)
        self._dispatch(events)
        return events

    def _end_line(self, events: list[ServerEvent]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._first = False
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._limit or len(self._data) > MAX_LINES:
                raise EventTooLarge
        elif name == b"event":
            self._name = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            self.last_id = value.decode(errors="replace")

    def _dispatch(self, events: list[ServerEvent]) -> None:
        if self._data:
            events.append(ServerEvent(b"\n".join(self._data), self.last_id, self._name or "message"))
            self._data = []
            self._size = 0
        self._name = ""


def _line_ends(chunk: bytes) -> list[tuple[int, int]]:
    """Where the lines of a chunk end: the index of the ending, and the one behind it."""
    ends: list[tuple[int, int]] = []
    at = 0
    has_cr = b"\r" in chunk
    while True:
        lf = chunk.find(b"\n", at)
        cr = chunk.find(b"\r", at, lf if lf >= 0 else len(chunk)) if has_cr else -1
        if cr >= 0:
            at = cr + 2 if cr + 1 == lf else cr + 1
            ends.append((cr, at))
        elif lf >= 0:
            at = lf + 1
            ends.append((lf, at))
        else:
            return ends
