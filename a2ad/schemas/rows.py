"""What the control API answers (reference 1.1 and 1.3; `protocol.md` 7), for its description alone: answers are put
together in `web/`, and the tests hold them against these.

Keys may be added in later versions: every object here is open.
"""

from __future__ import annotations

from marshmallow import INCLUDE, fields, validate

from a2ad.model import TaskState
from a2ad.schemas import shapes
from a2ad.schemas.control import Override
from a2ad.schemas.wire import Artifact, Message, Task, TaskStatus


class Skill(shapes.Row):
    id = shapes.text()
    name = shapes.text()
    description = shapes.text()


class Inbound(shapes.Row):
    id = shapes.text()
    name = shapes.text()
    description = shapes.text()
    version = shapes.text()
    endpoint_path = shapes.text(data_key="endpointPath")
    preset = shapes.text()
    card_path = shapes.text(data_key="cardPath")
    card_url = shapes.text(data_key="cardUrl", metadata={"description": "The endpoint's absolute URL."})
    enabled = shapes.flag()
    skills = shapes.list_of(Skill)
    token_set = fields.Boolean(required=True, data_key="tokenSet")
    auth_token_env = fields.String(data_key="authTokenEnv")
    error = shapes.maybe("Why it is not served although it is enabled.")


class Preview(shapes.Row):
    name = shapes.text()
    description = shapes.text()
    version = shapes.text()
    endpoint = shapes.text()
    skills = shapes.list_of(Skill)
    streaming = shapes.flag()
    protocol_version = shapes.text(data_key="protocolVersion")


class Outbound(shapes.Row):
    id = shapes.text()
    name = shapes.text()
    agent_card_url = shapes.text(data_key="agentCardUrl")
    enabled = shapes.flag()
    timeout_ms = fields.Integer(required=True, data_key="timeoutMs")
    state = shapes.one_of("connected", "connecting", "disabled", "error")
    skill_count = fields.Integer(required=True, data_key="skillCount")
    tool_count = fields.Integer(required=True, data_key="toolCount")
    disabled_skills = shapes.list_of(fields.String(), data_key="disabledSkills")
    skill_overrides = fields.Dict(
        keys=fields.String(), values=fields.Nested(Override), required=True, data_key="skillOverrides"
    )
    token_origins = shapes.list_of(fields.String(), data_key="tokenOrigins")
    token_set = fields.Boolean(required=True, data_key="tokenSet")
    created_at = shapes.time(data_key="createdAt")
    preset = fields.String()
    bearer_token_env = fields.String(data_key="bearerTokenEnv")
    last_error = fields.String(data_key="lastError")
    card = shapes.one(Preview, required=False)
    tools = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        metadata={"description": "The names of the tools, by the ids of their skills."},
    )


class TaskRow(shapes.Row):
    id = shapes.text()
    context_id = shapes.text(data_key="contextId")
    server_id = shapes.text(data_key="serverId")
    skill = shapes.text()
    executor = shapes.text()
    state = shapes.state()
    created_at = shapes.time(data_key="createdAt")
    updated_at = shapes.time(data_key="updatedAt")
    summary = shapes.text(metadata={"description": "How the first message begins."})
    error = shapes.maybe("Why it is FAILED or REJECTED.")


class TimelineStep(shapes.Row):
    frame = fields.Integer(required=True, validate=validate.Range(min=1))
    at = shapes.time()
    state = shapes.state()
    message = fields.String()


class Question(shapes.Row):
    question = shapes.text()
    options = fields.List(fields.Dict())
    deadline = fields.Raw()
    tool = fields.Raw()


class TaskDetail(TaskRow):
    started_at = shapes.time(data_key="startedAt", allow_none=True)
    ended_at = shapes.time(data_key="endedAt", allow_none=True)
    timeline = shapes.list_of(TimelineStep, metadata={"description": "The newest status frames, oldest first."})
    status = shapes.one(TaskStatus)
    artifacts = shapes.list_of(Artifact)
    history = shapes.list_of(Message)
    metadata = shapes.any_object()
    question = shapes.one(Question, required=False)


class Peer(shapes.Row):
    id = shapes.text()
    server_id = shapes.text(data_key="serverId")
    source = shapes.text()
    method = shapes.text()
    streaming = shapes.flag()
    task_ids = shapes.list_of(fields.String(), data_key="taskIds")
    connected_at = shapes.time(data_key="connectedAt")


class Session(shapes.Row):
    context_id = shapes.text(data_key="contextId")
    server_id = shapes.text(data_key="serverId")
    preset = shapes.text()
    agent = shapes.text()
    state = shapes.one_of("idle", "busy")
    turns = shapes.count()
    created_at = shapes.time(data_key="createdAt")
    last_active_at = shapes.time(data_key="lastActiveAt")
    task_id = fields.String(data_key="taskId")


class Plugin(shapes.Row):
    name = shapes.text()
    version = shapes.text()
    source = shapes.text()
    state = shapes.one_of("loaded", "failed", "disabled")
    error = fields.String()


class StoreHealth(shapes.Row):
    ok = shapes.flag()
    error = fields.String()
    since = shapes.time(required=False)


class Health(shapes.Row):
    status = shapes.one_of("ok", "degraded", "stopping")
    version = shapes.text()
    store = shapes.one(StoreHealth)


class Attention(shapes.Row):
    """What is wrong with what `id` names, or (`question`) what a task waits for."""

    kind = shapes.one_of("inbound", "outbound", "plugin", "question")
    id = shapes.text()
    message = shapes.text()
    task_id = fields.String(data_key="taskId")
    question = fields.String()
    options = fields.List(fields.Dict())
    deadline = fields.Raw()
    tool = fields.Raw()


class Snapshot(shapes.Row):
    inbounds = shapes.list_of(Inbound)
    outbounds = shapes.list_of(Outbound)
    tasks = shapes.list_of(TaskRow)
    peers = shapes.list_of(Peer)
    sessions = shapes.list_of(Session)
    task_total = fields.Integer(required=True, data_key="taskTotal", validate=validate.Range(min=0))
    plugins = shapes.list_of(Plugin)
    health = shapes.one(Health)
    attention = shapes.list_of(Attention)


# the other reads


class Preset(shapes.Row):
    id = shapes.text()
    name = shapes.text()
    description = shapes.text()
    is_default = fields.Boolean(required=True, data_key="isDefault")


class Tool(shapes.Row):
    name = shapes.text()
    title = shapes.text()
    description = shapes.text()
    schema = shapes.any_object(metadata={"description": "The JSON schema of its arguments."})
    connection = shapes.text()
    skill = shapes.text()


class Metrics(shapes.Row):
    """Figures of the whole daemon."""

    class Meta:
        unknown = INCLUDE

    version = shapes.text()
    uptime_seconds = fields.Float(required=True, data_key="uptimeSeconds")
    tasks = fields.Dict(keys=fields.String(), values=shapes.count(), required=True)


# what becomes of an action


class Done(shapes.Row):
    ok = fields.Boolean(required=True, validate=validate.Equal(comparable=True))
    message = shapes.text()


class DoneTo(Done):
    id = shapes.text()


class Tested(Done):
    task = shapes.one(Task, allow_none=True)
    reply = shapes.one(Message, required=False)


class Discovered(Done):
    preview = shapes.one(Preview)


class Called(Done):
    text = shapes.text()
    state = fields.String(required=True, allow_none=True, validate=validate.OneOf([each.value for each in TaskState]))
    context_id = shapes.text(data_key="contextId")
    task_id = fields.String(data_key="taskId")


class Progress(shapes.Row):
    """What is new of the answer's text, or a status of the remote's task."""

    text = fields.String()
    state = fields.String(validate=validate.OneOf([each.value for each in TaskState]))
    message = fields.String()


class Failed(shapes.Row):
    """`errors` names what is wrong with each field; an action may add what became of it all the same."""

    class Meta:
        unknown = INCLUDE

    ok = fields.Boolean(required=True, validate=validate.Equal(comparable=False))
    message = shapes.text()
    errors = fields.Dict(keys=fields.String(), values=fields.List(fields.String()))


class Nothing(shapes.Row):
    """An empty object."""


class Document(shapes.Row):
    """An OpenAPI 3.1 document."""

    class Meta:
        unknown = INCLUDE

    openapi = shapes.text()
    info = shapes.any_object()
    paths = shapes.any_object()
    components = shapes.any_object()
