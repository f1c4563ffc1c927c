"""Where third-party plugins are found: the entry-point group `a2ad`, and `*.py` files in the plugins directories.

Nothing here imports a plugin: what is found carries the function that does.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, distributions
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn

from a2ad.plugins.registrations import RegistrationError

GROUP = "a2ad"


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin before it is imported. `load()` imports it and may raise whatever the plugin raises."""

    name: str
    version: str
    source: str
    load: Callable[[], object]


def entry_points(log: Any) -> Iterator[Found]:
    """The entry points of the group `a2ad`, by name. The first distribution of a name on `sys.path` counts."""
    found: dict[str, list[tuple[EntryPoint, str, str]]] = {}
    for distribution in distributions():
        # The metadata of any package at all may be damaged: `importlib.metadata.entry_points()` then gives up.
        try:
            name, version = distribution.name or "", distribution.version or ""
            ours = [point for point in distribution.entry_points if point.group == GROUP]
        except Exception as error:  # noqa: BLE001
            package = str(getattr(distribution, "_path", "?"))
            log.warning("package metadata cannot be read", package=package, error=repr(error))
            continue
        found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), [(point, name, version) for point in ours])
    for point, name, version in sorted((each for points in found.values() for each in points), key=_entry_name):
        yield Found(point.name, version, f"entry point {point.name} of {name}", point.load)


def directory(path: Path) -> Iterator[Found]:
    """The `*.py` files of a directory, by name, without those that begin with `_` or `.`.

    A directory that cannot be read is found as a plugin of its name that does not load.
    """
    try:
        files = sorted(file for file in path.iterdir() if file.suffix == ".py" and file.name[0] not in "_.")
    except OSError as error:
        yield Found(path.name, "", str(path), partial(_raise, error))
        return
    for file in files:
        yield Found(file.stem, "", str(file), partial(_import_file, file))


def unmarked_hooks(loaded: object, names: Collection[str] | None) -> list[str]:
    """The functions of a plugin that bear a hook's name, or (None) begin like one, and lack the mark."""
    functions = ((name, getattr(loaded, name)) for name in dir(loaded) if name.startswith("a2ad_"))
    return [
        name
        for name, function in functions
        if inspect.isroutine(function) and not _is_marked(function) and (names is None or name in names)
    ]


def where_hooks_are(loaded: object) -> str:
    """Where a plugin that has no hooks has to have them; names what holds some that are not seen there."""
    wanted = "a plugin has functions a2ad_… that are marked with @hookimpl"
    holders = (
        [
            name
            for name, value in vars(loaded).items()
            if any(_is_marked(getattr(value, each, None)) for each in dir(value) if each.startswith("a2ad_"))
        ]
        if inspect.ismodule(loaded)
        else []
    )
    return f"{wanted}: in this module itself, not in {', '.join(holders)}" if holders else wanted


def _is_marked(function: object) -> bool:
    return hasattr(function, "a2ad_impl")  # pluggy's


class _Source(SourceFileLoader):
    def path_stats(self, path: Any) -> NoReturn:
        # Without a modification time there is no bytecode cache: a plugins directory may be read-only, and a cache
        # is mistaken for a file that was edited twice in one second.
        raise OSError(path)


def _import_file(path: Path) -> object:
    base = name = "a2ad_plugin_" + re.sub(r"\W", "_", path.stem)
    number = 1
    while name in sys.modules:  # another directory has a file of this name
        number += 1
        name = f"{base}_{number}"
    spec = spec_from_file_location(name, path, loader=_Source(name, str(path)))
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _entry_name(each: tuple[EntryPoint, str, str]) -> tuple[str, str]:
    point, name, _ = each
    return point.name, name


def _raise(error: OSError) -> NoReturn:
    raise RegistrationError(f"the directory cannot be read: {error.strerror}")
