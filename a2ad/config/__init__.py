"""The configuration: TOML files, then `A2AD_SECTION__KEY` from the environment, then flags.

`sections` has every key with its default and what is accepted; `sources` finds and reads; `loading` checks each source,
merges them and remembers where a value came from; `view` shows the result without its secrets.
"""

from a2ad.config.loading import Loaded, load
from a2ad.config.presets import STANDARD_PRESET, parse_preset
from a2ad.config.sections import (
    A2aConfig,
    Config,
    LimitsConfig,
    LogConfig,
    PluginsConfig,
    ServerConfig,
    StoreConfig,
)
from a2ad.config.sources import FLAGS
from a2ad.config.values import Address, parse_address
from a2ad.config.view import flatten

__all__ = [
    "FLAGS",
    "STANDARD_PRESET",
    "A2aConfig",
    "Address",
    "Config",
    "LimitsConfig",
    "Loaded",
    "LogConfig",
    "PluginsConfig",
    "ServerConfig",
    "StoreConfig",
    "flatten",
    "load",
    "parse_address",
    "parse_preset",
]
