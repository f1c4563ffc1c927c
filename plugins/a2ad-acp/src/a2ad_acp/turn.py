"""One turn of a session: what the agent says in it, in order, until it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import structlog
from acp.schema import (
    AgentMessageChunk,
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ToolCallUpdate,
    UsageUpdate,
)

from a2ad import Artifact, TaskFailed, TextDelta, ToolCall, ToolResult, TurnEnd
from a2ad_acp.blocks import said_part
from a2ad_acp.options import Permission
from a2ad_acp.question import Question
from a2ad_acp.tools import Tool

#: what may wait to be taken, in characters and so; what one event counts at least
WAITING, EVENT = 64 << 20, 256
#: questions that wait at the same time
MAX_QUESTIONS = 100
#: of a count of tokens: what is more is a mistake
MOST_TOKENS = 1 << 53

log = structlog.get_logger()

Item: TypeAlias = TextDelta | ToolCall | ToolResult | Artifact | Question | TurnEnd | TaskFailed


class Turn:
    """The connection puts in what comes, at once, so that its order is kept; the session takes it out with `next`."""

    def __init__(self, permission: Permission) -> None:
        self.ended = False
        self._permission = permission
        self._items: deque[tuple[Item, int]] = deque()
        self._size = 0
        self._there = asyncio.Event()
        self._tools: dict[str, Tool] = {}
        self._questions: list[Question] = []
        self._usage: dict[str, Any] = {}
        self._files = 0
        self._puzzled = False

    async def next(self) -> Item:
        """The next event; the last one is a `TurnEnd` or a `TaskFailed`."""
        while not self._items:
            self._there.clear()
            await self._there.wait()
        item, size = self._items.popleft()
        self._size -= size
        return item

    # what the connection puts in

    def update(self, update: Mapping[str, Any]) -> None:
        """A `session/update`. Thoughts, plans and what is not known are left out."""
        try:
            for item in self._events(update):
                self._put(item)
        except (ValueError, TypeError, RecursionError):  # pydantic's errors are ValueErrors, too
            if not self._puzzled:
                self._puzzled = True
                log.warning("acp.update_not_understood", kind=str(update.get("sessionUpdate"))[:100])

    def _events(self, update: Mapping[str, Any]) -> Iterator[Item]:
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            part = said_part(AgentMessageChunk.model_validate(update).content)
            if part.keys() == {"text"}:
                yield TextDelta(part["text"])
            else:
                self._files += 1
                yield Artifact([part], artifact_id=f"file-{self._files}")
        elif kind in {"tool_call", "tool_call_update"}:
            _, events = self._tool(ToolCallUpdate.model_validate(update))
            yield from events
        elif kind == "usage_update":
            usage = UsageUpdate.model_validate(update)
            sizes = {"contextTokens": usage.used, "contextSize": usage.size}
            self._usage |= {name: size for name, size in sizes.items() if 0 <= size <= MOST_TOKENS}

    def _tool(self, update: ToolCallUpdate) -> tuple[Tool, Iterator[ToolCall | ToolResult]]:
        tool = self._tools.setdefault(update.tool_call_id, Tool(update.tool_call_id))
        return tool, tool.update(update)

    async def permission(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        """A `session/request_permission`: its answer, from the preset's policy or from whoever is asked."""
        tool, events = self._tool(request.tool_call)
        for event in events:
            self._put(event)
        question = Question(tool, request.options)
        if self.ended:
            question.cancel()
        elif not question.decide(self._permission):
            self._questions.append(question)
            self._put(question)
            if len(self._questions) > MAX_QUESTIONS:
                self.end(TaskFailed(f"The agent asked more than {MAX_QUESTIONS} questions at a time"))
        await question.settled.wait()
        if question in self._questions:
            self._questions.remove(question)
        return question.outcome

    def end(self, ending: PromptResponse | TaskFailed) -> None:
        """It is over: whatever it still asks is answered `cancelled`, and nothing more is taken in. Once is enough."""
        if self.ended:
            return
        self.ended = True
        for question in list(self._questions):
            question.cancel()
        if isinstance(ending, TaskFailed):
            self._add(ending)
            return
        if ending.usage is not None:
            counts = {"inputTokens": ending.usage.input_tokens, "outputTokens": ending.usage.output_tokens}
            self._usage |= {name: count for name, count in counts.items() if 0 <= count <= MOST_TOKENS}
        self._add(TurnEnd(ending.stop_reason, self._usage or None))

    def _put(self, item: Item) -> None:
        if not self.ended:
            self._add(item)
            if self._size > WAITING:
                self.end(TaskFailed("The agent said more than could be taken"))

    def _add(self, item: Item) -> None:
        size = _size(item)
        self._items.append((item, size))
        self._size += size
        self._there.set()


def _size(item: Item) -> int:
    """About what it takes in memory."""
    if isinstance(item, TextDelta):
        return EVENT + len(item.text)
    if isinstance(item, Artifact):
        return EVENT + sum(len(part.get("raw", "")) for part in item.parts)
    if isinstance(item, ToolCall | ToolResult):
        return EVENT + len(str(item))
    if isinstance(item, Question):
        return EVENT + item.size
    return EVENT
