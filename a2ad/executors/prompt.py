"""What a turn begins with; also one that the daemon's end cut off, and that is taken again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from a2ad.agent import NeedsAuth, NeedsInput
from a2ad.engine.attachments import kept_attachments
from a2ad.engine.questions import NOBODY_ANSWERED, question_parts
from a2ad.executor import Attachment, TaskFailed, TaskRequest
from a2ad.model import PartDict


@dataclass(slots=True)
class Prompt:
    """`question` is what the task waited with when its turn was cut off, `answer` what it was told and has not used;
    `unanswered`, that nobody told it anything in time.
    """

    parts: Sequence[PartDict]
    attachments: Sequence[Attachment]
    question: Sequence[PartDict] = ()
    answer: Sequence[PartDict] | None = None
    unanswered: bool = False

    def answer_to(self, event: NeedsInput | NeedsAuth) -> Sequence[PartDict] | None:
        """The answer that has come already, once, and to the very question that it was given to. `TimeoutError` where
        that question was not answered in time.
        """
        answer, unanswered, self.answer, self.unanswered = self.answer, self.unanswered, None, False
        if answer is None and not unanswered:
            return None
        if isinstance(event, NeedsInput):
            deadline = None if event.deadline is None else 0
            asked = question_parts(event.question, event.options, deadline, event.tool)
        else:
            asked = question_parts(event.what, None, None, None)
        if _essence(asked) != _essence(self.question):
            return None
        if unanswered:
            raise TimeoutError
        return answer


def prompt_of(request: TaskRequest) -> Prompt:
    """Raises `TaskFailed` where it is to be what nobody answered."""
    if request.unanswered:
        raise TaskFailed(NOBODY_ANSWERED)
    return Prompt(request.message["parts"], request.attachments)


async def prompt_again(request: TaskRequest, state_dir: Path, begun: int = 0) -> Prompt:
    """The message that the turn began with, of the task's history, and the answer that came last. Raises
    `StoreUnavailable` where attachments are gone.
    """
    history = request.history[begun:] or request.history
    first, last = history[0], history[-1]
    prompt = Prompt(first["parts"], await kept_attachments(first, state_dir))
    prompt.question = next((m["parts"] for m in reversed(history) if m["role"] == "ROLE_AGENT"), ())
    prompt.unanswered = request.unanswered
    if len(history) > 1 and last["role"] == "ROLE_USER":
        prompt.answer = last["parts"]
    return prompt


def _essence(parts: Sequence[PartDict]) -> list[Any]:
    """What a question says, however it is written down."""
    essence: list[Any] = []
    for part in parts:
        if "text" in part:
            essence.append(part["text"])
        elif "data" in part:
            data = orjson.loads(orjson.dumps(part["data"]))
            essence.append({**data, "deadline": None} if isinstance(data, dict) else data)
        else:
            essence.append(object())  # like no other
    return essence
