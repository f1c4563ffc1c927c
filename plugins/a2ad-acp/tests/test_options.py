"""The options of a preset: what is wrong with them is a start-up error that names preset and option."""

import subprocess
import sys

import pytest

from a2ad import Preset, PresetError
from a2ad.testing import doctor
from a2ad_acp.options import read_options
from a2ad_acp.plugin import make_agent


def preset(**options):
    return Preset("p", "P", "", "acp", options, ())


def test_a_command_is_all_that_is_needed():
    options = read_options(preset(command=["agent", "--acp"]))
    assert (options.command, options.env, options.cwd, options.permission) == (("agent", "--acp"), {}, None, "ask")
    assert (options.permission_seconds, options.start_seconds) == (3600, 60)
    assert (options.resumes, options.tools, options.mode) == (False, True, None)


@pytest.mark.parametrize(("value", "resumes"), [("fail", False), ("again", True)])
def test_the_agent_says_whether_its_turns_are_taken_again(value, resumes):
    assert make_agent(preset(command=["agent"], after_restart=value)).can_resume is resumes


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "option 'command' is missing: a list of strings that are not empty: a program and its arguments"),
        ({"command": "agent"}, "option 'command' must be a list of strings"),
        ({"command": []}, "option 'command' must be a list of strings"),
        ({"command": ["agent", 1]}, "option 'command' must be a list of strings"),
        ({"env": {"A": 1}}, "option 'env' must be a table of names and strings"),
        ({"env": {"A=B": "x"}}, "option 'env' must be a table of names and strings"),
        ({"env": []}, "option 'env' must be a table of names and strings"),
        ({"cwd": "here"}, "option 'cwd' must be an absolute path, not 'here'"),
        ({"permission": "yes"}, 'option \'permission\' must be "ask", "allow" or "deny", not \'yes\''),
        ({"permission": ["ask"]}, 'option \'permission\' must be "ask", "allow" or "deny", not [\'ask\']'),
        ({"permission_seconds": 0}, "option 'permission_seconds' must be a number of seconds above 0, not 0"),
        ({"permission_seconds": True}, "option 'permission_seconds' must be a number of seconds above 0, not True"),
        ({"start_seconds": "60"}, "option 'start_seconds' must be a number of seconds above 0, not '60'"),
        ({"start_seconds": float("nan")}, "option 'start_seconds' must be a number of seconds above 0, not nan"),
        ({"after_restart": "resume"}, "option 'after_restart' must be \"fail\" or \"again\", not 'resume'"),
        ({"tools": 1}, "option 'tools' must be true or false, not 1"),
        ({"mode": ""}, "option 'mode' must be the id of one of the agent's modes, not ''"),
        (
            {"permissions": "ask"},
            "unknown option 'permissions'; known: command, env, cwd, permission, permission_seconds, after_",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_was_expected(options, problem):
    command = {} if options == {} else {"command": ["agent"]}
    with pytest.raises(PresetError) as raised:
        make_agent(preset(**{**command, **options}))
    assert str(raised.value).startswith(problem)


def test_all_that_is_wrong_is_told_at_once_and_no_value_of_the_environment():
    with pytest.raises(PresetError) as raised:
        make_agent(preset(command=["agent"], env={"KEY": 5, "OTHER": "s3cr3t"}, tools="no", colour="red"))
    text = str(raised.value)
    assert all(name in text for name in ("'env'", "'tools'", "'colour'"))
    assert "s3cr3t" not in text


def test_a_daemon_whose_preset_is_wrong_does_not_start(tmp_path):
    config = tmp_path / "a2ad.toml"
    config.write_text('[[presets]]\nid = "mine"\nagent = "acp"\noptions = {command = ["x"], permision = "ask"}\n')
    command = [sys.executable, "-m", "a2ad", "serve", "--listen", "127.0.0.1:0", "--config", str(config)]
    command += ["--state-dir", str(tmp_path / "state")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "preset 'mine': unknown option 'permision'" in done.stderr


NOT_SET = "The agent's KEY is to be the daemon's NO_SUCH_KEY, which is not set"
NO_PROGRAM = "The agent cannot be started: there is no program"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ["sh"]}, ""),
        ({"command": ["no-such-program"]}, f"{NO_PROGRAM} 'no-such-program'"),
        ({"command": ["sh"], "env": {"PATH": "/nonexistent"}}, f"{NO_PROGRAM} 'sh'"),
        ({"command": ["sh"], "env": {"KEY": "$NO_SUCH_KEY"}}, NOT_SET),
        ({"command": ["sh"], "cwd": "/nonexistent"}, "The agent cannot be started: its directory is not there"),
        ({"command": ["./run"], "cwd": "/"}, f"{NO_PROGRAM} './run'"),
        ({"command": ["/etc/passwd"]}, "The agent cannot be started: '/etc/passwd' is not executable"),
        ({"command": ["./run"]}, ""),  # the daemon may be started from where it is
    ],
)
def test_doctor_says_what_an_agent_lacks_in_the_words_of_the_task_that_would_fail(tmp_path, options, message):
    presets = [{"id": "mine", "agent": "acp", "options": options}]
    assert doctor(tmp_path, presets)["preset mine (acp)"] == message


def test_the_library_is_not_loaded_before_it_is_needed():
    script = "import sys, a2ad_acp.plugin; print([name for name in ('acp', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
