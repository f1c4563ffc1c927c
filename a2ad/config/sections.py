"""Every section and key of the configuration with its default and what is accepted: the one place for these.

A section is a frozen dataclass; a key's field stands beside its default, and the section's schema is made from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from marshmallow import Schema

from a2ad.config import keys
from a2ad.config.presets import PresetTable
from a2ad.config.tables import Table, Tables, nested
from a2ad.config.values import (
    LOOPBACK_NAMES,
    Address,
    parse_address,
    parse_base_url,
    parse_filled,
    parse_host,
    parse_listen,
    parse_path,
    parse_store_url,
    parse_web_url,
)
from a2ad.executor import Preset

T = TypeVar("T")

_ADDRESS = 'HOST:PORT with a port up to 65535, such as "127.0.0.1:3080" or "[::1]:3080"'
_WEB_URL = 'an absolute http or https URL, such as "https://agents.example.org"'


def _key(default: T, accepts: keys.Key[Any]) -> T:
    declared: T = dataclasses.field(default=default, metadata={"key": accepts})
    return declared


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the daemon listens and who it believes."""

    listen: str = _key("127.0.0.1:3080", keys.Text(_ADDRESS, parse_listen))
    control_listen: str = _key("", keys.Text(_ADDRESS, parse_listen, empty=True))
    #: without a slash at its end
    public_url: str = _key("", keys.Text(_WEB_URL, parse_base_url, empty=True))
    #: in lower case, IPv6 addresses without brackets
    allowed_hosts: tuple[str, ...] = _key((), keys.Items("host names without scheme and port", parse_host))
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = _key(
        (), keys.Items("IP addresses or networks", ip_network)
    )


@dataclass(frozen=True, slots=True)
class A2aConfig:
    """What A2A clients see."""

    default_inbound: str = _key("", keys.Text())
    provider_organization: str = _key("", keys.Text())
    provider_url: str = _key("", keys.Text(_WEB_URL, parse_web_url, empty=True))
    dialect: str = _key("reference", keys.Choice("reference", "a2a"))
    keepalive_seconds: float = _key(4, keys.Amount(positive=True))
    replay_frames: int = _key(200, keys.Whole(0))


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What one client, one task or all of them may take. What would stop all work at 0 starts at 1."""

    body_bytes: int = _key(10_485_760, keys.Whole(1))
    requests_per_minute: int = _key(1200, keys.Whole(0))
    rate_limit_loopback: bool = _key(default=False, accepts=keys.Flag())
    runs: int = _key(64, keys.Whole(1))
    runs_per_inbound: int = _key(16, keys.Whole(1))
    queued: int = _key(1000, keys.Whole(0))
    run_seconds: float = _key(3600, keys.Amount(positive=True))
    ask_seconds: float = _key(86400, keys.Amount(positive=True))
    asking: int = _key(1000, keys.Whole(1))
    subscribers_per_task: int = _key(1000, keys.Whole(1))
    attachments: int = _key(20, keys.Whole(0))
    attachment_bytes: int = _key(10_485_760, keys.Whole(0))
    task_bytes: int = _key(268_435_456, keys.Whole(1))
    cancel_grace_seconds: float = _key(5, keys.Amount())
    shutdown_seconds: float = _key(10, keys.Amount())
    gate_seconds: float = _key(5, keys.Amount(positive=True))
    stream_buffer_bytes: int = _key(4_194_304, keys.Whole(1))
    idle_session_seconds: float = _key(1800, keys.Amount())


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where tasks are kept, and for how long. `url` may hold a password."""

    url: str = _key("", keys.Text("a URL with a scheme", parse_store_url, empty=True, secret=True))
    synchronous: str = _key("normal", keys.Choice("normal", "full"))
    retention_days: float = _key(30, keys.Amount())


@dataclass(frozen=True, slots=True)
class PluginsConfig:
    """Where plugins are looked for, and which are left out. A path in a file is relative to that file."""

    dirs: tuple[Path, ...] = _key((), keys.Items("paths", parse_path))
    disabled: tuple[str, ...] = _key((), keys.Items("plugin names", parse_filled))


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How the daemon's log looks, and how much of it there is."""

    format: str = _key("text", keys.Choice("text", "json"))
    level: str = _key("info", keys.Choice("debug", "info", "warning", "error"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The effective configuration. `presets` is empty where none is configured: `STANDARD_PRESET` stands then."""

    server: ServerConfig = dataclasses.field(default_factory=ServerConfig)
    a2a: A2aConfig = dataclasses.field(default_factory=A2aConfig)
    limits: LimitsConfig = dataclasses.field(default_factory=LimitsConfig)
    store: StoreConfig = dataclasses.field(default_factory=StoreConfig)
    plugins: PluginsConfig = dataclasses.field(default_factory=PluginsConfig)
    presets: tuple[Preset, ...] = ()
    state_dir: Path
    log: LogConfig = dataclasses.field(default_factory=LogConfig)

    def listen_address(self) -> Address:
        """Where A2A clients connect."""
        return parse_address(self.server.listen)

    def control_address(self) -> Address | None:
        """Where the control API has a listener of its own, or None where it shares `listen`.

        A proxy on this machine that adds no headers cannot be told from a local caller: so behind a public URL or with
        trusted proxies the control API moves to 127.0.0.1 and the port after `listen`'s (design.md, "Configuration").
        """
        listen = self.listen_address()
        if self.server.control_listen:
            control = parse_address(self.server.control_listen)
            return None if control == listen and listen.port else control
        if not self.server.trusted_proxies and _is_loopback(self.server.public_url):
            return None
        return Address("127.0.0.1", listen.port + 1 if listen.port else 0)


def _is_loopback(public_url: str) -> bool:
    return not public_url or urlsplit(public_url).hostname in LOOPBACK_NAMES


#: the sections that are tables of keys, in the order in which they are shown
SECTIONS: Mapping[str, type[Any]] = {
    "server": ServerConfig,
    "a2a": A2aConfig,
    "limits": LimitsConfig,
    "store": StoreConfig,
    "plugins": PluginsConfig,
    "log": LogConfig,
}


def key_of(section: str, name: str) -> keys.Key[Any] | None:
    """What `section.name` accepts, or None where there is no such key."""
    for declared in dataclasses.fields(SECTIONS[section]) if section in SECTIONS else ():
        if declared.name == name:
            key: keys.Key[Any] = declared.metadata["key"]
            return key
    return None


class _File(Table):
    noun = "section"


def _table_of(section: type[Any]) -> type[Schema]:
    return Table.from_dict({key.name: key.metadata["key"] for key in dataclasses.fields(section)})


#: a whole file
FILE_TABLE = _File.from_dict(
    {
        **{name: nested(_table_of(section)) for name, section in SECTIONS.items()},
        "presets": Tables(PresetTable),
    }
)
