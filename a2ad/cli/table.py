"""Rows and fields as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows below the names of the columns, each column as wide as its widest cell."""
    return aligned([list(columns), *([row.get(column) for column in columns] for row in rows)])


def aligned(rows: Sequence[Sequence[object]]) -> list[str]:
    """Rows of as many cells each, in columns."""
    cells = [[cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def cell(value: object) -> str:
    """One line of printable characters, whatever a plugin or a remote agent says; `-` for nothing."""
    text = " ".join(str(value if value is not None else "").split())
    return "".join(each if each.isprintable() else "?" for each in text) or "-"
