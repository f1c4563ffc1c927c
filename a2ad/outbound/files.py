"""Files that remotes answered with: kept by their content, named safely, and dropped when they are old."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

FOLDER = "outbound-files"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def keep_file(state_dir: Path, raw: str, name: str) -> str:
    """Store base64 content; says its size and where it is. Raises `OSError`, and `ValueError` for what is no base64."""
    try:
        text = raw.replace("-", "+").replace("_", "/").rstrip("=")
        content = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("no base64") from None
    folder = state_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{hashlib.sha256(content).hexdigest()[:32]}-{safe_name(name)}"
    draft = folder / f".{os.urandom(8).hex()}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return f"{len(content)} bytes: {path}"


def safe_name(name: str) -> str:
    """A file's name of its last segment: letters, digits and `. _ -`, at most 100, and none that is hidden."""
    last = re.split(r"[/\\]", name)[-1]
    return _UNSAFE.sub("_", last).lstrip(".")[-100:] or "file"


def drop_old_files(state_dir: Path, before: float) -> None:
    """Remove what was stored before a moment (seconds since 1970)."""
    for path in (state_dir / FOLDER).glob("*"):
        with suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()
