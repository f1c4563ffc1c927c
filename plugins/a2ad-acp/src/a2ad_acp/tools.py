"""The tool calls of a turn: what the agent has told of each so far, put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from acp.schema import ContentToolCallContent, TextContentBlock, ToolCallUpdate

from a2ad import ToolCall, ToolResult


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
        self.input = self.input if update.raw_input is None else update.raw_input
        self.output = self.output if update.raw_output is None else update.raw_output
        if update.content is not None:
            self.content = _plain(update.content)
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
