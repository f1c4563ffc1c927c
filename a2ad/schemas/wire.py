"""The objects of A2A 1.0.1 and JSON-RPC as the daemon sends them, for the control API's description."""

from __future__ import annotations

from marshmallow import INCLUDE, fields

from a2ad.schemas import shapes


class Part(shapes.Row):
    """Exactly one of text, raw, url and data."""

    text = fields.String()
    raw = fields.String(metadata={"contentEncoding": "base64"})
    url = fields.String()
    data = fields.Raw()
    metadata = fields.Dict()
    filename = fields.String()
    media_type = fields.String(data_key="mediaType")


class Message(shapes.Row):
    message_id = shapes.text(data_key="messageId")
    context_id = fields.String(data_key="contextId")
    task_id = fields.String(data_key="taskId")
    role = shapes.one_of("ROLE_USER", "ROLE_AGENT")
    parts = shapes.list_of(Part)
    metadata = fields.Dict()
    extensions = fields.List(fields.String())
    reference_task_ids = fields.List(fields.String(), data_key="referenceTaskIds")


class Artifact(shapes.Row):
    artifact_id = shapes.text(data_key="artifactId")
    name = fields.String()
    description = fields.String()
    parts = shapes.list_of(Part)
    metadata = fields.Dict()


class TaskStatus(shapes.Row):
    state = shapes.state()
    message = shapes.one(Message, required=False)
    timestamp = shapes.time()


class Task(shapes.Row):
    id = shapes.text()
    context_id = shapes.text(data_key="contextId")
    status = shapes.one(TaskStatus)
    artifacts = shapes.list_of(Artifact, required=False)
    history = shapes.list_of(Message, required=False)
    metadata = fields.Dict()


class TaskStatusUpdateEvent(shapes.Row):
    task_id = shapes.text(data_key="taskId")
    context_id = shapes.text(data_key="contextId")
    status = shapes.one(TaskStatus)
    metadata = fields.Dict()


class TaskArtifactUpdateEvent(shapes.Row):
    task_id = shapes.text(data_key="taskId")
    context_id = shapes.text(data_key="contextId")
    artifact = shapes.one(Artifact)
    append = fields.Boolean()
    last_chunk = fields.Boolean(data_key="lastChunk")


class StreamResponse(shapes.Row):
    """Exactly one of them."""

    task = shapes.one(Task, required=False)
    message = shapes.one(Message, required=False)
    status_update = shapes.one(TaskStatusUpdateEvent, required=False, data_key="statusUpdate")
    artifact_update = shapes.one(TaskArtifactUpdateEvent, required=False, data_key="artifactUpdate")


class JsonRpcRequest(shapes.Row):
    jsonrpc = shapes.one_of("2.0")
    id = fields.Integer(required=True)
    method = shapes.text()
    params = shapes.any_object()


class JsonRpcError(shapes.Row):
    code = fields.Integer(required=True)
    message = shapes.text()
    data = fields.List(fields.Dict())


class JsonRpcResponse(shapes.Row):
    """Either a result or an error."""

    jsonrpc = shapes.one_of("2.0")
    id = fields.Integer(required=True)
    result = shapes.one(StreamResponse, required=False)
    error = shapes.one(JsonRpcError, required=False)


class AgentCard(shapes.Row):
    """What it has most of the time: plugins may add to it."""

    class Meta:
        unknown = INCLUDE

    name = shapes.text()
    description = shapes.text()
    version = shapes.text()
