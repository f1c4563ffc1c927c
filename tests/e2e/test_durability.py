"""`kill -9`, and what is there after it (`protocol.md` 5; `design.md`, "The life of a task")."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import await_state, get_task, start_task, state_of, text_of, until

PLUGIN = """
import asyncio
import os
from pathlib import Path

from a2ad import Artifact, AuthRequired, Executor, InputRequired, Status, TaskState, hookimpl


async def appears(path):
    while not Path(path).exists():
        await asyncio.sleep(0.01)


class Durable(Executor):
    async def execute(self, request):
        # one line for every run, with who runs
        with open(Path(os.environ["RUNS"]), "a") as runs:
            runs.write(f"{request.task_id} {request.resumed}\\n")
        word, _, rest = request.text.partition(" ")
        if request.resumed:
            if word == "chunks":
                await appears(rest)
            said = [entry["parts"][0]["text"] for entry in request.history]
            yield Artifact(parts=[{"text": f"resumed with {request.text}, after {' / '.join(said)}"}])
            return
        if word == "chunks":
            yield Status(TaskState.WORKING, "on it")
            for number in range(100_000):
                yield Artifact(parts=[{"text": f"<{number}>"}], append=True, last_chunk=False)
                await asyncio.sleep(0.01)
        yield Artifact(parts=[{"text": f"begun {rest}"}])
        if word == "wait":
            await appears(rest)
        if word == "raise":
            raise InputRequired("which one?")
        if word == "auth":
            raise AuthRequired("who are you?")
        if word == "ask":
            answer = await request.ask("which one?")
            yield Artifact(parts=[{"text": f"answered {answer['parts'][0]['text']}"}])
        if word == "large":
            yield Artifact(parts=[{"text": "x" * 1_000_000}], artifact_id="large")
            await appears(rest)


class Resumes(Durable):
    can_resume = True


@hookimpl
def a2ad_register_executors(register, config):
    register("durable", Durable())
    register("resumes", Resumes())


@hookimpl
def a2ad_register_presets(register, config):
    register("durable", {"skills": [{"id": "chat", "executor": "durable"}, {"id": "resumes", "executor": "resumes"}]})
"""
Start = Callable[..., DaemonProcess]


@pytest.fixture
def start(launch: Callable[..., DaemonProcess], tmp_path: Path) -> Start:
    """Start a daemon with the plugin, or the next one on the same state."""

    def start_one(**more: Any) -> DaemonProcess:
        return launch(**{"plugin": PLUGIN, "env": {"RUNS": str(tmp_path / "runs")}, **more})

    return start_one


def runs(folder: Path, task_id: str) -> list[str]:
    """Whether each run of the task was a resumed one, in order."""
    lines = (folder / "runs").read_text().splitlines() if (folder / "runs").exists() else []
    return [line.partition(" ")[2] for line in lines if line.startswith(task_id)]


async def test_a_thousand_answered_messages_are_there_after_a_kill(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch()
    inbound = daemon.create_inbound()
    waiting = asyncio.Semaphore(64)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:

        async def send(number: int) -> Any:
            wanted = message(f"message {number} of many", messageId=f"m-{number}", contextId=f"c-{number % 100}")
            call = {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": {"message": wanted}}
            async with waiting, session.post(daemon.endpoint(inbound), json=call) as response:
                answer = await response.json()
                assert (response.status, answer["id"]) == (200, number)
                return answer["result"]["task"]

        answered = await asyncio.gather(*map(send, range(1000)))
    daemon.kill()

    again = launch()

    assert len({task["id"] for task in answered}) == 1000
    for number, task in enumerate(answered):
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert text_of(task) == f"message {number} of many"
        assert task["contextId"] == f"c-{number % 100}"
        assert get_task(again, inbound, task["id"]) == task
    listed = again.rpc(inbound, "ListTasks", {"pageSize": 1, "status": "TASK_STATE_COMPLETED"})["result"]
    assert listed["totalSize"] == 1000
    repeated = again.send(inbound, "something else", messageId="m-500")
    assert repeated == answered[500]
    assert again.read("/metrics")["tasks"]["TASK_STATE_COMPLETED"] == 1000


def test_a_task_that_was_working_has_failed_and_keeps_what_was_streamed(start: Start) -> None:
    daemon = start()
    inbound = daemon.create_inbound(preset="durable")
    frames = daemon.stream(inbound, "SendStreamingMessage", {"message": message("chunks")})
    task_id = next(frames)[1]["result"]["task"]["id"]
    arrived: list[tuple[float, str]] = []
    for _, frame in frames:
        if "artifactUpdate" in frame["result"]:
            piece = frame["result"]["artifactUpdate"]["artifact"]["parts"][0]["text"]
            arrived.append((time.monotonic(), piece))
            if arrived[-1][0] - arrived[0][0] > 1.5:
                break
    killed_at = time.monotonic()
    daemon.kill()

    again = start()
    task = get_task(again, inbound, task_id)

    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "stopped" in task["status"]["message"]["parts"][0]["text"]
    promised = "".join(piece for at, piece in arrived if at < killed_at - 0.5)
    assert promised
    assert text_of(task).startswith(promised)
    assert "".join(f"<{number}>" for number in range(100_000)).startswith(text_of(task))
    assert "on it" in [entry["parts"][0]["text"] for entry in task["history"]]
    assert "error" in again.rpc(inbound, "SubscribeToTask", {"id": task_id})
    assert again.read(f"/task?id={task_id}")["error"]


def test_a_large_artifact_of_a_running_task_is_kept_too(start: Start, tmp_path: Path) -> None:
    daemon = start()
    inbound = daemon.create_inbound(preset="durable")
    frames = daemon.stream(inbound, "SendStreamingMessage", {"message": message("large /never")})
    seen_at = 0.0
    for _, frame in frames:
        if frame["result"].get("artifactUpdate", {}).get("artifact", {}).get("artifactId") == "large":
            seen_at = time.monotonic()
            break
    # half a second is what the daemon promises to need at most
    until(lambda: time.monotonic() - seen_at > 0.5, "what was streamed is half a second old")
    daemon.kill()
    frames.close()  # type: ignore[attr-defined]

    artifacts = get_task(start(), inbound, task_id_of(tmp_path))["artifacts"]

    assert {artifact["artifactId"]: len(artifact["parts"][0]["text"]) for artifact in artifacts}["large"] == 1_000_000


def task_id_of(folder: Path) -> str:
    """The id of the only task that ran."""
    (line,) = (folder / "runs").read_text().splitlines()
    return line.partition(" ")[0]


def test_a_task_that_had_not_begun_runs_after_the_restart(start: Start, tmp_path: Path) -> None:
    limits = "[limits]\nruns_per_inbound = 1\n"
    daemon = start(config=limits)
    inbound = daemon.create_inbound(preset="durable")
    working = start_task(daemon, inbound, "wait /never", contextId="talk")
    queued = [start_task(daemon, inbound, f"say {n}", contextId="talk" if n % 2 else f"c{n}") for n in range(4)]
    await_state(daemon, working, "WORKING")
    assert {state_of(daemon, task_id) for task_id in queued} == {"SUBMITTED"}
    daemon.kill()

    again = start(config=limits)

    for number, task_id in enumerate(queued):
        assert text_of(await_state(again, task_id, "COMPLETED")) == f"begun {number}"
        assert runs(tmp_path, task_id) == ["False"]
    assert state_of(again, working) == "FAILED"
    assert runs(tmp_path, working) == ["False"]


@pytest.mark.parametrize(("word", "state"), [("raise", "INPUT_REQUIRED"), ("ask", "INPUT_REQUIRED"),
                                             ("auth", "AUTH_REQUIRED")])  # fmt: skip
def test_an_interrupted_task_waits_on_and_is_continued_in_a_resumed_run(
    start: Start, tmp_path: Path, word: str, state: str
) -> None:
    daemon = start()
    inbound = daemon.create_inbound(preset="durable")
    asked = daemon.send(inbound, f"{word} me")
    assert asked["status"]["state"] == f"TASK_STATE_{state}"
    daemon.kill()

    again = start()

    assert get_task(again, inbound, asked["id"]) == asked
    assert runs(tmp_path, asked["id"]) == ["False"]
    answered = again.send(inbound, "the red one", taskId=asked["id"])
    question = asked["status"]["message"]["parts"][0]["text"]
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(answered) == f"resumed with the red one, after {word} me / {question} / the red one"
    assert runs(tmp_path, asked["id"]) == ["False", "True"]
    again.kill()
    assert get_task(start(), inbound, asked["id"]) == answered


def test_a_task_whose_executor_can_resume_runs_again(start: Start, tmp_path: Path) -> None:
    daemon = start()
    inbound = daemon.create_inbound(preset="durable")
    task_id = start_task(daemon, inbound, "wait /never", metadata={"skill": "resumes"})
    until(lambda: runs(tmp_path, task_id), "it runs")
    daemon.kill()

    again = start()

    assert text_of(await_state(again, task_id, "COMPLETED")) == "resumed with wait /never, after wait /never"
    assert runs(tmp_path, task_id) == ["False", "True"]


def test_frame_ids_go_on_rising_after_the_restart(start: Start) -> None:
    daemon = start()
    inbound = daemon.create_inbound(preset="durable")
    first = list(daemon.stream(inbound, "SendStreamingMessage", {"message": message("raise me")}))
    task_id = first[0][1]["result"]["task"]["id"]
    before = [number or 0 for number, _ in first]
    assert before == list(range(1, len(before) + 1))
    daemon.kill()

    again = start()
    watched = again.stream(inbound, "SubscribeToTask", {"id": task_id}, headers={"Last-Event-ID": "1"})
    replayed = [next(watched)]
    assert replayed[0][1]["result"]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (replayed[0][0] or 0) <= before[-1]
    answer = message("the red one", taskId=task_id)
    continued = [number or 0 for number, _ in again.stream(inbound, "SendStreamingMessage", {"message": answer})]
    replayed += list(watched)

    assert continued[1:] == sorted(set(continued[1:]))
    assert continued[1] > before[-1]
    numbers = [number or 0 for number, _ in replayed]
    assert numbers[1:] == sorted(set(numbers[1:]))
    assert numbers[0] <= numbers[1]
    states = [frame["result"]["statusUpdate"]["status"]["state"].removeprefix("TASK_STATE_")
              for _, frame in replayed if "statusUpdate" in frame["result"]]  # fmt: skip
    assert states[-3:] == ["INPUT_REQUIRED", "WORKING", "COMPLETED"]
    old = {number for number, frame in first if "statusUpdate" in frame["result"]}
    assert {number for number in numbers[1:] if number <= before[-1]} == {number for number in old if (number or 0) > 1}


def test_frame_ids_of_a_running_task_do_not_repeat_after_a_kill(start: Start, tmp_path: Path) -> None:
    daemon = start()
    inbound = daemon.create_inbound(preset="durable")
    wanted = message(f"chunks {tmp_path / 'gate'}", metadata={"skill": "resumes"})
    task_id, highest = "", 0
    for number, frame in daemon.stream(inbound, "SendStreamingMessage", {"message": wanted}):
        task_id = task_id or frame["result"]["task"]["id"]
        highest = number or 0
        if highest > 60:
            break
    daemon.kill()

    again = start()
    watched = again.stream(inbound, "SubscribeToTask", {"id": task_id}, headers={"Last-Event-ID": str(highest)})
    first = next(watched)
    (tmp_path / "gate").touch()
    numbers = [number or 0 for number, _ in watched]

    assert first[0] == highest
    assert "task" in first[1]["result"]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > highest


@pytest.mark.parametrize("word", ["say", "raise", "wait"])
def test_a_message_that_is_repeated_after_the_restart_is_not_run_again(start: Start, tmp_path: Path, word: str) -> None:
    daemon = start()
    inbound = daemon.create_inbound(preset="durable")
    more = {"configuration": {"returnImmediately": True}} if word == "wait" else {}
    task = daemon.send(inbound, f"{word} /never", messageId="only-once", **more)
    until(lambda: runs(tmp_path, task["id"]), "it has run")
    daemon.kill()

    again = start()
    repeated = again.send(inbound, f"{word} /never", messageId="only-once")
    streamed = list(again.stream(inbound, "SendStreamingMessage", {"message": message("x", messageId="only-once")}))

    state = {"say": "COMPLETED", "raise": "INPUT_REQUIRED", "wait": "FAILED"}[word]
    assert repeated["id"] == task["id"]
    assert repeated["status"]["state"] == f"TASK_STATE_{state}"
    assert get_task(again, inbound, task["id"]) == repeated
    assert [frame["result"]["task"] for _, frame in streamed] == [repeated]
    assert runs(tmp_path, task["id"]) == ["False"]
    assert again.read("")["taskTotal"] == 1
