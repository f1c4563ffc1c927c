"""The plugin host: `discovery` finds plugins, `host` loads them, `registrations` is what they register, and `hooks` is
how their hooks are called.

A plugin never takes the daemon down: one that does not load is recorded and left out entirely, and what a hook raises
later is logged.
"""

from a2ad.plugins.host import PluginHost, PluginInfo
from a2ad.plugins.registrations import Registered

__all__ = ["PluginHost", "PluginInfo", "Registered"]
