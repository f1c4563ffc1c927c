"""The tool calls of a turn: what the agent has told of each so far, put together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from acp.schema import ContentToolCallContent, TextContentBlock, ToolCallUpdate

from a2ad import ToolCall, ToolResult

#: how deep what is told of a call may be nested, and its largest whole number: no task takes more
MAX_LEVELS, LARGEST = 64, 2**63 - 1
#: what stands for the rest
TOO_DEEP = "(nested too deeply)"


@dataclass(slots=True)
class Tool:
    """`name` is the title that came first: later ones tell what the call does. What was told last is kept, so that
    nothing is told twice.
    """

    id: str
    name: str = ""
    title: str = ""
    input: Any = None
    content: Any = None
    output: Any = None
    status: str = "pending"
    told_call: ToolCall | None = None
    told_result: ToolResult | None = None

    def update(self, update: ToolCallUpdate) -> Iterator[ToolCall | ToolResult]:
        """Take in what is new, and say what of it is worth telling."""
        self.title = update.title or self.title or update.kind or "tool"
        self.name = self.name or self.title
        self.status = update.status or self.status
        self.input = self.input if update.raw_input is None else tellable(update.raw_input)
        self.output = self.output if update.raw_output is None else tellable(update.raw_output)
        if update.content is not None:
            self.content = tellable(_plain(update.content))
        call = ToolCall(self.id, self.name, self.input)
        if call != self.told_call:
            self.told_call = call
            yield call
        if self.status in {"completed", "failed"}:
            result = ToolResult(
                self.id, self.content if self.output is None else self.output, error=self.status == "failed"
            )
            if result != self.told_result:
                self.told_result = result
                yield result


def tellable(value: Any, levels: int = MAX_LEVELS) -> Any:
    """What an agent says in its own form, as a task can have it: a number that JSON has not is its name, as a text."""
    if isinstance(value, dict):
        return {name: tellable(each, levels - 1) for name, each in value.items()} if levels else TOO_DEEP
    if isinstance(value, list):
        return [tellable(each, levels - 1) for each in value] if levels else TOO_DEEP
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > LARGEST:
        return str(value)
    return value


def _plain(content: list[Any]) -> Any:
    """A text where there is nothing else, else the pieces as ACP has them."""
    texts = [
        piece.content.text
        for piece in content
        if isinstance(piece, ContentToolCallContent) and isinstance(piece.content, TextContentBlock)
    ]
    if len(texts) == len(content):
        return "\n".join(texts)
    return [piece.model_dump(mode="json", by_alias=True, exclude_none=True) for piece in content]
