"""What the operator sees: the rows of the snapshot (reference 1.1; shapes in `protocol.md` 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from a2ad import __version__
from a2ad.config import Config
from a2ad.engine import Engine, TaskView
from a2ad.engine.artifacts import stored_view
from a2ad.engine.questions import question_of
from a2ad.engine.timeline import Delivery, Step, read_timeline
from a2ad.executor import prompt_text
from a2ad.executors.pool import LiveSession, SessionPool
from a2ad.inbound import Inbound, InboundRegistry
from a2ad.model import INTERRUPTED, TaskState, timestamp
from a2ad.outbound.registry import OutboundRegistry
from a2ad.outbound.text import MESSAGE, NAME, line, shortened
from a2ad.outbound.tools import list_tools
from a2ad.plugins import PluginHost
from a2ad.store import TaskQuery
from a2ad.web.outbound import outbound_row
from a2ad.web.peers import Peers

SUMMARY_LENGTH = 200
#: tasks that wait for an answer, of each kind, in the snapshot
MOST_QUESTIONS = 50
#: of a question's options, and of the tool call that it is about, in bytes
MOST_BYTES = 1 << 14


class Snapshots:
    """Reads everything, changes nothing."""

    def __init__(
        self,
        config: Config,
        *,
        engine: Engine,
        inbounds: InboundRegistry,
        host: PluginHost,
        outbounds: OutboundRegistry,
        pool: SessionPool,
        peers: Peers,
    ) -> None:
        self._config = config
        self._engine = engine
        self._inbounds = inbounds
        self._host = host
        self._outbounds = outbounds
        self._pool = pool
        self._peers = peers

    async def snapshot(self, query: Mapping[str, Any], base_url: str) -> dict[str, Any]:
        state = query.get("task_state")
        page = await self._engine.store.tasks(
            TaskQuery(
                inbound_id=query.get("task_server_id", ""),
                context_id=query.get("task_context_id"),
                state=TaskState(state) if state else None,
                limit=query["task_limit"],
                offset=query["task_offset"],
                history="first",
            )
        )
        return {
            "inbounds": [inbound_row(inbound, base_url) for inbound in self._inbounds],
            "outbounds": [outbound_row(connection, self._outbounds) for connection in self._outbounds],
            "tasks": [task_row(stored_view(task)) for task in page.tasks],
            "peers": [peer.to_json() for peer in self._peers],
            "sessions": [session_row(live) for live in self._pool],
            "taskTotal": page.total,
            "plugins": [plugin.to_json() for plugin in self._host.plugins],
            "health": self._health(),
            "attention": [*self._attention(), *await self._questions()],
        }

    def _health(self) -> dict[str, Any]:
        store = self._engine.store.health
        health: dict[str, Any] = {"status": "ok" if store.error is None else "degraded", "version": __version__}
        health["store"] = {"ok": store.error is None}
        if store.error is not None:
            health["store"] |= {"error": store.error, "since": timestamp(store.since or 0)}
        if self._engine.stopping:
            health["status"] = "stopping"
        return health

    def _attention(self) -> list[dict[str, str]]:
        wrong = [
            {"kind": "inbound", "id": inbound.id, "message": inbound.error}
            for inbound in self._inbounds
            if inbound.error is not None
        ]
        wrong += [
            {"kind": "outbound", "id": connection.id, "message": connection.last_error}
            for connection in self._outbounds
            if connection.state == "error" and connection.last_error is not None
        ]
        wrong += [
            {"kind": "plugin", "id": plugin.name, "message": plugin.error or ""}
            for plugin in self._host.plugins
            if plugin.state == "failed"
        ]
        return wrong

    async def _questions(self) -> list[dict[str, Any]]:
        """The newest of the tasks that wait for somebody."""
        waiting = []
        for state in sorted(INTERRUPTED):
            query = TaskQuery(state=state, limit=MOST_QUESTIONS, history="first")
            for stored in (await self._engine.store.tasks(query)).tasks:
                asked = _bounded(question_of(stored.row))
                question = line(asked["question"], MESSAGE)
                message = line(question, NAME) or "waits for an answer"
                identity = {"kind": "question", "id": stored.row.id, "taskId": stored.row.id, "message": message}
                about = {"serverId": stored.row.inbound_id, "summary": task_row(stored_view(stored))["summary"]}
                waiting.append({**identity, **about, **asked, "question": question})
        return waiting

    def presets(self) -> list[dict[str, Any]]:
        default = self._host.default_preset().id
        return [
            {"id": preset.id, "name": preset.name, "description": preset.description, "isDefault": preset.id == default}
            for preset in self._host.presets.values()
        ]

    def tools(self) -> list[dict[str, Any]]:
        """The outbound tools that agents have now."""
        return list_tools(self._outbounds)

    async def task(self, task_id: str) -> dict[str, Any]:
        """One task with its timeline, artifacts, history and metadata. Raises `TaskNotFound`."""
        timeline = await read_timeline(self._engine, task_id)
        view = timeline.view
        artifacts = [orjson.loads(artifact) for artifact in view.artifacts]
        names = {artifact["artifactId"]: artifact["name"] for artifact in artifacts if "name" in artifact}
        created = {"kind": "created", "at": timestamp(view.row.created_at)}
        return {
            **task_row(view),
            "startedAt": timeline.started_at,
            "endedAt": timeline.ended_at,
            "timeline": [created, *(_step(step, names) for step in timeline.steps)],
            "status": orjson.loads(view.row.status),
            "artifacts": artifacts,
            "history": [orjson.loads(message) for message in view.history],
            "metadata": orjson.loads(view.row.metadata) if view.row.metadata is not None else {},
            **({"question": question_of(view.row)} if view.row.state.interrupted else {}),
        }

    def session(self, context_id: str, inbound_id: str | None) -> dict[str, Any] | None:
        live = self._pool.of_context(context_id, inbound_id)
        return session_row(live[0]) if live else None


def _bounded(asked: dict[str, Any]) -> dict[str, Any]:
    """A question whose options and tool are no larger than everybody's snapshot should carry."""
    return {name: value for name, value in asked.items() if name == "question" or len(orjson.dumps(value)) < MOST_BYTES}


def inbound_row(inbound: Inbound, base_url: str) -> dict[str, Any]:
    record = inbound.record
    row: dict[str, Any] = {
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "version": record.version,
        "endpointPath": record.endpoint_path,
        "preset": record.preset,
        "cardPath": f"{record.endpoint_path}/agent-card.json",
        "cardUrl": base_url + record.endpoint_path,
        "enabled": record.enabled,
        "skills": [
            {"id": skill.id, "name": skill.name, "description": skill.description} for skill in inbound.skills.values()
        ],
        "tokenSet": record.token_hash is not None or inbound.has_env_token,
    }
    if record.auth_token_env:
        row["authTokenEnv"] = record.auth_token_env
    if inbound.error is not None:
        row["error"] = inbound.error
    return row


def task_row(view: TaskView) -> dict[str, Any]:
    task = view.row
    row: dict[str, Any] = {
        "id": task.id,
        "contextId": task.context_id,
        "serverId": task.inbound_id,
        "skill": task.skill,
        "executor": task.executor,
        "state": task.state.value,
        "createdAt": timestamp(task.created_at),
        "updatedAt": timestamp(task.updated_at),
        "summary": _text_of(view.history[0])[:SUMMARY_LENGTH] if view.history else "",
    }
    if task.state in {TaskState.FAILED, TaskState.REJECTED}:
        message = orjson.loads(task.status).get("message")
        row["error"] = prompt_text(message["parts"]) if message else task.state.value
    return row


def _step(step: Step | Delivery, names: Mapping[str, str]) -> dict[str, Any]:
    """An entry of a task's timeline; `names` are its artifacts', where they have one."""
    if isinstance(step, Delivery):
        known = {"name": shortened(names[step.artifact_id], NAME)} if step.artifact_id in names else {}
        times = {"at": step.at, "until": step.until}
        return {"kind": "artifact", "artifactId": step.artifact_id, **known, **times, "pieces": step.pieces}
    status = step.status
    row: dict[str, Any] = {"kind": "status", "frame": step.frame, "at": step.at, "state": status["state"]}
    if "message" in status:
        row["message"] = shortened(prompt_text(status["message"]["parts"]), MESSAGE)
    return row


def _text_of(message: bytes) -> str:
    """Of a stored message; one that cannot be read must not hide all the other tasks."""
    try:
        return prompt_text(orjson.loads(message)["parts"])
    except (ValueError, LookupError, TypeError):
        return "(what is stored of this task cannot be read)"


def session_row(live: LiveSession) -> dict[str, Any]:
    record = live.record
    row: dict[str, Any] = {
        "contextId": record.context_id,
        "serverId": record.inbound_id,
        "preset": record.preset,
        "agent": live.agent_kind,
        "state": "busy" if live.busy else "idle",
        "turns": record.turns,
        "createdAt": timestamp(record.created_at),
        "lastActiveAt": timestamp(record.last_active_at),
    }
    if live.task_id is not None:
        row["taskId"] = live.task_id
    return row
