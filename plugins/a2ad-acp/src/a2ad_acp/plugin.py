"""What a2ad finds: the kind of agent, and how one is made of a preset."""

from __future__ import annotations

from collections.abc import Callable

from a2ad import Preset, hookimpl
from a2ad_acp.agent import AcpAgent
from a2ad_acp.options import read_options


def make_agent(preset: Preset) -> AcpAgent:
    """Opens nothing yet. Raises `PresetError` where the preset's options are wrong."""
    return AcpAgent(read_options(preset))


@hookimpl
def a2ad_register_agents(register: Callable[..., None]) -> None:
    register("acp", make_agent, summary="An agent that speaks the Agent Client Protocol over stdio")
