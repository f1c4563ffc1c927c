"""Short forms for the official Python client's requests, and the strict reading of what a daemon sends."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from a2a.client import Client, ClientConfig, create_client
from a2a.helpers import get_artifact_text, get_stream_response_text
from a2a.types import (
    ListTasksResponse,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf import json_format
from google.protobuf.message import Message as Proto


async def connect(endpoint: str, *, streaming: bool = True, **more: Any) -> Client:
    """The official client of an endpoint, as `create_client` makes it: with httpx's own timeouts."""
    return await create_client(endpoint, ClientConfig(streaming=streaming), **more)


def request(text: str, skill: str | None = None, **more: Any) -> SendMessageRequest:
    """A message of one text part; `configuration` is that of the request, everything else the message's."""
    configuration = SendMessageConfiguration(**more.pop("configuration", {}))
    parts = more.pop("parts", None) or [Part(text=text)]
    message = Message(role=Role.ROLE_USER, parts=parts, **more)
    if skill is not None:
        message.metadata["skill"] = skill
    return SendMessageRequest(message=message, configuration=configuration)


async def send(client: Client, text: str, skill: str | None = None, **more: Any) -> Task:
    """For a client that does not stream, or a stream that was read to its end: the task."""
    *_, last = [event async for event in client.send_message(request(text, skill, **more))]
    assert last.HasField("task"), last
    return last.task


def kinds(events: list[StreamResponse]) -> list[str]:
    return [str(event.WhichOneof("payload")) for event in events]


def streamed_text(events: list[StreamResponse]) -> str:
    """What the artifact updates say, put together."""
    return "".join(get_stream_response_text(event) for event in events if event.HasField("artifact_update"))


def result_text(task: Task) -> str:
    return "".join(get_artifact_text(artifact, "") for artifact in task.artifacts)


async def until_working(events: AsyncIterator[StreamResponse]) -> str:
    """Read up to the progress note of the skill `work`; returns the task's id."""
    async for event in events:
        if event.status_update.status.HasField("message"):
            return event.status_update.task_id
    raise AssertionError("the stream ended before the task said that it works")


def parse_strictly(data: Any, message: Proto) -> Any:
    """The object that `data` is: no unknown field, no required one missing, every name in camelCase."""
    json_format.ParseDict(data, message, ignore_unknown_fields=False)
    if isinstance(message, ListTasksResponse):  # its required fields may well be empty
        assert {"tasks", "nextPageToken", "pageSize", "totalSize"} <= set(data)
        for task in message.tasks:
            validate_proto_required_fields(task)
    else:
        validate_proto_required_fields(message)
    assert [name for name in _names(data) if "_" in name] == []
    return message


def _names(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for name, value in data.items():
            yield name
            if name not in {"data", "metadata"}:
                yield from _names(value)
    elif isinstance(data, list):
        for value in data:
            yield from _names(value)
