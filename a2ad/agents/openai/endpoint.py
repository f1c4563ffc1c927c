"""Requests to an endpoint for chat completions: streamed, bounded, and tried again where that may help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson
import structlog

from a2ad import __version__
from a2ad.agents.openai.keys import Key
from a2ad.agents.openai.options import Options
from a2ad.agents.openai.reply import Reply, is_passing, said_in
from a2ad.errors import RemoteAway, RemoteInvalid, RemoteRefused
from a2ad.outbound.envelope import is_json
from a2ad.outbound.net import REFUSAL_BYTES, Net, Response, bearer, read_bounded, retry_after
from a2ad.outbound.sse import EventReader, EventTooLarge

#: how often a request is tried again
RETRIES = 4
#: the first pause before a new try, and the longest, in seconds; each is drawn between half and all of it
PAUSE, LONGEST_PAUSE = 0.5, 8.0
#: the longest `Retry-After` that is waited for, in seconds
LONGEST_RETRY_AFTER = 60.0
#: how long an endpoint may be silent, in seconds: a model on a slow machine reads a long prompt for minutes, and
#: comments, with which some endpoints fill the time in their queue, do not count
SILENCE_SECONDS = 600.0
#: how long the rest of a stream is waited for once the model has ended, and the words of a refusal, in seconds
AFTER_SECONDS = 5.0
#: and once the stream has said that it is done
LINGER_SECONDS = 0.2
#: one event, or what is between two; and a whole answer that is no stream, in bytes
EVENT_BYTES, ANSWER_BYTES = 4 << 20, 16 << 20
#: events that are read before the other tasks of the loop have a turn
TURN_EVENTS = 500
_DONE = b"[DONE]"
_NO_COMPLETION = "its endpoint sends JSON that is no chat completion"
_SILENT = "its endpoint has said nothing for {:g} s"

log = structlog.get_logger()


class Endpoint:
    """One preset's model. All its sessions share the HTTP client."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._net = Net()

    async def close(self) -> None:
        await self._net.close()

    async def reach(self, key: Key) -> None:
        """Ask for its models. Raises `RemoteError` where it cannot be reached, or refuses the key; some know no such
        question, which is no matter.
        """
        url = f"{self._options.base_url}/models"
        async with _patience(), self._net.request("GET", url, headers=bearer(key.value), follow=False) as response:
            if response.status in {401, 403}:
                raise RemoteRefused(f"its endpoint refuses the key (HTTP {response.status})")

    async def answer(
        self, key: Key, reply: Reply, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str, None]:
        """Ask the model: the pieces of its text, and all else in `reply`. Raises `RemoteError`.

        What may go better is tried again, as long as nothing of an answer has been passed on.
        """
        body = orjson.dumps(self.request(messages, tools))
        failures = 0
        while True:
            try:
                async with aclosing(self._attempt(key, reply, body)) as pieces:
                    async for piece in pieces:
                        yield piece
                break
            except RemoteAway as error:
                if reply.finish is not None:
                    break  # it was cut behind its end
                if reply.passed_on:
                    raise
                failures += 1
                await self._pause(failures, error, key)
            reply.reset()
        if rest := reply.end():
            yield rest

    def request(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What is sent."""
        request: dict[str, Any] = {
            "model": self._options.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._options.temperature is not None:
            request["temperature"] = self._options.temperature
        return {**request, "tools": tools} if tools else request

    async def _pause(self, failures: int, error: RemoteAway, key: Key) -> None:
        """Wait before the next try; raises the error where there is none."""
        if failures > RETRIES:
            raise RemoteAway(f"{error} (tried {failures} times)")
        pause = min(LONGEST_PAUSE, PAUSE * 2 ** (failures - 1)) * random.uniform(0.5, 1)  # noqa: S311 - spreads load
        if error.retry_after is not None:
            if error.retry_after > LONGEST_RETRY_AFTER:
                raise RemoteAway(f"{error} (it asks to come back in {error.retry_after:g} s)")
            pause = max(pause, error.retry_after)
        log.info("openai.retry", model=self._options.model, error=key.tell(error), seconds=round(pause, 1))
        await asyncio.sleep(pause)

    async def _attempt(self, key: Key, reply: Reply, body: bytes) -> AsyncGenerator[str, None]:
        async with AsyncExitStack() as stack:
            response = await self._open(stack, key, body)
            await _check_status(response)
            if response.content_type == "text/event-stream":
                async with aclosing(_events(response, reply)) as events:
                    async for data in events:
                        if piece := reply.take(data):
                            yield piece
            elif response.content_type.endswith("json"):
                # it does not stream, or tells an error in this way
                async with _patience():
                    whole = await read_bounded(response, ANSWER_BYTES)
                if piece := reply.take(whole):
                    yield piece
                if not reply.started:
                    words = said_in(orjson.loads(whole))
                    raise RemoteInvalid(_NO_COMPLETION + (f": {words}" if words else ""))
            else:
                raise RemoteInvalid(f"its endpoint answers with {response.content_type}, which is no chat completion")

    async def _open(self, stack: AsyncExitStack, key: Key, body: bytes) -> Response:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "User-Agent": f"a2ad/{__version__}",
            **bearer(key.value),
        }
        url = f"{self._options.base_url}/chat/completions"
        async with _patience():
            return await stack.enter_async_context(
                self._net.request("POST", url, headers=headers, body=body, follow=False)
            )


@asynccontextmanager
async def _patience() -> AsyncIterator[None]:
    """Past `SILENCE_SECONDS`, `RemoteInvalid`: who hangs is not asked to hang again."""
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            yield
    except TimeoutError:
        raise RemoteInvalid(_SILENT.format(SILENCE_SECONDS)) from None


class _Patience:
    """How long the next piece of a stream is waited for: as long as it takes, or not at all once all is there."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._now = asyncio.get_running_loop().time
        self._until = self._now() + SILENCE_SECONDS
        #: the stream has said that it is done
        self.done = False

    def heard(self) -> None:
        """An event came."""
        if self._reply.finish is None:
            self._until = self._now() + SILENCE_SECONDS
        else:
            self._until = min(self._until, self._now() + AFTER_SECONDS)

    def end(self) -> None:
        """The last one came. The connection can be used again where its stream is read to the end."""
        self.done = True
        self._until = self._now() + LINGER_SECONDS

    async def next(self, chunks: AsyncIterator[bytes]) -> bytes:
        """Empty at the end, also where that is only waited for. Raises `RemoteInvalid`."""
        try:
            async with asyncio.timeout_at(self._until):
                return await anext(chunks, b"")
        except TimeoutError:
            if self.done or self._reply.finish is not None:
                return b""
            raise RemoteInvalid(_SILENT.format(SILENCE_SECONDS)) from None


async def _events(response: Response, reply: Reply) -> AsyncGenerator[bytes, None]:
    """The data of a stream's events, to its end. Raises `RemoteAway` where it is cut before the model has ended."""
    reader, patience = EventReader(EVENT_BYTES), _Patience(reply)
    chunks = aiter(response.content.iter_any())
    size, chunk = 0, b" "
    while chunk:
        chunk = await patience.next(chunks)
        events = [] if patience.done else _fed(reader, chunk)
        size = 0 if events else size + len(chunk)
        if size > EVENT_BYTES:
            if patience.done:
                break
            raise RemoteInvalid(f"its stream goes on for {EVENT_BYTES} bytes without an event")
        for number, data in enumerate(events, start=1):
            if number % TURN_EVENTS == 0:
                await asyncio.sleep(0)  # many small ones in one piece must not hold up the others
            if data == _DONE:
                patience.end()
                break
            if chunk or is_json(data):  # half an event at the end was cut
                yield data
                patience.heard()
    if reply.finish is None and not (patience.done and reply.started):
        raise RemoteAway("its endpoint broke off before the answer was complete")


def _fed(reader: EventReader, chunk: bytes) -> list[bytes]:
    try:
        events = reader.feed(chunk) if chunk else reader.end()
    except EventTooLarge:
        raise RemoteInvalid(f"an event of its endpoint is larger than {EVENT_BYTES} bytes") from None
    return [data for event in events if (data := event.data.strip())]


async def _check_status(response: Response) -> None:
    """Raises `RemoteAway` for what may go better next time, `RemoteRefused` for everything else that is no success."""
    status = response.status
    if 200 <= status < 300:
        return
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    words = await _words(response)
    text = f"its endpoint answers HTTP {status} {phrase}".rstrip() + (f": {words}" if words else "")
    if is_passing(status):
        raise RemoteAway(text, retry_after=retry_after(response))
    raise RemoteRefused(text, status=status)


async def _words(response: Response) -> str:
    """What a refusal says, as far as it can be read."""
    body = bytearray()
    try:
        async with asyncio.timeout(AFTER_SECONDS):
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > REFUSAL_BYTES:
                    break
    except (OSError, aiohttp.ClientError):
        return ""
    try:
        return said_in(orjson.loads(body))
    except orjson.JSONDecodeError:
        text = body.decode(errors="replace").strip()
        # a page for browsers says little, and bytes that are no text say nothing
        return "" if text.startswith("<") or "\ufffd" in text else said_in(text)
