"""The agent card of an inbound (reference 2.7; A2A 1.0.1, 4.4.1)."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import orjson

from a2ad.config import Config
from a2ad.inbound import Inbound
from a2ad.plugins import PluginHost

PROTOCOL_VERSION = "1.0"
ORGANIZATION = "a2ad"


class Card(NamedTuple):
    """`etag` comes from the content."""

    body: bytes
    etag: str


async def build_card(inbound: Inbound, base_url: str, config: Config, host: PluginHost) -> Card:
    """`base_url` is scheme and host as clients see them, and perhaps a path before the endpoint's, without a slash at
    the end.
    """
    record = inbound.record
    card: dict[str, Any] = {
        "name": record.name,
        "description": record.description,
        "version": record.version,
        "provider": {
            "organization": config.a2a.provider_organization or ORGANIZATION,
            "url": config.a2a.provider_url or config.server.public_url or base_url,
        },
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [
            {"id": skill.id, "name": skill.name, "description": skill.description, "tags": list(skill.tags)}
            for skill in inbound.skills.values()
        ],
        "supportedInterfaces": [
            {
                "url": base_url + record.endpoint_path,
                "protocolBinding": "JSONRPC",
                "protocolVersion": PROTOCOL_VERSION,
            }
        ],
    }
    if config.a2a.dialect == "reference":
        # gone from the specification, which clients forgive (`protocol.md` 1)
        card["capabilities"]["stateTransitionHistory"] = False
    if inbound.protected:
        card["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    body = orjson.dumps(await host.agent_card(card, inbound))
    return Card(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
