"""`GET /a2a/api/task/events`: what happens to one task, for the operator."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import PLUGIN, SseEvents, await_state, get_task, start_task, until


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(
        tmp_path_factory.mktemp("task_events"), plugin=PLUGIN, config="[a2a]\nkeepalive_seconds = 1\n"
    )
    yield daemon
    daemon.kill()
    assert "Traceback" not in daemon.log()


@pytest.fixture
def scripted(shared: DaemonProcess) -> str:
    return shared.create_inbound(preset="scripted")


def follow(daemon: DaemonProcess, task_id: str, **headers: str) -> SseEvents:
    return SseEvents(daemon.control, "GET", f"/a2a/api/task/events?id={task_id}", **headers)


def test_it_begins_with_the_task_and_ends_with_it(shared: DaemonProcess, scripted: str, tmp_path: Path) -> None:
    task_id = start_task(shared, scripted, f"wait {tmp_path / 'gate'}")
    with follow(shared, task_id) as events:
        first = events.next()
        (tmp_path / "gate").touch()
        *frames, end = events

    assert events.response.headers["Content-Type"] == "text/event-stream"
    assert events.response.headers["Cache-Control"] == "no-cache"
    assert (first.name, first.data["task"]["id"]) == ("frame", task_id)
    assert [event.name for event in frames] == ["frame"] * len(frames)
    assert [next(iter(event.data)) for event in frames][-2:] == ["statusUpdate", "task"]
    numbers = [int(event.id or 0) for event in [first, *frames]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert frames[-1].data["task"] == get_task(shared, scripted, task_id)
    assert (end.name, end.data) == ("end", {})


def test_it_stays_open_while_the_task_waits_for_an_answer(shared: DaemonProcess, scripted: str) -> None:
    task_id = start_task(shared, scripted, "ask")
    await_state(shared, task_id, "INPUT_REQUIRED")
    with follow(shared, task_id) as events:
        asked = events.next()
        assert events.response.readline() == b":\n"  # nothing happens
        shared.act("task.answer", id=task_id, text="the red one")
        *_, last, end = events

    assert asked.data["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert last.data["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert end.name == "end"


def test_a_task_that_has_ended_is_one_frame(shared: DaemonProcess, scripted: str) -> None:
    task = shared.send(scripted, "say it")
    for headers in ({}, {"Last_Event_ID": "1"}):
        with follow(shared, task["id"], **headers) as events:
            frame, end = events

        assert (frame.name, frame.data) == ("frame", {"task": task})
        assert end.name == "end"


def test_last_event_id_gives_the_status_frames_that_were_missed(shared: DaemonProcess, scripted: str) -> None:
    task_id = start_task(shared, scripted, "ask")
    await_state(shared, task_id, "INPUT_REQUIRED")

    with follow(shared, task_id, Last_Event_ID="1") as events:
        snapshot, missed = events.next(), events.next()

    assert (snapshot.id, list(snapshot.data)) == ("1", ["task"])
    assert missed.data["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


@pytest.mark.parametrize("query", ["?id=nonesuch", "?id=", ""])
def test_an_unknown_task_is_404(shared: DaemonProcess, query: str) -> None:
    status, answer = shared.request("GET", f"{shared.control}/a2a/api/task/events{query}")

    assert (status, answer["ok"]) == (404, False)


def test_nobody_follows_a_task_from_another_machine_or_site(shared: DaemonProcess, scripted: str) -> None:
    task = shared.send(scripted, "say it")
    for headers in ({"Origin": "http://evil.example"}, {"X-Forwarded-For": "127.0.0.1"}):
        status, _ = shared.request("GET", f"{shared.control}/a2a/api/task/events?id={task['id']}", headers=headers)
        assert status == 403


def test_one_that_leaves_changes_nothing_and_nothing_is_kept_of_it(
    shared: DaemonProcess, scripted: str, tmp_path: Path
) -> None:
    task_id = start_task(shared, scripted, f"wait {tmp_path / 'gate'}")
    with follow(shared, task_id) as events:
        events.next()

    until(lambda: shared.read("/metrics")["streams"] == 0, "the stream is forgotten")
    (tmp_path / "gate").touch()
    await_state(shared, task_id, "COMPLETED")


def test_the_daemons_end_is_not_the_tasks(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin=PLUGIN)
    try:
        task_id = start_task(daemon, daemon.create_inbound(preset="scripted"), "raise")
        await_state(daemon, task_id, "INPUT_REQUIRED")
        with follow(daemon, task_id) as events:
            events.next()
            assert daemon.terminate() == 0
            rest = list(events)
    finally:
        daemon.kill()

    assert rest == []
