"""a2ad: any agent on this machine, a good citizen of the Agent2Agent network.

What plugins are written against is exported here.
"""

from a2ad.agent import (
    Agent,
    AgentContext,
    AgentSession,
    NeedsAuth,
    NeedsInput,
    PresetError,
    TextDelta,
    ToolCall,
    ToolError,
    ToolResult,
    TurnEnd,
)
from a2ad.credentials import read_secret
from a2ad.executor import (
    Artifact,
    Attachment,
    AuthRequired,
    Executor,
    InputRequired,
    Preset,
    Reply,
    Skill,
    Status,
    TaskFailed,
    TaskRejected,
    TaskRequest,
    prompt_text,
)
from a2ad.hookspecs import Decision, Deny, Event, OutboundCall, hookimpl
from a2ad.model import TaskState

__version__ = "0.4.0.dev0"

__all__ = [
    "Agent",
    "AgentContext",
    "AgentSession",
    "Artifact",
    "Attachment",
    "AuthRequired",
    "Decision",
    "Deny",
    "Event",
    "Executor",
    "InputRequired",
    "NeedsAuth",
    "NeedsInput",
    "OutboundCall",
    "Preset",
    "PresetError",
    "Reply",
    "Skill",
    "Status",
    "TaskFailed",
    "TaskRejected",
    "TaskRequest",
    "TaskState",
    "TextDelta",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "TurnEnd",
    "__version__",
    "hookimpl",
    "prompt_text",
    "read_secret",
]
