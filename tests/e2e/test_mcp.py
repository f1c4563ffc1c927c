"""`a2ad mcp` as an MCP client sees it, over stdio (issue 4, point 4). The remote agent is the daemon itself."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ToolListChangedNotification

from tests.daemon import DaemonProcess
from tests.e2e.control_support import PATIENCE
from tests.e2e.mcp_support import (
    PLUGIN,
    TOOL,
    begun,
    called,
    client_of,
    command,
    connect,
    connected_to_itself,
    eventually,
    names,
    refused,
    state_of,
    text_of,
)
from tests.remote import Remote, answer, parts_of, snapshot

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: the two eras of the protocol: 2026-07-28 and later, and the handshake before it
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
CANCELED = "TASK_STATE_CANCELED"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with connected_to_itself(tmp_path_factory.mktemp("mcp")) as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(daemon: DaemonProcess) -> AsyncIterator[dict[str, Client]]:
    """A client of each era, with a server of its own, for the tests that do not end them."""
    opened: asyncio.Future[dict[str, Client]] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:  # one task opens and closes them: their library wants it so
        async with client_of(daemon) as modern, client_of(daemon, mode="legacy") as legacy:
            opened.set_result({"auto": modern, "legacy": legacy})
            await done.wait()

    holder = asyncio.create_task(hold())
    await asyncio.wait([holder, opened], return_when=asyncio.FIRST_COMPLETED)
    if not opened.done():
        await holder
    yield opened.result()
    done.set()
    await holder


@pytest.fixture
def client(clients: dict[str, Client]) -> Client:
    return clients["auto"]


# what there is


@ERAS
async def test_the_tools_are_those_of_the_daemon(daemon: DaemonProcess, clients: dict[str, Client], mode: str) -> None:
    capabilities = clients[mode].server_capabilities.tools
    assert capabilities is not None
    assert capabilities.list_changed
    tools = (await clients[mode].list_tools()).tools
    listed = [(tool.name, tool.title, tool.description, tool.input_schema) for tool in tools]
    told = [tuple(tool[key] for key in ("name", "title", "description", "schema")) for tool in daemon.read("/tools")]
    assert listed == told
    assert {TOOL, "a2a__remote__other"} <= {tool.name for tool in tools}


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_change_of_the_connections_is_told_and_then_seen(daemon: DaemonProcess, mode: str) -> None:
    changed, listening = asyncio.Event(), asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async def listen(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            listening.set()
            async for _ in changes:
                changed.set()

    name = f"new-{mode}"
    async with client_of(daemon, mode=mode, message_handler=hear) as client, asyncio.timeout(PATIENCE):
        before = await names(client)
        listener = asyncio.create_task(listen(client)) if mode != "legacy" else None
        if listener is not None:
            await listening.wait()
        connect(daemon, name)
        await changed.wait()
        assert await names(client) - before == {f"a2a__{name}__script", f"a2a__{name}__other"}
        assert await called(client, "hello", f"a2a__{name}__script") == "hello"
        changed.clear()
        connection = next(row["id"] for row in daemon.read("")["outbounds"] if row["name"] == name)
        daemon.act("outbound.remove", id=connection)
        await changed.wait()
        assert await names(client) == before
        gone = f"a2a__{name}__script"
        assert await refused(client, {"prompt": "x"}, gone) == f"there is no tool {gone!r} now"
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])


# calls


@ERAS
async def test_a_call_gives_what_the_remote_said(clients: dict[str, Client], mode: str) -> None:
    assert await called(clients[mode], "hello to you") == "hello to you"


async def test_a_process_is_one_caller_with_one_conversation(clients: dict[str, Client]) -> None:
    contexts = [await called(clients[mode], "context") for mode in ("auto", "auto", "legacy")]
    assert contexts[0] == contexts[1] != contexts[2]


@ERAS
async def test_what_the_remote_does_not_do_is_an_error_in_its_words(clients: dict[str, Client], mode: str) -> None:
    assert await refused(clients[mode], {"prompt": "fail no coal"}) == "The remote agent's task failed: no coal"
    assert await refused(clients[mode], {"prompt": "reject not now"}) == "The remote agent's task rejected: not now"


async def test_where_the_remote_gives_no_reason_its_answer_is_the_error(daemon: DaemonProcess, client: Client) -> None:
    with Remote() as remote:
        fields: dict[str, Any] = {"name": "scripted", "agentCardUrl": remote.card_url}
        outbound = (await asyncio.to_thread(daemon.act, "outbound.create", **fields))["id"]
        try:
            for reason, told in (("no coal", "no coal"), ("", "half of it")):
                remote.on("SendStreamingMessage", answer(snapshot("FAILED", reason, parts_of("half of it"))))
                error = await refused(client, {"prompt": "x"}, "a2a__scripted__chat")
                assert error == f"The remote agent's task failed: {told}"
        finally:
            await asyncio.to_thread(daemon.act, "outbound.remove", id=outbound)


@pytest.mark.parametrize(
    "arguments",
    [None, {}, {"prompt": ""}, {"prompt": 7}, {"prompt": None}, {"prompt": "x" * 1_000_001}],
    ids=lambda given: repr(given)[:20],
)
async def test_a_call_without_a_prompt_is_an_error(client: Client, arguments: Any) -> None:
    assert await refused(client, arguments) == "prompt must be a text of 1 to 1,000,000 characters"


async def test_what_cannot_be_called_is_an_error(client: Client) -> None:
    assert await refused(client, {"prompt": "x", "taskId": 7}) == "taskId must be a string"
    assert "no such task" in await refused(client, {"prompt": "x", "taskId": "unheard-of"})
    assert await refused(client, {"prompt": "x"}, "a2a__nobody__x") == "there is no tool 'a2a__nobody__x' now"


@pytest.mark.parametrize(("word", "wanted"), [("ask", "more input"), ("login", "an authorisation")])
async def test_a_remote_that_asks_is_answered_with_its_task_id(
    daemon: DaemonProcess, client: Client, word: str, wanted: str
) -> None:
    asked = await called(client, word)
    assert asked.startswith(f"{word}: which one?\n\nThe remote agent needs {wanted} to go on.")
    task_id = asked.partition('"taskId": "')[2].partition('"')[0]
    assert state_of(daemon, task_id) in {"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"}
    assert await called(client, "the green one", taskId=task_id) == f"{word} the green one"


async def test_many_calls_go_on_at_once(daemon: DaemonProcess, client: Client) -> None:
    """Of as many connections: a remote may take the calls of one conversation in turn."""
    gates = [f"many-{number}" for number in range(8)]
    for gate in gates:
        daemon.act("outbound.create", name=gate, agentCardUrl=f"{daemon.url}/remote/agent-card.json")
    calls = [asyncio.create_task(called(client, f"wait {gate}", f"a2a__{gate}__script")) for gate in gates]
    for gate in gates:
        await eventually(lambda gate=gate: begun(daemon, gate), f"a task that waits for {gate}")
    assert not any(call.done() for call in calls)
    for gate in reversed(gates):
        (daemon.folder / gate).touch()
    assert await asyncio.gather(*calls) == [f"wait {gate}" for gate in gates]


@ERAS
async def test_progress_tells_what_the_remote_does(
    daemon: DaemonProcess, clients: dict[str, Client], mode: str
) -> None:
    heard: list[tuple[float, str]] = []

    async def hear(progress: float, _total: float | None, message: str | None) -> None:
        heard.append((progress, message or ""))
        for step in ("first", "second"):
            if heard[-1][1].startswith(f"the {step} step"):
                (daemon.folder / f"{mode}.{step}").touch()

    result = await clients[mode].call_tool(TOOL, {"prompt": f"work {mode}"}, progress_callback=hear)
    assert text_of(result) == f"work {mode}"
    steps = [message for _, message in heard if message.startswith("the ")]
    assert steps == [f"the first step of {mode}", f"the second step of {mode}"]
    numbers = [number for number, _ in heard]
    assert numbers == sorted(set(numbers))


async def test_progress_tells_how_much_of_the_answer_there_is(daemon: DaemonProcess, client: Client) -> None:
    messages: list[str | None] = []

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        messages.append(message)
        if message is not None and message.endswith("characters of the answer"):
            (daemon.folder / "written").touch()

    result = await client.call_tool(TOOL, {"prompt": "write written"}, progress_callback=hear)
    assert text_of(result) == "12345write written"
    assert "5 characters of the answer" in messages


# its end


@ERAS
async def test_a_call_that_is_cancelled_cancels_the_remotes_task(
    daemon: DaemonProcess, clients: dict[str, Client], mode: str
) -> None:
    call = asyncio.create_task(clients[mode].call_tool(TOOL, {"prompt": f"wait cancel-{mode}"}))
    task_id = await eventually(lambda: begun(daemon, f"cancel-{mode}"), "a task that waits")
    call.cancel()
    await eventually(lambda: state_of(daemon, task_id) == CANCELED, CANCELED)
    assert await called(clients[mode], "still here") == "still here"


# a daemon that is away


async def test_a_daemon_that_went_away_is_a_tools_error_until_it_is_back(
    launch: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    """The same server goes on with the daemon's next process, which has other tools."""
    more = {"plugin": PLUGIN, "env": {"LAB": str(tmp_path)}}
    first = launch(**more)
    connect(first)
    changed = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    parameters = StdioServerParameters(command=sys.executable, args=command(first.url))
    errors = tmp_path / "mcp.stderr"
    with errors.open("w") as errlog:
        async with (
            Client(stdio_client(parameters, errlog=errlog), mode="legacy", message_handler=hear) as client,
            asyncio.timeout(PATIENCE),
        ):
            assert await called(client, "hello") == "hello"
            call = asyncio.create_task(refused(client, {"prompt": "wait away"}))
            await eventually(lambda: begun(first, "away"), "a task that waits")
            first.kill()
            assert await call == f"the a2ad daemon at {first.url} went away before it had answered"
            assert (await refused(client, {"prompt": "hello"})).startswith(f"no a2ad daemon answers at {first.url}: ")
            assert TOOL in await names(client)
            await eventually(lambda: "waiting for it" in errors.read_text(), "a word of it on stderr")
            changed.clear()
            second = launch(port=int(first.url.rpartition(":")[2]), **more)
            connect(second, "late")
            while "a2a__late__script" not in await names(client):
                await changed.wait()
                changed.clear()
            assert await called(client, "hello again", "a2a__late__script") == "hello again"
            await eventually(lambda: "is back" in errors.read_text(), "a word of it on stderr")
    gone, back = errors.read_text().splitlines()
    assert first.url in gone
    assert back == f"a2ad: the daemon at {first.url} is back"


# in the name of a session


async def test_an_agent_starts_it_for_its_session(daemon: DaemonProcess, client: Client) -> None:
    """`tools.mcp_server` is its command line: the calls are the session's, whichever process of it makes them."""
    task = daemon.send(daemon.create_inbound(preset="telling"), "tell")
    started = json.loads(task["artifacts"][0]["parts"][0]["text"])
    async with client_of(daemon, started=started) as one, client_of(daemon, started=started) as two:
        contexts = [await called(each, "context") for each in (one, two, client)]
    assert contexts[0] == contexts[1] != contexts[2]


async def test_a_session_that_is_unknown_can_call_nothing(daemon: DaemonProcess) -> None:
    async with client_of(daemon, "--session", "unheard-of") as client:
        assert TOOL in await names(client)
        assert await refused(client, {"prompt": "x"}) == "this conversation has ended"
