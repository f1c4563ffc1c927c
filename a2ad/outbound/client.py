"""A call to a remote agent: sent, followed to its end through cuts and retries, and canceled where nobody waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson
import structlog

from a2ad.errors import RemoteAway, RemoteError, RemoteInvalid, RemoteRefused
from a2ad.outbound.answer import ANSWER_BYTES, Answer, Observer
from a2ad.outbound.card import FetchedCard
from a2ad.outbound.envelope import check_status, is_json, read_envelope
from a2ad.outbound.net import Net, Response, bearer, origin_of, read_bounded
from a2ad.outbound.sse import EventReader, EventTooLarge
from a2ad.outbound.text import MESSAGE, Mask, line

#: how often something is tried again
RETRIES = 5
#: how often a stream that gives nothing new is taken up again before the task is asked for instead
STREAM_RETRIES = 2
#: the first pause before a new try, and the longest, in seconds; each is drawn between half and all of it
PAUSE, LONGEST_PAUSE = 0.25, 8.0
#: how often a task is asked for where there is no stream, in seconds
POLL, LONGEST_POLL = 0.2, 5.0
#: what a stream may still say after a terminal or an interrupted state, in seconds
AFTER_SECONDS, AFTER_INTERRUPT_SECONDS = 2.0, 0.5
#: how long a task that nobody waits for may take to be named and canceled, in seconds
CANCEL_SECONDS = 30.0
#: and where the call itself was to wait longer, at most
LONGEST_ABANDON = 600.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a remote's JSON-RPC 1.0 interface is, and how it wants to be called."""

    url: str
    streaming: bool
    tenant: str = ""
    extensions: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    #: its card came from a public address: then it may not lead into a private network
    public_only: bool = False


def endpoint_of(fetched: FetchedCard, token: str | None, token_origins: Collection[str]) -> Endpoint:
    """How the agent of a card is called. The token goes to these origins alone."""
    card = fetched.card
    return Endpoint(
        url=card.endpoint,
        streaming=card.streaming,
        tenant=card.tenant,
        extensions=card.extensions,
        token=token if origin_of(card.endpoint) in token_origins else None,
        public_only=fetched.public,
    )


class Remote:
    """Calls one endpoint. `spawn` keeps the tasks that cancel what nobody waits for any more."""

    def __init__(
        self, net: Net, endpoint: Endpoint, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    ) -> None:
        self.net = net
        self.endpoint = endpoint
        self.spawn = spawn
        self._ids = count(1)

    async def call(self, message: dict[str, Any], *, patience: float, observer: Observer | None = None) -> Answer:
        """Send an A2A message and wait until its task has ended or waits for somebody.

        `patience` is in seconds without progress: it starts anew with everything that the remote says. Raises
        `RemoteError`. Where the caller is cancelled, or time is up, the remote's task is canceled.
        """
        call = _Call(self, message, patience, Answer(observer))
        # a task of its own: who stops waiting must not cut off the answer that says which task is to be canceled
        running = asyncio.create_task(call.run())
        try:
            async with asyncio.timeout(patience) as call.deadline:
                return await asyncio.shield(running)
        except TimeoutError:
            why = f" ({call.trouble})" if call.trouble else ""
            raise RemoteAway(f"the agent made no progress for {patience:g} s{why}") from None
        finally:
            if not running.done() or (call.answer.task_id is not None and not call.answer.settled):
                self.spawn(call.abandon(running))

    def envelope(self, method: str, params: dict[str, Any]) -> tuple[int, bytes]:
        call_id = next(self._ids)
        if self.endpoint.tenant:
            params = {"tenant": self.endpoint.tenant, **params}
        return call_id, orjson.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})

    def headers(self, accept: str) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": accept, "A2A-Version": "1.0"}
        if self.endpoint.extensions:
            headers["A2A-Extensions"] = ", ".join(self.endpoint.extensions)
        return headers | bearer(self.endpoint.token)

    async def rpc(self, method: str, params: dict[str, Any]) -> Any:
        """The `result` of a JSON-RPC call. Raises `RemoteError`."""
        call_id, body = self.envelope(method, params)
        async with self.net.request(
            "POST",
            self.endpoint.url,
            headers=self.headers("application/json"),
            body=body,
            public_only=self.endpoint.public_only,
        ) as response:
            await check_status(response)
            return read_envelope(await read_bounded(response, ANSWER_BYTES), call_id)


class _Call:
    def __init__(self, remote: Remote, message: dict[str, Any], patience: float, answer: Answer) -> None:
        self.answer = answer
        self._remote = remote
        self._origin = origin_of(remote.endpoint.url)
        self._mask = Mask([remote.endpoint.token or ""])
        self._patience = patience
        self.deadline = asyncio.Timeout(None)
        self._known = asyncio.Event()
        self._last_event_id: str | None = None
        self._send_params: dict[str, Any] = {"message": message}
        #: what went wrong last, and is tried again
        self.trouble = ""
        #: how often there was progress
        self._steps = 0
        #: a stream is being read: a refusal is one within it
        self._reading = False
        #: nobody waits for the answer any more
        self._abandoned = False

    async def run(self) -> Answer:
        await self._send()
        if not self.answer.settled:
            await self._follow()
        if not self.answer.exact:
            await self._complete()
        return self.answer

    def _progress(self) -> None:
        self._steps += 1
        self.trouble = ""
        if self.answer.started:
            self._known.set()
        if self.deadline.when() is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + self._patience)

    # the message

    async def _send(self) -> None:
        """Until the task's id is known, or there is a direct answer. The same message each time: its id says so."""
        failures = 0
        while True:
            try:
                if self._remote.endpoint.streaming:
                    await self._stream("SendStreamingMessage", self._send_params)
                else:
                    self._take(await self._remote.rpc("SendMessage", self._send_params))
                if not self.answer.started:
                    raise RemoteAway("the agent's stream ended before it said anything")
                return
            except RemoteAway as error:
                if self.answer.started:
                    return
                if self._abandoned and error.unsent:
                    raise  # there is nothing to be canceled
                failures += 1
                await self._pause(failures, error)

    async def _pause(self, failures: int, error: RemoteAway) -> None:
        """Wait before the next try; raises the error where there is none."""
        if failures > RETRIES:
            raise RemoteAway(f"{error} (tried {failures} times)")
        self.trouble = str(error)
        pause = min(LONGEST_PAUSE, PAUSE * 2 ** (failures - 1)) * random.uniform(0.5, 1)  # noqa: S311 - spreads load
        if error.retry_after is not None:
            when = self.deadline.when()
            if when is not None and asyncio.get_running_loop().time() + error.retry_after >= when:
                raise RemoteAway(f"{error}, and asks to come back in {error.retry_after:g} s")
            pause = max(pause, error.retry_after)
        await asyncio.sleep(pause)

    def _take(self, result: Any) -> bool:
        changed = self.answer.take_result(result)
        if changed:
            self._progress()
        return changed

    # its task

    async def _follow(self) -> None:
        """To the end of a task whose stream was cut, or that was not streamed."""
        streaming = self._remote.endpoint.streaming
        failures, idle = 0, 0
        while not self.answer.settled:
            before = self._steps
            try:
                if streaming:
                    streaming = await self._resubscribe()
                if not streaming and not self.answer.settled:
                    await self._poll()
            except RemoteAway as error:
                failures = 1 if self._steps != before else failures + 1
                if streaming and failures > STREAM_RETRIES:
                    streaming, failures = False, 0
                else:
                    await self._pause(failures, error)
                continue
            failures = 0
            idle = 0 if self._steps != before else idle + 1
            if not self.answer.settled:
                await asyncio.sleep(min(LONGEST_POLL, POLL * 1.5**idle))

    async def _resubscribe(self) -> bool:
        """Take up the stream again; False where the remote does not give it."""
        try:
            await self._stream("SubscribeToTask", {"id": self.answer.task_id})
        except RemoteRefused:
            return False
        return True

    async def _poll(self) -> None:
        task = await self._remote.rpc("GetTask", {"id": self.answer.task_id})
        if isinstance(task, dict) and task.get("id") != self.answer.task_id:
            raise RemoteInvalid("the agent answers with another task than the one asked for")
        if self.answer.take_task(task):
            self._progress()

    async def _complete(self) -> None:
        """Frames may be missing: what the task came to is asked for once more, and else taken as it is."""
        try:
            async with asyncio.timeout(AFTER_SECONDS):
                await self._poll()
        except (RemoteError, TimeoutError):
            log.warning("outbound.incomplete", agent=self._origin)

    # streams

    async def _stream(self, method: str, params: dict[str, Any]) -> None:
        """Read a stream to its end, or until the task has settled. Raises `RemoteAway` where it was cut before."""
        answer = self.answer
        try:
            streamed = await self._read_stream(method, params)
        except RemoteAway:
            answer.exact = answer.whole or not answer.started
            if answer.settled:
                return
            raise
        except RemoteRefused as error:
            if answer.task_id is None:
                raise
            # an error within a stream: what became of the task is asked for
            await self._poll()
            if not answer.settled:
                raise
            if answer.failed and not answer.status_parts and self._reading:
                answer.explain(str(error))  # the task does not say why
            return
        if streamed and not answer.settled:
            answer.exact = not answer.started
            raise RemoteAway("the agent's stream was cut")

    async def _read_stream(self, method: str, params: dict[str, Any]) -> bool:
        """False where the answer was no stream, but one plain response."""
        remote = self._remote
        self._reading = False
        call_id, body = remote.envelope(method, params)
        headers = remote.headers("text/event-stream, application/json")
        if self._last_event_id is not None and method == "SubscribeToTask":
            headers["Last-Event-ID"] = self._last_event_id
        endpoint = remote.endpoint
        async with remote.net.request(
            "POST", endpoint.url, headers=headers, body=body, public_only=endpoint.public_only
        ) as response:
            await check_status(response)
            if response.content_type == "text/event-stream":
                self._reading = True
                continues = method == "SendStreamingMessage" and "taskId" in self._send_params["message"]
                await self._read_events(response, call_id, continues=continues)
                return True
            self._take(read_envelope(await read_bounded(response, ANSWER_BYTES), call_id))
            return False

    async def _read_events(self, response: Response, call_id: int, *, continues: bool) -> None:
        """To the stream's end; where the task has settled, no longer than what may still come takes.

        `continues`: the first frame may be the task as it was before the message came (the JavaScript SDK wants one).
        """
        reader = EventReader(ANSWER_BYTES)
        chunks = aiter(response.content.iter_any())
        until: float | None = None
        while True:
            try:
                chunk = await _next(chunks, until)
            except TimeoutError:
                self.answer.exact = self.answer.whole
                return
            try:
                events = reader.feed(chunk) if chunk else reader.end()
            except EventTooLarge:
                raise RemoteInvalid(f"an event of the stream is larger than {ANSWER_BYTES} bytes") from None
            for event in events:
                if event.name not in {"message", "error"} or not event.data.strip():
                    continue  # a heartbeat, or another's business
                if not chunk and not is_json(event.data):
                    return  # half an event: it was cut
                self._take(read_envelope(event.data, call_id))
                self._last_event_id = event.id
                self.answer.provisional = continues and self.answer.asks
                continues = False
            if not chunk:
                self.answer.provisional = False
                return
            if not self.answer.settled:
                until = None
            elif until is None:
                patience = AFTER_INTERRUPT_SECONDS if self.answer.asks else AFTER_SECONDS
                until = asyncio.get_running_loop().time() + patience

    # the end of a call that nobody waits for

    async def abandon(self, running: asyncio.Task[Answer]) -> None:
        """Cancel the remote's task, once its id is known."""
        answer = self.answer
        try:
            self._abandoned = True
            async with asyncio.timeout(min(max(CANCEL_SECONDS, self._patience), LONGEST_ABANDON)):
                known = asyncio.ensure_future(self._known.wait())
                await asyncio.wait([running, known], return_when=asyncio.FIRST_COMPLETED)
                known.cancel()
                running.cancel()
                await asyncio.wait([running])
                if answer.task_id is not None and (answer.state is None or not answer.state.terminal):
                    await self._remote.rpc("CancelTask", {"id": answer.task_id})
                    log.info("outbound.canceled", agent=self._origin)
        except (RemoteError, TimeoutError) as error:
            log.info("outbound.cancel_failed", agent=self._origin, error=line(str(error), MESSAGE, self._mask))
        finally:
            running.cancel()
            if running.done() and not running.cancelled():
                running.exception()  # it was told already, or nobody waits for it


async def _next(chunks: AsyncIterator[bytes], until: float | None) -> bytes:
    """The next piece, empty at the end. Raises `TimeoutError` at that moment of the loop's clock."""
    if until is None:
        return await anext(chunks, b"")
    async with asyncio.timeout_at(until):
        return await anext(chunks, b"")
