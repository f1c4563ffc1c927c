"""Answers on their way to clients: a large one is written in slices, and all of them together have a bound."""

from __future__ import annotations

from aiohttp import hdrs, web

from a2ad.errors import ResourceExhausted

#: an answer above this is large, in bytes
LARGE = 1 << 17
#: what is handed to a connection at a time, in bytes
SLICE = 1 << 16
#: large answers under way, together, in bytes: a client that reads nothing holds its own for a minute
UNDER_WAY = 256 << 20
RETRY_AFTER = 1

JSON_HEADERS = {hdrs.CONTENT_TYPE: "application/json", "A2A-Version": "1.0"}


class Answers:
    def __init__(self) -> None:
        self._under_way = 0

    async def send(self, request: web.BaseRequest, call_id: bytes, body: bytes) -> web.StreamResponse:
        """The `result` of a call. Raises `ResourceExhausted` where too much is under way."""
        before = b'{"jsonrpc":"2.0","id":' + call_id + b',"result":'
        if len(body) <= LARGE:
            return web.Response(body=before + body + b"}", headers=JSON_HEADERS)
        if self._under_way and self._under_way + len(body) > UNDER_WAY:
            raise ResourceExhausted("Too many large answers are under way; try again later", retry_after=RETRY_AFTER)
        self._under_way += len(body)
        try:
            response = web.StreamResponse(headers=JSON_HEADERS)
            response.content_length = len(before) + len(body) + 1
            await response.prepare(request)
            await response.write(before)
            view = memoryview(body)
            for start in range(0, len(body), SLICE):
                await response.write(view[start : start + SLICE])
            await response.write_eof(b"}")
            return response
        finally:
            self._under_way -= len(body)
