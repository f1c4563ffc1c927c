"""The official JavaScript client, unchanged, holds conversations with a real daemon."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message

SOURCES = Path(__file__).with_name("js")
#: bounds that only a hang passes, in seconds
INSTALLS_WITHIN = 300
HANG = 60


def node_is_there() -> bool:
    if not (shutil.which("node") and shutil.which("npm")):
        return False
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    return int(version.lstrip("v").split(".")[0] or 0) >= 20


pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(not node_is_there(), reason="the JavaScript client needs Node.js 20 or newer and npm"),
]


class Node:
    """Runs `js/client.mjs`, a process for each call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def call(self, command: str, url: str, request: Any = None, *, token: str = "") -> list[Any]:
        """Everything that it printed, to its end."""
        with self.start(command, url, request, token=token) as lines:
            return list(lines)

    @contextmanager
    def start(self, command: str, url: str, request: Any = None, *, token: str = "") -> Iterator[Iterator[Any]]:
        """Its lines, as they come."""
        # the client puts the well-known path in the place of what follows the last slash
        url = url if url.endswith("agent-card.json") else f"{url}/"
        arguments = ["node", "client.mjs", command, url, json.dumps(request or {})]
        process = subprocess.Popen(
            arguments,
            cwd=self._folder,
            env={**os.environ, "A2A_TOKEN": token},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        watchdog = threading.Timer(HANG, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            yield map(json.loads, process.stdout)
            assert process.wait(HANG) == 0, process.stderr.read().decode()
        finally:
            watchdog.cancel()
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """The client with its packages from the registry that npm is set up for."""
    folder = tmp_path_factory.mktemp("js")
    for name in ("package.json", "client.mjs"):
        shutil.copy(SOURCES / name, folder / name)
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=INSTALLS_WITHIN, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Node(folder)


@pytest.fixture
def call(node: Node, agents: DaemonProcess, inbound: str) -> Callable[..., list[Any]]:
    """`call(command, request)` on the shared inbound."""
    return lambda command, request=None: node.call(command, agents.endpoint(inbound), request)


def spoken(text: str, skill: str = "chat", **more: Any) -> dict[str, Any]:
    return {"message": message(text, messageId=os.urandom(8).hex(), metadata={"skill": skill}, **more)}


def texts(parts: list[Any]) -> str:
    return "".join(part["text"] for part in parts)


def streamed_text(events: list[Any]) -> str:
    return "".join(texts(event["artifactUpdate"]["artifact"]["parts"]) for event in events if "artifactUpdate" in event)


def until_working(events: Iterator[Any]) -> str:
    """Read up to the progress note of the skill `work`; returns the task's id."""
    for event in events:
        if event.get("statusUpdate", {}).get("status", {}).get("message"):
            return str(event["statusUpdate"]["taskId"])
    raise AssertionError("the stream ended before the task said that it works")


def test_the_card_is_found_by_base_url_endpoint_url_and_full_url(node: Node, daemon: DaemonProcess) -> None:
    endpoint = daemon.endpoint(daemon.create_inbound(name="only"))

    by_base_url = node.call("card", daemon.url)
    by_endpoint = node.call("card", endpoint)
    by_full_url = node.call("card", f"{endpoint}/agent-card.json")

    assert by_base_url == by_endpoint == by_full_url
    resolved, extended = by_endpoint
    assert resolved == extended
    assert resolved["name"] == "only"
    assert resolved["supportedInterfaces"][0]["url"] == endpoint
    assert resolved["skills"][0]["tags"] == ["chat"]


def test_a_message_is_answered_with_the_finished_task(call: Callable[..., list[Any]]) -> None:
    (answer,) = call("send", spoken("hello there"))

    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(answer["task"]["artifacts"][0]["parts"]) == "hello there"


def test_a_direct_reply_is_a_message(call: Callable[..., list[Any]]) -> None:
    (answer,) = call("send", spoken("hi", "direct"))
    (event,) = call("stream", spoken("hi", "direct"))

    assert texts(answer["message"]["parts"]) == texts(event["message"]["parts"]) == "You said hi"


def test_a_stream_begins_and_ends_with_the_task(call: Callable[..., list[Any]]) -> None:
    events = call("stream", spoken("one two three"))

    kinds = [next(iter(event)) for event in events]
    assert kinds[0] == kinds[-1] == "task"
    assert kinds[-2] == "statusUpdate"
    assert kinds.count("task") == 2
    assert streamed_text(events) == texts(events[-1]["task"]["artifacts"][0]["parts"]) == "one two three"
    assert events[-1]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_text_that_looks_like_line_breaks_survives_a_stream(call: Callable[..., list[Any]]) -> None:
    text = 'a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\r\nh\n\ni \U0001f600\U0001f468\u200d\U0001f469 \\u2028 "'

    events = call("stream", spoken(text, "letters"))

    assert streamed_text(events) == text
    assert texts(events[-1]["task"]["artifacts"][0]["parts"]) == text


def test_data_comes_back_as_it_was_sent(call: Callable[..., list[Any]]) -> None:
    parts = [
        {"data": {"count": 42, "half": 0.5, "deep": [{"none": None}, True, ""], "zero": 0}},
        {"raw": "AAEC/w==", "filename": "a.bin", "mediaType": "application/octet-stream"},
        {"url": "https://example.org/a.pdf", "mediaType": "application/pdf"},
    ]
    request = spoken("", "mirror")
    request["message"]["parts"] = parts

    (answer,) = call("send", request)

    returned = answer["task"]["artifacts"][0]["parts"]
    assert [{name: part[name] for name in sent} for sent, part in zip(parts, returned, strict=True)] == parts


def test_a_task_is_got_and_listed(call: Callable[..., list[Any]]) -> None:
    (sent,) = call("send", spoken("find me"))
    task = sent["task"]

    (got,) = call("get", {"id": task["id"]})
    (listed,) = call("list", {"contextId": task["contextId"], "includeArtifacts": True})

    assert got == task
    assert listed["tasks"] == [task]
    assert listed["totalSize"] == 1


def test_a_list_goes_on_on_the_next_page(node: Node, agents: DaemonProcess) -> None:
    inbound = agents.create_inbound(name="listed", preset="interop")
    sent = [agents.send(inbound, f"task {n}")["id"] for n in range(3)]

    (first,) = node.call("list", agents.endpoint(inbound), {"pageSize": 2})
    (second,) = node.call("list", agents.endpoint(inbound), {"pageSize": 2, "pageToken": first["nextPageToken"]})

    assert len(first["tasks"]) == 2
    assert {task["id"] for task in first["tasks"] + second["tasks"]} == set(sent)
    assert first["totalSize"] == second["totalSize"] == 3
    assert not second.get("nextPageToken")


def test_a_task_that_works_is_cancelled_and_its_stream_says_so(
    node: Node, agents: DaemonProcess, inbound: str, call: Callable[..., list[Any]]
) -> None:
    with node.start("stream", agents.endpoint(inbound), spoken("js cancelled", "work")) as events:
        task_id = until_working(events)
        (cancelled,) = call("cancel", {"id": task_id})
        rest = list(events)

    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    assert rest[-1]["task"]["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_running_task_is_subscribed_to_until_its_end(node: Node, agents: DaemonProcess, inbound: str) -> None:
    endpoint = agents.endpoint(inbound)
    with node.start("stream", endpoint, spoken("js subscribed", "work")) as first:
        task_id = until_working(first)
        with node.start("subscribe", endpoint, {"id": task_id}) as second:
            snapshot = next(second)
            agents.send(inbound, "js subscribed", metadata={"skill": "open"})
            of_second = list(second)
        of_first = list(first)

    assert snapshot["task"]["status"]["state"] == "TASK_STATE_WORKING"
    assert texts(snapshot["task"]["artifacts"][0]["parts"]) == "before "
    assert of_second == of_first
    assert texts(of_second[-1]["task"]["artifacts"][0]["parts"]) == "before after"


@pytest.mark.parametrize(("skill", "says"), [("ask", "Sunny in Oslo"), ("ask-by-raising", "Rain in Oslo")])
def test_a_task_that_asks_is_continued(call: Callable[..., list[Any]], skill: str, says: str) -> None:
    asked = call("stream", spoken("the weather", skill))[-1]["task"]
    (done,) = call("send", spoken("Oslo", taskId=asked["id"]))

    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert texts(asked["status"]["message"]["parts"]) == "Which city?"
    assert done["task"]["id"] == asked["id"]
    assert texts(done["task"]["artifacts"][0]["parts"]) == says


def test_a_token_is_needed_where_one_is_set(node: Node, agents: DaemonProcess, protected: str) -> None:
    endpoint = agents.endpoint(protected)

    (answer,) = node.call("send", endpoint, spoken("let me in"), token="s3cr3t")
    streamed = node.call("stream", endpoint, spoken("let me in"), token="s3cr3t")
    refused = [node.call(command, endpoint, spoken("x"), token="wrong") for command in ("send", "stream")]

    assert texts(answer["task"]["artifacts"][0]["parts"]) == streamed_text(streamed) == "let me in"
    for (line,) in refused:
        assert line["error"]["name"] == "JsonRpcTransportError"
        assert "oken" in line["error"]["message"]


def test_refusals_are_the_clients_own_errors(call: Callable[..., list[Any]]) -> None:
    (sent,) = call("send", spoken("done"))
    task_id = sent["task"]["id"]
    answers = {
        "unknown": call("get", {"id": "no-such-task"}),
        "cancel": call("cancel", {"id": task_id}),
        "subscribe": call("subscribe", {"id": task_id}),
        "continue": call("send", spoken("more", taskId=task_id)),
        "stream": call("stream", spoken("more", taskId=task_id)),
        "image": call("send", {**spoken("x"), "configuration": {"acceptedOutputModes": ["image/png"]}}),
    }

    assert {name: [line["error"]["reason"] for line in lines] for name, lines in answers.items()} == {
        "unknown": ["TASK_NOT_FOUND"],
        "cancel": ["TASK_NOT_CANCELABLE"],
        "subscribe": ["UNSUPPORTED_OPERATION"],
        "continue": ["UNSUPPORTED_OPERATION"],
        "stream": ["UNSUPPORTED_OPERATION"],
        "image": ["CONTENT_TYPE_NOT_SUPPORTED"],
    }
