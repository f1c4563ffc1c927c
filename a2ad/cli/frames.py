"""What a task says, frame by frame, on the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from a2ad.cli.asking import question_in
from a2ad.cli.terminal import Conversation
from a2ad.model import TaskState

Json = Mapping[str, Any]
#: what a session calls its records of tool calls (reference 2.4.1)
_TOOL_CALL = "tool-call-"
#: around what stands on lines of its own; no text has it
_BLOCK = "\0"


class Telling:
    """Tells a conversation what is new in each of a task's frames: A2A's StreamResponse objects, snapshots among them.

    `task_id` and `context_id` are known once a frame came that names them, and so is `state`.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._said: dict[str, list[str]] = {}
        self._tools: dict[str, str] = {}
        self.task_id: str | None = None
        self.context_id: str | None = None
        self.state: TaskState | None = None
        #: the text of the status message
        self.status = ""
        #: the data part of what it asks, or nothing
        self.question: dict[str, Any] = {}
        #: it was answered with a message, and there is no task
        self.replied = False

    def take(self, frame: Json) -> None:
        """A frame: exactly one of `task`, `message`, `statusUpdate`, `artifactUpdate`."""
        if "task" in frame:
            task = frame["task"]
            self._named(task["id"], task.get("contextId"))
            for artifact in task.get("artifacts") or ():
                self._artifact(artifact, append=False)
            self._state(task["status"])
        elif "statusUpdate" in frame:
            update = frame["statusUpdate"]
            self._named(update["taskId"], update.get("contextId"))
            self._state(update["status"])
        elif "artifactUpdate" in frame:
            update = frame["artifactUpdate"]
            self._named(update["taskId"], update.get("contextId"))
            self._artifact(update["artifact"], append=update.get("append") is True)
        elif "message" in frame:
            self.replied = True
            self._say(_written(frame["message"].get("parts") or ()))

    def outcome(self) -> dict[str, Any]:
        """What the task came to, for `Conversation.finish`: all that it said was told."""
        failed = self.state is not None and self.state.terminal and self.state is not TaskState.COMPLETED
        ids = {"taskId": self.task_id, "contextId": self.context_id}
        return {"ok": not failed, "state": self.state, "text": "", "message": "", "question": self.question, **ids}

    def _named(self, task_id: str, context_id: str | None) -> None:
        self.task_id = task_id
        self.context_id = context_id or self.context_id

    def _state(self, status: Json) -> None:
        self.state = TaskState(status["state"])
        parts = (status.get("message") or {}).get("parts") or ()
        self.status = _text(parts)
        self.question = question_in(parts)
        self._conversation.state(self.state, self.status)

    def _artifact(self, artifact: Json, *, append: bool) -> None:
        name, parts = str(artifact["artifactId"]), artifact.get("parts") or ()
        if name.startswith(_TOOL_CALL) and parts and all("data" in part for part in parts):
            self._tool(name, parts[-1]["data"])
            return
        written = _written(parts)
        said = self._said.get(name)
        if said is None:
            if written:
                self._said[name] = [written]
                # a further artifact begins behind an empty line
                written = f"\n\n{written}" if len(self._said) > 1 else written
        elif append:
            said.append(written)
        else:
            before = "".join(said)
            self._said[name] = [written]
            written = written.removeprefix(before) if written.startswith(before) else f"\n{written}"
        self._say(written)

    def _tool(self, name: str, record: Any) -> None:
        """A record of a tool call: it is no answer."""
        told = record if isinstance(record, dict) else {}
        line = f"tool {told.get('name') or name.removeprefix(_TOOL_CALL)}: {told.get('status') or 'called'}"
        if self._tools.get(name) != line:
            self._tools[name] = line
            self._conversation.note(line)

    def _say(self, written: str) -> None:
        for at, piece in enumerate(written.split(_BLOCK)):
            if at % 2:
                self._conversation.say_line(piece)
            elif piece:
                self._conversation.say(piece)


def _text(parts: Iterable[Json]) -> str:
    return "".join(part["text"] for part in parts if "text" in part)


def _written(parts: Iterable[Json]) -> str:
    """Text as it is; anything else as a block, see `part_line`."""
    return "".join(
        part["text"].replace(_BLOCK, "") if "text" in part else f"{_BLOCK}{part_line(part)}{_BLOCK}" for part in parts
    )


def part_line(part: Json) -> str:
    """One line for a part that is no text: its data, its URL, or what file it is."""
    if "data" in part:
        return json.dumps(part["data"], ensure_ascii=False)
    name = f"{part['filename']} " if part.get("filename") else ""
    kind = part.get("mediaType") or "application/octet-stream"
    if "url" in part:
        return f"[{name}{kind}: {part['url']}]"
    return f"[{name}{kind}, {len(str(part.get('raw', '')).rstrip('=')) * 3 // 4} bytes]"
