"""The store is away for a while: no room, or locked by someone else. Callers are told, and it recovers by itself."""

import resource
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from tests.daemon import DaemonProcess, message

#: far more than the promised seconds, far less than for ever
WITHIN = 30.0


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _send(daemon: DaemonProcess, inbound: str, message_id: str) -> dict[str, object]:
    answer: dict[str, object] = daemon.rpc(inbound, "SendMessage", {"message": message("hello", messageId=message_id)})
    return answer


def _refused(answer: dict[str, object]) -> bool:
    error = answer.get("error")
    return isinstance(error, dict) and error["data"][0]["reason"] == "STORE_UNAVAILABLE" and error["code"] == -32603


def _status(daemon: DaemonProcess) -> str:
    return str(daemon.read("")["health"]["status"])


def _recovers(daemon: DaemonProcess, inbound: str, asked: list[str]) -> None:
    _until(lambda: "result" in _send(daemon, inbound, "after"))
    assert _status(daemon) == "ok"
    assert "store.write_failed" in daemon.log()
    assert "store.recovered" in daemon.log()
    for message_id in asked:
        task = _send(daemon, inbound, message_id)["result"]["task"]  # type: ignore[index]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    total = daemon.rpc(inbound, "ListTasks", {"pageSize": 1})["result"]["totalSize"]
    assert total == len(asked) + 2


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
    assert _status(daemon) == "degraded"
    assert daemon.rpc(inbound, "ListTasks", {})["result"]["totalSize"] == 1

    resource.prlimit(pid, soft, before)
    _recovers(daemon, inbound, asked)
    assert daemon.terminate() == 0


def _lock(daemon: DaemonProcess) -> sqlite3.Connection:
    other = sqlite3.connect(daemon.state_dir / "a2ad.db", isolation_level=None, timeout=10, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_a_short_lock_of_someone_else_delays_callers_and_no_more(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound()
    daemon.send(inbound, "hello")
    other = _lock(daemon)
    with ThreadPoolExecutor(20) as clients:
        waiting = [clients.submit(_send, daemon, inbound, f"short-{number}") for number in range(20)]
        done, _ = wait(waiting, timeout=2)  # the lock is held so long, and nobody can have an answer
        other.execute("ROLLBACK")
        other.close()
    assert not done
    states = {answer.result()["result"]["task"]["status"]["state"] for answer in waiting}  # type: ignore[index]
    assert states == {"TASK_STATE_COMPLETED"}
    assert _status(daemon) == "ok"


def test_a_long_lock_of_someone_else_is_told_to_callers_and_passes(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound()
    daemon.send(inbound, "hello")
    other = _lock(daemon)
    assert _refused(_send(daemon, inbound, "locked"))
    assert _status(daemon) == "degraded"
    other.execute("ROLLBACK")
    other.close()
    _recovers(daemon, inbound, ["locked"])
