"""A message that names a task (protocol.md 3, continuing)."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.lab import Lab, at_once, error, result, script, text_of, until, violations

STREAM = "SendStreamingMessage"
UNSUPPORTED = (-32004, "UNSUPPORTED_OPERATION")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("continuing"))
    yield started
    started.kill()


def _asked(lab: Lab, *steps: list[Any], **more: Any) -> dict[str, Any]:
    task: dict[str, Any] = result(lab.ask_for(*(steps or (["ask", "which?"],)), **more))["task"]
    return task


def test_a_question_ends_the_wait_and_its_answer_goes_on(lab: Lab) -> None:
    asked = _asked(lab, ["text", "before "], ["ask", "which one?"], ["text", "after"])
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert asked["status"]["message"]["parts"] == [{"text": "which one?"}]
    assert asked["status"]["message"]["role"] == "ROLE_AGENT"

    answered = result(lab.ask_for(text="the red one", taskId=asked["id"]))["task"]

    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [text_of(answered), text_of(answered, "answer")] == ["before after", "the red one"]
    assert [message["role"] for message in answered["history"]] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]
    assert lab.noted("run", asked["id"]) == 1
    assert lab.noted("resumed", asked["id"]) == 0


@pytest.mark.parametrize(("name", "state"), [("InputRequired", "INPUT_REQUIRED"), ("AuthRequired", "AUTH_REQUIRED")])
def test_an_interruption_that_was_raised_is_answered_by_a_new_run(lab: Lab, name: str, state: str) -> None:
    asked = _asked(lab, ["text", "kept "], ["raise", name, "say more"])
    assert asked["status"]["state"] == f"TASK_STATE_{state}"
    assert asked["status"]["message"]["parts"] == [{"text": "say more"}]

    answered = result(lab.ask_for(["text", "and more"], taskId=asked["id"], contextId=asked["contextId"]))["task"]

    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(answered) == "kept and more"
    assert [lab.noted("run", asked["id"]), lab.noted("resumed", asked["id"])] == [1, 1]


def test_an_interruption_that_was_yielded_is_the_same_as_one_that_was_raised(lab: Lab) -> None:
    asked = _asked(lab, ["status", "TASK_STATE_INPUT_REQUIRED", "hm?"], ["text", "never"])
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"

    answered = result(lab.ask_for(["text", "now"], taskId=asked["id"]))["task"]

    assert text_of(answered) == "now"
    assert lab.noted("resumed", asked["id"]) == 1


def test_a_task_can_ask_again_and_again(lab: Lab) -> None:
    task = _asked(lab, *[["ask", f"question {n}"] for n in range(5)])
    for n in range(5):
        assert task["status"]["message"]["parts"] == [{"text": f"question {n}"}]
        task = result(lab.ask_for(text=f"answer {n}", taskId=task["id"]))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [part["text"] for message in task["history"] for part in message["parts"] if "text" in part] == [
        text for n in range(5) for text in (f"question {n}", f"answer {n}")
    ]


def test_an_answer_can_be_streamed_from_where_the_task_is(lab: Lab) -> None:
    asked = _asked(lab, ["text", "a"], ["ask", "?"], ["text", "b"])

    frames = lab.collect(STREAM, script(text="yes", taskId=asked["id"]))

    first, last = frames[0][1]["task"], frames[-1][1]["task"]
    assert text_of(first) == "a"
    assert first["status"]["state"] == "TASK_STATE_WORKING"
    assert first["history"][-1]["parts"] == [{"text": "yes"}]
    assert text_of(last) == "ab"
    numbers = [number for number, _ in frames if number is not None]
    assert numbers == list(range(numbers[0], numbers[0] + len(frames)))
    assert numbers[0] > 2


def test_the_task_alone_keeps_its_context(lab: Lab) -> None:
    asked = _asked(lab, contextId="kept")
    answered = result(lab.ask_for(text="x", taskId=asked["id"]))["task"]

    assert answered["contextId"] == "kept"
    assert {message["contextId"] for message in answered["history"]} == {"kept"}
    assert {message["taskId"] for message in answered["history"]} == {asked["id"]}


def test_a_task_that_is_not_there_or_another_agents_is_not_found(lab: Lab) -> None:
    other = lab.create_inbound(preset="lab")
    theirs = _asked(lab, inbound=other)

    for task_id in ("nope", theirs["id"], theirs["id"].upper(), theirs["contextId"]):
        for method in ("SendMessage", STREAM):
            refused = lab.rpc(lab.agent, method, script(text="x", taskId=task_id))
            assert error(refused) == (-32001, "TASK_NOT_FOUND")
    assert lab.get(theirs["id"], other)["status"] == theirs["status"]


@pytest.mark.parametrize(
    "steps",
    [
        [["text", "x"]],
        [["raise", "TaskFailed", "x"]],
        [["raise", "TaskRejected", "x"]],
        [["status", "TASK_STATE_COMPLETED"]],
    ],
)
def test_a_task_that_has_ended_takes_no_message_and_does_not_change(lab: Lab, steps: list[Any]) -> None:
    ended = result(lab.ask_for(*steps))["task"]

    for method in ("SendMessage", STREAM):
        assert error(lab.rpc(lab.agent, method, script(text="more", taskId=ended["id"]))) == UNSUPPORTED
    assert lab.get(ended["id"]) == ended


def test_a_task_that_runs_or_is_canceled_takes_no_message(lab: Lab) -> None:
    running = lab.started(["wait", "never"], contextId="busy")
    queued = lab.started(["text", "x"], contextId="busy")
    assert [running["status"]["state"], queued["status"]["state"]] == ["TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"]

    for task in (running, queued):
        for method in ("SendMessage", STREAM):
            assert error(lab.rpc(lab.agent, method, script(text="more", taskId=task["id"]))) == UNSUPPORTED
    assert lab.get(running["id"]) == running
    lab.cancel(running["id"])
    assert error(lab.ask_for(text="more", taskId=running["id"])) == UNSUPPORTED


def test_another_context_is_refused_and_nothing_is_written(lab: Lab) -> None:
    asked = _asked(lab, contextId="A")
    endpoint, wanted = (
        lab.endpoint(lab.agent),
        {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": asked["id"]}},
    )
    before = lab.request("POST", endpoint, wanted)

    for method in ("SendMessage", STREAM):
        refused = lab.rpc(lab.agent, method, script(text="x", taskId=asked["id"], contextId="B", messageId="mismatch"))
        assert violations(refused) == ["message.contextId"]

    assert lab.request("POST", endpoint, wanted) == before
    assert lab.listed(contextId="B")["totalSize"] == 0
    # and what was refused may still be sent rightly
    answered = result(lab.ask_for(text="x", taskId=asked["id"], contextId="A", messageId="mismatch"))["task"]
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"


def test_of_two_answers_at_once_one_wins(lab: Lab) -> None:
    for n in range(10):
        asked = _asked(lab, ["ask", "?"], ["wait", f"decided-{n}"])
        send = [
            partial(lab.ask_for, text=text, taskId=asked["id"], configuration={"returnImmediately": True})
            for text in ("left", "right")
        ]
        answers = at_once(send)
        lab.open(f"decided-{n}")

        refused = [answer for answer in answers if "error" in answer]
        assert len(refused) == 1
        assert error(refused[0]) == UNSUPPORTED
        ended = lab.reach(asked["id"], "COMPLETED")
        winner = "left" if answers[1] is refused[0] else "right"
        assert text_of(ended, "answer") == winner
        assert [m["parts"] for m in ended["history"] if m["role"] == "ROLE_USER"][1:] == [[{"text": winner}]]


def test_an_interrupted_task_does_not_hold_up_its_context_and_goes_on_at_the_head_of_the_line(lab: Lab) -> None:
    asked = _asked(lab, ["ask", "?"], ["text", "first again"], contextId="line")
    running = lab.begin(["wait", "line-go"], ["text", "x"], contextId="line")
    lab.reach(running, "WORKING")
    behind = lab.begin(["text", "y"], contextId="line")
    answered = result(lab.ask_for(text="go on", taskId=asked["id"], configuration={"returnImmediately": True}))["task"]
    assert answered["status"]["state"] == "TASK_STATE_WORKING"
    assert lab.get(behind)["status"]["state"] == "TASK_STATE_SUBMITTED"

    lab.open("line-go")

    lab.reach(behind, "COMPLETED")
    notes = (lab.folder / "runs").read_text().splitlines()
    order = [notes.index(f"done {task_id}") for task_id in (running, asked["id"], behind)]
    assert order == sorted(order)


def test_after_a_restart_the_answer_starts_a_new_run(tmp_path: Any) -> None:
    first = Lab(tmp_path)
    asked = {
        kind: result(first.ask_for(["text", "before "], step, ["text", "lost"]))["task"]
        for kind, step in {
            "ask": ["ask", "?"],
            "auth": ["ask-auth", "who?"],
            "raised": ["raise", "InputRequired", "?"],
        }.items()
    }
    first.kill()

    second = Lab(tmp_path)
    try:
        second.agent = first.agent
        for task in asked.values():
            assert second.get(task["id"]) == task
            answered = result(second.ask_for(["text", "after"], taskId=task["id"]))["task"]
            assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
            assert text_of(answered) == "before after"
            assert second.noted("resumed", task["id"]) == 1
    finally:
        second.kill()


def test_the_operator_can_answer_too(lab: Lab) -> None:
    asked = _asked(lab)
    lab.act("inbound.sendTest", id=lab.agent, text="from the panel", taskId=asked["id"])

    task = until(lambda: t if (t := lab.get(asked["id"]))["status"]["state"] == "TASK_STATE_COMPLETED" else None)
    assert text_of(task, "answer") == "from the panel"
