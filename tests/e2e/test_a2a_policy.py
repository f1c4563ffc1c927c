"""The hooks around a task: policies, observers, cards (design.md, hooks)."""

import json
from typing import Any

import pytest

from tests.lab import exchange, result, text_of, until

PLUGIN = """
import asyncio, json, os, time
from pathlib import Path
from a2ad import Deny, Executor, Reply, hookimpl

FOLDER = Path(os.environ["FOLDER"])


def note(name, value):
    with (FOLDER / name).open("a") as notes:
        notes.write(json.dumps(value) + "\\n")


@hookimpl
async def a2ad_inbound_task(decision):
    note("decisions", {name: getattr(decision, name) for name in
                       ("inbound_id", "task_id", "context_id", "skill", "text", "peer", "caller", "message")})
    if decision.text == "deny":
        return Deny("not on a Tuesday")
    if decision.text == "raise":
        raise RuntimeError("secret of the policy")
    if decision.text == "exit":
        raise SystemExit(1)
    if decision.text == "hang":
        await asyncio.sleep(600)
    if decision.text == "nonsense":
        return True
    if decision.text == "wait":
        while not (FOLDER / "decide").exists():
            await asyncio.sleep(0.005)


class Replying(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply(parts=[{"text": "re"}])


@hookimpl
def a2ad_register_executors(register, config):
    register("replying", Replying())


@hookimpl
def a2ad_register_presets(register, config):
    register("replying", {"agent": "echo", "skills": [{"id": "replying", "executor": "replying"}]})


@hookimpl
def a2ad_event(event):
    note("events", [event.name, event.at, dict(event.data)])
    if event.name == "task.state":
        raise RuntimeError("an observer that fails")


@hookimpl
def a2ad_agent_card(card, inbound):
    card["description"] += " (checked)"
    card["documentationUrl"] = "https://example.org/docs"
"""
SECOND = """
import os, time
from pathlib import Path
from a2ad import Deny, hookimpl

FOLDER = Path(os.environ["FOLDER"])


@hookimpl
def a2ad_inbound_task(decision):
    if decision.text == "deny in a thread":
        return Deny("also not")
    if decision.text == "hang in a thread":
        time.sleep(3)


@hookimpl
def a2ad_event(event):
    with (FOLDER / "heard").open("a") as notes:
        notes.write(event.name + "\\n")


@hookimpl
def a2ad_agent_card(card, inbound):
    card["broken"] = object()
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.daemon import running

    folder = tmp_path_factory.mktemp("policy")
    plugins = {"first": PLUGIN, "second": SECOND}
    config = "[limits]\ngate_seconds = 0.5\n"
    with running(folder, plugin=plugins, config=config, env={"FOLDER": str(folder)}) as started:
        yield started


@pytest.fixture(scope="module")
def agent(daemon: Any) -> str:
    return str(daemon.create_inbound())


def _notes(daemon: Any, name: str) -> list[Any]:
    path = daemon.folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("deny", "not on a Tuesday"),
        ("deny in a thread", "also not"),
        ("raise", None),
        ("exit", None),
        ("hang", None),
        ("hang in a thread", None),
        ("nonsense", None),
    ],
)
def test_a_veto_or_a_gate_that_fails_makes_a_rejected_task_with_its_reason(
    daemon: Any, agent: str, text: str, reason: str | None
) -> None:
    task = daemon.send(agent, text)

    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    said = task["status"]["message"]["parts"][0]["text"]
    assert said == reason if reason else said
    assert "secret" not in said
    assert "artifacts" not in task
    assert result(daemon.rpc(agent, "GetTask", {"id": task["id"]})) == task
    listed = result(daemon.rpc(agent, "ListTasks", {"status": "TASK_STATE_REJECTED"}))["tasks"]
    assert task["id"] in {rejected["id"] for rejected in listed}


def test_a_streamed_veto_ends_the_stream(daemon: Any, agent: str) -> None:
    params = {"message": {"role": "ROLE_USER", "parts": [{"text": "deny"}]}}
    frames = [envelope["result"] for _, envelope in daemon.stream(agent, "SendStreamingMessage", params)]

    assert frames[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert frames[-2]["statusUpdate"]["status"]["state"] == "TASK_STATE_REJECTED"
    assert frames[-1]["task"]["status"]["message"]["parts"] == [{"text": "not on a Tuesday"}]


def test_what_nobody_denies_runs_once_it_is_decided(daemon: Any, agent: str) -> None:
    assert text_of(daemon.send(agent, "hello")) == "hello"

    (daemon.folder / "decide").touch()
    assert text_of(daemon.send(agent, "wait")) == "wait"


def test_a_direct_answer_passes_a_gate_and_a_veto_makes_it_a_task(daemon: Any) -> None:
    agent = daemon.create_inbound(preset="replying")
    sent = {"role": "ROLE_USER", "parts": [{"text": "hello"}]}

    answer = result(daemon.rpc(agent, "SendMessage", {"message": sent}))
    frames = [e["result"] for _, e in daemon.stream(agent, "SendStreamingMessage", {"message": sent})]
    assert [set(frame) for frame in (answer, *frames)] == [{"message"}, {"message"}]

    denied = daemon.send(agent, "deny")
    assert denied["status"]["state"] == "TASK_STATE_REJECTED"
    assert result(daemon.rpc(agent, "ListTasks", {}))["totalSize"] == 1


def test_a_gate_is_told_what_it_decides_about(daemon: Any, agent: str) -> None:
    task = daemon.send(agent, "look at this", contextId="ctx", metadata={"skill": "chat", "k": 1})
    seen = next(note for note in _notes(daemon, "decisions") if note["task_id"] == task["id"])

    assert [seen["inbound_id"], seen["context_id"], seen["skill"], seen["text"]] == [
        agent,
        "ctx",
        "chat",
        "look at this",
    ]
    assert seen["peer"] == "127.0.0.1"
    assert seen["caller"]
    assert seen["message"]["metadata"] == {"skill": "chat", "k": 1}


def test_a_repeated_message_is_decided_once(daemon: Any, agent: str) -> None:
    first = daemon.send(agent, "deny", messageId="once")
    assert daemon.send(agent, "other", messageId="once") == first
    assert sum(note["task_id"] == first["id"] for note in _notes(daemon, "decisions")) == 1


def test_observers_hear_every_state_even_if_one_of_them_fails(daemon: Any, agent: str) -> None:
    task = daemon.send(agent, "hello")

    def states() -> list[str] | None:
        found = [
            data["state"]
            for name, _, data in _notes(daemon, "events")
            if name == "task.state" and data["taskId"] == task["id"]
        ]
        return found if found[-1:] == ["TASK_STATE_COMPLETED"] else None

    assert until(states) == ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert "task.state" in (daemon.folder / "heard").read_text().split()
    assert all(at.endswith("Z") for _, at, _ in _notes(daemon, "events"))


def test_observers_hear_of_a_wrong_token_without_hearing_the_token(daemon: Any) -> None:
    guarded = daemon.create_inbound()
    daemon.act("inbound.setAuth", id=guarded, token="s3cr3t")
    exchange(daemon.endpoint(guarded), body=b"{}", headers={"Authorization": "Bearer wr0ng"})

    heard = until(lambda: [data for name, _, data in _notes(daemon, "events") if name == "auth.failed"])
    assert heard[0]["serverId"] == guarded
    for secret in ("s3cr3t", "wr0ng"):
        assert secret not in (daemon.folder / "events").read_text()
        assert secret not in daemon.log()


def test_a_plugin_changes_the_card_and_one_that_breaks_it_changes_nothing(daemon: Any, agent: str) -> None:
    card = exchange(f"{daemon.endpoint(agent)}/agent-card.json", "GET").json

    assert card["description"] == "An agent (checked)"
    assert card["documentationUrl"] == "https://example.org/docs"
    assert "broken" not in card
    assert result(daemon.rpc(agent, "GetExtendedAgentCard", {})) == card
