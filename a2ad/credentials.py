"""Secrets that the operator keeps outside: in systemd credentials or in the environment."""

from __future__ import annotations

import os
import re
from pathlib import Path

_TOKEN = re.compile(r"[\x21-\x7e]+")


def read_secret(name: str) -> str | None:
    """A secret by its name: a systemd credential, else an environment variable; None where neither is there."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if folder and "/" not in name:
        try:
            return (Path(folder) / name).read_text().strip()
        except (OSError, ValueError):
            pass
    return os.environ.get(name, "").strip() or None


def is_token(text: str) -> bool:
    """Whether an HTTP header can carry it."""
    return _TOKEN.fullmatch(text) is not None
