"""What README.md and docs/plugins.md show is run as it stands there; what they list is complete."""

import dataclasses
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import a2ad
from a2ad import hookspecs, testing
from a2ad.agents.openai.options import Options
from a2ad.cli import COMMANDS
from a2ad.cli.new_plugin import write_package
from a2ad.cli.outbound import outbound
from a2ad.cli.serve import serve
from a2ad.schemas.control import ACTIONS
from tests.cli_support import every_command, is_group
from tests.daemon import DaemonProcess

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
OUTBOUND = (ROOT / "docs/outbound.md").read_text()
PLUGINS = (ROOT / "docs/plugins.md").read_text()
AGENTS = (ROOT / "docs/agents.md").read_text()
#: the presets that etc/a2ad.toml shows: further in than the keys that it has
EXAMPLES = re.sub(r"^#(?:   (.*)| .*|)$", r"\1", (ROOT / "etc/a2ad.toml").read_text(), flags=re.MULTILINE)
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("plugins/*.md"), *ROOT.glob("plugins/*/*.md")]
)

HOOKS = {name: spec for name, spec in vars(hookspecs).items() if name.startswith("a2ad_")}
#: what a plugin is given, and what it makes
GIVEN = (a2ad.Decision, a2ad.OutboundCall, a2ad.Event, a2ad.Preset, a2ad.Skill, a2ad.Attachment)
AGENT_EVENTS = (a2ad.TextDelta, a2ad.ToolCall, a2ad.ToolResult, a2ad.NeedsInput, a2ad.NeedsAuth, a2ad.TurnEnd)
FIXTURES = ("a2ad_daemon", "a2ad_launch")
MADE = (a2ad.Artifact, a2ad.Status, a2ad.Reply, *AGENT_EVENTS)
#: for the tests of a2ad itself
LEFT_OUT = {"rpc", "stream", "request", "endpoint", "next_line", "await_control"}
GUIDE = "From an empty file to a published package"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
SERVE_FLAGS = {flag for parameter in serve.params for flag in parameter.opts}

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
Launch = Callable[..., DaemonProcess]


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def section(text: str, title: str) -> str:
    """What stands under a `##` heading."""
    return re.split(r"^## ", text.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def curl_blocks(text: str) -> list[str]:
    return [block for block in blocks(text, "sh") if "curl" in block]


def run(command: list[str], daemon: DaemonProcess, folder: Path, script: str) -> str:
    """Run a script as it is shown, but for the port, from standard input; returns what it printed."""
    assert "127.0.0.1:3080" in script
    done = subprocess.run(
        command,
        input=script.replace("http://127.0.0.1:3080", daemon.url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def paste(shell_blocks: list[str], daemon: DaemonProcess, folder: Path) -> list[str]:
    """Paste blocks into one shell, one after the other; returns what each of them printed."""
    script = "set -eu\n" + "\nprintf '\\036'\n".join(shell_blocks)
    return run(["sh"], daemon, folder, script).split("\x1e")


def json_values(text: str) -> list[dict]:
    """JSON values that stand one behind the other."""
    decoder, values, text = json.JSONDecoder(), [], text.lstrip()
    while text:
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:].lstrip()
    return values


def plugin_name(text: str) -> str:
    """What a plugin of docs/plugins.md calls its preset."""
    return re.search(r'register\("(\w+)", \{', text).group(1)


def shown_plugins() -> dict[str, str]:
    """The plugins of docs/plugins.md by name; the other blocks of Python are tests."""
    return {plugin_name(text): text for text in blocks(PLUGINS, "python") if "@hookimpl" in text}


def shown_test(of: str) -> str:
    """The test of a plugin in docs/plugins.md."""
    (text,) = [text for text in blocks(PLUGINS, "python") if "def test_" in text and f'"{of}"' in text]
    return text


# README.md


@needs_curl
def test_the_curl_calls_of_the_readme_publish_an_agent_and_talk_to_it(launch: Launch, tmp_path: Path) -> None:
    daemon = launch("--demo")
    printed = paste(curl_blocks(section(README, "Publish an agent")), daemon, tmp_path)
    created, token_set, sent, streamed, snapshot = printed
    inbound = created.strip()
    assert re.fullmatch(r"reports-[0-9a-f]{8}", inbound)
    assert json.loads(token_set)["ok"] is True
    task = json.loads(sent)["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "hello"}]
    frames = [json.loads(line[6:])["result"] for line in streamed.splitlines() if line.startswith("data: ")]
    assert "artifactUpdate" in frames[1]
    assert frames[-1]["task"]["artifacts"][0]["parts"] == [{"text": "hello again"}]
    assert daemon.rpc(inbound, "SendMessage", {})["error"]["code"] == -32040  # the token is wanted now
    assert [row["serverId"] for row in json.loads(snapshot)["tasks"]] == [inbound, inbound]


def test_the_python_client_of_the_readme_talks_to_the_demo(launch: Launch, tmp_path: Path) -> None:
    daemon = launch("--demo")
    (client,) = blocks(section(README, "From Python"), "python")
    lines = run([sys.executable, "-"], daemon, tmp_path, client).splitlines()
    assert lines[0].startswith("task")
    assert "artifact_update hello " in lines
    assert lines[-1] == "task hello from Python"


def test_the_commands_of_the_readme_connect_to_an_agent_and_call_it(launch: Launch, tmp_path: Path) -> None:
    daemon = launch("--demo")
    (commands,) = blocks(section(README, "Use remote agents as tools"), "sh")
    script = commands.replace(".venv/bin/a2ad", f"{sys.executable} -m a2ad")
    environment = {**os.environ, "A2AD_URL": daemon.url}
    done = subprocess.run(
        ["sh", "-euc", script.replace("http://127.0.0.1:3080", daemon.url)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "hello, remote agent"
    assert daemon.read("")["outbounds"][0]["name"] == "remote"


def test_the_page_on_remote_agents_names_commands_and_actions_that_are_there() -> None:
    assert set(re.findall(r"\ba2ad outbound ([a-z]+)", OUTBOUND)) <= set(outbound.commands)
    assert set(re.findall(r"\ba2ad ([a-z]+)", OUTBOUND)) <= {*COMMANDS, "connects"}
    assert set(re.findall(r"`(outbound\.[A-Za-z]+)`", OUTBOUND)) == {name for name in ACTIONS if "outbound." in name}


def test_the_readme_shows_the_example_plugin_as_it_is() -> None:
    (shown,) = blocks(section(README, "Write a plugin"), "python")
    assert shown == (ROOT / "etc/plugins/weather.py").read_text()


@needs_curl
def test_the_plugin_of_the_readme_answers_to_its_curl_calls(launch: Launch, tmp_path: Path) -> None:
    start, calls = blocks(section(README, "Write a plugin"), "sh")
    options = start.partition(" serve ")[2].split()
    daemon = launch(*(str(ROOT / option) if (ROOT / option).exists() else option for option in options))
    (printed,) = paste([calls], daemon, tmp_path)
    created, answer = json_values(printed)
    assert created["ok"] is True
    assert answer["result"]["task"]["artifacts"][0]["parts"] == [{"text": "Sunny in Oslo"}]


def test_the_readme_names_the_flags_of_serve_and_no_others() -> None:
    (row,) = [line for line in README.splitlines() if line.startswith("| `a2ad serve`")]
    assert set(FLAG.findall(row)) == SERVE_FLAGS
    known = {flag for command in every_command().values() for each in command.params for flag in each.opts}
    assert set(FLAG.findall(README)) <= {*known, "--help"}


def test_the_readme_names_every_command_and_no_others() -> None:
    rows = dict(re.findall(r"^\| `a2ad ([a-z]+)` \| (.*) \|$", section(README, "Commands"), re.MULTILINE))
    assert list(rows) == list(COMMANDS)
    named = {f"{name} {each}" for name, row in rows.items() for each in re.findall(r"`([a-z]+(?: [a-z]+)?)`", row)}
    assert named == {path for path, command in every_command().items() if " " in path and not is_group(command)}
    shown = {word for block in blocks(README, "sh") for word in re.findall(r"bin/a2ad ([a-z]+)", block)}
    assert shown <= set(COMMANDS)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (line,) = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("test_command=")]
    script = f'{line}\nprintf %s "$test_command"'
    found = subprocess.run(["bash", "-euc", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert [found.stdout + "\n"] == [block for block in blocks(README, "sh") if "pytest" in block]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", document.read_text())
    assert [target for target in targets if target and not (document.parent / target).exists()] == []


# docs/agents.md


@pytest.mark.parametrize("config", [*blocks(AGENTS, "toml"), EXAMPLES])
def test_the_presets_that_are_shown_are_valid(config: str, tmp_path: Path) -> None:
    (tmp_path / "a2ad.toml").write_text(config)
    command = [sys.executable, "-m", "a2ad", "config", "check", "--config", str(tmp_path / "a2ad.toml")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "[[presets]]" in config
    assert (done.returncode, done.stderr) == (0, "")


def test_every_option_of_a_model_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", section(AGENTS, "Publish a model"), re.MULTILINE))
    options = dataclasses.fields(Options)
    assert set(rows) == {option.name for option in options}
    assert {name: rows[name] for name in ("max_rounds", "context_tokens", "images", "tools")} == {
        option.name: str(option.default).lower() for option in options if isinstance(option.default, int)
    }


# docs/plugins.md


def test_no_hook_is_documented_that_is_not_there() -> None:
    assert set(re.findall(r"\ba2ad_[a-z]\w+", PLUGINS)) == {*HOOKS, *FIXTURES}


@pytest.mark.parametrize("name", a2ad.__all__)
def test_every_exported_name_is_documented(name: str) -> None:
    listed = section(PLUGINS, "Everything that `a2ad` exports")
    assert re.search(rf"`{name}`|`{name}\(", listed)


@pytest.mark.parametrize("cls", GIVEN)
def test_every_field_of_what_a_plugin_is_given_is_documented(cls: type) -> None:
    (row,) = [line for line in PLUGINS.splitlines() if line.startswith(f"| `{cls.__name__}` |")]
    assert [field for field in cls.__dataclass_fields__ if f"`{field}`" not in row] == []


@pytest.mark.parametrize("cls", MADE)
def test_what_a_plugin_makes_is_documented_with_its_exact_parameters(cls: type) -> None:
    parameters = inspect.signature(cls).parameters.values()
    shown = ", ".join(
        each.name if each.default is each.empty else f"{each.name}={each.default!r}".replace("'", '"')
        for each in parameters
    )
    assert f"`{cls.__name__}({shown})`" in PLUGINS


def members_of_the_test_daemon() -> list[str]:
    """Each public method with its parameters, as docs/plugins.md shows them."""
    functions = [each for name, each in vars(testing.DaemonProcess).items() if inspect.isfunction(each)]
    return [
        f"{each.__name__}({parameters_of(each)})"
        for each in functions
        if not each.__name__.startswith("_") and each.__name__ not in LEFT_OUT
    ]


def parameters_of(function: Callable[..., object]) -> str:
    """As they are written, without types and without `self`."""
    signature = inspect.signature(function)
    plain = [each.replace(annotation=each.empty) for each in signature.parameters.values() if each.name != "self"]
    text = str(inspect.Signature(plain))[1:-1].replace("'", '"')
    return re.sub(r"(\d)\.0\b", r"\1", text)


@pytest.mark.parametrize("member", members_of_the_test_daemon())
def test_every_member_of_the_daemon_for_plugins_tests_is_documented(member: str) -> None:
    assert f"`{member}`" in section(PLUGINS, "Tests")


@pytest.mark.parametrize("name", testing.__all__)
def test_everything_that_plugins_tests_import_is_documented_with_its_exact_signature(name: str) -> None:
    assert f"`{name}({parameters_of(getattr(testing, name))})`" in section(PLUGINS, "Tests")


@pytest.mark.parametrize("name", FIXTURES)
def test_every_fixture_is_documented(name: str) -> None:
    assert re.search(rf"^\| `{name}[`(]", section(PLUGINS, "Tests"), re.MULTILINE)


def test_the_package_of_the_documentation_is_the_one_that_is_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_package("shout")
    assert (folder / "shout/__init__.py").read_text() == shown_plugins()["shout"]
    assert (folder / "tests/test_shout.py").read_text() == shown_test("shout")
    assert (
        set(re.findall(r"^\| `([\w/.]+)` \|", section(PLUGINS, GUIDE), re.MULTILINE))
        == {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    )  # fmt: skip
    for table in blocks(section(PLUGINS, GUIDE), "toml"):
        assert table in (folder / "pyproject.toml").read_text()


def test_the_test_of_the_documentation_passes(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(shown_plugins()["counting"])
    (tmp_path / "test_counting.py").write_text(shown_test("counting"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout


def test_the_plugins_of_the_documentation_load_and_do_what_is_said(launch: Launch) -> None:
    daemon = launch(plugin=shown_plugins())
    rows = {row["name"]: row for row in daemon.read("")["plugins"]}
    assert {name: rows[name]["state"] for name in ("a2ad", "shout", "report", "counting")} == {
        "a2ad": "loaded", "shout": "loaded", "report": "loaded", "counting": "loaded"
    }  # fmt: skip

    report = daemon.create_inbound(preset="report")
    asked = daemon.send(report, "please")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    answered = daemon.send(report, "2", taskId=asked["id"])
    assert answered["artifacts"][0]["parts"] == [
        {"raw": "bGluZQpsaW5lCg==", "mediaType": "text/plain", "filename": "report.txt"}
    ]
    asked = daemon.send(report, "please")
    daemon.restart()
    assert daemon.send(report, "2", taskId=asked["id"])["artifacts"] == answered["artifacts"]
    denied = daemon.send(report, "a secret")
    assert denied["status"]["state"] == "TASK_STATE_REJECTED"
    assert denied["status"]["message"]["parts"] == [{"text": "Secrets are not reported"}]

    counting = daemon.create_inbound(preset="counting")
    first = daemon.send(counting, "one", contextId="c")
    second = daemon.send(counting, "two", contextId="c")
    assert [task["artifacts"][0]["parts"] for task in (first, second)] == [
        [{"text": "This is turn 1"}], [{"text": "This is turn 2"}]
    ]  # fmt: skip


@needs_curl
def test_the_first_plugin_of_the_documentation_answers_to_its_curl_calls(launch: Launch, tmp_path: Path) -> None:
    daemon = launch(plugin=blocks(PLUGINS, "python")[0])
    (printed,) = paste(curl_blocks(PLUGINS), daemon, tmp_path)
    created, answer = json_values(printed)
    assert created["ok"] is True
    assert answer["result"]["task"]["artifacts"][0]["parts"] == [{"text": "HELLO THERE "}]
