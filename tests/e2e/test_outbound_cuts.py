"""Calls whose stream is cut, whose remote says nothing any more, or whose caller leaves."""

import http.client
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import Background, until
from tests.hostile import no_faults
from tests.remote import (
    BEGUN,
    HANG,
    RESET,
    Exchange,
    Gate,
    Remote,
    Script,
    answer,
    artifact,
    call,
    connect,
    frame,
    parts_of,
    refusal,
    row,
    said,
    sender,
    sends,
    silence,
    snapshot,
    status,
    stream,
    task,
)
from tests.remote import http as http_answer

DONE = snapshot("COMPLETED", "", parts_of("one two"))
BOTH = pytest.mark.parametrize("streaming", [True, False])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("clumsy")) as process:
        yield process


@pytest.fixture
def remote(daemon: DaemonProcess) -> Iterator[Remote]:
    with no_faults(daemon), Remote() as found:
        yield found


@pytest.mark.parametrize("torn", [False, True])
def test_a_stream_that_is_cut_at_any_byte_is_taken_up_again(daemon: DaemonProcess, remote: Remote, torn: bool) -> None:
    """With an end in order, or in the middle of a chunk. A cut is never taken for the end (field report a2a-rs 186)."""
    steps = [snapshot("WORKING"), artifact("one "), artifact("two", append=True), status("COMPLETED")]
    ends: list[int] = []
    seen: set[str] = set()

    def mine(task_id: str) -> list[Any]:
        return json.loads(json.dumps(steps).replace('"t1"', f'"{task_id}"'))  # type: ignore[no-any-return]

    async def send(exchange: Exchange) -> None:
        asked = exchange.asked
        data = b""
        for number, step in enumerate(mine(f"t{asked.text}"), start=1):
            data += frame(exchange, number, step)
            if asked.text == "whole":
                ends.append(len(data))
        data = data if asked.message["messageId"] in seen or asked.text == "whole" else data[: int(asked.text)]
        seen.add(asked.message["messageId"])
        await exchange.head(200, Content_Type="text/event-stream", **({"Transfer_Encoding": "chunked"} if torn else {}))
        await exchange.write(b"%x\r\n%b" % (len(data) + torn, data) if torn else data)

    async def again(exchange: Exchange) -> None:
        whole = snapshot("WORKING", "", parts_of("one two"), task_id=exchange.asked.params["id"])
        await stream(whole, mine(exchange.asked.params["id"])[-1])(exchange)

    async def get(exchange: Exchange) -> None:
        await answer(task("COMPLETED", "", parts_of("one two"), task_id=exchange.asked.params["id"]))(exchange)

    remote.on("SendStreamingMessage", send).on("SubscribeToTask", again).on("GetTask", get)
    outbound = connect(daemon, remote)
    assert call(daemon, outbound, "whole")["text"] == "one two"
    places = [f"{at:05}" for at in range(ends[-1])]
    with ThreadPoolExecutor(48) as pool:
        told = list(pool.map(lambda at: call(daemon, outbound, at), places))
    assert {each["text"] for each in told} == {"one two"}
    sent = {at: [] for at in places} | {"whole": []}  # type: dict[str, list[str]]
    for asked in remote.asked("SendStreamingMessage"):
        sent[asked.text].append(asked.message["messageId"])
    resumed = {asked.params["id"]: asked.headers["last-event-id"] for asked in remote.asked("SubscribeToTask")}
    slack = 0 if torn else 2  # an event whose blank line is missing counts where the stream ended in order
    for at in places:
        # a task's id is as long as the places are, here and in "whole"
        complete = sum(end - slack <= int(at) for end in ends)
        assert len(set(sent[at])) == 1, at
        assert len(sent[at]) == (2 if complete == 0 else 1), at
        assert resumed.get(f"t{at}") == (str(complete) if 0 < complete < len(steps) else None), at
    assert not remote.asked("CancelTask")


@BOTH
def test_a_cut_before_the_tasks_id_is_known_repeats_the_same_message(
    daemon: DaemonProcess, remote: Remote, streaming: bool
) -> None:
    async def reset(exchange: Exchange) -> None:
        exchange.reset()

    async def half(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

    async def nothing(exchange: Exchange) -> None:
        pass

    remote.on(sender(remote, streaming), reset, half, nothing, answer(DONE))
    assert call(daemon, connect(daemon, remote))["text"] == "one two"
    assert len(sends(remote)) == 4
    assert len(set(sends(remote))) == 1


@pytest.mark.parametrize("end", [[], [RESET]])
@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_where_there_is_no_stream_to_take_up_the_task_is_asked_for(
    daemon: DaemonProcess, remote: Remote, end: list[Any], state: str
) -> None:
    remote.on("SendStreamingMessage", stream(*BEGUN, *end))
    remote.on("SubscribeToTask", refusal(-32601, "no"))
    remote.on("GetTask", answer(task("WORKING", "", parts_of("one "))), answer(task(state, "", parts_of("one two"))))
    told = call(daemon, connect(daemon, remote), status=200 if state == "COMPLETED" else 409)
    assert told["text"] == "one two"
    assert len(remote.asked("GetTask")) == 2
    assert len(remote.asked("SubscribeToTask")) == 1


def test_that_a_stream_is_not_given_again_is_no_reason_why_the_task_failed(
    daemon: DaemonProcess, remote: Remote
) -> None:
    remote.on("SendStreamingMessage", stream(*BEGUN, RESET))
    remote.on("SubscribeToTask", refusal(-32004, "the task is in a terminal state"))
    remote.on("GetTask", answer(task("FAILED", "", parts_of("one "))))
    told = call(daemon, connect(daemon, remote), status=409)
    assert (told["message"], told["text"]) == ("the remote task is TASK_STATE_FAILED", "one ")


def test_a_stream_that_gives_nothing_but_ends_is_left_for_polling(daemon: DaemonProcess, remote: Remote) -> None:
    """It is resumed, else polled (issue 4, 2): where resuming brings nothing, the task is asked for."""
    remote.on("SendStreamingMessage", stream(snapshot("WORKING")))
    remote.on("SubscribeToTask", stream(snapshot("WORKING")))
    remote.on("GetTask", answer(DONE["task"]))
    assert call(daemon, connect(daemon, remote))["text"] == "one two"


def test_a_stream_that_is_cut_again_and_again_and_goes_on_is_followed(daemon: DaemonProcess, remote: Remote) -> None:
    texts = [str(number) for number in range(8)]
    cuts = [stream(snapshot("WORKING", "", parts_of("".join(texts[: n + 1]))), RESET) for n in range(8)]
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), RESET))
    remote.on("SubscribeToTask", *cuts, stream(snapshot("COMPLETED", "", parts_of("".join(texts)))))
    assert call(daemon, connect(daemon, remote))["text"] == "01234567"
    assert len(sends(remote)) == 1


@pytest.mark.parametrize("number", [b"\x01", b"\x7f\t", b"\xc3\xa9", b"\xff", b"", b"x" * 20_000])
def test_an_id_of_any_bytes_does_no_harm(daemon: DaemonProcess, remote: Remote, number: bytes) -> None:
    """It goes back as a header, where it can."""
    remote.on("SendStreamingMessage", stream(b"id: " + number + b"\n", snapshot("WORKING")))
    remote.on("SubscribeToTask", stream(DONE))
    assert call(daemon, connect(daemon, remote))["text"] == "one two"


def test_a_remote_that_is_away_for_a_moment_gets_the_message_once_it_is_back(daemon: DaemonProcess) -> None:
    with no_faults(daemon):
        with Remote() as away:
            outbound = connect(daemon, away)
        pending = Background(call, daemon, outbound)
        until(lambda: daemon.act("outbound.refresh", status=409, id=outbound), "it is seen to be away")
        with Remote(port=away.port) as back:
            back.on("SendStreamingMessage", stream(*BEGUN, DONE))
            assert pending.result()["text"] == "one two"


# time


@pytest.mark.parametrize(
    ("streaming", "script"),
    [
        (True, stream(snapshot("WORKING"), HANG)),
        (True, stream(snapshot("WORKING"), *[b": ping\n\n", 0.05] * 400)),
        (True, stream(snapshot("WORKING"), *[snapshot("WORKING"), 0.05] * 400)),
        (False, answer(snapshot("SUBMITTED"))),
    ],
)
def test_without_progress_a_call_ends_and_its_task_is_canceled(
    daemon: DaemonProcess, remote: Remote, streaming: bool, script: Script
) -> None:
    """Comments are none, nor is what was there already (issue 4, 2)."""
    remote.on(sender(remote, streaming), script).on("GetTask", answer(task("WORKING")))
    told = call(daemon, connect(daemon, remote, timeoutMs=1500), status=409)
    assert "no progress for 1.5 s" in told["message"]
    assert until(lambda: remote.asked("CancelTask"), "the task is canceled")[0].params == {"id": "t1"}
    assert len(set(sends(remote))) == 1


@pytest.mark.parametrize(
    ("last", "text"),
    [(DONE, "one two"), (snapshot("INPUT_REQUIRED", "Which?"), "Which?"), ({"message": said("one two")}, "one two")],
)
def test_a_stream_that_stays_open_after_the_last_word_is_left(
    daemon: DaemonProcess, remote: Remote, last: Any, text: str
) -> None:
    remote.on("SendStreamingMessage", stream(last, HANG))
    assert call(daemon, connect(daemon, remote))["text"] == text
    assert not remote.asked("CancelTask")


@pytest.mark.parametrize("script", [http_answer(500), refusal(-32002, "it has ended"), silence])
def test_a_task_that_cannot_be_canceled_is_left_alone(daemon: DaemonProcess, remote: Remote, script: Script) -> None:
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), HANG)).on("CancelTask", script)
    assert "no progress" in call(daemon, connect(daemon, remote, timeoutMs=300), status=409)["message"]
    until(lambda: remote.asked("CancelTask"), "it was tried")


def test_a_daemon_that_stops_cancels_what_it_waited_for(launch: Callable[..., DaemonProcess]) -> None:
    with Remote() as remote:
        remote.on("SendStreamingMessage", stream(*BEGUN, HANG))
        daemon = launch()
        pending = Background(call, daemon, connect(daemon, remote))
        until(lambda: sends(remote), "the message is there")
        assert daemon.terminate() == 0
        assert pending.error() is not None
        assert until(lambda: remote.asked("CancelTask"), "the task is canceled")[0].params == {"id": "t1"}


def test_what_goes_on_may_take_longer_than_the_time_without_progress(daemon: DaemonProcess, remote: Remote) -> None:
    steps = [step for _ in range(10) for step in (artifact("x", append=True), 0.3)]
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), *steps, status("COMPLETED")))
    assert call(daemon, connect(daemon, remote, timeoutMs=2000))["text"] == "x" * 10


@BOTH
@pytest.mark.parametrize("late", [False, True])
def test_the_task_of_a_call_that_nobody_waits_for_is_canceled_once_its_id_is_known(
    daemon: DaemonProcess, remote: Remote, streaming: bool, late: bool
) -> None:
    gate = Gate()

    async def slow(exchange: Exchange) -> None:
        await gate.passed()
        await (stream(snapshot("WORKING"), HANG) if streaming else answer(snapshot("WORKING")))(exchange)

    remote.on(sender(remote, streaming), slow)
    remote.on("GetTask", answer(task("WORKING")))
    outbound = connect(daemon, remote)
    client = http.client.HTTPConnection(daemon.url.removeprefix("http://"))
    body = json.dumps({"action": "outbound.call", "id": outbound, "text": "hello"})
    client.request("POST", "/a2a/api", body, {"Content-Type": "application/json", "Accept": "text/event-stream"})
    until(lambda: sends(remote), "the message is there")
    if late:
        client.close()
    gate.open()
    if not late:
        assert client.getresponse().readline()  # its state is told
        client.close()
    assert until(lambda: remote.asked("CancelTask"), "the task is canceled")[0].params == {"id": "t1"}


def test_a_connection_that_is_removed_ends_its_calls(daemon: DaemonProcess, remote: Remote) -> None:
    remote.on("SendStreamingMessage", stream(*BEGUN, HANG))
    outbound = connect(daemon, remote)
    pending = Background(call, daemon, outbound, status=409)
    until(lambda: sends(remote), "the message is there")
    daemon.act("outbound.remove", id=outbound)
    assert "taken away" in pending.result()["message"]
    until(lambda: remote.asked("CancelTask"), "the task is canceled")
    assert row(daemon, outbound) is None


def test_one_that_is_disabled_takes_no_new_calls_and_lets_the_others_end(daemon: DaemonProcess, remote: Remote) -> None:
    gate = Gate()
    remote.on("SendStreamingMessage", stream(*BEGUN, gate, DONE))
    outbound = connect(daemon, remote)
    pending = Background(call, daemon, outbound)
    until(lambda: sends(remote), "the message is there")
    daemon.act("outbound.disable", id=outbound)
    assert (row(daemon, outbound)["state"], row(daemon, outbound)["toolCount"]) == ("disabled", 0)
    assert "disabled" in call(daemon, outbound, status=409)["message"]
    gate.open()
    assert pending.result()["text"] == "one two"
