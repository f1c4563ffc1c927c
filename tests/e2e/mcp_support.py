"""What the tests of `a2ad mcp` share: a daemon that is connected to itself, and the server as a client starts it."""

import asyncio
import fcntl
import json
import os
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import PATIENCE, until

T = TypeVar("T")

#: Skills that do what the first word of the prompt says, and an agent that tells how its tools' server is started.
PLUGIN = """
import asyncio, json, os
from pathlib import Path
from a2ad import (Agent, AgentSession, Artifact, Executor, Status, TaskFailed, TaskRejected, TaskState, TextDelta,
                  TurnEnd, hookimpl)

LAB = Path(os.environ["LAB"])


async def opened(gate):
    while not (LAB / gate).exists():
        await asyncio.sleep(0.005)


class Scripted(Executor):
    async def execute(self, request):
        word, _, rest = request.text.partition(" ")
        if word == "wait":
            (LAB / f"{rest}.begun").write_text(request.task_id)
            await opened(rest)
        elif word == "work":
            for step in ("first", "second"):
                yield Status(TaskState.WORKING, f"the {step} step of {rest}")
                await opened(f"{rest}.{step}")
        elif word == "write":
            yield Artifact(parts=[{"text": "12345"}], append=True, last_chunk=False)
            await opened(rest)
        elif word == "fail":
            raise TaskFailed(rest)
        elif word == "reject":
            raise TaskRejected(rest)
        elif word in {"ask", "login"}:
            state = TaskState.INPUT_REQUIRED if word == "ask" else TaskState.AUTH_REQUIRED
            rest = (await request.ask(f"{word}: which one?", state=state))["parts"][0]["text"]
        elif word == "context":
            rest = request.context_id
        yield Artifact(parts=[{"text": f"{word} {rest}".strip()}], append=True, last_chunk=True)


class Told(AgentSession):
    def __init__(self, tools):
        self.tools = tools

    async def prompt(self, parts, attachments):
        yield TextDelta(json.dumps(self.tools.mcp_server))
        yield TurnEnd()


class Telling(Agent):
    async def open(self, context):
        return Told(context.tools)


@hookimpl
def a2ad_register_executors(register):
    register("scripted", Scripted())


@hookimpl
def a2ad_register_agents(register):
    register("telling", lambda preset: Telling())


@hookimpl
def a2ad_register_presets(register):
    register("lab", {"agent": "echo", "skills": [{"id": "script", "executor": "scripted", "name": "Script"},
                                                 {"id": "other", "executor": "scripted", "name": "Other"}]})
    register("telling", {"agent": "telling"})
"""
#: the skill `script` of the connection `remote`
TOOL = "a2a__remote__script"


@contextmanager
def connected_to_itself(folder: Path) -> Iterator[DaemonProcess]:
    """The daemon of a module's tests; `remote` is the connection."""
    with running(folder, plugin=PLUGIN, env={"LAB": str(folder)}) as daemon:
        connect(daemon)
        yield daemon


def connect(daemon: DaemonProcess, name: str = "remote") -> None:
    """Publish an agent at `/<name>` and connect the daemon to it, under the same name."""
    daemon.create_inbound(preset="lab", endpointPath=f"/{name}")
    daemon.act("outbound.create", name=name, agentCardUrl=f"{daemon.url}/{name}/agent-card.json")


def begun(daemon: DaemonProcess, gate: str) -> str:
    """The id of the remote's task that waits for this gate; empty where there is none yet."""
    note = daemon.folder / f"{gate}.begun"
    return note.read_text() if note.exists() else ""


def state_of(daemon: DaemonProcess, task_id: str) -> str:
    return str(daemon.read(f"/task?id={task_id}")["state"])


# with the official client


@asynccontextmanager
async def client_of(
    daemon: DaemonProcess, *options: str, mode: str = "auto", started: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[Client]:
    """A client with a server of its own, started as `started` says, which must say nothing on its stderr."""
    server = started or {"command": sys.executable, "args": command(daemon.control, *options)}
    with (daemon.folder / f"mcp-{os.urandom(4).hex()}.stderr").open("w+") as errlog:
        transport = stdio_client(StdioServerParameters(**server), errlog=errlog)
        async with Client(transport, mode=mode, **more) as client:  # type: ignore[arg-type]
            yield client
        errlog.seek(0)
        assert errlog.read() == ""


def command(url: str, *options: str) -> list[str]:
    return ["-m", "a2ad", "mcp", "--url", url, *options]


async def eventually(condition: Callable[[], T], what: str) -> T:
    """Wait until `condition()` is true in the widest sense, and return what it returned."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := condition()):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it did not come about: {what}") from None
    return found


def text_of(result: CallToolResult) -> str:
    assert [part.type for part in result.content] == ["text"]
    return result.content[0].text  # type: ignore[union-attr]


async def called(client: Client, prompt: str, tool: str = TOOL, **more: Any) -> str:
    """What a call that succeeds says."""
    result = await client.call_tool(tool, {"prompt": prompt, **more})
    assert not result.is_error, text_of(result)
    return text_of(result)


async def refused(client: Client, arguments: dict[str, Any] | None, tool: str = TOOL) -> str:
    """What a call that fails says: it is a tool's error, not one of the protocol."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


# without it


class ServerProcess:
    """The server as a process that speaks JSON lines: for what the client's library does on its own."""

    def __init__(self, url: str, folder: Path, env: dict[str, str]) -> None:
        self.errors = folder / f"mcp-{os.urandom(4).hex()}.stderr"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("A2AD_")}
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *command(url)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**environment, **env},
            )

    def say(self, method: str, params: Any = None, **more: Any) -> None:
        assert self.process.stdin is not None
        told = {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {}), **more}
        self.process.stdin.write(json.dumps(told).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def unread(self) -> int:
        """How much stands in its stdout, in bytes."""
        assert self.process.stdout is not None
        return int.from_bytes(fcntl.ioctl(self.process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def begin_call(self, daemon: DaemonProcess, gate: str) -> str:
        """Shake hands and call something that waits for this gate. Returns the id of the remote's task."""
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.say("initialize", client, id=1)
        assert self.hear()["id"] == 1
        self.say("notifications/initialized")
        self.say("tools/call", {"name": TOOL, "arguments": {"prompt": f"wait {gate}"}}, id=2)
        return until(lambda: begun(daemon, gate), f"a task that waits for {gate}")


@contextmanager
def server_process(url: str, folder: Path, **env: str) -> Iterator[ServerProcess]:
    server = ServerProcess(url, folder, env)
    with server.process:
        try:
            yield server
        finally:
            server.process.kill()
