"""Where the working directories of contexts are."""

from __future__ import annotations

import hashlib
from pathlib import Path


def contexts_dir(state_dir: Path, inbound_id: str) -> Path:
    """Those of one inbound."""
    return state_dir / "contexts" / inbound_id


def context_dir(state_dir: Path, inbound_id: str, context_id: str) -> Path:
    """That of one context: its id may hold anything, so its hash is the name."""
    return contexts_dir(state_dir, inbound_id) / hashlib.sha256(context_id.encode()).hexdigest()[:32]
