"""An answer as text: of artifacts what they say, of files what they are and where they were kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from a2ad.model import TaskState
from a2ad.outbound.answer import Answer
from a2ad.outbound.text import DESCRIPTION, NAME, Masks, line

#: files of one answer that are kept
MAX_FILES = 20

#: given base64 and a file's name, what is to be said of it behind its name and media type. Raises `OSError`,
#: `ValueError`.
Keep = Callable[[str, str], str]


def tell(answer: Answer, keep: Keep, masks: Masks) -> str:
    """What the remote said, once: its artifacts, or what stands for them; and why it did not complete. Without the
    tokens.
    """
    files = _Files(keep)
    groups = [_told(parts, files) for parts in answer.result_parts()]
    if answer.state is not None and answer.state is not TaskState.COMPLETED:
        words = _told(answer.status_parts, files)
        groups += [masks.of_status(answer.state)(words)] if words not in groups else []
    return masks.answers("\n\n".join(group for group in groups if group))


def size_alone(raw: str, _name: str) -> str:
    """A `Keep` that keeps nothing."""
    return f"{len(raw.rstrip('=')) * 3 // 4} bytes"


class _Files:
    """Keeps so many, and says of the others that it did not."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._kept = 0

    def told(self, raw: str, name: str) -> str:
        self._kept += 1
        if self._kept > MAX_FILES:
            return f"not kept: an answer may have {MAX_FILES} files"
        try:
            return self._keep(raw, name)
        except (OSError, ValueError) as error:
            return f"not kept: {type(error).__name__}"


def _told(parts: Sequence[Mapping[str, Any]], files: _Files) -> str:
    pieces: list[str] = []
    for part in parts:
        media_type = line(part.get("mediaType"), NAME) or "application/octet-stream"
        name = line(part.get("filename"), NAME)
        if "text" in part:
            pieces.append(part["text"])
        elif "data" in part:
            pieces.append(orjson.dumps(part["data"]).decode())
        elif "url" in part:
            pieces.append(f"[{name or 'file'}, {media_type}: {line(part['url'], DESCRIPTION)}]")
        else:
            pieces.append(f"[file {name}".rstrip() + f", {media_type}, {files.told(part['raw'], name)}]")
    return "\n".join(pieces)
