"""A real daemon, started by its command and talked to over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from a2ad.testing.toml import presets_toml

_opener = build_opener(ProxyHandler({}))
STARTS_WITHIN = 60.0


class DaemonProcess:
    """`a2ad serve` on a free port, with the plugins that are installed. `url` is its base URL, `control` that of the
    control API. Where it does not start, `AssertionError` shows its log.

    `plugin` is the text of a plugin file, or several by name; `presets` are tables with the keys of `[[presets]]`,
    `config` is the text of the rest of the configuration; `env` adds to the environment. The state is kept in
    `folder`, so that a second one in the same folder goes on with it. What it logs is in `log()`.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        plugin: str | Mapping[str, str] | None = None,
        presets: Sequence[Mapping[str, Any]] = (),
        config: str = "",
        env: Mapping[str, str] | None = None,
        state: str = "state",
        port: int = 0,
    ) -> None:
        self.folder = folder
        self.state_dir = folder / state
        file = folder / "a2ad.toml"
        file.write_text(f"{config}\n{presets_toml(presets)}")
        self.command = [sys.executable, "-m", "a2ad", "serve", "--listen", f"127.0.0.1:{port}"]
        self.command += ["--state-dir", str(self.state_dir), "--config", str(file)]
        if plugin is not None:
            self.command += ["--plugins-dir", str(plugins_dir(folder, plugin))]
        self.command += options
        self.log_path = folder / "daemon.log"
        self._environment = {"PYTHONUNBUFFERED": "1", **_clean_environment(), **(env or {})}
        self.start()

    def start(self) -> None:
        """Start it again, once it has ended, with the same state; `url` is another one then."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=log, env=self._environment, cwd=self.folder
            )
        self._lines: queue.Queue[str] = queue.Queue()
        # its own queue: the one before may not have been read to its end
        threading.Thread(target=_read, args=(self.process.stdout, self._lines), daemon=True).start()
        try:
            self.url = self._announced("a2ad listening on ")
        except BaseException:
            self.kill()
            raise
        self.control = self.url

    def _announced(self, start: str) -> str:
        while True:
            line = self.next_line()
            if line.startswith(start):
                return line.removeprefix(start)
            if line == "":  # the end of its output: it is about to be gone
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(5)
                raise AssertionError(f"the daemon did not start (status {self.process.returncode}):\n{self.log()}")

    def next_line(self) -> str:
        """The next line of its standard output, waited for."""
        return self._lines.get(timeout=STARTS_WITHIN)

    def await_control(self) -> str:
        """Where the control API has a listener of its own: wait for its line."""
        self.control = self._announced("a2ad control on ")
        return self.control

    def log(self) -> str:
        return self.log_path.read_text()

    # the operator

    def act(self, action: str, *, status: int = 200, **fields: Any) -> dict[str, Any]:
        """A control action; fails where its status is another one."""
        got, answer = self.request("POST", f"{self.control}/a2a/api", {"action": action, **fields})
        assert got == status, (got, answer)
        return dict(answer)

    def create_inbound(self, **fields: Any) -> str:
        """Publish an agent; returns its id. Its endpoint is `endpoint(id)`."""
        wanted = {"name": "agent", "description": "An agent", "version": "1.0.0", **fields}
        return str(self.act("inbound.create", **wanted)["id"])

    def endpoint(self, inbound_id: str) -> str:
        return f"{self.url}/a2a/{inbound_id}"

    def read(self, path: str) -> Any:
        """GET below `/a2a/api`: `""` is the snapshot, `"metrics"` or `"/metrics"` what its name says."""
        below = f"/{path}" if path and path[0] not in "/?" else path
        status, answer = self.request("GET", f"{self.control}/a2a/api{below}")
        assert status == 200, (status, answer)
        return answer

    # a client

    def rpc(self, inbound_id: str, method: str, params: Any, *, headers: Mapping[str, str] | None = None) -> Any:
        """A JSON-RPC call; returns the whole envelope."""
        envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.request("POST", self.endpoint(inbound_id), envelope, headers=headers)[1]

    def send(self, inbound_id: str, text: str, **more: Any) -> Any:
        """SendMessage; returns the task, or the message of an executor that answers with a `Reply`. `configuration`
        goes beside the message, everything else into it.
        """
        params: dict[str, Any] = {"message": message(text, **more)}
        if "configuration" in more:
            params["configuration"] = params["message"].pop("configuration")
        result = self.result(inbound_id, "SendMessage", params)
        return result["task"] if "task" in result else result["message"]

    def result(self, inbound_id: str, method: str, params: Any) -> Any:
        """As `rpc`; returns the result, and fails where there is none."""
        answer = self.rpc(inbound_id, method, params)
        assert "result" in answer, answer
        return answer["result"]

    def begin(self, inbound_id: str, text: str, **more: Any) -> Any:
        """As `send`, but the task is returned as soon as it is recorded."""
        return self.send(inbound_id, text, configuration={"returnImmediately": True}, **more)

    def answer(self, inbound_id: str, task: Mapping[str, Any], text: str, **more: Any) -> Any:
        """The next message to a task that is interrupted; returns the task."""
        return self.send(inbound_id, text, taskId=task["id"], **more)

    def task(self, inbound_id: str, task_id: str) -> Any:
        """GetTask."""
        return self.result(inbound_id, "GetTask", {"id": task_id})

    def cancel(self, inbound_id: str, task_id: str) -> Any:
        """CancelTask; returns the canceled task."""
        return self.result(inbound_id, "CancelTask", {"id": task_id})

    def send_streaming(self, inbound_id: str, text: str, **more: Any) -> Iterator[Any]:
        """SendStreamingMessage: the frames as they come, each a `task`, a `statusUpdate` or an `artifactUpdate`."""
        for _, envelope in self.stream(inbound_id, "SendStreamingMessage", {"message": message(text, **more)}):
            yield envelope["result"]

    def subscribe(self, inbound_id: str, task_id: str) -> Iterator[Any]:
        """SubscribeToTask: as `send_streaming`, the task as it is now first."""
        for _, envelope in self.stream(inbound_id, "SubscribeToTask", {"id": task_id}):
            yield envelope["result"]

    def stream(
        self,
        inbound_id: str,
        method: str,
        params: Any,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Iterator[tuple[int | None, Any]]:
        """The frames of a stream as they come: (id, envelope)."""
        envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        request = Request(
            self.endpoint(inbound_id),
            json.dumps(envelope).encode(),
            {"Content-Type": "application/json", "Accept": "text/event-stream", **(headers or {})},
        )
        with _opener.open(request, timeout=timeout) as response:
            assert response.headers["Content-Type"] == "text/event-stream", response.read()
            number = None
            for line in response:
                text = line.decode().rstrip("\n")
                if text.startswith("id: "):
                    number = int(text[4:])
                elif text.startswith("data: "):
                    yield number, json.loads(text[6:])
                    number = None

    def request(
        self, method: str, url: str, body: Any = None, *, headers: Mapping[str, str] | None = None, timeout: float = 60
    ) -> tuple[int, Any]:
        """Any request; a body that is not bytes is sent as JSON, and so is the answer read."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = Request(url, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
        try:
            with _opener.open(request, timeout=timeout) as response:
                raw, status = response.read(), response.status
        except HTTPError as error:
            raw, status = error.read(), error.code
        return status, json.loads(raw) if raw else None

    # its end

    def terminate(self, timeout: float = 30) -> int:
        """SIGTERM, and its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def restart(self) -> None:
        """End it in order, and `start` it again."""
        assert self.terminate() == 0, self.log()
        self.start()

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def message(text: str, **more: Any) -> dict[str, Any]:
    """A user's message of one text part."""
    return {"role": "ROLE_USER", "parts": [{"text": text}], **more}


def text_of(task: Mapping[str, Any], artifact_id: str = "result") -> str:
    """The text of one artifact of a task, empty where it has none; or that of a message."""
    artifacts = [task] if "parts" in task else [a for a in task.get("artifacts", ()) if a["artifactId"] == artifact_id]
    return "".join(part.get("text", "") for artifact in artifacts for part in artifact["parts"])


def _read(output: IO[bytes], lines: queue.Queue[str]) -> None:
    with output:
        for line in output:
            lines.put(line.decode().rstrip("\n"))
    lines.put("")


def plugins_dir(folder: Path, plugin: str | Mapping[str, str]) -> Path:
    """A directory with the text of one plugin file, or of several by name."""
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    for name, text in ({"plugin": plugin} if isinstance(plugin, str) else plugin).items():
        (plugins / f"{name}.py").write_text(text)
    return plugins


def _clean_environment() -> dict[str, str]:
    """The test run's own configuration must not reach the daemon."""
    return {name: value for name, value in os.environ.items() if not name.startswith("A2AD_")}
