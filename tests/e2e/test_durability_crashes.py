"""`kill -9` at random moments under load: nothing that was answered is lost or changed, and nothing is stuck."""

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import until

ROUNDS = 20
WORKERS = 24
SEED = 20260

PLUGIN = """
import asyncio
import os

from a2ad import Artifact, Executor, InputRequired, Status, TaskFailed, TaskState, hookimpl

runs = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


class Loaded(Executor):
    async def execute(self, request):
        os.write(runs, (request.message["messageId"] + "\\n").encode())
        word = request.text.partition(" ")[0]
        for number in range(5):
            yield Artifact(parts=[{"text": f"{request.text} {number};"}], append=True, last_chunk=number == 4)
            yield Status(TaskState.WORKING, f"step {number}")
            await asyncio.sleep(0.002)
        if word == "fail":
            raise TaskFailed("as it was told to")
        if word == "ask" and not request.resumed:
            raise InputRequired("which one?")


@hookimpl
def a2ad_register_executors(register, config):
    register("loaded", Loaded())


@hookimpl
def a2ad_register_presets(register, config):
    register("loaded", {"skills": [{"id": "chat", "executor": "loaded"}]})
"""
ENDS = {"say": "COMPLETED", "fail": "FAILED", "ask": "INPUT_REQUIRED"}


class Load:
    """Messages of all kinds from many clients at once, and what was answered to them."""

    def __init__(self, inbound: str) -> None:
        self.inbound = inbound
        self.random = random.Random(SEED)
        #: what was sent, and what came back, by message id
        self.sent: dict[str, str] = {}
        self.answered: dict[str, Any] = {}
        #: ids of tasks that are recorded, though their end was not waited for
        self.accepted: dict[str, str] = {}
        self.canceled: set[str] = set()

    async def until_killed(self, daemon: DaemonProcess, after: int) -> None:
        """Go on sending; after so many answers the daemon is killed in the middle of the rest."""
        answers = 0
        enough = asyncio.Event()
        timeout = aiohttp.ClientTimeout(total=30)

        async with aiohttp.ClientSession(timeout=timeout) as session:

            async def call(method: str, params: Any) -> Any:
                nonlocal answers
                envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                async with session.post(daemon.endpoint(self.inbound), json=envelope) as response:
                    answer = await response.json()
                answers += 1
                if answers >= after:
                    enough.set()
                return answer

            async def work() -> None:
                while True:
                    await self.one(call)

            async def kill() -> None:
                await enough.wait()
                await asyncio.sleep(self.random.random() * 0.01)
                daemon.process.kill()

            outcomes = await asyncio.gather(*(work() for _ in range(WORKERS)), kill(), return_exceptions=True)
        daemon.kill()
        assert {type(outcome) for outcome in outcomes[:-1] if not isinstance(outcome, aiohttp.ClientError)} == set()
        assert outcomes[-1] is None

    async def one(self, call: Callable[[str, Any], Any]) -> None:
        word = self.random.choice(["say", "say", "say", "fail", "ask"])
        message_id = f"m-{len(self.sent)}"
        text = self.sent[message_id] = f"{word} {message_id}"
        wanted = message(text, messageId=message_id, contextId=f"c-{self.random.randrange(200)}")
        waits = self.random.random() < 0.7
        answer = await call("SendMessage", {"message": wanted, "configuration": {"returnImmediately": not waits}})
        task = answer["result"]["task"]
        if waits:
            self.answered[message_id] = task
            return
        self.accepted[message_id] = task["id"]
        if self.random.random() < 0.3:
            answer = await call("CancelTask", {"id": task["id"]})
            if "result" in answer:
                self.canceled.add(message_id)
                self.answered[message_id] = answer["result"]


def check_answer(load: Load, message_id: str) -> None:
    """The answer was right in itself."""
    task, text = load.answered[message_id], load.sent[message_id]
    whole = "".join(f"{text} {number};" for number in range(5))
    got = "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])
    if message_id in load.canceled:
        assert task["status"]["state"] == "TASK_STATE_CANCELED"
        assert whole.startswith(got)
    else:
        assert task["status"]["state"] == f"TASK_STATE_{ENDS[text.partition(' ')[0]]}"
        assert got == whole


def brief(task: Any) -> Any:
    """What a failure shows of a task."""
    return task if isinstance(task, str) else (task["id"], task["status"], len(task.get("history", [])))


async def check(daemon: DaemonProcess, load: Load, *, newest: int | None = None) -> None:
    """Nothing is stuck; what was answered (the newest of it, or all) is as it was answered."""

    def unfinished() -> int:
        return sum(int(daemon.read(f"?taskState=TASK_STATE_{state}&taskLimit=1")["taskTotal"])
                   for state in ("WORKING", "SUBMITTED"))  # fmt: skip

    await asyncio.to_thread(until, lambda: unfinished() == 0, "no task is left unfinished")
    limit = asyncio.Semaphore(32)
    async with aiohttp.ClientSession() as session:

        async def get(task_id: str) -> Any:
            envelope = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
            async with limit, session.post(daemon.endpoint(load.inbound), json=envelope) as response:
                return (await response.json()).get("result", f"{task_id} is missing")

        answered = list(load.answered.values())[-newest if newest else 0 :]
        found = await asyncio.gather(*(get(task["id"]) for task in answered))
        accepted = list(load.accepted.values())[-newest if newest else 0 :]
        others = await asyncio.gather(*(get(task_id) for task_id in accepted))
    changed = [(is_now, was) for is_now, was in zip(found, answered, strict=True) if is_now != was]
    assert [(brief(is_now), brief(was)) for is_now, was in changed] == []
    assert [task for task in others if isinstance(task, str)] == []
    assert {task["status"]["state"] for task in others} <= {
        f"TASK_STATE_{state}" for state in ("COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED")
    }


async def test_kills_at_random_moments_lose_nothing_that_was_answered(
    launch: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    more = {"plugin": PLUGIN, "env": {"RUNS": str(tmp_path / "runs")}, "config": "[limits]\nruns_per_inbound = 8\n"}
    daemon = launch(**more)
    load = Load(daemon.create_inbound(preset="loaded"))
    for _ in range(ROUNDS):
        await load.until_killed(daemon, load.random.randrange(5, 150))
        daemon = launch(**more)
        await check(daemon, load, newest=200)

    await check(daemon, load)
    for message_id in load.answered:
        check_answer(load, message_id)

    # what was not answered is asked again: it is there already, or it was never taken in
    lost = [message_id for message_id in load.sent if message_id not in load.answered | load.accepted]
    assert lost
    before = daemon.read("")["taskTotal"]
    again = {message_id: daemon.send(load.inbound, load.sent[message_id], messageId=message_id) for message_id in lost}
    assert all(task["history"][0]["messageId"] == message_id for message_id, task in again.items())
    assert before <= daemon.read("")["taskTotal"] == len(load.sent)

    times = Counter((tmp_path / "runs").read_text().splitlines())
    assert [message_id for message_id, n in times.items() if n > 1] == []
    assert "Traceback" not in daemon.log()
    daemon.kill()
    with closing(sqlite3.connect(daemon.state_dir / "a2ad.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
