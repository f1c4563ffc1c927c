"""What the agent asks for, and who answers it."""

from datetime import datetime, timedelta

import pytest

from tests.lab import until

CANCELLED = {"outcome": {"outcome": "cancelled"}}


def outcomes(acp):
    return [note["outcome"] for note in acp.notes() if "outcome" in note]


def test_a_permission_makes_the_task_wait_and_says_what_is_asked(running):
    acp = running("resume")
    task = acp.send("ask rm")
    assert acp.state(task) == "INPUT_REQUIRED"

    text, data = task["status"]["message"]["parts"]
    assert text["text"] == (
        'The agent asks for permission: rm\n{"of": "rm"}\nAnswer with one of: Allow always (id-allow_always), '
        "Allow once (id-allow_once), Reject once (id-reject_once), Reject always (id-reject_always)"
    )
    assert data["data"] == {
        "question": text["text"],
        "options": [
            {"id": f"id-{kind}", "name": kind.replace("_", " ").capitalize(), "kind": kind}
            for kind in ("allow_always", "allow_once", "reject_once", "reject_always")
        ],
        "deadline": data["data"]["deadline"],
        "tool": {"name": "rm", "arguments": {"of": "rm"}},
    }
    waits = datetime.fromisoformat(data["data"]["deadline"]) - datetime.fromisoformat(task["status"]["timestamp"])
    assert timedelta(seconds=3570) < waits <= timedelta(seconds=3600)


def test_no_title_or_name_can_be_taken_for_another_line_of_the_question(running):
    acp = running("resume")
    task = acp.send("forge")
    text, data = task["status"]["message"]["parts"]
    assert text["text"].split("\n") == [
        "The agent asks for permission: ls {} Answer with one of: Yes (y)[8m",
        '{"rm": "\\u001b/"}',
        "Answer with one of: No Yes (y)[2J (a??b)",
    ]
    assert data["data"]["options"] == [{"id": "a??b", "name": "No Yes (y)[2J", "kind": "allow_once"}]
    assert acp.text(acp.send("a??b", taskId=task["id"])) == repr("a\n\x1bb")


@pytest.mark.parametrize(
    ("part", "chosen"),
    [
        ({"text": "id-allow_once"}, "id-allow_once"),
        ({"text": " allow ONCE\n"}, "id-allow_once"),
        ({"text": "Reject always"}, "id-reject_always"),
        ({"data": {"option": "id-reject_once"}}, "id-reject_once"),
        ({"data": "id-allow_always"}, "id-allow_always"),
    ],
)
def test_the_next_message_picks_an_option_by_its_id_or_its_name(running, part, chosen):
    acp = running("resume")
    task = acp.send("ask rm; say done")
    answer = {"role": "ROLE_USER", "parts": [part], "taskId": task["id"]}
    ended = acp.daemon.rpc(acp.inbound, "SendMessage", {"message": answer})["result"]["task"]
    assert (acp.state(ended), acp.text(ended)) == ("COMPLETED", f"rm: {chosen} done ")


def test_an_answer_that_names_no_option_is_asked_for_again(running):
    acp = running("resume")
    task = acp.send("ask rm")
    again = acp.send("yes, go on", taskId=task["id"])
    assert acp.state(again) == "INPUT_REQUIRED"
    assert acp.why(again) == acp.why(task)
    assert (
        again["status"]["message"]["parts"][1]["data"]["options"]
        == (task["status"]["message"]["parts"][1]["data"]["options"])
    )
    assert acp.text(acp.send("allow once", taskId=task["id"])) == "rm: id-allow_once "


def test_questions_of_the_same_moment_are_asked_one_after_the_other(running):
    acp = running("resume")
    task = acp.send("asks one two")
    said = set()
    for _ in range(2):
        assert acp.state(task) == "INPUT_REQUIRED"
        name = task["status"]["message"]["parts"][1]["data"]["tool"]["name"]
        said.add(name)
        task = acp.send("allow once" if name == "one" else "reject once", taskId=task["id"])
    assert said == {"one", "two"}
    assert acp.state(task) == "COMPLETED"
    assert set(acp.text(task).split(" ")) == {"one:", "id-allow_once", "two:", "id-reject_once", ""}


@pytest.mark.parametrize(
    ("permission", "kinds", "outcome"),
    [
        ("allow", "reject_once,allow_always,allow_once", "id-allow_once"),
        ("allow", "reject_once,allow_always", "id-allow_always"),
        ("allow", "reject_once,reject_always", "cancelled"),
        ("deny", "allow_once,reject_always,reject_once", "id-reject_once"),
        ("deny", "allow_once,reject_always", "id-reject_always"),
        ("deny", "allow_once,allow_always", "cancelled"),
        ("ask", "none", "cancelled"),
    ],
)
def test_the_preset_may_answer_and_prefers_the_once_option(running, permission, kinds, outcome):
    acp = running("resume", permission=permission)
    assert acp.say(f"ask rm {kinds}") == f"rm: {outcome} "


@pytest.mark.parametrize(
    ("kinds", "outcome"),
    [
        ("allow_once,allow_always,reject_always,reject_once", "id-reject_once"),
        ("allow_once,reject_always", "cancelled"),
    ],
)
def test_past_its_deadline_a_question_is_rejected_once_or_cancelled_and_never_allowed(running, kinds, outcome):
    acp = running("resume", permission_seconds=0.3)
    task = acp.begin(f"ask rm {kinds}")
    acp.reach(task, "INPUT_REQUIRED")
    ended = acp.reach(task, "COMPLETED")
    assert acp.text(ended) == f"rm: {outcome} "


def test_a_cancel_while_a_question_waits_answers_it_cancelled(acp):
    acp.start("resume")
    task = acp.send("ask rm")
    assert acp.state(acp.cancel(task["id"])) == "CANCELED"
    until(lambda: outcomes(acp))
    assert outcomes(acp) == [CANCELLED]
    assert len(acp.heard("session/cancel")) == 1
    assert acp.say("say next", contextId=task["contextId"]) == "next "
    assert len(acp.pids()) == 1


def test_a_question_that_the_agent_waits_for_no_more_holds_up_nothing(acp):
    acp.start("resume")
    task = acp.begin("abandon rm; say never mind")
    assert acp.text(acp.reach(task, "COMPLETED")) == "never mind "
    until(lambda: outcomes(acp))
    assert outcomes(acp) == [CANCELLED]
    assert acp.say("say next", contextId=task["contextId"]) == "next "


def test_an_agent_that_dies_while_its_question_waits_fails_the_task_at_once(acp):
    acp.start("resume")
    task = acp.begin("ask_and_die rm")
    assert acp.why(acp.reach(task, "FAILED")) == "The agent ended with status 4"
    assert acp.say("heard", contextId=task["contextId"]) == "ask_and_die rm | heard"


def test_a_question_of_a_turn_that_was_canceled_is_not_asked(acp):
    acp.start("resume")
    task = acp.begin("deaf_ask rm")
    acp.reach(task, "WORKING")
    until(lambda: acp.heard("session/prompt"))
    acp.cancel(task["id"])
    until(lambda: outcomes(acp))
    assert outcomes(acp) == [CANCELLED]
