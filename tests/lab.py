"""A daemon whose executor does what each message tells it: for tests of the protocol, whatever the agent."""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.daemon import DaemonProcess

T = TypeVar("T")
WITHIN = 30.0

#: The message's first `data` part is a list of steps. Each run is noted in the file `$LAB/runs`, with what befell it.
PLUGIN = """
import asyncio, os, time
from pathlib import Path
import a2ad
from a2ad import Artifact, Executor, Reply, Status, TaskState, hookimpl

LAB = Path(os.environ["LAB"])


def note(what, request):
    with (LAB / "runs").open("a") as notes:
        notes.write(f"{what} {request.task_id}\\n")


class Script(Executor):
    async def execute(self, request):
        note("resumed" if request.resumed else "run", request)
        steps = next((part["data"] for part in request.message["parts"] if "data" in part), [["echo"]])
        try:
            for name, *arguments in steps:
                if name == "text":
                    yield Artifact(parts=[{"text": arguments[0]}], append=True, last_chunk=False)
                elif name == "count":
                    for number in range(arguments[0]):
                        yield Artifact(parts=[{"text": f"{number}."}], append=True)
                        if arguments[1:]:
                            await asyncio.sleep(arguments[1])
                elif name == "large":
                    for _ in range(arguments[1]):
                        yield Artifact(parts=[{"text": "x" * arguments[0]}], append=True)
                elif name == "echo":
                    yield Artifact(parts=[{"text": request.text}])
                elif name == "artifact":
                    yield Artifact(**arguments[0])
                elif name == "note":
                    yield Status(TaskState.WORKING, arguments[0])
                elif name == "status":
                    yield Status(TaskState(arguments[0]), *arguments[1:])
                elif name == "wait":
                    while not (LAB / arguments[0]).exists():
                        await asyncio.sleep(0.005)
                elif name == "block":
                    deadline = time.monotonic() + 20
                    while not (LAB / arguments[0]).exists() and time.monotonic() < deadline:
                        await asyncio.to_thread(time.sleep, 0.01)
                elif name == "swallow":
                    try:
                        while not (LAB / arguments[0]).exists():
                            await asyncio.sleep(0.005)
                    except asyncio.CancelledError:
                        note("swallowed", request)
                elif name == "linger":
                    try:
                        await asyncio.sleep(600)
                    except asyncio.CancelledError:
                        note("lingered", request)
                        while not (LAB / arguments[0]).exists():
                            await asyncio.sleep(0.005)
                        raise
                elif name == "ignore":
                    while not (LAB / arguments[0]).exists():
                        try:
                            await asyncio.sleep(0.005)
                        except asyncio.CancelledError:
                            note("ignored", request)
                elif name == "ask":
                    answer = await request.ask(arguments[0])
                    yield Artifact(parts=[{"text": answer["parts"][0]["text"]}], artifact_id="answer")
                elif name == "ask-auth":
                    answer = await request.ask(arguments[0], state=TaskState.AUTH_REQUIRED)
                    yield Artifact(parts=[{"text": answer["parts"][0]["text"]}], artifact_id="answer")
                elif name == "raise":
                    raise getattr(a2ad, arguments[0])(arguments[1])
        except asyncio.CancelledError:
            note("canceled", request)
            raise
        note("done", request)


class Replying(Script):
    may_reply = True

    async def execute(self, request):
        if request.text.startswith("task"):
            async for event in Script.execute(self, request):
                yield event
            return
        note("run", request)
        if request.text.startswith("ask"):
            answer = await request.ask("which?")
            yield Artifact(parts=[{"text": answer["parts"][0]["text"]}])
            return
        if request.text.startswith("gate"):
            while not (LAB / request.text).exists():
                await asyncio.sleep(0.005)
        yield Reply(parts=[{"text": f"re: {request.text}"}], metadata={"direct": True})


class Threaded(Executor):
    def execute(self, request):
        note("run", request)
        deadline = time.monotonic() + 20
        while not (LAB / request.text).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        yield Artifact(parts=[{"text": "too late"}])


@hookimpl
def a2ad_register_executors(register, config):
    register("script", Script())
    register("replying", Replying())
    register("threaded", Threaded())


@hookimpl
def a2ad_register_presets(register, config):
    skills = [{"id": name, "executor": name} for name in ("script", "replying", "threaded")]
    register("lab", {"agent": "echo", "skills": skills})
"""


class Lab(DaemonProcess):
    """The daemon, with an inbound `agent` of the preset `lab`."""

    def __init__(self, folder: Path, *, env: dict[str, str] | None = None, **more: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, plugin=PLUGIN, env={"LAB": str(folder), **(env or {})}, **more)
        self.agent = self.create_inbound(preset="lab")

    def open(self, gate: str) -> None:
        """Let those who `wait` for this gate go on."""
        (self.folder / gate).touch()

    def noted(self, what: str, task_id: str = "") -> int:
        """How often a run was begun (`run`, `resumed`), `canceled`, `swallowed` or `done`."""
        notes = self.folder / "runs"
        lines = notes.read_text().splitlines() if notes.exists() else []
        return sum(line.startswith(f"{what} {task_id}") for line in lines)

    def ask_for(self, *steps: list[Any], inbound: str = "", **more: Any) -> Any:
        """SendMessage with these steps; the whole envelope."""
        return self.rpc(inbound or self.agent, "SendMessage", script(*steps, **more))

    def begin(self, *steps: list[Any], **more: Any) -> str:
        """The id of a task that was started, and not waited for."""
        task = self.started(*steps, **more)
        return str(task["id"])

    def started(self, *steps: list[Any], **more: Any) -> dict[str, Any]:
        configuration = {**more.pop("configuration", {}), "returnImmediately": True}
        task: dict[str, Any] = result(self.ask_for(*steps, configuration=configuration, **more))["task"]
        return task

    def get(self, task_id: str, inbound: str = "", **more: Any) -> dict[str, Any]:
        task: dict[str, Any] = result(self.rpc(inbound or self.agent, "GetTask", {"id": task_id, **more}))
        return task

    def cancel(self, task_id: str) -> Any:
        return self.rpc(self.agent, "CancelTask", {"id": task_id})

    def reach(self, task_id: str, state: str) -> dict[str, Any]:
        """Wait until the task is in this state; the task."""
        return until(lambda: task if (task := self.get(task_id))["status"]["state"] == f"TASK_STATE_{state}" else None)

    def listed(self, **params: Any) -> dict[str, Any]:
        page: dict[str, Any] = result(self.rpc(self.agent, "ListTasks", params))
        return page

    def collect(self, method: str, params: Any, **more: Any) -> list[tuple[int | None, Any]]:
        """A whole stream: (number, result)."""
        return [(number, result(envelope)) for number, envelope in self.stream(self.agent, method, params, **more)]


def script(*steps: list[Any], text: str = "", configuration: dict[str, Any] | None = None, **more: Any) -> Any:
    """Parameters of SendMessage for the skill `script`; `more` goes into the message."""
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    if steps:
        parts.append({"data": list(steps)})
    message = {"role": "ROLE_USER", "parts": parts, "metadata": {"skill": "script"}, **more}
    return {"message": message} if configuration is None else {"message": message, "configuration": configuration}


def result(envelope: Any) -> Any:
    assert "result" in envelope, envelope
    return envelope["result"]


def error(envelope: Any) -> tuple[int, str]:
    """The code and reason of an error, which has to have both and all."""
    assert "error" in envelope, envelope
    found = envelope["error"]
    info = [detail for detail in found["data"] if detail["@type"].endswith("google.rpc.ErrorInfo")]
    assert found["message"]
    assert [detail["domain"] for detail in info] == ["a2a-protocol.org"]
    return found["code"], info[0]["reason"]


def violations(envelope: Any) -> list[str]:
    """The paths of the fields that are wrong."""
    assert error(envelope) == (-32602, "INVALID_PARAMS")
    bad = [detail for detail in envelope["error"]["data"] if detail["@type"].endswith("google.rpc.BadRequest")]
    assert all(violation["description"] for violation in bad[0]["fieldViolations"])
    return [violation["field"] for violation in bad[0]["fieldViolations"]]


def text_of(task: dict[str, Any], artifact_id: str = "result") -> str:
    """The text of one artifact of a task."""
    found = next(a for a in task.get("artifacts", ()) if a["artifactId"] == artifact_id)
    return "".join(part["text"] for part in found["parts"])


def until(condition: Callable[[], T | None], within: float = WITHIN) -> T:
    """What the condition gives, once it gives something."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def at_once(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Do all of them at the same moment; what they returned, in order."""
    wanted = list(calls)
    with ThreadPoolExecutor(len(wanted)) as pool:
        return [future.result() for future in [pool.submit(call) for call in wanted]]


class Answer:
    """An HTTP answer as it came."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def exchange(
    url: str, method: str = "POST", body: Any = b"", headers: dict[str, str] | None = None, *, json_type: bool = True
) -> Answer:
    """One request on a connection of its own; a body that is an iterator goes out in chunks."""
    parts = urlsplit(url)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    try:
        defaults = {"Content-Type": "application/json"} if json_type else {}
        connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), body,
                           {**defaults, **(headers or {})})  # fmt: skip
        return Answer(connection.getresponse())
    finally:
        connection.close()


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def head(url: str, *lines: str, method: str = "POST", version: str = "1.1") -> bytes:
    """The head of a request, to be written by hand."""
    parts = urlsplit(url)
    return "\r\n".join([f"{method} {parts.path} HTTP/{version}", f"Host: {parts.netloc}", *lines, "", ""]).encode()


def answer_on(sock: socket.socket, method: str = "POST") -> Answer:
    """The answer that comes on a socket."""
    response = http.client.HTTPResponse(sock, method=method)
    response.begin()
    return Answer(response)
