"""`inbound.create`, `update`, `remove`, `enable` and `disable`, with their effects seen from outside."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import (
    PLUGIN,
    Background,
    await_state,
    get_task,
    raw,
    rpc_status,
    start_task,
    state_of,
    text_of,
    until,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("inbounds"), plugin=PLUGIN)
    yield daemon
    daemon.kill()
    assert "Traceback" not in daemon.log()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def row(daemon: DaemonProcess, inbound: str) -> Any:
    (found,) = [row for row in daemon.read("")["inbounds"] if row["id"] == inbound]
    return found


def card(daemon: DaemonProcess, path: str) -> tuple[int, Any, str | None]:
    answer = raw(daemon.url, "GET", f"{path}/agent-card.json")
    return answer.status, answer.json if answer.status == 200 else None, answer.headers.get("Etag")


# create


def test_what_create_does_not_say_takes_its_default(shared: DaemonProcess) -> None:
    created = shared.act("inbound.create", name="Weather & More", description="d", version="0.1.0")

    assert created["ok"] is True
    assert "Weather & More" in created["message"]
    assert re.fullmatch(r"weather-more-[0-9a-f]{8}", created["id"])
    found = row(shared, created["id"])
    assert (found["enabled"], found["preset"], found["endpointPath"]) == (True, "standard", f"/a2a/{created['id']}")
    assert rpc_status(shared, created["id"])[0] == 200
    assert card(shared, found["endpointPath"])[0] == 200


@pytest.mark.parametrize("name", ["天気", "!!!", "   "])
def test_a_name_without_letters_gives_the_id_another_start(shared: DaemonProcess, name: str) -> None:
    created = shared.create_inbound(name=name)

    assert re.fullmatch(r"inbound-[0-9a-f]{8}", created)
    assert row(shared, created)["name"] == name


def test_two_inbounds_may_have_the_same_name(shared: DaemonProcess) -> None:
    one, two = shared.create_inbound(name="twin"), shared.create_inbound(name="twin")

    assert one != two
    assert (rpc_status(shared, one)[0], rpc_status(shared, two)[0]) == (200, 200)


def test_a_path_of_ones_own_is_where_it_is_served(shared: DaemonProcess) -> None:
    created = shared.create_inbound(endpointPath="/agents/reports-1.0")

    assert rpc_status(shared, created, path="/agents/reports-1.0")[0] == 200
    assert rpc_status(shared, created)[0] == 404
    status, published, _ = card(shared, "/agents/reports-1.0")
    assert status == 200
    assert published["supportedInterfaces"][0]["url"] == f"{shared.url}/agents/reports-1.0"
    assert raw(shared.url, "GET", "/agents/reports-1.0/.well-known/agent-card.json").status == 200
    found = row(shared, created)
    assert found["cardPath"] == "/agents/reports-1.0/agent-card.json"
    assert found["cardUrl"] == f"{shared.url}/agents/reports-1.0"


def test_one_that_is_created_disabled_is_not_served_until_it_is_enabled(shared: DaemonProcess) -> None:
    created = shared.create_inbound(enabled=False)

    assert row(shared, created)["enabled"] is False
    assert (rpc_status(shared, created)[0], card(shared, f"/a2a/{created}")[0]) == (404, 404)
    shared.act("inbound.sendTest", status=409, id=created, text="hello")
    shared.act("inbound.enable", id=created)
    assert (rpc_status(shared, created)[0], card(shared, f"/a2a/{created}")[0]) == (200, 200)


def test_the_preset_decides_who_answers_and_what_the_card_declares(shared: DaemonProcess) -> None:
    created = shared.create_inbound(preset="scripted")

    assert text_of(shared.send(created, "say it")) == "chat begun, ended it"
    assert [skill["id"] for skill in card(shared, f"/a2a/{created}")[1]["skills"]] == ["chat", "other"]


# update


def test_an_update_changes_what_it_names_and_nothing_else(shared: DaemonProcess) -> None:
    created = shared.create_inbound(name="before", description="old", version="1.0.0")
    unchanged = row(shared, created)

    shared.act("inbound.update", id=created, description="new")

    assert row(shared, created) == {**unchanged, "description": "new"}


def test_an_update_shows_in_the_card_and_its_etag(shared: DaemonProcess) -> None:
    created = shared.create_inbound(name="before")
    path = f"/a2a/{created}"
    _, old, old_tag = card(shared, path)

    shared.act("inbound.update", id=created, name="after", description="changed", version="2.0.0")
    _, new, new_tag = card(shared, path)

    assert (old["name"], new["name"], new["description"], new["version"]) == ("before", "after", "changed", "2.0.0")
    assert old_tag
    assert new_tag
    assert old_tag != new_tag
    assert raw(shared.url, "GET", f"{path}/agent-card.json", [("If-None-Match", old_tag)]).status == 200
    assert raw(shared.url, "GET", f"{path}/agent-card.json", [("If-None-Match", new_tag)]).status == 304
    shared.act("inbound.update", id=created, name="before", description="An agent", version="1.0.0")
    assert card(shared, path)[2] == old_tag


def test_a_path_moves_with_an_update_and_the_old_one_is_free_again(shared: DaemonProcess) -> None:
    created = shared.create_inbound(endpointPath="/old-place")
    task = shared.act("inbound.sendTest", id=created, text="hello")["task"]

    shared.act("inbound.update", id=created, endpointPath="/new-place")

    assert (rpc_status(shared, created, path="/old-place")[0], card(shared, "/old-place")[0]) == (404, 404)
    assert rpc_status(shared, created, path="/new-place")[0] == 200
    assert card(shared, "/new-place")[1]["supportedInterfaces"][0]["url"] == f"{shared.url}/new-place"
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
    assert shared.request("POST", f"{shared.url}/new-place", call)[1]["result"]["id"] == task["id"]
    assert shared.create_inbound(endpointPath="/old-place") != created


def test_an_update_may_name_the_path_that_it_has(shared: DaemonProcess) -> None:
    created = shared.create_inbound(endpointPath="/same-place")

    shared.act("inbound.update", id=created, endpointPath="/same-place", name="renamed")

    assert card(shared, "/same-place")[1]["name"] == "renamed"


def test_a_path_of_a_disabled_inbound_is_taken_all_the_same(shared: DaemonProcess) -> None:
    shared.create_inbound(endpointPath="/reserved-place", enabled=False)

    shared.act("inbound.create", status=409, name="n", description="d", version="1", endpointPath="/reserved-place")


def test_the_preset_changes_with_an_update_while_a_task_of_the_old_one_runs_on(
    shared: DaemonProcess, gate: Path
) -> None:
    created = shared.create_inbound(preset="scripted")
    running = start_task(shared, created, f"wait {gate}")

    shared.act("inbound.update", id=created, preset="memory")

    assert text_of(shared.send(created, "hello")).startswith("turn 1 of ")
    assert [skill["name"] for skill in card(shared, f"/a2a/{created}")[1]["skills"]] == ["Chat"]
    gate.touch()
    await_state(shared, running, "COMPLETED")
    assert text_of(get_task(shared, created, running)) == "chat begun, ended"


# disable and enable


def test_disable_takes_the_routes_away_and_running_tasks_end(shared: DaemonProcess, gate: Path) -> None:
    created = shared.create_inbound(preset="scripted")
    frames = shared.stream(created, "SendStreamingMessage", {"message": message(f"wait {gate}")})
    task_id = next(frames)[1]["result"]["task"]["id"]
    blocked = Background(shared.send, created, f"wait {gate}")
    until(lambda: len(shared.read(f"?taskServerId={created}")["tasks"]) == 2, "both are there")

    shared.act("inbound.disable", id=created)

    assert row(shared, created)["enabled"] is False
    assert (rpc_status(shared, created)[0], card(shared, f"/a2a/{created}")[0]) == (404, 404)
    assert raw(shared.url, "GET", f"/a2a/{created}").status == 404
    assert state_of(shared, task_id) == "WORKING"
    gate.touch()
    assert list(frames)[-1][1]["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert blocked.result()["status"]["state"] == "TASK_STATE_COMPLETED"
    assert state_of(shared, task_id) == "COMPLETED"

    shared.act("inbound.enable", id=created)

    assert rpc_status(shared, created)[0] == 200
    assert card(shared, f"/a2a/{created}")[0] == 200
    assert text_of(get_task(shared, created, task_id)) == "chat begun, ended"


@pytest.mark.parametrize("action", ["inbound.enable", "inbound.disable"])
def test_what_is_so_already_may_be_asked_for_again(shared: DaemonProcess, action: str) -> None:
    created = shared.create_inbound()

    assert [shared.act(action, id=created)["ok"] for _ in range(2)] == [True, True]


def test_other_inbounds_do_not_notice(shared: DaemonProcess, gate: Path) -> None:
    other, created = shared.create_inbound(preset="scripted"), shared.create_inbound(preset="scripted")
    running = start_task(shared, other, f"wait {gate}")
    mine = start_task(shared, created, f"wait {gate}")
    before = row(shared, other)

    shared.act("inbound.disable", id=created)
    shared.act("inbound.remove", id=created)

    assert row(shared, other) == before
    assert state_of(shared, running) == "WORKING"
    assert rpc_status(shared, other)[0] == 200
    gate.touch()
    await_state(shared, running, "COMPLETED")
    assert raw(shared.url, "GET", f"/a2a/api/task?id={mine}").status == 404


# remove


def test_remove_cancels_what_runs_and_deletes_the_inbound_with_its_tasks(shared: DaemonProcess, gate: Path) -> None:
    created = shared.create_inbound(preset="scripted", endpointPath="/removed-place")
    path = f"{shared.url}/removed-place"
    ended = shared.act("inbound.sendTest", id=created, text="hello")["task"]["id"]
    waiting = shared.act("inbound.sendTest", id=created, text="raise")["task"]["id"]
    asking = shared.act("inbound.sendTest", id=created, text="ask")["task"]["id"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(f"wait {gate}")}}
    blocked = Background(shared.request, "POST", path, call)
    (peer,) = until(lambda: [p for p in shared.read("")["peers"] if p["serverId"] == created and p["taskIds"]], "runs")
    running = peer["taskIds"][0]

    shared.act("inbound.remove", id=created)

    assert created not in [row["id"] for row in shared.read("")["inbounds"]]
    assert shared.read(f"?taskServerId={created}")["taskTotal"] == 0
    for task_id in (ended, waiting, asking, running):
        assert raw(shared.url, "GET", f"/a2a/api/task?id={task_id}").status == 404
    status, answer = blocked.result()
    assert (status, answer["result"]["task"]["status"]["state"]) == (200, "TASK_STATE_CANCELED")
    assert rpc_status(shared, created, path="/removed-place")[0] == 404
    shared.act("inbound.remove", status=409, id=created)
    assert shared.create_inbound(endpointPath="/removed-place") != created


def test_a_stream_of_a_removed_inbound_ends(shared: DaemonProcess, gate: Path) -> None:
    created = shared.create_inbound(preset="scripted")
    frames = shared.stream(created, "SendStreamingMessage", {"message": message(f"wait {gate}")})
    next(frames)

    shared.act("inbound.remove", id=created)

    states = [frame["result"]["task"]["status"]["state"] for _, frame in frames if "task" in frame["result"]]
    assert states == ["TASK_STATE_CANCELED"]


def test_sessions_of_a_removed_inbound_are_closed(shared: DaemonProcess) -> None:
    created = shared.create_inbound(preset="memory")
    shared.send(created, "hello", contextId="gone-with-it")
    assert [s for s in shared.read("")["sessions"] if s["serverId"] == created]

    shared.act("inbound.remove", id=created)

    assert [s for s in shared.read("")["sessions"] if s["serverId"] == created] == []


def test_inbounds_are_as_they_were_after_a_restart(launch: Callable[..., DaemonProcess]) -> None:
    first = launch(plugin=PLUGIN)
    kept = first.create_inbound(name="kept", endpointPath="/kept", preset="scripted")
    disabled = first.create_inbound(name="disabled", enabled=False)
    removed = first.create_inbound(name="removed")
    task = first.act("inbound.sendTest", id=removed, text="hello")["task"]
    first.act("inbound.update", id=kept, description="changed")
    first.act("inbound.remove", id=removed)
    rows = {row["id"]: {**row, "cardUrl": ""} for row in first.read("")["inbounds"]}
    first.kill()

    second = launch(plugin=PLUGIN)

    assert {row["id"]: {**row, "cardUrl": ""} for row in second.read("")["inbounds"]} == rows
    assert set(rows) == {kept, disabled}
    assert rpc_status(second, kept, path="/kept")[0] == 200
    assert rpc_status(second, disabled)[0] == 404
    assert raw(second.url, "GET", f"/a2a/api/task?id={task['id']}").status == 404


def test_many_at_once_neither_share_a_path_nor_get_lost(shared: DaemonProcess) -> None:
    body = {"action": "inbound.create", "name": "race", "description": "d", "version": "1", "endpointPath": "/race"}
    calls = [Background(shared.request, "POST", f"{shared.url}/a2a/api", body) for _ in range(12)]

    statuses = sorted(call.result()[0] for call in calls)

    assert statuses == [200] + [409] * 11
    assert [row["endpointPath"] for row in shared.read("")["inbounds"]].count("/race") == 1
