"""`a2ad send`: a message to any A2A agent, without a daemon."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import click
import structlog

from a2ad.cli.inputs import json_option, text_argument, token_of_variable
from a2ad.cli.terminal import Conversation, note, tell_output_error
from a2ad.errors import RemoteError, RemoteRefused
from a2ad.model import TaskState
from a2ad.outbound.answer import Answer, Said, Stated
from a2ad.outbound.card import fetch_card
from a2ad.outbound.client import CANCEL_SECONDS, Remote, endpoint_of
from a2ad.outbound.contract import new_message
from a2ad.outbound.net import Net, origin_of
from a2ad.outbound.telling import size_alone, tell
from a2ad.outbound.text import MESSAGE, Mask, StreamMask, line

#: how long a task may take to be canceled where the agent has been silent for too long already
LAST_SECONDS = 5.0


@click.command()
@click.argument("card_url")
@click.argument("text")
@click.option("--skill", metavar="ID", help="The skill that is meant, as the agent's card names it.")
@click.option("--context", "context_id", metavar="ID", help="Go on with this conversation; --json tells its id.")
@click.option("--task", "task_id", metavar="ID", help="Answer this task, which waits.")
@click.option("--token-env", metavar="VAR", help="The variable that holds the agent's bearer token.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, max=86_400, min_open=True),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long the agent may make no progress.",
)
@json_option
def send(
    card_url: str,
    text: str,
    skill: str | None,
    context_id: str | None,
    task_id: str | None,
    token_env: str | None,
    timeout: float,
    *,
    as_json: bool,
) -> None:
    """Send a text to any A2A agent, without a daemon.

    The agent's card is at CARD_URL, or below it; a TEXT of `-` is standard input.

    What the agent answers is printed as it comes, its statuses go to stderr. The exit status is 0 where its task
    completed, 3 where it needs an answer or an authorisation (--task continues it), else 1. Ctrl-C cancels the task.

    \b
    a2ad send http://127.0.0.1:3080/a2a/demo "hello"
    a2ad send https://agents.example.org --skill summarise --token-env TOKEN - < report.txt
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    token = token_of_variable(token_env, "--token-env") if token_env else None
    _check_url(card_url)
    _silence_logs()
    message = new_message(text_argument(text), skill=skill, contextId=context_id, taskId=task_id)
    sender = _Sender(card_url, token, timeout, Conversation(as_json=as_json))
    status = asyncio.new_event_loop().run_until_complete(sender.run(message))
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # nobody reads it, or there is none
            stream.flush()
    os._exit(status)  # a thread that still looks up a name must not keep the process


class _Sender:
    """One message. Whatever ends the call, the remote's task is canceled where it goes on."""

    def __init__(self, card_url: str, token: str | None, patience: float, conversation: Conversation) -> None:
        self._card_url = card_url
        self._token = token
        self._patience = patience
        self._conversation = conversation
        self._mask = Mask([token or ""])
        self._said = StreamMask(self._mask)
        self._jobs: set[asyncio.Task[None]] = set()
        self._work: asyncio.Task[dict[str, Any]] | None = None
        self._leaving: int | None = None

    async def run(self, message: dict[str, Any]) -> int:
        """The exit status."""
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
            text = line(str(error), MESSAGE, self._mask)
            refused = isinstance(error, RemoteRefused) and error.status == 401
            if refused and endpoint is not None and endpoint.token != self._token:
                text += "; the token goes to the origin of the card alone"
            return {"ok": False, "message": text}
        if rest := self._said.end():
            self._conversation.say(rest)
        return self._result(answer)

    def _result(self, answer: Answer) -> dict[str, Any]:
        text = self._mask(tell(answer, size_alone))
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
                self._conversation.state(update.state, self._mask(update.text))
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


def _check_url(url: str) -> None:
    try:
        origin_of(url)
    except RemoteError as error:
        raise click.BadParameter(str(error), param_hint="CARD_URL") from None


def _silence_logs() -> None:
    """What the client logs is the daemon's."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
