"""What comes with the daemon, registered through the very hooks that third parties use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a2ad.agents.echo import EchoAgent
from a2ad.agents.openai import OpenAIAgent
from a2ad.config import Config
from a2ad.errors import ConfigError
from a2ad.executors.pool import SessionPool
from a2ad.executors.session import SessionExecutor
from a2ad.executors.subagent import SubagentExecutor
from a2ad.hookspecs import hookimpl
from a2ad.plugins import PluginHost
from a2ad.plugins.host import BUILTIN


class Builtins:
    """The plugin `a2ad`. The pool of its executors gets its store once that is open."""

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool

    @hookimpl
    def a2ad_register_executors(self, register: Callable[..., None], config: Config) -> None:
        session = SessionExecutor(self._pool, config.state_dir)
        register("session", session, summary="A conversation with the preset's agent")
        # those that work, and as many that wait for an answer
        subagent = SubagentExecutor(self._pool, state_dir=config.state_dir, most=2 * config.limits.runs)
        register("subagent", subagent, summary="A session of the preset's agent for each task, and its steps")

    @hookimpl
    def a2ad_register_agents(self, register: Callable[..., None], config: Config) -> None:  # noqa: ARG002
        register("echo", EchoAgent, summary="Says the prompt again, word by word")
        register("openai", OpenAIAgent, summary="A model behind an endpoint for OpenAI's chat completions")


def load_plugins(config: Config, *, log: Any = None) -> tuple[PluginHost, SessionPool]:
    """The plugin host with everything loaded, the built-in plugin first; and the sessions of its executors."""
    host = PluginHost(config, log=log)
    pool = SessionPool(host=host, idle_seconds=config.limits.idle_session_seconds)
    host.load([(BUILTIN, Builtins(pool))])
    return host, pool


def check_store_scheme(config: Config, host: PluginHost) -> str:
    """The scheme of `store.url`; raises `ConfigError` where nobody brings a store for it."""
    scheme = config.store.url.partition(":")[0] or "sqlite"
    if scheme != "sqlite" and scheme not in host.stores:
        known = ", ".join(["sqlite", *host.stores])
        raise ConfigError([f"no plugin brings a store for the scheme {scheme!r} of store.url; known: {known}"])
    return scheme
