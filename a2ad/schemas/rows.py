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
    token_set = shapes.flag(data_key="tokenSet")
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
    token_set = shapes.flag(data_key="tokenSet")
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
    """`frame`, `state` and `message` are of a status; `artifactId`, `name`, `until` and `pieces` of an artifact."""

    kind = shapes.one_of("created", "status", "artifact")
    at = shapes.time(metadata={"description": "Of an artifact, when it was written first."})
    frame = fields.Integer(validate=validate.Range(min=1))
    state = fields.String(validate=validate.OneOf([each.value for each in TaskState]))
    message = fields.String()
    artifact_id = fields.String(data_key="artifactId")
    name = fields.String()
    until = shapes.time(required=False, metadata={"description": "When the artifact was written last."})
    pieces = fields.Integer(
        validate=validate.Range(min=1),
        metadata={"description": "In how many pieces it was written, each of what had gathered meanwhile."},
    )


class Question(shapes.Row):
    question = shapes.text()
    options = fields.List(fields.Dict())
    deadline = fields.Raw()
    tool = fields.Raw()


class TaskDetail(TaskRow):
    started_at = shapes.time(data_key="startedAt", allow_none=True)
    ended_at = shapes.time(data_key="endedAt", allow_none=True)
    timeline = shapes.list_of(
        TimelineStep,
        metadata={"description": "Its creation, its newest status frames and artifacts, oldest first."},
    )
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
    server_id = fields.String(data_key="serverId")
    summary = fields.String()
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
    task_total = shapes.count(data_key="taskTotal")
    plugins = shapes.list_of(Plugin)
    health = shapes.one(Health)
    attention = shapes.list_of(Attention)


# the other reads


class Preset(shapes.Row):
    id = shapes.text()
    name = shapes.text()
    description = shapes.text()
    is_default = shapes.flag(data_key="isDefault")


class Tool(shapes.Row):
    name = shapes.text()
    title = shapes.text()
    description = shapes.text()
    schema = shapes.any_object(metadata={"description": "The JSON schema of its arguments."})
    connection = shapes.text()
    skill = shapes.text()


class Ended(shapes.Row):
    started = shapes.count()
    completed = shapes.count()
    failed = shapes.count()
    canceled = shapes.count()
    rejected = shapes.count()


class Minute(Ended):
    at = shapes.time(metadata={"description": "When the minute begins."})


class Bucket(shapes.Row):
    le = fields.Float(required=True)
    count = shapes.count()


class Histogram(shapes.Row):
    """A bucket counts the smaller ones' values too."""

    count = shapes.count()
    sum = fields.Float(required=True)
    buckets = shapes.list_of(Bucket)


class SentFigures(shapes.Row):
    streams = shapes.count()
    frames = shapes.count()
    bytes = shapes.count()


class StoreFigures(shapes.Row):
    ok = shapes.flag()
    commit_seconds = shapes.one(Histogram, data_key="commitSeconds")
    commit_operations = shapes.one(Histogram, data_key="commitOperations")
    failed_commits = shapes.count(data_key="failedCommits")


class RefusedFigures(shapes.Row):
    authentication = shapes.count()
    rate_limit = shapes.count(data_key="rateLimit")


class Metrics(shapes.Row):
    """Figures of the whole daemon: `docs/metrics.md`."""

    version = shapes.text()
    python = shapes.text()
    uptime_seconds = fields.Float(required=True, data_key="uptimeSeconds")
    tasks = shapes.counts(description="Those that are kept, by state.")
    tasks_in_memory = shapes.count(data_key="tasksInMemory")
    runs = shapes.count()
    runs_limit = shapes.count(data_key="runsLimit")
    queued = shapes.count()
    queued_limit = shapes.count(data_key="queuedLimit")
    abandoned_runs = shapes.count(data_key="abandonedRuns")
    streams = shapes.count()
    peers = shapes.count()
    sessions = shapes.count()
    inbounds = shapes.count()
    outbounds = shapes.count()
    outbound_calls = shapes.count(data_key="outboundCalls")
    plugins = shapes.count()
    history = shapes.list_of(Minute, metadata={"description": "The last 60 minutes, oldest first."})
    skills = fields.Dict(keys=fields.String(), values=fields.Nested(Ended), required=True)
    task_seconds = fields.Dict(
        keys=fields.String(), values=fields.Nested(Histogram), required=True, data_key="taskSeconds"
    )
    first_artifact_seconds = shapes.one(Histogram, data_key="firstArtifactSeconds")
    runs_started = shapes.count(data_key="runsStarted")
    sent = shapes.one(SentFigures)
    store = shapes.one(StoreFigures)
    outbound_results = shapes.counts(data_key="outboundResults")
    refused = shapes.one(RefusedFigures)
    plugin_errors = shapes.counts(data_key="pluginErrors")
    loop_lag_seconds = shapes.one(Histogram, data_key="loopLagSeconds")
    process = fields.Dict(keys=fields.String(), values=fields.Float(), required=True)


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
