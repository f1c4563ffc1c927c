"""The plugins that the daemon would load, for the commands that look at them and for those that they add."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from a2ad.config import Config
    from a2ad.plugins import PluginHost


def load_quietly(config: Config) -> PluginHost:
    """What the daemon would load. Its rows say what failed; and nothing that a plugin prints gets into the output."""
    from a2ad.builtin import load_plugins
    from a2ad.errors import ConfigError

    with redirect_stdout(sys.stderr):
        host, _ = load_plugins(config, log=quiet_log())
        with suppress(ConfigError):  # a configured preset's: `a2ad config check` says so
            host.check_presets()
    return host


@cache
def register_plugin_commands(group: click.Group) -> None:
    """Let the plugins of the effective configuration add their commands to the group, once.

    Never fails and says nothing: `a2ad --help` must work where a plugin or the configuration is broken. What is built
    in adds none, so without further plugins nothing is loaded.
    """
    if not _may_have_plugins():
        return
    from a2ad.config import load
    from a2ad.errors import ConfigError
    from a2ad.plugins import PluginHost

    try:
        config = load(environ=os.environ).config
    except (ConfigError, OSError):
        return
    with redirect_stdout(sys.stderr):
        host = PluginHost(config, log=quiet_log())
        host.load([])
        host.register_commands(group)


def quiet_log() -> Any:
    """A log that says nothing: what failed is told by other means."""
    import structlog

    return structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _may_have_plugins() -> bool:
    """Whether something is configured, or a package is installed that brings a plugin: quick to tell."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    configured = any(name.startswith("A2AD_") and "__" in name for name in os.environ)
    return configured or any(Path(place, "a2ad").is_dir() for place in ("/etc", home)) or _installed()


def _installed() -> bool:
    from importlib.metadata import distributions

    for distribution in distributions():
        try:
            if any(point.group == "a2ad" for point in distribution.entry_points):
                return True
        except Exception:  # noqa: BLE001, S112 - the metadata of any package at all may be damaged
            continue
    return False
