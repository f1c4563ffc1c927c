"""Reasoning that a server leaves in the text: models mark it with `<think>` at the beginning of an answer."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"
#: blanks before an answer, at most: behind more of them nothing is looked for
MOST_BLANKS = 1000


class ThoughtFilter:
    """Takes it out of a text that comes in pieces. What never closes was all reasoning."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False
        self._closed = False
        self._passing = False

    def feed(self, piece: str) -> str:
        """What belongs to the answer for certain."""
        if self._passing:
            return piece
        self._held += piece
        if not self._inside and not self._closed:
            begun = self._held.lstrip()
            if OPEN.startswith(begun) and len(self._held) <= MOST_BLANKS:
                return ""
            if not begun.startswith(OPEN):
                self._passing = True
                return self._held
            self._inside, self._held = True, begun[len(OPEN) :]
        if self._inside:
            _, close, rest = self._held.partition(CLOSE)
            if not close:
                self._held = self._held[1 - len(CLOSE) :]
                return ""
            self._inside, self._closed, self._held = False, True, rest
        self._held = self._held.lstrip()
        self._passing = bool(self._held)
        return self._held

    def end(self) -> str:
        """What was held back and is no reasoning."""
        return "" if self._passing or self._inside or self._closed else self._held
