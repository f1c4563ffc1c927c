"""A message to an A2A agent, from this process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import structlog

from a2ad.cli.terminal import Conversation, note, tell_output_error
from a2ad.errors import RemoteError, RemoteRefused
from a2ad.model import TaskState
from a2ad.outbound.answer import Answer, Said, Stated
from a2ad.outbound.card import fetch_card
from a2ad.outbound.client import CANCEL_SECONDS, Remote, endpoint_of
from a2ad.outbound.net import Net, origin_of
from a2ad.outbound.telling import size_alone, tell
from a2ad.outbound.text import MESSAGE, Masks, StreamMask, line

#: how long a task may take to be canceled where the agent has been silent for too long already
LAST_SECONDS = 5.0


class Sender:
    """One message. Whatever ends the call, the remote's task is canceled where it goes on."""

    def __init__(self, card_url: str, token: str | None, patience: float, conversation: Conversation) -> None:
        self._card_url = card_url
        self._token = token
        self._patience = patience
        self._conversation = conversation
        self._masks = Masks([token or ""])
        self._said = StreamMask(self._masks.answers)
        self._jobs: set[asyncio.Task[None]] = set()
        self._work: asyncio.Task[dict[str, Any]] | None = None
        self._leaving: int | None = None

    def send(self, message: dict[str, Any]) -> int:
        """Send it and tell the answer; returns the exit status."""
        return asyncio.new_event_loop().run_until_complete(self._run(message))

    async def _run(self, message: dict[str, Any]) -> int:
        net = Net()
        self._work = asyncio.create_task(self._call(net, message))
        self._heed_signals(asyncio.get_running_loop())
        await asyncio.wait([self._work])
        try:
            status = self._conversation.finish(self._work.result())
        except asyncio.CancelledError:
            status = self._leaving if self._leaving is not None else 1
        except OSError as error:
            tell_output_error(error)
            status = 1
        if self._jobs:
            # the remote's task is being canceled
            await asyncio.wait(self._jobs, timeout=LAST_SECONDS if self._leaving is None else CANCEL_SECONDS)
        await net.close()
        return status

    async def _call(self, net: Net, message: dict[str, Any]) -> dict[str, Any]:
        """The result, as `outbound.call` has it."""
        endpoint = None
        try:
            fetched = await fetch_card(net, self._card_url, token=self._token)
            endpoint = endpoint_of(fetched, self._token, {origin_of(self._card_url)})
            endpoint = replace(endpoint, extensions=())  # it is no daemon, and says no depth
            remote = Remote(net, endpoint, self._spawn)
            answer = await remote.call(message, patience=self._patience, observer=self._observe)
        except RemoteError as error:
            text = line(str(error), MESSAGE, self._masks.errors)
            refused = isinstance(error, RemoteRefused) and error.status == 401
            if refused and endpoint is not None and endpoint.token != self._token:
                text += "; the token goes to the origin of the card alone"
            return {"ok": False, "message": text}
        if rest := self._said.end():
            self._conversation.say(rest)
        return self._result(answer)

    def _result(self, answer: Answer) -> dict[str, Any]:
        text = tell(answer, size_alone, self._masks)
        failed = answer.state is not None and answer.state.terminal and answer.state is not TaskState.COMPLETED
        message = f"the remote task is {answer.state.value}" if answer.state is not None else "answered with a message"
        result = {"ok": not failed, "message": message, "text": text, "state": answer.state}
        ids = {"taskId": answer.task_id, "contextId": answer.context_id}
        return result | {name: value for name, value in ids.items() if value is not None}

    def _observe(self, update: Said | Stated) -> None:
        if self._leaving is not None:
            return
        try:
            if isinstance(update, Stated):
                self._conversation.state(update.state, self._masks.of_status(update.state)(update.text))
            elif text := self._said.feed(update.text):
                self._conversation.say(text)
        except OSError as error:
            # nobody reads any more, or there is no room; it must not be taken for one of the network
            assert self._work is not None
            tell_output_error(error)
            self._leaving = 1
            self._work.cancel()

    def _interrupt(self) -> None:
        assert self._work is not None
        self._conversation.leave()
        note("canceling the remote task; the same again leaves at once")
        self._work.cancel()

    def _spawn(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(job)
        self._jobs.add(task)
        return task

    def _heed_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """The first one cancels the remote's task; a further one, or one after the call, ends the process at once."""

        def heed(number: int, _frame: object) -> None:
            if self._leaving is not None or self._work is None or self._work.done():
                os._exit(128 + number)
            self._leaving = 128 + number
            loop.call_soon_threadsafe(self._interrupt)

        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, heed)


def silence_logs() -> None:
    """What the client logs is the daemon's."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
