"""`a2ad completion`: what real shells offer, with a daemon and without."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_support import PROGRAM, environment, run
from tests.daemon import DaemonProcess, running
from tests.remote import Remote

EVIL = "$(touch evil) `x` * a,b"

#: completes the words of $LINE as Tab does, a candidate a line
BASH = r"""
eval "$(a2ad completion bash)"
COMP_WORDS=($LINE "$LAST"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_a2ad_completion a2ad
printf '%s\n' "${COMPREPLY[@]}"
"""
ZSH = r"""
autoload -U compinit; compinit -u -D
compadd() { while [[ $1 != -a ]] { shift }; print -l -- ${(P)2} }
_describe() { print -l -- ${(P)3%%:*} }
eval "$(a2ad completion zsh)"
words=(${=LINE} "$LAST"); CURRENT=${#words}
_a2ad_completion
"""
FISH = r"""
a2ad completion fish | source
complete --do-complete "$LINE $LAST" | string split --fields 1 \t
"""
SHELLS = {"bash": ["--norc", "-c", BASH], "zsh": ["-f", "-c", ZSH], "fish": ["--no-config", "-c", FISH]}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("completion")) as daemon:
        yield daemon


def offered(shell: str, line: str, url: str, folder: Path, last: str = "") -> tuple[set[str], str]:
    """What is offered for the last word, and what stands on stderr."""
    env = environment(url, {"LINE": line, "LAST": last, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"})
    env |= {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    done = subprocess.run(
        [shell, *SHELLS[shell]], capture_output=True, text=True, env=env, cwd=folder, timeout=60, check=False
    )
    return {line for line in done.stdout.splitlines() if line}, done.stderr


def test_commands_and_options_are_offered(shell: str, tmp_path: Path) -> None:
    away = "http://127.0.0.1:1"
    assert offered(shell, "a2ad", away, tmp_path, "s") == ({"serve", "status", "sessions", "send"}, "")
    assert offered(shell, "a2ad tasks", away, tmp_path, "c") == ({"cancel"}, "")
    assert offered(shell, "a2ad tasks list", away, tmp_path, "--s") == ({"--state"}, "")
    assert "input-required" in offered(shell, "a2ad tasks list --state", away, tmp_path)[0]


def test_ids_and_names_are_those_of_the_daemon(shell: str, daemon: DaemonProcess, tmp_path: Path) -> None:
    one = daemon.create_inbound(name="reports")
    evil = daemon.create_inbound(name=EVIL)
    task = daemon.send(one, "hello")
    url = daemon.url
    assert offered(shell, "a2ad inbound show", url, tmp_path) == ({"reports", one, evil}, "")
    assert offered(shell, "a2ad inbound show", url, tmp_path, "rep") == ({"reports", one}, "")
    assert offered(shell, "a2ad tasks show", url, tmp_path) == ({task["id"]}, "")
    assert offered(shell, "a2ad tasks cancel", url, tmp_path) == (set(), "")
    assert offered(shell, "a2ad tasks list --inbound", url, tmp_path, "repo") == ({"reports", one}, "")
    assert offered(shell, "a2ad sessions close", url, tmp_path) == ({task["contextId"]}, "")
    assert offered(shell, "a2ad inbound add x --preset", url, tmp_path) == ({"standard"}, "")
    elsewhere = f"a2ad inbound show --url {url}"
    assert offered(shell, elsewhere, "http://127.0.0.1:1", tmp_path) == ({"reports", one, evil}, "")
    for inbound in (one, evil):
        daemon.act("inbound.remove", id=inbound)
    assert list(tmp_path.glob("evil")) == []


def test_skills_are_those_of_the_agent_that_was_named(shell: str, daemon: DaemonProcess, tmp_path: Path) -> None:
    inbound = daemon.create_inbound(name="mine")
    url = daemon.url
    with Remote(skills=[{"id": skill, "name": skill.title(), "tags": []} for skill in ("sum", "chat")]) as remote:
        outbound = daemon.act("outbound.create", name="far", agentCardUrl=remote.card_url)["id"]
        assert offered(shell, "a2ad call far", url, tmp_path) == ({"sum", "chat"}, "")
        assert offered(shell, f"a2ad call {outbound}", url, tmp_path, "s") == ({"sum"}, "")
        assert offered(shell, "a2ad call --task x far", url, tmp_path) == ({"sum", "chat"}, "")
        assert "sum" not in offered(shell, "a2ad call far chat", url, tmp_path)[0]
        daemon.act("outbound.update", id=outbound, disabledSkills=["sum"])
        assert offered(shell, "a2ad call far", url, tmp_path) == ({"chat"}, "")
        for name in ("set", "update"):
            assert offered(shell, f"a2ad outbound {name} far --disable-skill", url, tmp_path) == ({"chat"}, "")
            assert offered(shell, f"a2ad outbound {name} far --enable-skill", url, tmp_path) == ({"sum"}, "")
        assert offered(shell, "a2ad outbound set far --skill-reset", url, tmp_path) == ({"sum", "chat"}, "")
        assert offered(shell, "a2ad inbound test mine --skill", url, tmp_path) == ({"chat"}, "")
        assert offered(shell, "a2ad outbound set nobody --disable-skill", url, tmp_path) == (set(), "")
        daemon.act("outbound.remove", id=outbound)
    daemon.act("inbound.remove", id=inbound)


def test_without_a_daemon_nothing_is_offered_and_nothing_said(shell: str, tmp_path: Path) -> None:
    assert offered(shell, "a2ad inbound show", "http://127.0.0.1:1", tmp_path) == (set(), "")
    (tmp_path / "a2ad").mkdir()
    (tmp_path / "a2ad/a2ad.toml").write_text("nonsense")
    assert offered(shell, "a2ad tasks show", "", tmp_path) == (set(), "")


def test_the_shell_is_that_of_the_environment_or_has_to_be_said() -> None:
    assert run(None, "completion", env={"SHELL": "/usr/bin/fish"}).out == run(None, "completion", "fish").out
    done = run(None, "completion", env={"SHELL": "/bin/csh"})
    assert (done.status, done.out) == (2, "")
    assert "bash, zsh, fish" in done.err
