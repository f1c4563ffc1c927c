"""The rows of the snapshot and the other reads, in the shapes of reference 1.1 and `protocol.md` 7."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import PLUGIN, Background, await_state, raw, start_task, until

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("reads"), plugin=PLUGIN)
    yield daemon
    daemon.kill()


def row(rows: list[Any], **wanted: str) -> Any:
    (found,) = [one for one in rows if all(one[key] == value for key, value in wanted.items())]
    return found


def test_an_empty_daemons_snapshot_has_the_five_lists(daemon: DaemonProcess) -> None:
    snapshot = daemon.read("")

    assert {key: snapshot[key] for key in ("inbounds", "outbounds", "tasks", "peers", "sessions")} == {
        "inbounds": [],
        "outbounds": [],
        "tasks": [],
        "peers": [],
        "sessions": [],
    }
    assert set(snapshot) - {"inbounds", "outbounds", "tasks", "peers", "sessions"} <= {
        "taskTotal",
        "plugins",
        "health",
        "attention",
    }
    assert snapshot["taskTotal"] == 0
    assert snapshot["attention"] == []


def test_the_presets_are_named_and_the_default_is_marked(shared: DaemonProcess) -> None:
    presets = {preset["id"]: preset for preset in shared.read("/presets")}

    assert set(presets) == {"standard", "scripted", "memory"}
    assert [preset["id"] for preset in presets.values() if preset.get("isDefault")] == ["standard"]
    assert presets["scripted"]["name"] == "Scripted"
    assert presets["scripted"]["description"] == "Does what it is told"


def test_an_inbound_row_is_as_in_the_reference(shared: DaemonProcess) -> None:
    created = shared.create_inbound(name="b-server", description="B inbound", version="0.1.0", preset="memory")

    assert row(shared.read("")["inbounds"], id=created) == {
        "id": created,
        "name": "b-server",
        "description": "B inbound",
        "version": "0.1.0",
        "endpointPath": f"/a2a/{created}",
        "preset": "memory",
        "cardPath": f"/a2a/{created}/agent-card.json",
        "cardUrl": f"{shared.url}/a2a/{created}",
        "enabled": True,
        "skills": [{"id": "chat", "name": "Chat", "description": "Talk"}],
        "tokenSet": False,
    }
    shared.act("inbound.setAuth", id=created, token="s3cr3t")
    assert row(shared.read("")["inbounds"], id=created)["tokenSet"] is True


def test_a_task_row_has_its_summary_and_where_it_failed_its_error(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(preset="scripted")
    task = shared.send(inbound, "say this", metadata={"skill": "other"})

    found = row(shared.read("")["tasks"], id=task["id"])

    assert TIME.fullmatch(found.pop("createdAt"))
    assert TIME.fullmatch(found.pop("updatedAt"))
    assert found == {
        "id": task["id"],
        "contextId": task["contextId"],
        "serverId": inbound,
        "skill": "other",
        "executor": "scripted",
        "state": "TASK_STATE_COMPLETED",
        "summary": "say this",
    }


def test_the_read_of_a_task_adds_artifacts_history_and_metadata(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(preset="scripted")
    task_id = start_task(shared, inbound, "ask")
    await_state(shared, task_id, "INPUT_REQUIRED")
    shared.send(inbound, "the red one", taskId=task_id)

    detail = shared.read(f"/task?id={task_id}")

    listed = row(shared.read("")["tasks"], id=task_id)
    assert {key: detail[key] for key in listed} == listed
    assert {"artifacts", "history", "metadata"} <= set(detail)
    assert detail["artifacts"][0]["parts"] == [{"text": "chat begun, ended the red one"}]
    texts = [(entry["role"], entry["parts"][0]["text"]) for entry in detail["history"]]
    assert texts[:3] == [("ROLE_USER", "ask"), ("ROLE_AGENT", "which one?"), ("ROLE_USER", "the red one")]


def test_a_stream_in_progress_is_a_peer_and_is_gone_when_it_ends(shared: DaemonProcess, tmp_path: Path) -> None:
    inbound = shared.create_inbound(preset="scripted")
    gate = tmp_path / "gate"
    frames = shared.stream(inbound, "SendStreamingMessage", {"message": message(f"wait {gate}")})
    task_id = next(frames)[1]["result"]["task"]["id"]

    peer = row(shared.read("")["peers"], serverId=inbound)

    assert isinstance(peer.pop("id"), str)
    assert TIME.fullmatch(peer.pop("connectedAt"))
    assert peer == {
        "serverId": inbound,
        "source": "127.0.0.1",
        "method": "SendStreamingMessage",
        "streaming": True,
        "taskIds": [task_id],
    }
    gate.touch()
    list(frames)
    until(lambda: not shared.read("")["peers"], "no peer is left")


def test_a_blocking_call_in_progress_is_a_peer(shared: DaemonProcess, tmp_path: Path) -> None:
    inbound = shared.create_inbound(preset="scripted")
    gate = tmp_path / "gate"
    call = Background(shared.send, inbound, f"wait {gate}")

    (peer,) = until(lambda: [p for p in shared.read("")["peers"] if p["taskIds"]], "the call is a peer")

    assert (peer["method"], peer["streaming"], peer["serverId"]) == ("SendMessage", False, inbound)
    gate.touch()
    assert peer["taskIds"] == [call.result()["id"]]


def test_a_session_row_is_busy_in_a_turn_and_idle_after_it(shared: DaemonProcess, tmp_path: Path) -> None:
    inbound = shared.create_inbound(preset="memory")
    gate = tmp_path / "gate"
    task_id = start_task(shared, inbound, f"wait {gate}", contextId="conversation")
    until(lambda: [s for s in shared.read("")["sessions"] if s["contextId"] == "conversation"], "the session is open")

    busy = row(shared.read("")["sessions"], contextId="conversation")
    gate.touch()
    await_state(shared, task_id, "COMPLETED")
    until(lambda: row(shared.read("")["sessions"], contextId="conversation")["state"] == "idle", "it is idle")
    idle = shared.read(f"/session?contextId=conversation&serverId={inbound}")

    assert TIME.fullmatch(busy.pop("createdAt"))
    assert TIME.fullmatch(busy.pop("lastActiveAt"))
    assert busy == {
        "contextId": "conversation",
        "serverId": inbound,
        "preset": "memory",
        "agent": "memory",
        "state": "busy",
        "turns": 0,
        "taskId": task_id,
    }
    assert (idle["state"], idle["turns"], "taskId" in idle) == ("idle", 1, False)
    assert shared.read("/session?contextId=conversation") == idle
    assert raw(shared.url, "GET", "/a2a/api/session?contextId=conversation&serverId=other").status == 404


def test_the_same_context_at_two_inbounds_is_two_sessions(shared: DaemonProcess) -> None:
    one, two = (shared.create_inbound(preset="memory") for _ in range(2))
    for inbound in (one, two, two):
        shared.send(inbound, "hello", contextId="both")

    assert shared.read(f"/session?contextId=both&serverId={one}")["turns"] == 1
    assert shared.read(f"/session?contextId=both&serverId={two}")["turns"] == 2


def test_plugins_are_listed_with_their_source_and_failed_ones_with_their_error(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin={"good": PLUGIN, "broken": "import nonesuch_module\n"})
    try:
        plugins = {plugin["name"]: plugin for plugin in daemon.read("")["plugins"]}
        attention = daemon.read("")["attention"]
    finally:
        daemon.kill()

    assert {key: plugins["good"][key] for key in ("source", "state")} == {
        "source": str(tmp_path / "plugins" / "good.py"),
        "state": "loaded",
    }
    assert "error" not in plugins["good"]
    assert plugins["broken"]["state"] == "failed"
    assert "nonesuch_module" in plugins["broken"]["error"]
    assert all({"name", "version", "source", "state"} <= set(plugin) for plugin in plugins.values())
    assert [entry["id"] for entry in attention] == ["broken"]


def test_the_card_read_is_the_card_that_clients_get(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(name="carded")

    assert shared.read(f"/card?id={inbound}") == shared.request("GET", f"{shared.endpoint(inbound)}/agent-card.json")[1]


def test_the_card_of_a_disabled_inbound_can_still_be_read_by_the_operator(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(name="hidden", enabled=False)

    assert shared.read(f"/card?id={inbound}")["name"] == "hidden"


def test_metrics_count_tasks_by_state(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound()
    for _ in range(3):
        daemon.send(inbound, "hello")

    metrics = daemon.read("/metrics")

    assert metrics["tasks"]["TASK_STATE_COMPLETED"] == 3
    assert sum(metrics["tasks"].values()) == 3


@pytest.fixture(scope="module")
def tasks(shared: DaemonProcess) -> dict[str, Any]:
    """Two inbounds; 7 ended tasks of one, 3 of them in one context, and one that waits for input of the other."""
    one, two = (shared.create_inbound(name=name, preset="scripted") for name in ("one", "two"))
    ended = [
        shared.send(one, f"task {number}", contextId="pages" if number < 3 else f"pages-{number}")["id"]
        for number in range(7)
    ]
    waiting = shared.send(two, "raise")["id"]
    return {"one": one, "two": two, "ended": ended, "waiting": waiting}


def page(daemon: DaemonProcess, query: str) -> tuple[list[str], int]:
    snapshot = daemon.read(f"?{query}")
    return [task["id"] for task in snapshot["tasks"]], snapshot["taskTotal"]


def test_newest_come_first_and_the_total_is_of_all_that_match(shared: DaemonProcess, tasks: dict[str, Any]) -> None:
    newest_first = tasks["ended"][::-1]

    assert page(shared, f"taskServerId={tasks['one']}") == (newest_first, 7)
    assert page(shared, f"taskServerId={tasks['one']}&taskLimit=3") == (newest_first[:3], 7)
    assert page(shared, f"taskServerId={tasks['one']}&taskLimit=3&taskOffset=3") == (newest_first[3:6], 7)
    assert page(shared, f"taskServerId={tasks['one']}&taskLimit=3&taskOffset=6") == (newest_first[6:], 7)
    assert page(shared, f"taskServerId={tasks['one']}&taskOffset=100") == ([], 7)
    assert page(shared, "taskLimit=500&taskOffset=0")[1] == shared.read("")["taskTotal"]


def test_filters_combine(shared: DaemonProcess, tasks: dict[str, Any]) -> None:
    assert page(shared, "taskContextId=pages") == (tasks["ended"][2::-1], 3)
    assert page(shared, f"taskServerId={tasks['two']}") == ([tasks["waiting"]], 1)
    assert page(shared, f"taskState=TASK_STATE_INPUT_REQUIRED&taskServerId={tasks['two']}") == (
        [tasks["waiting"]],
        1,
    )
    assert page(shared, f"taskState=TASK_STATE_COMPLETED&taskServerId={tasks['two']}") == ([], 0)
    assert page(shared, f"taskContextId=pages&taskState=TASK_STATE_COMPLETED&taskServerId={tasks['one']}") == (
        tasks["ended"][2::-1],
        3,
    )
    assert page(shared, f"taskContextId=pages&taskServerId={tasks['two']}") == ([], 0)
    assert page(shared, "taskContextId=nothing") == ([], 0)


def test_without_a_limit_fifty_are_shown(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound()
    for number in range(51):
        start_task(shared, inbound, f"task {number}")

    ids, total = page(shared, f"taskServerId={inbound}")

    assert (len(ids), total) == (50, 51)
