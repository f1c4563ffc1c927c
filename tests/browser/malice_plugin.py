"""An agent that says what it is told to: a plugin file for the daemon, beside those of `agents_plugin.py`.

It is written against the plugin API alone, and is read as text by the fixtures.
"""

import json

from a2ad import Artifact, Executor, Status, TaskState, hookimpl

#: of each artifact and of the status, as often as a page has to bear
ROUNDS = 2000


class Puppet(Executor):
    """The message is `{"artifacts": [[parts], …], "asks": data, "metadata": {…}, "name": text, "id": text}`, or
    `busy`, or `busy later`: once it is answered.
    """

    async def execute(self, request):
        if request.text.startswith("busy"):
            if request.text == "busy later":
                await request.ask("Now?")
            async for each in self.busy(request):
                yield each
            return
        if not request.text.startswith("{"):
            return  # an answer
        told = json.loads(request.text)
        for i, parts in enumerate(told.get("artifacts", ())):
            yield Artifact(parts=parts, artifact_id=f"{told.get('id', 'artifact')}-{i}", name=told.get("name"))
        if "asks" in told:
            yield Status(TaskState.INPUT_REQUIRED, [{"data": told["asks"]}])
        elif "metadata" in told:
            yield Status(TaskState.COMPLETED, "done", metadata=told["metadata"])

    async def busy(self, request):
        """Two artifacts and statuses, in turns; then it waits to be canceled."""
        for i in range(ROUNDS):
            for name in ("one", "two"):
                yield Artifact(parts=[{"data": i}], artifact_id=name, append=i > 0)
            yield Status(TaskState.WORKING, f"step {i}")
        yield Artifact(parts=[{"text": "all told"}], artifact_id="three")
        await request.ask("Enough?")


@hookimpl
def a2ad_register_executors(register):
    register("puppet", Puppet())


@hookimpl
def a2ad_register_presets(register):
    register("malice", {"name": "Malice", "skills": [{"id": "puppet", "executor": "puppet"}]})
