"""Answers on their way to clients: a large one is written in slices, and all of them together have a bound."""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web

from a2ad.errors import ResourceExhausted

#: an answer above this is large, in bytes
LARGE = 1 << 17
#: what is handed to a connection at a time, in bytes
SLICE = 1 << 16
#: large answers under way, together, in bytes: a client that reads nothing holds its own for a minute
UNDER_WAY = 256 << 20
#: how long a large answer waits for room; and what its client is told to wait then, in seconds
ROOM_SECONDS, RETRY_AFTER = 30.0, 1

JSON_HEADERS = {hdrs.CONTENT_TYPE: "application/json", "A2A-Version": "1.0"}


class Answers:
    """Sends results, and knows how much of them is under way."""

    def __init__(self) -> None:
        self._under_way = 0
        self._room = asyncio.Event()

    async def send(
        self, request: web.BaseRequest, call_id: bytes, body: bytes, *, repeatable: bool
    ) -> web.StreamResponse:
        """The `result` of a call, whose id is encoded. Raises `ResourceExhausted` where there is no room for a large
        one: at once where its client may as well ask again, else after `ROOM_SECONDS`.
        """
        before = b'{"jsonrpc":"2.0","id":' + call_id + b',"result":'
        if len(body) <= LARGE:
            return web.Response(body=before + body + b"}", headers=JSON_HEADERS)
        await self._wait_for_room(len(body), 0 if repeatable else ROOM_SECONDS)
        self._under_way += len(body)
        response = web.StreamResponse(headers=JSON_HEADERS)
        try:
            response.content_length = len(before) + len(body) + 1
            await response.prepare(request)
            await response.write(before)
            view = memoryview(body)
            for start in range(0, len(body), SLICE):
                await response.write(view[start : start + SLICE])
            await response.write_eof(b"}")
            return response
        except ConnectionError as error:
            # the client has left. aiohttp's exception and its frames keep each other, and this body, otherwise
            error.__traceback__ = None
            return response
        finally:
            self._under_way -= len(body)
            self._room.set()

    async def _wait_for_room(self, size: int, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._under_way and self._under_way + size > UNDER_WAY:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise ResourceExhausted(
                "Too many large answers are under way; try again later", retry_after=RETRY_AFTER
            ) from None
