"""The A2A methods (A2A 1.0.1, 3.1; reference 2.2): parameters in, an encoded result or a stream out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import orjson
from aiohttp import web
from orjson import Fragment

from a2ad.card import Card
from a2ad.engine import Accepted, Engine
from a2ad.engine.intake import message_violations
from a2ad.engine.pages import list_tasks, page_violations
from a2ad.errors import ContentTypeNotSupported, InvalidRequest, PushNotificationNotSupported
from a2ad.inbound import Inbound
from a2ad.schemas import a2a
from a2ad.web.accept import media_ranges, quality
from a2ad.web.peers import Peer
from a2ad.web.sse import Streams, last_event_id

PUSH_METHODS = frozenset(
    {
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    }
)


@dataclass(slots=True)
class Context:
    """Who calls, and where the answer goes."""

    request: web.BaseRequest
    inbound: Inbound
    caller: str
    source: str
    peer: Peer
    call_id: bytes
    large: bool = False


Params: TypeAlias = dict[str, Any]
Answer: TypeAlias = bytes | web.StreamResponse
Method: TypeAlias = Callable[[Context, Params], Awaitable[Answer]]


class Methods:
    def __init__(
        self, engine: Engine, streams: Streams, card: Callable[[web.BaseRequest, Inbound], Awaitable[Card]]
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._card = card
        self.by_name: dict[str, Method] = {
            "SendMessage": self._send,
            "SendStreamingMessage": self._send_streaming,
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
            "SubscribeToTask": self._subscribe,
            "GetExtendedAgentCard": self._extended_card,
        }

    async def _send(self, context: Context, params: Params) -> bytes:
        wanted = await self._read_message(context, params)
        task = (await self._accept(context, wanted, stream=False)).task
        # hidden, here: a repetition of a message that was sent without `returnImmediately`
        if not wanted.return_immediately or task.row.hidden:
            context.peer.waiting = True
            await task.settled()
            context.peer.waiting = False
        if task.row.reply is not None:
            return b'{"message":' + task.row.reply + b"}"
        return b"".join((b'{"task":', task.view().encode(wanted.history_length), b"}"))

    async def _read_message(self, context: Context, params: Params) -> a2a.SendMessageParams:
        further = partial(message_violations, context.inbound, self._engine.limits)
        if context.large:
            return await asyncio.to_thread(a2a.send_message, params, further)
        return a2a.send_message(params, further)

    async def _send_streaming(self, context: Context, params: Params) -> web.StreamResponse:
        wanted = await self._read_message(context, params)
        _check_accepts_stream(context.request)
        reader = (await self._accept(context, wanted, stream=True)).reader
        assert reader is not None
        context.peer.streaming = True
        return await self._streams.serve(context.request, context.call_id, reader)

    async def _accept(self, context: Context, wanted: a2a.SendMessageParams, *, stream: bool) -> Accepted:
        if not _admits_text(wanted.accepted_output_modes):
            raise ContentTypeNotSupported
        if wanted.wants_push:
            raise PushNotificationNotSupported
        accepted = await self._engine.submit(
            context.inbound, wanted, caller=context.caller, peer=context.source, stream=stream
        )
        context.peer.task_id = accepted.task.id
        return accepted

    async def _get(self, context: Context, params: Params) -> bytes:
        wanted = a2a.get_task(params)
        return await self._engine.encoded(wanted.id, context.inbound.id, wanted.history_length)

    async def _list(self, context: Context, params: Params) -> bytes:
        wanted = a2a.list_tasks(params, partial(page_violations, self._engine.store, context.inbound.id))
        page = await list_tasks(self._engine.store, context.inbound.id, wanted)
        return orjson.dumps(
            {
                "tasks": [
                    Fragment(view.encode(wanted.history_length, artifacts=wanted.include_artifacts))
                    for view in page.tasks
                ],
                "nextPageToken": page.next_token,
                "pageSize": wanted.page_size,
                "totalSize": page.total,
            }
        )

    async def _cancel(self, context: Context, params: Params) -> bytes:
        wanted = a2a.task_id(params)
        return (await self._engine.cancel(wanted.id, context.inbound.id)).view().encode()

    async def _subscribe(self, context: Context, params: Params) -> web.StreamResponse:
        wanted = a2a.task_id(params)
        _check_accepts_stream(context.request)
        reader = await self._engine.subscribe(wanted.id, context.inbound.id, last_event_id(context.request))
        context.peer.task_id = wanted.id
        context.peer.streaming = True
        return await self._streams.serve(context.request, context.call_id, reader)

    async def _extended_card(self, context: Context, params: Params) -> bytes:  # noqa: ARG002 - it takes none
        return (await self._card(context.request, context.inbound)).body


def _admits_text(modes: tuple[str, ...]) -> bool:
    """Empty is anything; else one entry has to admit text (`protocol.md` 3)."""
    if not modes:
        return True
    wanted = [mode.partition(";")[0].strip().lower() for mode in modes]
    return any(mode in {"*/*", "*"} or mode.startswith("text/") or mode == "text" for mode in wanted)


def _check_accepts_stream(request: web.BaseRequest) -> None:
    if not quality(media_ranges(request), "text/event-stream"):
        raise InvalidRequest("A stream is text/event-stream, which the Accept header excludes")
