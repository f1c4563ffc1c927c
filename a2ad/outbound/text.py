"""What remotes say, made fit to be shown: bounded, without control characters, and without our own token in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from a2ad.model import TaskState

MASK = "***"
#: of a name, of a description, and of an error's text, in characters
NAME, DESCRIPTION, MESSAGE = 200, 1000, 4000
#: what an error quotes of a remote, in characters: it is cut to `MESSAGE` once the token is taken out, not before
QUOTED = 16_000
#: a token that is shorter may be in a name by chance, in characters
SHORTEST = 6
#: a token that is shorter may be an ordinary word of an answer, in characters
SHORTEST_IN_ANSWERS = 8
# C0 and C1 controls but for tab and line breaks; what turns the direction of text; what is not seen at all
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
_BLANKS = re.compile(r"\s+")


def line(text: Any, limit: int, mask: Callable[[str], str] = str) -> str:
    """A text from a card, on one line: data, not to be taken for anything else. It is masked before it is cut off: a
    token must not show in part.
    """
    return shortened(mask(_CONTROLS.sub("", _BLANKS.sub(" ", text if isinstance(text, str) else "")).strip()), limit)


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """Any text, on as many lines as it has, without what would drive a terminal."""
    return _CONTROLS.sub("", text)


class Mask:
    """Takes tokens out of texts, as they are and as JSON writes them; not those of fewer than `shortest` characters."""

    def __init__(self, tokens: Iterable[str], *, shortest: int = 1) -> None:
        words = {token for token in tokens if len(token) >= shortest}
        words |= {orjson.dumps(word).decode()[1:-1] for word in words}
        self._words = sorted(words, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._words))) if words else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern is not None else text

    def hides(self, name: str) -> bool:
        """Whether a name that cannot be changed has a token in it. One so short is in many names."""
        return any(len(word) >= SHORTEST and word in name for word in self._words)

    def held(self, text: str) -> int:
        """How much of the end of a text may be the beginning of a token, in characters."""
        return max((_held(word, text) for word in self._words), default=0)


def _held(word: str, text: str) -> int:
    lengths = range(min(len(word) - 1, len(text)), 0, -1)
    return next((length for length in lengths if text.endswith(word[:length])), 0)


class StreamMask:
    """A `Mask` for a text that comes in pieces."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._rest = ""

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        text = self._mask(self._rest + piece)
        held = self._mask.held(text)
        self._rest = text[len(text) - held :]
        return text[: len(text) - held]

    def end(self) -> str:
        rest, self._rest = self._rest, ""
        return rest


class Masks:
    """What takes tokens out of what a remote says: `answers` out of its answers, where a short token may be an ordinary
    word; `errors`, which takes out every one, out of all else.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        tokens = list(tokens)
        self.answers = Mask(tokens, shortest=SHORTEST_IN_ANSWERS)
        self.errors = Mask(tokens)

    def of_status(self, state: TaskState | None) -> Mask:
        """For the message of a task's status: why it failed is an error, anything else is part of the answer."""
        failed = state is not None and state.terminal and state is not TaskState.COMPLETED
        return self.errors if failed else self.answers
