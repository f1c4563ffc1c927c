"""CancelTask: what stops, what does not, and what is told (protocol.md 3)."""

import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab, at_once, error, result, script, text_of, until

NOT_CANCELABLE = (-32002, "TASK_NOT_CANCELABLE")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("cancel"), config="[limits]\ncancel_grace_seconds = 0.5\n")
    yield started
    started.kill()


def _canceled(lab: Lab, task_id: str) -> dict[str, Any]:
    """Cancel it; the answer is the canceled task, and so is what everyone sees from then on."""
    task: dict[str, Any] = result(lab.cancel(task_id))
    assert task["id"] == task_id
    assert task["status"]["state"] == "TASK_STATE_CANCELED"
    assert lab.get(task_id) == task
    assert error(lab.cancel(task_id)) == NOT_CANCELABLE
    return task


def test_a_running_task_is_stopped_and_keeps_what_it_has_made(lab: Lab) -> None:
    task_id = lab.begin(["text", "half"], ["wait", "never"], ["text", " whole"])
    until(lambda: lab.get(task_id).get("artifacts"))

    task = _canceled(lab, task_id)

    assert text_of(task) == "half"
    assert lab.noted("canceled", task_id) == 1


def test_a_queued_task_is_canceled_and_never_runs(lab: Lab) -> None:
    running = lab.begin(["wait", "queue"], contextId="queue")
    queued = lab.begin(["text", "x"], contextId="queue")
    behind = lab.begin(["text", "y"], contextId="queue")

    _canceled(lab, queued)

    lab.open("queue")
    lab.reach(behind, "COMPLETED")
    assert lab.get(running)["status"]["state"] == "TASK_STATE_COMPLETED"
    assert lab.noted("run", queued) == 0


@pytest.mark.parametrize(
    "step", [["ask", "?"], ["ask-auth", "?"], ["raise", "InputRequired", "?"], ["raise", "AuthRequired", "?"]]
)
def test_an_interrupted_task_is_canceled_and_its_executor_hears_of_it(lab: Lab, step: list[Any]) -> None:
    task_id = result(lab.ask_for(["text", "x"], step))["task"]["id"]

    task = _canceled(lab, task_id)

    assert text_of(task) == "x"
    assert lab.noted("canceled", task_id) == step[0].startswith("ask")
    assert error(lab.ask_for(text="too late", taskId=task_id))[0] == -32004


@pytest.mark.parametrize("step", [["text", "x"], ["raise", "TaskFailed", "x"], ["raise", "TaskRejected", "x"]])
def test_a_task_that_has_ended_is_not_canceled(lab: Lab, step: list[Any]) -> None:
    task = result(lab.ask_for(step))["task"]

    assert error(lab.cancel(task["id"])) == NOT_CANCELABLE
    assert lab.get(task["id"]) == task


def test_a_task_that_is_not_there_is_not_found(lab: Lab) -> None:
    other = lab.create_inbound(preset="lab")
    theirs = result(lab.ask_for(["ask", "?"], inbound=other))["task"]["id"]

    for task_id in ("nope", theirs):
        assert error(lab.cancel(task_id)) == (-32001, "TASK_NOT_FOUND")
    assert lab.get(theirs, other)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


def test_twenty_cancels_at_once_all_get_the_canceled_task_and_the_executor_hears_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config="[limits]\ncancel_grace_seconds = 30\n")
    try:
        task_id = lab.begin(["text", "x"], ["linger", "let go"])
        until(lambda: lab.get(task_id).get("artifacts"))

        def let_go() -> None:
            until(lambda: sum(peer["method"] == "CancelTask" for peer in lab.read("")["peers"]) == 20)
            lab.open("let go")

        answers = at_once([*[partial(lab.cancel, task_id)] * 20, let_go])[:-1]
        tasks = [result(envelope) for envelope in answers]

        assert all(task == tasks[0] for task in tasks)
        assert tasks[0]["status"]["state"] == "TASK_STATE_CANCELED"
        assert text_of(tasks[0]) == "x"
        assert [lab.noted("lingered", task_id), lab.noted("canceled", task_id)] == [1, 1]
        assert error(lab.cancel(task_id)) == NOT_CANCELABLE
    finally:
        lab.kill()


def test_those_who_wait_and_read_are_told_of_the_cancel(lab: Lab) -> None:
    task_id = lab.begin(["wait", "never"], messageId="waited for")
    stream = lab.stream(lab.agent, "SubscribeToTask", {"id": task_id})
    next(stream)
    blocked, canceled = at_once([partial(lab.ask_for, text="x", messageId="waited for"), partial(lab.cancel, task_id)])

    assert result(blocked)["task"] == result(canceled)
    frames = [envelope["result"] for _, envelope in stream]
    assert frames[-2]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert frames[-1]["task"] == result(canceled)


@pytest.mark.parametrize("step", ["swallow", "ignore"])
def test_an_executor_that_does_not_take_a_cancel_is_abandoned(lab: Lab, step: str) -> None:
    gate = f"{step}-gate"
    task_id = lab.begin(["text", "before"], [step, gate], ["text", " after"])
    until(lambda: lab.get(task_id).get("artifacts"))

    task = _canceled(lab, task_id)

    lab.open(gate)
    until(lambda: lab.noted("swallowed" if step == "swallow" else "ignored", task_id))
    again = result(lab.ask_for(["text", "the next one"], contextId=task["contextId"]))["task"]
    assert text_of(again) == "the next one"
    assert lab.get(task_id) == task
    assert text_of(task) == "before"


def test_an_executor_that_blocks_a_thread_does_not_hold_up_the_cancel(lab: Lab) -> None:
    blocked = lab.begin(["text", "x"], ["block", "unblocked"], ["text", "y"])
    threaded = result(
        lab.rpc(
            lab.agent,
            "SendMessage",
            script(text="unblocked", metadata={"skill": "threaded"}, configuration={"returnImmediately": True}),
        )
    )["task"]["id"]
    started = time.monotonic()

    tasks = [_canceled(lab, task_id) for task_id in (blocked, threaded)]

    assert time.monotonic() - started < 15  # the threads would take 20 seconds each
    lab.open("unblocked")
    assert (
        result(lab.ask_for(["text", "z"], contextId=tasks[1]["contextId"]))["task"]["status"]["state"]
        == "TASK_STATE_COMPLETED"
    )
    assert [lab.get(task["id"]) for task in tasks] == tasks
    assert "artifacts" not in tasks[1]


def test_a_cancel_that_races_the_end_has_one_outcome_that_everyone_is_told(lab: Lab) -> None:
    luck = random.Random(7)
    outcomes = set()
    for n in range(200):
        steps = [["text", "a"]] * luck.choice((1, 5, 40))
        message_id = f"race-{n}"
        task_id = lab.begin(*steps, ["wait", f"race-{n // 2}"], ["text", "z"], messageId=message_id)
        calls = [
            partial(lab.cancel, task_id),
            lambda n=n: lab.open(f"race-{n // 2}"),
            partial(lab.ask_for, text="x", messageId=message_id),
        ]
        canceled, _, waited = at_once(calls)
        task = result(waited)["task"]
        seen = lab.get(task_id)
        assert seen == task
        if "error" in canceled:
            assert error(canceled) == NOT_CANCELABLE
            assert seen["status"]["state"] == "TASK_STATE_COMPLETED"
            assert text_of(seen).endswith("z")
        else:
            assert result(canceled) == seen
            assert seen["status"]["state"] == "TASK_STATE_CANCELED"
        outcomes.add(seen["status"]["state"])
    assert outcomes == {"TASK_STATE_CANCELED", "TASK_STATE_COMPLETED"}


def test_the_operator_cancels_likewise(lab: Lab) -> None:
    task_id = lab.begin(["wait", "never"])
    lab.act("task.cancel", id=task_id)
    assert lab.get(task_id)["status"]["state"] == "TASK_STATE_CANCELED"
    assert not lab.act("task.cancel", id=task_id, status=409)["ok"]
