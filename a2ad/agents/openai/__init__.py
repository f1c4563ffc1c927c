"""The agent `openai`: any endpoint that speaks OpenAI's chat completions (docs/agents.md)."""

from __future__ import annotations

from collections.abc import Sequence

from a2ad.agent import Agent, AgentContext, AgentSession
from a2ad.agents.openai.endpoint import Endpoint
from a2ad.agents.openai.keys import read_key
from a2ad.agents.openai.options import read_options
from a2ad.agents.openai.session import OpenAISession
from a2ad.errors import RemoteError
from a2ad.executor import Preset, TaskFailed


class OpenAIAgent(Agent):
    """Raises `PresetError` where the preset's options are wrong. Its HTTP client opens with the first request."""

    def __init__(self, preset: Preset) -> None:
        self._options = read_options(preset.options)
        self._endpoint = Endpoint(self._options)

    async def open(self, context: AgentContext) -> AgentSession:
        return OpenAISession(self._options, self._endpoint, context)

    async def check(self) -> Sequence[str]:
        try:
            key = read_key(self._options)
        except TaskFailed as error:
            return [str(error.message)]
        try:
            await self._endpoint.reach(key)
        except RemoteError as error:
            return [key.tell(error)]
        return ()

    async def close(self) -> None:
        await self._endpoint.close()
