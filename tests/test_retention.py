"""Retention: what has ended goes after its time, with its files; what lives or waits stays."""

import base64
import hashlib
import sqlite3
from pathlib import Path
from typing import Any

from tests.lab import Lab, error, result, script, until

#: some three seconds
SHORT = "[store]\nretention_days = 0.00003\n"
PLUGIN = """
from a2ad import Artifact, Executor, InputRequired, hookimpl

class Keeper(Executor):
    async def execute(self, request):
        (request.workdir / "notes").write_text(request.text)
        if request.text.startswith("ask"):
            raise InputRequired("what?")
        yield Artifact(parts=[{"text": "done"}])

@hookimpl
def a2ad_register_executors(register, config):
    register("keeper", Keeper())

@hookimpl
def a2ad_register_presets(register, config):
    register("keeper", {"agent": "echo", "skills": [{"id": "keep", "executor": "keeper"}]})
"""


def raw(data: bytes) -> dict[str, Any]:
    return {"raw": base64.b64encode(data).decode(), "filename": "f", "mediaType": "text/plain"}


def kept_files(state_dir: Path) -> set[str]:
    return {file.name for file in (state_dir / "attachments").glob("??/*")}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def age(lab: Lab, days: float) -> None:
    """As if all that is recorded had happened so long ago. The daemon must not run."""
    connection = sqlite3.connect(lab.state_dir / "a2ad.db")
    with connection:
        connection.execute("UPDATE tasks SET updated_at = updated_at - ?", (int(days * 86_400_000),))
    connection.close()


def there(lab: Lab, task_id: str) -> bool:
    answer = lab.rpc(lab.agent, "GetTask", {"id": task_id})
    if "error" in answer:
        assert error(answer) == (-32001, "TASK_NOT_FOUND")
    return "result" in answer


def test_what_has_ended_goes_and_what_lives_or_waits_stays(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config=SHORT)
    try:
        running, asking = lab.begin(["wait", "gate"]), lab.begin(["ask", "what?"])
        raised = result(lab.ask_for(["raise", "InputRequired", "what?"]))["task"]["id"]
        queued = lab.begin(["text", "x"], contextId=lab.get(running)["contextId"])
        lab.reach(asking, "INPUT_REQUIRED")
        ended = [
            result(lab.ask_for(*steps))["task"]["id"]
            for steps in ([["text", "x"]], [["raise", "TaskFailed", "no"]], [["raise", "TaskRejected", "no"]])
        ]
        canceled = lab.begin(["wait", "never"])
        lab.cancel(canceled)

        for task_id in (*ended, canceled):
            until(lambda task_id=task_id: not there(lab, task_id))

        states = {task_id: lab.get(task_id)["status"]["state"] for task_id in (running, asking, raised, queued)}
        assert list(states.values()) == [
            "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_SUBMITTED",
        ]  # fmt: skip
        page = lab.listed()
        assert page["totalSize"] == 4
        assert {task["id"] for task in page["tasks"]} == set(states)
        lab.open("gate")
        lab.rpc(lab.agent, "SendMessage", script(["text", "y"], taskId=raised))
        until(lambda: lab.listed()["totalSize"] == 1)
        assert lab.get(asking)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    finally:
        lab.kill()


def test_a_file_goes_with_the_last_task_that_has_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config=SHORT)
    try:
        shared, own = b"shared by two", b"of one alone"
        asking = script(["ask", "what?"], configuration={"returnImmediately": True})
        asking["message"]["parts"].append(raw(shared))
        waits = result(lab.rpc(lab.agent, "SendMessage", asking))["task"]["id"]
        ending = script(["text", "x"])
        ending["message"]["parts"] += [raw(shared), raw(own)]
        ended = result(lab.rpc(lab.agent, "SendMessage", ending))["task"]["id"]
        assert kept_files(lab.state_dir) == {digest(shared), digest(own)}

        until(lambda: not there(lab, ended))
        until(lambda: digest(own) not in kept_files(lab.state_dir))
        assert kept_files(lab.state_dir) == {digest(shared)}
        assert there(lab, waits)

        lab.cancel(waits)
        until(lambda: not kept_files(lab.state_dir))
    finally:
        lab.kill()


def test_with_0_days_everything_is_kept_for_ever(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config="[store]\nretention_days = 0\n")
    try:
        body = script(["text", "x"])
        body["message"]["parts"].append(raw(b"kept"))
        old = result(lab.rpc(lab.agent, "SendMessage", body))["task"]["id"]
        lab.terminate()
        age(lab, 10_000)
        inbound = lab.agent

        lab = Lab(tmp_path, config="[store]\nretention_days = 0\n")
        lab.agent = inbound
        result(lab.ask_for(["text", "another"]))
        assert there(lab, old)
        assert kept_files(lab.state_dir) == {digest(b"kept")}
        lab.terminate()

        # with a time it would have gone
        lab = Lab(tmp_path, config="[store]\nretention_days = 30\n")
        lab.agent = inbound
        until(lambda: not there(lab, old))
    finally:
        lab.kill()


def test_what_is_younger_than_its_time_stays_and_what_is_older_goes_at_the_next_start(tmp_path: Path) -> None:
    config = "[store]\nretention_days = 30\n"
    lab = Lab(tmp_path, config=config)
    try:
        inbound = lab.agent
        old = result(lab.ask_for(["text", "x"]))["task"]["id"]
        waits = result(lab.ask_for(["raise", "InputRequired", "what?"]))["task"]["id"]
        lab.terminate()
        age(lab, 20)
        lab = Lab(tmp_path, config=config)
        lab.agent = inbound
        young = result(lab.ask_for(["text", "x"]))["task"]["id"]
        lab.terminate()
        age(lab, 11)

        lab = Lab(tmp_path, config=config)
        lab.agent = inbound
        until(lambda: not there(lab, old))
        assert there(lab, young)
        assert there(lab, waits)
    finally:
        lab.kill()


def test_the_directory_of_a_context_goes_with_its_last_task(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config=SHORT)
    try:
        (lab.folder / "plugins" / "keeper.py").write_text(PLUGIN)
        lab.terminate()
        lab = Lab(tmp_path, config=SHORT)
        lab.agent = lab.create_inbound(preset="keeper")
        contexts = lab.state_dir / "contexts" / lab.agent

        lab.send(lab.agent, "hello", contextId="one")
        lab.send(lab.agent, "hello", contextId="two")
        waits = lab.send(lab.agent, "ask", contextId="two")
        assert {folder.name for folder in contexts.iterdir()} == {digest(b"one")[:32], digest(b"two")[:32]}

        until(lambda: lab.listed()["totalSize"] == 1)
        until(lambda: len(list(contexts.iterdir())) == 1)
        assert (contexts / digest(b"two")[:32] / "notes").read_text() == "ask"
        assert there(lab, waits["id"])
    finally:
        lab.kill()
