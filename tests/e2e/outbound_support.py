"""Daemons that call each other for the tests: agents with tools, and what they talk to."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.daemon import DaemonProcess

#: The preset `caller`: an agent that does what the message says, with its tools. `remote`: an executor likewise.
PLUGIN = """
import asyncio, json
from pathlib import Path

from a2ad import (Agent, AgentSession, Artifact, Deny, Executor, InputRequired, Status, TaskFailed, TaskState,
                  TextDelta, ToolCall, ToolError, ToolResult, TurnEnd, hookimpl)


async def appears(path):
    while not Path(path).exists():
        await asyncio.sleep(0.01)


class Session(AgentSession):
    def __init__(self, context):
        self.context = context

    async def prompt(self, parts, attachments):
        word, _, rest = parts[0]["text"].partition(" ")
        if word == "tools":
            yield TextDelta(json.dumps(self.context.tools.list()))
        elif word == "session":
            yield TextDelta(self.context.session_id)
        elif word == "chain":
            async for event in self.call(rest, {"prompt": parts[0]["text"]}):
                yield event
        elif word == "call":
            tool, _, arguments = rest.partition(" ")
            async for event in self.call(tool, json.loads(arguments)):
                yield event
        elif word == "both":
            calls = [self.context.tools.call(rest, {"prompt": f"echo {n}"}) for n in range(2)]
            yield TextDelta(" ".join(await asyncio.gather(*calls)))
        elif word == "staggered":  # the second call is made once there is a file, while the first goes on
            first, first_prompt, gate, second, second_prompt = json.loads(rest)
            going = asyncio.create_task(self.context.tools.call(first, {"prompt": first_prompt}))
            await appears(gate)
            answer = await self.context.tools.call(second, {"prompt": second_prompt})
            yield TextDelta(f"{await going} {answer}")
        else:
            yield TextDelta(f"you said {parts[0]['text']}")
        yield TurnEnd()

    async def call(self, tool, arguments):
        yield ToolCall("1", tool, arguments)
        try:
            answer = await self.context.tools.call(tool, arguments)
        except ToolError as error:
            yield ToolResult("1", str(error), error=True)
            yield TextDelta(f"error: {error}")
        else:
            yield ToolResult("1", answer)
            yield TextDelta(answer)


class Caller(Agent):
    async def open(self, context):
        return Session(context)


class Remote(Executor):
    async def execute(self, request):
        word, _, rest = request.text.partition(" ")
        if word == "echo":
            yield Artifact(parts=[{"text": rest}])
        elif word == "context":
            yield Artifact(parts=[{"text": request.context_id}])
        elif word == "gate":
            yield Status(TaskState.WORKING, "at the gate")
            await appears(rest)
            yield Artifact(parts=[{"text": "open"}])
        elif word == "fail":
            yield Artifact(parts=[{"text": "half"}])
            raise TaskFailed("the disk is full")
        elif word == "ask":
            answer = await request.ask("Which city?")
            await asyncio.sleep(1)
            yield Artifact(parts=[{"text": "Sunny in " + answer["parts"][0]["text"]}])
        elif word == "raise" and not request.resumed:
            raise InputRequired("Which city?")
        else:
            yield Artifact(parts=[{"text": f"resumed with {request.text}"}])


@hookimpl
def a2ad_register_agents(register):
    register("caller", lambda preset: Caller())


@hookimpl
def a2ad_register_executors(register):
    register("remote", Remote())


@hookimpl
def a2ad_register_presets(register):
    register("caller", {"agent": "caller"})
    register("remote", {"skills": [{"id": "chat", "name": "Chat", "description": "Does what it is told",
                                    "executor": "remote"}, {"id": "other", "executor": "remote"}]})


@hookimpl
def a2ad_outbound_call(call):
    with Path("calls").open("a") as calls:
        calls.write(json.dumps([call.connection, call.tool, call.skill, call.text, call.caller]) + "\\n")
    return Deny("not that word") if "forbidden" in call.text else None
"""


class Pair:
    """A daemon with an agent that has tools, `caller`, and a remote agent, `remote`: of itself, or of another."""

    def __init__(self, daemon: DaemonProcess, other: DaemonProcess | None = None, **more: Any) -> None:
        self.daemon = daemon
        self.other = other or daemon
        self.caller = daemon.create_inbound(name="caller", preset="caller")
        self.remote = self.other.create_inbound(name="remote", preset="remote")
        self.outbound = connect(daemon, self.other.endpoint(self.remote), name="b", **more)

    @property
    def row(self) -> dict[str, Any]:
        return next(row for row in self.daemon.read("")["outbounds"] if row["id"] == self.outbound)

    def call(self, prompt: str, tool: str = "a2a__b__chat", *, task: str | None = None, **more: Any) -> dict[str, Any]:
        """Have the agent call the tool; its task."""
        arguments = {"prompt": prompt, **({"taskId": task} if task else {})}
        found: dict[str, Any] = self.daemon.send(self.caller, f"call {tool} {json.dumps(arguments)}", **more)
        return found

    def operator(self, text: str, status: int = 200, **more: Any) -> dict[str, Any]:
        return self.daemon.act("outbound.call", status=status, text=text, **{"id": self.outbound, **more})

    def remote_tasks(self, state: str = "") -> list[dict[str, Any]]:
        rows = self.other.read(f"?taskServerId={self.remote}&taskLimit=500")["tasks"]
        return [row for row in rows if row["state"].endswith(state)]


def connect(daemon: DaemonProcess, endpoint: str, **fields: Any) -> str:
    return str(daemon.act("outbound.create", agentCardUrl=f"{endpoint}/agent-card.json", **fields)["id"])


def said(task: Any) -> str:
    return "".join(part["text"] for a in task["artifacts"] if a["artifactId"] == "result" for part in a["parts"])


Launch = Callable[..., DaemonProcess]


@contextmanager
def launching(folder: Path) -> Iterator[Launch]:
    """Gives a function that starts a daemon by a name: once more, with its state and on its port. All are ended."""
    started: dict[str, list[DaemonProcess]] = {}

    def start(name: str, **more: Any) -> DaemonProcess:
        home = folder / name
        home.mkdir(exist_ok=True)
        before = started.setdefault(name, [])
        port = int(before[-1].url.rpartition(":")[2]) if before else 0
        before.append(DaemonProcess(home, plugin=PLUGIN, port=port, **more))
        return before[-1]

    try:
        yield start
    finally:
        for daemons in started.values():
            for each in daemons:
                each.kill()
