"""A permission that the agent asks for: put into words, and answered with one of its options or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from acp.schema import AllowedOutcome, DeniedOutcome, PermissionOption, RequestPermissionResponse

from a2ad import NeedsInput
from a2ad_acp.options import Permission
from a2ad_acp.tools import Tool

#: what the words show of the call's arguments, and of a title or a name, in characters
SHOWN, SHOWN_NAME = 2000, 200
#: arguments that are longer as JSON are not in the data part either, in characters
LONGEST_ARGUMENTS = 1 << 16
ALLOWING = ("allow_once", "allow_always")
REJECTING = ("reject_once", "reject_always")


class Question:
    """`outcome` is what the agent is told; `settled` is set with it."""

    def __init__(self, tool: Tool, options: Sequence[PermissionOption]) -> None:
        self.settled = asyncio.Event()
        self.outcome = RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        self._tool = tool
        self._options = options

    @property
    def size(self) -> int:
        """About what it takes in memory, in bytes."""
        return sum(len(option.option_id) + len(option.name) for option in self._options)

    def needs(self, deadline: float) -> NeedsInput:
        """The question for whoever answers it."""
        tool = self._tool
        lines = [f"The agent asks for permission: {_line(tool.name)}"]
        if tool.title != tool.name:
            lines.append(_line(tool.title))
        about = {"name": _line(tool.name), "arguments": tool.input}
        if tool.input is not None:
            arguments = json.dumps(tool.input, ensure_ascii=False)
            lines.append(arguments if len(arguments) <= SHOWN else f"{arguments[:SHOWN]} …")
            if len(arguments) > LONGEST_ARGUMENTS:
                about["arguments"] = lines[-1]
        options = [{"id": _id(o), "name": _line(o.name), "kind": o.kind} for o in self._options]
        lines.append("Answer with one of: " + ", ".join(f"{each['name']} ({each['id']})" for each in options))
        return NeedsInput("\n".join(lines), options, tool=about, deadline=deadline, withdrawn=self.settled)

    def decide(self, permission: Permission) -> bool:
        """Answer it by the preset's policy. False where somebody is to be asked."""
        if permission == "ask" and self._options:
            return False
        self._choose_kind(ALLOWING if permission == "allow" else REJECTING)
        return True

    def answer(self, option_id: str) -> None:
        """Choose the option of this id, as the question had it; where two have it, it is none."""
        found = [option for option in self._options if _id(option) == option_id]
        self._settle(found[0] if len(found) == 1 else None)

    def expire(self) -> None:
        """Nobody has answered: reject it once, or else cancel it."""
        self._choose_kind(REJECTING[:1])

    def cancel(self) -> None:
        self._settle(None)

    def _choose_kind(self, kinds: Sequence[str]) -> None:
        wanted = sorted((o for o in self._options if o.kind in kinds), key=lambda option: kinds.index(option.kind))
        self._settle(wanted[0] if wanted else None)

    def _settle(self, option: PermissionOption | None) -> None:
        if self.settled.is_set():
            return
        if option is not None:
            self.outcome = RequestPermissionResponse(
                outcome=AllowedOutcome(outcome="selected", option_id=option.option_id)
            )
        self.settled.set()


def _line(text: str) -> str:
    """A title or a name as a line: with more of them, it could be taken for other lines of the question."""
    return " ".join(text.split())[:SHOWN_NAME]


def _id(option: PermissionOption) -> str:
    """An option's id, which the question has in a line as well."""
    return "".join(each if each.isprintable() else "?" for each in option.option_id)
