"""What the tests and the soak of `kill -9` share: load of all kinds until the daemon is killed, and the account that is
given after its next start (`protocol.md` 3 and 5; issue 3, "Recovery").
"""

import asyncio
import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import until

WORKERS = 24
PRESET = "loaded"
WORDS = ["say"] * 5 + ["fail", "ask", "quiz"] * 2 + ["slow"]
CONFIG = "[limits]\nruns_per_inbound = 8\n"
#: what the executor yields for each message, and more slowly for one that begins with `slow`
CHUNKS, SLOW_CHUNKS = 5, 60
#: how late a chunk may reach the store, in seconds (`design.md`, "The life of a task")
PROMISED_SECONDS = 0.25

#: `say`, `fail`, `slow` do so; `ask` ends its run with a question, `quiz` waits for the answer in its run
PLUGIN = f"""
import asyncio
import os

from a2ad import Artifact, Executor, InputRequired, Status, TaskFailed, TaskState, hookimpl

runs = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


async def chunks(message):
    os.write(runs, (message["messageId"] + "\\n").encode())
    text = message["parts"][0]["text"]
    slow = text.startswith("slow")
    count = {SLOW_CHUNKS} if slow else {CHUNKS}
    for number in range(count):
        yield Artifact(parts=[{{"text": f"{{text}} {{number}};"}}], append=True, last_chunk=number == count - 1)
        if number < {CHUNKS}:
            yield Status(TaskState.WORKING, f"step {{number}}")
        await asyncio.sleep(0.01 if slow else 0.002)


class Loaded(Executor):
    async def execute(self, request):
        async for event in chunks(request.message):
            yield event
        word = request.text.partition(" ")[0]
        if word == "fail":
            raise TaskFailed("as it was told to")
        if word == "ask":
            raise InputRequired("which one?")
        if word == "quiz":
            async for event in chunks(await request.ask("which one?")):
                yield event


@hookimpl
def a2ad_register_executors(register, config):
    register("loaded", Loaded())


@hookimpl
def a2ad_register_presets(register, config):
    register("{PRESET}", {{"skills": [{{"id": "chat", "executor": "loaded"}}]}})
"""
Call: TypeAlias = Callable[[str, Any], Awaitable[Any]]
TERMINAL = {f"TASK_STATE_{state}" for state in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")}


def environment(folder: Path) -> dict[str, str]:
    """What the plugin needs: where it notes the id of each message that a run took up."""
    return {"RUNS": str(folder / "runs")}


def ended(task: Any) -> bool:
    return task["status"]["state"] in TERMINAL


def text_of(task: Any) -> str:
    return "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])


def whole(text: str) -> str:
    """All that the executor yields for a message."""
    return "".join(f"{text} {number};" for number in range(SLOW_CHUNKS if text.startswith("slow") else CHUNKS))


def brief(task: Any) -> Any:
    """What a failure shows of a task."""
    return (task["id"], task["status"], len(task.get("history", []))) if "id" in task else task


class Load:
    """Messages of all kinds from many clients at once, and what is known from the answers."""

    def __init__(self, inbound: str, seed: int) -> None:
        self.inbound = inbound
        self.random = random.Random(seed)
        #: every message that was sent, by its id
        self.sent: dict[str, Any] = {}
        #: the task that a message went to, by the message's id
        self.task_of: dict[str, str] = {}
        #: the newest answer about a task that nothing may change: it has ended, or waits for an answer that is not sent
        self.answers: dict[str, Any] = {}
        #: messages whose answer was never read to its end
        self.open: set[str] = set()
        #: ids of messages whose tasks are to be canceled, of tasks that were, and of those that were sent an answer
        self.doomed: set[str] = set()
        self.canceled: set[str] = set()
        self.continued: set[str] = set()
        #: tasks that wait for an answer
        self.waiting: list[str] = []
        #: what a stream had brought, and when, where the kill cut it: by the message's id
        self.cut: dict[str, list[tuple[float, str]]] = {}
        self.killed_at = 0.0
        #: how old the oldest chunk was that a kill took, for each stream that lost one, in seconds
        self.lost_ages: list[float] = []
        self.counts: Counter[str] = Counter()

    async def until_killed(self, daemon: DaemonProcess, after: int) -> None:
        """Go on sending; after so many answers the daemon is killed in the middle of the rest."""
        answers = 0
        enough = asyncio.Event()
        killed = False

        async with session() as http:
            post = caller(http, daemon, self.inbound)

            async def call(method: str, params: Any) -> Any:
                nonlocal answers
                answer = await post(method, params)
                answers += 1
                if answers >= after:
                    enough.set()
                return answer

            async def stream(message_id: str, params: Any) -> Any:
                return await self._stream(http, daemon, message_id, params)

            async def work() -> None:
                while True:
                    try:
                        await self._one(call, stream)
                    except aiohttp.ClientError:
                        assert killed, "a connection broke before the kill"
                        return

            async def kill() -> None:
                nonlocal killed
                await enough.wait()
                await asyncio.sleep(self.random.random() * 0.03)
                killed = True
                self.killed_at = time.monotonic()
                daemon.process.kill()

            outcomes = await asyncio.gather(*(work() for _ in range(WORKERS)), kill(), return_exceptions=True)
        daemon.kill()
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _one(self, call: Call, stream: Call) -> None:
        chance = self.random.random()
        if chance < 0.1 and self.sent:
            await self._repeat(call, stream)
        elif chance < 0.25 and self.waiting:
            task_id = self.waiting.pop(self.random.randrange(len(self.waiting)))
            self.continued.add(task_id)
            self.answers.pop(task_id, None)
            message_id = self._new("say", taskId=task_id)
            await self._send(call, stream, message_id)
        else:
            message_id = self._new(self.random.choice(WORDS))
            if self.random.random() < 0.3:
                await self._start(call, message_id)
            else:
                await self._send(call, stream, message_id)

    def _new(self, word: str, **more: Any) -> str:
        message_id = f"m-{len(self.sent)}"
        where = more or {"contextId": f"c-{self.random.randrange(200)}"}
        self.sent[message_id] = message(f"{word} {message_id}", messageId=message_id, **where)
        self.open.add(message_id)
        return message_id

    async def _send(self, call: Call, stream: Call, message_id: str) -> None:
        """Blocking, or as a stream."""
        params = {"message": self.sent[message_id]}
        if self.random.random() < 0.5:
            self.counts["blocking"] += 1
            self.know(message_id, (await call("SendMessage", params))["result"]["task"])
        else:
            self.counts["streamed"] += 1
            self.know(message_id, await stream(message_id, params))

    async def _start(self, call: Call, message_id: str) -> None:
        """Without waiting; some are then canceled."""
        if self.random.random() < 0.5:
            self.doomed.add(message_id)
        params = {"message": self.sent[message_id], "configuration": {"returnImmediately": True}}
        self.counts["immediate"] += 1
        task = (await call("SendMessage", params))["result"]["task"]
        self.know(message_id, task)
        if message_id in self.doomed:
            self.counts["canceled"] += 1
            answer = await call("CancelTask", {"id": task["id"]})
            if "result" in answer:
                assert answer["result"]["status"]["state"] == "TASK_STATE_CANCELED"
                self.canceled.add(task["id"])
                self.know(message_id, answer["result"])
            else:
                assert answer["error"]["code"] == -32002

    async def _repeat(self, call: Call, stream: Call) -> None:
        """The same message once more, or twice at one moment."""
        message_id = self.random.choice(list(self.sent)[-300:])
        self.counts["repeated"] += 1
        params = {"message": self.sent[message_id]}
        if self.random.random() < 0.5:
            self.know(message_id, await stream("", params))
        else:
            for answer in await asyncio.gather(*(call("SendMessage", params) for _ in range(2))):
                self.know(message_id, answer["result"]["task"])

    async def _stream(self, http: aiohttp.ClientSession, daemon: DaemonProcess, message_id: str, params: Any) -> Any:
        """The last `task` frame; what came before it is remembered where the stream breaks."""
        envelope = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
        arrived: list[tuple[float, str]] = []
        task: Any = None
        try:
            async with http.post(daemon.endpoint(self.inbound), json=envelope) as response:
                assert response.headers["Content-Type"] == "text/event-stream", await response.text()
                async for line in response.content:
                    if not line.startswith(b"data: "):
                        continue
                    result = json.loads(line[6:])["result"]
                    task = result.get("task", task)
                    if message_id:
                        self.task_of.setdefault(message_id, task["id"])
                    parts = result.get("artifactUpdate", {}).get("artifact", {}).get("parts", [])
                    arrived += [(time.monotonic(), part["text"]) for part in parts]
        except aiohttp.ClientError:
            if message_id and arrived:
                self.cut[message_id] = arrived
            raise
        assert not message_id or text_of(task).endswith("".join(text for _, text in arrived))
        return task

    def know(self, message_id: str, task: Any) -> None:
        """An answer to this message. Two tasks for one message, or two ends of one task, are what must not be."""
        assert self.task_of.setdefault(message_id, task["id"]) == task["id"], (message_id, brief(task))
        if not ended(task) and task["status"]["state"] != "TASK_STATE_INPUT_REQUIRED":
            return  # it was not waited for
        self.open.discard(message_id)
        before = self.answers.get(task["id"])
        if before is not None and ended(before):  # an answer that was overtaken may still say that it waits
            assert not ended(task) or before == task, (brief(before), brief(task))
        elif ended(task):
            self.answers[task["id"]] = task
        elif task["id"] not in self.continued and message_id not in self.doomed:
            self.answers[task["id"]] = task
            if task["id"] not in self.waiting:
                self.waiting.append(task["id"])

    def messages_to(self) -> dict[str, list[str]]:
        """The ids of the messages to each task, in order."""
        found: dict[str, list[str]] = {}
        for message_id, task_id in self.task_of.items():
            found.setdefault(task_id, []).append(message_id)
        return {task_id: sorted(ids, key=lambda each: int(each[2:])) for task_id, ids in found.items()}


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60), connector=aiohttp.TCPConnector(limit=64))


def caller(http: aiohttp.ClientSession, daemon: DaemonProcess, inbound: str) -> Call:
    """`call(method, params)`: the whole envelope."""

    async def call(method: str, params: Any) -> Any:
        envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with http.post(daemon.endpoint(inbound), json=envelope) as response:
            return await response.json()

    return call


# the account after a start


async def account(daemon: DaemonProcess, load: Load, *, newest: int | None = None) -> None:
    """Nothing is stuck, lost, doubled or changed; of the tasks, the newest are looked at, or all.

    What was not answered is asked again, so that every message is known to have one task.
    """

    def unfinished() -> int:
        return sum(int(daemon.read(f"?taskState=TASK_STATE_{state}&taskLimit=1")["taskTotal"])
                   for state in ("WORKING", "SUBMITTED"))  # fmt: skip

    await asyncio.to_thread(until, lambda: unfinished() == 0, "no task is left unfinished")
    async with session() as http:
        call = caller(http, daemon, load.inbound)
        check_kept_chunks(load, await fetch(call, {load.task_of[message_id] for message_id in load.cut}))

        async def ask_again(message_id: str) -> None:
            load.know(message_id, (await call("SendMessage", {"message": load.sent[message_id]}))["result"]["task"])

        load.counts["asked again"] += len(load.open)
        await asyncio.gather(*map(ask_again, list(load.open)))
        assert not load.open, f"no answer that stays: {load.open}"

        tasks = load.messages_to()
        total = (await call("ListTasks", {"pageSize": 1}))["result"]["totalSize"]
        begun = sum("taskId" not in each for each in load.sent.values())
        assert total == len(tasks) == begun, f"{total} tasks, {len(tasks)} known, {begun} asked for"
        chosen = list(tasks)[-newest if newest else 0 :]
        found = await fetch(call, chosen)
    for task_id in chosen:
        check_task(load, found[task_id], tasks[task_id])
    times = Counter(Path(daemon.folder / "runs").read_text().splitlines())
    again = [message_id for message_id, n in times.items() if n > 1]
    assert not again, f"run more than once: {again}"


async def fetch(call: Call, task_ids: Iterable[str]) -> dict[str, Any]:
    """The tasks as GetTask gives them, by id."""

    async def get(task_id: str) -> tuple[str, Any]:
        answer = await call("GetTask", {"id": task_id})
        assert "result" in answer, (task_id, answer)
        return task_id, answer["result"]

    return dict(await asyncio.gather(*map(get, task_ids)))


def check_kept_chunks(load: Load, tasks: dict[str, Any]) -> None:
    """What is left of a stream that a kill cut is a beginning of it; note how old the oldest chunk is that is lost."""
    for message_id, arrived in load.cut.items():
        text = load.sent[message_id]["parts"][0]["text"]
        kept = text_of(tasks[load.task_of[message_id]]).partition(f"{text} ")
        kept_text = "".join(kept[1:])
        assert whole(text).startswith(kept_text), (message_id, kept_text)
        load.counts["streams cut"] += 1
        length = 0
        for at, chunk in arrived:
            length += len(chunk)
            if length > len(kept_text):
                load.lost_ages.append(load.killed_at - at)
                break
    load.cut.clear()


def check_task(load: Load, task: Any, message_ids: list[str]) -> None:
    """The task is as it was answered, and right in itself."""
    answer = load.answers.get(task["id"])
    assert answer is None or answer == task, (brief(answer), brief(task))
    texts = [load.sent[message_id]["parts"][0]["text"] for message_id in message_ids]
    asked = [entry["messageId"] for entry in task["history"] if entry["role"] == "ROLE_USER"]
    assert asked == message_ids, (brief(task), asked, message_ids)
    state = task["status"]["state"].removeprefix("TASK_STATE_")
    expected = "".join(map(whole, texts))
    assert task["id"] not in load.canceled or state == "CANCELED", brief(task)
    word = texts[0].partition(" ")[0]
    told = word == "fail" or (state == "FAILED" and "stopped" in task["status"]["message"]["parts"][0]["text"])
    assert state in {"COMPLETED", "CANCELED", "INPUT_REQUIRED"} or (state == "FAILED" and told), brief(task)
    if state in {"COMPLETED", "INPUT_REQUIRED"}:
        assert text_of(task) == expected, brief(task)
        assert (state == "INPUT_REQUIRED") == (word in {"ask", "quiz"} and len(texts) == 1), brief(task)
    else:
        assert expected.startswith(text_of(task)), brief(task)


def check_database(state_dir: Path) -> None:
    """The counters are what is there, nothing belongs to a task that is not there, and the file is sound."""
    with closing(sqlite3.connect(state_dir / "a2ad.db")) as connection:

        def rows(sql: str) -> list[Any]:
            return connection.execute(sql).fetchall()

        connection.execute("BEGIN")
        counted = rows("SELECT inbound_id, caller, state, n FROM task_counts WHERE n != 0 ORDER BY 1, 2, 3")
        there = (
            "SELECT inbound_id, caller, state, count(*) FROM tasks WHERE hidden = 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )
        assert counted == rows(there), f"the counters say {counted}"
        for table in ("messages", "artifacts", "status_events", "attachments"):
            strays = rows(f"SELECT task_id FROM {table} WHERE task_id NOT IN (SELECT id FROM tasks) LIMIT 5")
            assert not strays, f"{table} of no task: {strays}"
        assert rows("PRAGMA integrity_check") == [("ok",)]
