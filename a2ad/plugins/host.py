"""Loads plugins, one by one and each entirely or not at all, and keeps what they registered."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal

import pluggy
import structlog

from a2ad import __version__, hookspecs
from a2ad.agent import Agent, PresetError
from a2ad.config import STANDARD_PRESET, Config
from a2ad.errors import ConfigError, error_text
from a2ad.executor import Executor, Preset
from a2ad.plugins import discovery
from a2ad.plugins.discovery import Found
from a2ad.plugins.hooks import HOOKS, Hooks, discard, invoke
from a2ad.plugins.registrations import Draft, Registered, RegistrationError, Registrations

#: the plugin that comes with the daemon
BUILTIN = "a2ad"


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """What the operator is told about a plugin. `source` is `builtin`, `entry point NAME of DIST`, or a path."""

    name: str
    version: str
    source: str
    state: Literal["loaded", "failed", "disabled"]
    error: str | None = None

    def to_json(self) -> dict[str, str]:
        """A row of `plugins` in the snapshot (`protocol.md` 7)."""
        row = {"name": self.name, "version": self.version, "source": self.source, "state": self.state}
        return row if self.error is None else {**row, "error": self.error}


@dataclass(slots=True)
class _Plugin:
    info: PluginInfo
    key: str  # pluggy's name for it: `info.name` may occur twice
    registered: Draft


class PluginHost(Hooks):
    """All plugins of one daemon, or of one run of the command line.

    `executors`, `agents`, `presets` and `stores` are what is registered, by name; they change in `load()` and
    `check_presets()` alone. `log` is where failures are told; structlog's logger by default.
    """

    def __init__(self, config: Config, *, log: Any = None) -> None:
        super().__init__(config.limits.gate_seconds, structlog.get_logger() if log is None else log)
        self._config = config
        self._manager = pluggy.PluginManager("a2ad")
        self._manager.add_hookspecs(hookspecs)
        self._plugins: list[_Plugin] = []
        self._registered = Registrations()
        self.executors = self._registered.executors
        self.agents = self._registered.agents
        self.presets = self._registered.presets
        self.stores = self._registered.stores
        self.presets.update((preset.id, preset) for preset in config.presets or (STANDARD_PRESET,))
        self._made: dict[str, Agent] = {}
        self._closed = False

    def load(self, builtins: Sequence[tuple[str, object]]) -> None:
        """Load the built-in plugins `(name, object)`, then those that are installed, then those in the directories.

        Never raises on account of a plugin: see `plugins` for what became of each.
        """
        for name, plugin in builtins:
            self._load(Found(name, __version__, "builtin", partial(_same, plugin)))
        for found in discovery.entry_points(self._log):
            self._load(found)
        for path in dict.fromkeys(self._config.plugins.dirs):
            for found in discovery.directory(path):
                self._load(found)
        for name in sorted(set(self._config.plugins.disabled) - {plugin.info.name for plugin in self._plugins}):
            self._log.warning("plugins.disabled names a plugin that is not there", plugin=name)
        self._collect()

    @property
    def plugins(self) -> list[PluginInfo]:
        """Every plugin that was found, in the order of loading."""
        return [plugin.info for plugin in self._plugins]

    def check_presets(self) -> None:
        """Check that the executors and agents of all presets exist and take their options, once everything is loaded.

        A plugin fails whose preset is wrong. `ConfigError` where it is a configured preset.
        """
        failing = True
        while failing:  # a plugin that fails may take away what another one's preset needs
            failing = False
            for plugin in self._plugins:
                if plugin.info.state != "loaded":
                    continue
                if problems := self._preset_problems(plugin.registered.presets):
                    self._registered.remove(plugin.registered)
                    self._fail(plugin, RegistrationError("; ".join(problems)))
                    failing = True
        self._collect()
        if problems := self._preset_problems(self.presets):
            raise ConfigError(problems)

    def agent(self, preset: Preset) -> Agent:
        """The preset's agent, made once. Raises what its factory raises."""
        made = self._made.get(preset.id)
        if made is None:
            made = self._made[preset.id] = self.agents[preset.agent].value(preset)
        return made

    def made_agents(self) -> list[Agent]:
        return list(self._made.values())

    def plugin_of(self, executor: str, preset: Preset) -> str:
        """The plugin whose code runs a task: for an executor that is built in, it is that of the preset's agent."""
        plugin = self.executors[executor].plugin
        return plugin if plugin != BUILTIN else self.agents[preset.agent].plugin

    def default_preset(self) -> Preset:
        """The preset that is marked as the default, else the first."""
        presets = list(self.presets.values())
        return next((preset for preset in presets if preset.default), presets[0])

    async def close(self) -> None:
        """Close every executor, once, and stop the hooks that still run. Takes `gate_seconds` at most."""
        if self._closed:
            return
        self._closed = True
        for task in self._running:
            task.cancel()
        if self.has_observers:
            await asyncio.to_thread(self.drain, self._gate_seconds)
        executors = {id(each.value): (name, each) for name, each in self.executors.items()}
        await asyncio.gather(*(self._close(name, each) for name, each in executors.values()))

    async def _close(self, name: str, registered: Registered[Executor]) -> None:
        async def close() -> None:
            try:
                await registered.value.close()
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - as every other call into a plugin
                self._failed("executor failed to close", registered.plugin, executor=name, exc_info=error)

        task = await self._bounded(close())
        if not task.done():
            self._failed("executor did not close in time", registered.plugin, executor=name)

    def _load(self, found: Found) -> None:
        info = PluginInfo(found.name, found.version, found.source, "loaded")
        plugin = _Plugin(info, f"{found.name} {len(self._plugins)}", Draft(found.name, self._registered))
        self._plugins.append(plugin)
        if found.name in self._config.plugins.disabled:
            plugin.info = replace(info, state="disabled")
            return
        try:
            with self._watched(plugin, "import"):
                loaded = found.load()
                if inspect.isclass(loaded):
                    loaded = loaded()
            self._admit(plugin, loaded)
        except BaseException as error:  # noqa: BLE001 - in any way: sys.exit(), and a Ctrl-C that it raises itself
            self._fail(plugin, error)

    def _admit(self, plugin: _Plugin, loaded: object) -> None:
        version = getattr(loaded, "__version__", "")
        if not plugin.info.version and isinstance(version, str):
            plugin.info = replace(plugin.info, version=version)
        self._manager.register(loaded, plugin.key)
        implemented = {
            caller.name: [impl for impl in caller.get_hookimpls() if impl.plugin_name == plugin.key]
            for caller in self._manager.get_hookcallers(loaded) or ()
        }
        if unmarked := discovery.unmarked_hooks(loaded, None if not implemented else HOOKS):
            raise RegistrationError(f"not marked with @hookimpl: {', '.join(unmarked)}")
        if not implemented:
            raise RegistrationError(f"implements no hook; {discovery.where_hooks_are(loaded)}")
        for hook, impls in implemented.items():
            if hook not in HOOKS and not all(impl.optionalhook for impl in impls):
                similar = get_close_matches(hook, HOOKS, 1)
                raise RegistrationError(f"unknown hook {hook}" + (f", is it {similar[0]}?" if similar else ""))
            if any(impl.wrapper or impl.hookwrapper for impl in impls):
                raise RegistrationError(f"{hook} is a hook wrapper; a2ad calls plain implementations alone")
        draft = plugin.registered
        for hook, register in (
            ("a2ad_register_executors", draft.executor),
            ("a2ad_register_agents", draft.agent),
            ("a2ad_register_presets", draft.preset),
            ("a2ad_register_stores", draft.store),
        ):
            for impl in implemented.get(hook, ()):
                with self._watched(plugin, hook):
                    result = invoke(impl, {"register": register, "config": self._config})
                if inspect.isawaitable(result):
                    discard(result)
                    raise RegistrationError(f"{hook} must not be async")
        draft.close()
        self._registered.add(draft)

    def _fail(self, plugin: _Plugin, error: BaseException) -> None:
        plugin.registered.close()
        if self._manager.has_plugin(plugin.key):
            self._manager.unregister(name=plugin.key)
        plain = isinstance(error, RegistrationError | pluggy.PluginValidationError)
        text = str(error) if plain else f"{type(error).__name__}: {error_text(error)}"
        plugin.info = replace(plugin.info, state="failed", error=text)
        self._failed(
            "plugin failed and is left out",
            plugin.info.name,
            source=plugin.info.source,
            error=text,
            exc_info=None if plain else error,
        )

    def _preset_problems(self, presets: Mapping[str, Preset]) -> list[str]:
        problems = []
        for preset in presets.values():
            if preset.agent not in self.agents:
                problems.append(f"preset {preset.id!r}: unknown agent {preset.agent!r}; known: {_names(self.agents)}")
            else:
                problems += self._option_problems(preset)
            problems += [
                f"preset {preset.id!r}, skill {skill.id!r}: unknown executor {skill.executor!r}; "
                f"known: {_names(self.executors)}"
                for skill in preset.skills
                if skill.executor not in self.executors
            ]
        return problems

    def _option_problems(self, preset: Preset) -> list[str]:
        try:
            self.agent(preset)
        except PresetError as error:
            return [f"preset {preset.id!r}: {error}"]
        except Exception as error:  # noqa: BLE001 - its tasks will fail, and nobody else's
            self._log.warning("the preset's agent cannot be made", preset=preset.id, error=error_text(error))
        return []

    @contextmanager
    def _watched(self, plugin: _Plugin, stage: str) -> Iterator[None]:
        # What hangs at start-up cannot be stopped, but it can be named while it hangs.
        arguments = {"plugin": plugin.info.name, "stage": stage}
        timer = threading.Timer(
            self._config.limits.gate_seconds, self._log.warning, ("plugin is slow to load",), arguments
        )
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _collect(self) -> None:
        # pluggy keeps them in the reverse of the order in which it calls them
        implementations = {hook: getattr(self._manager.hook, hook).get_hookimpls()[::-1] for hook in HOOKS}
        self._set_implementations(implementations, {plugin.key: plugin.info.name for plugin in self._plugins})


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _same(plugin: object) -> object:
    return plugin
