"""The executor of conversations: prompts the context's agent session and turns what it says into artifacts.

Text becomes appended chunks of the artifact `result`, closed with `lastChunk`; a tool call an artifact
`tool-call-<id>` with one data part (reference 2.4.1). Nothing else makes artifacts of what an agent says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from a2ad.agent import AgentEvent, AgentSession, NeedsAuth, NeedsInput, TextDelta, ToolCall, ToolResult, TurnEnd
from a2ad.engine.questions import chosen
from a2ad.executor import Artifact, Event, Executor, Preset, Status, TaskFailed, TaskRejected, TaskRequest
from a2ad.executors.pool import SessionPool
from a2ad.executors.prompt import Prompt, prompt_again, prompt_of
from a2ad.executors.shown import outcomes_shown, shown
from a2ad.model import TERMINAL, PartDict, TaskState

#: the tool calls of a task, by id: each the whole of what is known of it
Calls: TypeAlias = dict[str, dict[str, Any]]

#: how a turn may end other than well, and what the task says then
_REFUSED = "The agent refused"
_TOO_MANY = "The agent had not finished after as many requests as it makes in one turn"


class SessionExecutor(Executor):
    """`state_dir` is where the attachments of earlier messages are."""

    def __init__(self, pool: SessionPool, state_dir: Path) -> None:
        self.pool = pool
        self._state_dir = state_dir

    async def execute(self, request: TaskRequest) -> AsyncIterator[Event]:
        live = await self.pool.acquire(request)
        ending: list[Event] = []
        try:
            again = request.resumed and self.pool.resumes(request.preset)
            prompt = await prompt_again(request, self._state_dir) if again else prompt_of(request)
            async with aclosing(take_turn(live.session, request, prompt, ending, {})) as events:
                async for event in events:
                    yield event
            # before the task has ended: who sees its end may count on the conversation
            await self.pool.turn_ended(live)
            for event in ending:
                yield event
        except asyncio.CancelledError:
            await live.session.cancel()
            await self.pool.turn_ended(live)
            raise
        except (TaskFailed, TaskRejected):
            await self.pool.turn_ended(live)
            raise
        except Exception:
            # whatever state it is in now, the next task of the context gets another one
            await self.pool.drop(live)
            raise
        finally:
            live.task_id = None

    def goes_on(self, preset: Preset, *, waits: bool) -> bool:  # noqa: ARG002 - the agent waits in its turn
        return self.pool.resumes(preset)

    async def close(self) -> None:
        await self.pool.close()


async def take_turn(
    session: AgentSession, request: TaskRequest, prompt: Prompt, ending: list[Event], calls: Calls
) -> AsyncGenerator[Event, None]:
    """What the turn yields while it goes on; `ending` gets what is to be yielded once it is over, `calls` what becomes
    of the tool calls.
    """
    events = session.prompt(prompt.parts, prompt.attachments)
    projected = _project(session, request, prompt, events, ending, calls)
    with outcomes_shown():
        async with _closed_after(events), aclosing(projected):
            async for artifact_or_status in projected:
                yield artifact_or_status


@asynccontextmanager
async def _closed_after(events: AsyncIterator[AgentEvent]) -> AsyncIterator[None]:
    """`aclosing` for any async iterator: an agent's need not be a generator."""
    try:
        yield
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


async def _project(
    session: AgentSession,
    request: TaskRequest,
    prompt: Prompt,
    events: AsyncIterator[AgentEvent],
    ending: list[Event],
    calls: Calls,
) -> AsyncGenerator[Event, None]:
    said = False
    async for told in events:
        event = shown(told)
        if isinstance(event, TextDelta):
            if event.text:
                yield Artifact(parts=[{"text": event.text}], append=said, last_chunk=False)
                said = True
        elif isinstance(event, (ToolCall, ToolResult)):
            yield _tool_artifact(calls, event)
        elif isinstance(event, (NeedsInput, NeedsAuth)):
            await _ask(session, request, event, prompt)
        elif isinstance(event, TurnEnd):
            ending += _ending(event)
            break
        elif isinstance(event, Status) and event.state in TERMINAL:
            ending.append(event)
            break
        else:
            yield event
    if said:
        yield Artifact(parts=[], append=True, last_chunk=True)


async def _ask(session: AgentSession, request: TaskRequest, event: NeedsInput | NeedsAuth, prompt: Prompt) -> None:
    """Have the agent's question answered, or say that nobody has.

    Of options, the agent is told the id of the one that was chosen.
    """
    try:
        answer = await _answer(request, event, prompt)
    except TimeoutError:
        await session.unanswered()
        return
    if answer is not None:
        options = event.options if isinstance(event, NeedsInput) else None
        option = chosen(answer, options) if options else None
        await session.answer(answer if option is None else [{"text": str(option.get("id") or option.get("name"))}])


async def _answer(request: TaskRequest, event: NeedsInput | NeedsAuth, prompt: Prompt) -> Sequence[PartDict] | None:
    """One that has come already, or somebody's; None where the agent does not wait any more. Raises `TimeoutError`."""
    answer = prompt.answer_to(event)
    if answer is not None:
        return answer
    if isinstance(event, NeedsAuth):
        message: dict[str, Any] | None = await request.ask(event.what, state=TaskState.AUTH_REQUIRED)
    else:
        asking = request.ask(event.question, options=event.options, deadline=event.deadline, tool=event.tool)
        message = await _unless(event.withdrawn, asking)
    parts: Sequence[PartDict] | None = None if message is None else message["parts"]
    return parts


async def _unless(
    withdrawn: asyncio.Event | None, asking: Coroutine[Any, Any, dict[str, Any]]
) -> dict[str, Any] | None:
    """The answer, or None where the question is withdrawn before there is one."""
    if withdrawn is None:
        return await asking
    question, gone = asyncio.create_task(asking), asyncio.create_task(withdrawn.wait())
    try:
        await asyncio.wait([question, gone], return_when=asyncio.FIRST_COMPLETED)
        if question.done():
            return question.result()
    finally:
        # the run is to work on, or to end, before anything else happens
        gone.cancel()
        question.cancel()
        await asyncio.wait([question])
    return None


def _tool_artifact(calls: Calls, event: ToolCall | ToolResult) -> Artifact:
    """The whole of what is known of the call, so that a repetition is harmless."""
    call = calls.setdefault(event.id, {"name": "", "arguments": None, "status": "working", "result": None})
    if isinstance(event, ToolCall):
        call |= {"name": event.name, "arguments": event.arguments}
    else:
        call |= {"status": "failed" if event.error else "completed", "result": event.result}
    return Artifact(parts=[{"data": dict(call)}], artifact_id=f"tool-call-{event.id}")


def _ending(end: TurnEnd) -> list[Event]:
    """The stop reason is said beside the usage, and where the turn has not just ended."""
    metadata: dict[str, Any] = {}
    if end.usage:
        metadata["usage"] = dict(end.usage)
    if end.usage or end.stop_reason != "end_turn":
        metadata["stopReason"] = end.stop_reason
    if end.stop_reason == "refusal":
        return [Status(TaskState.REJECTED, _REFUSED, metadata)]
    if end.stop_reason == "cancelled":
        return [Status(TaskState.CANCELED, None, metadata)]
    if end.stop_reason == "max_turn_requests":
        return [Status(TaskState.FAILED, _TOO_MANY, metadata)]
    return [Status(TaskState.COMPLETED, None, metadata)] if metadata else []
