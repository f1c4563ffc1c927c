"""The official Python client raises the exception that a refusal stands for, in both dialects."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from a2a.client import Client
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)

from tests.daemon import DaemonProcess, message
from tests.interop.sdk import connect, request, send

NOBODY = "00000000-0000-0000-0000-000000000000"


class Published(NamedTuple):
    dialect: str
    daemon: DaemonProcess
    inbound: str


@pytest.fixture(scope="module", params=["reference", "a2a"])
def published(request: pytest.FixtureRequest, launch_shared: Callable[..., DaemonProcess]) -> Published:
    """An inbound of a daemon of each dialect."""
    daemon = launch_shared(f'[a2a]\ndialect = "{request.param}"\n')
    return Published(request.param, daemon, daemon.create_inbound(preset="interop"))


@pytest.fixture
def endpoint(published: Published) -> str:
    return published.daemon.endpoint(published.inbound)


async def finished(client: Client) -> Task:
    return await send(client, "done")


async def refusal(client: Client, text: str = "x", skill: str | None = None, **more: Any) -> A2AError:
    """What a message is refused with."""
    with pytest.raises(A2AError) as refused:
        [_ async for _ in client.send_message(request(text, skill, **more))]
    return refused.value


async def test_an_unknown_task_is_not_found(endpoint: str) -> None:
    for streaming in (False, True):
        async with await connect(endpoint, streaming=streaming) as client:
            with pytest.raises(TaskNotFoundError, match=r"\w"):
                await client.get_task(GetTaskRequest(id=NOBODY))
            with pytest.raises(TaskNotFoundError):
                await client.cancel_task(CancelTaskRequest(id=NOBODY))
            assert type(await refusal(client, task_id=NOBODY)) is TaskNotFoundError
    async with await connect(endpoint) as client:
        with pytest.raises(TaskNotFoundError):
            [_ async for _ in client.subscribe(SubscribeToTaskRequest(id=NOBODY))]


async def test_a_task_of_another_inbound_is_not_found(published: Published) -> None:
    _, daemon, inbound = published
    other = daemon.send(daemon.create_inbound(name="other"), "hers")

    async with await connect(daemon.endpoint(inbound)) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=other["id"]))
        assert type(await refusal(client, task_id=other["id"])) is TaskNotFoundError


async def test_a_finished_task_can_be_neither_cancelled_nor_subscribed_to_nor_continued(endpoint: str) -> None:
    for streaming in (False, True):
        async with await connect(endpoint, streaming=streaming) as client:
            task = await finished(client)
            with pytest.raises(TaskNotCancelableError):
                await client.cancel_task(CancelTaskRequest(id=task.id))
            if streaming:  # else it does not subscribe at all
                with pytest.raises(UnsupportedOperationError):
                    [_ async for _ in client.subscribe(SubscribeToTaskRequest(id=task.id))]
            assert type(await refusal(client, task_id=task.id)) is UnsupportedOperationError
            unchanged = await client.get_task(GetTaskRequest(id=task.id))

        assert unchanged == task


async def test_a_cancelled_task_cannot_be_cancelled_again(endpoint: str) -> None:
    async with await connect(endpoint, streaming=False) as client:
        task = await send(client, "never opened", "work", configuration={"return_immediately": True})
        await client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_running_task_takes_no_further_message(endpoint: str) -> None:
    async with await connect(endpoint, streaming=False) as client:
        task = await send(client, "busy", "work", configuration={"return_immediately": True})
        refused = await refusal(client, task_id=task.id)
        await client.cancel_task(CancelTaskRequest(id=task.id))
        after = await client.get_task(GetTaskRequest(id=task.id))

    assert type(refused) is UnsupportedOperationError
    assert len([entry for entry in after.history if entry.parts[0].text == "x"]) == 0


async def test_output_that_cannot_be_text_is_not_supported(endpoint: str) -> None:
    for streaming in (False, True):
        async with await connect(endpoint, streaming=streaming) as client:
            image = await refusal(client, configuration={"accepted_output_modes": ["image/png"]})
            await send(client, "x", configuration={"accepted_output_modes": ["image/png", "text/*"]})

        assert type(image) is ContentTypeNotSupportedError


async def test_wrong_parameters_are_named(endpoint: str) -> None:
    async with await connect(endpoint) as client:
        unknown_skill = await refusal(client, skill="juggling")
        no_parts = await refusal(client, parts=[{}])
        task = await finished(client)
        with pytest.raises(InvalidParamsError):
            await client.list_tasks(ListTasksRequest(page_size=101))
        with pytest.raises(InvalidParamsError):
            await client.list_tasks(ListTasksRequest(page_token="zzz"))
        with pytest.raises(InvalidParamsError):
            await client.get_task(GetTaskRequest(id=task.id, history_length=-1))

    assert type(unknown_skill) is type(no_parts) is InvalidParamsError
    assert "letters" in str(unknown_skill)


async def test_a_task_is_not_continued_in_another_context(endpoint: str) -> None:
    async with await connect(endpoint, streaming=False) as client:
        asked = await send(client, "the weather", "ask")
        refused = await refusal(client, task_id=asked.id, context_id="another")
        unchanged = await client.get_task(GetTaskRequest(id=asked.id))
        await client.cancel_task(CancelTaskRequest(id=asked.id))

    assert type(refused) is InvalidParamsError
    assert unchanged == asked


async def test_push_notifications_are_not_supported(endpoint: str) -> None:
    async with await connect(endpoint) as client:
        task = await finished(client)
        wanted = TaskPushNotificationConfig(task_id=task.id, url="https://example.org/hook")
        with pytest.raises(PushNotificationNotSupportedError):
            await client.create_task_push_notification_config(wanted)


async def test_another_version_is_refused(published: Published) -> None:
    dialect, daemon, inbound = published
    old = ClientCallContext(service_parameters={"A2A-Version": "0.3"})

    async with await connect(daemon.endpoint(inbound)) as client:
        with pytest.raises(A2AError) as of_get:
            await client.get_task(GetTaskRequest(id=NOBODY), context=old)
        with pytest.raises(A2AError) as of_stream:
            [_ async for _ in client.send_message(request("x"), context=old)]
    raw = daemon.rpc(inbound, "SendMessage", {"message": message("x")}, headers={"A2A-Version": "0.3"})

    if dialect == "a2a":  # the reference's number stands for something else to this client
        assert type(of_get.value) is type(of_stream.value) is VersionNotSupportedError
    assert str(of_get.value) == str(of_stream.value) == raw["error"]["message"]
    assert raw["error"]["code"] == {"reference": -32007, "a2a": -32009}[dialect]
    assert raw["error"]["data"][0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_a_disabled_inbound_is_gone(published: Published) -> None:
    daemon = published.daemon
    inbound = daemon.create_inbound(name="short-lived")

    async with await connect(daemon.endpoint(inbound)) as client:
        daemon.act("inbound.disable", id=inbound)
        with pytest.raises(A2AClientError, match="404"):
            await send(client, "x")
        daemon.act("inbound.enable", id=inbound)
        await send(client, "x")
