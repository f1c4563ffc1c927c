"""The contract of the tools (reference 3): their arguments, the message of a call, and what it comes to for a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a2ad.agent import ToolError
from a2ad.model import DEPTH, TERMINAL, TaskState, new_id

MAX_PROMPT = 1_000_000  # characters

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "The task or the instructions for the remote agent."},
        "taskId": {
            "type": "string",
            "description": "Only to answer a remote agent that asked for something: the taskId that it gave.",
        },
    },
    "required": ["prompt"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call came to. `text` is what the remote said, without the token; `state` None for a direct message.
    `reason` is why the task did not complete, as far as the remote said.
    """

    text: str
    state: TaskState | None
    task_id: str | None
    context_id: str
    reason: str = ""

    @property
    def failed(self) -> bool:
        return self.state in TERMINAL and self.state is not TaskState.COMPLETED


def new_message(text: str, *, skill: str | None, depth: int | None = None, **ids: str | None) -> dict[str, Any]:
    """An A2A message with this text. `ids` are contextId and taskId."""
    message: dict[str, Any] = {"messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": text}]}
    message |= {name: value for name, value in ids.items() if value is not None}
    metadata = {name: value for name, value in ((DEPTH, depth), ("skill", skill or None)) if value is not None}
    return message | ({"metadata": metadata} if metadata else {})


def read_arguments(arguments: Any) -> tuple[str, str | None]:
    """The prompt and the taskId of a tool's arguments. Raises `ToolError`."""
    if not isinstance(arguments, Mapping):
        raise ToolError("the arguments must be an object")
    prompt, task_id = arguments.get("prompt"), arguments.get("taskId")
    if not isinstance(prompt, str) or not 0 < len(prompt) <= MAX_PROMPT:
        raise ToolError(f"prompt must be a text of 1 to {MAX_PROMPT:,} characters")
    if task_id is not None and not isinstance(task_id, str):
        raise ToolError("taskId must be a string")
    return prompt, task_id or None


def for_model(result: CallResult) -> str:
    """A result as a tool's answer. Raises `ToolError` where the remote's task failed."""
    if result.failed:
        assert result.state is not None
        raise ToolError(
            f"The remote agent's task {result.state.word}: {result.reason or result.text or 'no reason given'}"
        )
    if result.state is not None and result.state.interrupted:
        what = "more input" if result.state is TaskState.INPUT_REQUIRED else "an authorisation"
        return (
            f"{result.text}\n\nThe remote agent needs {what} to go on. To answer it, call this tool again with"
            f' "taskId": {json.dumps(result.task_id)} and the answer as the prompt.'
        ).lstrip()
    return result.text or "(The remote agent finished and said nothing.)"
