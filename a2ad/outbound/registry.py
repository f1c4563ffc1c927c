"""All connections to remote agents: what the operator makes and changes, kept in the store."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from a2ad.audit import Audit
from a2ad.credentials import is_token
from a2ad.errors import A2adError, ActionFailed, RemoteError, RemoteRefused, StoreUnavailable
from a2ad.figures import Figures
from a2ad.model import now_ms
from a2ad.outbound.card import FetchedCard, fetch_card
from a2ad.outbound.connection import Connection, usable_token
from a2ad.outbound.names import name_tools
from a2ad.outbound.net import Net, origin_of
from a2ad.outbound.text import MESSAGE, Mask, line
from a2ad.outbound.tokens import TokenFile
from a2ad.plugins import PluginHost
from a2ad.store import OutboundRecord, Store

#: connections, in all
MAX_CONNECTIONS = 1000
#: contexts and tasks of remotes that are remembered
MAX_REMEMBERED = 10_000
#: tools of a connection whose names are kept, those among them that its card has no more
MAX_NAMES = 2000
#: how long the tasks of calls that nobody waits for may take to be canceled at shutdown, in seconds
CLOSE_SECONDS = 2.0

log = structlog.get_logger()


class OutboundRegistry:
    """Every change is in the store before it takes effect."""

    def __init__(
        self, *, store: Store, host: PluginHost, audit: Audit, figures: Figures, net: Net, state_dir: Path
    ) -> None:
        self.host = host
        self.audit = audit
        self.figures = figures
        self.net = net
        self.state_dir = state_dir
        self._store = store
        self._tokens = TokenFile(state_dir)
        self._connections: dict[str, Connection] = {}
        self._changing = asyncio.Lock()
        self._jobs: set[asyncio.Task[None]] = set()
        #: (connection, caller) → the contextId that the remote gave it
        self._contexts: dict[tuple[str, str], str] = {}
        #: (connection, task that waits) → its caller and its contextId
        self._tasks: dict[tuple[str, str], tuple[str, str]] = {}

    async def load(self) -> None:
        """Read what is kept. Raises `StartupError`."""
        records = await self._store.outbounds()
        self._tokens.load({record.id for record in records})
        for record in records:
            self._put(record)

    def start(self) -> None:
        """Connect what is enabled, in the background."""
        for connection in self:
            if connection.record.enabled:
                connection.start()

    async def close(self) -> None:
        """End the calls; the tasks of those that were going on are canceled where that is quick."""
        calls: list[asyncio.Task[Any]] = []
        for connection in self:
            connection.stop()
            calls += connection.calls
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=CLOSE_SECONDS)
        jobs = [*self._jobs, *(job for connection in self for job in connection.abandoned)]
        if jobs:
            await asyncio.wait(jobs, timeout=CLOSE_SECONDS)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await self.net.close()

    def __iter__(self) -> Iterator[Connection]:
        """In the order in which they were made."""
        return iter(self._connections.values())

    def __len__(self) -> int:
        return len(self._connections)

    def need(self, connection_id: str) -> Connection:
        """The connection; raises `ActionFailed` where there is none."""
        connection = self._connections.get(connection_id)
        if connection is None:
            raise _wrong("id", f"{connection_id!r} is no outbound connection")
        return connection

    # what the operator does

    async def create(self, fields: Mapping[str, Any]) -> Connection:
        """`fields` as `outbound.create` has them, snake_case. Raises `ActionFailed`, and stores nothing then.

        The card is fetched first where the connection is to be enabled; but a variable that is not set is an error
        of the connection's own, which is kept.
        """
        fields = self._checked(fields)
        record = OutboundRecord(id=f"out-{secrets.token_hex(4)}-{secrets.token_hex(2)}", created_at=0, **fields)
        fetched = None
        if record.enabled:
            with suppress(RemoteRefused):  # of the variable: the connection says so itself
                token = usable_token(record, None)
                fetched = await self._fetch(record.agent_card_url, token)
        async with self._changing:
            if len(self) >= MAX_CONNECTIONS:
                raise ActionFailed(f"there are {MAX_CONNECTIONS} outbound connections already")
            newest = max((each.record.created_at for each in self), default=0)
            record = replace(record, created_at=max(now_ms(), newest + 1))
            if fetched is not None:
                skills = [skill.id for skill in fetched.card.skills]
                record = self._named(replace(record, card=fetched.body), skills)
            await self._store.save_outbound(record)
            connection = self._put(record)
        if fetched is not None:
            connection.accept(fetched)
        elif record.enabled:
            with suppress(RemoteError):
                await connection.fetch()  # it says what is missing, and nothing more
        if record.enabled:
            connection.start()
        return connection

    async def update(self, connection_id: str, fields: Mapping[str, Any]) -> Connection:
        """Change what is given. Raises `ActionFailed`."""
        async with self._changing:
            connection = self.need(connection_id)
            fields = self._checked(fields)
            if fields.get("name", connection.record.name) != connection.record.name:
                renamed = replace(connection.record, name=fields["name"], tool_names={})
                renamed = self._named(renamed, [skill.id for skill in connection.skills])
                fields["tool_names"] = renamed.tool_names
            record = replace(connection.record, **fields)
            await self._store.save_outbound(record)
            # a card may have come meanwhile
            connection.record = replace(connection.record, **fields)
            if record.enabled:
                connection.start()
                if "bearer_token_env" in fields:
                    connection.wake()
            else:
                connection.stop()
            return connection

    async def remove(self, connection_id: str) -> Connection:
        """Take it away; its calls are cancelled, and the remote's tasks with them."""
        async with self._changing:
            connection = self.need(connection_id)
            await self._store.delete_outbound(connection_id)
            del self._connections[connection_id]
            connection.record = replace(connection.record, enabled=False)
            connection.stop()
            for call in list(connection.calls):
                call.cancel()
            try:
                await asyncio.to_thread(self._tokens.set, connection_id, None)
            except StoreUnavailable as error:  # the next start forgets it
                log.warning("outbound.token_not_forgotten", id=connection_id, error=str(error))
            return connection

    async def set_token(self, connection_id: str, token: str | None) -> Connection:
        """Set the bearer token, or clear it. Raises `ActionFailed`."""
        if token and not is_token(token):
            raise _wrong("token", "must be visible ASCII characters, as an HTTP header can carry them")
        async with self._changing:
            connection = self.need(connection_id)
            await asyncio.to_thread(self._tokens.set, connection_id, token)
            connection.wake()
            return connection

    async def refresh(self, connection_id: str) -> Connection:
        """Fetch the card now. Raises `ActionFailed`."""
        connection = self.need(connection_id)
        if not connection.record.enabled:
            raise ActionFailed(f'outbound connection "{connection.record.name}" is disabled')
        try:
            await connection.fetch()
        except RemoteError:
            raise ActionFailed(connection.last_error or "the agent card could not be fetched") from None
        return connection

    async def discover(self, url: str, token: str | None) -> FetchedCard:
        """Fetch a card and connect to nothing. Raises `ActionFailed`."""
        if token and not is_token(token):
            raise _wrong("token", "must be visible ASCII characters, as an HTTP header can carry them")
        return await self._fetch(url, token)

    async def _fetch(self, url: str, token: str | None) -> FetchedCard:
        try:
            return await fetch_card(self.net, url, token=token)
        except RemoteError as error:
            text = line(str(error), MESSAGE, Mask([token or ""]))
            raise ActionFailed(text, {"agentCardUrl": [text]}) from None

    def _checked(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields, origins in one spelling. Raises `ActionFailed`."""
        checked = dict(fields)
        if "agent_card_url" in fields:
            _origin("agentCardUrl", fields["agent_card_url"])
        if "token_origins" in fields:
            origins = [_origin("tokenOrigins", url) for url in fields["token_origins"]]
            checked["token_origins"] = tuple(dict.fromkeys(origins))
        if fields.get("preset") and fields["preset"] not in self.host.presets:
            raise _wrong("preset", f"must be one of: {', '.join(self.host.presets)}")
        return checked

    def _put(self, record: OutboundRecord) -> Connection:
        connection = Connection(
            record, self.net, lambda: self._tokens.get(record.id), lambda: self._card_changed(record.id)
        )
        # a kept card may show a skill that had no name when it was kept: one whose id had the token in it
        connection.record = self._named(record, [skill.id for skill in connection.skills])
        self._connections[record.id] = connection
        return connection

    def _card_changed(self, connection_id: str) -> None:
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        record = self._named(connection.record, [skill.id for skill in connection.skills])
        record = record if connection.body == record.card else replace(record, card=connection.body)
        if record is not connection.record:
            connection.record = record
            job = asyncio.create_task(self._keep_card(connection_id))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    async def _keep_card(self, connection_id: str) -> None:
        async with self._changing:
            connection = self._connections.get(connection_id)
            try:
                if connection is not None:
                    await self._store.save_outbound(connection.record)
            except A2adError as error:
                log.warning("outbound.card_not_kept", id=connection_id, error=str(error))

    # what the tools are called, and where conversations are

    def tool_name(self, connection: Connection, skill_id: str) -> str:
        """Of a skill that the connection has, also where it is disabled now: so no other one gets its name."""
        return connection.record.tool_names[skill_id]

    def _named(self, record: OutboundRecord, skills: Iterable[str]) -> OutboundRecord:
        """The record with a name for each of these skills; those that have one keep it."""
        known = record.tool_names if len(record.tool_names) <= MAX_NAMES else {}
        new = [skill for skill in skills if skill not in known]
        if not new:
            return record
        taken = {name for each in self if each.id != record.id for name in each.record.tool_names.values()}
        taken |= set(known.values())
        names = name_tools(new, connection_id=record.id, connection=record.name, taken=taken)
        return replace(record, tool_names={**known, **names})

    def context_of(self, connection: Connection, key: str) -> str:
        """The contextId of a caller at a connection: the one that the remote gave it, else one that is always the same.

        `key` names the caller. It cannot be guessed from outside.
        """
        known = self._contexts.get((connection.id, key))
        if known is not None:
            return known
        digest = hmac.new(self._store.secret, f"context\0{connection.id}\0{key}".encode(), hashlib.sha256).digest()
        return str(UUID(bytes=digest[:16], version=5))

    def context_of_task(self, connection: Connection, task_id: str, key: str | None) -> str | None:
        """The contextId of a task that was called before, as far as it is remembered. Raises `RemoteRefused` for one of
        another caller; None as the `key` may have all.
        """
        owner, context_id = self._tasks.get((connection.id, task_id), (key, None))
        if key not in {None, owner}:
            raise RemoteRefused("no task of this conversation waits under that taskId")
        return context_id

    def remember(self, connection: Connection, key: str, context_id: str) -> None:
        """The contextId that a remote gave to a caller."""
        self._contexts.pop((connection.id, key), None)
        self._contexts[connection.id, key] = context_id
        if len(self._contexts) > MAX_REMEMBERED:
            del self._contexts[next(iter(self._contexts))]

    def remember_task(self, connection: Connection, task_id: str, key: str, context_id: str) -> None:
        """Who has a task of a remote, and its contextId."""
        self._tasks.pop((connection.id, task_id), None)
        self._tasks[connection.id, task_id] = (key, context_id)
        if len(self._tasks) > MAX_REMEMBERED:
            del self._tasks[next(iter(self._tasks))]


def _origin(field: str, url: str) -> str:
    try:
        return origin_of(url)
    except RemoteRefused as error:
        raise _wrong(field, str(error)) from None


def _wrong(field: str, text: str) -> ActionFailed:
    text = re.sub(r"\s+", " ", text)
    return ActionFailed(f"{field} {text}", {field: [text]})
