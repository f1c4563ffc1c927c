"""What plugins register: executors, agents, presets, stores; checked when it is registered."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from a2ad.agent import Agent
from a2ad.config import parse_preset
from a2ad.errors import ConfigError
from a2ad.executor import Executor, Preset

T = TypeVar("T")

AgentFactory: TypeAlias = Callable[[Preset], Agent]
OpenStore: TypeAlias = Callable[[Any], Awaitable[Any]]


class RegistrationError(ValueError):
    """A plugin registers what cannot be used; the text is for its author."""


@dataclass(frozen=True, slots=True)
class Registered(Generic[T]):
    """A value under its name in a table, with the name of the plugin that it came from."""

    value: T
    summary: str
    plugin: str


class Registrations:
    """The four tables: by executor name, agent kind, preset id, URL scheme."""

    def __init__(self) -> None:
        self.executors: dict[str, Registered[Executor]] = {}
        self.agents: dict[str, Registered[AgentFactory]] = {}
        self.presets: dict[str, Preset] = {}
        self.stores: dict[str, OpenStore] = {}

    def tables(self) -> tuple[dict[str, Any], ...]:
        return self.executors, self.agents, self.presets, self.stores

    def add(self, other: Registrations) -> None:
        for table, added in zip(self.tables(), other.tables(), strict=True):
            table.update(added)

    def remove(self, other: Registrations) -> None:
        for table, removed in zip(self.tables(), other.tables(), strict=True):
            for name in removed:
                del table[name]


class Draft(Registrations):
    """What one plugin registers, until it is known that all of it is right. Its methods are the hooks' `register`."""

    def __init__(self, plugin: str, taken: Registrations) -> None:
        super().__init__()
        self._plugin = plugin
        self._taken = taken
        self._closed = False

    def close(self) -> None:
        """From now on `register` raises: start-up is over."""
        self._closed = True

    def executor(self, name: str, executor: Executor, summary: str = "") -> None:
        self._check("executor", name, self.executors, self._taken.executors)
        if not isinstance(executor, Executor):
            raise RegistrationError(f"executor {name!r} must be an instance of Executor, not {_what(executor)}")
        self.executors[name] = Registered(executor, summary, self._plugin)

    def agent(self, kind: str, factory: AgentFactory, summary: str = "") -> None:
        self._check("agent kind", kind, self.agents, self._taken.agents)
        if not callable(factory):
            raise RegistrationError(f"agent {kind!r} needs a factory that can be called, not {_what(factory)}")
        self.agents[kind] = Registered(factory, summary, self._plugin)

    def preset(self, id: str, mapping: Mapping[str, Any]) -> None:  # noqa: A002 - the name is the plugin author's API
        self._check("preset", id, self.presets, self._taken.presets)
        if not isinstance(mapping, Mapping):
            raise RegistrationError(f"preset {id!r} must be a mapping, not {_what(mapping)}")
        try:
            self.presets[id] = parse_preset({**mapping, "id": id}, f"preset {id!r} of plugin {self._plugin}")
        except ConfigError as error:
            raise RegistrationError(str(error)) from error

    def store(self, url_scheme: str, open_store: OpenStore) -> None:
        self._check("store scheme", url_scheme, self.stores, self._taken.stores)
        if not callable(open_store):
            raise RegistrationError(f"store {url_scheme!r} needs a function that opens it, not {_what(open_store)}")
        self.stores[url_scheme] = open_store

    def _check(self, kind: str, name: object, *tables: Mapping[str, Any]) -> None:
        if self._closed:
            raise RegistrationError(f"{kind} {_what(name)}: register() works at start-up only")
        if not isinstance(name, str) or not name:
            raise RegistrationError(f"the name of an {kind} must be a string that is not empty, not {_what(name)}")
        if any(name in table for table in tables):
            raise RegistrationError(f"{kind} {name!r} is registered already")


def _what(value: object) -> str:
    return f"the class {value.__name__}" if inspect.isclass(value) else reprlib.repr(value)
