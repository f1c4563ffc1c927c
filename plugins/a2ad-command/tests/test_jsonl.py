"""The mode `jsonl`: a line is an event."""

from collections.abc import Iterator
from typing import Any

import pytest
from support import said, start, state_of

from a2ad.testing import DaemonProcess, text_of

#: writes the prompt as it is
CAT = (["cat"], {"output": "jsonl"})
GIANT = """
import sys
for _ in range(40): sys.stdout.write("x" * 1_000_000)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    broken = 'import os; os.write(1, b\'{"type": "text", "text": "\\xff"}\')'
    programs = {"cat": CAT, "broken": (broken, {"output": "jsonl"}), "giant": (GIANT, {"output": "jsonl"})}
    process = start(tmp_path_factory.mktemp("jsonl"), programs)
    yield process
    assert process.terminate() == 0
    assert "Traceback" not in process.log()


def test_lines_are_texts_artifacts_and_statuses(daemon: DaemonProcess) -> None:
    lines = """
{"type": "status", "state": "TASK_STATE_WORKING", "message": "reading"}
{"type": "text", "text": "Hello "}
{"type": "artifact", "parts": [{"text": "a"}], "artifactId": "log", "name": "Log", "append": true, "lastChunk": false}
{"type": "artifact", "parts": [{"text": "b"}, {"data": 1}], "artifactId": "log", "append": true, "lastChunk": true}
{"type": "artifact", "parts": [{"raw": "aGk=", "mediaType": "text/plain", "filename": "hi.txt"}], "artifactId": "file"}
{"type": "text", "text": "you"}
{"type": "status", "state": "COMPLETED", "message": [{"text": "done"}]}"""
    frames = list(daemon.send_streaming("cat", lines.lstrip()))
    statuses = [frame["statusUpdate"] for frame in frames if "statusUpdate" in frame]
    assert [said(update) for update in statuses if "message" in update["status"]] == ["reading", "done"]
    task = frames[-1]["task"]
    assert (state_of(task), text_of(task)) == ("COMPLETED", "Hello you")
    log, file = (artifact for artifact in task["artifacts"] if artifact["artifactId"] != "result")
    assert log == {"artifactId": "log", "name": "Log", "parts": [{"text": "ab"}, {"data": 1}]}
    assert file["parts"] == [{"raw": "aGk=", "mediaType": "text/plain", "filename": "hi.txt"}]
    updates = [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]
    assert [each["artifact"]["artifactId"] for each in updates if each.get("lastChunk")] == ["log", "result"]


def test_a_state_ends_the_task_with_its_message(daemon: DaemonProcess) -> None:
    task = daemon.send("cat", '{"type": "status", "state": "TASK_STATE_REJECTED", "message": "not today"}\n')
    assert (state_of(task), said(task)) == ("REJECTED", "not today")


def test_a_question_interrupts_the_task_and_the_answer_is_the_next_prompt(daemon: DaemonProcess) -> None:
    task = daemon.send("cat", '{"type": "status", "state": "INPUT_REQUIRED", "message": "Which?"}\n')
    assert (state_of(task), said(task)) == ("INPUT_REQUIRED", "Which?")
    done = daemon.answer("cat", task, '{"type": "text", "text": "this one"}')
    assert (state_of(done), text_of(done)) == ("COMPLETED", "this one")


BAD: list[Any] = [
    ("hello", "is not JSON"),
    ("", "is not JSON"),
    ('{"type": "text", "text": "cut', "is not JSON"),
    ('{"type": "text", "text": "\\ud83d"}', "is not JSON"),
    ("[1]", "is not an object"),
    ("null", "is not an object"),
    ('{"text": "x"}', 'has no "type"'),
    ('{"type": "thought", "text": "x"}', 'has no "type"'),
    ('{"type": ["text"]}', 'has no "type"'),
    ('{"type": "text"}', 'has no "text"'),
    ('{"type": "text", "text": 1}', 'has a wrong "text"'),
    ('{"type": "text", "text": "x", "append": true}', "has unknown fields: append"),
    ('{"type": "artifact"}', 'has no "parts"'),
    ('{"type": "artifact", "parts": {"text": "x"}}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"text": "x", "data": 1}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"text": 1}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"text": null}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"url": ["x"]}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"raw": "no base64!"}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"raw": "abcde"}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"text": "x", "kind": "text"}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"text": "x", "mediaType": 1}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"text": "x", "metadata": []}]}', 'has a wrong "parts"'),
    ('{"type": "artifact", "parts": [{"data": ' + "[" * 101 + "]" * 101 + "}]}", 'has a wrong "parts"'),
    ('{"type": "status", "state": "FAILED", "message": [{"text": 1}]}', 'has a wrong "message"'),
    ('{"type": "status", "state": "FAILED", "message": [{"raw": "?"}]}', 'has a wrong "message"'),
    ('{"type": "artifact", "parts": [], "artifactId": ""}', 'has a wrong "artifactId"'),
    ('{"type": "artifact", "parts": [], "artifact_id": "x"}', "has unknown fields: artifact_id"),
    ('{"type": "artifact", "parts": [], "append": 1}', 'has a wrong "append"'),
    ('{"type": "status", "state": "DONE"}', 'has a wrong "state"'),
    ('{"type": "status", "state": "SUBMITTED"}', 'has a wrong "state"'),
    ('{"type": "status", "state": "WORKING", "message": 1}', 'has a wrong "message"'),
]


@pytest.mark.parametrize(("line", "problem"), BAD, ids=range(len(BAD)))
def test_any_other_line_fails_the_task_and_is_shown(daemon: DaemonProcess, line: str, problem: str) -> None:
    task = daemon.send("cat", f'{{"type": "text", "text": "before"}}\n{line}\n{{"type": "text", "text": "after"}}')
    assert (state_of(task), text_of(task)) == ("FAILED", "before")
    assert problem in said(task)
    assert said(task).endswith(f": {line}")


def test_parts_are_taken_as_a2a_has_them(daemon: DaemonProcess) -> None:
    deep = "[" * 100 + "]" * 100
    parts = '[{"raw": "_-8", "mediaType": null}, {"raw": "+/8="}, {"url": "x"}, {"data": null}, {"data": ' + deep + "}]"
    task = daemon.send("cat", f'{{"type": "artifact", "parts": {parts}}}')
    assert state_of(task) == "COMPLETED"
    raw = [part.get("raw") for part in task["artifacts"][0]["parts"]]
    assert raw == ["/+8=", "+/8=", None, None, None]


def test_a_line_that_is_shown_drives_no_terminal(daemon: DaemonProcess) -> None:
    assert said(daemon.send("cat", "\x1b[2J\x00junk")).endswith(": [2Jjunk")


def test_bytes_that_are_no_text_are_replaced_in_a_line_too(daemon: DaemonProcess) -> None:
    assert text_of(daemon.send("broken", "")) == "\ufffd"


def test_a_line_without_end_fails_the_task_and_its_beginning_is_shown(daemon: DaemonProcess) -> None:
    task = daemon.send("giant", "")
    assert state_of(task) == "FAILED"
    assert said(task).startswith("A line of the output is longer than 16777216 bytes: xxx")
    assert len(said(task)) < 400


def test_a_long_line_that_is_wrong_is_shown_in_part(daemon: DaemonProcess) -> None:
    task = daemon.send("cat", "y" * 3_000_000)
    assert said(task).startswith("A line of the output is not JSON")
    assert len(said(task)) < 500


def test_a_line_of_more_arrays_than_anybody_needs_is_an_error_and_a_field_s_name_is_cut(daemon: DaemonProcess) -> None:
    many = daemon.send("cat", '{"type": "artifact", "parts": [{"data": [' + "[]," * 120_000 + "0]}]}")
    assert state_of(many) == "FAILED"
    assert "arrays and objects" in said(many)

    odd = daemon.send("cat", '{"type": "text", "text": "x", "' + "n" * 100_000 + '": 1}')
    assert state_of(odd) == "FAILED"
    assert len(said(odd)) < 2000
