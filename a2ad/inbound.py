"""The published agents: what the operator creates, kept in the store, found by id and by path."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from a2ad.config.values import CONTROL_PATH, PANEL_PATH
from a2ad.credentials import is_token, read_secret
from a2ad.errors import ActionFailed
from a2ad.executor import Preset, Skill
from a2ad.model import now_ms
from a2ad.plugins import PluginHost
from a2ad.store import ANONYMOUS, TOKEN, InboundRecord, Store

RESERVED = (CONTROL_PATH, PANEL_PATH, "/.well-known")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_SALT = 16


class Inbound:
    """A published agent and what it takes to serve it. With `error` it is not served, and says why."""

    def __init__(self, record: InboundRecord, preset: Preset | None) -> None:
        self.record = record
        self._preset = preset
        #: by id, in the order in which the preset declares them
        self.skills: Mapping[str, Skill] = {skill.id: skill for skill in preset.skills} if preset is not None else {}
        self._env_token: str | None = None
        self.error: str | None = None
        if preset is None:
            self.error = f"the preset {record.preset!r} is not there"
        elif record.auth_token_env and record.token_hash is None:
            self._env_token = read_secret(record.auth_token_env)
            if not self._env_token:
                self.error = f"the variable {record.auth_token_env} is not set: the agent is not served without it"
            elif not is_token(self._env_token):
                self.error = f"the variable {record.auth_token_env} holds no token that an HTTP header can carry"

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def preset(self) -> Preset:
        assert self._preset is not None
        return self._preset

    @property
    def served(self) -> bool:
        return self.record.enabled and self.error is None

    @property
    def protected(self) -> bool:
        """Whether a token is needed. It never falls open: a variable that is named counts, set or not."""
        return self.record.token_hash is not None or bool(self.record.auth_token_env)

    @property
    def has_env_token(self) -> bool:
        return bool(self._env_token)

    def authenticate(self, authorization: str | None) -> str | None:
        """The caller's name, or None where the `Authorization` header is not what it takes."""
        if not self.protected:
            return ANONYMOUS
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not is_token(token):
            return None
        if self.record.token_hash is not None:
            salt = self.record.token_hash[:_SALT]
            known = hmac.compare_digest(hash_token(token, salt), self.record.token_hash)
        else:
            known = bool(self._env_token) and hmac.compare_digest(token, self._env_token or "")
        return TOKEN if known else None


class InboundRegistry:
    """All inbounds. Every change is in the store before it takes effect."""

    def __init__(self, store: Store, host: PluginHost, default_inbound: str) -> None:
        self._store = store
        self._host = host
        self._default = default_inbound
        self._inbounds: dict[str, Inbound] = {}
        self._by_path: dict[str, Inbound] = {}
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        for record in await self._store.inbounds():
            self._put(record)

    def __iter__(self) -> Iterator[Inbound]:
        return iter(self._inbounds.values())

    def __len__(self) -> int:
        return len(self._inbounds)

    def get(self, inbound_id: str) -> Inbound | None:
        return self._inbounds.get(inbound_id)

    def target(self, inbound_id: str) -> Inbound | None:
        """What the engine runs a task for: it need not be served, but its preset has to be there."""
        inbound = self._inbounds.get(inbound_id)
        return inbound if inbound is not None and inbound.skills else None

    def at(self, path: str) -> Inbound | None:
        """The inbound that is served at this path."""
        return self._by_path.get(path)

    def default(self) -> Inbound | None:
        """The one whose card stands at the origin (`protocol.md` 6)."""
        if self._default:
            inbound = self._inbounds.get(self._default)
            return inbound if inbound is not None and inbound.served else None
        served = [inbound for inbound in self._inbounds.values() if inbound.served]
        return served[0] if len(served) == 1 else None

    async def create(self, fields: Mapping[str, Any]) -> Inbound:
        """`fields` as `inbound.create` has them, snake_case. Raises `ActionFailed`."""
        inbound_id = f"{_slug(fields['name'])}-{secrets.token_hex(4)}"
        record = InboundRecord(
            id=fields.get("id", inbound_id),
            name=fields["name"],
            description=fields["description"],
            version=fields["version"],
            endpoint_path=fields.get("endpoint_path") or f"/a2a/{fields.get('id', inbound_id)}",
            preset=fields.get("preset") or self._host.default_preset().id,
            created_at=now_ms(),
            auth_token_env=fields.get("auth_token_env", ""),
            enabled=fields.get("enabled", True),
        )
        async with self._changing:
            return await self._save(record)

    async def update(self, inbound_id: str, fields: Mapping[str, Any]) -> Inbound:
        """Change what is given. Raises `ActionFailed`."""
        async with self._changing:
            return await self._save(replace(self.need(inbound_id).record, **fields))

    async def set_token(self, inbound_id: str, token: str | None) -> Inbound:
        """Set the bearer token, or clear it. Only a salted hash of it is kept. Raises `ActionFailed`."""
        self.need(inbound_id)
        if token and not is_token(token):
            raise _wrong("token", "must be visible ASCII characters, as an HTTP header can carry them")
        token_hash = hash_token(token, secrets.token_bytes(_SALT)) if token else None
        return await self.update(inbound_id, {"token_hash": token_hash})

    async def remove(self, inbound_id: str) -> None:
        """Take it away. Its tasks are the caller's business."""
        async with self._changing:
            inbound = self.need(inbound_id)
            await self._store.delete_inbound(inbound_id)
            del self._inbounds[inbound_id]
            self._by_path.pop(inbound.record.endpoint_path, None)

    def need(self, inbound_id: str) -> Inbound:
        """The inbound; raises `ActionFailed` where there is none."""
        inbound = self._inbounds.get(inbound_id)
        if inbound is None:
            raise _wrong("id", f"there is no inbound server {inbound_id!r}")
        return inbound

    async def _save(self, record: InboundRecord) -> Inbound:
        self._check(record)
        await self._store.save_inbound(record)
        return self._put(record)

    def _put(self, record: InboundRecord) -> Inbound:
        former = self._inbounds.get(record.id)
        if former is not None:
            self._by_path.pop(former.record.endpoint_path, None)
        inbound = self._inbounds[record.id] = Inbound(record, self._host.presets.get(record.preset))
        if inbound.served:
            self._by_path[record.endpoint_path] = inbound
        return inbound

    def _check(self, record: InboundRecord) -> None:
        path = record.endpoint_path
        segments = path.split("/")
        if not _PATH.fullmatch(path) or {".", ".."} & set(segments):
            raise _wrong("endpointPath", "must be an absolute path of letters, digits and . _ ~ -")
        if any(path == taken or path.startswith(f"{taken}/") for taken in RESERVED):
            raise _wrong("endpointPath", "is one of the daemon's own paths")
        if segments[-1] == "agent-card.json":
            raise _wrong("endpointPath", "must not end in agent-card.json, which is where cards are")
        others = (inbound for inbound in self._inbounds.values() if inbound.id != record.id)
        if any(other.record.endpoint_path == path for other in others):
            raise _wrong("endpointPath", "is taken by another inbound server")
        if record.preset not in self._host.presets:
            raise _wrong("preset", f"must be one of: {', '.join(self._host.presets)}")


def hash_token(token: str, salt: bytes) -> bytes:
    """The salt, and behind it the hash. Tokens are random: a slow hash would only slow down the daemon."""
    return salt + hashlib.blake2b(token.encode(), salt=salt, digest_size=32).digest()


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].rstrip("-") or "inbound"


def _wrong(field: str, text: str) -> ActionFailed:
    return ActionFailed(f"{field} {text}", {field: [text]})
