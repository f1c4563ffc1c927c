"""The agents of the inbound page's chat: a plugin file for the daemon, beside those of `agents_plugin.py`.

It is written against the plugin API alone, and is read as text by the fixtures.
"""

from a2ad import (
    Agent,
    AgentSession,
    Artifact,
    Executor,
    NeedsInput,
    Status,
    TaskState,
    TextDelta,
    ToolCall,
    ToolResult,
    TurnEnd,
    hookimpl,
)

FRAMES = 10_000
OPTIONS = [{"id": "allow_once", "name": "Allow once"}, {"id": "reject", "name": "No"}]


class Careful(AgentSession):
    """Calls a tool, asks before it calls another one, and says what it was told."""

    async def prompt(self, parts, attachments):
        yield TextDelta("Looking. ")
        yield ToolCall("1", "list_files", {"path": "/srv/data"})
        yield ToolResult("1", "one.txt")
        yield ToolCall("2", "remove", {"path": "/srv/data/one.txt"})
        yield NeedsInput("May I remove **one.txt**?", options=OPTIONS)
        yield ToolResult("2", "permission denied", error=True)
        yield TextDelta("Told: " + self.told)
        yield TurnEnd()

    async def answer(self, parts):
        self.told = parts[0]["text"]


class Tools(Agent):
    async def open(self, context):
        return Careful()


class Many(Executor):
    """As many frames as the page has to bear."""

    async def execute(self, request):
        for i in range(FRAMES):
            yield Artifact(parts=[{"text": f"word{i} "}], append=i > 0, last_chunk=i == FRAMES - 1)


class Chatty(Executor):
    """More statuses than are shown, and more artifacts."""

    async def execute(self, request):
        for i in range(300):
            yield Status(TaskState.WORKING, f"step {i}")
        for i in range(120):
            yield Artifact(parts=[{"text": f"note {i}"}], artifact_id=f"note-{i}")


@hookimpl
def a2ad_register_executors(register):
    register("many", Many())
    register("chatty", Chatty())


@hookimpl
def a2ad_register_agents(register):
    register("tools", lambda preset: Tools())


@hookimpl
def a2ad_register_presets(register):
    about = {"name": "Tools", "description": "Asks before it removes"}
    register("tools", {**about, "agent": "tools", "skills": [{"id": "chat"}]})
    skills = [{"id": name, "executor": name} for name in ("many", "chatty")]
    register("much", {"name": "Much", "skills": skills})
