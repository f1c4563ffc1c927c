"""Rows and fields as lines of text: as wide as the terminal at most, whatever a plugin or a remote agent says."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import category, east_asian_width

import click

from a2ad.cli.terminal import has_colours, style_of

_GAP = 2  # columns of the terminal between those of the table
#: a column is not cut below this, where another one can be
_LEAST = 8
#: what somebody copies is cut last
_WHOLE = frozenset({"id", "context"})


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows below the names of the columns. Where stdout is a terminal, what does not fit is cut, with an ellipsis;
    elsewhere each column is as wide as its widest cell. The lines are safe, and coloured where stdout has colours.
    """
    cells = [list(columns), *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    limit = terminal_width()
    if limit is not None:
        widths = _fitted(widths, limit, [column in _WHOLE for column in columns])
    lines = [_line(row, widths, limit) for row in cells]
    if not has_colours(sys.stdout):
        return [line.rstrip() for line in lines]
    painted = lines[1:]
    if "state" in columns:
        at = columns.index("state")
        before = sum(each + _GAP for each in widths[:at])
        painted = [_painted(line, row[at], before, widths[at]) for line, row in zip(lines[1:], cells[1:], strict=True)]
    return [click.style(lines[0].rstrip(), bold=True), *(line.rstrip() for line in painted)]


def aligned(rows: Sequence[tuple[str, object]]) -> list[str]:
    """Names and values, the values below each other and whole."""
    cells = [(cell(name), cell(value)) for name, value in rows]
    widest = max((width(name) for name, _ in cells), default=0)
    return [f"{_padded(name, widest)}  {value}".rstrip() for name, value in cells]


def cell(value: object) -> str:
    """One line of printable characters, whatever a plugin or a remote agent says; `-` for nothing."""
    text = " ".join(str(value if value is not None else "").split())
    return "".join(each if each.isprintable() else "?" for each in text) or "-"


def terminal_width() -> int | None:
    """How wide the terminal is, in columns; None where stdout is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def width(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut(text: str, limit: int) -> str:
    """A printable text that takes so many columns at most."""
    if width(text) <= limit:
        return text
    taken, kept = 0, []
    for each in text:
        taken += _columns(each)
        if taken >= limit:
            break
        kept.append(each)
    return "".join(kept) + "…" if limit > 0 else ""


def _columns(character: str) -> int:
    if category(character) in {"Mn", "Me", "Cf"} or "\u1160" <= character <= "\u11ff":
        return 0  # it joins the one before; so do the vowels and finals of Korean
    return 2 if east_asian_width(character) in {"W", "F"} else 1


def _fitted(widths: Sequence[int], limit: int, whole: Sequence[bool]) -> list[int]:
    """The widths, of the widest one less until the table fits; what is to stay whole comes last."""
    fitted = [min(each, limit) for each in widths]
    room = limit - _GAP * (len(fitted) - 1)
    for kept in (False, True):
        can = [at for at, stays in enumerate(whole) if kept or not stays]
        while sum(fitted) > room and can:
            widest = max(can, key=fitted.__getitem__)
            if fitted[widest] <= _LEAST:
                break
            fitted[widest] -= 1
    return fitted


def _line(row: Sequence[str], widths: Sequence[int], limit: int | None) -> str:
    text = (" " * _GAP).join(_padded(cut(each, size), size) for each, size in zip(row, widths, strict=True))
    return text if limit is None else cut(text.rstrip(), limit)


def _padded(text: str, size: int) -> str:
    return text + " " * (size - width(text))


def _painted(line: str, state: str, before: int, size: int) -> str:
    """The line with the colour of its state, which is behind so many columns and takes so many at most."""
    begin, shown = _index(line, before), cut(state, size)
    if not style_of(state) or not line.startswith(shown, begin):  # or the terminal ends before it
        return line
    return f"{line[:begin]}{click.style(shown, **style_of(state))}{line[begin + len(shown) :]}"


def _index(line: str, column: int) -> int:
    """Where a column of the terminal is in a line."""
    taken = 0
    for at, each in enumerate(line):
        if taken >= column:
            return at
        taken += _columns(each)
    return len(line)
