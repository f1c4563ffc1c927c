"""What the tests of calls to official servers share: the server as a process, and calls with their progress."""

import http.client
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.daemon import STARTS_WITHIN, DaemonProcess
from tests.lab import until

#: a bound that only a hang reaches, in seconds
HANG = 60


class RemoteServer:
    """A server of agents; it says `listening on URL` once it does. The agents are below `url`."""

    def __init__(self, command: Sequence[str], folder: Path, *, env: dict[str, str] | None = None) -> None:
        self.log_path = folder / "remote.log"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=log
            )
        lines: queue.Queue[bytes] = queue.Queue()
        assert self.process.stdout is not None
        stdout = self.process.stdout

        def read() -> None:
            with stdout:
                for line in stdout:
                    lines.put(line)
            lines.put(b"")

        threading.Thread(target=read, daemon=True).start()
        try:
            line = lines.get(timeout=STARTS_WITHIN).decode()
            assert line.startswith("listening on "), self.log_path.read_text()
        except BaseException:
            self.kill()
            raise
        self.url = line.removeprefix("listening on ").strip()
        self.port = urlsplit(self.url).port

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Remote:
    """One agent of a server and the daemon's connection to it."""

    def __init__(self, daemon: DaemonProcess, endpoint: str, **more: Any) -> None:
        self.daemon = daemon
        self.endpoint = endpoint
        fields = {"name": "remote", "agentCardUrl": endpoint, "timeoutMs": HANG * 1000, **more}
        self.id = str(daemon.act("outbound.create", **fields)["id"])

    @property
    def row(self) -> dict[str, Any]:
        """The connection in the snapshot."""
        return next(row for row in self.daemon.read("")["outbounds"] if row["id"] == self.id)

    def call(self, skill: str, text: str = "hello", *, status: int = 200, **more: Any) -> dict[str, Any]:
        """`outbound.call`."""
        return self.daemon.act("outbound.call", id=self.id, skill=skill, text=text, status=status, **more)

    @contextmanager
    def calling(self, skill: str, text: str = "hello", **more: Any) -> Iterator[Iterator[tuple[str, Any]]]:
        """`outbound.call` as a stream of (event, data); who leaves before its end hangs up."""
        address = urlsplit(self.daemon.control)
        assert address.hostname is not None
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=HANG)
        body = {"action": "outbound.call", "id": self.id, "skill": skill, "text": text, **more}
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        try:
            connection.request("POST", "/a2a/api", json.dumps(body), headers)
            response = connection.getresponse()
            assert response.headers["Content-Type"] == "text/event-stream", response.read()
            yield _events(response)
        finally:
            connection.close()

    def followed(self, skill: str, text: str = "hello", **more: Any) -> tuple[list[Any], dict[str, Any]]:
        """A streamed call to its end: the progress, and the result, which comes once and last."""
        with self.calling(skill, text, **more) as events:
            *progress, (last, result) = events
        assert last == "result"
        assert {event for event, _ in progress} <= {"progress"}
        return [data for _, data in progress], result

    def ask(self, method: str, **params: Any) -> Any:
        """A JSON-RPC call of somebody else at the agent; its result."""
        envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        status, answer = self.daemon.request("POST", self.endpoint, envelope, headers={"A2A-Version": "1.0"})
        assert status == 200, (status, answer)
        assert "result" in answer, answer
        return answer["result"]

    def task_of(self, caller: str, state: str) -> dict[str, Any]:
        """The agent's only task of this caller, once it is in this state."""
        context_id = self.call("context", caller=caller)["contextId"]

        def found() -> dict[str, Any] | None:
            # servers keep their tasks by context; the one that answered with the context is a message, and no task
            tasks = self.ask("ListTasks", contextId=context_id, pageSize=10)["tasks"]
            states = [task["status"]["state"] for task in tasks]
            return tasks[0] if states == [f"TASK_STATE_{state}"] else None

        return until(found)


def said(progress: list[Any]) -> str:
    """The text of the progress, put together."""
    return "".join(update["text"] for update in progress if "text" in update)


def until_noted(events: Iterator[tuple[str, Any]], note: str) -> None:
    """Read up to this status message."""
    for _, data in events:
        if data.get("message") == note:
            return
    raise AssertionError(f"the call ended before {note!r} was said")


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    event = ""
    for line in response:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            yield event, json.loads(value)
