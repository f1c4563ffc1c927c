"""Faults at the daemon's end, at its start and in its folders: threads, blocked loops, limits that were lowered."""

import base64
import hashlib
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import Background, await_state, start_task, state_of, text_of, until
from tests.hostile import call, ended_task, no_faults, state_and_text, threads
from tests.hostile_plugins import HEAD, KINDS, LIMITS
from tests.lab import at_once

Launch = Callable[..., DaemonProcess]

NOTES = f"""{HEAD}
class Notes(Executor):
    can_resume = True

    async def execute(self, request):
        number = 0
        while True:
            number += 1
            yield Status(TaskState.WORKING, f"{{request.resumed}} {{number}}")
            if number > 700:
                await asyncio.sleep(0.01)


@hookimpl
def a2ad_register_executors(register): register("notes", Notes())
@hookimpl
def a2ad_register_presets(register): register("notes", {{"skills": [{{"id": "chat", "executor": "notes"}}]}})
"""


def test_no_frame_id_is_used_again_after_a_kill_in_the_middle_of_many_notes(launch: Launch) -> None:
    daemon = launch(plugin=NOTES, config=LIMITS)
    inbound = daemon.create_inbound(preset="notes")
    seen: dict[int, str] = {}
    task_id = ""
    for life in range(3):
        if life == 0:
            params: Any = {"message": {"role": "ROLE_USER", "parts": [{"text": "go"}]}}
            stream = daemon.stream(inbound, "SendStreamingMessage", params)
        else:
            last = {"Last-Event-ID": str(max(seen))}
            stream = daemon.stream(inbound, "SubscribeToTask", {"id": task_id}, headers=last)
        count = 0
        for number, envelope in stream:
            if "task" in envelope["result"]:
                task_id = envelope["result"]["task"]["id"]
                continue
            assert number is not None
            text = state_and_text(envelope["result"]["statusUpdate"])[1]
            assert number not in seen, (life, number, text, seen[number])
            seen[number] = text
            count += 1
            if count == 750:
                break
        assert count == 750
        daemon.kill()
        stream.close()  # type: ignore[attr-defined]
        if life < 2:
            daemon = launch(plugin=NOTES, config=LIMITS)


# its end

ENDS = f"""{HEAD}
class Threads(Executor):
    async def execute(self, request):
        if request.text == "left behind":
            threading.Thread(target=time.sleep, args=(600,)).start()
            asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
        yield Artifact(parts=[{{"text": "begun"}}])
        if request.text == "awaited":
            await asyncio.to_thread(time.sleep, 600)
        if request.text == "time.sleep":
            time.sleep(60)
        if request.text == "lock":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        if request.text == "busy":
            while True: pass


class Stuck(Executor):
    def execute(self, request):
        yield Artifact(parts=[{{"text": "begun"}}])
        threading.Event().wait()


ALL = {{"threads": Threads, "stuck": Stuck}}
@hookimpl
def a2ad_register_executors(register):
    for name, kind in ALL.items(): register(name, kind())
@hookimpl
def a2ad_register_presets(register):
    for name in ALL: register(name, {{"skills": [{{"id": "chat", "executor": name}}]}})
"""


@pytest.mark.parametrize("kind", [*KINDS, "unshowable exit"])
def test_what_start_up_and_shutdown_hooks_and_closing_executors_raise_changes_nothing(
    launch: Launch, kind: str
) -> None:
    text = HEAD.replace("sys.exit(7)", "sys.exit(Untellable())") if kind == "unshowable exit" else HEAD
    kind = "SystemExit" if kind == "unshowable exit" else kind
    sync = f"""{text}
class Closes(Executor):
    async def execute(self, request):
        asyncio.get_running_loop().call_soon(blow, "{kind}")
        await asyncio.sleep(0.01)
        yield Artifact(parts=[{{"text": "ok"}}])
    async def close(self): blow("{kind}")
class ClosesLater(Closes):
    async def close(self):
        self.kept = asyncio.create_task(blow_later("{kind}"))
        await blow_later("{kind}")
@hookimpl
def a2ad_register_executors(register): register("closes", Closes()); register("later", ClosesLater())
@hookimpl
def a2ad_register_presets(register): register("closes", {{"skills": [{{"id": "chat", "executor": "closes"}}]}})
@hookimpl
def a2ad_startup(daemon): blow("{kind}")
@hookimpl
def a2ad_shutdown(daemon): blow("{kind}")
"""
    other = f"""{text}
@hookimpl
async def a2ad_startup(daemon):
    daemon.kept = None
    await blow_later("{kind}")
@hookimpl
async def a2ad_shutdown(daemon):
    asyncio.get_running_loop().call_soon(blow, "{kind}")
    await blow_later("{kind}")
"""
    daemon = launch(plugin={"a": sync, "b": other}, config=LIMITS)
    inbound = daemon.create_inbound(preset="closes")
    assert state_and_text(daemon.send(inbound, "hello"))[0] == "COMPLETED"

    assert daemon.terminate() == 0, daemon.log()[-3000:]
    assert "daemon.stopped" in daemon.log()


def test_threads_that_plugins_leave_behind_are_few_and_do_not_keep_the_process(launch: Launch) -> None:
    daemon = launch(plugin=ENDS, config=f"{LIMITS}runs = 6\nruns_per_inbound = 6\n")
    stuck, others = daemon.create_inbound(preset="stuck"), daemon.create_inbound(preset="standard")
    leaves = daemon.create_inbound(preset="threads")
    before = threads(daemon)
    states = []
    for _ in range(40):
        task_id = start_task(daemon, stuck, "go")
        daemon.rpc(stuck, "CancelTask", {"id": task_id})
        states.append(state_and_text(ended_task(daemon, stuck, task_id))[0])
    assert states[:6] == ["CANCELED"] * 6
    assert set(states[6:]) <= {"CANCELED", "FAILED"}
    assert threads(daemon) - before <= 6 + 10  # its own pool may have grown meanwhile
    assert state_and_text(daemon.send(others, "hello"))[0] == "COMPLETED"

    assert state_and_text(daemon.send(leaves, "left behind"))[0] == "COMPLETED"
    awaited = start_task(daemon, leaves, "awaited")
    await_state(daemon, awaited, "WORKING")
    assert daemon.terminate() == 0


@pytest.mark.parametrize("how", ["time.sleep", "lock", "busy"])
def test_where_an_executor_holds_up_the_loop_the_second_signal_ends_the_process(launch: Launch, how: str) -> None:
    daemon = launch(plugin=ENDS, config=LIMITS)
    inbound = daemon.create_inbound(preset="threads")
    stuck = Background(daemon.send, inbound, how)
    until(lambda: "run.blocks_the_loop" in daemon.log(), "the executor holds up the loop")

    daemon.process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        daemon.process.wait(0.3)
    daemon.process.send_signal(signal.SIGTERM)

    assert daemon.process.wait(10) == 128 + signal.SIGTERM
    assert stuck.error() is not None


INNER = "        try: await asyncio.sleep(9)\n        except BaseException: pass\n"


def test_hooks_that_sleep_at_the_end_share_one_bound(launch: Launch, tmp_path: Path) -> None:
    sleepers = {
        f"sleeps_{number}": f"{HEAD}\n@hookimpl\n" + body
        for number, body in enumerate(
            [
                "async def a2ad_shutdown(daemon): await asyncio.sleep(600)",
                "def a2ad_shutdown(daemon): time.sleep(600)",
                "async def a2ad_shutdown(daemon):\n    while True:\n" + INNER,
            ]
            * 3
        )
    }
    # added up they would take 27 s, and past 9 s the process is ended with another status
    daemon = launch(plugin=sleepers, config="[limits]\ngate_seconds = 3\nshutdown_seconds = 1\n")
    assert daemon.terminate(60) == 0, daemon.log()[-2000:]
    assert "daemon.stopped" in daemon.log()


# attachments

FILES = f"""{HEAD}
from pathlib import Path
class Files(Executor):
    async def execute(self, request):
        if request.text.startswith("block"):
            await asyncio.sleep(600)
        yield Artifact(parts=[{{"text": " ".join(a.sha256 for a in request.attachments)}}])
        for held in request.attachments:
            assert len(Path(held.path).read_bytes()) == held.size


class Slow(Executor):
    may_reply = True
    async def execute(self, request):
        await asyncio.sleep(0.05)
        yield Reply(parts=[{{"text": "done"}}])
        await asyncio.sleep(0.05)


ALL = {{"files": Files, "slow": Slow}}
@hookimpl
def a2ad_register_executors(register):
    for name, kind in ALL.items(): register(name, kind())
@hookimpl
def a2ad_register_presets(register):
    for name in ALL: register(name, {{"skills": [{{"id": "chat", "executor": name}}]}})
"""


def _with_files(*files: bytes, text: str = "go") -> dict[str, Any]:
    raw = [{"raw": base64.b64encode(data).decode(), "filename": "a.bin"} for data in files]
    message = {"role": "ROLE_USER", "parts": [{"text": text}, *raw]}
    return {"message": message, "configuration": {"returnImmediately": True, "historyLength": 0}}


def _digests(*files: bytes) -> str:
    return " ".join(hashlib.sha256(data).hexdigest() for data in files)


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_queued_tasks_with_attachments_survive_a_restart_with_lower_limits(launch: Launch, end: str) -> None:
    config = f"{LIMITS}runs_per_inbound = 1\n"
    files = (b"one", b"two" * 1000, b"three")
    daemon = launch(plugin=FILES, config=config)
    inbound = daemon.create_inbound(preset="files")
    running = start_task(daemon, inbound, "block")
    queued = daemon.rpc(inbound, "SendMessage", _with_files(*files))["result"]["task"]["id"]
    behind = start_task(daemon, inbound, "go")
    getattr(daemon, end)()

    again = launch(plugin=FILES, config=f"{config}attachments = 1\nattachment_bytes = 4\n")
    assert text_of(await_state(again, queued, "COMPLETED", "FAILED")) == _digests(*files)
    assert state_of(again, running) == "FAILED"
    await_state(again, behind, "COMPLETED")
    refused = again.rpc(inbound, "SendMessage", _with_files(*files))
    assert refused["error"]["code"] == -32602
    assert "message.parts[2]" in str(refused["error"]["data"])


def test_the_same_attachment_many_times_at_once_is_kept_once_and_whole(launch: Launch) -> None:
    daemon = launch(plugin=FILES, config=LIMITS)
    inbound = daemon.create_inbound(preset="files")
    for number in range(3):
        data = bytes([number]) * 300_000
        sent = _with_files(data, data)
        answers = at_once([lambda sent=sent: daemon.rpc(inbound, "SendMessage", sent)] * 30)  # type: ignore[misc]
        ids = {answer["result"]["task"]["id"] for answer in answers}
        assert len(ids) == 30
        for task_id in ids:
            assert text_of(ended_task(daemon, inbound, task_id)) == _digests(data, data)
    kept = [path for path in (daemon.state_dir / "attachments").rglob("*") if path.is_file()]
    assert len(kept) == 3
    for path in kept:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name


# removal


def test_an_inbound_is_removed_while_its_executors_run_and_messages_arrive(launch: Launch) -> None:
    daemon = launch(plugin=FILES, config=LIMITS)
    other = daemon.create_inbound(preset="standard")
    with no_faults(daemon):
        for _ in range(4):
            inbound = daemon.create_inbound(preset="slow")
            waiting = [Background(_post, daemon, inbound) for _ in range(12)]
            until(lambda: daemon.read("/metrics")["runs"] > 0, "some run")
            removal = Background(daemon.act, "inbound.remove", id=inbound)
            waiting += [Background(_post, daemon, inbound) for _ in range(12)]
            for sender in waiting:
                status, answer = sender.result()
                assert status in {200, 404, 503}, (status, answer)
                assert "reference" not in str(answer)
            removal.result()
            assert _post(daemon, inbound)[0] == 404
            assert [task for task in daemon.read("?taskLimit=500")["tasks"] if task["serverId"] == inbound] == []
        until(lambda: daemon.read("/metrics")["runs"] == 0, "the slots are free")
        assert state_and_text(daemon.send(other, "hello"))[0] == "COMPLETED"
    assert daemon.terminate() == 0
    again = launch(plugin=FILES, config=LIMITS)
    assert again.read("")["taskTotal"] == 1


def _post(daemon: DaemonProcess, inbound: str) -> tuple[int, Any]:
    message = {"role": "ROLE_USER", "parts": [{"text": "hello"}]}
    return daemon.request("POST", daemon.endpoint(inbound), call("SendMessage", {"message": message}))
