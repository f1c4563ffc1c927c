"""The examples of the reference, as they stand there, run by the real curl: only hosts, ports and ids are put in."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.daemon import DaemonProcess

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

CREATE_INBOUND = """\
curl -sS -X POST http://127.0.0.1:3080/a2a/api \\
  -H 'content-type: application/json' \\
  -d '{
    "action": "inbound.create",
    "name": "reports",
    "description": "Reporting agent",
    "version": "0.1.0",
    "preset": "standard",
    "enabled": true
  }'
"""
SET_AUTH = """\
curl -sS -X POST http://127.0.0.1:3080/a2a/api \\
  -H 'content-type: application/json' \\
  -d '{ "action": "inbound.setAuth", "id": "reports-1a2b3c4d", "token": "s3cr3t" }'
"""
DISCOVER = """\
curl -sS -X POST http://127.0.0.1:3080/a2a/api \\
  -H 'content-type: application/json' \\
  -d '{ "action": "outbound.discover", "agentCardUrl": "https://remote.example/a2a/x/agent-card.json" }'
"""
CREATE_OUTBOUND = """\
curl -sS -X POST http://127.0.0.1:3080/a2a/api \\
  -H 'content-type: application/json' \\
  -d '{
    "action": "outbound.create",
    "name": "remote",
    "agentCardUrl": "https://remote.example/a2a/x/agent-card.json",
    "timeoutMs": 60000
  }'
"""
MESSAGE = """\
{
  "jsonrpc": "2.0",
  "id": "1",
  "method": "SendMessage",
  "params": {
    "message": {
      "messageId": "optional-uuid",
      "contextId": "optional-uuid",
      "role": "ROLE_USER",
      "parts": [{ "text": "hello" }],
      "metadata": { "skill": "chat" }
    }
  }
}
"""
STREAM = """\
curl -N http://127.0.0.1:3080/a2a/<id> \\
  -H 'content-type: application/json' \\
  -H 'accept: text/event-stream' \\
  -d '{
    "jsonrpc": "2.0",
    "id": "2",
    "method": "SendStreamingMessage",
    "params": { "message": { "role": "ROLE_USER", "parts": [{ "text": "hello" }] } }
  }'
"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Shell:
    """Pastes a command into a shell. The answers' heads are asked for in curl's own configuration file, so that the
    commands stay as they are."""

    def __init__(self, folder: Path, daemon: DaemonProcess) -> None:
        self._folder = folder
        self._daemon = daemon
        (folder / ".curlrc").write_text("include\nmax-time = 60\n")

    def paste(self, command: str, **ids: str) -> Answer:
        command = command.replace("http://127.0.0.1:3080", self._daemon.url)
        for placeholder, value in {"<id>": "id", "reports-1a2b3c4d": "id", "https://remote.example": "remote"}.items():
            if placeholder in command:
                command = command.replace(placeholder, ids[value])
        environment = {**os.environ, "CURL_HOME": str(self._folder)}
        done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr.decode()
        head, _, body = done.stdout.decode().partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Answer(int(first.split()[1]), headers, body)


@pytest.fixture
def shell(tmp_path: Path, daemon: DaemonProcess) -> Shell:
    return Shell(tmp_path, daemon)


@pytest.fixture
def inbound(shell: Shell) -> str:
    return str(shell.paste(CREATE_INBOUND).json["id"])


def test_the_example_creates_an_inbound(shell: Shell, daemon: DaemonProcess) -> None:
    answer = shell.paste(CREATE_INBOUND)

    assert answer.status == 200
    inbound = answer.json["id"]
    assert re.fullmatch("reports-[0-9a-f]{8}", inbound)
    assert answer.json == {"ok": True, "message": 'inbound server "reports" created', "id": inbound}
    snapshot = daemon.read("")
    (row,) = snapshot["inbounds"]
    assert {"inbounds", "outbounds", "tasks", "peers", "sessions"} <= set(snapshot)
    assert {**row, "skills": [skill["id"] for skill in row["skills"]]} == {
        **row,
        "id": inbound,
        "name": "reports",
        "description": "Reporting agent",
        "version": "0.1.0",
        "endpointPath": f"/a2a/{inbound}",
        "preset": "standard",
        "cardPath": f"/a2a/{inbound}/agent-card.json",
        "cardUrl": f"{daemon.url}/a2a/{inbound}",
        "enabled": True,
        "skills": ["chat"],
    }


def test_the_example_sets_a_token_that_is_then_needed(shell: Shell, daemon: DaemonProcess, inbound: str) -> None:
    answer = shell.paste(SET_AUTH, id=inbound)
    refused = shell.paste(STREAM, id=inbound)
    admitted = shell.paste(
        STREAM.replace("-H 'content", "-H 'authorization: Bearer s3cr3t' \\\n  -H 'content"), id=inbound
    )

    assert answer.status == 200
    assert answer.json["ok"] is True
    assert refused.status == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json["error"]["code"] == -32040
    assert admitted.status == 200
    assert "s3cr3t" not in answer.body + refused.body + json.dumps(daemon.read("")) + daemon.log()


def test_the_examples_with_a_remote_fail_as_documented_where_it_cannot_be_reached(
    shell: Shell, daemon: DaemonProcess
) -> None:
    for command in (DISCOVER, CREATE_OUTBOUND):
        answer = shell.paste(command, remote="http://127.0.0.1:1")

        assert answer.status == 409
        assert answer.json["ok"] is False
        assert answer.json["message"]
    assert daemon.read("")["outbounds"] == []


def test_the_examples_with_a_remote_find_it_and_connect(shell: Shell, daemon: DaemonProcess, inbound: str) -> None:
    remote = daemon.url.removesuffix("/")
    card = "https://remote.example/a2a/x/agent-card.json"
    here = f"https://remote.example/a2a/{inbound}/agent-card.json"

    found = shell.paste(DISCOVER.replace(card, here), remote=remote)
    assert found.status == 200
    assert found.json["preview"]["name"] == "reports"
    assert daemon.read("")["outbounds"] == []

    created = shell.paste(CREATE_OUTBOUND.replace(card, here), remote=remote)
    assert created.status == 200
    (row,) = daemon.read("")["outbounds"]
    assert row == {
        **row,
        "id": created.json["id"],
        "name": "remote",
        "agentCardUrl": f"{remote}/a2a/{inbound}/agent-card.json",
        "enabled": True,
        "timeoutMs": 60000,
        "state": "connected",
        "skillCount": 1,
        "toolCount": 1,
    }


def test_the_example_message_is_answered_and_its_repeat_is_the_same_task(daemon: DaemonProcess, inbound: str) -> None:
    status, answer = daemon.request("POST", daemon.endpoint(inbound), MESSAGE.encode())
    repeated = daemon.request("POST", daemon.endpoint(inbound), MESSAGE.encode())

    assert status == 200
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", "1")
    assert set(answer["result"]) == {"task"}
    task = answer["result"]["task"]
    assert task["contextId"] == "optional-uuid"
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "hello"}]
    assert task["history"][0]["messageId"] == "optional-uuid"
    assert repeated == (status, answer)
    assert daemon.read("")["taskTotal"] == 1


def test_the_example_stream_has_the_documented_form(shell: Shell, inbound: str) -> None:
    answer = shell.paste(STREAM, id=inbound)

    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["a2a-version"] == "1.0"
    events = [re.fullmatch("id: ([0-9]+)\ndata: (.+)", event) for event in events_of(answer.body)]
    assert None not in events
    numbers = [int(event[1]) for event in events if event]
    frames = [json.loads(event[2]) for event in events if event]
    assert numbers == list(range(1, len(frames) + 1))
    assert all((frame["jsonrpc"], frame["id"]) == ("2.0", "2") for frame in frames)
    results = [frame["result"] for frame in frames]
    assert set(results[0]) == set(results[-1]) == {"task"}
    updates = [result["artifactUpdate"] for result in results if "artifactUpdate" in result]
    assert [update["lastChunk"] for update in updates] == [False] * (len(updates) - 1) + [True]
    assert "".join(part["text"] for update in updates for part in update["artifact"]["parts"]) == "hello"
    assert all(update.get("append") for update in updates[1:])
    assert results[-1]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert results[-1]["task"]["artifacts"][0]["parts"] == [{"text": "hello"}]


def events_of(body: str) -> list[str]:
    """The events of a stream without its comments."""
    return [event for event in body.split("\n\n") if event and not event.startswith(":")]
