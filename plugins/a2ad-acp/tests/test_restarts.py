"""What a conversation and its tasks are after the daemon has gone and come again."""

import base64

import pytest

from a2ad import AgentContext, Preset
from a2ad_acp.options import read_options
from a2ad_acp.session import AcpSession
from tests.lab import until

STOPPED = "The daemon stopped while the task ran"
STOPPED_WAITING = "The daemon stopped while the task waited for an answer"

ends = pytest.mark.parametrize("end", ["terminate", "kill"])


def restart(acp, end, *flags, **options):
    getattr(acp.daemon, end)()
    acp.start(*flags, **options)


@ends
@pytest.mark.parametrize(
    ("flags", "method", "heard"),
    [
        (("resume", "load"), "session/resume", "say x | heard"),
        (("load",), "session/load", "say x | heard"),
        ((), "session/new", "heard"),
    ],
)
def test_a_conversation_is_resumed_or_loaded_or_begins_anew(acp, end, flags, method, heard):
    acp.start(*flags)
    task = acp.send("say x")
    restart(acp, end, *flags)
    assert acp.say("heard", contextId=task["contextId"]) == heard  # and nothing of a load's replay
    assert acp.heard(method)[-1]["pid"] == acp.pids()[1]


def test_a_session_that_cannot_be_resumed_is_loaded_and_else_a_new_one_begins(acp):
    acp.start("resume", "load")
    task = acp.send("say x")
    acp.daemon.terminate()
    for session in acp.folder.glob("sessions/*.json"):
        session.unlink()
    acp.start("resume", "load")
    assert acp.say("heard", contextId=task["contextId"]) == "heard"
    methods = [note["method"] for note in acp.notes() if note["pid"] == acp.pids()[1] and "method" in note]
    assert methods == ["initialize", "session/resume", "session/load", "session/new", "session/prompt"]
    acp.daemon.terminate()
    acp.start("resume", "load")
    assert acp.say("heard", contextId=task["contextId"]) == "heard | heard"


def test_a_session_goes_on_in_its_own_directory_while_that_is_there(acp, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    acp.start("resume", cwd=str(tmp_path / "one"))
    task = acp.send("say x")
    restart(acp, "terminate", "resume", cwd=str(tmp_path / "two"))
    acp.say("say y", contextId=task["contextId"])
    assert [note["params"]["cwd"] for note in acp.heard("session/resume")] == [str(tmp_path / "one")]
    acp.daemon.terminate()
    (tmp_path / "one").rmdir()
    acp.start("resume", cwd=str(tmp_path / "two"))
    assert acp.say("heard", contextId=task["contextId"]) == "heard"
    assert acp.heard("session/new")[-1]["params"]["cwd"] == str(tmp_path / "two")


@ends
def test_a_task_that_ran_fails_and_the_conversation_goes_on(acp, end):
    acp.start("resume", limits={"shutdown_seconds": 0.2})
    task = acp.begin("say x; hang")
    until(lambda: acp.heard("session/prompt"))
    restart(acp, end, "resume")
    ended = acp.reach(task, "FAILED")
    assert acp.why(ended) == STOPPED
    assert acp.say("heard", contextId=task["contextId"]) == "say x; hang | heard"


@ends
def test_a_task_that_waited_fails_and_the_conversation_goes_on(acp, end):
    acp.start("resume")
    task = acp.send("ask rm")
    restart(acp, end, "resume")
    ended = acp.reach(task, "FAILED")
    assert acp.why(ended) == STOPPED_WAITING
    late = acp.daemon.rpc(acp.inbound, "SendMessage", {"message": _answer(task, "allow once")})
    assert late["error"]["code"] == -32004
    assert acp.say("heard", contextId=task["contextId"]) == "ask rm | heard"


@ends
def test_with_again_a_task_that_ran_gets_its_prompt_again(acp, end):
    acp.start("resume", after_restart="again", limits={"shutdown_seconds": 0.2})
    task = acp.begin("say x; pause; heard")
    until(lambda: acp.heard("session/prompt"))
    restart(acp, end, "resume", after_restart="again")
    ended = acp.reach(task, "COMPLETED")
    assert acp.text(ended) == "x say x; pause; heard | say x; pause; heard"
    assert acp.heard("session/resume")


@ends
def test_with_again_the_answer_to_a_question_goes_to_the_same_question(acp, end):
    acp.start("resume", after_restart="again")
    task = acp.send("ask rm; say done")
    restart(acp, end, "resume", after_restart="again")
    assert acp.state(acp.get(task["id"])) == "INPUT_REQUIRED"
    assert len(acp.heard("session/prompt")) == 1
    ended = acp.send("allow once", taskId=task["id"])
    assert (acp.state(ended), acp.text(ended)) == ("COMPLETED", "rm: id-allow_once done ")
    assert len(acp.heard("session/prompt")) == 2


def test_with_again_an_answer_is_good_for_one_question_alone(acp):
    acp.start("resume", after_restart="again")
    task = acp.send("ask rm; ask rm")
    restart(acp, "kill", "resume", after_restart="again")
    asked = acp.send("allow once", taskId=task["id"])
    assert acp.state(asked) == "INPUT_REQUIRED"
    ended = acp.send("reject once", taskId=task["id"])
    assert acp.text(ended) == "rm: id-allow_once rm: id-reject_once "


def test_with_again_another_question_is_asked_before_it_is_answered(acp):
    acp.start("resume", after_restart="again")
    task = acp.send("ask_in_turn rm ls")
    restart(acp, "kill", "resume", after_restart="again")
    asked = acp.send("allow once", taskId=task["id"])
    assert acp.state(asked) == "INPUT_REQUIRED"
    assert asked["status"]["message"]["parts"][1]["data"]["tool"]["name"] == "ls"
    assert acp.text(acp.send("reject once", taskId=task["id"])) == "ls: id-reject_once "


def test_with_again_the_attachments_of_the_prompt_are_sent_again(acp):
    acp.start("images", "resume", after_restart="again")
    parts = [{"text": "ask rm"}, {"raw": base64.b64encode(b"png").decode(), "mediaType": "image/png"}]
    message = {"role": "ROLE_USER", "parts": parts}
    task = acp.daemon.rpc(acp.inbound, "SendMessage", {"message": message})["result"]["task"]
    restart(acp, "kill", "images", "resume", after_restart="again")
    assert acp.text(acp.send("allow once", taskId=task["id"])) == "rm: id-allow_once "
    first, second = acp.heard("session/prompt")
    assert [block["type"] for block in first["prompt"]] == ["text", "image"]
    assert first["prompt"] == second["prompt"]


def test_a_question_that_nobody_answers_for_too_long_fails_where_it_cannot_be_taken_up(acp):
    acp.start("resume", limits={"ask_seconds": 0.2})
    task = acp.begin("ask rm")
    assert acp.why(acp.reach(task, "FAILED")) == "Nobody answered in time"
    acp.daemon.terminate()
    acp.start("resume", after_restart="again", limits={"ask_seconds": 0.2})
    task = acp.begin("ask rm")
    until(lambda: acp.heard("session/cancel")[1:])
    assert acp.state(acp.get(task["id"])) == "INPUT_REQUIRED"
    assert acp.text(acp.send("allow once", taskId=task["id"])) == "rm: id-allow_once "


def test_with_again_a_deadline_that_passes_after_a_restart_rejects_once(acp):
    options = {"after_restart": "again", "permission_seconds": 1}
    acp.start("resume", **options)
    task = acp.send("ask rm; say done")
    restart(acp, "kill", "resume", **options)
    assert acp.text(acp.reach(task, "COMPLETED")) == "rm: id-reject_once done "


@pytest.mark.parametrize("resume", [{"turns": 3}, {"session": 1, "cwd": "/"}, ["session", "cwd"], "session", None])
def test_what_another_kind_of_agent_kept_is_no_session(resume):
    options = read_options(Preset("p", "P", "", "acp", {"command": ["agent"]}, ()))
    assert AcpSession(options, AgentContext("s", "c", "i", None, resume), None).state() is None


def _answer(task, text):
    return {"role": "ROLE_USER", "parts": [{"text": text}], "taskId": task["id"]}
