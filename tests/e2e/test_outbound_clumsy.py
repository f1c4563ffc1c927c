"""Calls to a remote that is slow, wordy, forgetful or cut off: the answer is right, said once, and never made up."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import Background, until
from tests.hostile import no_faults
from tests.remote import (
    BEGUN,
    PIECES,
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
    said,
    sender,
    sends,
    silence,
    snapshot,
    status,
    stream,
    task,
    watched,
)
from tests.remote import (
    http as http_answer,
)

DONE = snapshot("COMPLETED", "", parts_of("one two"))
TWICE = snapshot("COMPLETED", "one two", parts_of(PIECES))
BOTH = pytest.mark.parametrize("streaming", [True, False])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("clumsy")) as process:
        yield process


@pytest.fixture
def remote(daemon: DaemonProcess) -> Iterator[Remote]:
    with no_faults(daemon), Remote() as found:
        yield found


# what is right in another shape


@pytest.mark.parametrize(
    "steps",
    [
        [snapshot("SUBMITTED"), status("WORKING"), artifact("one two"), status("COMPLETED")],
        [snapshot("SUBMITTED"), artifact("one two"), status("WORKING"), status("COMPLETED"), DONE],
        [artifact("one two"), snapshot("WORKING", "", parts_of("one two")), status("COMPLETED", "one two")],
        [snapshot("SUBMITTED"), status("COMPLETED"), artifact("one two")],
        [status("WORKING", "one two"), artifact("one "), artifact("two", append=True), status("COMPLETED", "one two")],
        [*BEGUN, artifact("two", append=True), snapshot("COMPLETED", "", parts_of(PIECES))],
        [*BEGUN, artifact("one two"), status("COMPLETED", "one two"), TWICE],
        [snapshot("WORKING", "one two"), status("COMPLETED", "one two"), snapshot("COMPLETED", "one two")],
        [snapshot("WORKING", history=[said("hello", "ROLE_USER")]), status("COMPLETED", "one two")],
        [DONE],
        [{"message": said("one two")}],
        [b"\xef\xbb\xbf: hi\r\r", *BEGUN, b"event: x\r\nretry: 1\r\n\r\n", status("WORKING", "hm"), DONE],
    ],
)  # fmt: skip
def test_text_is_told_once_in_whatever_order_and_shape_it_comes(
    daemon: DaemonProcess, remote: Remote, steps: list[Any]
) -> None:
    remote.on("SendStreamingMessage", stream(*steps))
    outbound = connect(daemon, remote)
    assert call(daemon, outbound)["text"] == "one two"
    *progress, (last, result) = watched(daemon, outbound)
    assert last == "result"
    assert result["text"] == "one two"
    streamed = re.search(r"artifact|\[\{'message'", str(steps)) is not None  # else it was all in statuses
    assert "".join(update.get("text", "") for _, update in progress) == ("one two" if streamed else "")
    assert len(sends(remote)) == 2


def test_progress_comes_in_the_order_in_which_it_was_said(daemon: DaemonProcess, remote: Remote) -> None:
    """Also what came at once: a status that was said before a text is told before it."""
    steps = [snapshot("WORKING", "first"), artifact("a"), status("WORKING", "second"), artifact("b", append=True)]
    outbound = connect(daemon, remote)

    async def at_once(exchange: Exchange) -> None:
        await exchange.head(200, Content_Type="text/event-stream")
        frames = enumerate([*steps, status("COMPLETED")], start=1)
        await exchange.write(b"".join(frame(exchange, number, step) for number, step in frames))

    remote.on("SendStreamingMessage", at_once)
    *progress, (last, result) = watched(daemon, outbound)
    told = [update.get("text") or update.get("message") for _, update in progress]
    assert [each for each in told if each] == ["first", "a", "second", "b"]
    assert (last, result["text"]) == ("result", "ab")


def test_text_shows_while_it_comes(daemon: DaemonProcess, remote: Remote) -> None:
    gate = Gate()
    rest = [status("WORKING", "thinking"), gate, artifact("two", append=True), DONE]
    remote.on("SendStreamingMessage", stream(*BEGUN, *rest))
    seen: list[tuple[str, Any]] = []
    for event in watched(daemon, connect(daemon, remote)):
        seen.append(event)
        if event[1].get("message") == "thinking":
            assert "".join(update.get("text", "") for _, update in seen) == "one "
            gate.open()
    assert (seen[-1][0], seen[-1][1]["text"]) == ("result", "one two")


@BOTH
@pytest.mark.parametrize("result", [DONE, {"message": said("one two")}])
def test_a_call_may_be_answered_with_plain_json(
    daemon: DaemonProcess, remote: Remote, streaming: bool, result: Any
) -> None:
    remote.on(sender(remote, streaming), answer(result, Content_Type="application/a2a+json; charset=utf-8"))
    told = call(daemon, connect(daemon, remote))
    assert (told["text"], told["state"]) == ("one two", "TASK_STATE_COMPLETED" if "task" in result else None)
    assert told.get("taskId") == ("t1" if "task" in result else None)


@BOTH
def test_a_task_that_is_only_submitted_is_followed_to_its_end(
    daemon: DaemonProcess, remote: Remote, streaming: bool
) -> None:
    remote.on(sender(remote, streaming), answer(snapshot("SUBMITTED")))
    remote.on("GetTask", answer(task("SUBMITTED")), answer(task("WORKING")), answer(DONE["task"]))
    assert call(daemon, connect(daemon, remote))["text"] == "one two"
    assert [asked.params for asked in remote.asked("GetTask")] == [{"id": "t1"}] * 3
    assert bool(remote.asked("SubscribeToTask")) is streaming


@pytest.mark.parametrize("state", ["FAILED", "REJECTED", "CANCELED"])
@BOTH
def test_a_task_that_fails_is_409_with_the_remotes_words(
    daemon: DaemonProcess, remote: Remote, streaming: bool, state: str
) -> None:
    ended = snapshot(state, "no such file", parts_of("so far"))
    remote.on(sender(remote, streaming), stream(*BEGUN, ended) if streaming else answer(ended))
    told = call(daemon, connect(daemon, remote), status=409)
    assert told == {
        "ok": False, "message": "no such file", "text": "so far\n\nno such file",
        "state": f"TASK_STATE_{state}", "taskId": "t1", "contextId": "c1",
    }  # fmt: skip
    assert not remote.asked("CancelTask")


def test_a_task_that_fails_without_a_reason_is_told_by_its_state(daemon: DaemonProcess, remote: Remote) -> None:
    remote.on("SendStreamingMessage", answer(snapshot("FAILED", "", parts_of("so far"))))
    told = call(daemon, connect(daemon, remote), status=409)
    assert (told["message"], told["text"]) == ("the remote task is TASK_STATE_FAILED", "so far")


def test_a_reason_that_the_artifacts_have_already_is_said_once(daemon: DaemonProcess, remote: Remote) -> None:
    remote.on("SendStreamingMessage", stream(*BEGUN, snapshot("FAILED", "no ink", parts_of("no ink"))))
    told = call(daemon, connect(daemon, remote), status=409)
    assert (told["message"], told["text"]) == ("no ink", "no ink")


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "AUTH_REQUIRED"])
@pytest.mark.parametrize("artifacts", [[], [parts_of("Which?")]])
def test_a_task_that_waits_for_somebody_is_continued_where_it_is(
    daemon: DaemonProcess, remote: Remote, state: str, artifacts: list[Any]
) -> None:
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), snapshot(state, "Which?", *artifacts)), stream(DONE))
    outbound = connect(daemon, remote)
    told = call(daemon, outbound)
    assert (told["text"], told["state"], told["taskId"]) == ("Which?", f"TASK_STATE_{state}", "t1")
    assert call(daemon, outbound, "this", taskId="t1")["text"] == "one two"
    first, second = (asked.message for asked in remote.asked("SendStreamingMessage"))
    assert "taskId" not in first
    assert (second["taskId"], second["contextId"], second["parts"]) == ("t1", "c1", [{"text": "this"}])
    assert not remote.asked("CancelTask")


# refusals


async def pieces(exchange: Exchange) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such skill"}}'
    await exchange.head(400, Content_Type="application/json", Content_Length=str(len(body)))
    for start in range(0, len(body), 20):
        await exchange.write(body[start : start + 20])
        await asyncio.sleep(0.02)


@BOTH
@pytest.mark.parametrize("status_code", [500, 502, 503, 504, 429])
def test_a_remote_that_is_busy_or_broken_is_asked_again(
    daemon: DaemonProcess, remote: Remote, streaming: bool, status_code: int
) -> None:
    remote.on(sender(remote, streaming), http_answer(status_code, b"<html>"), answer(snapshot("WORKING")))
    remote.on("GetTask", http_answer(status_code), answer(DONE["task"]))
    assert call(daemon, connect(daemon, remote))["text"] == "one two"
    assert len(sends(remote)) == 2
    assert len(set(sends(remote))) == 1


def test_it_is_asked_again_five_times_and_no_more(daemon: DaemonProcess, remote: Remote) -> None:
    with Remote(streaming=False) as other:
        remote.on("SendStreamingMessage", http_answer(500))
        other.on("SendMessage", answer(snapshot("WORKING"))).on("GetTask", http_answer(503))
        calls = [Background(call, daemon, connect(daemon, each), status=409) for each in (remote, other)]
        told = [each.result()["message"] for each in calls]
        assert told[0] == f"{remote.url} answers HTTP 500 (tried 6 times)"
        assert told[1] == f"{other.url} answers HTTP 503 (tried 6 times)"
        assert (len(sends(remote)), len(set(sends(remote)))) == (6, 1)
        assert (len(sends(other)), len(other.asked("GetTask"))) == (1, 6)
        until(lambda: other.asked("CancelTask"), "the task is canceled")


@pytest.mark.parametrize("date", [False, True])
def test_retry_after_is_waited_for_where_there_is_time_and_else_it_is_an_error(
    daemon: DaemonProcess, remote: Remote, date: bool
) -> None:
    def after(seconds: int) -> str:
        return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True) if date else str(seconds)

    outbound = connect(daemon, remote)
    remote.on("SendStreamingMessage", http_answer(503, Retry_After=after(2)), stream(DONE))
    assert call(daemon, outbound)["text"] == "one two"
    first, second = remote.asked("SendStreamingMessage")
    assert second.at - first.at >= (0.9 if date else 2)  # a date has whole seconds
    remote.on("SendStreamingMessage", http_answer(429, Retry_After=after(3600)))
    assert re.search(r"3[56]\d\d(\.\d+)? s", call(daemon, outbound, status=409)["message"])
    assert len(sends(remote)) == 3


@BOTH
@pytest.mark.parametrize(
    "script",
    [
        pieces,
        refusal(-32602, "no such skill"),
        *(refusal(-32000, "no such skill", code) for code in (400, 401, 403, 404, 409)),
    ],
)
def test_a_refusal_is_told_and_not_tried_again(
    daemon: DaemonProcess, remote: Remote, streaming: bool, script: Script
) -> None:
    remote.on(sender(remote, streaming), script)
    assert "no such skill" in call(daemon, connect(daemon, remote), status=409)["message"]
    assert len(sends(remote)) == 1
    assert not remote.asked("CancelTask")


@pytest.mark.parametrize("name", [b"", b"event: error\n"])
def test_an_error_within_a_stream_is_told_unless_the_task_went_on(
    daemon: DaemonProcess, remote: Remote, name: bytes
) -> None:
    """The official Python server names its errors so."""
    error = name + b'data: {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "it broke"}}\n\n'
    outbound = connect(daemon, remote)
    remote.on("SendStreamingMessage", stream(error))
    assert "it broke" in call(daemon, outbound, status=409)["message"]
    remote.on("SendStreamingMessage", stream(*BEGUN, error)).on("GetTask", answer(DONE["task"]))
    assert call(daemon, outbound)["text"] == "one two"
    remote.on("GetTask", answer(task("FAILED")))
    assert call(daemon, outbound, status=409)["message"] == "it broke (-32603)"
    assert len(sends(remote)) == 3
    assert not remote.asked("SubscribeToTask")


def test_silence_from_the_start_is_an_error_too(daemon: DaemonProcess, remote: Remote) -> None:
    remote.on("SendStreamingMessage", silence)
    assert "no progress" in call(daemon, connect(daemon, remote, timeoutMs=500), status=409)["message"]
    assert len(sends(remote)) == 1
