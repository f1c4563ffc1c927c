"""What the tests of the control API, of the process and of durability share: raw requests, waiting, a plugin."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from tests.daemon import DaemonProcess, message

T = TypeVar("T")
#: a bound that only a hang reaches, in seconds
PATIENCE = 60.0

#: The preset `scripted`: executors that do what the message says, in the skills `chat` and `other`; and the preset
#: `memory`: an agent that counts the turns of its conversation, and knows which of its handles it is.
PLUGIN = """
import asyncio
from itertools import count
from pathlib import Path

from a2ad import (Agent, AgentSession, Artifact, Executor, InputRequired, NeedsInput, TextDelta, TurnEnd, hookimpl)

handles = count(1)


async def appears(path):
    while not Path(path).exists():
        await asyncio.sleep(0.01)


class Scripted(Executor):
    async def execute(self, request):
        word, _, rest = request.text.partition(" ")
        yield Artifact(parts=[{"text": f"{request.skill} begun"}], append=True, last_chunk=False)
        if word == "wait":
            await appears(rest)
        elif word == "ask":
            answer = await request.ask("which one?")
            rest = answer["parts"][0]["text"]
        elif word == "raise":
            raise InputRequired("which one?")
        yield Artifact(parts=[{"text": f", ended {rest if word != 'wait' else ''}".rstrip()}], append=True,
                       last_chunk=True)


class MemorySession(AgentSession):
    def __init__(self, turns):
        self.turns = turns
        self.handle = next(handles)

    async def prompt(self, parts, attachments):
        word, _, rest = parts[0]["text"].partition(" ")
        yield TextDelta("")
        if word == "wait":
            await appears(rest)
        elif word == "ask":
            yield NeedsInput("which one?")
        self.turns += 1
        yield TextDelta(f"turn {self.turns} of handle {self.handle}")
        yield TurnEnd()

    async def answer(self, parts):
        pass

    def state(self):
        return {"turns": self.turns}


class MemoryAgent(Agent):
    async def open(self, context):
        return MemorySession((context.resume or {"turns": 0})["turns"])


@hookimpl
def a2ad_register_executors(register, config):
    register("scripted", Scripted(), summary="Does what the message says")


@hookimpl
def a2ad_register_agents(register, config):
    register("memory", lambda preset: MemoryAgent(), summary="Counts its turns")


@hookimpl
def a2ad_register_presets(register, config):
    register("scripted", {"name": "Scripted", "description": "Does what it is told",
                          "skills": [{"id": "chat", "executor": "scripted"}, {"id": "other", "executor": "scripted"}]})
    register("memory", {"agent": "memory", "skills": [{"id": "chat", "name": "Chat", "description": "Talk"}]})
"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def connection(url: str, *, source: str | None = None) -> Iterator[http.client.HTTPConnection]:
    address = urlsplit(url)
    assert address.hostname is not None
    opened = http.client.HTTPConnection(
        address.hostname, address.port, timeout=PATIENCE, source_address=(source, 0) if source else None
    )
    try:
        yield opened
    finally:
        opened.close()


def raw(
    url: str,
    method: str,
    target: str,
    headers: Sequence[tuple[str, str]] = (),
    body: bytes | Sequence[bytes] | None = None,
    *,
    host: str | None = "",
    read: bool = True,
    source: str | None = None,
) -> Answer:
    """A request with exactly these headers and this target, as it is spelt. `host` empty is the URL's own, None sends
    none; a list of bytes is a chunked body. Without `read` only the head of the answer is waited for.
    """
    with connection(url, source=source) as opened:
        opened.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        if host is not None:
            opened.putheader("Host", host or urlsplit(url).netloc)
        for name, value in headers:
            opened.putheader(name, value)
        chunked = body is not None and not isinstance(body, bytes)
        if chunked:
            opened.putheader("Transfer-Encoding", "chunked")
        elif body is not None:
            opened.putheader("Content-Length", str(len(body)))
        opened.endheaders()
        if body is not None:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may be answered before it was read
                opened.send(b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in body) + b"0\r\n\r\n" if chunked else body)
        response = opened.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read() if read else b"")


def until(condition: Callable[[], T], what: str, within: float = PATIENCE) -> T:
    """Wait until `condition()` is true in the widest sense, and return what it returned."""
    ends = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > ends:
            raise AssertionError(f"it did not come about: {what}")
        time.sleep(0.02)
    return found


class Background:
    """A call in a thread of its own; `result()` waits for what it returned or raised."""

    def __init__(self, call: Callable[..., Any], *arguments: Any, **more: Any) -> None:
        self._outcome: list[Any] = []
        self._error: list[BaseException] = []

        def run() -> None:
            try:
                self._outcome.append(call(*arguments, **more))
            except BaseException as error:  # noqa: BLE001 - handed on
                self._error.append(error)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def error(self) -> BaseException | None:
        """What it raised, or None."""
        self._thread.join(PATIENCE)
        assert self.done, "the call did not come back"
        return self._error[0] if self._error else None

    def result(self) -> Any:
        error = self.error()
        if error is not None:
            raise error
        return self._outcome[0]


def start_task(daemon: DaemonProcess, inbound: str, text: str, **more: Any) -> str:
    """Send without waiting; the id of the task."""
    return str(daemon.send(inbound, text, configuration={"returnImmediately": True}, **more)["id"])


def get_task(daemon: DaemonProcess, inbound: str, task_id: str) -> Any:
    """GetTask's result."""
    answer = daemon.rpc(inbound, "GetTask", {"id": task_id})
    assert "result" in answer, answer
    return answer["result"]


def state_of(daemon: DaemonProcess, task_id: str) -> str:
    """The task's state without `TASK_STATE_`, as the control API has it."""
    return str(daemon.read(f"/task?id={task_id}")["state"]).removeprefix("TASK_STATE_")


def await_state(daemon: DaemonProcess, task_id: str, *states: str) -> Any:
    """Wait for the task to be in one of these states; the control API's row of it."""

    def row() -> Any:
        return (found := daemon.read(f"/task?id={task_id}"))["state"].removeprefix("TASK_STATE_") in states and found

    return until(row, f"{task_id} is {' or '.join(states)}")


def text_of(task: Any) -> str:
    """The text of the task's only artifact."""
    (artifact,) = task["artifacts"]
    return "".join(part["text"] for part in artifact["parts"])


def rpc_status(
    daemon: DaemonProcess, inbound: str, token: str | None = None, text: str = "hello", path: str | None = None
) -> tuple[int, Any]:
    """The HTTP status of a SendMessage, with this token."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    envelope = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(text)}}
    url = daemon.endpoint(inbound) if path is None else daemon.url + path
    return daemon.request("POST", url, envelope, headers=headers)


def serve(folder: Path, *options: str, listen: str = "127.0.0.1:0", state: Path | None = None) -> list[str]:
    """The command of a daemon that keeps its state in `folder`."""
    state_dir = str(state or folder / "state")
    return [sys.executable, "-m", "a2ad", "serve", "--listen", listen, "--state-dir", state_dir, *options]


def failed_start(folder: Path, *options: str, traceback: bool = False, **more: Any) -> str:
    """Run a daemon that cannot start: it ends by itself, with status 1 or 2, nothing on its standard output and no
    traceback (but that of a plugin, where it is said). Returns what it says on stderr."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("A2AD_")}
    ended = subprocess.run(
        serve(folder, *options, **more),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=folder,
        env=environment | {"XDG_CONFIG_HOME": "/nonexistent"},
    )
    assert ended.returncode in {1, 2}, (ended.returncode, ended.stderr)
    assert ended.stdout == ""
    assert traceback or "Traceback" not in ended.stderr
    return ended.stderr


class SseEvent(NamedTuple):
    name: str
    id: str | None
    data: Any


class SseEvents:
    """A request that is answered with a stream: iterate over its events, or take the `next()` one; leave the context
    to close it.
    """

    def __init__(
        self, url: str, method: str, target: str, body: bytes | None = None, status: int = 200, **headers: str
    ) -> None:
        self._stack = ExitStack()
        opened = self._stack.enter_context(connection(url))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        opened.request(method, target, body, {"Accept": "text/event-stream", **named})
        self.response = opened.getresponse()
        assert self.response.status == status, self.response.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[SseEvent]:
        while True:
            try:
                yield self.next()
            except EOFError:
                return

    def next(self) -> SseEvent:
        """The next event, past the comments. Raises `EOFError` at the end."""
        fields: dict[str, str] = {}
        for line in iter(self.response.readline, b""):
            text = line.decode().rstrip("\n")
            if text and not text.startswith(":"):
                name, _, value = text.partition(": ")
                fields[name] = value
            elif not text and fields:
                return SseEvent(fields["event"], fields.get("id"), json.loads(fields["data"]))
        raise EOFError
