"""Where the working directories of contexts are, and of tasks that have one of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path


def contexts_dir(state_dir: Path, inbound_id: str) -> Path:
    """Those of one inbound."""
    return state_dir / "contexts" / inbound_id


def context_dir(state_dir: Path, inbound_id: str, context_id: str) -> Path:
    """That of one context: its id may hold anything, so its hash is the name."""
    return contexts_dir(state_dir, inbound_id) / hashlib.sha256(context_id.encode()).hexdigest()[:32]


def task_dir(state_dir: Path, inbound_id: str, task_id: str) -> Path:
    """That of one task, which goes when its inbound does, too."""
    return contexts_dir(state_dir, inbound_id) / "tasks" / task_id


def task_dirs(state_dir: Path) -> Iterator[Path]:
    """Those of all tasks: each is called by the task's id."""
    return state_dir.glob("contexts/*/tasks/*")
