"""The lines of an agent's stdin and stdout as messages, strictly: what is no message ends the conversation.

ACP: an agent must not write anything else to its stdout. A line that is no message may be what is left of one, and
somebody would wait for that one for ever. Only before its first message a program may say other things: a banner.
"""

from __future__ import annotations

import asyncio
import json
import reprlib
from collections.abc import Callable
from typing import Any

#: the longest line, in bytes: an image of 10 MB takes 14 in JSON
LINE_BYTES = 50 << 20
#: arrays and objects in one: to read more would hold up the daemon
MAX_CONTAINERS = 100_000
#: of a request's id, in characters
MAX_ID = 256
#: lines before the first message that are no messages
BANNER_LINES = 1000
#: answers that the agent has not read, in bytes, and what each counts besides its own
UNREAD_BYTES, ANSWER_BYTES = 4 << 20, 512
#: what is read before others have a turn, in bytes
TURN_BYTES = 1 << 16

#: how half a character may be written, by itself or not: escaped, or as bytes
_HALVES = (b"\\ud", b"\\uD", b"\xed")

_shown = reprlib.Repr()
_shown.maxstring = 100


class Messages:
    """A transport for `acp.connection.Connection`. `over` is set once nothing comes any more, `fault` says what line
    was to blame, if one was. `banner` is the first line that came instead of a first message.
    """

    def __init__(self, stdout: asyncio.StreamReader, stdin: asyncio.StreamWriter, masked: Callable[[str], str]) -> None:
        """`masked` takes secrets out of a text."""
        self.over = asyncio.Event()
        self.fault: str | None = None
        self.banner: str | None = None
        self._stdout = stdout
        self._stdin = stdin
        self._masked = masked
        self._begun = False
        self._skipped = 0
        self._read = 0
        self._unread = 0

    async def send(self, message: dict[str, Any]) -> None:
        """Raises `ConnectionError`, but for an answer: nobody waits for that any more."""
        data = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        # requests are as many as there are turns; how many answers are wanted is the agent's to say
        waits = 0 if "method" in message else len(data) + ANSWER_BYTES
        self._unread += waits
        try:
            if self._unread > UNREAD_BYTES:
                self._blame(f"does not read its input: more than {UNREAD_BYTES} bytes of answers wait for it")
                return
            self._stdin.write(data)
            await self._stdin.drain()
        except (OSError, RuntimeError):
            if "method" in message:
                raise ConnectionError("the agent takes no messages any more") from None
        finally:
            self._unread -= waits

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        while not self.over.is_set():
            line = await self._line()
            if line is None:
                break
            if not line.strip():
                continue
            message = _message(line)
            if message is not None:
                self._begun = True
                return message
            # masked before it is cut: no part of a secret is to be left
            self._skip(_shown.repr(self._masked(line.decode(errors="replace").strip())))
        self.over.set()
        return None

    async def close(self) -> None:
        self.over.set()

    def _skip(self, line: str) -> None:
        self._skipped += 1
        self.banner = self.banner or line
        if self._begun or self._skipped > BANNER_LINES:
            self._blame(f"wrote a line that is no message: {line}")

    async def _line(self) -> bytes | None:
        try:
            line = await self._stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None  # half a message is as good as none
        except asyncio.LimitOverrunError:
            self._blame(f"wrote a line of more than {LINE_BYTES} bytes")
            return None
        except OSError:
            return None
        self._read += len(line)
        if self._read > TURN_BYTES:
            self._read = 0
            await asyncio.sleep(0)
        return line

    def _blame(self, fault: str) -> None:
        self.fault = fault
        self.over.set()


def _message(line: bytes) -> dict[str, Any] | None:
    if line.count(b"[") + line.count(b"{") > MAX_CONTAINERS:
        return None
    try:
        message = json.loads(line)
        if any(half in line for half in _HALVES):
            message = _clean(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not ("method" in message or "id" in message):
        return None
    call_id = message.get("id")
    if not isinstance(call_id, int | str | None) or (isinstance(call_id, str) and len(call_id) > MAX_ID):
        return None
    if not isinstance(message.get("method"), str | None) or not isinstance(message.get("error"), dict | None):
        return None
    return message


def _clean(value: Any) -> Any:
    """Without lone surrogates, which JSON can escape and nothing else can take."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_clean(each) for each in value]
    if isinstance(value, dict):
        return {_clean(name): _clean(each) for name, each in value.items()}
    return value
