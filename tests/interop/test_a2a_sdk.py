"""The official Python client, unchanged, holds conversations with a real daemon."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from a2a.client import A2ACardResolver, AgentCardResolutionError, AuthInterceptor, ClientConfig, CredentialService
from a2a.client.client_factory import ClientFactory, create_client
from a2a.client.errors import A2AClientError
from a2a.helpers import get_data_parts, get_message_text, get_raw_parts, new_data_part, new_raw_part, new_url_part
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from httpx import AsyncClient

from tests.daemon import DaemonProcess
from tests.interop.sdk import connect, kinds, request, result_text, send, streamed_text, until_working

#: a bound that only a hang passes, in seconds
HANG = 60


# The card


async def test_the_base_url_leads_to_the_card_of_the_only_inbound(daemon: DaemonProcess) -> None:
    first = daemon.create_inbound(name="first")

    async with await connect(daemon.url, streaming=False) as client:
        task = await send(client, "by the origin")
    daemon.create_inbound(name="second")
    async with AsyncClient() as http:
        with pytest.raises(AgentCardResolutionError) as refused:
            await A2ACardResolver(http, daemon.url).get_agent_card()

    assert result_text(task) == "by the origin"
    assert daemon.rpc(first, "GetTask", {"id": task.id})["result"]["id"] == task.id
    assert refused.value.status_code == 404


async def test_the_endpoint_url_and_the_full_card_url_lead_to_the_card(agents: DaemonProcess, inbound: str) -> None:
    async with AsyncClient() as http:
        by_endpoint = await A2ACardResolver(http, agents.endpoint(inbound)).get_agent_card()
        by_path = await A2ACardResolver(http, agents.url).get_agent_card(f"/a2a/{inbound}/agent-card.json")
        by_full_url = await A2ACardResolver(http, f"{agents.endpoint(inbound)}/agent-card.json").get_agent_card("/")

    assert by_endpoint == by_path == by_full_url
    assert by_endpoint.name == "interop"
    assert by_endpoint.supported_interfaces[0].url == agents.endpoint(inbound)
    assert by_endpoint.capabilities.streaming
    assert not by_endpoint.capabilities.push_notifications
    assert "letters" in [skill.id for skill in by_endpoint.skills]


async def test_the_extended_card_is_the_same_card(agents: DaemonProcess, inbound: str) -> None:
    async with AsyncClient() as http:
        card = await A2ACardResolver(http, agents.endpoint(inbound)).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        extended = await client.get_extended_agent_card(GetExtendedAgentCardRequest())

    assert extended == card


# Messages and streams


async def test_a_message_is_answered_with_the_finished_task(agents: DaemonProcess, inbound: str) -> None:
    async with await connect(agents.endpoint(inbound), streaming=False) as client:
        task = await send(client, "hello there")

    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert result_text(task) == "hello there"
    assert [get_message_text(message) for message in task.history] == ["hello there"]


async def test_a_context_that_is_named_again_is_kept(agents: DaemonProcess, inbound: str) -> None:
    async with await connect(agents.endpoint(inbound), streaming=False) as client:
        first = await send(client, "one")
        second = await send(client, "two", context_id=first.context_id)
        other = await send(client, "three")

    assert second.context_id == first.context_id != other.context_id
    assert len({first.id, second.id, other.id}) == 3


async def test_a_stream_begins_and_ends_with_the_task(agents: DaemonProcess, inbound: str) -> None:
    async with await connect(agents.endpoint(inbound)) as client:
        events = [event async for event in client.send_message(request("abc", "letters"))]

    assert kinds(events)[0] == kinds(events)[-1] == "task"
    assert kinds(events)[-2] == "status_update"
    assert kinds(events).count("task") == 2
    assert [event.artifact_update.append for event in events if event.HasField("artifact_update")][:2] == [False, True]
    assert streamed_text(events) == "abc"
    last = events[-1].task
    assert last.id == events[0].task.id
    assert last.status.state == TaskState.TASK_STATE_COMPLETED
    assert result_text(last) == "abc"


async def test_the_echo_agent_streams_its_words(agents: DaemonProcess, inbound: str) -> None:
    async with await connect(agents.endpoint(inbound)) as client:
        events = [event async for event in client.send_message(request("one two three", "chat"))]

    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert len(updates) >= 3
    assert [update.last_chunk for update in updates] == [False] * (len(updates) - 1) + [True]
    assert streamed_text(events) == result_text(events[-1].task) == "one two three"


@pytest.mark.parametrize("skill", ["letters", "chat"])
async def test_text_that_looks_like_line_breaks_survives_a_stream(
    agents: DaemonProcess, inbound: str, skill: str
) -> None:
    text = 'a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\r\nh\n\ni\tj \u0000 \\u2028 " e\u0301 '
    text += "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467"

    async with await connect(agents.endpoint(inbound)) as client:
        events = [event async for event in client.send_message(request(text, skill))]

    assert streamed_text(events) == text
    assert result_text(events[-1].task) == text
    assert get_message_text(events[-1].task.history[0]) == text


async def test_data_raw_and_url_parts_come_back_as_they_were_sent(agents: DaemonProcess, inbound: str) -> None:
    data = {"count": 42, "half": 0.5, "deep": [{"none": None}, True, ""], "zero": 0}
    raw = bytes(range(256))
    parts = [
        new_data_part(data),
        new_raw_part(raw, media_type="application/octet-stream", filename="all.bin"),
        new_url_part("https://example.org/a.pdf", media_type="application/pdf"),
    ]

    async with await connect(agents.endpoint(inbound), streaming=False) as client:
        task = await send(client, "", "mirror", parts=parts)

    artifact = task.artifacts[0]
    assert list(artifact.parts) == parts
    assert get_data_parts(artifact.parts) == [data]
    assert get_raw_parts(artifact.parts) == [raw]
    assert (artifact.artifact_id, artifact.name, artifact.description) == ("mirror", "Mirror", "What came")
    assert artifact.metadata["count"] == 42


async def test_a_direct_reply_is_a_message(agents: DaemonProcess, inbound: str) -> None:
    for streaming in (False, True):
        async with await connect(agents.endpoint(inbound), streaming=streaming) as client:
            events = [event async for event in client.send_message(request("hi", "direct"))]

        assert kinds(events) == ["message"]
        assert get_message_text(events[0].message) == "You said hi"


@pytest.mark.parametrize(
    ("skill", "state", "text"),
    [
        ("fail", TaskState.TASK_STATE_FAILED, "Out of paper"),
        ("reject", TaskState.TASK_STATE_REJECTED, "Not today"),
    ],
)
async def test_a_task_that_goes_wrong_says_why(
    agents: DaemonProcess, inbound: str, skill: str, state: TaskState, text: str
) -> None:
    for streaming in (False, True):
        async with await connect(agents.endpoint(inbound), streaming=streaming) as client:
            task = await send(client, "x", skill)

        assert task.status.state == state
        assert get_message_text(task.status.message) == text


async def test_a_stream_that_is_silent_for_longer_than_the_clients_timeout_goes_on(
    agents: DaemonProcess, inbound: str
) -> None:
    async with await connect(agents.endpoint(inbound)) as client:
        events = [event async for event in client.send_message(request("x", "quiet"))]

    assert streamed_text(events) == "one two"
    assert events[-1].task.status.state == TaskState.TASK_STATE_COMPLETED


# Tasks


async def test_a_task_is_got_with_as_much_history_as_was_asked_for(agents: DaemonProcess, inbound: str) -> None:
    async with await connect(agents.endpoint(inbound), streaming=False) as client:
        sent = await send(client, "hello")
        whole = await client.get_task(GetTaskRequest(id=sent.id))
        without = await client.get_task(GetTaskRequest(id=sent.id, history_length=0))

    assert whole == sent
    assert len(whole.history) == 1
    assert len(without.history) == 0
    assert without.artifacts == whole.artifacts


async def test_tasks_are_listed_with_filters_in_pages(agents: DaemonProcess) -> None:
    inbound = agents.create_inbound(name="listed", preset="interop")
    async with await connect(agents.endpoint(inbound), streaming=False) as client:
        done = [await send(client, f"task {n}") for n in range(5)]
        failed = await send(client, "x", "fail", context_id=done[0].context_id)

        pages: list[Any] = [await client.list_tasks(ListTasksRequest(page_size=4))]
        while pages[-1].next_page_token:
            pages.append(await client.list_tasks(ListTasksRequest(page_size=4, page_token=pages[-1].next_page_token)))
        by_state = await client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_FAILED))
        by_context = await client.list_tasks(ListTasksRequest(context_id=done[0].context_id, include_artifacts=True))
        since = await client.list_tasks(ListTasksRequest(status_timestamp_after=done[3].status.timestamp))
        brief = await client.list_tasks(ListTasksRequest(history_length=0))

    paged = [task for page in pages for task in page.tasks]
    assert [len(page.tasks) for page in pages] == [4, 2]
    assert {task.id for task in paged} == {task.id for task in [*done, failed]}
    updated = [task.status.timestamp.ToDatetime() for task in paged]
    assert updated == sorted(updated, reverse=True)
    assert [(page.page_size, page.total_size) for page in pages] == [(4, 6), (4, 6)]
    assert not any(task.artifacts for task in paged)
    assert [task.id for task in by_state.tasks] == [failed.id]
    assert by_state.total_size == 1
    assert [task.id for task in by_context.tasks] == [failed.id, done[0].id]
    assert result_text(by_context.tasks[1]) == "task 0"
    assert {task.id for task in since.tasks} == {
        task.id for task in paged if task.status.timestamp.ToDatetime() >= done[3].status.timestamp.ToDatetime()
    }
    assert not any(task.history for task in brief.tasks)


async def test_a_task_that_works_is_cancelled_and_its_stream_says_so(agents: DaemonProcess, inbound: str) -> None:
    async with (
        await connect(agents.endpoint(inbound)) as client,
        aclosing(client.send_message(request("cancelled", "work"))) as events,
    ):
        task_id = await until_working(events)
        cancelled = await client.cancel_task(CancelTaskRequest(id=task_id))
        rest = [event async for event in events]

    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
    assert kinds(rest)[-2:] == ["status_update", "task"]
    assert rest[-1].task.status.state == TaskState.TASK_STATE_CANCELED
    assert result_text(rest[-1].task) == "before "


async def test_a_running_task_is_subscribed_to_until_its_end(agents: DaemonProcess, inbound: str) -> None:
    async with (
        await connect(agents.endpoint(inbound)) as client,
        asyncio.timeout(HANG),
        aclosing(client.send_message(request("subscribed", "work"))) as first,
    ):
        task_id = await until_working(first)
        async with aclosing(client.subscribe(SubscribeToTaskRequest(id=task_id))) as second:
            snapshot = await anext(second)
            [_ async for _ in client.send_message(request("subscribed", "open"))]
            of_second = [event async for event in second]
        of_first = [event async for event in first]

    assert snapshot.task.status.state == TaskState.TASK_STATE_WORKING
    assert result_text(snapshot.task) == "before "
    assert of_second == of_first
    assert kinds(of_second) == ["artifact_update", "status_update", "task"]
    assert result_text(of_second[-1].task) == "before after"


async def test_a_stream_that_the_client_leaves_does_not_end_the_task(agents: DaemonProcess, inbound: str) -> None:
    async with await connect(agents.endpoint(inbound)) as client:
        async with aclosing(client.send_message(request("left", "work"))) as events:
            task_id = await until_working(events)
        async with asyncio.timeout(HANG), aclosing(client.subscribe(SubscribeToTaskRequest(id=task_id))) as again:
            await anext(again)
            [_ async for _ in client.send_message(request("left", "open"))]
            rest = [event async for event in again]

    assert rest[-1].task.status.state == TaskState.TASK_STATE_COMPLETED
    assert result_text(rest[-1].task) == "before after"


async def test_a_client_that_polls_gets_the_task_before_it_is_done(agents: DaemonProcess, inbound: str) -> None:
    config = ClientConfig(streaming=False, polling=True)
    async with await create_client(agents.endpoint(inbound), config) as client:
        task = await send(client, "polled", "work")
        await send(client, "polled", "open")
        async with asyncio.timeout(HANG):
            while (now := await client.get_task(GetTaskRequest(id=task.id))).status.state not in {
                TaskState.TASK_STATE_COMPLETED,
                TaskState.TASK_STATE_FAILED,
            }:
                await asyncio.sleep(0.02)

    assert task.status.state in {TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING}
    assert result_text(now) == "before after"


@pytest.mark.parametrize(("skill", "says"), [("ask", "Sunny in Oslo"), ("ask-by-raising", "Rain in Oslo")])
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_task_that_asks_is_continued(
    agents: DaemonProcess, inbound: str, skill: str, says: str, streaming: bool
) -> None:
    async with await connect(agents.endpoint(inbound), streaming=streaming) as client:
        asked = await send(client, "the weather", skill)
        done = await send(client, "Oslo", task_id=asked.id)

    assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert get_message_text(asked.status.message) == "Which city?"
    assert (done.id, done.context_id) == (asked.id, asked.context_id)
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    assert result_text(done) == says
    assert [get_message_text(message) for message in done.history] == ["the weather", "Which city?", "Oslo"]


async def test_a_task_that_wants_a_login_is_continued(agents: DaemonProcess, inbound: str) -> None:
    async with await connect(agents.endpoint(inbound), streaming=False) as client:
        asked = await send(client, "enter", "login")
        done = await send(client, "logged in", task_id=asked.id, context_id=asked.context_id)

    assert asked.status.state == TaskState.TASK_STATE_AUTH_REQUIRED
    assert get_message_text(asked.status.message) == "Log in first"
    assert result_text(done) == "inside"


# Authentication


class Token(CredentialService):
    async def get_credentials(self, security_scheme_name: str, context: Any) -> str | None:
        return "s3cr3t" if security_scheme_name == "bearer" else None


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_token_is_sent_as_the_card_says(agents: DaemonProcess, protected: str, streaming: bool) -> None:
    interceptors = [AuthInterceptor(Token())]
    endpoint = agents.endpoint(protected)
    async with await connect(endpoint, streaming=streaming, interceptors=interceptors) as client:
        task = await send(client, "let me in")
        got = await client.get_task(GetTaskRequest(id=task.id))

    assert result_text(got) == "let me in"


async def test_a_token_in_a_header_of_ones_own_does_as_well(agents: DaemonProcess, protected: str) -> None:
    async with AsyncClient(headers={"Authorization": "Bearer s3cr3t"}) as http:
        client = await create_client(agents.endpoint(protected), ClientConfig(httpx_client=http))
        task = await send(client, "let me in")

    assert result_text(task) == "let me in"


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic czNjcjN0"}])
async def test_without_the_right_token_a_client_is_refused(
    agents: DaemonProcess, protected: str, streaming: bool, headers: dict[str, str]
) -> None:
    before = agents.read(f"?taskServerId={protected}")["taskTotal"]
    async with AsyncClient(headers=headers) as http:
        config = ClientConfig(httpx_client=http, streaming=streaming)
        client = await create_client(agents.endpoint(protected), config)
        with pytest.raises(A2AClientError, match="401"):
            await send(client, "let me in")

    assert agents.read(f"?taskServerId={protected}")["taskTotal"] == before
