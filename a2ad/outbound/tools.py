"""Skills of remote agents as tools: what there is, and a call of one, told as a model can use it (reference 3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import structlog

from a2ad.agent import ToolError
from a2ad.errors import RemoteError, RemoteInvalid, RemoteRefused
from a2ad.hookspecs import OutboundCall
from a2ad.model import TaskState, new_id
from a2ad.outbound.answer import FAILED, Answer, Observer, Said, Stated
from a2ad.outbound.card import RemoteSkill
from a2ad.outbound.client import Remote
from a2ad.outbound.connection import Connection
from a2ad.outbound.files import keep_file
from a2ad.outbound.registry import OutboundRegistry, task_key
from a2ad.outbound.text import DESCRIPTION, MESSAGE, NAME, Mask, StreamMask, line, shortened

#: how many daemons a call may have come through, itself included
MAX_DEPTH = 8
DEPTH = "a2ad/depth"
#: calls of one connection at the same time
MAX_CALLS = 256
MAX_PROMPT = 1_000_000  # characters

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "The task or the instructions for the remote agent."},
        "taskId": {
            "type": "string",
            "description": "Only to answer a remote agent that asked for something: the taskId that it gave.",
        },
    },
    "required": ["prompt"],
    "additionalProperties": False,
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `key` is one conversation with each connection; `name` is for the policy hooks; `depth`, how many
    daemons the call came through until here.
    """

    key: str
    name: str
    depth: int = 0


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call came to. `text` is what the remote said, without the token; `state` None for a direct message."""

    text: str
    state: TaskState | None
    task_id: str | None
    context_id: str

    @property
    def failed(self) -> bool:
        return self.state in FAILED


def depth_of(message: Mapping[str, Any]) -> int:
    """How many daemons a message came through: `metadata["a2ad/depth"]`, 0 where there is none."""
    depth = (message.get("metadata") or {}).get(DEPTH)
    if isinstance(depth, float) and depth.is_integer():
        depth = int(depth)
    return depth if type(depth) is int and depth > 0 else 0


async def call_skill(
    registry: OutboundRegistry,
    connection: Connection,
    skill_id: str | None,
    text: str,
    *,
    caller: Caller,
    task_id: str | None = None,
    context_id: str | None = None,
    observer: Observer | None = None,
) -> CallResult:
    """Send a text to a skill, None for the remote's own choice, and wait for what becomes of it.

    Raises `RemoteError`, its text without the token. Where it is cancelled, the remote's task is.
    """
    if caller.depth >= MAX_DEPTH:
        raise RemoteRefused(f"agents have called agents {MAX_DEPTH} times in a row: the chain ends here")
    if len(connection.calls) >= MAX_CALLS:
        raise RemoteRefused(f"{MAX_CALLS} calls to {connection.record.name!r} are going on already")
    await _ask_policy(registry, connection, skill_id, text, caller)
    if context_id is None and task_id is not None:
        context_id = registry.context_of_task(connection, task_id)
    elif context_id is None:
        context_id = registry.context_of(connection, caller.key)
    message = _message(skill_id, text, caller.depth + 1, task_id, context_id)
    answer = await _answered(registry, connection, message, observer)
    mask = connection.mask
    if any(mask(each) != each for each in (answer.task_id, answer.context_id) if each is not None):
        raise RemoteInvalid("the agent gives the token back as an id")
    if answer.context_id is not None and answer.context_id != context_id:
        context_id = answer.context_id
        if task_id is None:
            registry.remember(connection, caller.key, context_id)
    context_id = context_id or ""
    if answer.task_id is not None and answer.state is not None and answer.state.interrupted:
        registry.remember(connection, task_key(answer.task_id), context_id)
    if answer.has_files:
        told = await asyncio.to_thread(_tell, answer, registry.state_dir)
    else:
        told = _tell(answer, registry.state_dir)
    return CallResult(mask(told), answer.state, answer.task_id, context_id)


def _message(
    skill_id: str | None, text: str, depth: int, task_id: str | None, context_id: str | None
) -> dict[str, Any]:
    message: dict[str, Any] = {
        "messageId": new_id(),
        "role": "ROLE_USER",
        "parts": [{"text": text}],
        "metadata": {DEPTH: depth, **({"skill": skill_id} if skill_id else {})},
    }
    message |= {name: value for name, value in (("contextId", context_id), ("taskId", task_id)) if value is not None}
    return message


async def _answered(
    registry: OutboundRegistry, connection: Connection, message: dict[str, Any], observer: Observer | None
) -> Answer:
    """Send it, as one of the connection's calls: it ends with the connection."""
    work = asyncio.create_task(_send(registry, connection, message, observer))
    connection.calls.add(work)
    work.add_done_callback(connection.calls.discard)
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if work.cancelled() and task is not None and not task.cancelling():
            raise RemoteRefused(f"the connection {connection.record.name!r} was taken away during the call") from None
        raise


async def _ask_policy(
    registry: OutboundRegistry, connection: Connection, skill_id: str | None, text: str, caller: Caller
) -> None:
    tool = registry.tool_name(connection, skill_id) if skill_id in {each.id for each in connection.skills} else ""
    call = OutboundCall(connection.record.name, tool, skill_id or "", text, caller.name)
    if not registry.host.has_outbound_gates:
        return
    denial = await registry.host.outbound_call(call)
    registry.audit.record(
        "policy.decision",
        {"outboundId": connection.id, "skill": call.skill, "caller": call.caller,
         "decision": "allow" if denial is None else "deny", "reason": denial.reason if denial else None},
    )  # fmt: skip
    if denial is not None:
        raise RemoteRefused(f"denied by policy: {denial.reason}")


async def _send(
    registry: OutboundRegistry, connection: Connection, message: dict[str, Any], observer: Observer | None
) -> Answer:
    mask = connection.mask
    seconds = connection.record.timeout_ms / 1000
    endpoint = None
    try:
        endpoint = await connection.endpoint()
        remote = Remote(registry.net, endpoint, registry.spawn)
        if observer is None:
            return await remote.call(message, patience=seconds)
        masked = _Masked(observer, mask)
        answer = await remote.call(message, patience=seconds, observer=masked.observe)
        masked.end()
        return answer
    except RemoteError as error:
        text = mask(str(error))
        if (
            isinstance(error, RemoteRefused)
            and error.status == 401
            and endpoint
            and connection.token
            and not endpoint.token
        ):
            text += "; the token is not sent to this origin, which is not that of the card: see tokenOrigins"
        if not isinstance(error, RemoteRefused):
            connection.wake()
        raise type(error)(shortened(text, MESSAGE)) from None


class _Masked:
    """Passes on what is observed, without the token: the end of a text waits where a token may have begun."""

    def __init__(self, observer: Observer, mask: Mask) -> None:
        self._observer = observer
        self._mask = mask
        self._said = StreamMask(mask)

    def observe(self, update: Said | Stated) -> None:
        if isinstance(update, Said):
            self._tell(self._said.feed(update.text))
        else:
            if update.state.terminal or update.state.interrupted:
                self.end()
            self._observer(Stated(update.state, self._mask(update.text)))

    def end(self) -> None:
        self._tell(self._said.end())

    def _tell(self, text: str) -> None:
        if text:
            self._observer(Said(text))


def _tell(answer: Answer, state_dir: Path) -> str:
    """The answer as text. Files are stored, and named in it."""
    groups = [_told(parts, state_dir) for parts in answer.result_parts()]
    if answer.state is not None and answer.state is not TaskState.COMPLETED:
        words = _told(answer.status_parts, state_dir)
        groups += [words] if words not in groups else []
    return "\n\n".join(group for group in groups if group)


def _told(parts: Sequence[Mapping[str, Any]], state_dir: Path) -> str:
    pieces: list[str] = []
    for part in parts:
        media_type = line(part.get("mediaType"), NAME) or "application/octet-stream"
        name = line(part.get("filename"), NAME)
        if "text" in part:
            pieces.append(part["text"])
        elif "data" in part:
            pieces.append(orjson.dumps(part["data"]).decode())
        elif "url" in part:
            pieces.append(f"[{name or 'file'}, {media_type}: {line(part['url'], DESCRIPTION)}]")
        else:
            try:
                path, size = keep_file(state_dir, part["raw"], name)
                pieces.append(f"[file {name or path.name}, {media_type}, {size} bytes: {path}]")
            except (OSError, ValueError) as error:
                pieces.append(f"[file {name}, {media_type}: not kept, {type(error).__name__}]")
    return "\n".join(pieces)


def for_model(result: CallResult) -> str:
    """A result as a tool's answer. Raises `ToolError` where the remote's task failed."""
    if result.failed:
        assert result.state is not None
        word = result.state.value.removeprefix("TASK_STATE_").lower()
        raise ToolError(f"The remote agent's task {word}: {result.text or 'no reason given'}")
    if result.state is not None and result.state.interrupted:
        what = "more input" if result.state is TaskState.INPUT_REQUIRED else "an authorisation"
        return (
            f"{result.text}\n\nThe remote agent needs {what} to go on. To answer it, call this tool again with"
            f' "taskId": "{result.task_id}" and the answer as the prompt.'
        ).lstrip()
    return result.text or "(The remote agent finished and said nothing.)"


def list_tools(registry: OutboundRegistry) -> list[dict[str, Any]]:
    """Every tool there is now: `{name, title, description, schema}`, and the ids of its `connection` and `skill`."""
    return [
        {**_described(connection, skill), "name": registry.tool_name(connection, skill.id), "schema": SCHEMA,
         "connection": connection.id, "skill": skill.id}
        for connection in registry
        if connection.record.enabled
        for skill in connection.skills
        if skill.id not in connection.record.disabled_skills
    ]  # fmt: skip


def _described(connection: Connection, skill: RemoteSkill) -> dict[str, str]:
    """Title and description. What the remote says of itself is quoted, so that it is not taken for ours."""
    override = connection.record.skill_overrides.get(skill.id, {})
    title = override.get("name") or skill.name
    description = override.get("description")
    if description is None:
        said = f" It describes this skill as: {orjson.dumps(skill.description).decode()}" if skill.description else ""
        agent = connection.card.name if connection.card is not None else ""
        description = f'Sends a task to the remote agent "{agent or connection.record.name}".{said}'
    return {"title": title, "description": description}


class ToolBox:
    """The tools as one caller has them: an agent's session. `depth` is that of the message it works on now; `lend`
    gives back its run slot for as long as a call takes.
    """

    def __init__(
        self,
        registry: OutboundRegistry,
        caller: Callable[[], Caller],
        *,
        lend: Callable[[], AbstractAsyncContextManager[None]],
        mcp_server: Mapping[str, Any],
    ) -> None:
        self._registry = registry
        self._caller = caller
        self._lend = lend
        self.mcp_server = mcp_server

    def list(self) -> Sequence[Mapping[str, Any]]:
        return [
            {key: tool[key] for key in ("name", "title", "description", "schema")}
            for tool in list_tools(self._registry)
        ]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        tool = next((tool for tool in list_tools(self._registry) if tool["name"] == name), None)
        if tool is None:
            raise ToolError(f"there is no tool {line(name, NAME)!r}")
        prompt, task_id = read_arguments(arguments)
        connection = self._registry.need(tool["connection"])
        return for_model(await self.call_skill(connection, tool["skill"], prompt, task_id=task_id))

    async def call_skill(
        self, connection: Connection, skill_id: str | None, text: str, *, task_id: str | None = None,
        context_id: str | None = None, observer: Observer | None = None,
    ) -> CallResult:  # fmt: skip
        """As `call`, with the result as it is. Raises `ToolError`."""
        try:
            async with self._lend():
                return await call_skill(
                    self._registry, connection, skill_id, text, caller=self._caller(), task_id=task_id,
                    context_id=context_id, observer=observer,
                )  # fmt: skip
        except RemoteError as error:
            raise ToolError(str(error)) from None


def read_arguments(arguments: Any) -> tuple[str, str | None]:
    """The prompt and the taskId of a tool's arguments. Raises `ToolError`."""
    if not isinstance(arguments, Mapping):
        raise ToolError("the arguments must be an object")
    prompt, task_id = arguments.get("prompt"), arguments.get("taskId")
    if not isinstance(prompt, str) or not 0 < len(prompt) <= MAX_PROMPT:
        raise ToolError(f"prompt must be a text of 1 to {MAX_PROMPT:,} characters")
    if task_id is not None and not isinstance(task_id, str):
        raise ToolError("taskId must be a string")
    return prompt, task_id or None


@asynccontextmanager
async def keep_slot() -> AsyncIterator[None]:
    """For a caller that has no run slot."""
    yield
