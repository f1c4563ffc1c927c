"""Files that come with a message: checked, kept in the state directory by their content, handed out as paths."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a2ad.config import LimitsConfig
from a2ad.errors import InvalidParams, StoreUnavailable
from a2ad.executor import Attachment

# RFC 9110, 8.3.1: an executor may put it into a header of its own
_MEDIA_TYPE = re.compile(r"[\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+(\s*;[\x20-\x7e]*)?", re.ASCII)
_UNSAFE = re.compile(r"[^\w.() -]+")


async def keep_attachments(message: Mapping[str, Any], limits: LimitsConfig, state_dir: Path) -> tuple[Attachment, ...]:
    """Store the `raw` parts of a message. Raises `InvalidParams` that names the part which is too much."""
    if not any("raw" in part for part in message["parts"]):
        return ()
    violations = attachment_violations(message, limits)
    if violations:
        raise InvalidParams(violations)
    return await kept_attachments(message, state_dir)


def attachment_violations(message: Mapping[str, Any], limits: LimitsConfig) -> list[tuple[str, str]]:
    """What is too much: pairs of a JSON path and a sentence about it."""
    raw = [(i, part) for i, part in enumerate(message.get("parts", ())) if "raw" in part]
    violations = [
        (f"message.parts[{i}]", f"is one file too many: a message may have {limits.attachments}")
        for i, _ in raw[limits.attachments :]
    ]
    violations += [
        (f"message.parts[{i}].raw", f"has {len(part['raw'])} bytes; a file may have {limits.attachment_bytes}")
        for i, part in raw
        if isinstance(part["raw"], bytes) and len(part["raw"]) > limits.attachment_bytes
    ]
    return violations


async def kept_attachments(message: Mapping[str, Any], state_dir: Path) -> tuple[Attachment, ...]:
    """As `keep_attachments`, for a message that was accepted once: no limit is asked again."""
    parts = [part for part in message["parts"] if "raw" in part]
    if not parts:
        return ()
    try:
        return await asyncio.to_thread(_keep, parts, state_dir / "attachments")
    except OSError as error:
        raise StoreUnavailable(f"The attachments could not be stored: {error.strerror}") from None


def _keep(parts: list[Mapping[str, Any]], folder: Path) -> tuple[Attachment, ...]:
    kept = []
    for number, part in enumerate(parts, start=1):
        data = part["raw"] if isinstance(part["raw"], bytes) else base64.b64decode(part["raw"])
        digest = hashlib.sha256(data).hexdigest()
        path = folder / digest[:2] / digest
        try:
            os.utime(path)  # in use again: `retention` leaves what is fresh alone
        except FileNotFoundError:
            _write(path, data)
        media_type = part.get("mediaType") or ""
        if not _MEDIA_TYPE.fullmatch(media_type):
            media_type = "application/octet-stream"
        kept.append(Attachment(safe_name(part.get("filename"), number), media_type, path, len(data), digest))
    return tuple(kept)


def _write(path: Path, data: bytes) -> None:
    """All of it, or nothing: readable by the daemon's user alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix="new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def safe_name(name: str | None, number: int) -> str:
    """A file name without directories, control characters or a leading dot."""
    last = re.split(r"[/\\]", name or "")[-1]
    return _UNSAFE.sub("_", last).lstrip(".")[:200].strip() or f"file-{number}"
