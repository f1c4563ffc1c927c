"""A message that is sent twice is one message (protocol.md 3, idempotency)."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.lab import Lab, at_once, error, exchange, result, script, text_of

STREAM = "SendStreamingMessage"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("idempotency"))
    yield started
    started.kill()


def test_a_repeated_message_is_the_task_that_it_made_whatever_else_it_says(lab: Lab) -> None:
    first = result(lab.ask_for(["text", "once"], messageId="m1", contextId="ctx"))["task"]

    for again in (
        lab.ask_for(["text", "once"], messageId="m1", contextId="ctx"),
        lab.ask_for(["text", "twice"], messageId="m1"),
        lab.ask_for(["raise", "TaskFailed", "no"], messageId="m1", contextId="other"),
        lab.ask_for(text="x", messageId="m1", metadata={"skill": "threaded"}),
        lab.ask_for(text="x", messageId="m1", metadata={"skill": "no such skill"}),
        lab.ask_for(text="x", messageId="m1", taskId=first["id"]),
        lab.ask_for(text="x", messageId="m1", taskId="no such task"),
        lab.ask_for(text="x", messageId="m1", configuration={"returnImmediately": True}),
    ):
        assert result(again)["task"] == first
    assert lab.noted("run", first["id"]) == 1
    assert lab.listed(contextId="ctx")["totalSize"] == 1
    assert lab.listed(contextId="other")["totalSize"] == 0


def test_a_repetition_is_shaped_by_its_own_request(lab: Lab) -> None:
    task = result(lab.ask_for(["note", "hm"], messageId="shaped"))["task"]

    again = result(lab.ask_for(messageId="shaped", text="x", configuration={"historyLength": 1}))["task"]
    bare = result(lab.ask_for(messageId="shaped", text="x", configuration={"historyLength": 0}))["task"]

    assert again["history"] == task["history"][-1:]
    assert "history" not in bare


def test_a_streamed_repetition_of_an_ended_task_is_one_frame(lab: Lab) -> None:
    task = result(lab.ask_for(["text", "x"], messageId="m2"))["task"]

    frames = lab.collect(STREAM, script(["text", "other"], messageId="m2"))

    assert [frame for _, frame in frames] == [{"task": task}]
    assert lab.noted("run", task["id"]) == 1


def test_a_repetition_of_a_running_task_waits_for_it_or_joins_its_stream(lab: Lab) -> None:
    steps = ["text", "a"], ["wait", "go3"], ["text", "b"]
    task_id = lab.begin(*steps, messageId="m3")
    stream = lab.stream(lab.agent, STREAM, script(*steps, messageId="m3"))
    first = next(stream)[1]["result"]["task"]

    blocking = partial(lab.ask_for, *steps, messageId="m3")
    immediate = result(lab.ask_for(*steps, messageId="m3", configuration={"returnImmediately": True}))["task"]
    answers = at_once([blocking, lambda: lab.open("go3"), blocking])

    assert first["id"] == immediate["id"] == task_id
    assert immediate["status"]["state"] == "TASK_STATE_WORKING"
    for answer in (answers[0], answers[2]):
        assert text_of(result(answer)["task"]) == "ab"
    last = [frame for _, frame in stream][-1]["result"]["task"]
    assert text_of(last) == "ab"
    assert lab.noted("run", task_id) == 1


def test_fifty_copies_at_one_moment_make_one_task_and_one_run(lab: Lab) -> None:
    luck = random.Random(1)
    for round_ in range(4):
        name = f"copies-{round_}"

        def blocking(name: str = name) -> dict[str, Any]:
            return result(lab.ask_for(["count", 20, 0.001], messageId=name, contextId=name))["task"]

        def streaming(name: str = name) -> dict[str, Any]:
            frames = lab.collect(STREAM, script(["count", 20, 0.001], messageId=name, contextId=name))
            return frames[-1][1]["task"]

        tasks = at_once([luck.choice((blocking, streaming)) for _ in range(50)])

        assert all(task == tasks[0] for task in tasks)
        assert tasks[0]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert text_of(tasks[0]) == "".join(f"{n}." for n in range(20))
        assert lab.noted("run", tasks[0]["id"]) == 1
        assert lab.listed(contextId=name)["totalSize"] == 1


def test_copies_without_a_context_agree_on_one(lab: Lab) -> None:
    tasks = at_once([lambda: result(lab.ask_for(["text", "x"], messageId="nowhere"))["task"]] * 20)

    assert {(task["id"], task["contextId"]) for task in tasks} == {(tasks[0]["id"], tasks[0]["contextId"])}


def test_a_repeated_answer_to_a_question_is_one_answer(lab: Lab) -> None:
    asked = result(lab.ask_for(["ask", "which?"], ["text", "thanks"]))["task"]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"

    answer = partial(lab.ask_for, text="this one", taskId=asked["id"], messageId="the answer")
    tasks = [result(envelope)["task"] for envelope in at_once([answer] * 10)]

    assert all(task == tasks[0] for task in tasks)
    assert [text_of(tasks[0], "answer"), text_of(tasks[0])] == ["this one", "thanks"]
    assert [m["messageId"] for m in tasks[0]["history"]].count("the answer") == 1
    assert result(answer())["task"] == tasks[0]


def test_without_an_id_or_with_another_one_a_message_is_a_new_one(lab: Lab) -> None:
    given: list[dict[str, str]] = [{}, {}] + [{"messageId": name} for name in ("", "", "n1", "N1", "n1 ")]
    ids = {result(lab.ask_for(["text", "x"], **more))["task"]["id"] for more in given}
    assert len(ids) == 7


def test_a_message_is_known_to_its_agent_alone(lab: Lab) -> None:
    other = lab.create_inbound(preset="lab")
    mine = result(lab.ask_for(["text", "x"], messageId="shared"))["task"]
    theirs = result(lab.ask_for(["text", "y"], messageId="shared", inbound=other))["task"]

    assert mine["id"] != theirs["id"]
    assert text_of(theirs) == "y"


def test_a_message_is_known_by_its_caller(lab: Lab) -> None:
    agent = lab.create_inbound(preset="lab")

    def send(text: str, token: str = "") -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return result(lab.rpc(agent, "SendMessage", script(["text", text], messageId="m"), headers=headers))["task"]

    nobody = send("nobody")
    lab.act("inbound.setAuth", id=agent, token="one")
    named = send("named", "one")
    lab.act("inbound.setAuth", id=agent, token="two")
    renewed = send("renewed", "two")
    lab.act("inbound.setAuth", id=agent)
    again = send("again")

    assert named["id"] != nobody["id"]
    assert renewed == named
    assert again == nobody


def test_what_was_refused_is_not_remembered(lab: Lab) -> None:
    refused = lab.ask_for(["text", "x"], messageId="later", metadata={"skill": "nope"})
    assert error(refused)[0] == -32602

    assert text_of(result(lab.ask_for(["text", "x"], messageId="later"))["task"]) == "x"


@pytest.mark.parametrize("message_id", ["x" * 1024, "é\N{GRINNING FACE}\0'\"\\", "../../etc/passwd", "%s", " "])
def test_an_id_may_be_any_text(lab: Lab, message_id: str) -> None:
    first = result(lab.ask_for(["text", "x"], messageId=message_id))["task"]
    again = result(lab.ask_for(["text", "x"], messageId=message_id))["task"]

    assert again == first
    assert first["history"][0]["messageId"] == message_id


def test_a_repetition_is_recognized_after_a_restart_and_after_a_crash(lab: Lab, tmp_path: Any) -> None:
    first = Lab(tmp_path)
    ended = result(first.ask_for(["text", "x"], messageId="ended"))["task"]
    asked = result(first.ask_for(["ask", "?"], messageId="asked"))["task"]
    first.kill()

    second = Lab(tmp_path)
    try:
        second.agent = first.agent
        assert result(second.ask_for(["text", "y"], messageId="ended"))["task"] == ended
        assert result(second.ask_for(["text", "y"], messageId="asked"))["task"]["id"] == asked["id"]
        assert [second.noted("run", task["id"]) for task in (ended, asked)] == [1, 1]
        assert exchange(f"{second.endpoint(first.agent)}/agent-card.json", "GET").status == 200
    finally:
        second.kill()
