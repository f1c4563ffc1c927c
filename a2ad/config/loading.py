"""All sources, checked one by one and merged key by key, with what each value's origin is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from a2ad.config.presets import STANDARD_PRESET, flat_preset, make_preset
from a2ad.config.sections import FILE_TABLE, SECTIONS, Config
from a2ad.config.sources import DEFAULT, Source, find_files, from_environment, from_flags, read_file, state_directory
from a2ad.config.tables import check_table
from a2ad.errors import ConfigError

_NO_FLAGS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration, where each value came from, and the files that were read, in order.

    `origins` maps dotted keys (`limits.runs`, `state_dir`, `presets.<id>.agent`) to "default", the path of a file,
    "environment A2AD_LIMITS__RUNS" or "flag --listen".
    """

    config: Config
    origins: dict[str, str]
    files: tuple[Path, ...]


class _Merged:
    """What the sources so far say together."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        self.origins = {f"{name}.{key.name}": DEFAULT for name, section in SECTIONS.items() for key in fields(section)}
        self.presets: dict[str, tuple[dict[str, Any], str]] = {}

    def add(self, source: Source, table: dict[str, Any]) -> None:
        # a preset is named by its id: files add theirs to each other's, and a later one replaces its namesake
        for preset in table.pop("presets", []):
            self.presets[preset["id"]] = (preset, source.where)
        for section, values in table.items():
            for name, value in values.items():
                self._set(source, section, name, value)

    def _set(self, source: Source, section: str, name: str, value: Any) -> None:
        dotted = f"{section}.{name}"
        if isinstance(value, tuple):
            value = tuple(source.base / item if isinstance(item, Path) else item for item in value)
        if source.adds and (earlier := self.values[section].get(name)):
            self.values[section][name] = earlier + value
            self.origins[dotted] += f", {source.where}"
        else:
            self.values[section][name] = value
            self.origins[dotted] = source.where

    def config(self, state_dir: Path) -> Config:
        sections = {name: section(**self.values[name]) for name, section in SECTIONS.items()}
        presets = tuple(make_preset(table) for table, _ in self.presets.values())
        for preset in presets or (STANDARD_PRESET,):
            table, where = self.presets.get(preset.id, ({}, DEFAULT))
            said = dict(flat_preset(table))
            self.origins |= {
                f"presets.{preset.id}.{key}": where if key in said else DEFAULT
                for key, _ in flat_preset(asdict(preset))
            }
        return Config(state_dir=state_dir, presets=presets, **sections)


def load(
    config_file: Path | None = None, *, environ: Mapping[str, str], flags: Mapping[str, Any] = _NO_FLAGS
) -> Loaded:
    """Read everything that says something, in its order: files, environment, flags (by dotted key).

    Raises `ConfigError` with all problems of all sources, also of values that a later source replaces.
    """
    problems: list[str] = []
    files = find_files(config_file, environ, problems)
    read = [read_file(path, problems) for path in files]
    merged = _Merged()
    for source in (*filter(None, read), *from_environment(environ, problems), *from_flags(flags)):
        try:
            merged.add(source, check_table(FILE_TABLE(), source.table, source.where))
        except ConfigError as error:
            problems.extend(error.problems)
    state_dir, state_origin = state_directory(flags, environ, problems)
    config = merged.config(state_dir)
    merged.origins["state_dir"] = state_origin
    control = config.control_address()
    if control and control.port > 65535:
        problems.append(
            f"{merged.origins['server.listen']}: server.control_listen: expected HOST:PORT, because there is no port "
            f"after that of server.listen ({config.server.listen}) for the control API"
        )
    if problems:
        raise ConfigError(problems)
    return Loaded(config, merged.origins, tuple(files))
