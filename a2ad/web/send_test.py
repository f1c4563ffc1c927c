"""`inbound.sendTest`: a message of the operator's own, which goes the way of every client's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from a2ad.engine import Engine, LiveTask, Reader
from a2ad.errors import ActionFailed, InvalidParams, ProtocolError, TaskNotFound, UnsupportedOperation
from a2ad.inbound import InboundRegistry
from a2ad.model import new_id
from a2ad.schemas import a2a
from a2ad.store import OPERATOR

Fields: TypeAlias = dict[str, Any]
Result: TypeAlias = dict[str, Any]
#: where an InvalidParams of a test message comes from, in the action's own words
_FIELDS = {"message.metadata.skill": "skill", "message.contextId": "contextId", "message.taskId": "taskId"}


@dataclass(frozen=True, slots=True)
class Streamed:
    """A test that has begun. `params` are those of the SendStreamingMessage that does the same."""

    task: LiveTask
    reader: Reader
    params: dict[str, Any]


class Tests:
    def __init__(self, engine: Engine, inbounds: InboundRegistry) -> None:
        self._engine = engine
        self._inbounds = inbounds

    async def send(self, fields: Fields) -> Result:
        """Wait for the task as SendMessage does; what goes beside `ok: true`. Raises `ActionFailed`."""
        with _in_its_own_words():
            task, _ = await self._submit(fields["id"], _params(fields), stream=False)
            if not fields.get("return_immediately"):
                await task.settled()
        return outcome(task)

    async def stream(self, fields: Fields) -> Streamed:
        """As `send`, but it does not wait for anything but the beginning."""
        params = _params(fields)
        with _in_its_own_words():
            task, reader = await self._submit(fields["id"], params, stream=True)
        assert reader is not None
        return Streamed(task, reader, params)

    async def _submit(self, inbound_id: str, params: dict[str, Any], *, stream: bool) -> tuple[LiveTask, Reader | None]:
        inbound = self._inbounds.need(inbound_id)
        if not inbound.served:
            raise ActionFailed(inbound.error or f'inbound server "{inbound.record.name}" is disabled')
        wanted = a2a.send_message(params)
        accepted = await self._engine.submit(inbound, wanted, caller=OPERATOR, peer="127.0.0.1", stream=stream)
        return accepted.task, accepted.reader


def outcome(task: LiveTask) -> Result:
    """What is told of a test once its task has come to rest."""
    if task.row.reply is not None:
        return {"message": "answered with a message", "task": None, "reply": orjson.loads(task.row.reply)}
    return {"message": f"task {task.id} is {task.state.value}", "task": orjson.loads(task.view().encode())}


def _params(fields: Fields) -> dict[str, Any]:
    message: dict[str, Any] = {"messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": fields["text"]}]}
    message |= {key: fields[name] for name, key in (("context_id", "contextId"), ("task_id", "taskId"))
                if name in fields}  # fmt: skip
    if "skill" in fields:
        message["metadata"] = {"skill": fields["skill"]}
    if fields.get("return_immediately"):
        return {"message": message, "configuration": {"returnImmediately": True}}
    return {"message": message}


@contextmanager
def _in_its_own_words() -> Iterator[None]:
    """What is wrong with the message, told of the action's fields."""
    try:
        yield
    except InvalidParams as error:
        problems = {_FIELDS.get(field, field): [text] for field, text in error.violations}
        raise ActionFailed(str(error), problems) from None
    except (TaskNotFound, UnsupportedOperation) as error:
        raise ActionFailed(f"taskId: {error}", {"taskId": [str(error)]}) from None
    except ProtocolError as error:
        raise ActionFailed(str(error)) from None
