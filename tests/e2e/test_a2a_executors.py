"""Executors as an author outside this repository writes them, from the pinned API alone (design.md)."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message
from tests.lab import result, text_of, until

PLUGIN = '''
import asyncio, json, os, time
from pathlib import Path
from a2ad import (hookimpl, Executor, TaskRequest, Artifact, Status, TaskState, TaskFailed, InputRequired)

GATE = Path(os.environ["GATES"])


class Weather(Executor):
    async def execute(self, request: TaskRequest):
        yield Artifact(parts=[{"text": "Sunny in "}], append=True, last_chunk=False)
        yield Artifact(parts=[{"text": "Oslo"}], append=True, last_chunk=True)


class Inspect(Executor):
    """Says what it was given."""
    async def execute(self, request):
        (request.workdir / "seen").write_text(request.task_id)
        yield Artifact(parts=[{"data": {
            "task_id": request.task_id, "context_id": request.context_id, "inbound_id": request.inbound_id,
            "skill": request.skill, "message": request.message, "text": request.text,
            "preset": [request.preset.id, request.preset.name, dict(request.preset.options)],
            "caller": request.caller, "peer": request.peer, "resumed": request.resumed,
            "workdir": str(request.workdir), "files": sorted(file.name for file in request.workdir.iterdir()),
            "history": [message["parts"] for message in request.history],
            "attachments": [[a.name, a.media_type, a.size, a.sha256, Path(a.path).read_bytes().hex(), str(a.path)]
                            for a in request.attachments],
        }}])


class Asker(Executor):
    async def execute(self, request):
        answer = await request.ask("which?", options=[{"id": "r", "name": "Red", "kind": "allow"}])
        yield Status(TaskState.WORKING, f"so {answer['parts'][0]['text']}")
        second = await request.ask([{"text": "sure?"}, {"data": {"n": 1}}], state=TaskState.AUTH_REQUIRED)
        yield Artifact(parts=[{"text": second["parts"][0]["text"]}, {"data": [len(request.history), request.resumed]}])


class Impatient(Executor):
    async def execute(self, request):
        try:
            await request.ask("quick!", deadline=0.2)
        except TimeoutError:
            yield Artifact(parts=[{"text": "nobody answered"}])


class Resumes(Executor):
    async def execute(self, request):
        if not request.resumed:
            raise InputRequired("say more")
        yield Artifact(parts=[{"text": f"{len(request.history)}: {request.text}"}])


class Plain(Executor):
    """Blocks, and so is a plain generator."""
    def execute(self, request):
        for n in range(3):
            while not (GATE / f"plain-{n}").exists():
                time.sleep(0.01)
            yield Artifact(parts=[{"text": str(n)}], append=True)
        if request.text == "fail":
            raise TaskFailed("as told")


class Busy(Executor):
    """Never awaits."""
    async def execute(self, request):
        for n in range(50_000):
            yield Artifact(parts=[{"text": "chunk "}], append=True)


class Many(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"raw": bytes(range(256)), "filename": "b.bin", "mediaType": "application/x-b"}],
                       artifact_id="file", name="File", description="All bytes", metadata={"n": 1})
        yield Artifact(parts=[{"text": "a"}, {"text": "b"}, {"data": None}, {"text": "c"}, {"text": "d"}])
        yield Status(TaskState.COMPLETED, "that was all", metadata={"tokens": 5})


class Closing(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "x"}])

    async def close(self):
        (GATE / "closed").touch()


@hookimpl
def a2ad_register_executors(register, config):
    for kind in (Weather, Inspect, Asker, Impatient, Resumes, Plain, Busy, Many, Closing):
        register(kind.__name__.lower(), kind(), summary=f"The {kind.__name__} executor")


@hookimpl
def a2ad_register_presets(register, config):
    names = ("weather", "inspect", "asker", "impatient", "resumes", "plain", "busy", "many", "closing")
    register("outside", {"name": "Outside", "agent": "echo", "options": {"k": [1]},
                         "skills": [{"id": name, "executor": name} for name in names]})
'''


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("executors")
    started = DaemonProcess(folder, plugin=PLUGIN, env={"GATES": str(folder)})
    yield started
    try:
        assert started.terminate() == 0
        assert (folder / "closed").exists()
    finally:
        started.kill()


@pytest.fixture(scope="module")
def agent(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(preset="outside")


def _send(daemon: DaemonProcess, agent: str, skill: str, text: str = "go", **more: Any) -> dict[str, Any]:
    return daemon.send(agent, text, metadata={"skill": skill}, **more)


def _data(task: dict[str, Any]) -> Any:
    return task["artifacts"][0]["parts"][0]["data"]


def test_chunks_become_one_artifact(daemon: DaemonProcess, agent: str) -> None:
    task = _send(daemon, agent, "weather")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"] == [{"artifactId": "result", "parts": [{"text": "Sunny in Oslo"}]}]

    stream = daemon.stream(agent, "SendStreamingMessage", {"message": message("go", metadata={"skill": "weather"})})
    chunks = [e["result"]["artifactUpdate"] for _, e in stream if "artifactUpdate" in e["result"]]
    assert [chunk["artifact"]["parts"] for chunk in chunks] == [[{"text": "Sunny in "}], [{"text": "Oslo"}]]
    assert [(chunk.get("append", False), chunk["lastChunk"]) for chunk in chunks] == [(False, False), (True, True)]


def test_an_executor_knows_what_it_was_asked(daemon: DaemonProcess, agent: str) -> None:
    raw = bytes(range(256))
    parts = [
        {"text": "look"},
        {"data": {"n": 42}},
        {"url": "https://example.org/x"},
        {"raw": base64.b64encode(raw).decode(), "filename": "../../a b.bin", "mediaType": "application/x-b"},
        {"raw": ""},
    ]
    sent = {"role": "ROLE_USER", "parts": parts, "messageId": "m", "contextId": "../c", "referenceTaskIds": ["other"]}
    sent["metadata"] = {"skill": "inspect"}
    task = result(daemon.rpc(agent, "SendMessage", {"message": sent}))["task"]
    seen = _data(task)

    assert [seen["task_id"], seen["context_id"], seen["inbound_id"]] == [task["id"], "../c", agent]
    assert [seen["skill"], seen["resumed"], seen["peer"]] == ["inspect", False, "127.0.0.1"]
    assert seen["preset"] == ["outside", "Outside", {"k": [1]}]
    assert seen["message"]["referenceTaskIds"] == ["other"]
    assert seen["message"]["messageId"] == "m"
    assert seen["text"].startswith('look\n{"n":42}\nhttps://example.org/x')
    assert seen["history"] == [task["history"][0]["parts"]]
    name, media_type, size, digest, content, path = seen["attachments"][0]
    assert [media_type, size, content] == ["application/x-b", 256, raw.hex()]
    assert digest == hashlib.sha256(raw).hexdigest()
    assert "a b.bin" in name
    assert Path(path).is_relative_to(daemon.state_dir)
    assert seen["attachments"][1][2:5] == [0, hashlib.sha256(b"").hexdigest(), ""]
    # the same context has the same directory, another one has another
    assert Path(seen["workdir"]).is_relative_to(daemon.state_dir)
    same = _data(_send(daemon, agent, "inspect", contextId="../c"))
    other = _data(_send(daemon, agent, "inspect"))
    assert same["workdir"] == seen["workdir"] != other["workdir"]
    assert (Path(seen["workdir"]) / "seen").read_text() == same["task_id"]


def test_an_executor_knows_who_calls(daemon: DaemonProcess, agent: str) -> None:
    guarded = daemon.create_inbound(preset="outside")
    daemon.act("inbound.setAuth", id=guarded, token="s3cr3t")
    params = {"message": message("x", metadata={"skill": "inspect"})}
    answer = daemon.rpc(guarded, "SendMessage", params, headers={"Authorization": "Bearer s3cr3t"})
    by_token = _data(result(answer)["task"])["caller"]
    by_operator = _data(daemon.act("inbound.sendTest", id=agent, text="x", skill="inspect")["task"])["caller"]
    by_nobody = _data(_send(daemon, agent, "inspect"))["caller"]

    assert by_operator == "operator"
    assert len({by_token, by_operator, by_nobody}) == 3
    assert "s3cr3t" not in json.dumps(answer)


def test_ask_waits_for_the_next_message_and_gives_it(daemon: DaemonProcess, agent: str) -> None:
    asked = _send(daemon, agent, "asker")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    question = asked["status"]["message"]["parts"]
    assert question[0] == {"text": "which?"}
    assert question[1]["data"]["options"] == [{"id": "r", "name": "Red", "kind": "allow"}]

    again = daemon.send(agent, "Red", taskId=asked["id"])
    assert again["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    assert again["status"]["message"]["parts"] == [{"text": "sure?"}, {"data": {"n": 1}}]

    done = daemon.send(agent, "yes", taskId=asked["id"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    texts = [entry["parts"][0]["text"] for entry in done["history"]]
    assert texts == ["go", "which?", "Red", "so Red", "sure?", "yes"]
    assert done["artifacts"][0]["parts"] == [{"text": "yes"}, {"data": [6, False]}]


def test_past_its_deadline_ask_gives_up_and_the_task_runs_on(daemon: DaemonProcess, agent: str) -> None:
    asked = _send(daemon, agent, "impatient")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"

    def ended() -> dict[str, Any] | None:
        task = result(daemon.rpc(agent, "GetTask", {"id": asked["id"]}))
        return task if task["status"]["state"] == "TASK_STATE_COMPLETED" else None

    assert text_of(until(ended)) == "nobody answered"


def test_an_interruption_that_was_raised_is_resumed_with_the_history(daemon: DaemonProcess, agent: str) -> None:
    asked = _send(daemon, agent, "resumes")
    assert [asked["status"]["state"], asked["status"]["message"]["parts"]] == [
        "TASK_STATE_INPUT_REQUIRED",
        [{"text": "say more"}],
    ]
    assert text_of(daemon.send(agent, "more", taskId=asked["id"])) == "3: more"


def test_a_plain_generator_may_block_while_all_else_is_served(daemon: DaemonProcess, agent: str) -> None:
    params = {"message": message("fail", metadata={"skill": "plain"})}
    stream = daemon.stream(agent, "SendStreamingMessage", params)
    task_id = next(stream)[1]["result"]["task"]["id"]
    for n in range(3):
        # each chunk arrives while the generator blocks before the next one, and others are served meanwhile
        assert text_of(_send(daemon, agent, "weather")) == "Sunny in Oslo"
        (daemon.folder / f"plain-{n}").touch()
        assert next(stream)[1]["result"]["artifactUpdate"]["artifact"]["parts"] == [{"text": str(n)}]
    frames = [envelope["result"] for _, envelope in stream]
    assert frames[-1]["task"]["id"] == task_id
    assert frames[-1]["task"]["status"]["state"] == "TASK_STATE_FAILED"
    assert frames[-1]["task"]["status"]["message"]["parts"] == [{"text": "as told"}]
    assert text_of(frames[-1]["task"]) == "012"


def test_a_generator_that_never_awaits_does_not_starve_the_others(daemon: DaemonProcess, agent: str) -> None:
    configuration = {"returnImmediately": True}
    busy = _send(daemon, agent, "busy", configuration=configuration)["id"]
    served = 0

    def state() -> str:
        task = result(daemon.rpc(agent, "GetTask", {"id": busy, "historyLength": 0}))
        return str(task["status"]["state"])

    while state() == "TASK_STATE_WORKING":
        served += 1
    task = result(daemon.rpc(agent, "GetTask", {"id": busy}))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(task) == "chunk " * 50_000
    assert served > 1

    frames = list(daemon.stream(agent, "SendStreamingMessage", {"message": message("x", metadata={"skill": "busy"})}))
    assert [number for number, _ in frames] == list(range(1, 50_004))


def test_parts_of_every_kind_and_a_closing_message_arrive(daemon: DaemonProcess, agent: str) -> None:
    task = _send(daemon, agent, "many")

    file, mixed = task["artifacts"]
    assert [file["artifactId"], file["name"], file["description"], file["metadata"]] == [
        "file",
        "File",
        "All bytes",
        {"n": 1},
    ]
    assert base64.b64decode(file["parts"][0]["raw"]) == bytes(range(256))
    assert [file["parts"][0]["filename"], file["parts"][0]["mediaType"]] == ["b.bin", "application/x-b"]
    assert mixed["parts"] == [{"text": "ab"}, {"data": None}, {"text": "cd"}]
    assert task["status"]["message"]["parts"] == [{"text": "that was all"}]
    assert task["metadata"]["tokens"] == 5
    assert result(daemon.rpc(agent, "GetTask", {"id": task["id"]})) == task


def test_an_installed_package_does_the_same(launch: Any, tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "a2ad_outside-1.2.dist-info"
    info.mkdir(parents=True)
    (site / "a2ad_outside.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a2ad-outside\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[a2ad]\noutside = a2ad_outside\n")
    (info / "RECORD").write_text("")
    daemon = launch(env={"PYTHONPATH": str(site), "GATES": str(tmp_path)})
    agent = daemon.create_inbound(preset="outside")

    assert text_of(_send(daemon, agent, "weather")) == "Sunny in Oslo"
    asked = _send(daemon, agent, "resumes")
    assert text_of(daemon.send(agent, "more", taskId=asked["id"])) == "3: more"
    row = next(plugin for plugin in daemon.read("")["plugins"] if "outside" in plugin["name"])
    assert [row["version"], row["state"]] == ["1.2", "loaded"]
