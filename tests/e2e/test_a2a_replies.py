"""A direct answer: a message instead of a task (protocol.md 3)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import Lab, at_once, error, result, text_of, until

STREAM = "SendStreamingMessage"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("replies"))
    yield started
    started.kill()


def _params(text: str, *steps: list[Any], configuration: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    parts = [{"text": text}] + ([{"data": list(steps)}] if steps else [])
    message = {"role": "ROLE_USER", "parts": parts, "metadata": {"skill": "replying"}, **more}
    return {"message": message, "configuration": configuration or {}}


def _send(lab: Lab, text: str, *steps: list[Any], **more: Any) -> Any:
    return result(lab.rpc(lab.agent, "SendMessage", _params(text, *steps, **more)))


def test_a_direct_answer_is_a_message_and_no_task_is_kept(lab: Lab) -> None:
    answer = _send(lab, "hello", contextId="direct")

    assert set(answer) == {"message"}
    message = answer["message"]
    assert message["parts"] == [{"text": "re: hello"}]
    assert [message["role"], message["contextId"]] == ["ROLE_AGENT", "direct"]
    assert message["metadata"] == {"direct": True}
    assert message["messageId"]
    assert "taskId" not in message
    assert lab.listed(contextId="direct")["totalSize"] == 0
    assert all(row["contextId"] != "direct" for row in lab.read("?taskLimit=500")["tasks"])


def test_a_streamed_direct_answer_is_one_frame(lab: Lab) -> None:
    frames = lab.collect(STREAM, _params("hello", contextId="streamed"))

    assert len(frames) == 1
    number, frame = frames[0]
    assert number == 1
    assert set(frame) == {"message"}
    assert frame["message"]["parts"] == [{"text": "re: hello"}]
    assert lab.listed(contextId="streamed")["totalSize"] == 0


def test_a_repeated_message_gets_the_same_answer_and_nothing_runs_twice(lab: Lab) -> None:
    before = lab.noted("run")
    first = _send(lab, "hello", messageId="again")

    assert _send(lab, "other", messageId="again") == first
    assert [frame for _, frame in lab.collect(STREAM, _params("x", messageId="again"))] == [first]
    assert _send(lab, "x", messageId="again", configuration={"returnImmediately": True}) == first
    assert lab.noted("run") == before + 1


def test_copies_at_one_moment_get_one_answer(lab: Lab) -> None:
    before = lab.noted("run")
    calls = [
        lambda: _send(lab, "gate-copies", messageId="copies"),
        lambda: lab.collect(STREAM, _params("gate-copies", messageId="copies"))[-1][1],
    ] * 10
    answers = at_once([*calls, lambda: lab.open("gate-copies") or {}])[:-1]

    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["message"]["parts"] == [{"text": "re: gate-copies"}]
    assert lab.noted("run") == before + 1


def test_the_answer_is_remembered_after_a_restart(tmp_path: Any) -> None:
    first = Lab(tmp_path)
    answer = _send(first, "hello", messageId="kept")
    assert first.terminate() == 0

    second = Lab(tmp_path)
    try:
        second.agent = first.agent
        assert _send(second, "hello", messageId="kept") == answer
        assert second.listed()["totalSize"] == 0
        assert second.noted("run") == 1
    finally:
        second.kill()


def test_while_the_answer_is_being_made_there_is_no_task_to_find(lab: Lab) -> None:
    stream = lab.stream(lab.agent, STREAM, _params("gate-hidden", contextId="hidden"))
    call = at_once([lambda: lab.listed(contextId="hidden")["totalSize"], lambda: lab.open("gate-hidden") or 0])
    frames = list(stream)

    assert call[0] == 0
    assert "message" in frames[0][1]["result"]


def test_a_caller_that_does_not_wait_gets_a_task(lab: Lab) -> None:
    answer = _send(lab, "hello", contextId="immediate", configuration={"returnImmediately": True})
    task_id = answer["task"]["id"]

    assert lab.listed(contextId="immediate")["totalSize"] == 1
    ended = until(lambda: task if (task := lab.get(task_id))["status"]["state"] != "TASK_STATE_WORKING" else None)
    assert ended["status"]["state"] == "TASK_STATE_COMPLETED"
    said = [part for artifact in ended.get("artifacts", ()) for part in artifact["parts"]]
    said += ended["status"].get("message", {"parts": []})["parts"]
    assert said == [{"text": "re: hello"}]


def test_an_executor_that_may_reply_may_make_a_task_all_the_same(lab: Lab) -> None:
    task = _send(lab, "task", ["text", "a"], ["text", "b"], contextId="as task")["task"]
    assert text_of(task) == "ab"
    assert lab.get(task["id"]) == task
    assert lab.listed(contextId="as task")["totalSize"] == 1

    frames = lab.collect(STREAM, _params("task", ["note", "hm"], ["text", "a"]))
    assert "task" in frames[0][1]
    assert [number for number, _ in frames] == list(range(1, len(frames) + 1))
    assert text_of(frames[-1][1]["task"]) == "a"

    failed = _send(lab, "task", ["raise", "TaskFailed", "no"])["task"]
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    empty = lab.collect(STREAM, _params("task", ["wait", "gate-copies"]))
    assert empty[-1][1]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_question_makes_it_a_task(lab: Lab) -> None:
    asked = _send(lab, "ask", contextId="asking")["task"]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert lab.listed(contextId="asking")["totalSize"] == 1

    answered = _send(lab, "this", taskId=asked["id"])["task"]
    assert text_of(answered) == "this"


def test_a_reply_that_had_to_wait_for_its_turn_is_a_reply_all_the_same(lab: Lab) -> None:
    running = lab.begin(["wait", "turn"], contextId="turns")
    stream = lab.stream(lab.agent, STREAM, _params("hello", contextId="turns"))
    assert lab.get(running)["status"]["state"] == "TASK_STATE_WORKING"

    lab.open("turn")

    assert [set(envelope["result"]) for _, envelope in stream] == [{"message"}]
    assert lab.get(running)["status"]["state"] == "TASK_STATE_COMPLETED"
    assert error(lab.rpc(lab.agent, "GetTask", {"id": "hello"}))[0] == -32001
