"""A conversation with a model: its turns, each a loop of answers and of the tools that they call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import structlog

from a2ad.agent import AgentContext, AgentEvent, AgentSession, TextDelta, ToolCall, ToolError, ToolResult, TurnEnd
from a2ad.agents.openai.calls import FunctionCall
from a2ad.agents.openai.content import read_content, with_images
from a2ad.agents.openai.conversation import (
    BYTES_PER_TOKEN,
    EMPTY,
    Conversation,
    Message,
    request_tokens,
    shortened,
)
from a2ad.agents.openai.endpoint import Endpoint
from a2ad.agents.openai.keys import Key, read_key
from a2ad.agents.openai.options import Options
from a2ad.agents.openai.reply import Reply
from a2ad.errors import RemoteError, RemoteRefused
from a2ad.executor import Attachment, Status
from a2ad.model import PartDict, TaskState

#: calls of one answer that run at the same time
CALLS_AT_ONCE = 32
#: how many tools a model is told that calls one that there is not
TOLD_TOOLS = 50

log = structlog.get_logger()


class _TooManyRoundsError(RemoteError):
    """The model goes on calling tools."""


@dataclass(slots=True)
class _Turn:
    """What one turn has at hand."""

    key: Key
    tools: list[dict[str, Any]]
    reply: Reply
    #: tokens in and out over all rounds, None where the endpoint does not say
    usage: tuple[int, int] | None = None
    #: the ids of its calls so far
    call_ids: set[str] = field(default_factory=set)

    def count(self) -> None:
        """Add what the last answer took."""
        if self.reply.usage is not None:
            before = self.usage or (0, 0)
            self.usage = before[0] + self.reply.usage[0], before[1] + self.reply.usage[1]

    def usage_json(self) -> dict[str, int] | None:
        return dict(zip(("inputTokens", "outputTokens"), self.usage, strict=True)) if self.usage else None


class OpenAISession(AgentSession):
    def __init__(self, options: Options, endpoint: Endpoint, context: AgentContext) -> None:
        self._options = options
        self._endpoint = endpoint
        self._tools = context.tools
        self._context_id = context.context_id
        model = f"{options.model} at {options.base_url}"
        self._conversation = Conversation(options.context_tokens, context.resume, model)

    def state(self) -> Any:
        return self._conversation.state()

    async def prompt(self, parts: Sequence[PartDict], attachments: Sequence[Attachment]) -> AsyncIterator[AgentEvent]:
        key = read_key(self._options)
        turn = _Turn(key, self._functions(), Reply(key))
        inline = self._options.context_tokens * BYTES_PER_TOKEN // 4
        content = await read_content(parts, attachments, images=self._options.images, inline=inline)
        fixed = request_tokens(self._endpoint.request(self._instructions(), turn.tools))
        self._conversation.begin({"role": "user", "content": content}, fixed)
        try:
            async with aclosing(self._rounds(turn)) as events:
                async for event in events:
                    yield event
        except RemoteError as error:
            yield self._failed(turn, error)
        finally:
            # canceled, failed or refused: whatever is open still
            self._conversation.interrupt(turn.reply.message())

    async def _rounds(self, turn: _Turn) -> AsyncGenerator[AgentEvent, None]:
        for number in range(1, self._options.max_rounds + 1):
            turn.reply = Reply(turn.key)
            messages = await with_images(self._conversation.messages(), images=self._options.images)
            messages = [*self._instructions(), *messages]
            async with aclosing(self._endpoint.answer(turn.key, turn.reply, messages, turn.tools)) as pieces:
                async for piece in pieces:
                    yield TextDelta(piece)
            turn.count()
            calls = turn.reply.calls(turn.call_ids)
            if not calls:
                break
            if number == self._options.max_rounds:
                raise _TooManyRoundsError(f"it still calls tools after {number} answers (max_rounds)")
            turn.call_ids |= {call.id for call in calls}
            self._conversation.add(turn.reply.message(calls))
            turn.reply = Reply(turn.key)
            async with aclosing(self._run(calls)) as events:
                async for event in events:
                    yield event
        reason = turn.reply.stop_reason
        if reason == "refusal":
            self._conversation.drop()
        else:
            self._conversation.finish(turn.reply.message())
        yield TurnEnd(reason, turn.usage_json())

    def _failed(self, turn: _Turn, error: RemoteError) -> Status:
        """How the task ends. What the endpoint has refused is not sent to it again."""
        if isinstance(error, RemoteRefused) and not turn.reply.passed_on:
            self._conversation.drop()
        metadata: dict[str, Any] = {}
        if usage := turn.usage_json():
            metadata["usage"] = usage
        if isinstance(error, _TooManyRoundsError):
            metadata["stopReason"] = "max_turn_requests"
        text = turn.key.tell(error)
        log.warning("openai.failed", context_id=self._context_id, model=self._options.model, error=text)
        return Status(TaskState.FAILED, f"The model failed: {text}", metadata)

    def _instructions(self) -> list[Message]:
        return [{"role": "system", "content": self._options.system}] if self._options.system else []

    def _functions(self) -> list[dict[str, Any]]:
        return [_function(tool) for tool in self._tools.list()] if self._options.tools else []

    # the calls of one answer

    async def _run(self, calls: Sequence[FunctionCall]) -> AsyncGenerator[AgentEvent, None]:
        """`CALLS_AT_ONCE` at the same time; each result is told when it is there."""
        for call in calls:
            yield ToolCall(call.id, call.name, call.arguments)
        free = asyncio.Semaphore(CALLS_AT_ONCE)
        running = [asyncio.create_task(self._call(call, free)) for call in calls]
        try:
            pending = set(running)
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for finished in done:
                    yield finished.result()
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            for call, each in zip(calls, running, strict=True):
                if not each.cancelled() and each.exception() is None:
                    self._conversation.add(self._answered(call, each.result()))

    async def _call(self, call: FunctionCall, free: asyncio.Semaphore) -> ToolResult:
        async with free:
            try:
                self._check_name(call.name)
                if call.arguments is None:
                    raise ToolError(call.trouble)
                return ToolResult(call.id, await self._tools.call(call.name, call.arguments))
            except ToolError as error:
                return ToolResult(call.id, str(error), error=True)

    def _check_name(self, name: str) -> None:
        """Raises `ToolError`: before anything is said of its arguments, a model has to hear that there is no tool."""
        if not self._options.tools:
            raise ToolError("there are no tools here")
        names = [tool["name"] for tool in self._tools.list()]
        if name not in names:
            there = ", ".join(names[:TOLD_TOOLS]) + (" and others" if len(names) > TOLD_TOOLS else "")
            raise ToolError(f"there is no tool {name!r}; " + (f"there are: {there}" if names else "there are none now"))

    def _answered(self, call: FunctionCall, result: ToolResult) -> Message:
        """As the model gets it: cut to what fits."""
        said = f"The call failed: {result.result}" if result.error else str(result.result) or EMPTY
        return shortened({"role": "tool", "tool_call_id": call.id, "content": said}, self._conversation.room())


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as chat completions have it; its name fits already (`outbound/names.py`)."""
    described = {"name": tool["name"], "description": tool["description"], "parameters": tool["schema"]}
    return {"type": "function", "function": described}
