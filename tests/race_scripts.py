"""Executors for tests of races: what a run does is a plain generator function that a test names by its skill."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from a2ad import Artifact, Executor, InputRequired


class Puppet(Executor):
    """Does what the test has put under the name of the task's skill."""

    lab: ClassVar[Any]

    def execute(self, request: Any) -> Any:
        return self.lab.scripts[request.skill](request)


class Replying(Puppet):
    may_reply = True


class Resuming(Puppet):
    can_resume = True


async def asks(request: Any) -> Any:
    """Asks once, and says what it was told."""
    answer = await request.ask("which?")
    yield Artifact([{"text": answer["parts"][0]["text"]}])


async def asks_by_ending(request: Any) -> Any:
    """The same, with a run for each message."""
    if not request.resumed:
        raise InputRequired("which?")
    yield Artifact([{"text": request.text}])


async def works(request: Any) -> Any:
    yield Artifact([{"text": "begun"}])
    await asyncio.sleep(10)
    yield Artifact([{"text": "done"}])


async def ends(request: Any) -> Any:
    yield Artifact([{"text": "done"}])


async def never_ends(request: Any) -> Any:
    yield Artifact([{"text": "begun"}])
    await asyncio.sleep(1000)


def gives_up(told: list[Any], seconds: float = 1, **question: Any) -> Any:
    async def script(request: Any) -> Any:
        if request.resumed:
            told.append("a second run")
        try:
            told.append(await asyncio.wait_for(request.ask("which?", **question), seconds))
        except TimeoutError:
            told.append("given up")
        await asyncio.sleep(2)
        yield Artifact([{"text": "done"}])

    return script
