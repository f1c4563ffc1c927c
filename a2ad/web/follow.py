"""A task's frames for the operator: those of any task, and those of a message of the operator's own."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from a2ad.engine import Engine, LiveTask
from a2ad.errors import ProtocolError
from a2ad.web import jsonrpc
from a2ad.web.send_test import Streamed, outcome
from a2ad.web.sse import HEADERS, Form, Streams, last_event_id

CONTROL_HEADERS = {**HEADERS, "X-Content-Type-Options": "nosniff"}
#: of the call that a test shows
CALL_ID = b"1"
FRAME = b"\nevent: frame\ndata: "


class Follow:
    def __init__(self, engine: Engine, streams: Streams) -> None:
        self._engine = engine
        self._streams = streams

    async def task(self, request: web.BaseRequest) -> web.StreamResponse:
        """As SubscribeToTask, of a task of any inbound: `frame` events, and `end` once the task has ended. Of one that
        has ended before, the one `task` frame. Raises `TaskNotFound`, `UnsupportedOperation`.
        """
        task = await self._engine.find(request.query.get("id", ""))
        self._engine.check_readers(task)
        after = None if task.state.terminal else last_event_id(request)
        reader = task.subscribe(last_event_id=after, until_interrupted=False)
        return await self._streams.write(request, reader, _Frames())

    async def test(self, request: web.BaseRequest, test: Streamed) -> web.StreamResponse:
        """The `request` that a client would have sent, the `frame` events that it would have got, and the `result`."""
        return await self._streams.write(request, test.reader, _Test(test.task, test.params))


class _Frames(Form):
    __slots__ = ()
    headers = CONTROL_HEADERS

    def __init__(self) -> None:
        super().__init__(FRAME, b"\n\n")

    def closing(self, failure: ProtocolError | None) -> bytes:
        return _event(b"end", b"{}") if failure is None else b""


class _Test(Form):
    __slots__ = ("_params", "_task")
    headers = CONTROL_HEADERS

    def __init__(self, task: LiveTask, params: dict[str, Any]) -> None:
        super().__init__(FRAME + b'{"jsonrpc":"2.0","id":' + CALL_ID + b',"result":', b"}\n\n")
        self._task = task
        self._params = params

    @property
    def opening(self) -> bytes:
        call = {"jsonrpc": "2.0", "id": orjson.Fragment(CALL_ID), "method": "SendStreamingMessage"}
        return _event(b"request", orjson.dumps({**call, "params": self._params}))

    def closing(self, failure: ProtocolError | None) -> bytes:
        if failure is None:
            return _event(b"result", orjson.dumps({"ok": True, **outcome(self._task)}))
        frame = _event(b"frame", jsonrpc.failure(CALL_ID, failure, a2a_dialect=False))
        return frame + _event(b"result", orjson.dumps({"ok": False, "message": str(failure)}))


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + data + b"\n\n"
