"""The agent kind `command`: any program that takes a prompt and writes an answer."""

from __future__ import annotations

from collections.abc import Callable

from a2ad import hookimpl
from a2ad_command.agent import CommandAgent


@hookimpl
def a2ad_register_agents(register: Callable[..., None]) -> None:
    register("command", CommandAgent, summary="A program that reads the prompt and writes the answer")
