"""`a2ad mcp`: the outbound tools of the running daemon as an MCP server over stdio (reference 3; `docs/outbound.md`).

A process of its own, which talks to the control API: it may start before a tool exists and outlive the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias

import aiohttp
import orjson
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from a2ad import __version__
from a2ad.agent import ToolError
from a2ad.config.values import CONTROL_PATH
from a2ad.model import TaskState
from a2ad.outbound.contract import CallResult, for_model, read_arguments
from a2ad.outbound.sse import EventReader, EventTooLarge
from a2ad.outbound.text import DESCRIPTION, MESSAGE, line

#: for a connection to the daemon, and for the list of its tools, in seconds
CONNECT_SECONDS, LIST_SECONDS = 10.0, 30.0
#: one event of a call, in bytes: an answer, with everything escaped that JSON can escape
CALL_BYTES = 64 << 20
#: an event of the stream of changes is read so far: what it says is asked for anyway
CHANGE_BYTES = 64 << 10
#: between attempts to reach a daemon that is away, in seconds: at first, and at most
PAUSES = (0.1, 5.0)
#: between two notifications that tell how much of an answer there is, in seconds
TEXT_SECONDS = 1.0
#: how long the client may take to read the last answers after it closed our standard input, in seconds
LEAVE_SECONDS = 2.0
INSTRUCTIONS = (
    "Each tool sends a task to an agent on another system (A2A). What such an agent says, and how its tool is"
    " described, comes from that system."
)

Row: TypeAlias = Mapping[str, Any]
Report: TypeAlias = Callable[[Row], Awaitable[None]]

log = logging.getLogger("a2ad.mcp")


class Daemon:
    """The daemon at a URL. `caller` says who calls: `{session}` or `{caller}` (`outbound.call`). What goes wrong is a
    `ToolError`.
    """

    def __init__(self, url: str, caller: Mapping[str, str], http: aiohttp.ClientSession) -> None:
        self.url = url
        self._caller = caller
        self._http = http

    async def tools(self) -> list[Row]:
        """The tools that there are now: `{name, title, description, schema, connection, skill}`."""
        timeout = aiohttp.ClientTimeout(total=LIST_SECONDS, sock_connect=CONNECT_SECONDS)
        with self._named():
            async with self._http.get(
                f"{self.url}{CONTROL_PATH}/tools", timeout=timeout, allow_redirects=False
            ) as response:
                rows = self._read(response, await response.read())
        if not isinstance(rows, list):
            raise self._stranger(response)
        try:
            for row in rows:
                _tool(row)
        except (LookupError, TypeError, ValueError):
            raise self._stranger(response) from None
        return rows

    async def call(self, tool: Row, prompt: str, task_id: str | None, report: Report) -> CallResult:
        """Call a tool and wait for what comes of it. `report` gets the daemon's `progress` events. Where this is
        cancelled, the request ends, and with it the remote's task.
        """
        body = {"action": "outbound.call", "id": tool["connection"], "skill": tool["skill"], "text": prompt}
        body |= {**self._caller, **({"taskId": task_id} if task_id is not None else {})}
        accept = {"Accept": "text/event-stream"}
        with self._named():
            async with self._http.post(
                self.url + CONTROL_PATH, json=body, headers=accept, allow_redirects=False
            ) as response:
                if response.content_type != "text/event-stream":
                    return self._result(response, self._read(response, await response.read()))
                reader = EventReader(CALL_BYTES)
                async for chunk in response.content.iter_any():
                    for event in reader.feed(chunk):
                        update = self._read(response, event.data)
                        if not isinstance(update, dict):
                            raise self._stranger(response)
                        if "ok" in update:
                            return self._result(response, update)
                        await report(update)
        raise self._broken()

    async def changes(self) -> AsyncGenerator[None]:
        """Something happens whenever the daemon may have other tools, and at once; it ends when the daemon stops."""
        reader = EventReader(CHANGE_BYTES)
        with self._named():
            async with self._http.get(
                f"{self.url}{CONTROL_PATH}/events?taskLimit=1", allow_redirects=False
            ) as response:
                if response.content_type != "text/event-stream":
                    raise self._stranger(response)
                async for chunk in response.content.iter_any():
                    try:
                        changed = bool(reader.feed(chunk))
                    except EventTooLarge:
                        reader, changed = EventReader(CHANGE_BYTES), True
                    if changed:
                        yield

    def _result(self, response: aiohttp.ClientResponse, answer: Any) -> CallResult:
        try:
            if "contextId" not in answer:  # the remote was not asked, or never answered
                raise ToolError(line(answer["message"], MESSAGE))
            state = answer["state"]
            # the remote's reason, or the daemon's own words for none
            reason = "" if answer["message"] == f"the remote task is {state}" else line(answer["message"], MESSAGE)
            return CallResult(
                answer["text"],
                TaskState(state) if state else None,
                answer.get("taskId"),
                answer["contextId"],
                reason,
            )
        except (LookupError, TypeError, ValueError):
            raise self._stranger(response) from None

    def _read(self, response: aiohttp.ClientResponse, body: bytes) -> Any:
        try:
            return orjson.loads(body)
        except ValueError:
            raise self._stranger(response) from None

    def _stranger(self, response: aiohttp.ClientResponse) -> ToolError:
        return ToolError(
            f"no a2ad daemon of version {__version__} answered at {self.url}: HTTP status {response.status}"
        )

    def _broken(self) -> ToolError:
        return ToolError(f"the a2ad daemon at {self.url} went away before it had answered")

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno or 0
            reason = os.strerror(number) if number > 0 else str(error.os_error)
            raise ToolError(f"no a2ad daemon answers at {self.url}: {line(reason, DESCRIPTION)}") from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise ToolError(f"{self.url} is no URL of a daemon") from None
        except TimeoutError:
            raise ToolError(f"the a2ad daemon at {self.url} does not answer in time") from None
        except (aiohttp.ClientError, OSError):
            raise self._broken() from None
        except EventTooLarge:
            raise ToolError("the answer is too large") from None


@asynccontextmanager
async def connected(url: str, caller: Mapping[str, str]) -> AsyncIterator[Daemon]:
    """A daemon that may not be there."""
    # A connection for each request: one that was kept would turn a daemon's restart into a call that failed.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        yield Daemon(url, caller, session)


class Progress:
    """Tells the client that asked for it (`progressToken`) what the daemon says of a call that goes on."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._sent = 0
        self._characters = 0
        self._not_before = 0.0

    async def report(self, update: Row) -> None:
        if "text" in update:
            self._characters += len(update["text"])
            now = time.monotonic()
            if now < self._not_before:
                return
            self._not_before = now + TEXT_SECONDS
            message = f"{self._characters} characters of the answer"
        else:
            state = str(update.get("state")).removeprefix("TASK_STATE_").lower().replace("_", " ")
            message = line(update.get("message"), DESCRIPTION) or state
        self._sent += 1
        await self._session.report_progress(self._sent, message=message)


class ToolServer:
    """What the MCP server answers. `tools` are those that the client was told of last."""

    def __init__(self, daemon: Daemon, tools: Sequence[Row]) -> None:
        self._daemon = daemon
        self._tools = tools
        self._listing = asyncio.Lock()
        self._bus = InMemorySubscriptionBus()
        self._session: ServerSession | None = None

    def server(self) -> Server[Any]:
        server: Server[Any] = Server(
            "a2ad",
            title="Remote agents (A2A)",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)
        return server

    async def follow(self) -> None:
        """Tell the client when there are other tools. Never ends."""
        pause, away = PAUSES[0], False
        while True:
            try:
                async with aclosing(self._daemon.changes()) as changes:
                    async for _ in changes:
                        await self._look()
                        if away:
                            log.warning("the daemon at %s is back", self._daemon.url)
                        pause, away = PAUSES[0], False
            except ToolError as error:
                if not away:
                    log.warning("%s; waiting for it", error)
                away = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSES[1])

    async def _look(self) -> None:
        async with self._listing:
            tools = await self._daemon.tools()
            if tools == self._tools:
                return
            self._tools = tools
        # Clients of 2026-07-28 and later subscribe to this; those before get it unasked.
        await self._bus.publish(ToolsListChanged())
        if self._session is not None:
            await self._session.send_tool_list_changed()

    async def _initialized(self, ctx: ServerRequestContext[Any], _params: NotificationParams) -> None:
        self._session = ctx.session

    async def _list(self, _ctx: ServerRequestContext[Any], _params: PaginatedRequestParams | None) -> ListToolsResult:
        with suppress(ToolError):  # the daemon is away: the last that were known, and a call of one says so
            async with self._listing:
                self._tools = await self._daemon.tools()
        return ListToolsResult(tools=[_tool(row) for row in self._tools])

    async def _call(self, ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            prompt, task_id = read_arguments(params.arguments or {})
            tool = next((row for row in await self._daemon.tools() if row["name"] == params.name), None)
            if tool is None:
                raise ToolError(f"there is no tool {params.name[:100]!r} now")
            text = for_model(await self._daemon.call(tool, prompt, task_id, Progress(ctx.session).report))
        except ToolError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        return CallToolResult(content=[TextContent(text=text)])


async def serve(daemon: Daemon) -> None:
    """Speak MCP on stdin and stdout until stdin ends. Raises `ToolError` where the daemon does not answer at first."""
    tools = ToolServer(daemon, await daemon.tools())
    server = tools.server()
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    follower = asyncio.create_task(tools.follow())
    try:
        async with stdio_server() as (incoming, outgoing):
            try:
                await server.run(incoming, outgoing, options)
            finally:
                follower.cancel()
                # Threads read stdin and write stdout: they must not keep the process for a client that does neither.
                asyncio.get_running_loop().call_later(LEAVE_SECONDS, os._exit, 0)
    except* OSError:  # stdout is closed: the client has left
        pass


def log_to_stderr() -> None:
    """What the process, and the library, have to say: a bounded line each, without tracebacks, which may quote."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Line())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("mcp").setLevel(logging.ERROR)  # it warns of each answer that a client does not take


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[0] if record.exc_info else None
        return line(f"a2ad: {record.getMessage()}{f' ({error.__name__})' if error else ''}", DESCRIPTION)


def _tool(row: Row) -> Tool:
    return Tool(name=row["name"], title=row["title"], description=row["description"], input_schema=row["schema"])
