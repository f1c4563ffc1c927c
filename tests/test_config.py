from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest

from a2ad.config import (
    STANDARD_PRESET,
    Address,
    Config,
    LimitsConfig,
    ServerConfig,
    flatten,
    load,
    parse_address,
    parse_preset,
    sources,
)
from a2ad.errors import ConfigError
from a2ad.executor import Skill

EXAMPLE = Path(__file__).parents[1] / "etc/a2ad.toml"


@pytest.fixture(autouse=True)
def no_system_file(tmp_path, monkeypatch):
    """The machine's own configuration stays out of the tests."""
    monkeypatch.setattr(sources, "SYSTEM_FILE", tmp_path / "system/a2ad.toml")


@pytest.fixture
def write(tmp_path):
    def write(text, name="a2ad.toml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problems(config_file=None, environ=None, flags=None):
    with pytest.raises(ConfigError) as caught:
        load(config_file, environ=environ or {}, flags=flags or {})
    return list(caught.value.problems)


# where values come from


def test_without_any_file_the_defaults_hold(tmp_path):
    loaded = load(environ={"HOME": str(tmp_path)})
    assert loaded.config == Config(state_dir=tmp_path / ".local/state/a2ad")
    assert loaded.config.limits == LimitsConfig()
    assert loaded.files == ()
    assert set(loaded.origins.values()) == {"default"}


def test_flags_win_over_the_environment_which_wins_over_conf_d_which_wins_over_the_file(write):
    path = write("[limits]\nruns = 1\nqueued = 1\nattachments = 1\n[server]\nlisten = '127.0.0.1:1'\n")
    drop_in = write("[limits]\nqueued = 2\nattachments = 2\n[server]\nlisten = '127.0.0.1:2'\n", "conf.d/a.toml")
    environ = {"A2AD_LIMITS__ATTACHMENTS": "3", "A2AD_SERVER__LISTEN": "127.0.0.1:3"}
    loaded = load(path, environ=environ, flags={"server.listen": "127.0.0.1:4", "log.level": None})
    limits = loaded.config.limits
    assert (limits.runs, limits.queued, limits.attachments, loaded.config.server.listen) == (1, 2, 3, "127.0.0.1:4")
    assert loaded.origins["limits.runs"] == str(path)
    assert loaded.origins["limits.queued"] == str(drop_in)
    assert loaded.origins["limits.attachments"] == "environment A2AD_LIMITS__ATTACHMENTS"
    assert loaded.origins["server.listen"] == "flag --listen"
    assert loaded.origins["log.level"] == "default"
    assert loaded.files == (path, drop_in)


def test_conf_d_is_read_in_sorted_order_and_other_files_in_it_are_not(write):
    path = write("")
    write("[limits]\nruns = 20\n", "conf.d/20.toml")
    write("[limits]\nruns = 10\nqueued = 10\n", "conf.d/10.toml")
    write("not toml", "conf.d/30.toml.bak")
    write("not toml", "conf.d/.40.toml")
    loaded = load(path, environ={})
    assert (loaded.config.limits.runs, loaded.config.limits.queued) == (20, 10)
    assert [file.name for file in loaded.files] == ["a2ad.toml", "10.toml", "20.toml"]


def test_the_system_file_goes_before_the_users(write, tmp_path):
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path)}
    user = write("[limits]\nruns = 2\n", "xdg/a2ad/a2ad.toml")
    assert load(environ=environ).files == (user,)
    system = write("[limits]\nruns = 1\n", "system/a2ad.toml")
    assert load(environ=environ).files == (system,)


def test_the_users_file_is_in_the_home_directory_where_xdg_names_none(write, tmp_path):
    path = write("", ".config/a2ad/a2ad.toml")
    assert load(environ={"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}).files == (path,)


def test_conf_d_counts_without_a_file_beside_it(write, tmp_path):
    path = write("[limits]\nruns = 3\n", ".config/a2ad/conf.d/a.toml")
    loaded = load(environ={"HOME": str(tmp_path)})
    assert (loaded.files, loaded.config.limits.runs) == ((path,), 3)


def test_plugin_directories_of_flags_add_to_the_configured_ones(write, tmp_path):
    path = write('[plugins]\ndirs = ["mine", "/opt/plugins"]\n')
    loaded = load(path, environ={}, flags={"plugins.dirs": (Path("/more"),)})
    assert loaded.config.plugins.dirs == (tmp_path / "mine", Path("/opt/plugins"), Path("/more"))
    assert loaded.origins["plugins.dirs"] == f"{path}, flag --plugins-dir"
    alone = load(environ={"HOME": str(tmp_path)}, flags={"plugins.dirs": [Path("/more")]})
    assert alone.origins["plugins.dirs"] == "flag --plugins-dir"


@pytest.mark.parametrize(
    ("environ", "flags", "expected", "origin"),
    [
        ({}, {}, "/home/me/.local/state/a2ad", "default"),
        ({"XDG_STATE_HOME": "/xdg"}, {}, "/xdg/a2ad", "environment XDG_STATE_HOME"),
        ({"XDG_STATE_HOME": "relative"}, {}, "/home/me/.local/state/a2ad", "default"),
        ({"STATE_DIRECTORY": "/one:/two", "XDG_STATE_HOME": "/xdg"}, {}, "/one", "environment STATE_DIRECTORY"),
        ({"STATE_DIRECTORY": "/one"}, {"state_dir": Path("/flag")}, "/flag", "flag --state-dir"),
    ],
)
def test_the_state_directory_is_the_flags_then_systemds_then_xdgs(environ, flags, expected, origin):
    loaded = load(environ={"HOME": "/home/me", **environ}, flags=flags)
    assert (loaded.config.state_dir, loaded.origins["state_dir"]) == (Path(expected), origin)


# the environment


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("A2AD_LIMITS__RUNS", "4", 4),
        ("A2AD_LIMITS__RUN_SECONDS", "0.5", 0.5),
        ("A2AD_LIMITS__RATE_LIMIT_LOOPBACK", "1", True),
        ("A2AD_LIMITS__RATE_LIMIT_LOOPBACK", "TRUE", True),
        ("A2AD_LIMITS__RATE_LIMIT_LOOPBACK", "false", False),
        ("A2AD_LIMITS__RATE_LIMIT_LOOPBACK", "0", False),
        ("A2AD_PLUGINS__DISABLED", "a, b", ("a", "b")),
        ("A2AD_PLUGINS__DISABLED", '["a,b", "c"]', ("a,b", "c")),
        ("A2AD_PLUGINS__DISABLED", "", ()),
        ("A2AD_SERVER__ALLOWED_HOSTS", "Agents.Example.org,[::1]", ("agents.example.org", "::1")),
        ("A2AD_SERVER__TRUSTED_PROXIES", "10.0.0.0/8,::1", (ip_network("10.0.0.0/8"), ip_network("::1"))),
        ("A2AD_A2A__DEFAULT_INBOUND", "42", "42"),
        ("A2AD_SERVER__CONTROL_LISTEN", "", ""),
        ("A2AD_SERVER__PUBLIC_URL", "https://agents.example.org/", "https://agents.example.org"),
    ],
)
def test_a_variable_is_read_as_its_key_wants_it(variable, text, expected, tmp_path):
    config = load(environ={"HOME": str(tmp_path), variable: text}).config
    section, _, key = variable.removeprefix("A2AD_").lower().partition("__")
    value = getattr(getattr(config, section), key)
    assert (value, type(value)) == (expected, type(expected))


def test_variables_without_two_underscores_are_no_configuration(tmp_path):
    environ = {"HOME": str(tmp_path), "A2AD_URL": "http://localhost:1", "A2AD_LIMITS": "x", "OTHER__KEY": "x"}
    assert set(load(environ=environ).origins.values()) == {"default"}


def test_variables_for_unknown_keys_and_sections_are_errors():
    sections = "server, a2a, limits, store, plugins, log"
    assert problems(environ={"A2AD_LIMIT__RUNS": "4", "A2AD_LIMITS__RUN": "4", "A2AD_PRESETS__X": "4"}) == [
        f"environment A2AD_LIMIT__RUNS: limit.runs: unknown section; expected one of {sections}",
        f"environment A2AD_PRESETS__X: presets.x: unknown section; expected one of {sections}",
        'environment A2AD_LIMITS__RUN: limits.run: unknown key; did you mean "runs"?',
    ]


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("A2AD_LIMITS__RUNS", "many", 'limits.runs: expected a whole number, 1 or more, not "many"'),
        ("A2AD_LIMITS__RUNS", "", 'limits.runs: expected a whole number, 1 or more, not ""'),
        ("A2AD_LIMITS__RUNS", "4.0", 'limits.runs: expected a whole number, 1 or more, not "4.0"'),
        ("A2AD_LIMITS__RUN_SECONDS", "long", 'limits.run_seconds: expected a number above 0, not "long"'),
        ("A2AD_LIMITS__RUN_SECONDS", "inf", "limits.run_seconds: expected a number above 0, not Infinity"),
        (
            "A2AD_LIMITS__RATE_LIMIT_LOOPBACK",
            "yes",
            'limits.rate_limit_loopback: expected true or false, not "yes"',
        ),
        ("A2AD_PLUGINS__DISABLED", "[a", 'plugins.disabled: expected an array of plugin names, not "[a"'),
        ("A2AD_LOG__LEVEL", "loud", 'log.level: expected "debug" or "info" or "warning" or "error", not "loud"'),
    ],
)
def test_a_variable_that_does_not_fit_is_named_with_its_key(variable, text, expected):
    assert problems(environ={variable: text}) == [f"environment {variable}: {expected}"]


# errors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[limits]\nruns = '4'", 'limits.runs: expected a whole number, 1 or more, not "4"'),
        ("[limits]\nruns = true", "limits.runs: expected a whole number, 1 or more, not true"),
        ("[limits]\nruns = 4.0", "limits.runs: expected a whole number, 1 or more, not 4.0"),
        ("[limits]\nqueued = -1", "limits.queued: expected a whole number, 0 or more, not -1"),
        ("[limits]\nqueued = {}", "limits.queued: expected a whole number, 0 or more, not a table"),
        ("[limits]\nshutdown_seconds = nan", "limits.shutdown_seconds: expected a number, 0 or more, not NaN"),
        ("[limits]\nrate_limit_loopback = 1", "limits.rate_limit_loopback: expected true or false, not 1"),
        ("[a2a]\nkeepalive_seconds = 0", "a2a.keepalive_seconds: expected a number above 0, not 0"),
        ("[a2a]\nreplay_frames = -1", "a2a.replay_frames: expected a whole number, 0 or more, not -1"),
        ("[a2a]\ndefault_inbound = 1", "a2a.default_inbound: expected a string, not 1"),
        ("[a2a]\ndialect = 'b'", 'a2a.dialect: expected "reference" or "a2a", not "b"'),
        ("[store]\nsynchronous = 'off'", 'store.synchronous: expected "normal" or "full", not "off"'),
        ("[store]\nretention_days = -1", "store.retention_days: expected a number, 0 or more, not -1"),
        ("[store]\nurl = 'tasks.db'", "store.url: expected a URL with a scheme"),
        ("[plugins]\ndirs = 'a'", 'plugins.dirs: expected an array of paths, not "a"'),
        ("[plugins]\ndirs = ['']", 'plugins.dirs: expected an array of paths, not "" in it'),
        (
            "[server]\nallowed_hosts = ['a:80']",
            'server.allowed_hosts: expected an array of host names without scheme and port, not "a:80" in it',
        ),
        (
            "[server]\ntrusted_proxies = ['::1', 'proxy']",
            'server.trusted_proxies: expected an array of IP addresses or networks, not "proxy" in it',
        ),
        ("[limits]\nrun = 1", 'limits.run: unknown key; did you mean "runs"?'),
        ("[store]\nxyz = 1", "store.xyz: unknown key; expected one of url, synchronous, retention_days"),
        ("[servers]\nlisten = ''", 'servers: unknown section; did you mean "server"?'),
        ("server = 'x'", "server: expected a table"),
        ("presets = 'x'", 'presets: expected an array of tables, not "x"'),
        ("[presets]\nid = 'x'", "presets: expected an array of tables, not a table"),
        ("presets = [1]", "presets[0]: expected a table"),
        ("[[presets]]\nname = 'x'", "presets[0].id: missing; expected a string that is not empty"),
        ("[[presets]]\nid = ' '", 'presets[0].id: expected a string that is not empty, not " "'),
        ("[[presets]]\nid = 'p'\nskill = []", 'presets.p.skill: unknown key; did you mean "skills"?'),
        (
            "[[presets]]\nid = 'p'\nskills = []",
            "presets.p.skills: expected an array of tables, at least one, not an empty array",
        ),
        ("[[presets]]\nid = 'p'\noptions = 'sk-1'", "presets.p.options: expected a table"),
        (
            "[[presets]]\nid = 'p'\n[[presets.skills]]\nid = 's'\nexecutor = 1",
            "presets.p.skills.s.executor: expected a string that is not empty, not 1",
        ),
        ("[[presets]]\nid = 'p'\n[[presets]]\nid = 'p'", "presets.p.id: this id is taken; expected one of its own"),
        (
            "[[presets]]\nid = 'p'\nskills = [{id = 's'}, {id = 's'}]",
            "presets.p.skills.s.id: this id is taken; expected one of its own",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named_with_file_key_and_what_was_expected(write, text, expected):
    path = write(text)
    assert problems(path) == [f"{path}: {expected}"]


@pytest.mark.parametrize(
    "listen",
    ["3080", ":3080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "::1:3080", "[::1]", "[::z]:1",
     "unix:/run/a2ad.sock", "http://127.0.0.1:3080", "a b:1", "127.0.0.256:1", "", "*:3080", "host:٣"],
)  # fmt: skip
def test_listen_is_host_and_port(write, listen):
    path = write(f"[server]\nlisten = '{listen}'\n")
    (problem,) = problems(path)
    assert problem.startswith(f"{path}: server.listen: expected HOST:PORT with a port up to 65535, such as ")
    assert problem.endswith(f', not "{listen}"')


@pytest.mark.parametrize(
    "url",
    ["agents.example.org", "ftp://a.org", "//a.org", "https://", "https://a.org:70000", "https://u:p@a.org",
     "https://a.org/?q", "https://a.org/#f", "https://a b.org", "http://[::z]"],
)  # fmt: skip
def test_the_public_url_is_absolute(write, url):
    (problem,) = problems(write(f"[server]\npublic_url = '{url}'\n"))
    assert 'server.public_url: expected an absolute http or https URL, such as "https://agents.example.org"' in problem


def test_all_problems_of_all_sources_are_reported_at_once(write):
    path = write("[limits]\nruns = 0\nqueued = -1\n[nothing]\n[[presets]]\nagent = 1\n")
    broken = write("[limits\n", "conf.d/a.toml")
    found = problems(path, {"A2AD_LIMITS__RUNS": "0"}, {"server.listen": "x", "state_dir": Path("/s")})
    assert [problem.split(": ")[:2] for problem in found] == [
        [str(broken), "not valid TOML"],
        [str(path), "limits.runs"],
        [str(path), "limits.queued"],
        [str(path), "presets[0].id"],
        [str(path), "presets[0].agent"],
        [str(path), "nothing"],
        ["environment A2AD_LIMITS__RUNS", "limits.runs"],
        ["flag --listen", "server.listen"],
    ]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"[limits]\nruns = = 4\n", 2),
        (b"\n\nruns = [1,\n2", 4),
        (b"[limits]\nruns = 1\nruns = 2\n", 3),
        (b"[log]\nlevel = '\xff'\n", 2),
    ],
)
def test_a_syntax_error_names_file_and_line(tmp_path, content, line):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    (problem,) = problems(path)
    assert problem.startswith(f"{path}: not valid TOML: ")
    assert re.search(rf"\(at line {line}\b", problem)


def test_what_the_toml_parser_cannot_stand_is_no_traceback(tmp_path):
    path = tmp_path / "deep.toml"
    for text in ("a = " + "[" * 5000, "a = " + "9" * 5000):
        path.write_text(text)
        (problem,) = problems(path)
        assert problem.startswith(f"{path}: not valid TOML: ")


def test_a_named_file_that_does_not_exist_is_an_error(tmp_path):
    path = tmp_path / "none.toml"
    assert problems(path) == [f"{path}: cannot be read: No such file or directory"]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / ".config/a2ad/a2ad.toml").mkdir(parents=True)
    (problem,) = problems(environ={"HOME": str(tmp_path)})
    assert problem == f"{tmp_path}/.config/a2ad/a2ad.toml: cannot be read: Is a directory"


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "a2ad.toml"
    path.write_bytes(b"\xef\xbb\xbf[limits]\r\nruns = 3\r\n")
    assert load(path, environ={}).config.limits.runs == 3


# addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:3080", Address("127.0.0.1", 3080)),
        ("[::1]:0", Address("::1", 0)),
        ("localhost:65535", Address("localhost", 65535)),
        ("agents-1.example.org:80", Address("agents-1.example.org", 80)),
    ],
)
def test_an_address_reads_back_as_it_was_written(text, expected):
    assert parse_address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({}, None),
        ({"public_url": "http://localhost:3080"}, None),
        ({"public_url": "http://127.0.0.1"}, None),
        ({"public_url": "http://[::1]:3080/x"}, None),
        ({"public_url": "https://agents.example.org"}, Address("127.0.0.1", 3081)),
        ({"public_url": "https://localhost.example.org"}, Address("127.0.0.1", 3081)),
        ({"trusted_proxies": (ip_network("127.0.0.1"),)}, Address("127.0.0.1", 3081)),
        ({"trusted_proxies": (ip_network("::1"),), "listen": "[::]:0"}, Address("127.0.0.1", 0)),
        ({"control_listen": "[::1]:4000"}, Address("::1", 4000)),
        ({"control_listen": "127.0.0.1:4000", "public_url": "https://a.org"}, Address("127.0.0.1", 4000)),
        ({"control_listen": "127.0.0.1:3080"}, None),
        ({"control_listen": "127.0.0.1:0", "listen": "127.0.0.1:0"}, Address("127.0.0.1", 0)),
    ],
)
def test_the_control_api_leaves_the_listener_that_a_proxy_reaches(server, expected):
    config = Config(server=ServerConfig(**server), state_dir=Path("/s"))
    assert config.control_address() == expected


def test_the_last_port_has_none_after_it_for_the_control_api(tmp_path):
    environ = {
        "HOME": str(tmp_path),
        "A2AD_SERVER__LISTEN": "0.0.0.0:65535",
        "A2AD_SERVER__PUBLIC_URL": "https://a.org",
    }
    (problem,) = problems(environ=environ)
    assert problem.startswith("environment A2AD_SERVER__LISTEN: server.control_listen: expected HOST:PORT, because")


# presets


def test_of_a_preset_and_of_a_skill_only_the_id_is_required():
    preset = parse_preset({"id": "helper", "skills": [{"id": "sum"}]}, "plugin x")
    assert (preset.name, preset.description, preset.agent) == ("helper", "helper", "echo")
    assert (preset.options, preset.default) == ({}, False)
    assert preset.skills == (Skill(id="sum", name="sum", description="sum", tags=("sum",), executor="session"),)
    named = parse_preset({"id": "helper", "name": "Helper", "skills": [{"id": "s", "name": "Sum"}]}, "plugin x")
    assert (named.description, named.skills[0].description) == ("Helper", "Sum")


def test_a_preset_without_skills_can_chat():
    assert [skill.id for skill in parse_preset({"id": "helper"}, "plugin x").skills] == ["chat"]


def test_a_plugins_preset_that_is_wrong_names_the_plugin():
    with pytest.raises(ConfigError) as caught:
        parse_preset({"id": "p", "agent": None, "skills": [{"id": "a"}, {"id": "a", "tags": "x"}]}, "plugin x")
    assert caught.value.problems == (
        "plugin x: agent: expected a string that is not empty",
        'plugin x: skills.a.tags: expected an array of strings, not "x"',
        "plugin x: skills.a.id: this id is taken; expected one of its own",
    )
    with pytest.raises(ConfigError, match="plugin x: expected a table"):
        parse_preset("p", "plugin x")


def test_no_preset_is_configured_by_default_and_the_standard_one_is_shown(tmp_path):
    loaded = load(environ={"HOME": str(tmp_path)})
    assert loaded.config.presets == ()
    assert ("presets.standard.agent", "echo", "default") in flatten(loaded)
    assert (STANDARD_PRESET.id, STANDARD_PRESET.name, STANDARD_PRESET.default) == ("standard", "Standard", True)


def test_presets_of_several_files_add_up_and_a_later_one_replaces_its_namesake(write):
    path = write("[[presets]]\nid = 'a'\nname = 'first'\n[[presets]]\nid = 'b'\n")
    drop_in = write("[[presets]]\nid = 'c'\n[[presets]]\nid = 'a'\nagent = 'openai'\n", "conf.d/x.toml")
    loaded = load(path, environ={})
    assert [(preset.id, preset.name, preset.agent) for preset in loaded.config.presets] == [
        ("a", "a", "openai"),
        ("b", "b", "echo"),
        ("c", "c", "echo"),
    ]
    assert loaded.origins["presets.a.agent"] == str(drop_in)
    assert loaded.origins["presets.a.name"] == "default"
    assert loaded.origins["presets.b.id"] == str(path)


# what is shown


def test_every_effective_value_has_an_origin(write):
    loaded = load(write("[[presets]]\nid = 'a'\noptions = {model = 'm', deep = {x = 1}}\n"), environ={})
    rows = {key: value for key, value, _ in flatten(loaded)}
    assert set(rows) == set(loaded.origins)
    assert (rows["presets.a.options.model"], rows["presets.a.options.deep"]) == ("m", {"x": 1})


def test_secrets_are_not_shown(write):
    path = write("""
        [store]
        url = "postgres://me:hun@ter2@db/tasks?sslkey=hunter2&x=1"
        [[presets]]
        id = "a"
        [presets.options]
        api_key = "hunter2"
        api_key_env = "DEEPSEEK_API_KEY"
        API_Tokens = ["hunter2"]
        context_tokens = 32_000
        base_url = "https://me:hunter2@example.org/v1"
        plain_url = "https://example.org:8080/v1"
        env = { CLIENT_SECRET = "hunter2", HOME = "/h" }
        servers = [{ name = "s", password = "hunter2" }]
    """)
    rows = {key: value for key, value, _ in flatten(load(path, environ={}))}
    assert "ter2" not in json.dumps(rows)
    assert rows["store.url"] == "postgres://me:***@db/tasks?sslkey=***&x=1"
    options = {key.rpartition(".")[2]: value for key, value in rows.items() if key.startswith("presets.a.options.")}
    assert options == {
        "api_key": "***",
        "api_key_env": "DEEPSEEK_API_KEY",
        "API_Tokens": "***",
        "context_tokens": 32_000,
        "base_url": "https://me:***@example.org/v1",
        "plain_url": "https://example.org:8080/v1",
        "env": {"CLIENT_SECRET": "***", "HOME": "/h"},
        "servers": [{"name": "s", "password": "***"}],
    }


def test_errors_do_not_repeat_what_may_be_a_secret(write):
    environ = {"A2AD_SERVER__PUBLIC_URL": "https://me:hunter2@a.org"}
    path = write("[store]\nurl = 'me:hunter2 @db'\n[[presets]]\nid = 'a'\noptions = ['hunter2']\n")
    found = problems(path, environ)
    assert len(found) == 3
    assert "hunter2" not in "".join(found)


# the example


def uncommented():
    return re.sub(r"^# (\[+[a-z.]+\]+|[a-z_]+ = .*)$", r"\1", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_example_says_the_defaults(write):
    loaded = load(write(uncommented()), environ={})
    defaults = Config(state_dir=loaded.config.state_dir, presets=(STANDARD_PRESET,))
    assert loaded.config == defaults
    assert [key for key, origin in loaded.origins.items() if origin == "default"] == ["state_dir"]


def test_the_example_as_it_is_changes_nothing(tmp_path):
    assert load(EXAMPLE, environ={"HOME": str(tmp_path)}).config == load(environ={"HOME": str(tmp_path)}).config


def test_the_example_has_a_sentence_for_every_key():
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    for before, line in itertools.pairwise(lines):
        if re.match(r"# [a-z_]+ = ", line):
            assert re.match(r"# \S.*\.$", before), line


def test_every_key_is_immutable():
    config = Config(state_dir=Path("/s"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.limits.runs = 1


# the command


def a2ad(*arguments, environ=None, cwd=None):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("A2AD_", "XDG_", "STATE_"))}
    return subprocess.run(
        [sys.executable, "-m", "a2ad", "config", *map(str, arguments)],
        env=kept | (environ or {}), cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_config_prints_every_value_and_its_origin(write, tmp_path):
    path = write("[limits]\nqueued = 7\n")
    run = a2ad("--config", path, "--state-dir", tmp_path / "é", environ={"A2AD_LIMITS__RUNS": "4"})
    assert (run.returncode, run.stderr) == (0, "")
    lines = [re.sub(r" {4,}", "    ", line) for line in run.stdout.splitlines()]
    assert 'server.listen = "127.0.0.1:3080"    (default)' in lines
    assert f"limits.queued = 7    ({path})" in lines
    assert "limits.runs = 4    (environment A2AD_LIMITS__RUNS)" in lines
    assert f'state_dir = "{tmp_path}/é"    (flag --state-dir)' in lines


def test_config_prints_json(write):
    path = write("[limits]\nqueued = 7\n[server]\ntrusted_proxies = ['10.0.0.0/8']\n[[presets]]\nid = 'a'\n"
                 "options = {token = 'hunter2', since = 2026-12-01}\n")  # fmt: skip
    run = a2ad("--config", path, "--json")
    shown = json.loads(run.stdout)
    assert shown["limits.runs"] == {"value": 64, "origin": "default"}
    assert shown["limits.queued"] == {"value": 7, "origin": str(path)}
    assert shown["server.trusted_proxies"]["value"] == ["10.0.0.0/8"]
    assert shown["presets.a.options.token"]["value"] == "***"
    assert shown["presets.a.options.since"]["value"] == "2026-12-01"


def test_check_says_that_a_configuration_is_valid(write):
    path = write("")
    drop_in = write("", "conf.d/a.toml")
    for arguments in (["check", "--config", path], ["--config", path, "check"]):
        run = a2ad(*arguments)
        assert (run.returncode, run.stdout, run.stderr) == (0, f"configuration is valid ({path}, {drop_in})\n", "")


def test_problems_are_lines_on_stderr_and_the_status_is_one(write):
    path = write("[limits]\nruns = 0\nrun = 1\n")
    for arguments in (["--config", path], ["check", "--config", path]):
        run = a2ad(*arguments)
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr.splitlines() == [
            f"a2ad: {path}: limits.runs: expected a whole number, 1 or more, not 0",
            f'a2ad: {path}: limits.run: unknown key; did you mean "runs"?',
        ]


def test_an_unknown_option_is_wrong_use():
    assert a2ad("--no-such-option").returncode == 2


def test_names_that_are_not_utf8_are_printed_all_the_same(tmp_path):
    run = a2ad(environ={"HOME": str(tmp_path), "STATE_DIRECTORY": os.fsdecode(b"/state/\xff")})
    assert run.returncode == 0, run.stderr
    assert "/state/" in run.stdout
