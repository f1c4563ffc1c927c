"""A call of a remote agent's skill: for whom, within which bounds, and what it comes to (reference 3)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from a2ad.errors import RemoteAway, RemoteError, RemoteInvalid, RemoteRefused
from a2ad.hookspecs import OutboundCall
from a2ad.outbound.answer import Answer, Observer, Said, Stated, text_of
from a2ad.outbound.client import Endpoint, Remote
from a2ad.outbound.connection import Connection
from a2ad.outbound.contract import CallResult, new_message
from a2ad.outbound.files import keep_file
from a2ad.outbound.registry import OutboundRegistry
from a2ad.outbound.telling import tell
from a2ad.outbound.text import MESSAGE, Masks, StreamMask, line
from a2ad.store import OPERATOR

#: how many daemons a call may have come through, itself included
MAX_DEPTH = 8
#: calls of one connection at the same time, those that are being canceled among them
MAX_CALLS = 256
#: what the figures call a call that came to nothing
_OUTCOMES = ((RemoteRefused, "refused"), (RemoteAway, "away"), (RemoteError, "invalid"))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `key` is one conversation with each connection; `name` is for the policy hooks; `depth`, how many
    daemons the call came through until here.
    """

    key: str
    name: str
    depth: int = 0


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
    outcome = "dropped"
    try:
        result = await _call_skill(
            registry, connection, skill_id, text, caller=caller, task_id=task_id, context_id=context_id,
            observer=observer,
        )  # fmt: skip
        outcome = "message" if result.state is None else result.state.word
        return result
    except RemoteError as error:
        outcome = next(word for kind, word in _OUTCOMES if isinstance(error, kind))
        raise
    finally:
        registry.figures.outbound_calls.add(outcome)


async def _call_skill(
    registry: OutboundRegistry,
    connection: Connection,
    skill_id: str | None,
    text: str,
    *,
    caller: Caller,
    task_id: str | None,
    context_id: str | None,
    observer: Observer | None,
) -> CallResult:
    if caller.depth >= MAX_DEPTH:
        raise RemoteRefused(f"agents have called agents {MAX_DEPTH} times in a row: the chain ends here")
    skill_id = _chosen(connection, skill_id)
    own_context = context_id is None and task_id is None
    if task_id is not None:
        remembered = registry.context_of_task(connection, task_id, None if caller.key == OPERATOR else caller.key)
        context_id = context_id or remembered
    elif context_id is None:
        context_id = registry.context_of(connection, caller.key)
    call = _Call(registry, connection, caller, observer)
    message = new_message(text, skill=skill_id, depth=caller.depth + 1, contextId=context_id, taskId=task_id)
    answer = await call.answered(message, skill_id, text)
    if answer.context_id is not None and answer.context_id != context_id:
        context_id = answer.context_id
        if own_context:
            registry.remember(connection, caller.key, context_id)
    context_id = context_id or ""
    if answer.task_id is not None and answer.asks:
        registry.remember_task(connection, answer.task_id, caller.key, context_id)
    masks = call.masks
    told = partial(tell, answer, partial(keep_file, registry.state_dir), masks)
    said = await asyncio.to_thread(told) if answer.has_files else told()
    reason = line(text_of(answer.status_parts), MESSAGE, masks.of_status(answer.state))
    if answer.failed and not reason:  # what it said stands for it
        said = masks.errors(said)
    return CallResult(said, answer.state, answer.task_id, context_id, reason)


def _chosen(connection: Connection, skill_id: str | None) -> str | None:
    """The skill that is meant; a disabled one is not, also where the remote would choose it itself."""
    disabled = connection.record.disabled_skills
    known = [skill.id for skill in connection.skills]
    if skill_id is None and any(each in disabled for each in known):
        skill_id = next((each for each in known if each not in disabled), None)
        if skill_id is None:
            raise RemoteRefused("all skills of this connection are disabled")
    if skill_id in disabled:
        raise RemoteRefused(f"the skill {line(skill_id, MESSAGE)!r} is disabled")
    return skill_id


class _Call:
    """One of a connection's calls: it ends with the connection."""

    def __init__(
        self, registry: OutboundRegistry, connection: Connection, caller: Caller, observer: Observer | None
    ) -> None:
        self._token = ""
        self._registry = registry
        self._connection = connection
        self._caller = caller
        self._observer = observer

    @property
    def masks(self) -> Masks:
        """The token may have become another one during the call; the remote knows that of the call, too."""
        return Masks([self._token, self._connection.token or ""])

    async def answered(self, message: dict[str, Any], skill_id: str | None, text: str) -> Answer:
        """The answer. Raises `RemoteError`, also where the connection is taken away meanwhile."""
        connection = self._connection
        if len(connection.calls) + len(connection.abandoned) >= MAX_CALLS:
            raise RemoteRefused(f"{MAX_CALLS} calls to {connection.record.name!r} are going on already")
        work = asyncio.create_task(self._allowed(message, skill_id, text))
        connection.calls.add(work)
        work.add_done_callback(connection.calls.discard)
        try:
            return await work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if work.cancelled() and task is not None and not task.cancelling():
                raise RemoteRefused(f"the connection {connection.record.name!r} was taken away meanwhile") from None
            raise

    async def _allowed(self, message: dict[str, Any], skill_id: str | None, text: str) -> Answer:
        await self._ask_policy(skill_id, text)
        try:
            return await self._send(message)
        except RemoteError as error:
            raise type(error)(line(str(error), MESSAGE, self.masks.errors)) from None

    async def _ask_policy(self, skill_id: str | None, text: str) -> None:
        host, connection = self._registry.host, self._connection
        if not host.has_outbound_gates:
            return
        named = skill_id is not None and skill_id in {skill.id for skill in connection.skills}
        tool = self._registry.tool_name(connection, skill_id or "") if named else ""
        denial = await host.outbound_call(
            OutboundCall(connection.record.name, tool, skill_id or "", text, self._caller.name)
        )
        self._registry.audit.record(
            "policy.decision",
            {"outboundId": connection.id, "skill": skill_id or "", "caller": self._caller.name,
             "decision": "allow" if denial is None else "deny", "reason": denial.reason if denial else None},
        )  # fmt: skip
        if denial is not None:
            raise RemoteRefused(f"denied by policy: {denial.reason}")

    async def _send(self, message: dict[str, Any]) -> Answer:
        connection = self._connection
        endpoint = await connection.endpoint()
        self._token = endpoint.token or ""
        remote = Remote(self._registry.net, endpoint, connection.abandon)
        masked = _Masked(self._observer, self.masks) if self._observer is not None else None
        try:
            answer = await remote.call(
                message,
                patience=connection.record.timeout_ms / 1000,
                observer=masked.observe if masked is not None else None,
            )
        except RemoteError as error:
            raise self._explained(error, endpoint) from None
        if masked is not None:
            masked.end()
        mask = self.masks.errors
        if any(mask.hides(each) for each in (answer.task_id, answer.context_id) if each is not None):
            raise RemoteInvalid("the agent gives the token back as an id")
        return answer

    def _explained(self, error: RemoteError, endpoint: Endpoint) -> RemoteError:
        connection = self._connection
        if not isinstance(error, RemoteRefused) or error.status in {404, 410}:
            connection.suspect()
        if isinstance(error, RemoteRefused) and error.status == 401 and connection.token and not endpoint.token:
            hint = "the token is not sent to this origin, which is not that of the card: see tokenOrigins"
            return RemoteRefused(f"{error}; {hint}")
        return error


class _Masked:
    """Passes on what is observed, without the token: the end of a text waits where a token may have begun."""

    def __init__(self, observer: Observer, masks: Masks) -> None:
        self._observer = observer
        self._masks = masks
        self._said = StreamMask(masks.answers)

    def observe(self, update: Said | Stated) -> None:
        if isinstance(update, Said):
            self._say(self._said.feed(update.text))
        else:
            if update.state.terminal or update.state.interrupted:
                self.end()
            self._observer(Stated(update.state, self._masks.of_status(update.state)(update.text)))

    def end(self) -> None:
        self._say(self._said.end())

    def _say(self, text: str) -> None:
        if text:
            self._observer(Said(text))
