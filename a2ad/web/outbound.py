"""What the operator can do about remote agents: the `outbound.*` actions (reference 1.2; `protocol.md` 7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from a2ad.agent import ToolError
from a2ad.errors import ActionFailed
from a2ad.model import timestamp
from a2ad.outbound.answer import Observer
from a2ad.outbound.call import Caller
from a2ad.outbound.connection import Connection
from a2ad.outbound.registry import OutboundRegistry
from a2ad.outbound.tools import ToolBox, keep_slot
from a2ad.store import OPERATOR

Fields: TypeAlias = dict[str, Any]
Result: TypeAlias = dict[str, Any]


class OutboundActions:
    """Each returns what goes beside `ok: true`, and raises `ActionFailed`. `session_tools` finds a session's tools."""

    def __init__(self, outbounds: OutboundRegistry, session_tools: Callable[[str], ToolBox]) -> None:
        self._outbounds = outbounds
        self._session_tools = session_tools
        self.by_name: dict[str, Callable[[Fields], Awaitable[Result]]] = {
            "outbound.create": self._create,
            "outbound.update": self._update,
            "outbound.remove": self._remove,
            "outbound.enable": self._enable,
            "outbound.disable": self._disable,
            "outbound.refresh": self._refresh,
            "outbound.setAuth": self._set_auth,
            "outbound.discover": self._discover,
        }

    async def _create(self, fields: Fields) -> Result:
        connection = await self._outbounds.create(fields)
        told = _done(connection, "created")
        if connection.card is not None:
            card = connection.card
            told += f': agent "{card.name}" at {card.endpoint}, skills: {len(card.skills)}'
        if [each.record.name for each in self._outbounds].count(connection.record.name) > 1:
            told += "; there is another connection of that name"
        return {"message": told, "id": connection.id}

    async def _update(self, fields: Fields) -> Result:
        outbound_id = fields.pop("id")
        if not fields:
            raise ActionFailed("there is nothing to update", {"id": ["comes without any field to change"]})
        return {"message": _done(await self._outbounds.update(outbound_id, fields), "updated"), "id": outbound_id}

    async def _enable(self, fields: Fields) -> Result:
        connection = await self._outbounds.update(fields["id"], {"enabled": True})
        return {"message": _done(connection, "enabled"), "id": connection.id}

    async def _disable(self, fields: Fields) -> Result:
        connection = await self._outbounds.update(fields["id"], {"enabled": False})
        return {"message": f'outbound connection "{connection.record.name}" disabled', "id": connection.id}

    async def _remove(self, fields: Fields) -> Result:
        connection = await self._outbounds.remove(fields["id"])
        return {"message": f'outbound connection "{connection.record.name}" removed', "id": connection.id}

    async def _refresh(self, fields: Fields) -> Result:
        connection = await self._outbounds.refresh(fields["id"])
        return {"message": _done(connection, "refreshed"), "id": connection.id}

    async def _set_auth(self, fields: Fields) -> Result:
        token = fields.get("token")
        connection = await self._outbounds.set_token(fields["id"], token)
        return {"message": _done(connection, "token set" if token else "token cleared"), "id": connection.id}

    async def _discover(self, fields: Fields) -> Result:
        fetched = await self._outbounds.discover(fields["agent_card_url"], fields.get("token"))
        return {"message": f'"{fetched.card.name}" found', "preview": fetched.card.preview()}

    async def call(self, fields: Fields, observer: Observer | None = None) -> Result:
        """`outbound.call`. Where it is cancelled, so is the remote's task."""
        connection = self._outbounds.need(fields["id"])
        skill = fields.get("skill") or None
        if skill is not None and connection.card is not None and skill not in {each.id for each in connection.skills}:
            known = ", ".join(each.id for each in connection.skills)
            what = f"must be one of: {known}" if known else "cannot be chosen: the agent has no skills"
            raise ActionFailed(f"skill {what}", {"skill": [what]})
        try:
            result = await self._tools(fields).call_skill(
                connection,
                skill,
                fields["text"],
                task_id=fields.get("task_id"),
                context_id=fields.get("context_id"),
                observer=observer,
            )
        except ToolError as error:
            raise ActionFailed(str(error)) from None
        row: Result = {"text": result.text, "state": result.state.value if result.state else None,
                       "contextId": result.context_id}  # fmt: skip
        if result.task_id is not None:
            row["taskId"] = result.task_id
        if result.failed:
            raise ActionFailed(result.reason or f"the remote task is {row['state']}", more=row)
        return {"message": f"the remote task is {row['state']}" if row["state"] else "answered with a message", **row}

    def _tools(self, fields: Fields) -> ToolBox:
        if "session" in fields:
            return self._session_tools(fields["session"])
        name = fields.get("caller")
        caller = Caller(f"mcp\0{name}", "mcp") if name else Caller(OPERATOR, OPERATOR)
        return ToolBox(self._outbounds, lambda: caller, lend=keep_slot, mcp_server={})


def _done(connection: Connection, what: str) -> str:
    """What was done, and what is wrong all the same."""
    told = f'outbound connection "{connection.record.name}" {what}'
    return f"{told}; but {connection.last_error}" if connection.last_error is not None else told


def outbound_row(connection: Connection, outbounds: OutboundRegistry) -> dict[str, Any]:
    """A connection in the snapshot; `tools` are the names of its skills' tools."""
    record = connection.record
    disabled = set(record.disabled_skills)
    row: dict[str, Any] = {
        "id": record.id,
        "name": record.name,
        "agentCardUrl": record.agent_card_url,
        "enabled": record.enabled,
        "timeoutMs": record.timeout_ms,
        "state": connection.state,
        "skillCount": len(connection.skills),
        "toolCount": sum(skill.id not in disabled for skill in connection.skills) if record.enabled else 0,
        "disabledSkills": list(record.disabled_skills),
        "skillOverrides": {skill: dict(override) for skill, override in record.skill_overrides.items()},
        "tokenOrigins": list(record.token_origins),
        "tokenSet": connection.token is not None,
        "createdAt": timestamp(record.created_at),
    }
    if record.preset:
        row["preset"] = record.preset
    if record.bearer_token_env:
        row["bearerTokenEnv"] = record.bearer_token_env
    if connection.last_error is not None:
        row["lastError"] = connection.last_error
    if connection.card is not None:
        row["card"] = connection.card.preview()
        row["tools"] = {skill.id: outbounds.tool_name(connection, skill.id) for skill in connection.skills}
    return row
