"""What the control API answers (reference 1.1 and 1.3; `protocol.md` 7), for its description alone: answers are put
together in `web/`, and the tests hold them against these.

Keys may be added in later versions: every object here is open.
"""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, INCLUDE, Schema, fields, validate

from a2ad.model import TaskState
from a2ad.schemas.control import Override


class _Row(Schema):
    class Meta:
        unknown = EXCLUDE


def _text(**more: Any) -> fields.String:
    return fields.String(required=True, **more)


def _maybe(description: str = "", **more: Any) -> fields.String:
    return fields.String(metadata={"description": description} if description else {}, **more)


def _flag() -> fields.Boolean:
    return fields.Boolean(required=True)


def _count() -> fields.Integer:
    return fields.Integer(required=True, validate=validate.Range(min=0))


def _time(**more: Any) -> fields.DateTime:
    return fields.DateTime(**{"required": True, **more})


def _one_of(*values: str) -> fields.String:
    return _text(validate=validate.OneOf(values))


def _list(of: type[Schema] | fields.Field[Any], **more: Any) -> fields.List[Any]:
    item = of if isinstance(of, fields.Field) else fields.Nested(of)
    return fields.List(item, **{"required": True, **more})


def _object(of: type[Schema], **more: Any) -> fields.Nested:
    return fields.Nested(of, **{"required": True, **more})


def _any_object(**more: Any) -> fields.Dict:
    return fields.Dict(**{"required": True, **more})


def _state() -> fields.String:
    return _one_of(*(state.value for state in TaskState))


# what A2A 1.0.1 defines


class Part(_Row):
    """Exactly one of text, raw, url and data."""

    text = fields.String()
    raw = fields.String(metadata={"contentEncoding": "base64"})
    url = fields.String()
    data = fields.Raw()
    metadata = fields.Dict()
    filename = fields.String()
    media_type = fields.String(data_key="mediaType")


class Message(_Row):
    message_id = _text(data_key="messageId")
    context_id = fields.String(data_key="contextId")
    task_id = fields.String(data_key="taskId")
    role = _one_of("ROLE_USER", "ROLE_AGENT")
    parts = _list(Part)
    metadata = fields.Dict()
    extensions = fields.List(fields.String())
    reference_task_ids = fields.List(fields.String(), data_key="referenceTaskIds")


class Artifact(_Row):
    artifact_id = _text(data_key="artifactId")
    name = fields.String()
    description = fields.String()
    parts = _list(Part)
    metadata = fields.Dict()


class TaskStatus(_Row):
    state = _state()
    message = _object(Message, required=False)
    timestamp = _time()


class Task(_Row):
    id = _text()
    context_id = _text(data_key="contextId")
    status = _object(TaskStatus)
    artifacts = _list(Artifact, required=False)
    history = _list(Message, required=False)
    metadata = fields.Dict()


class TaskStatusUpdateEvent(_Row):
    task_id = _text(data_key="taskId")
    context_id = _text(data_key="contextId")
    status = _object(TaskStatus)
    metadata = fields.Dict()


class TaskArtifactUpdateEvent(_Row):
    task_id = _text(data_key="taskId")
    context_id = _text(data_key="contextId")
    artifact = _object(Artifact)
    append = fields.Boolean()
    last_chunk = fields.Boolean(data_key="lastChunk")


class StreamResponse(_Row):
    """Exactly one of them."""

    task = _object(Task, required=False)
    message = _object(Message, required=False)
    status_update = _object(TaskStatusUpdateEvent, required=False, data_key="statusUpdate")
    artifact_update = _object(TaskArtifactUpdateEvent, required=False, data_key="artifactUpdate")


class JsonRpcRequest(_Row):
    jsonrpc = _one_of("2.0")
    id = fields.Integer(required=True)
    method = _text()
    params = _any_object()


class JsonRpcError(_Row):
    code = fields.Integer(required=True)
    message = _text()
    data = fields.List(fields.Dict())


class JsonRpcResponse(_Row):
    """Either a result or an error."""

    jsonrpc = _one_of("2.0")
    id = fields.Integer(required=True)
    result = _object(StreamResponse, required=False)
    error = _object(JsonRpcError, required=False)


class AgentCard(_Row):
    """What it has most of the time: plugins may add to it."""

    class Meta:
        unknown = INCLUDE

    name = _text()
    description = _text()
    version = _text()


# the rows of the snapshot


class Skill(_Row):
    id = _text()
    name = _text()
    description = _text()


class Inbound(_Row):
    id = _text()
    name = _text()
    description = _text()
    version = _text()
    endpoint_path = _text(data_key="endpointPath")
    preset = _text()
    card_path = _text(data_key="cardPath")
    card_url = _text(data_key="cardUrl", metadata={"description": "The endpoint's absolute URL."})
    enabled = _flag()
    skills = _list(Skill)
    token_set = fields.Boolean(required=True, data_key="tokenSet")
    auth_token_env = fields.String(data_key="authTokenEnv")
    error = _maybe("Why it is not served although it is enabled.")


class Preview(_Row):
    name = _text()
    description = _text()
    version = _text()
    endpoint = _text()
    skills = _list(Skill)
    streaming = _flag()
    protocol_version = _text(data_key="protocolVersion")


class Outbound(_Row):
    id = _text()
    name = _text()
    agent_card_url = _text(data_key="agentCardUrl")
    enabled = _flag()
    timeout_ms = fields.Integer(required=True, data_key="timeoutMs")
    state = _one_of("connected", "connecting", "disabled", "error")
    skill_count = fields.Integer(required=True, data_key="skillCount")
    tool_count = fields.Integer(required=True, data_key="toolCount")
    disabled_skills = _list(fields.String(), data_key="disabledSkills")
    skill_overrides = fields.Dict(
        keys=fields.String(), values=fields.Nested(Override), required=True, data_key="skillOverrides"
    )
    token_origins = _list(fields.String(), data_key="tokenOrigins")
    token_set = fields.Boolean(required=True, data_key="tokenSet")
    created_at = _time(data_key="createdAt")
    preset = fields.String()
    bearer_token_env = fields.String(data_key="bearerTokenEnv")
    last_error = fields.String(data_key="lastError")
    card = _object(Preview, required=False)
    tools = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        metadata={"description": "The names of the tools, by the ids of their skills."},
    )


class TaskRow(_Row):
    id = _text()
    context_id = _text(data_key="contextId")
    server_id = _text(data_key="serverId")
    skill = _text()
    executor = _text()
    state = _state()
    created_at = _time(data_key="createdAt")
    updated_at = _time(data_key="updatedAt")
    summary = _text(metadata={"description": "How the first message begins."})
    error = _maybe("Why it is FAILED or REJECTED.")


class TimelineStep(_Row):
    frame = fields.Integer(required=True, validate=validate.Range(min=1))
    at = _time()
    state = _state()
    message = fields.String()


class Question(_Row):
    question = _text()
    options = fields.List(fields.Dict())
    deadline = fields.Raw()
    tool = fields.Raw()


class TaskDetail(TaskRow):
    started_at = _time(data_key="startedAt", allow_none=True)
    ended_at = _time(data_key="endedAt", allow_none=True)
    timeline = _list(TimelineStep, metadata={"description": "The newest status frames, oldest first."})
    status = _object(TaskStatus)
    artifacts = _list(Artifact)
    history = _list(Message)
    metadata = _any_object()
    question = _object(Question, required=False)


class Peer(_Row):
    id = _text()
    server_id = _text(data_key="serverId")
    source = _text()
    method = _text()
    streaming = _flag()
    task_ids = _list(fields.String(), data_key="taskIds")
    connected_at = _time(data_key="connectedAt")


class Session(_Row):
    context_id = _text(data_key="contextId")
    server_id = _text(data_key="serverId")
    preset = _text()
    agent = _text()
    state = _one_of("idle", "busy")
    turns = _count()
    created_at = _time(data_key="createdAt")
    last_active_at = _time(data_key="lastActiveAt")
    task_id = fields.String(data_key="taskId")


class Plugin(_Row):
    name = _text()
    version = _text()
    source = _text()
    state = _one_of("loaded", "failed", "disabled")
    error = fields.String()


class StoreHealth(_Row):
    ok = _flag()
    error = fields.String()
    since = _time(required=False)


class Health(_Row):
    status = _one_of("ok", "degraded", "stopping")
    version = _text()
    store = _object(StoreHealth)


class Attention(_Row):
    """What is wrong with what `id` names, or (`question`) what a task waits for."""

    kind = _one_of("inbound", "outbound", "plugin", "question")
    id = _text()
    message = _text()
    task_id = fields.String(data_key="taskId")
    question = fields.String()
    options = fields.List(fields.Dict())
    deadline = fields.Raw()
    tool = fields.Raw()


class Snapshot(_Row):
    inbounds = _list(Inbound)
    outbounds = _list(Outbound)
    tasks = _list(TaskRow)
    peers = _list(Peer)
    sessions = _list(Session)
    task_total = fields.Integer(required=True, data_key="taskTotal", validate=validate.Range(min=0))
    plugins = _list(Plugin)
    health = _object(Health)
    attention = _list(Attention)


# the other reads


class Preset(_Row):
    id = _text()
    name = _text()
    description = _text()
    is_default = fields.Boolean(required=True, data_key="isDefault")


class Tool(_Row):
    name = _text()
    title = _text()
    description = _text()
    schema = _any_object(metadata={"description": "The JSON schema of its arguments."})
    connection = _text()
    skill = _text()


class Metrics(_Row):
    """Figures of the whole daemon."""

    class Meta:
        unknown = INCLUDE

    version = _text()
    uptime_seconds = fields.Float(required=True, data_key="uptimeSeconds")
    tasks = fields.Dict(keys=fields.String(), values=_count(), required=True)


# what becomes of an action


class Done(_Row):
    ok = fields.Boolean(required=True, validate=validate.Equal(comparable=True))
    message = _text()


class DoneTo(Done):
    id = _text()


class Tested(Done):
    task = _object(Task, allow_none=True)
    reply = _object(Message, required=False)


class Discovered(Done):
    preview = _object(Preview)


class Called(Done):
    text = _text()
    state = fields.String(required=True, allow_none=True, validate=validate.OneOf([each.value for each in TaskState]))
    context_id = _text(data_key="contextId")
    task_id = fields.String(data_key="taskId")


class Progress(_Row):
    """What is new of the answer's text, or a status of the remote's task."""

    text = fields.String()
    state = fields.String(validate=validate.OneOf([each.value for each in TaskState]))
    message = fields.String()


class Failed(_Row):
    """`errors` names what is wrong with each field; an action may add what became of it all the same."""

    class Meta:
        unknown = INCLUDE

    ok = fields.Boolean(required=True, validate=validate.Equal(comparable=False))
    message = _text()
    errors = fields.Dict(keys=fields.String(), values=fields.List(fields.String()))


class Nothing(_Row):
    """An empty object."""


class Document(_Row):
    """An OpenAPI 3.1 document."""

    class Meta:
        unknown = INCLUDE

    openapi = _text()
    info = _any_object()
    paths = _any_object()
    components = _any_object()
