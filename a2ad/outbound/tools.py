"""The tools that there are, and the box of them that one caller has (reference 3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import orjson

from a2ad.agent import ToolError
from a2ad.errors import RemoteError
from a2ad.outbound.answer import Observer
from a2ad.outbound.call import Caller, call_skill
from a2ad.outbound.card import RemoteSkill
from a2ad.outbound.connection import Connection
from a2ad.outbound.contract import SCHEMA, CallResult, for_model, read_arguments
from a2ad.outbound.registry import OutboundRegistry
from a2ad.outbound.text import NAME, line


def list_tools(registry: OutboundRegistry) -> list[dict[str, Any]]:
    """Every tool there is now: `{name, title, description, schema}`, and the ids of its `connection` and `skill`."""
    return [
        {**_described(connection, skill), "name": registry.tool_name(connection, skill.id), "schema": SCHEMA,
         "connection": connection.id, "skill": skill.id}
        for connection, skill in _offered(registry)
    ]  # fmt: skip


def _offered(registry: OutboundRegistry) -> Iterator[tuple[Connection, RemoteSkill]]:
    for connection in registry:
        if connection.record.enabled:
            for skill in connection.skills:
                if skill.id not in connection.record.disabled_skills:
                    yield connection, skill


def _described(connection: Connection, skill: RemoteSkill) -> dict[str, str]:
    """Title and description. What the remote says of itself is quoted, so that it is not taken for ours."""
    override = connection.record.skill_overrides.get(skill.id, {})
    title = override.get("name") or skill.name
    description = override.get("description")
    if description is None:
        agent = (connection.card.name if connection.card is not None else "") or line(connection.record.name, NAME)
        said = f" It describes this skill as: {_quoted(skill.description)}" if skill.description else ""
        description = f"Sends a task to the remote agent {_quoted(agent)}.{said}"
    return {"title": title, "description": description}


def _quoted(text: str) -> str:
    """In quotes that it cannot leave."""
    return orjson.dumps(text).decode()


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
        prompt, task_id = read_arguments(arguments)
        for connection, skill in _offered(self._registry):
            if connection.record.tool_names.get(skill.id) == name:
                return for_model(await self.call_skill(connection, skill.id, prompt, task_id=task_id))
        raise ToolError(f"there is no tool {line(name, NAME)!r}")

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


@asynccontextmanager
async def keep_slot() -> AsyncIterator[None]:
    """For a caller that has no run slot."""
    yield
