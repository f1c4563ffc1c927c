"""Agents on the official Python server: `outbound_python_server.py PORT`, 0 for a free one.

The same agent is there three times: below `/streaming`, below `/blocking` with a card that offers no streaming, and
below `/protected`, where the calls need the bearer token `s3cr3t-of-the-remote`. The skill of a message says what it
does.
"""

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from a2a.helpers import (
    new_data_part,
    new_raw_part,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
    new_url_part,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

TOKEN = "s3cr3t-of-the-remote"
#: what stands in the file that the skill `parts` gives
FILE = bytes(range(256))


class Skills(AgentExecutor):
    """Each method is a skill: it gets the prompt, the task, and whether a message came before this one."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = context.message
        assert message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        given = MessageToDict(message)
        skill = given.get("metadata", {}).get("skill", "echo")
        headers = context.call_context.state.get("headers", {})
        if skill == "context":
            said = {"contextId": message.context_id, "metadata": given["metadata"], "version": headers["a2a-version"]}
            reply = new_text_message("", context_id=message.context_id, role=Role.ROLE_AGENT)
            reply.parts[0].CopyFrom(new_data_part(said))
            await event_queue.enqueue_event(reply)
            return
        if skill == "message":
            await event_queue.enqueue_event(
                new_text_message(f"You said {context.get_user_input()}", context_id=message.context_id)
            )
            return
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        continued = context.current_task is not None
        if not continued:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        await getattr(self, skill)(context.get_user_input(), task, continued)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def echo(self, text: str, task: TaskUpdater, continued: bool) -> None:
        await task.add_artifact([new_text_part(text)])
        await task.complete()

    async def chunks(self, text: str, task: TaskUpdater, continued: bool) -> None:
        """Every word as a chunk of its own, with a note before it."""
        await task.start_work()
        words = text.split(" ")
        for number, word in enumerate(words):
            last = number == len(words) - 1
            part = new_text_part(word if last else f"{word} ")
            await task.add_artifact([part], artifact_id="words", append=number > 0, last_chunk=last)
        await task.complete()

    async def gate(self, text: str, task: TaskUpdater, continued: bool) -> None:
        """Waits for the file that the prompt names."""
        await task.start_work(task.new_agent_message([new_text_part("packing")]))
        await task.add_artifact([new_text_part("before ")], artifact_id="words")
        await task.start_work(task.new_agent_message([new_text_part("at the gate")]))
        while not Path(text).exists():
            await asyncio.sleep(0.01)
        await task.add_artifact([new_text_part("after")], artifact_id="words", append=True, last_chunk=True)
        await task.complete()

    async def parts(self, text: str, task: TaskUpdater, continued: bool) -> None:
        await task.add_artifact(
            [
                new_text_part("a text"),
                new_data_part({"count": 2, "deep": [True, None]}),
                new_raw_part(FILE, media_type="application/x-bytes", filename="../all bytes.bin"),
                new_url_part("https://example.org/report.pdf", media_type="application/pdf", filename="report.pdf"),
            ]
        )
        await task.add_artifact([new_text_part("another text")])
        await task.complete()

    async def twice(self, text: str, task: TaskUpdater, continued: bool) -> None:
        """Its answer stands in an artifact and in the closing message."""
        await task.start_work(task.new_agent_message([new_text_part(text)]))
        await task.add_artifact([new_text_part(text)])
        await task.complete(task.new_agent_message([new_text_part(text)]))

    async def closing(self, text: str, task: TaskUpdater, continued: bool) -> None:
        """Its answer stands in the closing message alone."""
        await task.start_work(task.new_agent_message([new_text_part("thinking")]))
        await task.complete(task.new_agent_message([new_text_part(text)]))

    async def silent(self, text: str, task: TaskUpdater, continued: bool) -> None:
        await task.complete()

    async def ask(self, text: str, task: TaskUpdater, continued: bool) -> None:
        if not continued:
            await task.requires_input(task.new_agent_message([new_text_part("Which city?")]))
            return
        await task.start_work()
        await task.add_artifact([new_text_part(f"Sunny in {text}")])
        await task.complete()

    async def ponder(self, text: str, task: TaskUpdater, continued: bool) -> None:
        """Asks, and thinks for a while about the answer before it says anything."""
        if continued:
            await asyncio.sleep(1.5)
        await self.ask(text, task, continued)

    async def login(self, text: str, task: TaskUpdater, continued: bool) -> None:
        if not continued:
            await task.requires_auth(task.new_agent_message([new_text_part("Log in first")]))
            return
        await task.add_artifact([new_text_part(f"Logged in as {text}")])
        await task.complete()

    async def fail(self, text: str, task: TaskUpdater, continued: bool) -> None:
        await task.add_artifact([new_text_part("half of it")])
        await task.failed(task.new_agent_message([new_text_part("the disk is full")]))

    async def reject(self, text: str, task: TaskUpdater, continued: bool) -> None:
        await task.reject(task.new_agent_message([new_text_part("not my business")]))

    async def crash(self, text: str, task: TaskUpdater, continued: bool) -> None:
        raise RuntimeError("the agent broke")


def card(url: str, *, streaming: bool) -> AgentCard:
    names = [name for name in vars(Skills) if not name.startswith("_") and name not in {"execute", "cancel"}]
    return AgentCard(
        name="Python agent",
        description="Does what the skill says",
        version="3.2.1",
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id=name, name=name.title(), description=f"The skill {name}", tags=[name])
            for name in [*names, "context", "message"]
        ],
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="HTTP+JSON", protocol_version="1.0"),
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0"),
        ],
    )


def protect(route: Route) -> Route:
    async def endpoint(request: Request) -> Any:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            wrong = request.headers.get("authorization", "none")
            return JSONResponse({"error": f"not with {wrong}"}, 401, {"WWW-Authenticate": "Bearer"})
        return await route.endpoint(request)

    return Route(route.path, endpoint, methods=["POST"])


def agent(base: str, name: str) -> list[Route]:
    its_card = card(f"{base}/{name}", streaming=name != "blocking")
    handler = DefaultRequestHandler(agent_executor=Skills(), task_store=InMemoryTaskStore(), agent_card=its_card)
    calls = create_jsonrpc_routes(handler, f"/{name}")
    cards = create_agent_card_routes(its_card, card_url=f"/{name}/.well-known/agent-card.json")
    return [*cards, *(map(protect, calls) if name == "protected" else calls)]


def main() -> None:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", int(sys.argv[1])))
    sock.listen()
    base = f"http://127.0.0.1:{sock.getsockname()[1]}"
    app = Starlette(routes=[route for name in ("streaming", "blocking", "protected") for route in agent(base, name)])
    print(f"listening on {base}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run([sock])


if __name__ == "__main__":
    main()
