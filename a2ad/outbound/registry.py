"""All connections to remote agents: what the operator makes and changes, kept in the store."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from a2ad.audit import Audit
from a2ad.credentials import is_token
from a2ad.errors import A2adError, ActionFailed, RemoteError, RemoteRefused
from a2ad.model import now_ms
from a2ad.outbound.card import FetchedCard, fetch_card
from a2ad.outbound.connection import Connection, usable_token
from a2ad.outbound.names import tool_names
from a2ad.outbound.net import Net, origin_of
from a2ad.outbound.text import MESSAGE, Mask, line
from a2ad.outbound.tokens import TokenFile
from a2ad.plugins import PluginHost
from a2ad.store import OutboundRecord, Store

#: connections, in all
MAX_CONNECTIONS = 1000
#: contexts and tasks of remotes that are remembered
MAX_REMEMBERED = 10_000
#: how long the tasks of calls that nobody waits for may take to be canceled at shutdown, in seconds
CLOSE_SECONDS = 2.0

log = structlog.get_logger()


class OutboundRegistry:
    """Every change is in the store before it takes effect."""

    def __init__(self, *, store: Store, host: PluginHost, audit: Audit, net: Net, state_dir: Path) -> None:
        self.host = host
        self.audit = audit
        self.net = net
        self.state_dir = state_dir
        self._store = store
        self._tokens = TokenFile(state_dir)
        self._connections: dict[str, Connection] = {}
        self._changing = asyncio.Lock()
        self._jobs: set[asyncio.Task[None]] = set()
        self._names: dict[tuple[str, str], str] | None = None
        #: (connection, task or caller) → the contextId that the remote gave it
        self._contexts: dict[tuple[str, str], str] = {}

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
            raise _wrong("id", f"there is no outbound connection {connection_id!r}")
        return connection

    # what the operator does

    async def create(self, fields: Mapping[str, Any]) -> Connection:
        """`fields` as `outbound.create` has them, snake_case. Raises `ActionFailed`, and stores nothing then.

        The card is fetched first where the connection is to be enabled; but a variable that is not set is an error
        of the connection's own, which is kept.
        """
        record = OutboundRecord(id=f"out-{secrets.token_hex(4)}-{secrets.token_hex(2)}", created_at=0, **fields)
        self._check(record)
        fetched = None
        if record.enabled:
            with suppress(RemoteRefused):  # of the variable: the connection says so itself
                token = usable_token(record, None)
                fetched = await self._fetch(record.agent_card_url, token)
        async with self._changing:
            if len(self) >= MAX_CONNECTIONS:
                raise ActionFailed(f"there are {MAX_CONNECTIONS} outbound connections already")
            # their order decides about the tools' names: it is that of a restart, too
            newest = max((each.record.created_at for each in self), default=0)
            record = replace(
                record, created_at=max(now_ms(), newest + 1), card=fetched.body if fetched is not None else None
            )
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
            record = replace(connection.record, **fields)
            self._check(record)
            await self._store.save_outbound(record)
            # a card may have come meanwhile
            connection.record = replace(connection.record, **fields)
            if record.enabled:
                connection.start()
                if "bearer_token_env" in fields:
                    connection.wake()
            else:
                connection.stop()
            self._changed()
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
            self._changed()
            await asyncio.to_thread(self._tokens.set, connection_id, None)
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

    def _check(self, record: OutboundRecord) -> None:
        for field, url in (
            ("agentCardUrl", record.agent_card_url),
            *(("tokenOrigins", o) for o in record.token_origins),
        ):
            try:
                origin_of(url)
            except RemoteRefused as error:
                raise _wrong(field, str(error)) from None
        if record.preset and record.preset not in self.host.presets:
            raise _wrong("preset", f"must be one of: {', '.join(self.host.presets)}")

    def _put(self, record: OutboundRecord) -> Connection:
        connection = Connection(
            record, self.net, lambda: self._tokens.get(record.id), lambda: self._card_changed(record.id)
        )
        self._connections[record.id] = connection
        self._changed()
        return connection

    def _card_changed(self, connection_id: str) -> None:
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        body = connection.body
        if body != connection.record.card:
            connection.record = replace(connection.record, card=body)
            job = asyncio.create_task(self._keep_card(connection_id))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
        self._changed()

    async def _keep_card(self, connection_id: str) -> None:
        async with self._changing:
            connection = self._connections.get(connection_id)
            try:
                if connection is not None:
                    await self._store.save_outbound(connection.record)
            except A2adError as error:
                log.warning("outbound.card_not_kept", id=connection_id, error=str(error))

    def _changed(self) -> None:
        self._names = None

    # what the tools are called, and where conversations are

    def tool_name(self, connection: Connection, skill_id: str) -> str:
        """Of a skill that the connection has, also where it is disabled now: so no other one gets its name."""
        if self._names is None:
            self._names = tool_names(
                (each.id, each.record.name, skill.id)
                for each in self
                for skill in sorted(each.skills, key=lambda skill: skill.id)
            )
        return self._names[connection.id, skill_id]

    def context_of(self, connection: Connection, key: str) -> str:
        """The contextId of a caller at a connection: the one that the remote gave it, else one that is always the same.

        `key` names the caller. It cannot be guessed from outside.
        """
        known = self._contexts.get((connection.id, key))
        if known is not None:
            return known
        digest = hmac.new(self._store.secret, f"context\0{connection.id}\0{key}".encode(), hashlib.sha256).digest()
        return str(UUID(bytes=digest[:16], version=5))

    def context_of_task(self, connection: Connection, task_id: str) -> str | None:
        """The contextId of a task that was called before, as far as it is remembered."""
        return self._contexts.get((connection.id, _task_key(task_id)))

    def remember(self, connection: Connection, key: str, context_id: str) -> None:
        """The contextId that a remote gave to a caller."""
        self._contexts.pop((connection.id, key), None)
        self._contexts[connection.id, key] = context_id
        if len(self._contexts) > MAX_REMEMBERED:
            del self._contexts[next(iter(self._contexts))]

    def remember_task(self, connection: Connection, task_id: str, context_id: str) -> None:
        """The contextId that a task of a remote has."""
        self.remember(connection, _task_key(task_id), context_id)


def _task_key(task_id: str) -> str:
    return f"task\0{task_id}"


def _wrong(field: str, text: str) -> ActionFailed:
    text = re.sub(r"\s+", " ", text)
    return ActionFailed(f"{field} {text}", {field: [text]})
