"""The store is away for a while: no room, read-only, or locked by someone else. Callers are told, and it recovers by
itself, with nothing lost and nothing run twice (issue 3, "Recovery").
"""

import base64
import ctypes
import os
import resource
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import Background, await_state, failed_start, get_task, start_task, text_of, until

T = TypeVar("T")
#: `wait` streams until its file is there, `ask` wants an answer. At SIGUSR1 every descriptor of the database's log, to
#: which SQLite writes first, is read-only, and at SIGUSR2 it can be written again. On a file system that was remounted
#: read-only, `write` fails on descriptors that are open: that needs privileges; this needs none, SQLite gets an error
#: from the very same call, and says the same of it.
PLUGIN = """
import asyncio
import os
import signal
from pathlib import Path

from a2ad import Artifact, Executor, InputRequired, hookimpl

runs = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def open_log_anew(flags):
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if path.endswith("a2ad.db-wal"):
            anew = os.open(path, flags)
            os.dup2(anew, int(number), inheritable=False)
            os.close(anew)


signal.signal(signal.SIGUSR1, lambda *_: open_log_anew(os.O_RDONLY))
signal.signal(signal.SIGUSR2, lambda *_: open_log_anew(os.O_RDWR))


class Patient(Executor):
    async def execute(self, request):
        os.write(runs, (request.message["messageId"] + "\\n").encode())
        word, _, rest = request.text.partition(" ")
        if word == "ask":
            raise InputRequired("which one?")
        number = 0
        while word == "wait" and not Path(rest).exists():
            yield Artifact(parts=[{"text": f"<{number}>"}], append=True, last_chunk=False)
            number += 1
            await asyncio.sleep(0.02)
        yield Artifact(parts=[{"text": f"{word} done"}], append=True, last_chunk=True)


@hookimpl
def a2ad_register_executors(register, config):
    register("patient", Patient())


@hookimpl
def a2ad_register_presets(register, config):
    register("patient", {"skills": [{"id": "chat", "executor": "patient"}]})
"""


def _send(daemon: DaemonProcess, inbound: str, message_id: str, text: str = "say hello", **more: Any) -> dict[str, Any]:
    wanted = message(text, messageId=message_id, **more)
    answer: dict[str, Any] = daemon.rpc(inbound, "SendMessage", {"message": wanted})
    return answer


def _refused(answer: dict[str, Any]) -> bool:
    error = answer.get("error")
    return isinstance(error, dict) and error["data"][0]["reason"] == "STORE_UNAVAILABLE" and error["code"] == -32603


def _health(daemon: DaemonProcess) -> Any:
    return daemon.read("")["health"]


def _total(daemon: DaemonProcess, inbound: str) -> int:
    return int(daemon.rpc(inbound, "ListTasks", {"pageSize": 1})["result"]["totalSize"])


def _says_that_it_recovered(daemon: DaemonProcess) -> None:
    assert _health(daemon)["status"] == "ok"
    assert "store.write_failed" in daemon.log()
    assert "store.recovered" in daemon.log()


def _log_descriptors(daemon: DaemonProcess) -> list[int]:
    """The open flags of the daemon's descriptors of the database's log."""
    found = []
    for entry in Path(f"/proc/{daemon.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # others come and go
            if str(entry.readlink()).endswith("a2ad.db-wal"):
                info = Path(f"/proc/{daemon.process.pid}/fdinfo/{entry.name}").read_text()
                found.append(int(info.partition("flags:")[2].split()[0], 8))
    return found


@contextmanager
def _read_only(daemon: DaemonProcess) -> Iterator[None]:
    for signum, mode in ((signal.SIGUSR1, os.O_RDONLY), (signal.SIGUSR2, os.O_RDWR)):
        daemon.process.send_signal(signum)
        until(lambda mode=mode: {flags & os.O_ACCMODE for flags in _log_descriptors(daemon)} == {mode}, "it is so")
        if signum is signal.SIGUSR1:
            yield


@contextmanager
def _locked(daemon: DaemonProcess) -> Iterator[None]:
    other = sqlite3.connect(daemon.state_dir / "a2ad.db", isolation_level=None, timeout=10, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


@pytest.mark.parametrize(
    ("away", "seconds"), [(_read_only, 0.0), (_locked, 15.0)], ids=["read-only", "locked by someone else for 15 s"]
)
def test_all_who_call_are_told_while_it_is_away_and_afterwards_all_goes_on(
    launch: Callable[..., DaemonProcess],
    tmp_path: Path,
    away: Callable[[DaemonProcess], AbstractContextManager[None]],
    seconds: float,
) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    daemon = launch(plugin=PLUGIN, env={"RUNS": str(runs)})
    inbound = daemon.create_inbound(preset="patient")
    ended = daemon.send(inbound, "say hello", messageId="ended")
    asking = daemon.send(inbound, "ask me", messageId="asking")
    canceled = start_task(daemon, inbound, "wait /never", messageId="canceled")
    blocked = Background(_send, daemon, inbound, "blocked", f"wait {gate}")
    streaming = {"message": message(f"wait {gate}", messageId="streaming")}
    stream = Background(list, daemon.stream(inbound, "SendStreamingMessage", streaming))
    until(lambda: len(runs.read_text().splitlines()) == 5, "all of them run")

    with away(daemon):
        begun = time.monotonic()
        gate.touch()
        calls = [Background(_send, daemon, inbound, f"new-{number}") for number in range(10)]
        calls.append(Background(_send, daemon, inbound, "answer", "say the red one", taskId=asking["id"]))
        calls.append(Background(daemon.rpc, inbound, "CancelTask", {"id": canceled}))
        new = {"message": message("say hello", messageId="new-stream")}
        calls.append(Background(daemon.rpc, inbound, "SendStreamingMessage", new))
        assert get_task(daemon, inbound, ended["id"]) == ended
        assert _total(daemon, inbound) == 5

        assert [answer for call in [*calls, blocked] if not _refused(answer := call.result())] == []
        health = _health(daemon)
        assert health["status"] == "degraded"
        assert health["store"]["error"]
        assert health["store"]["since"]
        assert get_task(daemon, inbound, asking["id"]) == asking
        assert _total(daemon, inbound) == 5
        assert not stream.done, "its end is not durable, and so it is not seen"
        until(lambda: time.monotonic() - begun >= seconds, "it was away for so long")

    until(lambda: _health(daemon)["status"] == "ok", "it recovers by itself: there are ends to be recorded")
    _says_that_it_recovered(daemon)
    await_state(daemon, canceled, "CANCELED")
    frames = stream.result()
    assert [number for number, _ in frames] == list(range(1, len(frames) + 1))
    results = [frame["result"] for _, frame in frames]
    chunks = [result["artifactUpdate"]["artifact"] for result in results if "artifactUpdate" in result]
    assert results[-1]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "".join(part["text"] for chunk in chunks for part in chunk["parts"]) == text_of(results[-1]["task"])

    again = {
        message_id: _send(daemon, inbound, message_id)["result"]["task"]
        for message_id in ("blocked", "streaming", "new-stream", *(f"new-{number}" for number in range(10)))
    }
    again["answer"] = _send(daemon, inbound, "answer", "say the red one", taskId=asking["id"])["result"]["task"]
    assert {task["status"]["state"] for task in again.values()} == {"TASK_STATE_COMPLETED"}
    assert again["streaming"] == results[-1]["task"]
    assert text_of(again["blocked"]).endswith(">wait done")
    assert Counter(runs.read_text().splitlines()) == Counter(["ended", "asking", "canceled", *again])
    assert _total(daemon, inbound) == 3 + len(again) - 1
    assert daemon.terminate() == 0


def test_without_room_on_the_disk_callers_get_an_error_and_all_goes_on_when_there_is_some(
    daemon: DaemonProcess,
) -> None:
    inbound = daemon.create_inbound()
    daemon.send(inbound, "hello")
    pid, soft = daemon.process.pid, resource.RLIMIT_FSIZE
    largest = max(file.stat().st_size for file in daemon.state_dir.glob("a2ad.db*"))
    before = resource.prlimit(pid, soft, (largest, resource.RLIM_INFINITY))

    asked = [f"full-{number}" for number in range(5)]
    assert all(_refused(_send(daemon, inbound, message_id)) for message_id in asked)
    assert _health(daemon)["status"] == "degraded"
    assert _total(daemon, inbound) == 1

    resource.prlimit(pid, soft, before)
    until(lambda: "result" in _send(daemon, inbound, "after"), "it takes messages again")
    _says_that_it_recovered(daemon)
    states = {_send(daemon, inbound, message_id)["result"]["task"]["status"]["state"] for message_id in asked}
    assert states == {"TASK_STATE_COMPLETED"}
    assert _total(daemon, inbound) == len(asked) + 2
    assert daemon.terminate() == 0


def test_a_short_lock_of_someone_else_delays_callers_and_no_more(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound()
    daemon.send(inbound, "hello")
    with ThreadPoolExecutor(20) as clients:
        with _locked(daemon):
            waiting = [clients.submit(_send, daemon, inbound, f"short-{number}") for number in range(20)]
            done, _ = wait(waiting, timeout=2)  # the lock is held so long, and nobody can have an answer
        states = {answer.result()["result"]["task"]["status"]["state"] for answer in waiting}
    assert not done
    assert states == {"TASK_STATE_COMPLETED"}
    assert _health(daemon)["status"] == "ok"


# files that the daemon's user may not write


def _as_modes_say(call: Callable[[], T]) -> T:
    """What the call returns. To a process that it starts, files are writable as their modes say, also where root
    starts it: root's privilege to write everywhere is taken from this one thread, and what it starts.
    """

    def without_privilege() -> T:
        if os.geteuid() == 0:
            drop_from_bounding_set, dac_override = 24, 1  # prctl(2), capabilities(7)
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.prctl(drop_from_bounding_set, dac_override, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
        return call()

    result: T = Background(without_privilege).result()
    return result


@contextmanager
def _mode(path: Path, mode: int) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


def test_a_start_where_the_database_cannot_be_written_says_so_and_the_next_one_has_everything(
    launch: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = launch()
    inbound = daemon.create_inbound()
    task = daemon.send(inbound, "hello")
    assert daemon.terminate() == 0

    with _mode(daemon.state_dir, 0o500):
        said = _as_modes_say(lambda: failed_start(tmp_path))

    assert str(daemon.state_dir) in said
    assert get_task(launch(), inbound, task["id"]) == task


def test_where_files_cannot_be_kept_messages_with_files_are_refused_and_others_are_not(
    launch: Callable[..., DaemonProcess],
) -> None:
    daemon = _as_modes_say(launch)
    inbound = daemon.create_inbound()

    def send_file(data: bytes, message_id: str) -> Any:
        wanted = message("hello", messageId=message_id)
        wanted["parts"].append({"raw": base64.b64encode(data).decode(), "filename": "notes.txt"})
        return daemon.rpc(inbound, "SendMessage", {"message": wanted})

    assert "result" in send_file(b"kept", "first")
    with _mode(daemon.state_dir / "attachments", 0o500):
        assert _refused(send_file(b"not to be kept", "second"))
        assert "result" in send_file(b"kept", "third"), "it is there already"
        assert "result" in _send(daemon, inbound, "fourth")
    assert send_file(b"not to be kept", "second")["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert _total(daemon, inbound) == 4
    assert daemon.terminate() == 0


def test_it_says_that_it_recovered_where_nobody_calls(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound()
    with _locked(daemon):
        assert _refused(_send(daemon, inbound, "locked"))
    until(lambda: _health(daemon)["status"] == "ok", "it recovers by itself")
    assert "store.recovered" in daemon.log()
