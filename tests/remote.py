"""A remote A2A agent, scripted to the byte: a TCP server that answers as it is told, and keeps what it was asked."""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from tests.daemon import DaemonProcess
from tests.e2e.control_support import connection

TASK, CONTEXT = "t1", "c1"
Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A request as it came; the names of its headers are lower case. `at` is the loop's time in seconds."""

    verb: str
    target: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    @property
    def method(self) -> str:
        """That of JSON-RPC, else that of HTTP."""
        return str(self.json.get("method", self.verb)) if self.verb == "POST" else self.verb

    @property
    def params(self) -> Any:
        return self.json["params"]

    @property
    def message(self) -> Any:
        return self.params["message"]

    @property
    def text(self) -> str:
        """The prompt that it carries."""
        return str(self.message["parts"][0]["text"])


class Gate:
    """What a script waits for, and a test opens."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        while not self._open.is_set():
            await asyncio.sleep(0.005)


class Exchange:
    """A request and the connection that it came on, which is closed where its script ends."""

    def __init__(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = asked
        self._reader = reader
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int = 200, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        # as they are: a header may hold what is no text
        await self.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def gone(self) -> None:
        """Until the client has left."""
        while await self._reader.read(1 << 16):
            pass

    def reset(self) -> None:
        """An RST instead of an end."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def envelope(self, result: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.asked.json.get("id"), "result": result}).encode()


Script: TypeAlias = Callable[[Exchange], Awaitable[None]]


class Remote:
    """Each method (`GET` for cards) has its scripts: used once in order, the last one as often as it is asked.

    `card` is served as it is at the moment, at `card_url`. CancelTask is answered; what has no script is refused.
    """

    def __init__(self, *, port: int = 0, **card: Any) -> None:
        self.requests: list[Asked] = []
        self._scripts: dict[str, list[Script]] = {}
        self._loop = asyncio.new_event_loop()
        self._busy: set[asyncio.Task[Any]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._wait_for(asyncio.start_server(self._serve, "127.0.0.1", port))
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.card_url = f"{self.url}/agent-card.json"
        self.card = agent_card(f"{self.url}/rpc", **card)
        self.on("GET", self._serve_card)
        self.on("CancelTask", answer(task("CANCELED")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._loop.is_running():
            self._wait_for(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(30)
            self._loop.close()

    def _wait_for(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _close(self) -> None:
        # a server that is closed while it accepts a connection leaves that behind: first nothing new is accepted
        for listening in self._server.sockets:
            self._loop.remove_reader(listening.fileno())
        while asyncio.all_tasks() - {asyncio.current_task()}:
            for busy in self._busy:
                busy.cancel()
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0.001)
        self._server.close()

    def on(self, method: str, *scripts: Script) -> Self:
        self._scripts[method] = list(scripts)
        return self

    def asked(self, method: str) -> list[Asked]:
        return [asked for asked in list(self.requests) if asked.method == method]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        busy = asyncio.current_task()
        assert busy is not None
        self._busy.add(busy)
        self._writers.add(writer)
        try:
            asked = await self._read(reader)
            self.requests.append(asked)
            scripts = self._scripts.get(asked.method, [refusal(-32601, "no such method")])
            await (scripts.pop(0) if len(scripts) > 1 else scripts[0])(Exchange(asked, reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the test
        finally:
            self._busy.discard(busy)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._writers.discard(writer)

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        start = await reader.readexactly(1)
        if start == b"\x16":
            raise ConnectionError("TLS is not spoken here")
        first, *lines = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        verb, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Asked(verb, target, headers, body, self._loop.time())

    async def _serve_card(self, exchange: Exchange) -> None:
        found = exchange.asked.target == "/agent-card.json"
        await (http(200, json.dumps(self.card).encode()) if found else http(404))(exchange)


# what agents say


def agent_card(url: str, **more: Any) -> Json:
    """A card with one JSON-RPC 1.0 interface; `streaming` and `extensions` go into its capabilities."""
    capabilities = {"streaming": more.pop("streaming", True), "extensions": more.pop("extensions", [])}
    return {
        "name": "Remote",
        "description": "An agent",
        "version": "1.0.0",
        "capabilities": capabilities,
        "skills": [{"id": "chat", "name": "Chat", "description": "Talk", "tags": ["chat"]}],
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        **more,
    }


def said(text: str, role: str = "ROLE_AGENT") -> Json:
    return {"messageId": "m1", "role": role, "parts": [{"text": text}]}


def _status(state: Any, text: str) -> Json:
    name = f"TASK_STATE_{state}" if isinstance(state, str) else state
    return {"state": name, **({"message": said(text)} if text else {})}


def parts_of(content: Any, artifact_id: str = "a") -> Json:
    """An artifact of a text or of parts."""
    return {"artifactId": artifact_id, "parts": [{"text": content}] if isinstance(content, str) else content}


def task(state: Any, text: str = "", *artifacts: Json, task_id: str = TASK, **more: Any) -> Json:
    """A task in this state (without `TASK_STATE_`), with this status message."""
    found = {"id": task_id, "contextId": CONTEXT, "status": _status(state, text), **more}
    return {**found, "artifacts": list(artifacts)} if artifacts else found


def snapshot(state: Any, text: str = "", *artifacts: Json, **more: Any) -> Json:
    """A frame that is a whole task."""
    return {"task": task(state, text, *artifacts, **more)}


def status(state: Any, text: str = "", task_id: str = TASK) -> Json:
    return {"statusUpdate": {"taskId": task_id, "contextId": CONTEXT, "status": _status(state, text)}}


def artifact(content: Any, artifact_id: str = "a", *, task_id: str = TASK, **more: Any) -> Json:
    update = {"taskId": task_id, "contextId": CONTEXT, "artifact": parts_of(content, artifact_id)}
    return {"artifactUpdate": {**update, **more}}


# scripts

#: steps of a stream: an RST; and nothing more, until the client leaves
RESET, HANG = object(), object()


def http(status_code: int, body: bytes = b"", **headers: str) -> Script:
    async def script(exchange: Exchange) -> None:
        told = {"Content_Type": "application/json", "Content_Length": str(len(body)), **headers}
        await exchange.head(status_code, **told)
        await exchange.write(body)

    return script


def answer(result: Any, **headers: str) -> Script:
    """A JSON-RPC result."""

    async def script(exchange: Exchange) -> None:
        await http(200, exchange.envelope(result), **headers)(exchange)

    return script


def refusal(code: int, message: str, status_code: int = 200) -> Script:
    async def script(exchange: Exchange) -> None:
        error = {"jsonrpc": "2.0", "id": exchange.asked.json.get("id"), "error": {"code": code, "message": message}}
        await http(status_code, json.dumps(error).encode())(exchange)

    return script


def silence(exchange: Exchange) -> Awaitable[None]:
    """Nothing at all, until the client leaves."""
    return exchange.gone()


def frame(exchange: Exchange, number: int, result: Any) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (number, exchange.envelope(result))


def stream(*steps: Any, first: int = 1) -> Script:
    """Frames as dicts, numbered from `first`; bytes as they are; a `Gate`; `RESET`; `HANG`; a pause in seconds."""

    async def script(exchange: Exchange) -> None:
        await exchange.head(200, Content_Type="text/event-stream")
        number = first
        for step in steps:
            if isinstance(step, Gate):
                await step.passed()
            elif isinstance(step, float):
                await asyncio.sleep(step)
            elif step is RESET:
                exchange.reset()
            elif step is HANG:
                await exchange.gone()
            elif isinstance(step, bytes):
                await exchange.write(step)
            else:
                await exchange.write(frame(exchange, number, step))
                number += 1

    return script


# the daemon's side


def connect(daemon: DaemonProcess, remote: Remote, **fields: Any) -> str:
    """Make a connection; its id."""
    return str(daemon.act("outbound.create", **{"name": "remote", "agentCardUrl": remote.card_url, **fields})["id"])


def call(daemon: DaemonProcess, outbound: str, text: str = "hello", *, status: int = 200, **fields: Any) -> Json:
    """`outbound.call`; its answer."""
    return daemon.act("outbound.call", status=status, id=outbound, text=text, **fields)


def row(daemon: DaemonProcess, outbound: str) -> Any:
    """The connection in the snapshot, None where it is not there."""
    return next((each for each in daemon.read("")["outbounds"] if each["id"] == outbound), None)


def watched(daemon: DaemonProcess, outbound: str, text: str = "hello") -> Iterator[tuple[str, Any]]:
    """`outbound.call` as a stream: each event's name and data."""
    with connection(daemon.control) as opened:
        body = json.dumps({"action": "outbound.call", "id": outbound, "text": text})
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        opened.request("POST", "/a2a/api", body, headers)
        name = ""
        for line in opened.getresponse():
            field, _, value = line.decode().strip().partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)


BEGUN = [snapshot("WORKING"), artifact("one ")]
PIECES = [{"text": "one "}, {"text": "two"}]


def sends(remote: Remote) -> list[str]:
    """The messageId of each message that came."""
    sent = [*remote.asked("SendStreamingMessage"), *remote.asked("SendMessage")]
    return [asked.message["messageId"] for asked in sent]


def sender(remote: Remote, streaming: bool) -> str:
    remote.card["capabilities"]["streaming"] = streaming
    return "SendStreamingMessage" if streaming else "SendMessage"
