"""What `a2ad call` and `a2ad send` print of an answer: once, whatever the remote says in which order."""

import subprocess
from typing import Any

import pytest

from a2ad.cli.frames import Telling
from a2ad.cli.terminal import Conversation, safe
from a2ad.cli.watch import _tell_row
from tests.cli_support import command, environment

COMPLETED = "TASK_STATE_COMPLETED"
FAILED = "TASK_STATE_FAILED"


def told(said: list[str], result: dict[str, Any], status: str = "", *, as_json: bool = False) -> int:
    conversation = Conversation(as_json=as_json)
    for text in said:
        conversation.say(text)
    if result.get("state"):
        conversation.state(result["state"], status)
    return conversation.finish({"ok": result.get("state") != FAILED, **result})


@pytest.mark.parametrize(
    ("said", "text", "out"),
    [
        (["one ", "two"], "one two", "one two\n"),
        (["one\n"], "one\n", "one\n"),
        ([], "closing words", "closing words\n"),
        (["ab"], "a\n\nb", "ab\n"),
        (["a", "b"], 'a\n{"n":1}\n\nb\n[file x]', 'ab\n{"n":1}\n[file x]\n'),
        (["draft", "\nfinal"], "final", "draft\nfinal\n"),
        (["1"], "1\n12", "1\n12\n"),
        (["one t"], "one two\n[file x]", "one two\n[file x]\n"),
        (["one "], "one two", "one two\n"),
        (["one"], "one two", "one two\n"),
        (["  one  "], "one\nmore", "  one  \nmore\n"),
        (["b", "a"], "a\n\nb", "ba\na\n"),
        ([], "", ""),
    ],
)
def test_a_result_is_printed_as_far_as_it_was_not_said(
    said: list[str], text: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(said, {"state": COMPLETED, "text": text}) == 0
    assert capsys.readouterr() == (out, "completed\n")


def test_a_failures_words_are_not_part_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(["half"], {"state": FAILED, "text": "half\n\nno ink,\nno paper"}, "no ink,\nno paper") == 1
    assert capsys.readouterr() == ("half\n", "a2ad: the remote task failed: no ink, no paper\n")


def test_json_has_no_character_that_drives_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(["x"], {"state": None, "text": "\x1b[31m\u202e\x9b"}, as_json=True) == 0
    out, err = capsys.readouterr()
    assert (out.replace("\n", "").isprintable(), out.isascii(), err) == (True, True, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 🎉\n\tand more", "plain ü 漢 🎉\n\tand more"),
        ("a\x1b[2Jb\x07\r\x9bc\u202ed\u2066e\ufeff", "a[2Jbcde"),
        ("hard\u00a0blank\u2028line\ue000", "hard\u00a0blank\u2028line\ue000"),
        ("real\r\nline\rfake", "real\nlinefake"),
        ("\udc80", "?"),
    ],
)
def test_what_is_shown_on_a_terminal_does_not_drive_it(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_a_closed_stdout_is_no_traceback() -> None:
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command("send", "http://127.0.0.1:1", "hello")],
        env=environment(None),
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"a2ad: http://127.0.0.1:1 cannot be reached")


def frame(text: str, name: str = "result", *, append: bool = True) -> dict[str, Any]:
    artifact = {"artifactId": name, "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": append}}


def whole(*texts: tuple[str, str], state: str = "TASK_STATE_WORKING") -> dict[str, Any]:
    artifacts = [{"artifactId": name, "parts": [{"text": text}]} for name, text in texts]
    return {"task": {"id": "t", "contextId": "c", "status": {"state": state}, "artifacts": artifacts}}


@pytest.mark.parametrize(
    ("frames", "out"),
    [
        ([whole(), frame("one "), frame("two")], "one two\n"),
        ([frame("one "), whole(("result", "one two")), frame(" three")], "one two three\n"),
        ([frame("draft"), frame("final", append=False)], "draft\nfinal\n"),
        ([frame("dra"), frame("draft", append=False)], "draft\n"),
        ([frame("a", "1"), frame("b", "2"), frame("c", "2"), whole(("1", "a"), ("2", "bc"))], "a\n\nbc\n"),
        ([frame(""), frame("x\n"), whole(("result", "x\n"))], "x\n"),
        ([frame("x" * (10 << 20)), whole(("result", "x" * (10 << 20)))], "x" * (10 << 20) + "\n"),
    ],
)
def test_what_a_task_says_in_frames_and_snapshots_is_said_once(
    frames: list[dict[str, Any]], out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = Conversation(as_json=False, task="the task")
    telling = Telling(conversation)
    for each in frames:
        telling.take(each)
    telling.take({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": FAILED}}})
    assert conversation.end(telling.outcome()) == 1
    printed = capsys.readouterr()
    assert printed.out == out
    assert printed.err.splitlines()[-1] == "a2ad: the task failed"


def test_nothing_of_a_task_drives_the_terminal_of_who_watches_them(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "2026-12-01\x1b[2J\x1b]0;owned\x07\u202e\x9b2J"
    _tell_row(dict.fromkeys(("id", "state", "updatedAt", "serverId", "summary", "error"), hostile))
    shown = capsys.readouterr().out
    assert shown.removesuffix("\n").isprintable()
