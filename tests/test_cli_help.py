"""What every command has: examples in its help, and JSON; and what help does not load."""

import subprocess
import sys

import click
import pytest

from a2ad.cli import COMMANDS, main
from tests.cli_support import PROGRAM, environment, every_command, is_group, run

ALL = every_command()
#: they run until they are ended, or print what a shell reads
NO_JSON = {"serve", "mcp", "completion"}
#: what is not wanted before a command does something
HEAVY = ("asyncio", "aiohttp", "marshmallow", "structlog", "http.client", "urllib.request", "ssl")


@pytest.mark.parametrize("path", ALL)
def test_every_help_has_an_example(path: str) -> None:
    command = ALL[path]
    with click.Context(main, info_name="a2ad") as root:
        help_text = command.get_help(click.Context(command, root, info_name=path))
    assert f" a2ad {path}" in help_text.partition("\n")[2]


@pytest.mark.parametrize("path", ["", *(path for path, command in ALL.items() if is_group(command))])
def test_what_a_command_does_is_told_whole_in_80_columns(path: str) -> None:
    told = run(None, *path.split(), "--help", env={"COLUMNS": "80"}).out.partition("Commands:\n")[2].splitlines()
    assert told
    assert [line for line in told if line.endswith("...") or len(line) > 80] == []


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if not is_group(command)])
def test_every_command_prints_json(path: str) -> None:
    options = {option for parameter in ALL[path].params for option in parameter.opts}
    assert ("--json" in options) == (path not in NO_JSON)


def test_no_token_is_an_argument() -> None:
    for path, command in ALL.items():
        for parameter in command.params:
            named = [name for name in (parameter.name or "", *parameter.opts) if "token" in name]
            assert all(name.endswith(("env", "file", "origin", "origins")) for name in named), (path, named)


def test_an_option_for_a_variable_means_the_same_everywhere() -> None:
    """`--token-env` is one of this command's environment, `--auth-token-env` one of the daemon's."""
    helps: dict[str, set[str]] = {"--token-env": set(), "--auth-token-env": set()}
    for command in ALL.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.opts[0] in helps:
                helps[parameter.opts[0]].add((parameter.help or "").partition(" that holds")[0])
    assert helps == {
        "--token-env": {"Take the token from a variable of this command."},
        "--auth-token-env": {"The variable of the daemon"},
    }


@pytest.mark.parametrize("group", ["inbound", "outbound"])
def test_what_changes_one_is_called_update_and_answers_to_set(group: str) -> None:
    assert {f"{group} update", f"{group} set"} & set(ALL) == {f"{group} update"}
    assert run(None, group, "set", "--help").out == run(None, group, "update", "--help").out.replace(
        "update [", "set [", 1
    )


def test_help_lists_every_command_and_tells_the_exit_statuses() -> None:
    done = run(None, "--help")
    assert done.status == 0
    listed = done.out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed][: len(COMMANDS)] == list(COMMANDS)
    assert "Exit status: 0 done, 1 failed, 2 used wrongly, 3 a task waits" in done.out


def imported(*arguments: str, **env: str) -> set[str]:
    """What a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        env=environment(None, env),
        timeout=60,
        check=True,
    )
    return {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}


def test_help_and_completion_load_no_more_than_they_need() -> None:
    """They have to be quick. `a2ad --help` loads all commands, and plugins where there are any."""
    all_commands = "from a2ad.cli import COMMANDS, main; [main.get_command(None, name) for name in COMMANDS]"
    completing = {"_A2AD_COMPLETE": "bash_complete", "COMP_WORDS": "a2ad tasks ", "COMP_CWORD": "2"}
    for found in (
        imported("-c", all_commands),
        imported(str(PROGRAM), "tasks", "--help"),
        imported(str(PROGRAM), **completing),
    ):
        assert "a2ad.cli.groups" in found
        assert not found & set(HEAVY)
