"""How it ends: SIGTERM and SIGINT, whatever is going on."""

import signal
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import Background, await_state, get_task, raw, start_task, state_of, text_of, until

PLUGIN = """
import asyncio
import time
from pathlib import Path

from a2ad import Artifact, Executor, InputRequired, hookimpl


async def appears(path):
    while not Path(path).exists():
        await asyncio.sleep(0.01)


class Waits(Executor):
    async def execute(self, request):
        word, _, rest = request.text.partition(" ")
        yield Artifact(parts=[{"text": "begun"}], append=True, last_chunk=False)
        if word == "raise":
            raise InputRequired("which one?")
        if word == "ask":
            await request.ask("which one?")
        if word == "wait":
            await appears(rest)
        yield Artifact(parts=[{"text": ", ended"}], append=True, last_chunk=True)


class Swallows(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "begun"}])
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                yield Artifact(parts=[{"text": "never mind"}], artifact_id="late")


class Deaf(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "begun"}])
        while True:
            try:
                await asyncio.sleep(3600)
            except BaseException:
                pass


class Blocks(Executor):
    def execute(self, request):
        yield Artifact(parts=[{"text": "begun"}])
        time.sleep(3600)


class Resumes(Waits):
    can_resume = True

    async def execute(self, request):
        if request.resumed:
            yield Artifact(parts=[{"text": "resumed"}])
        else:
            yield Artifact(parts=[{"text": "begun"}])
            await asyncio.sleep(3600)


class SlowToClose(Waits):
    async def close(self):
        await asyncio.sleep(3600)


@hookimpl
def a2ad_register_executors(register, config):
    for executor in (Waits, Swallows, Deaf, Blocks, Resumes, SlowToClose):
        register(executor.__name__.lower(), executor())


@hookimpl
def a2ad_register_presets(register, config):
    for name in ("waits", "swallows", "deaf", "blocks", "resumes"):
        register(name, {"skills": [{"id": "chat", "executor": name}]})
"""
QUICK = "[limits]\nshutdown_seconds = 0.3\ncancel_grace_seconds = 0.3\ngate_seconds = 0.5\n"
PATIENT = "[limits]\nshutdown_seconds = 600\ncancel_grace_seconds = 0.3\ngate_seconds = 0.5\n"
SIGNALS = [signal.SIGTERM, signal.SIGINT]
Launch = Callable[..., DaemonProcess]


def stop(daemon: DaemonProcess, number: signal.Signals = signal.SIGTERM) -> None:
    """Send the signal, and wait until the daemon knows of it."""
    daemon.process.send_signal(number)
    until(lambda: "daemon.stopping" in daemon.log(), "the daemon is stopping")


def ended_well(daemon: DaemonProcess) -> None:
    assert daemon.process.wait(60) == 0
    log = daemon.log()
    for fault in ("Traceback", "never retrieved", "never awaited", "destroyed but it is pending", "ResourceWarning"):
        assert fault not in log, log


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_an_idle_daemon_with_status_0(daemon: DaemonProcess, number: signal.Signals) -> None:
    daemon.send(daemon.create_inbound(), "hello")

    daemon.process.send_signal(number)

    ended_well(daemon)


@pytest.mark.parametrize("number", SIGNALS)
def test_open_streams_and_blocking_calls_do_not_keep_it_and_are_told(launch: Launch, number: signal.Signals) -> None:
    daemon = launch(plugin=PLUGIN, config=QUICK)
    inbound = daemon.create_inbound(preset="waits")
    streams = [daemon.stream(inbound, "SendStreamingMessage", {"message": message("wait /never")}) for _ in range(3)]
    tasks = [next(frames)[1]["result"]["task"]["id"] for frames in streams]
    calls = [Background(daemon.send, inbound, "wait /never") for _ in range(3)]
    question = daemon.send(inbound, "raise")["id"]
    waiting = daemon.stream(inbound, "SubscribeToTask", {"id": question})
    next(waiting)
    until(lambda: len(daemon.read("")["peers"]) == 7, "all of them are there")

    stop(daemon, number)

    ended_well(daemon)
    last = [list(frames)[-1][1] for frames in streams]
    assert [frame["result"]["task"]["status"]["state"] for frame in last] == ["TASK_STATE_FAILED"] * 3
    assert "error" in list(waiting)[-1][1]
    assert [call.result()["status"]["state"] for call in calls] == ["TASK_STATE_FAILED"] * 3
    again = launch(plugin=PLUGIN, config=QUICK)
    for task_id in tasks:
        task = get_task(again, inbound, task_id)
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "stopped" in task["status"]["message"]["parts"][0]["text"]
        assert text_of(task) == "begun"
    assert state_of(again, question) == "INPUT_REQUIRED"


def test_readers_that_do_not_read_do_not_keep_it(launch: Launch) -> None:
    daemon = launch(config=QUICK)
    inbound = daemon.create_inbound()
    frames = daemon.stream(inbound, "SendStreamingMessage", {"message": message("word " * 200_000)})
    next(frames)

    daemon.process.send_signal(signal.SIGTERM)

    ended_well(daemon)
    frames.close()  # type: ignore[attr-defined]


def test_what_ends_in_time_ends_well_and_its_client_gets_the_answer(launch: Launch, tmp_path: Path) -> None:
    daemon = launch(plugin=PLUGIN, config=PATIENT)
    inbound = daemon.create_inbound(preset="waits")
    call = Background(daemon.send, inbound, f"wait {tmp_path / 'gate'}")
    frames = daemon.stream(inbound, "SendStreamingMessage", {"message": message(f"wait {tmp_path / 'gate'}")})
    next(frames)
    until(lambda: len(daemon.read("")["tasks"]) == 2, "both are there")

    stop(daemon)
    (tmp_path / "gate").touch()

    assert text_of(call.result()) == "begun, ended"
    assert text_of(list(frames)[-1][1]["result"]["task"]) == "begun, ended"
    ended_well(daemon)
    again = launch(plugin=PLUGIN)
    assert get_task(again, inbound, call.result()["id"]) == call.result()


def test_while_it_stops_no_new_work_is_taken(launch: Launch, tmp_path: Path) -> None:
    daemon = launch(plugin=PLUGIN, config=PATIENT)
    inbound = daemon.create_inbound(preset="waits")
    start_task(daemon, inbound, f"wait {tmp_path / 'gate'}")

    stop(daemon)

    error = Background(daemon.send, inbound, "hello").error()
    assert isinstance(error, (URLError, HTTPError, HTTPException, ConnectionError, AssertionError))
    (tmp_path / "gate").touch()
    ended_well(daemon)
    assert launch(plugin=PLUGIN).read("")["taskTotal"] == 1


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("preset", ["swallows", "deaf", "blocks"])
def test_an_executor_that_does_not_listen_does_not_keep_it(launch: Launch, preset: str, number: signal.Signals) -> None:
    daemon = launch(plugin=PLUGIN, config=QUICK)
    inbound = daemon.create_inbound(preset=preset)
    call = Background(daemon.send, inbound, "hello")
    until(lambda: [task["state"] for task in daemon.read("")["tasks"]] == ["TASK_STATE_WORKING"], "it runs")

    daemon.process.send_signal(number)

    assert daemon.process.wait(60) == 0
    assert call.result()["status"]["state"] == "TASK_STATE_FAILED"
    again = launch(plugin=PLUGIN, config=QUICK)
    task = get_task(again, inbound, call.result()["id"])
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert [artifact["parts"] for artifact in task["artifacts"]] == [[{"text": "begun"}]]


def test_what_does_not_close_does_not_keep_it(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN, config=QUICK)
    daemon.send(daemon.create_inbound(preset="waits"), "hello")

    assert daemon.terminate(60) == 0


def test_queued_tasks_run_after_the_restart(launch: Launch) -> None:
    limits = f"{QUICK}runs_per_inbound = 1\n"
    daemon = launch(plugin=PLUGIN, config=limits)
    inbound = daemon.create_inbound(preset="waits")
    running = start_task(daemon, inbound, "wait /never", contextId="talk")
    queued = [start_task(daemon, inbound, "hello", contextId=context) for context in ("talk", "talk", "other")]
    waiting = Background(daemon.send, inbound, "hello")
    until(lambda: len(daemon.read("")["tasks"]) == 5, "all are there")

    daemon.process.send_signal(signal.SIGTERM)

    ended_well(daemon)
    waiting.error()
    again = launch(plugin=PLUGIN, config=limits)
    for task_id in queued:
        assert text_of(await_state(again, task_id, "COMPLETED")) == "begun, ended"
    assert state_of(again, running) == "FAILED"
    until(lambda: again.read("?taskState=TASK_STATE_COMPLETED")["taskTotal"] == 4, "the one that was waited for runs")


def test_interrupted_tasks_wait_on_after_the_restart_and_can_be_continued(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN, config=QUICK)
    inbound = daemon.create_inbound(preset="waits")
    raised, asked = daemon.send(inbound, "raise")["id"], daemon.send(inbound, "ask")["id"]

    daemon.process.send_signal(signal.SIGTERM)

    ended_well(daemon)
    again = launch(plugin=PLUGIN, config=QUICK)
    assert [state_of(again, task_id) for task_id in (raised, asked)] == ["INPUT_REQUIRED"] * 2
    for task_id in (raised, asked):
        assert again.send(inbound, "that one", taskId=task_id)["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_task_whose_executor_can_resume_runs_again_after_an_orderly_stop(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN, config=QUICK)
    inbound = daemon.create_inbound(preset="resumes")
    task_id = start_task(daemon, inbound, "hello")
    until(lambda: daemon.read(f"/task?id={task_id}")["artifacts"], "it runs")

    daemon.process.send_signal(signal.SIGTERM)

    ended_well(daemon)
    again = launch(plugin=PLUGIN, config=QUICK)
    assert text_of(await_state(again, task_id, "COMPLETED")) == "resumed"


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_a_second_signal_ends_it_at_once(launch: Launch, first: signal.Signals, second: signal.Signals) -> None:
    daemon = launch(plugin=PLUGIN, config=PATIENT)
    inbound = daemon.create_inbound(preset="waits")
    task_id = start_task(daemon, inbound, "wait /never")
    stop(daemon, first)
    assert daemon.process.poll() is None

    daemon.process.send_signal(second)

    assert daemon.process.wait(60) != 0
    assert "Traceback" not in daemon.log()
    again = launch(plugin=PLUGIN, config=QUICK)
    assert state_of(again, task_id) == "FAILED"


def test_signals_in_quick_succession_end_it(launch: Launch) -> None:
    daemon = launch(plugin=PLUGIN, config=PATIENT)
    start_task(daemon, daemon.create_inbound(preset="deaf"), "hello")

    for number in (*SIGNALS, *SIGNALS):
        if daemon.process.poll() is None:
            daemon.process.send_signal(number)

    daemon.process.wait(60)
    assert "Traceback" not in daemon.log()


def test_a_signal_right_after_the_ready_line_ends_it_in_order(launch: Launch) -> None:
    for _ in range(3):
        daemon = launch()
        daemon.process.send_signal(signal.SIGTERM)
        ended_well(daemon)


def test_idle_connections_do_not_keep_it(daemon: DaemonProcess) -> None:
    kept = [daemon.stream(daemon.create_inbound(), "SendStreamingMessage", {"message": message("x")})
            for _ in range(3)]  # fmt: skip
    for frames in kept:
        next(frames)
    assert raw(daemon.url, "GET", "/a2a/api").status == 200

    daemon.process.send_signal(signal.SIGTERM)

    ended_well(daemon)
