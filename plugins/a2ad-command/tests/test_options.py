"""A preset with wrong options keeps the daemon from starting, and it says which."""

from pathlib import Path
from typing import Any

import pytest

from a2ad.testing import DaemonProcess, doctor

WRONG: list[Any] = [
    ({}, "option 'command' is missing"),
    ({"command": "cat"}, "option 'command' must be a list of strings"),
    ({"command": []}, "option 'command' must be"),
    ({"command": [""]}, "option 'command' must be"),
    ({"command": ["cat", 1]}, "option 'command' must be"),
    ({"command": ["cat"], "comand": ["cat"]}, "unknown option 'comand'; known: command, env, cwd"),
    ({"command": ["cat"], "env": ["A=1"]}, "option 'env' must be a table of strings"),
    ({"command": ["cat"], "env": {"A": 1}}, "option 'env' must be"),
    ({"command": ["cat"], "env": {"A=B": "1"}}, "option 'env' must be"),
    ({"command": ["cat"], "cwd": "here"}, "option 'cwd' must be an absolute path"),
    ({"command": ["cat"], "input": "file"}, 'option \'input\' must be "stdin" or "argument"'),
    ({"command": ["cat"], "output": ["text"]}, 'option \'output\' must be "text" or "jsonl"'),
    ({"command": ["cat"], "timeout_seconds": 0}, "option 'timeout_seconds' must be a number of seconds above 0"),
    ({"command": ["cat"], "timeout_seconds": "5"}, "option 'timeout_seconds' must be"),
    ({"command": ["cat"], "timeout_seconds": True}, "option 'timeout_seconds' must be"),
    ({"command": ["cat"], "timeout_seconds": float("inf")}, "option 'timeout_seconds' must be"),
]


@pytest.mark.parametrize(("options", "problem"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_option_is_a_start_up_error_that_names_preset_and_option(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(AssertionError) as failed:
        DaemonProcess(tmp_path, presets=[{"id": "mine", "agent": "command", "options": options}])
    assert f"a2ad: preset 'mine': {problem}" in str(failed.value)
    assert "Traceback" not in str(failed.value)


def test_all_wrong_options_are_named_at_once_and_no_value_is(tmp_path: Path) -> None:
    options = {"command": ["cat"], "env": {"KEY": "s3cr3t", "N": 1}, "input": "s3cr3t", "cwd": "s3cr3t"}
    with pytest.raises(AssertionError) as failed:
        DaemonProcess(tmp_path, presets=[{"id": "mine", "agent": "command", "options": options}])
    for name in ("env", "input", "cwd"):
        assert f"option {name!r} must be" in str(failed.value)
    assert "s3cr3t" not in str(failed.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ["sh"]}, ""),
        ({"command": ["no-such-program"]}, "the program no-such-program is not found"),
        ({"command": ["sh"], "env": {"PATH": "/nonexistent"}}, "the program sh is not found"),
        ({"command": ["sh"], "cwd": "/nonexistent"}, "its cwd /nonexistent is not there"),
        ({"command": ["./run"], "cwd": "/"}, "the program ./run is not found"),
        ({"command": ["etc/passwd"], "cwd": "/"}, "the program etc/passwd is not executable"),
        ({"command": ["/etc/passwd"]}, "the program /etc/passwd is not executable"),
        ({"command": ["./run"]}, ""),
        ({"command": ["/bin/sh"], "cwd": "/"}, ""),
    ],
)
def test_doctor_says_whether_the_program_is_there(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    presets = [{"id": "mine", "agent": "command", "options": options}]
    assert doctor(tmp_path, presets)["preset mine (command)"] == message
