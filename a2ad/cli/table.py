"""Rows and fields as lines of text: as wide as the terminal at most, whatever a plugin or a remote agent says."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unicodedata import category, east_asian_width

import click

from a2ad.cli.terminal import has_colours, style_of

_GAP = 2  # columns of the terminal between those of the table
#: a column is not cut below this: rather what is weaker goes
_LEAST = 8
_LEAST_OF = {"name": 24, "state": 16}
#: what somebody copies is whole, or not there
_WHOLE = frozenset({"id", "context", "task", "inbound", "tool"})


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], *, weakest: Sequence[str] = ()) -> list[str]:
    """Rows below the names of the columns. Where stdout is a terminal, what does not fit is cut, with an ellipsis, and
    what cannot be cut is left out: columns that have nothing but dashes, then those of `weakest` in this order, then
    the last ones. The first column stays. Elsewhere each column is as wide as its widest cell. The lines are safe, and
    coloured where stdout has colours.
    """
    limit = terminal_width()
    told = {column: [column, *(cell(row.get(column)) for row in rows)] for column in columns}
    widths = {column: max(map(width, cells)) for column, cells in told.items()}
    if limit is not None:
        widths = _fitted(_kept(told, widths, weakest, limit), limit)
    columns, sizes = list(widths), list(widths.values())
    lines = list(zip(*(told[column] for column in columns), strict=True))
    shown = [_line(line, sizes, limit) for line in lines]
    if not has_colours(sys.stdout):
        return [line.rstrip() for line in shown]
    painted = shown[1:]
    if "state" in columns:
        at = columns.index("state")
        before = sum(each + _GAP for each in sizes[:at])
        painted = [_painted(line, row[at], before, sizes[at]) for line, row in zip(shown[1:], lines[1:], strict=True)]
    return [click.style(shown[0].rstrip(), bold=True), *(line.rstrip() for line in painted)]


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


def _kept(
    told: Mapping[str, Sequence[str]], widths: Mapping[str, int], weakest: Sequence[str], limit: int
) -> dict[str, int]:
    """The columns that stay, with their widths: the others leave until what is least of each fits."""
    kept = dict(widths)
    others = list(told)[1:]
    empty = [column for column in others if len(told[column]) > 1 and set(told[column][1:]) == {"-"}]
    strong = [column for column in others if column not in weakest]
    for column in dict.fromkeys([*empty, *weakest, *reversed(strong)]):
        if _taken(kept.values()) <= limit if column in empty else _taken(map(_least, kept, kept.values())) <= limit:
            continue
        kept.pop(column, None)
    return kept


def _taken(sizes: Iterable[int]) -> int:
    """By columns of such widths, in columns of the terminal."""
    return sum(size + _GAP for size in sizes) - _GAP


def _least(column: str, size: int) -> int:
    return size if column in _WHOLE else min(size, _LEAST_OF.get(column, _LEAST))


def _fitted(widths: Mapping[str, int], limit: int) -> dict[str, int]:
    """The widths, of the widest one that can be cut one less until the table fits."""
    fitted = {column: min(size, limit) for column, size in widths.items()}
    while _taken(fitted.values()) > limit:
        can = [column for column, size in fitted.items() if size > _least(column, size)]
        if not can:
            break
        fitted[max(can, key=fitted.__getitem__)] -= 1
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
