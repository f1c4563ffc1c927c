"""`a2ad send`: one message to any A2A agent, without a daemon (issue 4, point 4)."""

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_support import PLUGIN, on_terminal, run, run_to_full_disk, started
from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import await_state, until
from tests.remote import (
    CONTEXT,
    HANG,
    TASK,
    Gate,
    Remote,
    answer,
    artifact,
    http,
    parts_of,
    refusal,
    said,
    silence,
    snapshot,
    status,
    stream,
)

TOKEN = "s3cr3t-of-the-remote"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("send"), plugin=PLUGIN) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def agent(daemon: DaemonProcess) -> str:
    """The URL of an agent of this project, with the skills of `PLUGIN`."""
    return daemon.endpoint(daemon.create_inbound(preset="remote"))


@pytest.fixture
def remote() -> Iterator[Remote]:
    with Remote() as remote:
        yield remote


def send(url: str, text: str = "hello", *options: str, **more: Any) -> Any:
    """With no daemon to be found."""
    return run("http://127.0.0.1:1", "send", url, text, *options, **more)


# a conversation with an agent of this project


def test_text_comes_as_it_arrives_and_statuses_go_aside(agent: str, tmp_path: Path) -> None:
    door = tmp_path / "door"
    with started(None, "send", agent, str(door), "--skill", "wait") as sent:
        sent.await_text("before ")
        sent.await_text("working: at the door\n", "err")
        door.touch()
        done = sent.result()
    assert (done.status, done.out) == (0, "before after\n"), done
    assert done.err.splitlines()[-1] == "completed"


def test_the_card_may_be_named_by_its_own_url_and_a_dash_is_standard_input(agent: str) -> None:
    done = send(f"{agent}/agent-card.json", "-", "--skill", "chat", stdin="one\ntwo ü\n")
    assert (done.status, done.out) == (0, "one\ntwo ü\n"), done


@pytest.mark.parametrize(
    ("skill", "question"), [("ask", ["Which city?", "Say its name."]), ("login", ["Log in first"])]
)
def test_a_question_is_exit_status_3_and_its_task_goes_on(agent: str, skill: str, question: list[str]) -> None:
    asked = send(agent, "the weather", "--skill", skill)
    assert asked.status == 3, asked
    *told, task, context, how = [line for line in asked.err.splitlines() if line != "working"]
    assert told == question
    assert how == f'answer it: a2ad send {agent} --task {task[6:]} --skill {skill} "…"'
    assert (task[:6], context[:9]) == ("task: ", "context: ")
    answered = send(agent, "Oslo", "--skill", skill, "--task", task[6:], "--context", context[9:], "--json")
    assert answered.status == 0, answered
    assert answered.json["text"].endswith("Sunny in Oslo" if skill == "ask" else "inside")
    assert (answered.json["taskId"], answered.json["contextId"]) == (task[6:], context[9:])


def test_options_are_a_list_aside_and_the_command_that_answers_is_said(agent: str) -> None:
    env = {"MY TOKEN": TOKEN}
    asked = send(agent, "x", "--skill", "pick", "--token-env", "MY TOKEN", "--timeout", "9", env=env)
    assert (asked.status, asked.out) == (3, "So far so good.\n"), asked
    question, oslo, rome, _task, _context, how = [line for line in asked.err.splitlines() if line != "working"]
    assert (question, oslo.split(maxsplit=1), rome.split()) == (
        "Which city?",
        ["oslo", "Oslo, in the north"],
        ["rome", "Rome"],
    )
    words = shlex.split(how.removeprefix("answer it: "))
    assert "'MY TOKEN'" in how
    answered = run(None, *[word.replace("…", "rome") for word in words[1:]], env=env)
    assert (answered.status, answered.out) == (0, "So far so good. It is rome\n"), answered


@pytest.mark.parametrize(
    ("skill", "out", "told"),
    [
        ("fail", "half\n", "a2ad: the remote task failed: Out of paper"),
        ("reject", "", "a2ad: the remote task was rejected: Not today"),
    ],
)
def test_a_failure_is_exit_status_1_with_the_remotes_words(agent: str, skill: str, out: str, told: str) -> None:
    done = send(agent, "x", "--skill", skill)
    assert (done.status, done.out) == (1, out), done
    assert done.err.splitlines()[-1] == told


def test_data_is_json_and_files_are_named(agent: str) -> None:
    done = send(agent, "x", "--skill", "mixed")
    assert done.status == 0, done
    assert "".join("".join(done.out.partition("Place:")[:2]).split()) == "Numbers:Place:"
    assert done.out.partition("Place:")[2].strip().split("\n") == [
        '{"count":42}',
        "[file a.txt, text/plain, 5 bytes]",
        "[file, image/png: https://x.example/b.png]",
    ]


@pytest.mark.parametrize(
    ("skill", "out", "last"),
    [
        ("closing", "All is done.\n", "completed"),
        ("both", "the answer\n", "completed: All is done."),
        ("direct", "You said x\n", None),
    ],
)
def test_closing_words_and_direct_messages_are_said_once(agent: str, skill: str, out: str, last: str | None) -> None:
    done = send(agent, "x", "--skill", skill)
    assert (done.status, done.out) == (0, out), done
    assert (done.err.splitlines() or [None])[-1] == last


def test_a_terminal_is_not_driven_and_a_pipe_gets_what_was_said(agent: str) -> None:
    piped = send(agent, "x", "--skill", "escapes")
    assert piped.out == "title \x1b]0;gotcha\x07 \u202eback\n", piped
    assert "working: red [31malert\n" in piped.err
    ended, screen = on_terminal(None, "send", agent, "x", "--skill", "escapes")
    assert ended == 0
    assert "title ]0;gotcha back\n" in screen
    assert "\x1b" not in screen


@pytest.mark.parametrize(("number", "ended"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_cancels_the_task(
    daemon: DaemonProcess, agent: str, tmp_path: Path, number: int, ended: int
) -> None:
    with started(None, "send", agent, str(tmp_path / "door"), "--skill", "wait") as sent:
        sent.await_text("before ")
        sent.process.send_signal(number)
        done = sent.result()
    assert (done.status, done.out) == (ended, "before "), done
    newest = max(daemon.read("")["tasks"], key=lambda task: task["id"])
    assert newest["state"] == "TASK_STATE_CANCELED"


def test_a_closed_pipe_ends_it_and_cancels_the_task(daemon: DaemonProcess, agent: str) -> None:
    with started(None, "send", agent, "x", "--skill", "tick") as sent:
        sent.await_text("tick\n")
        sent.close_stdout()
        done = sent.result()
    assert done.status == 1, done
    assert done.err.splitlines() == ["working"]
    newest = max(daemon.read("")["tasks"], key=lambda task: task["id"])
    await_state(daemon, newest["id"], "CANCELED")


# remotes that are scripted


def test_nothing_is_said_twice_and_the_message_says_what_was_asked_for(remote: Remote) -> None:
    whole = parts_of("the answer")
    remote.on(
        "SendStreamingMessage",
        stream(
            snapshot("SUBMITTED"),
            status("WORKING", "thinking"),
            status("WORKING", "thinking"),
            artifact("the "),
            artifact("answer", append=True),
            artifact("the answer"),
            status("COMPLETED", "the answer"),
            snapshot("COMPLETED", "the answer", whole),
        ),
    )
    done = send(remote.card_url, "hello", "--skill", "chat", "--context", "c9", "--task", "t9")
    assert (done.status, done.out) == (0, "the answer\n"), done
    assert done.err.splitlines() == ["submitted", "working: thinking", "completed"]
    (asked,) = remote.asked("SendStreamingMessage")
    message = asked.message
    assert (message["role"], message["parts"], message["metadata"]) == (
        "ROLE_USER",
        [{"text": "hello"}],
        {"skill": "chat"},
    )
    assert (message["contextId"], message["taskId"]) == ("c9", "t9")
    assert asked.headers["a2a-version"] == "1.0"


def test_json_is_the_result_alone(remote: Remote) -> None:
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), artifact("one"), status("FAILED", "no ink")))
    remote.on("GetTask", answer(snapshot("FAILED", "no ink", parts_of("one"))["task"]))
    done = send(remote.card_url, "hello", "--json")
    assert done.status == 1, done
    assert done.json == {
        "ok": False,
        "message": "the remote task is TASK_STATE_FAILED",
        "text": "one\n\nno ink",
        "state": "TASK_STATE_FAILED",
        "taskId": TASK,
        "contextId": CONTEXT,
    }
    assert done.err.splitlines()[-1] == "a2ad: the remote task failed: no ink"


def test_a_failure_whose_words_are_its_answer_says_them_once(remote: Remote) -> None:
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), snapshot("FAILED", "no ink", parts_of("no ink"))))
    done = send(remote.card_url)
    assert (done.status, done.out) == (1, "no ink\n"), done
    assert done.err.splitlines() == ["working", "a2ad: the remote task failed: no ink"]
    assert send(remote.card_url, "hello", "--json").json["text"] == "no ink"


def test_what_cannot_be_written_is_told_in_one_line_and_ends_it(remote: Remote) -> None:
    """At once: the task, which would go on for ever, is canceled."""
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), artifact("x"), HANG))
    done = run_to_full_disk(None, "send", remote.card_url, "hello")
    assert done.status == 1, done
    assert done.err.splitlines() == ["working", "a2ad: the answer cannot be written: No space left on device"]
    assert [asked.params for asked in remote.asked("CancelTask")] == [{"id": TASK}]
    for options in ([], ["--json"]):
        remote.on("SendStreamingMessage", stream(snapshot("COMPLETED", "", parts_of("x"))))
        done = run_to_full_disk(None, "send", remote.card_url, "hello", *options)
        assert done.status == 1, done
        assert done.err.splitlines()[-1] == "a2ad: the answer cannot be written: No space left on device"
        assert done.err.count("a2ad: ") == 1, done


def test_a_cut_stream_is_taken_up_again(remote: Remote) -> None:
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), artifact("one ")))
    remote.on("SubscribeToTask", stream(snapshot("WORKING", "", parts_of("one ")), artifact("two", append=True),
                                        snapshot("COMPLETED", "", parts_of("one two"))))  # fmt: skip
    done = send(remote.card_url)
    assert (done.status, done.out) == (0, "one two\n"), done


def test_an_agent_that_does_not_stream_is_asked_until_it_is_done(remote: Remote) -> None:
    remote.card["capabilities"]["streaming"] = False
    remote.on("SendMessage", answer(snapshot("SUBMITTED")))
    remote.on("GetTask", answer(snapshot("WORKING")["task"]), answer(snapshot("COMPLETED", "", parts_of("x"))["task"]))
    done = send(remote.card_url)
    assert (done.status, done.out) == (0, "x\n"), done
    assert done.err.splitlines() == ["submitted", "working", "completed"]


def test_an_agent_that_makes_no_progress_is_given_up_and_its_task_canceled(remote: Remote) -> None:
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), HANG))
    done = send(remote.card_url, "hello", "--timeout", "0.5")
    assert (done.status, done.out) == (1, ""), done
    assert done.err.splitlines() == ["working", "a2ad: the agent made no progress for 0.5 s"]
    (canceled,) = remote.asked("CancelTask")
    assert canceled.params == {"id": TASK}


def test_a_signal_waits_for_the_id_of_the_task_and_a_second_one_does_not(remote: Remote) -> None:
    gate = Gate()
    remote.on("SendStreamingMessage", stream(b":\n\n", gate, snapshot("WORKING"), HANG))
    with started(None, "send", remote.card_url, "hello") as sent:
        until(lambda: remote.asked("SendStreamingMessage"), "the message is there")
        sent.process.send_signal(signal.SIGINT)
        sent.await_text("canceling", "err")
        gate.open()
        assert sent.result().status == 130
    assert [asked.params for asked in remote.asked("CancelTask")] == [{"id": TASK}]

    remote.on("SendStreamingMessage", silence)
    with started(None, "send", remote.card_url, "hello") as sent:
        until(lambda: len(remote.asked("SendStreamingMessage")) == 2, "the message is there")
        sent.process.send_signal(signal.SIGTERM)
        sent.await_text("canceling", "err")
        sent.process.send_signal(signal.SIGTERM)
        assert sent.result().status == 143


def test_the_token_goes_to_the_origin_of_the_card_alone_and_is_not_said(remote: Remote) -> None:
    echo = [snapshot("WORKING"), artifact("token s3cr3t-of-"), artifact("the-remote", append=True)]
    remote.on("SendStreamingMessage", stream(*echo, snapshot("COMPLETED", "", parts_of(f"token {TOKEN}"))))
    env = {"REMOTE_TOKEN": TOKEN}
    done = send(remote.card_url, "hello", "--token-env", "REMOTE_TOKEN", env=env)
    assert (done.status, done.out) == (0, "token ***\n"), done
    assert {asked.headers.get("authorization") for asked in remote.requests} == {f"Bearer {TOKEN}"}

    with Remote() as other:
        other.on("SendStreamingMessage", http(401))
        remote.card["supportedInterfaces"][0]["url"] = f"{other.url}/rpc"
        refused = send(remote.card_url, "hello", "--token-env", "REMOTE_TOKEN", env=env)
        assert (refused.status, refused.out) == (1, "")
        assert "the token goes to the origin of the card alone" in refused.err
        assert [asked.headers.get("authorization") for asked in other.requests] == [None]


@pytest.mark.parametrize("token", ["test", "t"])
def test_a_token_that_is_an_ordinary_word_stays_in_answers_but_not_in_failures(remote: Remote, token: str) -> None:
    text = "this is a test of testing, tick"
    env = {"REMOTE_TOKEN": token}
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), artifact(text), status("COMPLETED")))
    remote.on("GetTask", answer(snapshot("COMPLETED", "", parts_of(text))["task"]))
    done = send(remote.card_url, "hello", "--token-env", "REMOTE_TOKEN", env=env)
    assert (done.status, done.out) == (0, f"{text}\n"), done
    failed = stream(snapshot("WORKING"), snapshot("FAILED", "Not with test!", parts_of(text)))
    remote.on("SendStreamingMessage", failed, refusal(-32602, "test is wrong"))
    done = send(remote.card_url, "hello", "--token-env", "REMOTE_TOKEN", env=env)
    assert (done.status, done.out) == (1, f"{text}\n"), done
    told = done.err.rpartition("failed: ")[2]
    assert told == "Not with test!\n".replace(token, "***")
    refused = send(remote.card_url, "hello", "--token-env", "REMOTE_TOKEN", env=env)
    assert "test" not in refused.err
    assert "*** is wrong" in refused.err or token == "t"


def test_a_direct_message_that_ends_like_the_token_begins_is_whole(remote: Remote) -> None:
    remote.on("SendStreamingMessage", stream({"message": said("all of s3cr3t-of")}))
    done = send(remote.card_url, "hello", "--token-env", "REMOTE_TOKEN", env={"REMOTE_TOKEN": TOKEN})
    assert (done.status, done.out) == (0, "all of s3cr3t-of\n"), done


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (refusal(-32602, "I do\nnot understand"), "I do not understand (-32602)"),
        (http(403), "refuses with HTTP 403 Forbidden"),
        (answer({"nonsense": 1}), "neither task, message"),
    ],
)
def test_what_the_remote_refuses_is_one_line(remote: Remote, script: Any, told: str) -> None:
    remote.on("SendStreamingMessage", script)
    done = send(remote.card_url)
    assert (done.status, done.out) == (1, ""), done
    (line,) = done.err.splitlines()
    assert line.startswith("a2ad: ")
    assert told in line


def test_what_is_no_agent_is_one_line(remote: Remote, daemon: DaemonProcess) -> None:
    places = ["http://127.0.0.1:1", f"{remote.url}/nothing.json", f"{daemon.url}/a2a/api"]
    for place in places:
        done = send(place)
        assert (done.status, done.out) == (1, ""), done
        assert len(done.err.splitlines()) == 1, done
    as_json = send(places[0], "hello", "--json")
    assert (as_json.status, as_json.json["ok"]) == (1, False)
    assert as_json.json["message"] in as_json.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["ftp://x.example", "hello"],
        ["no url", "hello"],
        ["http://127.0.0.1:1"],
        ["http://127.0.0.1:1", ""],
        ["http://127.0.0.1:1", "a", "b"],
        ["http://127.0.0.1:1", "hello", "--timeout", "0"],
        ["http://127.0.0.1:1", "hello", "--token-env", "NO_SUCH_VARIABLE"],
        ["http://127.0.0.1:1", "hello", "--token-env", "NO_TOKEN"],
    ],
)
def test_wrong_use_is_exit_status_2(arguments: list[str]) -> None:
    done = run(None, "send", *arguments, env={"NO_TOKEN": "two words"})
    assert (done.status, done.out) == (2, ""), done
    assert "two words" not in done.err
