"""Runs and the line for them are bounded; past the bound new work is refused and all else is answered."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import Answer, Lab, error, exchange, result, script, text_of, until

CONFIG = "[limits]\nruns = 2\nruns_per_inbound = 1\nqueued = 3\n"


@pytest.fixture
def lab(tmp_path: Any) -> Iterator[Lab]:
    started = Lab(tmp_path, config=CONFIG)
    yield started
    started.kill()


def _refused(lab: Lab, method: str = "SendMessage", **more: Any) -> Answer:
    import json

    call = {"jsonrpc": "2.0", "id": 7, "method": method, "params": script(["text", "x"], **more)}
    answer = exchange(lab.endpoint(lab.agent), body=json.dumps(call).encode())
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.headers["Content-Type"] == "application/json"
    assert error(answer.json) == (-32603, "RESOURCE_EXHAUSTED")
    assert answer.json["id"] == 7
    return answer


def test_a_full_line_refuses_new_work_alone(lab: Lab) -> None:
    interrupted = result(lab.ask_for(["raise", "InputRequired", "?"]))["task"]["id"]
    running = lab.begin(["text", "r"], ["wait", "go"], messageId="running")
    queued = [lab.begin(["text", str(n)], messageId=f"queued-{n}") for n in range(3)]
    states = {lab.get(task_id)["status"]["state"] for task_id in queued}
    assert states == {"TASK_STATE_SUBMITTED"}

    for _ in range(3):
        _refused(lab)
        _refused(lab, method="SendStreamingMessage")
        _refused(lab, configuration={"returnImmediately": True})
        _refused(lab, taskId=interrupted)
    # everything else is answered
    assert lab.listed()["totalSize"] == 5
    assert (
        result(lab.ask_for(text="x", messageId="queued-1", configuration={"returnImmediately": True}))["task"]["id"]
        == queued[1]
    )
    assert error(lab.ask_for(text="x", taskId=running))[0] == -32004
    assert error(lab.ask_for(text="x", taskId="nope"))[0] == -32001
    assert error(lab.ask_for(text="x", metadata={"skill": "nope"}))[0] == -32602
    assert "name" in result(lab.rpc(lab.agent, "GetExtendedAgentCard", {}))
    stream = lab.stream(lab.agent, "SubscribeToTask", {"id": queued[0]})
    assert next(stream)[1]["result"]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    other = lab.create_inbound(preset="lab")
    assert text_of(result(lab.ask_for(["text", "free"], inbound=other))["task"]) == "free"
    assert result(lab.cancel(queued[2]))["status"]["state"] == "TASK_STATE_CANCELED"
    lab.begin(["text", "in its place"])
    _refused(lab)

    lab.open("go")

    assert text_of([envelope["result"] for _, envelope in stream][-1]["task"]) == "0"
    for task_id in (running, *queued[:2]):
        lab.reach(task_id, "COMPLETED")
    until(lambda: not lab.listed(status="TASK_STATE_SUBMITTED")["totalSize"])
    assert text_of(result(lab.ask_for(["text", "again"]))["task"]) == "again"
    assert text_of(result(lab.ask_for(["text", "resumed"], taskId=interrupted))["task"]) == "resumed"


def test_no_more_run_at_once_than_may_and_an_agent_does_not_keep_the_others_out(lab: Lab) -> None:
    second, third = lab.create_inbound(preset="lab"), lab.create_inbound(preset="lab")

    def begin(inbound: str) -> dict[str, Any]:
        return lab.started(["wait", "slots"], inbound=inbound)

    tasks = [begin(inbound) for inbound in (lab.agent, lab.agent, second, third)]

    states = [task["status"]["state"].removeprefix("TASK_STATE_") for task in tasks]
    assert states == ["WORKING", "SUBMITTED", "WORKING", "SUBMITTED"]
    lab.open("slots")
    for task, inbound in zip(tasks, (lab.agent, lab.agent, second, third), strict=True):
        until(lambda task=task, inbound=inbound: "COMPLETED" in lab.get(task["id"], inbound)["status"]["state"])


def test_a_task_that_asks_gives_its_slot_to_the_next(lab: Lab) -> None:
    asked = result(lab.ask_for(["ask", "?"], ["text", "done"]))["task"]["id"]

    assert text_of(result(lab.ask_for(["text", "meanwhile"]))["task"]) == "meanwhile"

    running = lab.begin(["wait", "asks"])
    answered = result(lab.ask_for(text="yes", taskId=asked, configuration={"returnImmediately": True}))["task"]
    assert answered["status"]["state"] == "TASK_STATE_WORKING"
    lab.open("asks")
    assert text_of(lab.reach(asked, "COMPLETED")) == "done"
    lab.reach(running, "COMPLETED")
