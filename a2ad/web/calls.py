"""`outbound.call` over HTTP: it ends with its client, and tells the progress where that asks for a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, cast

import orjson
from aiohttp import hdrs, web
from aiohttp_sse import sse_response

from a2ad.outbound.answer import ANSWER_BYTES, Observer, Said, Stated
from a2ad.web.server import check_connected, on_disconnect

#: the HTTP status and the body of an action's answer
Performed: TypeAlias = tuple[int, dict[str, Any]]
Call: TypeAlias = Callable[[Observer | None], Awaitable[Performed]]


def wants_stream(request: web.BaseRequest) -> bool:
    return "text/event-stream" in request.headers.get(hdrs.ACCEPT, "")


async def until_disconnect(request: web.BaseRequest, call: Call) -> Performed:
    """The outcome of the call, which is cancelled where the client leaves."""
    work = asyncio.ensure_future(call(None))
    with on_disconnect(request, work.cancel):
        return await _outcome(work)


async def stream(request: web.BaseRequest, call: Call, *, keepalive_seconds: float) -> web.StreamResponse:
    """`progress` events, `{text}` for what is new of the answer and `{state, message}` for a status; then one `result`
    with the answer's body.
    """
    check_connected(request)
    progress = _Progress()
    work = asyncio.ensure_future(call(progress.observe))
    work.add_done_callback(lambda _: progress.wake.set())
    with on_disconnect(request, work.cancel), _ended(work):
        async with sse_response(
            cast("web.Request", request), ping_interval=keepalive_seconds, sep="\n", allow_all_methods=True
        ) as response:
            while True:
                await progress.wake.wait()
                done = work.done()
                for update in progress.take():
                    await response.send(orjson.dumps(update).decode(), event="progress")
                if done:
                    break
            _, body = await _outcome(work)
            await response.send(orjson.dumps(body).decode(), event="result")
    return response


@contextmanager
def _ended(work: asyncio.Future[Performed]) -> Iterator[None]:
    """On whatever way out."""
    try:
        yield
    finally:
        work.cancel()


async def _outcome(work: asyncio.Future[Performed]) -> Performed:
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise ConnectionResetError from None
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([work])


class _Progress:
    """What was observed and not sent yet, in order: of neighbouring statuses the newest, neighbouring texts as one.
    Of text there is as much as an answer may have: a client that reads slowly misses what is beyond; the result has it.
    """

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self._updates: list[list[str] | dict[str, Any]] = []
        self._size = 0

    def observe(self, update: Said | Stated) -> None:
        last = self._updates[-1] if self._updates else None
        if isinstance(update, Stated):
            if isinstance(last, dict):
                self._updates.pop()
            self._updates.append({"state": update.state.value, "message": update.text})
        elif self._size < ANSWER_BYTES:
            self._size += len(update.text)
            if isinstance(last, list):
                last.append(update.text)
            else:
                self._updates.append([update.text])
        self.wake.set()

    def take(self) -> list[dict[str, Any]]:
        self.wake.clear()
        updates, self._updates, self._size = self._updates, [], 0
        return [{"text": "".join(each)} if isinstance(each, list) else each for each in updates]
