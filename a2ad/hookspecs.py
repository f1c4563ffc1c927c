"""Everything that can be extended, on one page.

A plugin is a module or an object with functions that bear these names and `@hookimpl`. It is found through the
entry-point group `a2ad`, or as a `*.py` file in a `--plugins-dir`. Implementations are called one by one: one that
raises is logged and the others still run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click

    from a2ad.config import Config

hookspec = pluggy.HookspecMarker("a2ad")
hookimpl = pluggy.HookimplMarker("a2ad")


@dataclass(frozen=True, slots=True)
class Deny:
    """A gate's veto; the reason becomes the status message of the REJECTED task."""

    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What `a2ad_inbound_task` decides about. `message` is the A2A message as a dict."""

    inbound_id: str
    task_id: str
    context_id: str
    skill: str
    message: dict[str, Any]
    text: str
    peer: str
    caller: str


@dataclass(frozen=True, slots=True)
class OutboundCall:
    """What `a2ad_outbound_call` decides about."""

    connection: str
    tool: str
    skill: str
    text: str
    caller: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: `name` is `task.state`, `inbound.changed`, `auth.failed` … (docs/plugins.md)."""

    name: str
    at: str  # RFC 3339, UTC
    data: Mapping[str, Any]


@hookspec
def a2ad_register_executors(register: Callable[..., None], config: Config) -> None:
    """Call `register(name, executor, summary="")` for each executor."""


@hookspec
def a2ad_register_agents(register: Callable[..., None], config: Config) -> None:
    """Call `register(kind, factory, summary="")`; `factory(preset)` returns an Agent."""


@hookspec
def a2ad_register_presets(register: Callable[..., None], config: Config) -> None:
    """Call `register(id, mapping)`, the mapping with the keys of a `[[presets]]` table."""


@hookspec
def a2ad_register_stores(register: Callable[..., None]) -> None:
    """Call `register(url_scheme, open_store)`; `await open_store(settings)` returns a Store."""


@hookspec
def a2ad_register_commands(cli: click.Group) -> None:
    """Add click commands to `a2ad`."""


@hookspec
def a2ad_agent_card(card: dict[str, Any], inbound: Any) -> None:
    """Change the draft of an agent card (its JSON as a dict) in place."""


@hookspec
def a2ad_inbound_task(decision: Decision) -> Deny | Awaitable[Deny | None] | None:
    """Decide before a task runs; sync or async. Any Deny wins; a gate that raises or takes too long denies."""


@hookspec
def a2ad_outbound_call(call: OutboundCall) -> Deny | Awaitable[Deny | None] | None:
    """Decide before a tool call leaves; sync or async, as `a2ad_inbound_task`."""


@hookspec
def a2ad_event(event: Event) -> None:
    """Hear what happened: task states, inbound and outbound changes, authentication failures, control actions."""


@hookspec
def a2ad_startup(daemon: Any) -> Awaitable[None] | None:
    """The daemon accepts connections from now on; sync or async."""


@hookspec
def a2ad_shutdown(daemon: Any) -> Awaitable[None] | None:
    """The daemon is about to stop; sync or async."""
