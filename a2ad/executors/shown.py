"""What an agent says in statuses and questions, fit to be shown: a program's own stderr may be in it, and what drives a
terminal. What it answers is its work, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from a2ad.agent import AgentEvent, NeedsAuth, NeedsInput
from a2ad.executor import Status, TaskOutcome, Text
from a2ad.outbound.text import NAME, line, printable


def shown(event: AgentEvent) -> AgentEvent:
    """The event; a status or a question without control characters. The ids of options are the agent's, and kept."""
    if isinstance(event, Status):
        return event if event.message is None else replace(event, message=_shown(event.message))
    if isinstance(event, NeedsAuth):
        return replace(event, what=_shown(event.what))
    if isinstance(event, NeedsInput):
        options = None if event.options is None else [_named(option) for option in event.options]
        tool = None if event.tool is None else _named(event.tool)
        return replace(event, question=_shown(event.question), options=options, tool=tool)
    return event


@contextmanager
def outcomes_shown() -> Iterator[None]:
    """What an agent ends its run with inside the block is shown in the same way."""
    try:
        yield
    except TaskOutcome as outcome:
        outcome.message = _shown(outcome.message)
        raise


def _shown(text: Text) -> Text:
    if isinstance(text, str):
        return printable(text)
    return [{**part, "text": printable(part["text"])} if isinstance(part.get("text"), str) else part for part in text]


def _named(described: Mapping[str, Any]) -> Mapping[str, Any]:
    name = described.get("name")
    return {**described, "name": line(name, NAME)} if isinstance(name, str) else described
