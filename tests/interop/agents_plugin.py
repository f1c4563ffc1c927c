"""The agents that the official clients talk to: a plugin file for the daemon, its skills in one preset.

It is written against the plugin API alone, and is read as text by the fixtures.
"""

import asyncio

from a2ad import (
    Artifact,
    AuthRequired,
    Executor,
    InputRequired,
    Reply,
    Status,
    TaskFailed,
    TaskRejected,
    TaskState,
    hookimpl,
)

doors = {}


class Letters(Executor):
    """Every character of the prompt as a chunk of its own."""

    async def execute(self, request):
        for letter in request.text:
            yield Artifact(parts=[{"text": letter}], append=True, last_chunk=False)
        yield Artifact(parts=[], append=True, last_chunk=True)


class Work(Executor):
    """Says that it works and goes on until it is cancelled, or until the prompt's door is opened."""

    async def execute(self, request):
        door = doors.setdefault(request.text, asyncio.Event())
        yield Artifact(parts=[{"text": "before "}], append=True, last_chunk=False)
        yield Status(TaskState.WORKING, "at the door")
        await door.wait()
        yield Artifact(parts=[{"text": "after"}], append=True, last_chunk=True)


class Open(Executor):
    """Opens the door that is named by the prompt."""

    async def execute(self, request):
        doors.setdefault(request.text, asyncio.Event()).set()
        yield Artifact(parts=[{"text": "open"}])


class Ask(Executor):
    async def execute(self, request):
        answer = await request.ask("Which city?")
        yield Artifact(parts=[{"text": "Sunny in " + answer["parts"][0]["text"]}])


class AskByRaising(Executor):
    async def execute(self, request):
        if not request.resumed:
            raise InputRequired("Which city?")
        yield Artifact(parts=[{"text": "Rain in " + request.text}])


class Login(Executor):
    async def execute(self, request):
        if not request.resumed:
            raise AuthRequired("Log in first")
        yield Artifact(parts=[{"text": "inside"}])


class Mirror(Executor):
    """Gives the parts of the message back as they came, with everything else that an artifact may have."""

    async def execute(self, request):
        yield Artifact(
            parts=request.message["parts"],
            artifact_id="mirror",
            name="Mirror",
            description="What came",
            metadata={"count": 42, "nested": {"empty": [], "none": None}},
        )


class Numbers(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"data": {"count": 42, "big": 2**53 + 1, "half": 0.5, "list": [1, None, True]}}])


class Quiet(Executor):
    """Silent for longer than the five seconds that the official Python client waits for a byte."""

    async def execute(self, request):
        yield Artifact(parts=[{"text": "one "}], append=True, last_chunk=False)
        await asyncio.sleep(7)
        yield Artifact(parts=[{"text": "two"}], append=True, last_chunk=True)


class Fail(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "half"}])
        raise TaskFailed("Out of paper")


class Reject(Executor):
    async def execute(self, request):
        raise TaskRejected("Not today")
        yield


class Direct(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply(parts=[{"text": "You said " + request.text}])


SKILLS = {
    "chat": None,
    "letters": Letters(),
    "work": Work(),
    "open": Open(),
    "ask": Ask(),
    "ask-by-raising": AskByRaising(),
    "login": Login(),
    "mirror": Mirror(),
    "numbers": Numbers(),
    "quiet": Quiet(),
    "fail": Fail(),
    "reject": Reject(),
    "direct": Direct(),
}


@hookimpl
def a2ad_register_executors(register):
    for name, executor in SKILLS.items():
        if executor is not None:
            register(name, executor)


@hookimpl
def a2ad_register_presets(register):
    skills = [{"id": name, "executor": name if executor else "session"} for name, executor in SKILLS.items()]
    register("interop", {"name": "Interop", "agent": "echo", "skills": skills})
