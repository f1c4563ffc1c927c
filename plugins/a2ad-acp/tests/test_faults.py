"""Agents that do not do what they should: their task fails clearly, the next one works, and nothing is left running."""

import os
import signal
import sys

import pytest

from tests.lab import until

#: what is written in mid-turn, and what the task says then
JUNK = {
    "not-json": "'not-json'",
    "[1]": "'[1]'",
    "null": "'null'",
    "{}": "'{}'",
    "{": "'{'",
    '{"id": {}, "result": 1}': """'{"id": {}, "result": 1}'""",
    '{"id": 1, "error": "text"}': """'{"id": 1, "error": "text"}'""",
    "[" * 5000: "'[[[",
}


def test_an_agent_that_hangs_at_start_up_is_ended_at_its_deadline(acp):
    acp.start("hang", start_seconds=1)
    assert acp.fails("say x") == "The agent did not answer `initialize` within 1 seconds"
    acp.gone(*acp.pids())
    acp.fails("say x")
    assert len(acp.pids()) == 2


def test_an_agent_that_does_not_open_a_session_is_ended_too(acp):
    acp.start("no-session", start_seconds=1)
    assert acp.fails("say x") == "The agent did not open a session within 1 seconds"
    acp.gone(*acp.pids())


def test_an_agent_that_ends_at_start_up_says_how(acp):
    acp.start("exit")
    assert acp.fails("say x") == "The agent ended with status 7"


def test_a_banner_before_the_first_message_does_no_harm_but_is_shown_where_nothing_follows(acp):
    acp.start("banner")
    assert acp.say("say hello") == "hello "
    assert acp.daemon.terminate() == 0
    acp.start(command=["sh", "-c", "echo Welcome; sleep 1000"], start_seconds=1)
    assert acp.fails("say x") == "The agent did not answer `initialize` within 1 seconds; it wrote: 'Welcome'"


def test_junk_without_end_at_start_up_is_cut_off(acp):
    acp.start("junk")
    assert acp.fails("say x") == "The agent wrote a line that is no message: 'junk at the start'"


def test_an_agent_of_another_version_is_refused(acp):
    acp.start("old")
    assert acp.fails("say x") == "The agent speaks version 99 of ACP, not 1"
    acp.gone(*acp.pids())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"command": ["no-such-program"]}, "The agent cannot be started: there is no program 'no-such-program'"),
        ({"command": ["./agent"]}, "The agent cannot be started: there is no program './agent'"),
        ({"command": ["/etc/passwd"]}, "The agent cannot be started: '/etc/passwd' is not executable"),
        ({"cwd": "/no/such/directory"}, "The agent cannot be started: its directory is not there"),
        (
            {"env": {"KEY": "$NO_SUCH_KEY"}},
            "The agent's KEY is to be the daemon's NO_SUCH_KEY, which is not set",
        ),
    ],
)
def test_what_is_missing_is_named(acp, options, why):
    acp.start(**options)
    assert acp.fails("say x") == why


def test_a_program_that_cannot_be_run_is_in_the_log(acp, tmp_path):
    program = tmp_path / "agent"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    acp.start(command=[str(program)])
    assert acp.fails("say x") == "The agent ended with status 126"
    assert f"{program}: No such file or directory" in acp.daemon.log()


@pytest.mark.parametrize("line", JUNK)
def test_a_line_that_is_no_message_fails_the_task(running, line):
    acp = running("resume")
    task = acp.send(f"say before; junk {line}; hang")
    assert acp.why(task).startswith(f"The agent wrote a line that is no message: {JUNK[line]}")
    assert acp.text(task) == "before "
    acp.gone(*acp.pids())
    assert acp.say("say next", contextId=task["contextId"]) == "next "


def test_bytes_that_are_no_text_fail_the_task(running):
    acp = running("resume")
    assert acp.fails("bytes ff00fe80; hang").startswith("The agent wrote a line that is no message")


def test_a_line_of_60_mb_fails_the_task(acp):
    acp.start("resume")
    assert acp.fails("junk giant; hang") == "The agent wrote a line of more than 52428800 bytes"
    assert acp.say("say next") == "next "


def test_half_a_character_that_json_can_escape_does_no_harm(acp):
    acp.start("resume")
    escaped = (
        r'{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "%s", "update": {"sessionUpdate":'
    )
    escaped += r' "agent_message_chunk", "content": {"type": "text", "text": "half \ud83d"}}}}'
    first = acp.send("say x")
    line = escaped % f"s{acp.pids()[0]}-0"
    assert acp.say(f"junk {line}; say done", contextId=first["contextId"]) == "half ?done "


def test_half_a_character_in_bytes_does_no_harm_either(acp):
    acp.start("resume")
    first = acp.send("say x")
    line = '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "SESSION", "update": '
    line += '{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "half HERE"}}}}'
    half = line.replace("SESSION", f"s{acp.pids()[0]}-0").encode().replace(b"HERE", b"\xed\xa0\xbd").hex()
    assert acp.say(f"bytes {half}; say done", contextId=first["contextId"]).startswith("half ?")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"a": NaN, "b": -Infinity, "c": 1e999}', {"a": "nan", "b": "-inf", "c": "inf"}),
        ('{"a": 123456789012345678901234567890}', {"a": "123456789012345678901234567890"}),
    ],
)
def test_arguments_that_no_task_takes_are_told_as_far_as_it_does(running, given, told):
    task = running("resume").send(f"input {given}; say done")
    assert running("resume").text(task) == "done "
    assert task["artifacts"][0]["parts"][0]["data"]["arguments"] == told


def test_arguments_that_are_nested_too_deeply_are_cut_off_there(running):
    task = running("resume").send("input " + "[" * 300 + "]" * 300 + "; say done")
    assert running("resume").text(task) == "done "
    assert "(nested too deeply)" in str(task["artifacts"][0]["parts"][0]["data"]["arguments"])


def test_an_agent_that_asks_without_end_and_reads_no_answer_is_ended(acp):
    acp.start("resume")
    assert acp.fails("unread; hang").startswith("The agent does not read its input: more than 4194304 bytes of answers")
    acp.gone(*acp.pids())
    assert acp.say("say next") == "next "


def test_an_agent_that_floods_its_stderr_goes_on_and_the_log_does_not_grow_with_it(acp):
    acp.start("resume")
    assert acp.say("flood 50; say done") == "done "
    assert len(acp.daemon.log()) < 100_000
    assert "acp.stderr_left_out" in acp.daemon.log() or acp.daemon.log().count("flood") > 100


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("die 0", "The agent ended with status 0"),
        ("die 3", "The agent ended with status 3"),
        ("kill", "The agent was ended by SIGKILL"),
        ("mute", "The agent closed its standard output"),
    ],
)
def test_an_agent_that_ends_in_mid_turn_fails_the_task_and_the_next_one_goes_on(acp, command, why):
    acp.start("resume")
    task = acp.send(f"say partial; {command}")
    assert (acp.why(task), acp.text(task)) == (why, "partial ")
    acp.gone(*acp.pids())
    heard = f"say partial; {command} | heard"
    assert acp.say("heard", contextId=task["contextId"]) == heard
    assert len(acp.pids()) == 2


def test_the_end_of_a_process_that_nobody_used_just_then_is_not_noticed(acp):
    acp.start("resume")
    first = acp.send("say one")
    os.kill(acp.pids()[0], signal.SIGKILL)
    acp.gone(*acp.pids())
    assert acp.say("heard", contextId=first["contextId"]) == "say one | heard"


def test_a_process_that_ends_takes_what_it_started_with_it(acp):
    acp.start("resume")
    task = acp.send("child; die 1")
    child = int(acp.text(task).split()[1])
    acp.gone(child)


def test_an_agent_that_ignores_cancel_is_left_and_ended_and_the_next_task_works(acp):
    acp.start("resume", "lock")
    task = acp.begin("say x; deaf")
    until(lambda: acp.text(acp.get(task["id"])) == "x ")
    assert acp.state(acp.cancel(task["id"])) == "CANCELED"
    assert acp.say("heard", contextId=task["contextId"]) == "say x; deaf | heard"
    first, second = acp.pids()
    acp.gone(first)
    assert acp.running() == [second]


def test_a_turn_beside_one_that_ignores_cancel_is_let_finish(acp):
    acp.start("resume")
    other = acp.begin("ask rm; say done")
    acp.reach(other, "INPUT_REQUIRED")
    task = acp.begin("say x; deaf")
    until(lambda: acp.text(acp.get(task["id"])) == "x ")
    acp.cancel(task["id"])
    until(lambda: "acp.cancel_ignored" in acp.daemon.log())
    assert acp.say("say new") == "new "
    first, second = acp.pids()
    assert acp.running() == [first, second]
    assert acp.text(acp.send("allow once", taskId=other["id"])) == "rm: id-allow_once done "
    acp.gone(first)


def test_an_agent_that_heeds_a_cancel_goes_on_with_the_same_session(acp):
    acp.start("resume")
    task = acp.begin("say x; hang")
    until(lambda: acp.text(acp.get(task["id"])) == "x ")
    acp.cancel(task["id"])
    assert acp.say("heard", contextId=task["contextId"]) == "say x; hang | heard"
    assert (len(acp.pids()), len(acp.heard("session/new")), len(acp.heard("session/resume"))) == (1, 1, 0)


def test_a_stop_reason_that_is_not_known_fails_the_task(acp):
    acp.start("resume", "close")
    task = acp.send("say x; stop bored")
    assert acp.state(task) == "FAILED"
    assert "`session/prompt`" in acp.why(task)
    assert "stopReason" in acp.why(task)
    assert acp.say("say next", contextId=task["contextId"]) == "next "


@pytest.mark.parametrize("flags", [("resume", "close"), ("load", "close"), ("close",), ()])
def test_after_an_error_the_session_is_opened_again_as_far_as_the_agent_can(acp, flags):
    acp.start(*flags)
    task = acp.send("say x; error the model is away")
    assert acp.why(task) == "The agent reported an error: Internal error: the model is away"
    remembered = "say x; error the model is away | heard"
    assert acp.say("heard", contextId=task["contextId"]) == ("heard" if flags == ("close",) else remembered)
    assert len(acp.pids()) == 1


def test_an_agent_that_wants_a_sign_in_first_says_so(acp):
    acp.start("sign-in", command=[sys.executable, "-c", SIGN_IN])
    assert acp.fails("say x") == "The agent reported an error: Sign in first (ways to sign in: Browser)"


SIGN_IN = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"result": {"protocolVersion": 1, "authMethods": [{"id": "b", "name": "Browser"}]}}
    if message["method"] != "initialize":
        answer = {"error": {"code": -32000, "message": "Sign in first"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
