"""SendMessage's contexts, skills, modes and history; GetTask; what a task is (protocol.md 3 and 5)."""

import base64
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.daemon import message
from tests.lab import Lab, at_once, error, result, script, text_of, violations


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("methods"))
    yield started
    started.kill()


# contexts


def test_tasks_of_a_context_run_one_after_the_other_in_order_of_arrival(lab: Lab) -> None:
    first = lab.started(["wait", "order"], contextId="order")
    others = [lab.started(["count", 5, 0.001], contextId="order") for _ in range(5)]
    assert first["status"]["state"] == "TASK_STATE_WORKING"
    assert {task["status"]["state"] for task in others} == {"TASK_STATE_SUBMITTED"}
    elsewhere = result(lab.ask_for(["text", "meanwhile"], contextId="elsewhere"))["task"]
    assert elsewhere["status"]["state"] == "TASK_STATE_COMPLETED"

    lab.open("order")

    lab.reach(others[-1]["id"], "COMPLETED")
    notes = (lab.folder / "runs").read_text().splitlines()
    ids = [task["id"] for task in (first, *others)]
    expected = [f"{what} {task_id}" for task_id in ids for what in ("run", "done")]
    assert [note for note in notes if note.split()[1] in ids] == expected


def test_streams_of_one_context_do_not_hear_each_other(lab: Lab) -> None:
    def stream(marker: str) -> tuple[str, str]:
        frames = lab.collect("SendStreamingMessage", script(*[["text", marker]] * 50, contextId="cross"))
        chunks = [frame["artifactUpdate"]["artifact"] for _, frame in frames if "artifactUpdate" in frame]
        streamed = "".join(chunk["parts"][0]["text"] for chunk in chunks)
        return streamed, text_of(frames[-1][1]["task"])

    for marker, (streamed, kept) in zip("abcd", at_once([partial(stream, m) for m in "abcd"]), strict=True):
        assert streamed == kept == marker * 50


def test_a_context_is_made_where_none_is_given_and_kept_where_one_is(lab: Lab) -> None:
    made = [result(lab.ask_for(["text", "x"]))["task"]["contextId"] for _ in range(2)]
    assert all(made)
    assert made[0] != made[1]
    for wanted in ("mine", "x" * 1024, "../../../etc", "é \N{GRINNING FACE}\0/"):
        task = result(lab.ask_for(["text", "x"], contextId=wanted))["task"]
        assert task["contextId"] == task["history"][0]["contextId"] == wanted
        assert lab.listed(contextId=wanted)["totalSize"] == 1


def test_contexts_of_two_agents_are_not_one(lab: Lab) -> None:
    other = lab.create_inbound(preset="lab")
    lab.started(["wait", "agents"], contextId="both")

    theirs = result(lab.ask_for(["text", "free"], contextId="both", inbound=other))["task"]

    assert theirs["status"]["state"] == "TASK_STATE_COMPLETED"
    assert lab.listed(contextId="both")["totalSize"] == 1
    lab.open("agents")


# skills and modes


def test_a_skill_that_is_not_declared_is_refused_and_nothing_is_recorded(lab: Lab) -> None:
    for skill in ("nope", "", "Script", "script ", 5, [], {"id": "script"}):
        envelope = lab.ask_for(text="x", contextId="skills", metadata={"skill": skill})
        assert violations(envelope) == ["message.metadata.skill"]
        assert all(name in envelope["error"]["message"] for name in ("script", "replying", "threaded"))
    assert lab.listed(contextId="skills")["totalSize"] == 0


def test_without_a_skill_it_is_chat_and_else_the_first_that_is_declared(lab: Lab) -> None:
    chatting = lab.create_inbound()
    task = lab.send(chatting, "hello", metadata={"other": 1})
    assert text_of(task) == "hello"

    first = result(lab.rpc(lab.agent, "SendMessage", {"message": message("hello")}))["task"]
    assert text_of(first) == "hello"
    assert lab.noted("run", first["id"]) == 1


@pytest.mark.parametrize(
    "modes",
    [
        [],
        None,
        ["text/plain"],
        ["text/*"],
        ["*/*"],
        ["text/markdown"],
        ["image/png", "text/html"],
        ["Text/Plain; charset=utf-8"],
    ],
)
def test_modes_that_admit_text_pass(lab: Lab, modes: Any) -> None:
    assert "result" in lab.ask_for(["text", "x"], configuration={"acceptedOutputModes": modes})


@pytest.mark.parametrize(
    "modes", [["image/png"], ["application/json", "audio/*"], [""], ["application/text"], ["texty/x"]]
)
def test_modes_that_exclude_text_are_refused_and_nothing_is_recorded(lab: Lab, modes: list[str]) -> None:
    for method in ("SendMessage", "SendStreamingMessage"):
        params = script(["text", "x"], configuration={"acceptedOutputModes": modes}, contextId="modes")
        assert error(lab.rpc(lab.agent, method, params)) == (-32005, "CONTENT_TYPE_NOT_SUPPORTED")
    assert lab.listed(contextId="modes")["totalSize"] == 0


def test_a_push_configuration_is_refused_and_nothing_is_recorded(lab: Lab) -> None:
    configuration = {"taskPushNotificationConfig": {"url": "https://example.org/hook"}}
    refused = lab.ask_for(["text", "x"], configuration=configuration, contextId="push")
    assert error(refused) == (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED")
    assert lab.listed(contextId="push")["totalSize"] == 0


# history


def test_the_history_is_as_long_as_was_asked_for_everywhere(lab: Lab) -> None:
    whole = result(lab.ask_for(["note", "one"], ["note", "two"], ["note", "three"], contextId="history"))["task"]
    history, task_id = whole["history"], whole["id"]
    assert len(history) == 4

    def listed(**more: Any) -> Any:
        return lab.listed(contextId="history", **more)["tasks"][0].get("history")

    for length, expected in (
        (None, history),
        (0, None),
        (1, history[-1:]),
        (2, history[-2:]),
        (4, history),
        (9, history),
    ):
        wanted = {} if length is None else {"historyLength": length}
        assert lab.get(task_id, **wanted).get("history") == expected
        assert listed(**wanted) == expected
        steps = [["note", "one"], ["note", "two"], ["note", "three"]]
        sent = result(lab.ask_for(*steps, configuration=wanted))["task"].get("history") or []
        assert len(sent) == len(expected or [])
    # what was trimmed for an answer is trimmed nowhere else
    assert lab.get(task_id) == whole
    for length in (-1, 1.5, "x", True, 2**31):
        assert violations(lab.rpc(lab.agent, "GetTask", {"id": task_id, "historyLength": length})) == ["historyLength"]
        assert violations(lab.rpc(lab.agent, "ListTasks", {"historyLength": length})) == ["historyLength"]
        refused = lab.ask_for(["text", "x"], configuration={"historyLength": length})
        assert violations(refused) == ["configuration.historyLength"]


def test_trimming_a_running_tasks_history_leaves_it_whole(lab: Lab) -> None:
    task = lab.started(["note", "one"], ["wait", "trim"], ["note", "two"])
    lab.get(task["id"], historyLength=0)
    lab.get(task["id"], history_length=1)

    lab.open("trim")

    assert len(lab.reach(task["id"], "COMPLETED")["history"]) == 3


# the rest


def test_return_immediately_gives_the_task_that_was_started(lab: Lab) -> None:
    task = lab.started(["wait", "immediately"], ["text", "x"])
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    assert lab.get(task["id"]) == task

    lab.open("immediately")
    assert text_of(lab.reach(task["id"], "COMPLETED")) == "x"


def test_a_task_is_found_at_its_agent_alone(lab: Lab) -> None:
    other = lab.create_inbound(preset="lab")
    task = result(lab.ask_for(["text", "x"]))["task"]

    assert lab.get(task["id"]) == task
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        for agent, task_id in ((other, task["id"]), (lab.agent, "nope"), (lab.agent, "\0"), (lab.agent, "x" * 1024)):
            assert error(lab.rpc(agent, method, {"id": task_id})) == (-32001, "TASK_NOT_FOUND")


def test_a_tasks_times_are_utc_with_milliseconds(lab: Lab) -> None:
    task = result(lab.ask_for(["text", "x"]))["task"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", task["status"]["timestamp"])


def test_parts_of_every_kind_come_back_as_they_came(lab: Lab) -> None:
    raw = bytes(range(256))
    parts = [
        {"text": "t", "metadata": {"k": [None]}, "mediaType": "text/markdown"},
        {"raw": base64.b64encode(raw).decode(), "filename": "all.bin", "mediaType": "application/octet-stream"},
        {"url": "https://example.org/\u2028"},
        {"data": {"steps": [1, 2.0, None, {"deep": {"er": []}}]}},
    ]
    sent = script()["message"] | {"parts": [*parts, {"data": [["artifact", {"parts": parts}]]}]}
    sent["parts"].pop(3)  # the steps are the first data part

    task = result(lab.rpc(lab.agent, "SendMessage", {"message": sent}))["task"]

    assert task["history"][0]["parts"] == sent["parts"]
    assert task["artifacts"][0]["parts"] == parts
    assert lab.get(task["id"]) == task


def test_fields_under_their_proto_names_are_kept_under_the_others(lab: Lab) -> None:
    sent = {
        "message_id": "snake",
        "context_id": "snake",
        "role": 1,
        "parts": [{"raw": "-_8", "media_type": "x/y", "filename": "f"}, {"data": []}],
        "reference_task_ids": ["r"],
        "metadata": {"skill": "script", "snake_case": 1},
    }
    task = result(lab.rpc(lab.agent, "SendMessage", {"message": sent}))["task"]

    kept = task["history"][0]
    assert kept["parts"] == [{"raw": "+/8=", "mediaType": "x/y", "filename": "f"}, {"data": []}]
    assert [kept["role"], kept["messageId"], kept["contextId"]] == ["ROLE_USER", "snake", "snake"]
    assert [kept["referenceTaskIds"], kept["metadata"]] == [["r"], {"skill": "script", "snake_case": 1}]
