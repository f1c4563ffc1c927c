"""Where the configuration comes from: the files, the environment and the flags, each as a table of its own."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2ad.config.keys import shown
from a2ad.config.sections import SECTIONS, key_of
from a2ad.config.values import parse_path

SYSTEM_FILE = Path("/etc/a2ad/a2ad.toml")

#: command line option → the key that it sets
FLAGS: Mapping[str, str] = {
    "--listen": "server.listen",
    "--plugins-dir": "plugins.dirs",
    "--log-format": "log.format",
    "--log-level": "log.level",
    "--state-dir": "state_dir",
}

#: the origin of what nobody set
DEFAULT = "default"

_PREFIX = "A2AD_"


@dataclass(frozen=True, slots=True)
class Source:
    """One table and how errors and `a2ad config` name it. Relative paths in it start at `base`."""

    where: str
    table: Mapping[str, Any]
    base: Path = Path()
    adds: bool = False  # its arrays add to those of earlier sources instead of replacing them


def find_files(config_file: Path | None, environ: Mapping[str, str], problems: list[str]) -> list[Path]:
    """The files to read, in order: the one that was named, or the first place that has any, and its `conf.d/*.toml`.

    What cannot be looked at is added to `problems`.
    """
    if config_file is not None:
        return [config_file, *_drop_ins(config_file, problems)]
    home = xdg_directory(environ, "XDG_CONFIG_HOME", ".config")
    for place in (SYSTEM_FILE, home / "a2ad/a2ad.toml" if home else None):
        if place is None:
            continue
        found = [*([place] if os.path.lexists(place) else []), *_drop_ins(place, problems)]
        if found:
            return found
    return []


def _drop_ins(config_file: Path, problems: list[str]) -> list[Path]:
    directory = config_file.parent / "conf.d"
    try:
        found = sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.append(f"{directory}: cannot be read: {error.strerror}")
        return []
    # an editor's own files begin with a dot
    return [path for path in found if path.suffix == ".toml" and not path.name.startswith(".")]


def read_file(path: Path, problems: list[str]) -> Source | None:
    """A TOML file, or None and a sentence in `problems`."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problems.append(f"{path}: not valid TOML: not UTF-8 (at line {line})")
        return None
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # tomllib gives no number where the text ends too early
        end = f"at line {len(text.splitlines()) or 1}, the end"
        problems.append(f"{path}: not valid TOML: {str(error).replace('at end of document', end)}")
        return None
    return Source(str(path), table, base=path.parent.absolute())


def from_environment(environ: Mapping[str, str], problems: list[str]) -> Iterator[Source]:
    """A source for each `A2AD_SECTION__KEY`; names without `__` are no configuration."""
    for variable in sorted(environ):
        section, separator, name = variable.removeprefix(_PREFIX).lower().partition("__")
        if not variable.startswith(_PREFIX) or not separator:
            continue
        where = f"environment {variable}"
        if section not in SECTIONS:
            problems.append(f"{where}: {section}.{name}: unknown section; expected one of {', '.join(SECTIONS)}")
            continue
        key = key_of(section, name)
        text = environ[variable]
        yield Source(where, {section: {name: key.from_text(text) if key else text}})


def from_flags(flags: Mapping[str, Any]) -> Iterator[Source]:
    """A source for each flag that was given: None and empty lists were not. `state_dir` is no key of the file."""
    options = {key: option for option, key in FLAGS.items()}
    for dotted, value in flags.items():
        given = [os.fspath(item) for item in value] if isinstance(value, list | tuple) else value
        if given in (None, []) or dotted == "state_dir":
            continue
        section, _, name = dotted.partition(".")
        where = f"flag {options.get(dotted, '--' + dotted.replace('.', '-'))}"
        yield Source(where, {section: {name: given} if name else given}, adds=dotted == "plugins.dirs")


def state_directory(flags: Mapping[str, Any], environ: Mapping[str, str], problems: list[str]) -> tuple[Path, str]:
    """Where the daemon's own files are, absolute, and where that was said."""
    if given := flags.get("state_dir"):
        try:
            return parse_path(os.fspath(given)).absolute(), "flag --state-dir"
        except ValueError:
            problems.append(f"flag --state-dir: state_dir: expected a directory, not {shown(str(given))}")
            return Path(), DEFAULT
    # systemd lists all of a unit's state directories here (systemd.exec(5), RuntimeDirectory=)
    if given := environ.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(given).absolute(), "environment STATE_DIRECTORY"
    home = xdg_directory(environ, "XDG_STATE_HOME", ".local/state")
    if home is None:
        problems.append("flag --state-dir: state_dir: there is no home directory; expected a directory to be named")
        return Path(), DEFAULT
    said = environ.get("XDG_STATE_HOME") == str(home)
    return home / "a2ad", "environment XDG_STATE_HOME" if said else DEFAULT


def xdg_directory(environ: Mapping[str, str], variable: str, fallback: str) -> Path | None:
    """A base directory; a relative one is ignored (XDG Base Directory Specification 0.8). None without a home."""
    given = Path(environ.get(variable, ""))
    if given.is_absolute():
        return given
    try:
        return Path(environ.get("HOME") or Path.home()) / fallback
    except RuntimeError:
        return None
