"""Questions have two doors: the client's next message to the task, and the operator's `task.answer`."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message
from tests.lab import until

OPTIONS = [
    {"id": "once", "name": "Allow once", "kind": "allow_once"},
    {"id": "never", "name": "Reject", "kind": "reject_once"},
]
PLUGIN = f"""
from a2ad import Artifact, Executor, InputRequired, hookimpl


class Asks(Executor):
    async def execute(self, request):
        if request.unanswered:
            heard = [request.message["parts"], request.text, len(request.history)]
            answer = {{"parts": [{{"text": f"nobody: {{heard}}"}}]}}
        elif request.resumed:
            answer = request.message
        elif request.text == "options":
            answer = await request.ask("May I?", options={OPTIONS!r}, deadline=600)
        elif request.text == "hurry":
            answer = await request.ask("May I?", options={OPTIONS!r}, deadline=1)
        elif request.text == "strings":
            answer = await request.ask("May I?", options=["once", "never"])
        elif request.text == "end":
            raise InputRequired("Who are you?")
        elif request.text == "odd":
            raise InputRequired([{{"text": "Pick"}}, {{"data": {{"question": "Pick", "options": ["a", 3, None]}}}}])
        else:
            answer = await request.ask("What is it to be?")
        yield Artifact([{{"text": answer["parts"][0]["text"]}}])


@hookimpl
def a2ad_register_executors(register):
    register("asks", Asks())


@hookimpl
def a2ad_register_presets(register):
    register("asks", {{"skills": [{{"id": "ask", "executor": "asks"}}]}})
"""


@pytest.fixture
def daemon(tmp_path: Any) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path, plugin=PLUGIN)
    try:
        yield daemon
    finally:
        daemon.kill()


@pytest.fixture
def inbound(daemon: DaemonProcess) -> str:
    return daemon.create_inbound(preset="asks")


def state(daemon: DaemonProcess, task_id: str) -> str:
    return str(daemon.read(f"/task?id={task_id}")["state"])


def attention(daemon: DaemonProcess) -> list[Any]:
    return [row for row in daemon.read("")["attention"] if row["kind"] == "question"]


@pytest.mark.parametrize("named", ["once", "Allow once", " allow ONCE. "])
def test_the_operator_picks_an_option_by_its_id_or_name(daemon: DaemonProcess, inbound: str, named: str) -> None:
    task = daemon.send(inbound, "options")
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"

    answer = daemon.act("task.answer", id=task["id"], option=named)

    assert answer["id"] == task["id"]
    settled = daemon.rpc(inbound, "GetTask", {"id": task["id"]})["result"]
    assert settled["history"][-1]["parts"] == [{"text": "once"}]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_client_s_message_that_names_none_of_the_options_has_the_question_asked_again(
    daemon: DaemonProcess, inbound: str, *, restarted: bool
) -> None:
    asked = daemon.send(inbound, "options")
    if restarted:
        daemon.restart()
    once_more = daemon.send(inbound, "purple", taskId=asked["id"], messageId="mine")
    assert once_more["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert once_more["status"]["message"]["parts"] == asked["status"]["message"]["parts"]
    assert [message["role"] for message in once_more["history"]] == ["ROLE_USER", "ROLE_AGENT"] * 2
    assert daemon.send(inbound, "purple", taskId=asked["id"], messageId="mine") == once_more

    frames = daemon.send_streaming(inbound, "", taskId=asked["id"], parts=[{"data": {"option": "none"}}])
    assert [frame["task"]["status"]["state"] for frame in frames] == ["TASK_STATE_INPUT_REQUIRED"]
    done = daemon.answer(inbound, asked, "Allow once")
    assert (done["status"]["state"], len(done["history"])) == ("TASK_STATE_COMPLETED", 7)
    assert done["artifacts"][0]["parts"] == [{"text": "Allow once"}]


def test_past_its_deadline_a_question_is_not_answered_after_a_restart_either(
    daemon: DaemonProcess, inbound: str
) -> None:
    task = daemon.send(inbound, "hurry")
    task_id, deadline = task["id"], task["status"]["message"]["parts"][1]["data"]["deadline"]
    daemon.kill()
    until(lambda: datetime.now(UTC) > datetime.fromisoformat(deadline))
    daemon.start()
    late = daemon.rpc(inbound, "SendMessage", {"message": message("once", taskId=task_id)})
    assert late["error"]["code"] == -32004
    until(lambda: state(daemon, task_id) == "TASK_STATE_COMPLETED")
    (artifact,) = daemon.task(inbound, task_id)["artifacts"]
    assert artifact["parts"] == [{"text": "nobody: [[], '', 2]"}]
    assert attention(daemon) == []


def test_options_that_are_no_dicts_fail_the_task_and_say_what_they_should_be(
    daemon: DaemonProcess, inbound: str
) -> None:
    failed = daemon.send(inbound, "strings")
    told = "options must be dicts with the texts id and name, and perhaps kind"
    assert failed["status"]["message"]["parts"] == [{"text": told}]


def test_who_follows_a_task_hears_that_its_question_is_asked_again(daemon: DaemonProcess, inbound: str) -> None:
    asked = daemon.send(inbound, "options")
    frames = daemon.subscribe(inbound, asked["id"])
    next(frames)
    daemon.answer(inbound, asked, "purple")
    daemon.answer(inbound, asked, "once")
    told = [next(iter(frame.values())) for frame in frames]
    states = [each["status"]["state"].removeprefix("TASK_STATE_") for each in told if "status" in each]
    assert states == ["INPUT_REQUIRED", "INPUT_REQUIRED", "WORKING", "COMPLETED", "COMPLETED"]


@pytest.mark.parametrize(("text", "answer"), [("free", "blue"), ("end", "a friend")])
def test_the_operator_answers_with_a_text_whether_or_not_the_run_waits(
    daemon: DaemonProcess, inbound: str, text: str, answer: str
) -> None:
    task = daemon.send(inbound, text)
    daemon.act("task.answer", id=task["id"], text=answer)

    task = daemon.rpc(inbound, "GetTask", {"id": task["id"]})["result"]
    assert task["history"][-1]["parts"] == [{"text": answer}]


def test_what_names_none_of_the_options_is_refused_with_the_options(daemon: DaemonProcess, inbound: str) -> None:
    task_id = daemon.send(inbound, "options")["id"]
    for fields in ({"option": "always"}, {"text": "whatever you like"}):
        refused = daemon.act("task.answer", status=409, id=task_id, **fields)
        assert refused["options"] == OPTIONS
        assert list(refused["errors"]) == list(fields)
        assert state(daemon, task_id) == "TASK_STATE_INPUT_REQUIRED"
    assert len(daemon.rpc(inbound, "GetTask", {"id": task_id})["result"]["history"]) == 2, "nothing came of them"

    task_id = daemon.send(inbound, "free")["id"]
    refused = daemon.act("task.answer", status=409, id=task_id, option="once")
    assert "no options" in refused["message"]


def test_whoever_comes_first_has_answered_and_the_other_is_told(daemon: DaemonProcess, inbound: str) -> None:
    task_id = daemon.send(inbound, "options")["id"]
    daemon.act("task.answer", id=task_id, option="never")
    late = daemon.rpc(
        inbound, "SendMessage", {"message": {"role": "ROLE_USER", "taskId": task_id, "parts": [{"text": "once"}]}}
    )
    assert late["error"]["code"] == -32004

    task = daemon.send(inbound, "options")
    daemon.send(inbound, "once", taskId=task["id"])
    refused = daemon.act("task.answer", status=409, id=task["id"], option="never")
    assert "waits for no answer" in refused["message"]
    assert refused["errors"]["id"]


def test_a_question_is_in_the_task_and_in_what_needs_attention_until_it_is_answered(
    daemon: DaemonProcess, inbound: str
) -> None:
    assert attention(daemon) == []
    task_id = daemon.send(inbound, "options")["id"]
    other = daemon.send(inbound, "end")["id"]

    question = daemon.read(f"/task?id={task_id}")["question"]
    assert question == {"question": "May I?", "options": OPTIONS, "deadline": question["deadline"]}
    asked = daemon.task(inbound, task_id)["status"]["timestamp"]
    waits = datetime.fromisoformat(question["deadline"]) - datetime.fromisoformat(asked)
    assert timedelta(seconds=570) < waits <= timedelta(seconds=600)
    rows = {row["taskId"]: row for row in attention(daemon)}
    about = {"serverId": inbound, "summary": "options"}
    assert rows[task_id] == {
        "kind": "question", "id": task_id, "taskId": task_id, "message": "May I?", **about, **question
    }  # fmt: skip
    assert rows[other]["question"] == "Who are you?"
    assert "options" not in rows[other]

    daemon.act("task.answer", id=task_id, option="once")
    assert [row["taskId"] for row in attention(daemon)] == [other]
    assert "question" not in daemon.read(f"/task?id={task_id}")


def test_an_answer_that_is_none_and_a_task_that_is_not_there_are_told(daemon: DaemonProcess, inbound: str) -> None:
    task_id = daemon.send(inbound, "options")["id"]
    for fields in ({}, {"text": "once", "option": "once"}):
        refused = daemon.act("task.answer", status=409, id=task_id, **fields)
        assert refused["errors"] == {"text": ["must be given, or option instead; not both"]}
    assert "errors" in daemon.act("task.answer", status=409, id="no-such-task", text="yes")


def test_options_that_are_none_stand_in_no_answer_s_way(daemon: DaemonProcess, inbound: str) -> None:
    task_id = daemon.send(inbound, "odd")["id"]
    assert attention(daemon)[0]["options"] == []
    daemon.act("task.answer", id=task_id, text="whatever")
