"""What the operator can do: the control actions (reference 1.2)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from a2ad.engine import Engine, LiveTask
from a2ad.engine.questions import chosen, question_of
from a2ad.engine.workdirs import contexts_dir
from a2ad.errors import (
    ActionFailed,
    InvalidParams,
    ProtocolError,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
)
from a2ad.executors.pool import SessionPool
from a2ad.inbound import Inbound, InboundRegistry
from a2ad.schemas import a2a
from a2ad.store import OPERATOR
from a2ad.web.peers import Peers
from a2ad.web.send_test import Tests

Fields: TypeAlias = dict[str, Any]
Result: TypeAlias = dict[str, Any]


class Actions:
    """Each returns what goes beside `ok: true`, and raises `ActionFailed`."""

    def __init__(self, *, engine: Engine, inbounds: InboundRegistry, pool: SessionPool, peers: Peers) -> None:
        self._engine = engine
        self._inbounds = inbounds
        self._pool = pool
        self._peers = peers
        self.tests = Tests(engine, inbounds)
        self.by_name: dict[str, Callable[[Fields], Awaitable[Result]]] = {
            "inbound.create": self._create,
            "inbound.update": self._update,
            "inbound.remove": self._remove,
            "inbound.enable": self._enable,
            "inbound.disable": self._disable,
            "inbound.setAuth": self._set_auth,
            "inbound.sendTest": self.tests.send,
            "inbound.close": self._close_peer,
            "task.answer": self._answer_task,
            "task.cancel": self._cancel_task,
            "session.cancel": self._cancel_session,
            "session.close": self._close_session,
        }

    async def _create(self, fields: Fields) -> Result:
        inbound = await self._inbounds.create(fields)
        return {"message": _done(inbound, "created"), "id": inbound.id}

    async def _update(self, fields: Fields) -> Result:
        inbound_id = fields.pop("id")
        if not fields:
            raise ActionFailed("there is nothing to update", {"id": ["comes without any field to change"]})
        return {"message": _done(await self._inbounds.update(inbound_id, fields), "updated"), "id": inbound_id}

    async def _enable(self, fields: Fields) -> Result:
        inbound = await self._inbounds.update(fields["id"], {"enabled": True})
        return {"message": _done(inbound, "enabled"), "id": inbound.id}

    async def _disable(self, fields: Fields) -> Result:
        inbound = await self._inbounds.update(fields["id"], {"enabled": False})
        return {"message": f'inbound server "{inbound.record.name}" disabled', "id": inbound.id}

    async def _remove(self, fields: Fields) -> Result:
        inbound = await self._inbounds.update(fields["id"], {"enabled": False})
        await self._pool.drop_inbound(inbound.id)
        # the inbound goes last: if this is cut short, it is still there to be removed again
        await self._engine.forget_inbound(inbound.id)
        await self._inbounds.remove(inbound.id)
        folder = contexts_dir(self._engine.state_dir, inbound.id)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return {"message": f'inbound server "{inbound.record.name}" removed, with its tasks', "id": inbound.id}

    async def _set_auth(self, fields: Fields) -> Result:
        token = fields.get("token")
        inbound = await self._inbounds.set_token(fields["id"], token)
        return {"message": _done(inbound, "token set" if token else "token cleared"), "id": inbound.id}

    async def _close_peer(self, fields: Fields) -> Result:
        peer = self._peers.get(fields["id"])
        if peer is None:
            raise ActionFailed(f"id: there is no peer {fields['id']!r}", {"id": ["is no open connection"]})
        peer.close()
        return {"message": f"the connection of {peer.source} is closed; its task goes on"}

    async def _answer_task(self, fields: Fields) -> Result:
        """The operator's door to what a client is asked too: whoever comes first has answered."""
        task_id = fields["id"]
        try:
            row = (await self._engine.view(task_id)).row
            if not row.state.interrupted:
                raise UnsupportedOperation(f"The task is {row.state.value}: it waits for no answer")
            inbound = self._inbounds.need(row.inbound_id)
            text = _answer(fields, question_of(row).get("options") or [])
            wanted = a2a.send_message({"message": {"role": "ROLE_USER", "taskId": task_id, "parts": [{"text": text}]}})
            await self._engine.submit(inbound, wanted, caller=OPERATOR, peer="127.0.0.1")
        except (TaskNotFound, UnsupportedOperation, InvalidParams) as error:
            raise ActionFailed(f"id: {error}", {"id": [str(error)]}) from None
        except ProtocolError as error:
            raise ActionFailed(str(error)) from None
        return {"message": f"task {task_id} is answered", "id": task_id}

    async def _cancel_task(self, fields: Fields) -> Result:
        try:
            await self._engine.cancel(fields["id"])
        except ProtocolError as error:
            raise ActionFailed(f"id: {error}", {"id": [str(error)]}) from None
        return {"message": f"task {fields['id']} canceled"}

    async def _cancel_session(self, fields: Fields) -> Result:
        canceled = await self._cancel(self._active(fields))
        return {"message": f"{canceled} active task(s) canceled" if canceled else "nothing is active in this context"}

    async def _close_session(self, fields: Fields) -> Result:
        canceled = await self._cancel(self._active(fields))
        sessions = self._pool.of_context(fields["id"], fields.get("server_id"))
        for live in sessions:
            await self._pool.drop(live)
        return {"message": f"{canceled} active task(s) canceled, {len(sessions)} session(s) closed"}

    def _active(self, fields: Fields) -> list[LiveTask]:
        server_id = fields.get("server_id")
        return [
            task
            for task in self._engine.live.values()
            if task.row.context_id == fields["id"]
            and server_id in {None, task.row.inbound_id}
            and (task.run is not None or not task.settled_now)
        ]

    async def _cancel(self, tasks: list[LiveTask]) -> int:
        outcomes = await asyncio.gather(*(self._engine.cancel_task(task) for task in tasks), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, ProtocolError) and not isinstance(outcome, TaskNotCancelable):
                raise ActionFailed(str(outcome))
        return sum(isinstance(outcome, LiveTask) for outcome in outcomes)


def _done(inbound: Inbound, what: str) -> str:
    text = f'inbound server "{inbound.record.name}" {what}'
    return f"{text}, but it is not served: {inbound.error}" if inbound.error is not None else text


def _answer(fields: Fields, options: Sequence[Mapping[str, Any]]) -> str:
    """What is answered. Raises `ActionFailed` where it names none of the options that there are."""
    field = "option" if "option" in fields else "text"
    given: str = fields[field]
    found = chosen([{"text": given}], options)
    if found is not None:
        return str(found.get("id") or found.get("name"))
    if options:
        raise ActionFailed(f"{field} names none of the options", {field: ["names none of the options"]},
                           {"options": list(options)})  # fmt: skip
    if field == "option":
        raise ActionFailed(
            "option must be a text: the question has no options",
            {field: ["must be a text: the question has no options"]},
        )
    return given
