"""One task as `a2ad tasks show` tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from a2ad.cli.acts import present
from a2ad.cli.frames import part_line
from a2ad.cli.table import aligned, table
from a2ad.cli.terminal import safe, word

Row = Mapping[str, Any]


def task_lines(task: Row) -> Iterator[str]:
    """What the control API says of a task, in lines that are safe."""
    yield from aligned(present(_details(task)))
    if task.get("question"):
        yield from _question(task["question"], str(task.get("id")))
    if task.get("timeline"):
        yield from _heading("timeline")
        started = task.get("startedAt")
        yield from table(("frame", "at", "state", "message"), [_step(step, started) for step in task["timeline"]])
    for artifact in task.get("artifacts") or ():
        yield from _heading(_artifact(artifact))
        yield from _parts(artifact.get("parts") or ())
    for message in task.get("history") or ():
        yield from _heading("from the client" if message.get("role") == "ROLE_USER" else "from the agent")
        yield from _parts(message.get("parts") or ())


def _details(task: Row) -> dict[str, Any]:
    started, ended = task.get("startedAt"), task.get("endedAt")
    return {
        "id": task.get("id"),
        "state": word(str(task.get("state"))),
        "error": task.get("error"),
        "inbound": task.get("serverId"),
        "skill": task.get("skill"),
        "executor": task.get("executor"),
        "context": task.get("contextId"),
        "created": task.get("createdAt"),
        "started": started,
        "ended": ended,
        "took": _took(started, ended) if started and ended else None,
        "updated": None if ended else task.get("updatedAt"),
    }


def _step(step: Row, started: str | None) -> Row:
    """An entry of the timeline, as a row of the table."""
    if step.get("kind") == "created":
        return {**step, "message": "created, and started at once" if step.get("at") == started else "created"}
    if step.get("kind") == "artifact":
        pieces = step.get("pieces", 1)
        more = f", in {pieces} pieces until {step.get('until')}" if pieces > 1 else ""
        return {**step, "message": _artifact(step) + more}
    return {**step, "state": word(str(step.get("state")))}


def _artifact(artifact: Row) -> str:
    name = artifact.get("name")
    return f"artifact {artifact.get('artifactId')}" + (f" ({name})" if name else "")


def _question(question: Row, task_id: str) -> Iterator[str]:
    yield from _heading("it asks")
    yield from _lines(str(question.get("question") or "for an answer"))
    options = question.get("options") or ()
    if options:
        yield from table(("id", "name", "description"), options)
    how = "--option ID" if options else '"…"'
    yield from _lines(f"(a2ad tasks answer {task_id} {how})")


def _parts(parts: Sequence[Row]) -> Iterator[str]:
    for part in parts:
        yield from _lines(part["text"] if "text" in part else part_line(part))


def _lines(text: str) -> Iterator[str]:
    return iter(safe(text).removesuffix("\n").split("\n"))


def _heading(text: str) -> Iterator[str]:
    yield ""
    yield click.style(" ".join(safe(text).split()), bold=True)


def _took(started: str, ended: str) -> str:
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
    return f"{seconds:.3f} s"
