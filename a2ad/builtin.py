"""What comes with the daemon, registered through the very hooks that third parties use."""

from __future__ import annotations

from collections.abc import Callable

from a2ad.agents.echo import EchoAgent
from a2ad.config import Config
from a2ad.executor import Preset
from a2ad.executors.pool import SessionPool
from a2ad.executors.session import SessionExecutor
from a2ad.hookspecs import hookimpl


class Builtins:
    """The plugin `a2ad`. The session executor gets its pool once the store is open."""

    def __init__(self, executor: SessionExecutor) -> None:
        self._executor = executor

    @hookimpl
    def a2ad_register_executors(self, register: Callable[..., None], config: Config) -> None:  # noqa: ARG002
        register("session", self._executor, summary="A conversation with the preset's agent")

    @hookimpl
    def a2ad_register_agents(self, register: Callable[..., None], config: Config) -> None:  # noqa: ARG002
        register("echo", _echo, summary="Says the prompt again, word by word")


def _echo(preset: Preset) -> EchoAgent:  # noqa: ARG001 - the factory's signature is pinned
    return EchoAgent()


def builtins(pool: SessionPool) -> list[tuple[str, object]]:
    """Names and plugins, for `PluginHost.load`."""
    return [("a2ad", Builtins(SessionExecutor(pool)))]
