"""The agent's process: what it is given, what of it is in the log, and that nothing of it is left."""

import json
import os
from pathlib import Path

import pytest

from tests.lab import until


def _child(acp, text="child", **more):
    """The agent's process and one that it started, which heeds no SIGTERM."""
    _, child, _, agent = acp.say(text, **more).split()
    return int(agent), int(child)


def test_the_environment_is_a_few_variables_and_those_of_the_preset(acp):
    env = {"SCRIPT_LOG": str(acp.log_path), "MINE": "yes", "KEY": "$SECRET_KEY", "PRICE": "$ 5"}
    secrets = {"SECRET_KEY": "s3cr3t", "OTHER_TOKEN": "t0k3n", "LANG": "C.UTF-8"}
    acp.start(env=env, environ=secrets)
    got = json.loads(acp.say("env"))
    assert {name: got.pop(name) for name in ("MINE", "KEY", "PRICE")} == {
        "MINE": "yes",
        "KEY": "s3cr3t",
        "PRICE": "$ 5",
    }
    assert set(got) <= {"SCRIPT_LOG", "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE"}
    assert {"PATH", "HOME", "LANG"} <= set(got)
    assert "t0k3n" not in json.dumps(got)


def test_a_secret_may_be_a_credential_of_systemd(acp, tmp_path):
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "model.key").write_text("from-a-file\n")
    env = {"SCRIPT_LOG": str(acp.log_path), "KEY": "$model.key"}
    acp.start(env=env, environ={"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")})
    assert json.loads(acp.say("env"))["KEY"] == "from-a-file"


def test_no_descriptor_of_the_daemon_is_open_in_the_agent(acp):
    acp.start()
    acp.say("say x")
    streams = sorted(Path(f"/proc/{acp.pids()[0]}/fd").iterdir())
    assert [stream.name for stream in streams] == ["0", "1", "2"]
    assert all(str(stream.readlink()).startswith("pipe:") for stream in streams)


def test_stderr_is_in_the_log_line_by_line_without_the_agents_secrets(acp):
    env = {"SCRIPT_LOG": str(acp.log_path), "KEY": "$SECRET_KEY"}
    acp.start(env=env, environ={"SECRET_KEY": "s3cr3t"})
    acp.say("stderr the key is s3cr3t, they say")
    acp.say(f"stderr {'long ' * 1000}")
    until(lambda: "long" in acp.daemon.log())
    log = acp.daemon.log()
    assert "the key is ***, they say" in log
    assert "s3cr3t" not in log
    assert max(map(len, log.splitlines())) < 1300
    assert acp.fails("error the key is s3cr3t") == "The agent reported an error: Internal error: the key is ***"


def test_no_part_of_a_secret_is_left_where_a_line_is_cut(acp):
    secret = "abcdefghijklmnopqrstuvwxyz0123456789"
    env = {"SCRIPT_LOG": str(acp.log_path), "KEY": "$SECRET_KEY"}
    acp.start("resume", env=env, environ={"SECRET_KEY": secret})
    for before in range(975, 1001, 5):
        acp.say(f"stderr {'x' * before}{secret} and so on")
    why = [acp.fails(f"junk {'x' * before}{secret}{'y' * 100}; hang") for before in range(0, 60, 15)]
    told = acp.daemon.log() + "".join(why)
    parts = {secret[start : start + 8] for start in range(len(secret) - 7)}
    assert not [part for part in parts if part in told]


def test_an_orderly_stop_ends_every_group_that_was_started(acp):
    acp.start("resume")
    pids = _child(acp)
    task = acp.begin("say x; deaf")
    until(lambda: acp.text(acp.get(task["id"])) == "x ")
    acp.cancel(task["id"])
    more = _child(acp, contextId=task["contextId"])
    assert acp.daemon.terminate() == 0
    acp.gone(*pids, *more)


def test_a_stop_during_a_start_or_a_question_leaves_nothing(acp):
    acp.start("hang", limits={"shutdown_seconds": 1})
    acp.begin("say x")
    until(acp.pids)
    assert acp.daemon.terminate() == 0
    acp.gone(*acp.pids())
    acp.start("resume")
    acp.reach(acp.begin("child; ask rm"), "INPUT_REQUIRED")
    assert acp.daemon.terminate() == 0
    acp.gone(*acp.pids())


def test_an_agent_ends_with_a_daemon_that_is_killed(acp):
    acp.start("resume")
    task = acp.begin("say x; deaf")
    until(lambda: acp.text(acp.get(task["id"])) == "x ")
    acp.daemon.kill()
    acp.gone(*acp.pids())


def test_the_process_ends_with_its_last_session_and_another_takes_the_conversation_up(acp):
    acp.start("resume", "close", limits={"idle_session_seconds": 0.5})
    task = acp.send("say x")
    agent, child = _child(acp, contextId=task["contextId"])
    acp.gone(agent, child)
    assert [note["params"] for note in acp.heard("session/close")] == [{"sessionId": f"s{agent}-0"}]
    assert acp.say("heard", contextId=task["contextId"]) == "say x | child | heard"


def test_a_process_that_others_use_stays_when_a_session_is_let_go_of(acp):
    acp.start("resume", "close", limits={"idle_session_seconds": 0.5})
    waiting = acp.begin("ask rm")
    acp.reach(waiting, "INPUT_REQUIRED")
    task = acp.send("say x")
    until(lambda: acp.heard("session/close"))
    assert acp.say("heard", contextId=task["contextId"]) == "say x | heard"
    assert acp.text(acp.send("allow once", taskId=waiting["id"])) == "rm: id-allow_once "
    assert len(acp.pids()) == 1


@pytest.mark.parametrize("tools", [True, False])
def test_the_outbound_tools_are_an_mcp_server_of_the_session(acp, tools):
    acp.start(tools=tools)
    servers = json.loads(acp.say("session"))["mcpServers"]
    assert [server["name"] for server in servers] == (["a2ad"] if tools else [])
    for server in servers:
        url = server["args"][server["args"].index("--url") + 1]
        assert url == acp.daemon.control
        assert server["env"] == []
        assert os.access(server["command"], os.X_OK)
