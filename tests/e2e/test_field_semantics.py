"""Cancels, repetitions, contexts, histories, pages, numbers and odd text, as clients see them (protocol.md 3, 4)."""

import asyncio
import json
import random
import socket
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.daemon import DaemonProcess, message
from tests.lab import (
    Lab,
    answer_on,
    at_once,
    connect,
    error,
    exchange,
    head,
    result,
    script,
    text_of,
    until,
    violations,
)

SEND, STREAM = "SendMessage", "SendStreamingMessage"

PLUGIN = """
import asyncio
from a2ad import (Agent, AgentSession, Artifact, Executor, InputRequired, Status, TaskState, TextDelta, TurnEnd,
                  hookimpl)


class Brief(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "a"}], append=True)
        await asyncio.sleep(float(request.text))
        yield Artifact(parts=[{"text": "z"}], append=True)


class Mirror(Executor):
    '''Says the data that it was sent in every place that holds some, and what it took them for.'''
    async def execute(self, request):
        data = request.message["parts"][0]["data"]
        kinds = {name: type(value).__name__ for name, value in data.items()}
        yield Status(TaskState.WORKING, [{"data": data}])
        yield Artifact(parts=[{"data": data, "metadata": data}, {"data": kinds}], metadata=data)
        yield Status(TaskState.COMPLETED, [{"data": data}], metadata=data)


class Pieces(Executor):
    async def execute(self, request):
        data = request.history[0]["parts"][0]["data"]
        yield Artifact(parts=[{"data": data}], append=True)
        if not request.resumed:
            raise InputRequired([{"data": data}])


class Halves(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "\\ud83c"}], append=True)
        yield Artifact(parts=[{"text": "\\udf0d"}], append=True)


class Session(AgentSession):
    '''A conversation has one stream of what is said: two turns at once would take each other's words.'''
    streams = {}

    def __init__(self, context):
        self.said = self.streams.setdefault(context.context_id, asyncio.Queue())

    async def speak(self, text):
        for _ in range(20):
            await asyncio.sleep(0.002)
            await self.said.put(text)

    async def prompt(self, parts, attachments):
        speaking = asyncio.create_task(self.speak(parts[0]["text"]))
        for _ in range(20):
            yield TextDelta(await self.said.get())
        await speaking
        yield TurnEnd()


class Talker(Agent):
    async def open(self, context): return Session(context)


@hookimpl
def a2ad_register_agents(register): register("talker", lambda preset: Talker())

@hookimpl
def a2ad_register_executors(register):
    for kind in (Brief, Mirror, Pieces, Halves): register(kind.__name__.lower(), kind())

@hookimpl
def a2ad_register_presets(register):
    for name in ("brief", "mirror", "pieces", "halves"): register(name, {"skills": [{"id": "chat", "executor": name}]})
    register("talker", {"agent": "talker"})
"""
Launch = Callable[..., DaemonProcess]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("semantics"), config="[limits]\ncancel_grace_seconds = 30\n")
    yield started
    started.kill()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    started = DaemonProcess(tmp_path_factory.mktemp("plugin"), plugin=PLUGIN)
    yield started
    assert "request.failed" not in started.log()
    started.kill()


# cancel


async def test_a_cancel_at_the_moment_of_completion_never_gives_a_completed_task(daemon: DaemonProcess) -> None:
    url = daemon.endpoint(daemon.create_inbound(preset="brief"))
    luck = random.Random(500)

    async with aiohttp.ClientSession() as session:

        async def rpc(method: str, params: Any) -> Any:
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with session.post(url, json=call) as response:
                return await response.json()

        async def client(rounds: int) -> list[tuple[Any, Any]]:
            told, seconds = [], 0.005
            for _ in range(rounds):
                sent = {"message": message(str(seconds)), "configuration": {"returnImmediately": True}}
                task_id = result(await rpc(SEND, sent))["task"]["id"]
                answer = await rpc("CancelTask", {"id": task_id})
                told.append((answer, result(await rpc("GetTask", {"id": task_id}))))
                # however fast the machine is, this comes to where the two meet
                seconds *= luck.uniform(1, 1.4) if "error" in answer else luck.uniform(0.7, 1)
            return told

        told = [pair for pairs in await asyncio.gather(*(client(100) for _ in range(5))) for pair in pairs]

    assert len(told) == 500
    for answer, task in told:
        if "error" in answer:
            assert error(answer) == (-32002, "TASK_NOT_CANCELABLE")
            assert (task["status"]["state"], text_of(task)) == ("TASK_STATE_COMPLETED", "az")
        else:
            assert result(answer) == task
            assert task["status"]["state"] == "TASK_STATE_CANCELED"
    assert 50 < sum("error" in answer for answer, _ in told) < 450, "the two did not meet"


def test_an_executor_is_told_once_of_twenty_cancels_at_once(lab: Lab) -> None:
    task_id = lab.begin(["text", "x"], ["ignore", "let go"])
    until(lambda: lab.get(task_id).get("artifacts"))

    def let_go() -> None:
        until(lambda: sum(peer["method"] == "CancelTask" for peer in lab.read("")["peers"]) == 20)
        lab.open("let go")

    answers = at_once([*[partial(lab.cancel, task_id)] * 20, let_go])[:-1]

    assert {result(answer)["status"]["state"] for answer in answers} == {"TASK_STATE_CANCELED"}
    assert lab.noted("ignored", task_id) == 1  # it goes on after each, and would note a second one too


# repetitions and contexts


def test_a_message_whose_answer_was_lost_is_sent_again_and_is_the_same_task(lab: Lab) -> None:
    for number in range(20):
        name = f"lost-{number}"
        steps = ["text", "once"], ["wait", name]
        params = script(*steps, messageId=name, contextId=name)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": SEND, "params": params}).encode()
        sock = connect(lab.url)
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        sock.sendall(head(lab.endpoint(lab.agent), *lines) + body)
        until(lambda name=name: lab.listed(contextId=name)["totalSize"])
        if number % 2:  # lost on its way, or never written
            lab.open(name)
        _reset(sock)
        lab.open(name)

        same = result(lab.ask_for(*steps, messageId=name, contextId=name))["task"]
        other = result(lab.ask_for(["text", "twice"], messageId=name))["task"]

        assert same == other
        assert text_of(same) == "once"
        assert lab.noted("run", same["id"]) == 1
        assert lab.listed(contextId=name)["totalSize"] == 1


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_tasks_of_one_context_do_not_share_what_their_agent_says(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound(preset="talker")

    def stream(marker: str) -> tuple[str, str]:
        sent = {"message": message(marker, contextId="one")}
        frames = [result(envelope) for _, envelope in daemon.stream(inbound, STREAM, sent)]
        chunks = [frame["artifactUpdate"]["artifact"]["parts"] for frame in frames if "artifactUpdate" in frame]
        return "".join(part["text"] for parts in chunks for part in parts), text_of(frames[-1]["task"])

    for marker, (streamed, kept) in zip("abcd", at_once([partial(stream, marker) for marker in "abcd"]), strict=True):
        assert streamed == kept == marker * 20


def test_an_answer_that_names_its_task_alone_goes_on_in_its_context_after_a_restart(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    try:
        asked = result(lab.ask_for(["raise", "InputRequired", "?"]))["task"]
        agent = lab.agent
        lab.kill()
        lab = Lab(tmp_path)
        lab.agent = agent
        answered = result(lab.ask_for(["raise", "InputRequired", "??"], taskId=asked["id"]))["task"]
        again = result(lab.ask_for(["text", "x"], taskId=asked["id"]))["task"]

        assert {task["contextId"] for task in (answered, again)} == {asked["contextId"]}
        assert {entry["contextId"] for entry in again["history"]} == {asked["contextId"]}
        assert lab.listed(contextId=asked["contextId"])["totalSize"] == lab.listed()["totalSize"] == 1
    finally:
        lab.kill()


# histories and pages


def test_a_history_that_was_cut_for_an_answer_is_recorded_whole(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    try:
        steps = ["note", "one"], ["note", "two"], ["ask", "which?"]
        asked = result(lab.ask_for(*steps, configuration={"historyLength": 1}))["task"]
        assert len(asked["history"]) == 1
        for length in (1, 0):
            assert len(lab.get(asked["id"], historyLength=length).get("history", ())) == length
            assert len(lab.listed(historyLength=length)["tasks"][0].get("history", ())) == length
        assert len(lab.get(asked["id"])["history"]) == 4
        answered = lab.ask_for(text="this", taskId=asked["id"], configuration={"historyLength": 0})
        assert "history" not in result(answered)["task"]
        whole = lab.get(asked["id"])
        assert [entry["parts"][0].get("text") for entry in whole["history"]] == [None, "one", "two", "which?", "this"]
        for length in (1, 0):
            lab.get(asked["id"], historyLength=length)
        agent = lab.agent
        lab.kill()

        lab = Lab(tmp_path)
        lab.agent = agent
        assert len(lab.get(asked["id"], historyLength=1)["history"]) == 1
        assert lab.get(asked["id"]) == whole
        assert lab.listed(includeArtifacts=True)["tasks"] == [whole]
    finally:
        lab.kill()


def test_a_token_goes_on_although_the_tasks_around_it_are_gone(tmp_path: Path) -> None:
    config = "[store]\nretention_days = 30\n"
    lab = Lab(tmp_path, config=config)
    try:
        ids = [result(lab.ask_for(["text", str(n)]))["task"]["id"] for n in range(9)]
        # the newest comes first: 8 7 6 | 5 4 3 | 2 1 0, and what is asked again is the newest then
        first = lab.listed(pageSize=3)
        assert [task["id"] for task in first["tasks"]] == ids[:5:-1]
        token = first["nextPageToken"]
        lab.terminate()
        gone = [ids[6], ids[5], ids[4]]  # the one that the token names, and those right behind it
        with closing(sqlite3.connect(lab.state_dir / "a2ad.db")) as connection, connection:
            old = [(task_id,) for task_id in gone]
            connection.executemany("UPDATE tasks SET updated_at = updated_at - 3456000000 WHERE id = ?", old)  # 40 days
        agent = lab.agent
        lab = Lab(tmp_path, config=config)
        lab.agent = agent
        for task_id in gone:
            until(lambda task_id=task_id: "error" in lab.rpc(lab.agent, "GetTask", {"id": task_id}))

        pages = [lab.listed(pageSize=3, pageToken=token)]
        while pages[-1]["nextPageToken"]:
            assert len(pages) < 5, "the pages do not end"
            pages.append(lab.listed(pageSize=3, pageToken=pages[-1]["nextPageToken"]))

        assert [task["id"] for page in pages for task in page["tasks"]] == ids[3::-1]
        assert {page["totalSize"] for page in pages} == {6}
        assert violations(lab.rpc(lab.agent, "ListTasks", {"pageToken": "zzz"})) == ["pageToken"]
    finally:
        lab.kill()


# numbers and text


def test_numbers_stay_what_they_are_wherever_they_go_also_after_a_restart(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN)
    inbound, pieces = daemon.create_inbound(preset="mirror"), daemon.create_inbound(preset="pieces")
    data = b'{"count":42,"nought":0,"less":-1,"whole":42.0,"most":18446744073709551615,"beyond":9007199254740993}'
    kinds = {"count": "int", "nought": "int", "less": "int", "whole": "float", "most": "int", "beyond": "int"}
    sent = (b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"message":{"role":"ROLE_USER","messageId":"n%b",'
            b'"parts":[{"data":' + data + b',"metadata":' + data + b'}],"metadata":' + data + b"}}}")  # fmt: skip

    answer = exchange(daemon.endpoint(inbound), body=sent % (SEND.encode(), b"1"))
    task = answer.json["result"]["task"]
    assert task["artifacts"][0]["parts"][1] == {"data": kinds}
    streamed = exchange(daemon.endpoint(inbound), body=sent % (STREAM.encode(), b"2")).body
    frames = [line for line in streamed.splitlines() if line.startswith(b"data: ")]
    # in the message 3, in the note 1, in the artifact 3, in the end and the task's metadata 1 each, and all of it at
    # last, with the end in the history too
    assert [frame.count(data) for frame in frames] == [3, 1, 3, 2, 10]
    got = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}).encode()
    listing = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"includeArtifacts": True}})
    before = exchange(daemon.endpoint(inbound), body=got).body
    assert before.count(data) == answer.body.count(data) == 10
    asked = exchange(daemon.endpoint(pieces), body=sent % (SEND.encode(), b"3"))
    assert asked.body.count(data) == 3 + 2 + 1  # the message, the question and the artifact
    daemon.kill()

    again = launch(plugin=PLUGIN)
    assert exchange(again.endpoint(inbound), body=got).body == before
    assert exchange(again.endpoint(inbound), body=listing.encode()).body.count(data) == 20
    asking = asked.json["result"]["task"]["id"]
    reply = {"jsonrpc": "2.0", "id": 1, "method": SEND, "params": {"message": message("go on", taskId=asking)}}
    answered = exchange(again.endpoint(pieces), body=json.dumps(reply).encode())
    assert answered.body.count(data) == 3 + 1 + 2  # one of the artifact's two is from before
    assert (
        exchange(again.endpoint(pieces), body=got.replace(task["id"].encode(), asking.encode())).body.count(data) == 6
    )


EMOJI = '{"text":"\\ud83c\\udf0d h\u00e9llo \N{EARTH GLOBE EUROPE-AFRICA}"}'


def test_text_that_arrives_in_pieces_of_one_byte_is_what_it_was(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound()
    body = ('{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","parts":['
            + EMOJI + "]}}}").encode()  # fmt: skip
    told = "\N{EARTH GLOBE EUROPE-AFRICA} h\u00e9llo \N{EARTH GLOBE EUROPE-AFRICA}"

    chunked = exchange(daemon.endpoint(inbound), body=iter([body[n : n + 1] for n in range(len(body))]))
    with connect(daemon.url) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        sock.sendall(head(daemon.endpoint(inbound), *lines))
        for number in range(len(body)):
            sock.sendall(body[number : number + 1])
        split = answer_on(sock)

    for answer in (chunked, split):
        task = result(answer.json)["task"]
        assert text_of(task) == told
        assert result(daemon.rpc(inbound, "GetTask", {"id": task["id"]})) == task


def test_half_an_emoji_is_refused_and_two_halves_in_two_parts_are_none(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound()
    for parts in ('{"text":"\\ud83c"}', '{"text":"a\\ud83c"},{"text":"\\udf0d"}', '{"data":["\\ud83c","\\udf0d"]}'):
        body = (
            '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","contextId":"half",'
            f'"parts":[{parts}]}}}}}}'
        )
        answer = exchange(daemon.endpoint(inbound), body=body.encode())
        assert answer.status == 200
        assert error(answer.json)[0] in {-32700, -32602}
    assert result(daemon.rpc(inbound, "ListTasks", {}))["totalSize"] == 0


def test_an_executor_that_cuts_an_emoji_in_two_fails_its_task_in_words(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound(preset="halves")
    frames = [result(envelope) for _, envelope in daemon.stream(inbound, STREAM, {"message": message("go")})]

    task = frames[-1]["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["status"]["message"]["parts"][0]["text"]
    assert result(daemon.rpc(inbound, "GetTask", {"id": task["id"]})) == task


def test_text_is_what_it_was_after_a_restart(launch: Launch) -> None:
    text = "\N{EARTH GLOBE EUROPE-AFRICA} h\u00e9llo \U0010ffff \0"
    first = launch(plugin=PLUGIN)
    task = first.send(first.create_inbound(preset="talker"), text)
    first.kill()
    second = launch(plugin=PLUGIN)
    (row,) = second.read("")["inbounds"]
    assert result(second.rpc(row["id"], "GetTask", {"id": task["id"]})) == task
    assert text_of(task) == text * 20
