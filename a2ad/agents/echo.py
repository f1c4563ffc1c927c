"""The agent of the embedded defaults: says the prompt again, word by word. No key, no network."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

from a2ad.agent import Agent, AgentContext, AgentEvent, AgentSession, PresetError, TextDelta, TurnEnd
from a2ad.executor import Attachment, Preset, prompt_text
from a2ad.model import PartDict

#: a long prompt comes in pieces of several words: no more than this many
MAX_PIECES = 2000
#: the executors that talk to the preset's agent
CONVERSING = frozenset({"session", "subagent"})
_WORD = re.compile(r"\S+\s*|\s+")


class EchoSession(AgentSession):
    async def prompt(self, parts: Sequence[PartDict], attachments: Sequence[Attachment]) -> AsyncIterator[AgentEvent]:
        words = _WORD.findall(prompt_text(parts))
        words += [f"[{file.name}, {file.media_type}, {file.size} bytes]" for file in attachments]
        step = max(1, len(words) // MAX_PIECES)
        for start in range(0, len(words), step):
            yield TextDelta("".join(words[start : start + step]))
        yield TurnEnd()


class EchoAgent(Agent):
    """Has no options. Those of a preset whose skills all have executors of their own are for these.

    Raises `PresetError`.
    """

    def __init__(self, preset: Preset) -> None:
        if any(skill.executor in CONVERSING for skill in preset.skills):
            unknown = [f'options: {name}: unknown option; the agent "echo" has none' for name in preset.options]
            if unknown:
                raise PresetError("; ".join(unknown))

    async def open(self, context: AgentContext) -> AgentSession:  # noqa: ARG002 - it remembers nothing
        return EchoSession()
