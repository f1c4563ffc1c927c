"""Executors that fail, crash, talk nonsense or do not stop: their task bears it, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message, running
from tests.lab import error, result, text_of, until

PLUGIN = '''
import asyncio, datetime, os, sys
from a2ad import (hookimpl, Executor, Artifact, Status, Reply, TaskState, TaskFailed, TaskRejected, InputRequired,
                  AuthRequired)

TEXT = {"text": "fine"}
SECRET = "secret_local_variable"


class Odd(Executor):
    """Does what the message names."""
    async def execute(self, request):
        what = request.text
        yield Artifact(parts=[TEXT])
        local = SECRET
        await asyncio.sleep(0)
        match what:
            case "TaskFailed": raise TaskFailed("why not")
            case "TaskRejected": raise TaskRejected("not this")
            case "InputRequired": raise InputRequired("what?")
            case "AuthRequired": raise AuthRequired("who?")
            case "failed parts": raise TaskFailed([{"text": "see"}, {"data": {"n": 1}}])
            case "crash": raise ZeroDivisionError("it broke \\u2028 here")
            case "crash without words": raise KeyError()
            case "crash with a surrogate": raise ValueError("\\ud800")
            case "crash in a group": raise ExceptionGroup("several", [ValueError("a"), OSError("b")])
            case "crash that cannot be told": raise Untellable()
            case "SystemExit": sys.exit(3)
            case "KeyboardInterrupt": raise KeyboardInterrupt
            case "GeneratorExit": raise GeneratorExit
            case "StopIteration": raise StopIteration
            case "CancelledError": raise asyncio.CancelledError
            case "failed with a surrogate": raise TaskFailed("\\udfff")
            case "failed with a number": raise TaskFailed(5)
            case "text": yield "text"
            case "nothing": yield None
            case "a dict": yield {"parts": [TEXT]}
            case "a class": yield Artifact
            case "a late reply": yield Reply(parts=[TEXT])
            case "no parts": yield Artifact(parts=None)
            case "parts of text": yield Artifact(parts="text")
            case "a part of text": yield Artifact(parts=["text"])
            case "an empty part": yield Artifact(parts=[{}])
            case "two contents": yield Artifact(parts=[{"text": "a", "url": "b"}])
            case "an unknown field": yield Artifact(parts=[{"text": "a", "kind": "text"}])
            case "a number as text": yield Artifact(parts=[{"text": 5}])
            case "not a number": yield Artifact(parts=[{"data": [float("nan")]}])
            case "nulls": yield Artifact(parts=[{"text": "fine", "url": None, "filename": None}])
            case "an end without parts": yield Status(TaskState.COMPLETED, [])
            case "a question without parts": raise InputRequired([])
            case "bad base64": yield Artifact(parts=[{"raw": "***"}])
            case "a set": yield Artifact(parts=[{"data": {1, 2}}])
            case "an object": yield Artifact(parts=[{"data": object()}])
            case "a huge number": yield Artifact(parts=[{"data": 2**70}])
            case "a surrogate": yield Artifact(parts=[{"text": "\\ud83d"}])
            case "a surrogate in data": yield Artifact(parts=[{"data": {"\\ud83d": 1}}])
            case "a surrogate in a name": yield Artifact(parts=[TEXT], name="\\ud83d")
            case "a number as a name": yield Artifact(parts=[TEXT], name=5)
            case "no id": yield Artifact(parts=[TEXT], artifact_id="")
            case "bad metadata": yield Artifact(parts=[TEXT], metadata={"a": object()})
            case "metadata of text": yield Artifact(parts=[TEXT], metadata="text")
            case "deep data":
                deep = 1
                for _ in range(5000): deep = [deep]
                yield Artifact(parts=[{"data": deep}])
            case "itself":
                loop = []; loop.append(loop)
                yield Artifact(parts=[{"data": loop}])
            case "a bad state": yield Status("TASK_STATE_LOST")
            case "submitted": yield Status(TaskState.SUBMITTED)
            case "a note of numbers": yield Status(TaskState.WORKING, 5)
            case "a note with a surrogate": yield Status(TaskState.WORKING, "\\ud83d")
            case "an end with a surrogate": yield Status(TaskState.COMPLETED, "\\ud83d")
            case "an end with bad metadata": yield Status(TaskState.COMPLETED, "x", metadata={"a": object()})
            case "events after the end":
                yield Status(TaskState.COMPLETED, "the end")
                yield Artifact(parts=[{"text": "more"}])
                yield Status(TaskState.FAILED, "no")
                yield "nonsense"
            case "a crash after the end":
                yield Status(TaskState.COMPLETED, "the end")
                raise ValueError("too late")
            case "endless events after the end":
                yield Status(TaskState.COMPLETED, "the end")
                while True:
                    await asyncio.sleep(0.01)
                    yield Artifact(parts=[{"text": "more"}])
            case "a sleep after the end":
                yield Status(TaskState.COMPLETED, "the end")
                await asyncio.sleep(600)
            case "a crash in finally":
                try:
                    yield Artifact(parts=[TEXT])
                    raise TaskFailed("first")
                finally:
                    raise ValueError("second")


class Untellable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class NoGenerator(Executor):
    async def execute(self, request):
        return [Artifact(parts=[TEXT])]


class NoIterator(Executor):
    def execute(self, request):
        return None


class Raises(Executor):
    def execute(self, request):
        raise RuntimeError("at once")


class ThreadOdd(Executor):
    def execute(self, request):
        yield Artifact(parts=[TEXT])
        if request.text == "SystemExit":
            sys.exit(3)
        if request.text == "StopIteration":
            raise StopIteration
        if request.text == "TaskRejected":
            raise TaskRejected("not this")
        if request.text == "InputRequired":
            raise InputRequired("what?")
        if request.text == "text":
            yield "text"
        raise ZeroDivisionError("in a thread")


KINDS = {"odd": Odd, "nogenerator": NoGenerator, "noiterator": NoIterator, "raises": Raises, "thread": ThreadOdd}


@hookimpl
def a2ad_register_executors(register, config):
    for name, kind in KINDS.items():
        register(name, kind())


@hookimpl
def a2ad_register_presets(register, config):
    register("odd", {"agent": "echo", "skills": [{"id": name, "executor": name} for name in KINDS]})
'''


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    config = "[limits]\ncancel_grace_seconds = 0.3\n"
    with running(tmp_path_factory.mktemp("faults"), plugin=PLUGIN, config=config) as started:
        yield started


@pytest.fixture(scope="module")
def agent(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(preset="odd")


def _run(daemon: DaemonProcess, agent: str, what: str, skill: str = "odd") -> tuple[str, list[Any]]:
    """Run it once and stream it once: both tell the same state and message, which it returns."""
    sent = message(what, metadata={"skill": skill})
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": sent}}
    task = result(daemon.request("POST", daemon.endpoint(agent), call, timeout=10)[1])["task"]
    frames = list(daemon.stream(agent, "SendStreamingMessage", {"message": sent}, timeout=10))
    last = frames[-1][1]["result"]["task"]
    found = [
        (t["status"]["state"].removeprefix("TASK_STATE_"), t["status"].get("message", {}).get("parts"))
        for t in (task, last)
    ]
    assert found[0] == found[1]
    assert result(daemon.rpc(agent, "GetTask", {"id": task["id"]})) == task
    assert "Traceback" not in str(frames)
    assert "secret_local_variable" not in str(frames)
    if skill in {"odd", "thread"}:
        assert text_of(task) == text_of(last) == "fine"
    return found[0]


@pytest.mark.parametrize(
    ("what", "state", "parts"),
    [
        ("nothing else", "COMPLETED", None),
        ("TaskFailed", "FAILED", [{"text": "why not"}]),
        ("TaskRejected", "REJECTED", [{"text": "not this"}]),
        ("InputRequired", "INPUT_REQUIRED", [{"text": "what?"}]),
        ("AuthRequired", "AUTH_REQUIRED", [{"text": "who?"}]),
        ("failed parts", "FAILED", [{"text": "see"}, {"data": {"n": 1}}]),
        ("crash", "FAILED", [{"text": "it broke \u2028 here"}]),
        ("events after the end", "COMPLETED", [{"text": "the end"}]),
        ("a crash after the end", "COMPLETED", [{"text": "the end"}]),
        ("endless events after the end", "COMPLETED", [{"text": "the end"}]),
        ("a sleep after the end", "COMPLETED", [{"text": "the end"}]),
        ("a crash in finally", "FAILED", [{"text": "second"}]),
    ],
)
def test_an_outcome_is_told_as_the_executor_told_it(
    daemon: DaemonProcess, agent: str, what: str, state: str, parts: Any
) -> None:
    if what == "nothing else":
        what = "-"
    assert _run(daemon, agent, what) == (state, parts)


@pytest.mark.parametrize(
    "what",
    [
        "crash without words",
        "crash with a surrogate",
        "crash in a group",
        "crash that cannot be told",
        "SystemExit",
        "KeyboardInterrupt",
        "GeneratorExit",
        "StopIteration",
        "CancelledError",
        "failed with a surrogate",
        "failed with a number",
        "text",
        "nothing",
        "a dict",
        "a class",
        "a late reply",
        "no parts",
        "parts of text",
        "a part of text",
        "an empty part",
        "two contents",
        "an unknown field",
        "a number as text",
        "bad base64",
        "not a number",
        "a set",
        "an object",
        "a huge number",
        "a surrogate",
        "a surrogate in data",
        "a surrogate in a name",
        "a number as a name",
        "no id",
        "bad metadata",
        "metadata of text",
        "a bad state",
        "submitted",
        "a note of numbers",
        "a note with a surrogate",
        "an end with a surrogate",
        "an end with bad metadata",
    ],
)
def test_nonsense_fails_its_task_with_a_sentence_and_the_daemon_goes_on(
    daemon: DaemonProcess, agent: str, what: str
) -> None:
    state, parts = _run(daemon, agent, what)

    assert state == "FAILED"
    assert parts[0]["text"]
    assert daemon.process.poll() is None


@pytest.mark.parametrize("what", ["an end without parts", "a question without parts"])
def test_no_message_without_parts_reaches_a_client(daemon: DaemonProcess, agent: str, what: str) -> None:
    assert _run(daemon, agent, what)[1] != []


def test_an_executors_null_is_an_absent_field_on_the_wire(daemon: DaemonProcess, agent: str) -> None:
    task = daemon.send(agent, "nulls", metadata={"skill": "odd"})
    assert task["artifacts"][0]["parts"] == [{"text": "fine"}]


@pytest.mark.parametrize("skill", ["nogenerator", "noiterator", "raises"])
def test_what_is_no_generator_fails_its_task(daemon: DaemonProcess, agent: str, skill: str) -> None:
    state, parts = _run(daemon, agent, "x", skill)
    assert state == "FAILED"
    assert parts[0]["text"]


@pytest.mark.parametrize(
    ("what", "state"),
    [
        ("x", "FAILED"),
        ("SystemExit", "FAILED"),
        ("StopIteration", "FAILED"),
        ("TaskRejected", "REJECTED"),
        ("InputRequired", "INPUT_REQUIRED"),
        ("text", "FAILED"),
    ],
)
def test_a_threaded_executor_fails_alike(daemon: DaemonProcess, agent: str, what: str, state: str) -> None:
    got, parts = _run(daemon, agent, what, "thread")
    assert got == state
    assert parts[0]["text"]


@pytest.mark.parametrize("what", ["deep data", "itself"])
def test_data_without_a_bottom_fails_its_task_and_does_not_stop_the_daemon(launch: Any, what: str) -> None:
    own = launch(plugin=PLUGIN)
    state, parts = _run(own, own.create_inbound(preset="odd"), what)
    assert state == "FAILED"
    assert parts[0]["text"]


def test_the_log_has_the_traceback_that_the_client_has_not(daemon: DaemonProcess, agent: str) -> None:
    task = daemon.send(agent, "crash")
    until(lambda: task["id"] in daemon.log())
    assert "ZeroDivisionError" in daemon.log()
    # what the executor had in its hands is none of the log's business
    assert "secret_local_variable" not in daemon.log()
    assert error(daemon.rpc(agent, "CancelTask", {"id": task["id"]}))[0] == -32002
