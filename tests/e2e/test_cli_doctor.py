"""`a2ad doctor`: it says what is missing, and what it says holds no secret."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import cli_support
from tests.e2e.openai_support import preset
from tests.remote import http
from tests.scripted_llm import ScriptedModel

KEY = "sk-live-0123456789abcdef"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


def doctor(folder: Path, config: str, *options: str, **env: str) -> tuple[int, dict[str, str]]:
    """The exit status, and the message of each subject."""
    file = folder / "a2ad.toml"
    file.write_text(config)
    done = cli_support.run(None, "doctor", "--json", "--config", str(file), *options, env=env)
    assert KEY not in done.out + done.err
    assert all((row["state"] == "wrong") == bool(row["message"]) for row in done.json)
    return done.status, {row["subject"]: row["message"] for row in done.json}


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_the_embedded_defaults_are_well_and_need_nothing() -> None:
    done = cli_support.run(None, "doctor")
    assert done.status == 0, done
    lines = done.out.splitlines()
    assert {"ok     configuration", "ok     plugin a2ad", "ok     preset standard (echo)"} <= set(lines)
    assert all(line.startswith("ok ") for line in lines)


def test_a_model_s_endpoint_that_is_there_is_well(tmp_path: Path, model: ScriptedModel) -> None:
    model.on("GET", http(200, b'{"data":[]}'))
    status, found = doctor(tmp_path, preset(model, api_key_env="KEY_HERE"), KEY_HERE=KEY)
    assert (status, found["preset model (openai)"]) == (0, "")


def test_an_endpoint_that_refuses_the_key_or_is_not_there_is_named(tmp_path: Path, model: ScriptedModel) -> None:
    model.on("GET", http(401, b'{"error":{"message":"bad key %s"}}' % KEY.encode()))
    status, found = doctor(tmp_path, preset(model, api_key_env="KEY_HERE"), KEY_HERE=KEY)
    assert status == 1
    assert "refuses the key" in found["preset model (openai)"]

    away = '[[presets]]\nid = "away"\nagent = "openai"\n[presets.options]\nmodel = "m"\n'
    status, found = doctor(tmp_path, away + f'base_url = "http://127.0.0.1:{closed_port()}"\n')
    assert status == 1
    assert "cannot be reached" in found["preset away (openai)"]


def test_a_key_that_is_not_set_is_named_by_its_variable(tmp_path: Path, model: ScriptedModel) -> None:
    status, found = doctor(tmp_path, preset(model, api_key_env="KEY_THAT_IS_NOT_SET"))
    assert status == 1
    assert "KEY_THAT_IS_NOT_SET" in found["preset model (openai)"]


def test_wrong_options_and_broken_plugins_are_all_told_at_once(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "broken.py").write_text("import no_such_module")
    (plugins / "agents.py").write_text(
        "import asyncio, os\n"
        "from a2ad import Agent, hookimpl\n"
        "class Odd(Agent):\n"
        "    async def open(self, context): ...\n"
        "    async def check(self):\n"
        "        raise RuntimeError('it cannot say')\n"
        "@hookimpl\n"
        "def a2ad_register_agents(register):\n"
        "    register('odd', lambda preset: Odd())\n"
    )
    agents = {"a": "openai", "b": "odd", "c": "none"}
    config = "".join(f'[[presets]]\nid = "{each}"\nagent = "{agent}"\n' for each, agent in agents.items())
    status, found = doctor(tmp_path, config, "--plugins-dir", str(plugins))
    assert status == 1
    assert "no_such_module" in found["plugin broken"]
    assert "it cannot say" in found["preset b (odd)"]
    assert "base_url" in found["preset a (openai)"]
    assert "unknown agent 'none'" in found["configuration"]
    assert "base_url" not in found["configuration"], "it is told once"


def test_echo_has_no_options_but_executors_of_a_plugin_may_find_theirs_in_its_preset(tmp_path: Path) -> None:
    preset = '[[presets]]\nid = "mine"\noptions = { colour = 1 }\n'
    for more in ("", '[[presets.skills]]\nid = "chat"\nexecutor = "subagent"\n'):
        status, found = doctor(tmp_path, preset + more)
        assert status == 1
        assert found["preset mine (echo)"] == 'options: colour: unknown option; the agent "echo" has none'
        assert found["configuration"] == ""

    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "own.py").write_text(
        "from a2ad import Executor, hookimpl\n"
        "class Own(Executor):\n"
        "    async def execute(self, request):\n"
        "        yield\n"
        "@hookimpl\n"
        "def a2ad_register_executors(register):\n"
        "    register('own', Own())\n"
    )
    skill = '[[presets.skills]]\nid = "chat"\nexecutor = "own"\n'
    assert doctor(tmp_path, preset + skill, "--plugins-dir", str(plugins))[0] == 0
