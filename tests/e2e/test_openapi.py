"""The control API's description: it is valid, it is complete, and what a daemon answers is what it says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from a2ad.schemas.control import ACTIONS
from a2ad.schemas.openapi import ACTS, READS
from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import SseEvents, await_state, raw, start_task, until
from tests.e2e.openapi_support import BASE, Description

#: an agent and an executor that bring all there is to be told of a task
PLUGIN = """
import asyncio

from a2ad import (Agent, AgentSession, Artifact, Executor, NeedsInput, Reply, Status, TaskFailed, TaskState, TextDelta,
                  TurnEnd, hookimpl)


class Everything(Executor):
    async def execute(self, request):
        yield Status(TaskState.WORKING, "begun", metadata={"step": 1})
        parts = [{"text": "text", "metadata": {"language": "en"}}, {"data": {"count": 1}},
                 {"raw": b"bytes", "filename": "b.bin", "mediaType": "application/octet-stream"},
                 {"url": "https://agent.example/picture.png", "mediaType": "image/png"}]
        yield Artifact(parts=parts, name="all", description="Every kind of part", append=True, last_chunk=False,
                       metadata={"kind": "all"})
        yield Artifact(parts=[{"text": "."}], append=True, last_chunk=True)
        if request.text == "fail":
            raise TaskFailed("it was told to")
        if request.text == "gate":
            await asyncio.Event().wait()
        yield Status(TaskState.COMPLETED, "done", metadata={"cost": 1})


class Replying(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply(parts=[{"text": "there you are"}], metadata={"direct": True})


class AskingSession(AgentSession):
    async def prompt(self, parts, attachments):
        yield TextDelta("I ask. ")
        yield NeedsInput("May I?", options=[{"id": "yes", "name": "Yes"}, {"id": "no", "name": "No"}],
                         tool={"name": "shell", "arguments": {"command": "true"}}, deadline=3600)
        yield TextDelta("Thank you.")
        yield TurnEnd()

    async def answer(self, parts):
        pass


class AskingAgent(Agent):
    async def open(self, context):
        return AskingSession()


@hookimpl
def a2ad_register_executors(register, config):
    register("everything", Everything())
    register("replying", Replying())


@hookimpl
def a2ad_register_agents(register, config):
    register("asking", lambda preset: AskingAgent())


@hookimpl
def a2ad_register_presets(register, config):
    register("everything", {"skills": [{"id": "chat", "executor": "everything"}]})
    register("replying", {"skills": [{"id": "chat", "executor": "replying"}]})
    register("asking", {"agent": "asking", "skills": [{"id": "chat"}]})
"""
BROKEN = "import nothing_of_this_name"
#: properties that no daemon of these tests has: of A2A messages that the daemon does not write, of faults of the store
NOT_SEEN = {
    "Message": {"extensions", "referenceTaskIds"},
    "StoreHealth": {"error", "since"},
    "JsonRpcResponse": {"error"},
    "JsonRpcError": {"code", "message", "data"},
}


class Tour:
    """A daemon whose every answer is held against its description."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.description = Description(daemon.read("/openapi.json"))
        self.acted: set[str] = set()
        self.read_paths: set[str] = set()

    def read(self, path: str, query: str = "") -> Any:
        answer = self.daemon.read(path + query)
        self.description.check(self.description.read(path), answer)
        self.read_paths.add(path)
        return answer

    def act(self, action: str, **fields: Any) -> Any:
        schema = self.description.actions()[action]
        self.description.check({key: each for key, each in schema.items() if key != "x-answer"},
                               {"action": action, **fields})  # fmt: skip
        answer = self.daemon.act(action, **fields)
        self.description.check(schema["x-answer"], answer)
        self.acted.add(action)
        return answer

    def refused(self, status: int, action: str, **fields: Any) -> Any:
        answer = self.daemon.act(action, status=status, **fields)
        self.description.check({"$ref": "#/components/schemas/Failed"}, answer)
        return answer

    def stream(self, action: str, **fields: Any) -> list[Any]:
        body = json.dumps({"action": action, **fields}).encode()
        with SseEvents(self.daemon.control, "POST", BASE, body, Content_Type="application/json") as events:
            return [self._checked(self.description.actions()[action]["x-events"], event) for event in events]

    def follow(self, path: str, most: int, query: str = "") -> list[Any]:
        self.read_paths.add(path)
        with SseEvents(self.daemon.control, "GET", f"{BASE}{path}{query}") as events:
            return [self._checked(self.description.events(path), event) for event in islice(events, most)]

    def _checked(self, events: Any, event: Any) -> Any:
        self.description.check(events[event.name], event.data)
        return event.data

    def create(self, preset: str, **fields: Any) -> str:
        wanted = {"name": preset, "description": f"Does {preset}", "version": "1", "preset": preset, **fields}
        return str(self.act("inbound.create", **wanted)["id"])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("openapi"), plugin={"everything": PLUGIN, "broken": BROKEN}) as daemon:
        yield daemon


@pytest.fixture
def document(shared: DaemonProcess) -> Any:
    return shared.read("/openapi.json")


def test_it_is_a_valid_openapi_3_1_document(document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_it_has_every_route_and_every_route_is_there(shared: DaemonProcess, document: Any) -> None:
    """A GET of a path that is not there is 404 `there is nothing at`; the streams answer before they end."""
    described = {path.removeprefix(BASE): set(methods) for path, methods in document["paths"].items()}

    assert described == {path: {"get"} | ({"post"} if path == "" else set()) for path in READS}
    for path in described:
        answer = raw(shared.control, "POST", BASE + path, [("Content-Type", "text/plain")], b"")
        assert answer.status == (415 if path == "" else 405), path
    nothing = raw(shared.control, "GET", f"{BASE}/nothing")
    assert (nothing.status, "there is nothing at" in nothing.json["message"]) == (404, True)


def test_it_has_every_action_and_every_action_is_there(shared: DaemonProcess, document: Any) -> None:
    described = Description(document).actions()

    assert set(described) == set(ACTIONS) == set(ACTS)
    for action in described:
        answer = shared.act(action, status=409)
        assert "there is no action" not in answer["message"]
        assert set(answer["errors"]) <= set(described[action]["required"]) | set(described[action]["properties"])
    assert "there is no action" in shared.act("inbound.nothing", status=409)["message"]


@pytest.mark.parametrize("fields", [
    {"action": "inbound.create", "name": "", "description": "d", "version": "1"},
    {"action": "inbound.create", "name": "n", "description": "d", "version": "1", "enabled": "yes"},
    {"action": "inbound.create", "name": "n", "description": "d", "version": "1", "authTokenEnv": "A B"},
    {"action": "inbound.create", "name": "n", "description": "d", "version": "1", "authTokenEnv": "1A"},
    {"action": "inbound.setAuth", "id": "x", "token": "x" * 4097},
    {"action": "inbound.sendTest", "id": "x", "text": "x" * 10_001},
    {"action": "outbound.create", "name": "n", "agentCardUrl": "u", "timeoutMs": 0},
    {"action": "outbound.create", "name": "n", "agentCardUrl": "u", "timeoutMs": 86_400_001},
    {"action": "outbound.create", "name": "n", "agentCardUrl": "u", "disabledSkills": [1]},
    {"action": "outbound.create", "name": "n", "agentCardUrl": "u", "skillOverrides": {"s": {"title": "t"}}},
    {"action": "outbound.create", "name": "n", "agentCardUrl": "u", "skillOverrides": {"s" * 1001: {}}},
    {"action": "outbound.update", "id": "x", "enabled": True},
    {"action": "task.answer", "id": "x"},
    {"action": "task.answer", "id": "x", "text": "t", "option": "o"},
    {"action": "session.close", "id": "x", "serverId": ""},
])  # fmt: skip
def test_what_it_excludes_is_refused_by_name(shared: DaemonProcess, document: Any, fields: dict[str, Any]) -> None:
    schema = Description(document).actions()[fields["action"]]
    whole = {**schema, "components": document["components"]}

    assert not Draft202012Validator(whole).is_valid(fields)
    assert shared.act(status=409, **fields)["errors"]


def test_what_is_answered_is_what_it_says(shared: DaemonProcess) -> None:
    tour = Tour(shared)
    _publish_and_send(tour)
    _connect_and_call(tour)
    _look_around(tour)
    _take_away(tour)

    assert tour.acted == set(ACTS)
    assert tour.read_paths == set(READS)
    unseen = {
        name: missing
        for name, schema in tour.description.schemas.items()
        if (missing := set(schema["properties"]) - tour.description.seen[name] - NOT_SEEN.get(name, set()))
        and "action" not in schema["properties"]
    }
    assert unseen == {}


def _publish_and_send(tour: Tour) -> None:
    everything = tour.create("everything")
    replying = tour.create("replying")
    asking = tour.create("asking", authTokenEnv="A2AD_TEST_NOT_SET")
    tour.read("")  # one that does not start
    tour.act("inbound.update", id=asking, authTokenEnv="", name="asks")
    tour.act("inbound.sendTest", id=everything, text="hello")
    failed = tour.act("inbound.sendTest", id=everything, text="fail")["task"]
    tour.read("/task", f"?id={failed['id']}")
    tour.act("inbound.sendTest", id=replying, text="hello")
    tour.stream("inbound.sendTest", id=everything, text="hello")
    tour.stream("inbound.sendTest", id=replying, text="hello")
    asked = tour.act("inbound.sendTest", id=asking, text="hello", contextId="talk")["task"]
    tour.read("/task", f"?id={asked['id']}")
    tour.read("")
    tour.refused(409, "task.answer", id=asked["id"], text="perhaps")
    tour.act("task.answer", id=asked["id"], option="yes")
    await_state(tour.daemon, asked["id"], "COMPLETED")
    tour.act("inbound.disable", id=asking)
    tour.act("inbound.enable", id=asking)
    tour.act("inbound.setAuth", id=replying, token="s3cr3t-of-the-tour")


def _connect_and_call(tour: Tour) -> None:
    inbounds = {row["name"]: row for row in tour.read("")["inbounds"]}
    card_url = tour.daemon.url + inbounds["everything"]["cardPath"]
    tour.act("outbound.discover", agentCardUrl=card_url)
    outbound = tour.act("outbound.create", name="self", agentCardUrl=card_url, preset="standard", tokenOrigins=[])["id"]
    overrides = {"chat": {"name": "Everything", "description": "All of it"}}
    tour.act("outbound.update", id=outbound, skillOverrides=overrides, timeoutMs=30_000)
    tour.act("outbound.call", id=outbound, skill="chat", text="hello")
    tour.stream("outbound.call", id=outbound, text="hello")
    tour.refused(409, "outbound.call", id=outbound, text="fail")
    tour.act("outbound.setAuth", id=outbound, token="another-s3cr3t")
    tour.act("outbound.refresh", id=outbound)
    tour.act("outbound.update", id=outbound, bearerTokenEnv="A2AD_TEST_NOT_SET", disabledSkills=["other"])
    away = "http://127.0.0.1:9/agent-card.json"
    lost = tour.act("outbound.create", name="lost", agentCardUrl=away, enabled=False)["id"]
    tour.act("outbound.enable", id=lost)
    until(lambda: "lastError" in {key for row in tour.read("")["outbounds"] for key in row}, "it cannot be reached")
    tour.act("outbound.remove", id=lost)
    tour.act("outbound.disable", id=outbound)
    tour.act("outbound.enable", id=outbound)


def _look_around(tour: Tour) -> None:
    (everything,) = [row["id"] for row in tour.read("")["inbounds"] if row["name"] == "everything"]
    (asking,) = [row["id"] for row in tour.read("")["inbounds"] if row["name"] == "asks"]
    for path in ("/presets", "/tools", "/metrics", "/openapi.json"):
        tour.read(path)
    tour.read("/card", f"?id={everything}")
    tour.read("/session", f"?contextId=talk&serverId={asking}")
    waiting = tour.act("inbound.sendTest", id=asking, text="hello", contextId="other")["task"]
    tour.read("/session", "?contextId=other")
    tour.act("session.cancel", id="other")
    assert tour.read("/task", f"?id={waiting['id']}")["state"] == "TASK_STATE_CANCELED"
    running = start_task(tour.daemon, everything, "gate")
    stream = tour.daemon.stream(everything, "SubscribeToTask", {"id": running})
    next(stream)
    (peer,) = until(lambda: tour.read("")["peers"], "the stream is among the peers")
    tour.follow("/task/events", 1, f"?id={running}")
    tour.act("inbound.close", id=peer["id"])
    tour.act("task.cancel", id=running)
    tour.follow("/task/events", 9, f"?id={running}")
    tour.follow("/events", 1)


def _take_away(tour: Tour) -> None:
    tour.act("session.close", id="talk")
    for row in tour.read("")["outbounds"]:
        tour.act("outbound.remove", id=row["id"])
    for row in tour.read("")["inbounds"]:
        tour.act("inbound.remove", id=row["id"])


def test_a_refusal_is_what_it_says(shared: DaemonProcess) -> None:
    description = Description(shared.read("/openapi.json"))
    large = b'{"action":"' + b"x" * 10_485_760 + b'"}'
    as_json = [("Content-Type", "application/json")]
    refusals = [
        raw(shared.control, "GET", f"{BASE}?taskLimit=0"),
        raw(shared.control, "GET", BASE, [("Origin", "http://evil.example")]),
        raw(shared.control, "GET", f"{BASE}/task?id=nothing"),
        raw(shared.control, "DELETE", BASE),
        raw(shared.control, "GET", f"{BASE}/metrics", [("Accept", "image/png")]),
        raw(shared.control, "POST", BASE, as_json, b"{}"),
        raw(shared.control, "POST", BASE, as_json, large),
        raw(shared.control, "POST", BASE, [("Content-Type", "text/plain")], b"{}"),
    ]

    assert [answer.status for answer in refusals] == [400, 403, 404, 405, 406, 409, 413, 415]
    for answer in refusals:
        response = description.document["components"]["responses"][f"Refused{answer.status}"]
        description.check(response["content"]["application/json"]["schema"], answer.json)


def test_the_other_media_types_are_answered_as_it_says(shared: DaemonProcess, document: Any) -> None:
    content = document["paths"][f"{BASE}/metrics"]["get"]["responses"]["200"]["content"]

    for media_type in content:
        answer = raw(shared.control, "GET", f"{BASE}/metrics", [("Accept", media_type)])
        assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, media_type)


def test_a_daemon_that_is_not_asked_for_it_does_without_what_makes_it() -> None:
    code = "import sys, a2ad.daemon; sys.exit('apispec' in sys.modules or 'a2ad.schemas.rows' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)
