"""SubscribeToTask: the seam between snapshot and frames, Last-Event-ID, interruptions, slow readers (protocol.md 4)."""

import json
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.lab import Lab, connect, head, result, script, text_of, until

SEND, SUBSCRIBE = "SendStreamingMessage", "SubscribeToTask"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("subscribing"))
    yield started
    started.kill()


def _subscribe(lab: Lab, task_id: str, last: object = None) -> Iterator[tuple[int | None, Any]]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    for number, envelope in lab.stream(lab.agent, SUBSCRIBE, {"id": task_id}, headers=headers):
        yield number, result(envelope)


def _statuses(frames: list[tuple[int | None, Any]]) -> list[tuple[int | None, str]]:
    return [
        (number, frame["statusUpdate"]["status"]["message"]["parts"][0]["text"])
        for number, frame in frames
        if "statusUpdate" in frame and "message" in frame["statusUpdate"]["status"]
    ]


def test_a_subscriber_gets_the_task_as_it_is_and_then_every_further_frame(lab: Lab) -> None:
    task_id = lab.begin(["note", "one"], ["text", "a"], ["wait", "then"], ["note", "two"], ["text", "b"])
    until(lambda: lab.get(task_id).get("artifacts"))
    stream = _subscribe(lab, task_id)

    number, first = next(stream)
    lab.open("then")
    rest = list(stream)

    assert text_of(first["task"]) == "a"
    assert number == 3  # the newest frame that the snapshot includes: task, note, text
    assert [frame for frame, _ in rest] == list(range(4, 8))
    assert _statuses(rest) == [(4, "two")]
    assert text_of(rest[-1][1]["task"]) == "ab"


def test_no_frame_is_lost_or_doubled_between_the_snapshot_and_what_follows(lab: Lab) -> None:
    luck = random.Random(3)
    chunks = 300
    whole = "".join(f"{n}." for n in range(chunks))

    def follow(task_id: str, delay: float) -> tuple[str, str, list[int | None]] | None:
        threading.Event().wait(delay)
        answer = lab.rpc(lab.agent, "GetTask", {"id": task_id})
        if answer["result"]["status"]["state"] == "TASK_STATE_COMPLETED":
            return None
        try:
            frames = list(_subscribe(lab, task_id))
        except AssertionError:  # it ended in between, and that is plain JSON
            return None
        snapshot = frames[0][1]["task"]
        text = text_of(snapshot) if "artifacts" in snapshot else ""
        for _, frame in frames[1:]:
            if "artifactUpdate" in frame:
                text += frame["artifactUpdate"]["artifact"]["parts"][0]["text"]
        return text, text_of(frames[-1][1]["task"]), [number for number, _ in frames]

    followed = 0
    with ThreadPoolExecutor(16) as pool:
        for _ in range(10):
            task_id = lab.begin(["count", chunks, 0.001])
            for found in pool.map(lambda delay, t=task_id: follow(t, delay), [luck.random() * 0.4 for _ in range(24)]):
                if found is not None:
                    followed += 1
                    text, last, numbers = found
                    assert text == whole
                    assert last == whole
                    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert followed > 60


def test_a_resumed_stream_repeats_the_status_frames_that_were_missed_and_no_artifact(lab: Lab) -> None:
    steps = [step for n in range(5) for step in (["note", f"note {n}"], ["text", str(n)])]
    task_id = lab.begin(*steps, ["wait", "resumed"], ["note", "live"])
    until(lambda: lab.get(task_id).get("artifacts") and text_of(lab.get(task_id)) == "01234")
    # 1 task, then note and text in turn: the notes are 2, 4, 6, 8, 10
    for last, repeated in (
        (0, [2, 4, 6, 8, 10]),
        (1, [2, 4, 6, 8, 10]),
        (4, [6, 8, 10]),
        (5, [6, 8, 10]),
        (10, []),
        (11, []),
        (999, []),
    ):
        stream = _subscribe(lab, task_id, last)
        got = [next(stream) for _ in range(1 + len(repeated))]
        assert got[0][0] == min(last, 11)
        assert text_of(got[0][1]["task"]) == "01234"
        assert _statuses(got) == [(n, f"note {n // 2 - 1}") for n in repeated]
        stream.close()
    for ignored in ("x", "", "-1", "1.5", "\u0661".encode().decode("latin-1"), "9" * 30):
        stream = _subscribe(lab, task_id, ignored)
        assert next(stream)[0] == 11
        stream.close()

    stream = _subscribe(lab, task_id, 8)
    got = [next(stream), next(stream)]
    lab.open("resumed")
    frames = [*got, *stream]

    assert _statuses(frames)[:2] == [(10, "note 4"), (12, "live")]
    assert [number for number, _ in frames] == [8, 10, 12, 13, 14]
    assert "task" in frames[-1][1]


def test_the_newest_200_status_frames_are_kept(lab: Lab) -> None:
    task_id = lab.begin(*[["note", f"note {n}"] for n in range(300)], ["wait", "kept"])
    until(lambda: len(lab.get(task_id)["history"]) == 301)

    stream = _subscribe(lab, task_id, 0)
    got = [next(stream) for _ in range(201)]
    lab.open("kept")

    assert _statuses(got) == [(n + 2, f"note {n}") for n in range(100, 300)]
    assert got[0][0] == 0
    assert [number for number, _ in stream] == [302, 303]


def test_numbers_and_replay_go_on_after_a_crash(tmp_path: Any) -> None:
    first = Lab(tmp_path)
    asked = result(first.ask_for(["note", "one"], ["text", "a"], ["note", "two"], ["ask", "which?"]))["task"]
    before = list(_take(_subscribe(first, asked["id"], 0), 4))
    assert _statuses(before) == [(2, "one"), (4, "two"), (5, "which?")]
    first.kill()

    second = Lab(tmp_path)
    try:
        second.agent = first.agent
        stream = _subscribe(second, asked["id"], 2)
        got = list(_take(stream, 3))
        assert got[0][0] == 2
        assert got[0][1]["task"] == asked
        assert _statuses(got) == [(4, "two"), (5, "which?")]
        answered = result(second.ask_for(["note", "three"], ["text", "b"], taskId=asked["id"]))["task"]
        rest = list(stream)
        numbers = [number for number, _ in rest]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] > 6  # the crash repeats none: 6 was the last task frame
        assert [text for _, text in _statuses(rest)] == ["three"]
        assert rest[-1][1]["task"] == answered
        assert text_of(answered) == "ab"
    finally:
        second.kill()


def _take(stream: Iterator[Any], count: int) -> Iterator[Any]:
    for _ in range(count):
        yield next(stream)


def test_the_stream_of_a_message_ends_with_a_question_and_that_of_a_subscriber_goes_on(lab: Lab) -> None:
    steps = ["text", "a"], ["wait", "question"], ["ask", "which?"], ["text", "b"]
    sending = lab.stream(lab.agent, SEND, script(*steps))
    task_id = next(sending)[1]["result"]["task"]["id"]
    subscribed = _subscribe(lab, task_id)
    next(subscribed)

    lab.open("question")
    sent = [envelope["result"] for _, envelope in sending]

    assert sent[-2]["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert sent[-1]["task"]["status"] == sent[-2]["statusUpdate"]["status"]
    assert text_of(sent[-1]["task"]) == "a"

    lab.ask_for(text="this", taskId=task_id)
    frames = [frame for _, frame in subscribed]
    states = [frame["statusUpdate"]["status"]["state"] for frame in frames if "statusUpdate" in frame]
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert text_of(frames[-1]["task"]) == "ab"


def test_the_stream_of_a_message_stays_open_while_a_run_waits_for_a_credential(lab: Lab) -> None:
    sending = lab.stream(lab.agent, SEND, script(["ask-auth", "who are you?"], ["text", "b"]))
    task_id = next(sending)[1]["result"]["task"]["id"]
    lab.reach(task_id, "AUTH_REQUIRED")

    lab.ask_for(text="me", taskId=task_id)

    frames = [envelope["result"] for _, envelope in sending]
    states = [frame["statusUpdate"]["status"]["state"] for frame in frames if "statusUpdate" in frame]
    assert states == ["TASK_STATE_AUTH_REQUIRED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert text_of(frames[-1]["task"]) == "b"


@pytest.mark.parametrize("name", ["InputRequired", "AuthRequired"])
def test_the_stream_of_a_message_ends_where_the_run_has_ended_with_a_question(lab: Lab, name: str) -> None:
    frames = lab.collect(SEND, script(["text", "a"], ["raise", name, "?"]))
    assert frames[-1][1]["task"]["status"] == frames[-2][1]["statusUpdate"]["status"]

    task_id = frames[-1][1]["task"]["id"]
    subscribed = _subscribe(lab, task_id)
    number, snapshot = next(subscribed)
    assert snapshot == frames[-1][1]
    assert number == frames[-1][0]
    lab.ask_for(["text", "b"], taskId=task_id)
    assert text_of(list(subscribed)[-1][1]["task"]) == "ab"


def test_a_subscriber_of_a_task_that_waits_for_its_turn_sees_it_begin(lab: Lab) -> None:
    lab.begin(["wait", "turn"], contextId="turn")
    queued = lab.begin(["text", "x"], contextId="turn")
    stream = _subscribe(lab, queued)
    assert next(stream)[1]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"

    lab.open("turn")

    frames = [frame for _, frame in stream]
    assert frames[0]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
    assert text_of(frames[-1]["task"]) == "x"


def test_a_reader_that_never_reads_is_cut_and_holds_up_nobody(lab: Lab) -> None:
    task_id = lab.begin(["wait", "stalled"], ["large", 100_000, 200])
    with connect(lab.url) as stalled:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": SUBSCRIBE, "params": {"id": task_id}}).encode()
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        stalled.sendall(head(lab.endpoint(lab.agent), *lines) + body)
        until(lambda: [peer for peer in lab.read("")["peers"] if peer["taskIds"] == [task_id]])
        reading = _subscribe(lab, task_id)
        next(reading)

        lab.open("stalled")
        got = [frame["artifactUpdate"] for _, frame in reading if "artifactUpdate" in frame]

        assert "".join(update["artifact"]["parts"][0]["text"] for update in got) == "x" * 20_000_000
        assert len(text_of(lab.reach(task_id, "COMPLETED"))) == 20_000_000
        until(lambda: not [peer for peer in lab.read("")["peers"] if peer["taskIds"] == [task_id]])
        # a stream that was cut does not look like a whole one
        assert not _drain(stalled).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("size", [100_000, 5_000_000])
def test_a_reader_that_keeps_up_gets_a_last_task_that_is_larger_than_its_buffer(lab: Lab, size: int) -> None:
    frames = lab.collect(SEND, script(["large", size, 10_000_000 // size]))

    assert "task" in frames[-1][1]
    assert len(text_of(frames[-1][1]["task"])) == 10_000_000


def _drain(sock: socket.socket) -> bytes:
    got = b""
    try:
        while piece := sock.recv(1 << 20):
            got += piece
    except ConnectionError:
        pass
    return got
