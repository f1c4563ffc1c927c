"""What a program is given, and what becomes of what it writes."""

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import said, start, state_of, wait_for

from a2ad.testing import DaemonProcess, text_of

SHOW = """
import json, os, sys
print(json.dumps({"in": sys.stdin.read(), "arguments": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}))
"""

PROGRAMS: dict[str, Any] = {
    "show": SHOW,
    "show-argument": (SHOW, {"input": "argument", "env": {"LANG": "xx", "KEY": "of the preset"}}),
    "ctype": (["printenv", "LC_CTYPE"], {"env": {"LANG": "C", "LC_CTYPE": "C.UTF-8"}}),
    "env": (["env"], {"env": {"LANG": "C", "PYTHONHOME": "/nowhere", "TWO": "a\nb=c"}}),
    "show-root": (SHOW, {"cwd": "/"}),
    "slow": """
import pathlib, sys, time
print("one ", end="", flush=True)
pathlib.Path("said-one").touch()
while not pathlib.Path("go-on").exists():
    time.sleep(0.02)
print("two", end="")
""",
    "bytes": r"""
import os, time
for byte in "héllo 🌍".encode():
    os.write(1, bytes([byte]))
    time.sleep(0.01)
os.write(1, b" \xff! \xf0\x9f")
""",
    "fails": """
import sys
print("half an ans", end="", flush=True)
print("x" * 100_000, "the reason", sep="\\n", file=sys.stderr)
sys.exit(3)
""",
    "fails-silently": "raise SystemExit(4)",
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "counts": """
import pathlib
file = pathlib.Path("count")
count = int(file.read_text()) + 1 if file.exists() else 1
file.write_text(str(count))
print(count, end="")
""",
    "silent": "pass",
    "pipes": "import sys, time\ntry:\n    while True: print('y' * 1000)\nexcept BrokenPipeError: sys.exit(9)",
    "sigpipe": (["sh", "-c", "yes | head -n 1"], {}),
    "missing": (["no-such-program", "--flag"], {}),
    "no-program": (["/dev/null"], {}),
    "no-cwd": (["true"], {"cwd": "/no/such/directory"}),
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    process = start(tmp_path_factory.mktemp("turns"), PROGRAMS, env={"SECRET": "of the daemon", "LANG": "C.UTF-8"})
    yield process
    assert process.terminate() == 0
    assert "Traceback" not in process.log()


def test_the_prompt_is_on_stdin_and_the_answer_on_stdout(daemon: DaemonProcess) -> None:
    shown = json.loads(text_of(daemon.send("show", "hello 🌍")))
    assert shown["in"] == "hello 🌍"
    assert shown["arguments"] == []


def test_a_prompt_as_an_argument_comes_last_and_stdin_is_empty(daemon: DaemonProcess) -> None:
    shown = json.loads(text_of(daemon.send("show-argument", "--hello 'you'; $HOME")))
    assert (shown["in"], shown["arguments"]) == ("", ["--hello 'you'; $HOME"])


def test_a_prompt_that_is_no_argument_fails_and_says_why(daemon: DaemonProcess) -> None:
    long, null = daemon.send("show-argument", "x" * 200_000), daemon.send("show-argument", "a\0b")
    assert [state_of(task) for task in (long, null)] == ["FAILED", "FAILED"]
    assert "Argument list too long" in said(long)
    assert "null" in said(null)


def test_the_environment_is_path_home_lang_and_what_the_preset_gives(daemon: DaemonProcess) -> None:
    environment = json.loads(text_of(daemon.send("show", "")))["env"]
    environment.pop("LC_CTYPE", None)  # Python's own
    wanted = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    assert environment == {**wanted, "LANG": "C.UTF-8"}

    environment = json.loads(text_of(daemon.send("show-argument", "")))["env"]
    assert (environment["LANG"], environment["KEY"]) == ("xx", "of the preset")
    assert "SECRET" not in environment


def test_what_starts_the_program_changes_nothing_in_its_environment(daemon: DaemonProcess) -> None:
    """It is Python, which has variables that concern it, and in the locale C adds one of its own."""
    lines = text_of(daemon.send("env", "")).splitlines()
    names = [line.partition("=")[0] for line in lines if line != "b=c"]
    assert sorted(set(names) - {"PATH", "HOME"}) == ["LANG", "PYTHONHOME", "TWO"]
    assert {"LANG=C", "PYTHONHOME=/nowhere", "TWO=a", "b=c"} <= set(lines)
    assert text_of(daemon.send("ctype", "")) == "C.UTF-8\n"


def test_a_conversation_has_a_directory_of_its_own(daemon: DaemonProcess) -> None:
    first, other = daemon.send("counts", ""), daemon.send("counts", "")
    second = daemon.send("counts", "", contextId=first["contextId"])
    assert [text_of(task) for task in (first, second, other)] == ["1", "2", "1"]
    assert json.loads(text_of(daemon.send("show-root", "")))["cwd"] == "/"


def test_data_urls_and_files_stand_in_the_prompt(daemon: DaemonProcess) -> None:
    parts = [
        {"text": "look:"},
        {"data": {"a": 1}},
        {"url": "https://example.org/x"},
        {"raw": b64encode(b"content").decode(), "mediaType": "text/plain", "filename": "notes.txt"},
    ]
    task = daemon.send("show", "", parts=parts)
    *lines, file = json.loads(text_of(task))["in"].splitlines()
    assert lines == ["look:", '{"a":1}', "https://example.org/x"]
    assert file.startswith("[notes.txt, text/plain, 7 bytes: ")
    assert Path(file.rpartition(": ")[2].rstrip("]")).read_bytes() == b"content"


def test_output_is_streamed_while_the_program_runs(daemon: DaemonProcess) -> None:
    frames = daemon.send_streaming("slow", "")
    first = next(frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame)
    assert first["artifact"]["parts"] == [{"text": "one "}]

    (marker,) = wait_for(lambda: list(daemon.state_dir.rglob("said-one")))
    marker.with_name("go-on").touch()
    assert text_of(list(frames)[-1]["task"]) == "one two"


def test_characters_that_come_in_pieces_are_whole_and_broken_ones_are_replaced(daemon: DaemonProcess) -> None:
    assert text_of(daemon.send("bytes", "")) == "héllo 🌍 \ufffd! \ufffd"


def test_an_exit_status_is_a_failure_with_the_end_of_stderr(daemon: DaemonProcess) -> None:
    task = daemon.send("fails", "")
    assert state_of(task) == "FAILED"
    assert "ended with status 3: xxx" in said(task)
    assert said(task).endswith("x\nthe reason")
    assert len(said(task)) < 5000
    assert text_of(task) == "half an ans"
    assert said(daemon.send("fails-silently", "")).endswith("ended with status 4")
    assert said(daemon.send("dies", "")).endswith("was ended by SIGSEGV")


def test_a_program_that_says_nothing_completes_its_task(daemon: DaemonProcess) -> None:
    task = daemon.send("silent", "x" * 5_000_000)  # and never reads
    assert (state_of(task), text_of(task)) == ("COMPLETED", "")


def test_signals_are_as_a_shell_would_leave_them(daemon: DaemonProcess) -> None:
    """`yes` ends with SIGPIPE: where that is ignored, it complains."""
    task = daemon.send("sigpipe", "")
    assert (state_of(task), text_of(task)) == ("COMPLETED", "y\n")


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("missing", "no-such-program ended with status 127: cannot run no-such-program: No such file or directory"),
        ("no-program", "null ended with status 127: cannot run /dev/null: Permission denied"),
        ("no-cwd", "true could not be started: its cwd: No such file or directory"),
    ],
)
def test_a_program_that_cannot_be_run_fails_the_task_with_the_reason(
    daemon: DaemonProcess, agent: str, reason: str
) -> None:
    task = daemon.send(agent, "hello")
    assert (state_of(task), said(task)) == ("FAILED", reason)
