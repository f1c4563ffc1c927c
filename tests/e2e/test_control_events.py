"""The control API's stream of changes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import SseEvents
from tests.lab import connect, head, until

Watch = Callable[..., SseEvents]


@pytest.fixture
def watch(daemon: DaemonProcess) -> Iterator[Watch]:
    with ExitStack() as stack:

        def open_events(query: str = "", **headers: str) -> SseEvents:
            return stack.enter_context(SseEvents(daemon.control, "GET", f"/a2a/api/events{query}", **headers))

        yield open_events


def test_the_first_event_is_the_snapshot(daemon: DaemonProcess, watch: Watch) -> None:
    daemon.create_inbound(name="seen")

    events = watch()
    first = events.next()

    assert events.response.headers["Content-Type"].startswith("text/event-stream")
    assert events.response.headers["Cache-Control"] in {"no-cache", "no-store"}
    assert first.name == "snapshot"
    assert first.data == daemon.read("")


def test_every_change_is_another_snapshot(daemon: DaemonProcess, watch: Watch) -> None:
    events = watch()
    ids = [events.next().id]
    inbound = daemon.create_inbound(name="later")

    created = events.next()
    daemon.act("inbound.disable", id=inbound)
    disabled = events.next()
    daemon.act("inbound.enable", id=inbound)
    enabled = events.next()
    task = daemon.send(inbound, "hello")
    ended = events.next()
    while [row["state"] for row in ended.data["tasks"]] != ["TASK_STATE_COMPLETED"] or ended.data["peers"]:
        ended = events.next()
    daemon.act("inbound.remove", id=inbound)
    removed = events.next()

    ids += [event.id for event in (created, disabled, enabled, ended, removed)]
    assert [row["name"] for row in created.data["inbounds"]] == ["later"]
    assert [row["enabled"] for row in disabled.data["inbounds"]] == [False]
    assert [row["enabled"] for row in enabled.data["inbounds"]] == [True]
    assert [row["id"] for row in ended.data["tasks"]] == [task["id"]]
    assert (removed.data["inbounds"], removed.data["tasks"]) == ([], [])
    assert all(ids[at] != ids[at + 1] for at in range(len(ids) - 1))


def test_without_a_change_nothing_but_comments_is_sent(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch(config="[a2a]\nkeepalive_seconds = 0.2\n")
    with SseEvents(daemon.url, "GET", "/a2a/api/events") as events:
        events.next()

        lines = [events.response.readline() for _ in range(16)]

    assert {line.rstrip(b"\r\n")[:1] for line in lines} <= {b":", b""}
    assert any(line.startswith(b":") for line in lines)


def test_with_the_id_of_the_present_content_nothing_is_repeated(daemon: DaemonProcess, watch: Watch) -> None:
    inbound = daemon.create_inbound(name="known")
    known = watch().next()

    events = watch(Last_Event_ID=known.id)
    daemon.act("inbound.update", id=inbound, name="changed")
    first = events.next()

    assert [row["name"] for row in known.data["inbounds"]] == ["known"]
    assert [row["name"] for row in first.data["inbounds"]] == ["changed"]
    assert first.id != known.id


@pytest.mark.parametrize("last", ["nonsense", "7", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_with_an_id_of_other_content_the_snapshot_is_sent(daemon: DaemonProcess, watch: Watch, last: str) -> None:
    assert watch(Last_Event_ID=last).next().data == daemon.read("")


def test_the_same_content_has_the_same_id_for_every_reader(daemon: DaemonProcess, watch: Watch) -> None:
    daemon.create_inbound()

    assert watch().next().id == watch().next().id


def test_page_parameters_hold_for_the_stream(daemon: DaemonProcess, watch: Watch) -> None:
    inbound = daemon.create_inbound()
    tasks = [daemon.send(inbound, f"task {number}")["id"] for number in range(3)]

    first = watch("?taskLimit=1&taskOffset=1").next()

    assert [row["id"] for row in first.data["tasks"]] == [tasks[1]]
    assert first.data["taskTotal"] == 3


def test_readers_do_not_keep_the_daemon_from_stopping(daemon: DaemonProcess, watch: Watch) -> None:
    open_ones = [watch() for _ in range(5)]
    for events in open_ones:
        events.next()

    assert daemon.terminate() == 0

    for events in open_ones:
        with pytest.raises(EOFError):
            events.next()


def test_there_is_room_for_many_who_watch_and_not_for_any_number(daemon: DaemonProcess, watch: Watch) -> None:
    watching = [watch() for _ in range(200)]
    daemon.create_inbound(name="for all")
    for events in watching:
        while not (event := events.next()).data["inbounds"]:
            pass
        assert [row["name"] for row in event.data["inbounds"]] == ["for all"]

    status, answer = daemon.request("GET", f"{daemon.control}/a2a/api/events")
    assert (status, answer["ok"]) == (503, False)


def test_who_leaves_before_the_first_event_leaves_no_word_in_the_log(daemon: DaemonProcess) -> None:
    ask = head(f"{daemon.control}/a2a/api/events", method="GET")
    for _ in range(50):
        with connect(daemon.control) as sock:
            sock.sendall(ask)
    until(lambda: daemon.read("")["health"]["status"] == "ok")
    assert "Traceback" not in daemon.log()
