"""`a2ad outbound`: the control API's outbound actions as commands (issue 4, point 4; design.md, "Command line")."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_support import on_terminal, run
from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import until
from tests.remote import Remote, row

TOKEN = "s3cr3t-of-the-remote"
COMMANDS = ["list", "show", "add", "update", "set", "remove", "enable", "disable", "refresh", "discover", "token"]
SKILLS = [{"id": skill, "name": skill.title(), "description": f"To {skill}", "tags": []} for skill in ("chat", "sum")]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("outbound"), env={"REMOTE_TOKEN": TOKEN}) as daemon:
        yield daemon


@pytest.fixture
def remote() -> Iterator[Remote]:
    with Remote(skills=SKILLS) as remote:
        yield remote


@pytest.fixture
def outbound(daemon: DaemonProcess, remote: Remote, request: pytest.FixtureRequest) -> Iterator[str]:
    """The id of a connection that is called `remote`; it is gone afterwards."""
    outbound = daemon.act("outbound.create", name="remote", agentCardUrl=remote.card_url)["id"]
    yield outbound
    if row(daemon, outbound) is not None:
        daemon.act("outbound.remove", id=outbound)


def command(daemon: DaemonProcess, *arguments: str, status: int = 0, **more: Any) -> Any:
    done = run(daemon.url, "outbound", *arguments, **more)
    assert done.status == status, done
    return done


def test_add_prints_the_id_alone_and_sends_every_option(daemon: DaemonProcess, remote: Remote) -> None:
    added = command(
        daemon,
        *("add", "all", remote.card_url, "--auth-token-env", "REMOTE_TOKEN", "--preset", "standard"),
        *("--timeout-ms", "1234", "--disable-skill", "sum", "--disable-skill", "more"),
        *("--token-origin", "https://a.example", "--token-origin", "https://b.example"),
    )
    found = row(daemon, added.out.strip())
    told = f'outbound connection "all" created: agent "Remote" at {remote.url}/rpc, skills: 2'
    assert added.err == f"a2ad: {told}\n"
    wanted = {
        "name": "all",
        "agentCardUrl": remote.card_url,
        "enabled": True,
        "bearerTokenEnv": "REMOTE_TOKEN",
        "preset": "standard",
        "timeoutMs": 1234,
        "disabledSkills": ["sum", "more"],
        "tokenOrigins": ["https://a.example:443", "https://b.example:443"],
        "state": "connected",
    }
    assert {key: found[key] for key in wanted} == wanted
    assert remote.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    command(daemon, "remove", "all")


def test_add_disabled_asks_nothing_of_the_remote(daemon: DaemonProcess, remote: Remote) -> None:
    added = command(daemon, "add", "quiet", remote.card_url, "--disabled", "--json").json
    assert added["ok"] is True
    assert row(daemon, added["id"])["state"] == "disabled"
    assert remote.requests == []
    command(daemon, "remove", added["id"])


def test_what_the_daemon_refuses_is_told_with_its_fields(daemon: DaemonProcess) -> None:
    refused = command(daemon, "add", "x", "ftp://x.example", "--timeout-ms", "0", status=1)
    assert refused.out == ""
    assert refused.err.startswith("a2ad: timeoutMs ")
    as_json = command(daemon, "add", "x", "ftp://x.example", "--json", status=1)
    assert as_json.json["ok"] is False
    assert list(as_json.json["errors"]) == ["agentCardUrl"]
    assert as_json.err == f"a2ad: {as_json.json['message']}\n"
    away = command(daemon, "add", "x", "http://127.0.0.1:1", status=1)
    assert "127.0.0.1:1 cannot be reached" in away.err
    assert daemon.read("")["outbounds"] == []


def test_list_and_show_tell_what_the_snapshot_has(daemon: DaemonProcess, remote: Remote, outbound: str) -> None:
    found = row(daemon, outbound)
    assert command(daemon, "list", "--json").json == [found]
    assert command(daemon, "show", outbound, "--json").json == found
    header, line = command(daemon, "list").out.splitlines()
    assert header.split() == ["id", "name", "state", "tools", "card", "error"]
    assert line.split() == [outbound, "remote", "connected", "2/2", remote.card_url, "-"]
    shown = command(daemon, "show", "remote").out
    settings, skills = (part.splitlines() for part in shown.split("\n\n"))
    assert dict(line.split(maxsplit=1) for line in settings)["endpoint"] == f"{remote.url}/rpc"
    assert [line.split(maxsplit=3) for line in skills] == [
        ["id", "tool", "title", "description"],
        ["chat", "a2a__remote__chat", "Chat", "To chat"],
        ["sum", "a2a__remote__sum", "Sum", "To sum"],
    ]
    assert found["tools"] == {tool["skill"]: tool["name"] for tool in daemon.read("/tools")}
    command(daemon, "set", "remote", "--disable-skill", "sum")
    skills = command(daemon, "show", "remote").out.split("\n\n")[1].splitlines()
    assert [line.split()[1] for line in skills] == ["tool", "a2a__remote__chat", "disabled"]


def test_what_is_wrong_with_a_connection_is_listed(daemon: DaemonProcess, remote: Remote, outbound: str) -> None:
    daemon.act("outbound.update", id=outbound, bearerTokenEnv="NOT_SET")
    until(lambda: row(daemon, outbound)["state"] == "error", "the variable is missed")
    for arguments in (["list"], ["show", "remote"]):
        assert "the variable NOT_SET is not set" in command(daemon, *arguments).out


def test_a_name_cannot_drive_the_terminal(daemon: DaemonProcess, remote: Remote) -> None:
    command(daemon, "add", "red \x1b[31m", remote.card_url, "--disabled")
    assert "red ?[31m" in command(daemon, "list").out
    status, screen = on_terminal(daemon.url, "outbound", "remove", "red \x1b[31m", "--yes")
    assert (status, screen) == (0, 'outbound connection "red [31m" removed\n')


def test_set_changes_what_is_named_and_nothing_else(daemon: DaemonProcess, remote: Remote, outbound: str) -> None:
    before = row(daemon, outbound)
    told = command(daemon, "set", "remote", "--timeout-ms", "777", "--disable-skill", "sum")
    assert told.out == 'outbound connection "remote" updated\n'
    assert row(daemon, outbound) == {**before, "timeoutMs": 777, "disabledSkills": ["sum"], "toolCount": 1}
    command(daemon, "set", outbound, "--enable-skill", "sum", "--disable-skill", "chat")
    assert row(daemon, outbound) == {**before, "timeoutMs": 777, "disabledSkills": ["chat"], "toolCount": 1}
    command(daemon, "set", outbound, "--name", "other", "--preset", "standard", "--auth-token-env", "REMOTE_TOKEN")
    command(daemon, "set", "other", "--enable-skill", "chat", "--preset", "", "--auth-token-env", "")
    tools = {skill: f"a2a__other__{skill}" for skill in ("chat", "sum")}
    assert row(daemon, outbound) == {**before, "timeoutMs": 777, "name": "other", "tools": tools}


def test_set_overrides_what_a_skill_is_called(daemon: DaemonProcess, outbound: str) -> None:
    titles = ["--skill-title", "chat", "Ask = talk", "--skill-title", "sum", "Add up"]
    command(daemon, "set", "remote", *titles, "--skill-description", "chat", "It knows")
    assert row(daemon, outbound)["skillOverrides"] == {
        "chat": {"name": "Ask = talk", "description": "It knows"},
        "sum": {"name": "Add up"},
    }
    (tool,) = [tool for tool in daemon.read("/tools") if tool["skill"] == "chat"]
    assert (tool["title"], tool["description"]) == ("Ask = talk", "It knows")
    assert "Ask = talk  It knows" in command(daemon, "show", "remote").out
    command(daemon, "set", "remote", "--skill-reset", "chat", "--skill-description", "sum", "Of numbers")
    assert row(daemon, outbound)["skillOverrides"] == {"sum": {"name": "Add up", "description": "Of numbers"}}


def test_set_adds_and_takes_away_origins_that_may_get_the_token(daemon: DaemonProcess, outbound: str) -> None:
    command(daemon, "set", "remote", "--token-origin", "https://a.example", "--token-origin", "https://b.example")
    c, b = ("--token-origin", "https://C.example/agents"), ("--no-token-origin", "https://B.example:443/x?y")
    command(daemon, "set", "remote", *c, "--no-token-origin", "https://a.example")
    assert row(daemon, outbound)["tokenOrigins"] == ["https://b.example:443", "https://c.example:443"]
    command(daemon, "set", "remote", *b)
    assert row(daemon, outbound)["tokenOrigins"] == ["https://c.example:443"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--no-token-origin", "http://c.example"],
            "'http://c.example:80' is not there: there are https://c.example:443",
        ),
        (["--no-token-origin", "no url"], "'no url' is not there: there are https://c.example:443"),
        (["--enable-skill", "chat"], "'chat' is not there: there are sum"),
    ],
)
def test_what_is_not_there_cannot_be_taken_away(
    daemon: DaemonProcess, outbound: str, arguments: list[str], told: str
) -> None:
    command(daemon, "set", "remote", "--token-origin", "https://c.example", "--disable-skill", "sum")
    before = row(daemon, outbound)
    refused = command(daemon, "set", "remote", "--timeout-ms", "777", *arguments, status=1)
    assert (refused.out, refused.err) == ("", f"a2ad: {told}\n")
    assert row(daemon, outbound) == before


def test_set_without_anything_is_wrong_use_and_an_unknown_skill_is_told(daemon: DaemonProcess, outbound: str) -> None:
    assert "there is nothing to change" in command(daemon, "set", "remote", status=2).err
    told = command(daemon, "set", "remote", "--disable-skill", "sums")
    assert told.err == "a2ad: the agent has no skill 'sums' now; it has: chat, sum\n"
    assert row(daemon, outbound)["disabledSkills"] == ["sums"]


def test_enable_disable_and_refresh_answer_with_the_daemons_words(
    daemon: DaemonProcess, remote: Remote, outbound: str
) -> None:
    assert command(daemon, "disable", "remote").out == 'outbound connection "remote" disabled\n'
    refused = command(daemon, "refresh", "remote", status=1)
    assert (refused.out, refused.err) == ("", 'a2ad: outbound connection "remote" is disabled\n')
    assert command(daemon, "enable", outbound, "--json").json["ok"] is True
    remote.card["version"] = "2.0.0"
    assert command(daemon, "refresh", "remote").out == 'outbound connection "remote" refreshed\n'
    assert row(daemon, outbound)["card"]["version"] == "2.0.0"


def test_a_name_that_two_have_needs_the_id(daemon: DaemonProcess, remote: Remote, outbound: str) -> None:
    other = daemon.act("outbound.create", name="remote", agentCardUrl=remote.card_url)["id"]
    told = command(daemon, "show", "remote", status=1)
    assert told.out == ""
    assert outbound in told.err
    assert other in told.err
    command(daemon, "remove", other)
    unknown = command(daemon, "show", "nobody", status=1)
    assert unknown.err == "a2ad: there is no connection 'nobody'; there are: remote\n"


def test_remove_asks_on_a_terminal_unless_it_is_told_not_to(daemon: DaemonProcess, remote: Remote) -> None:
    def add() -> str:
        return str(daemon.act("outbound.create", name="remote", agentCardUrl=remote.card_url)["id"])

    outbound = add()
    status, screen = on_terminal(daemon.url, "outbound", "remove", "remote", answers=[("[y/N]", "\n")])
    assert (status, row(daemon, outbound) is not None) == (1, True), screen
    status, screen = on_terminal(daemon.url, "outbound", "remove", "remote", answers=[("[y/N]", "y\n")])
    assert (status, row(daemon, outbound)) == (0, None), screen
    outbound = add()
    status, screen = on_terminal(daemon.url, "outbound", "remove", "remote", "--yes")
    assert (status, row(daemon, outbound)) == (0, None), screen
    assert "[y/N]" not in screen
    outbound = add()
    assert command(daemon, "remove", outbound).out == 'outbound connection "remote" removed\n'
    assert row(daemon, outbound) is None


def test_discover_shows_the_card_and_keeps_nothing(daemon: DaemonProcess, remote: Remote) -> None:
    shown = command(daemon, "discover", remote.card_url).out
    settings, skills = (part.splitlines() for part in shown.split("\n\n"))
    assert settings[0].split() == ["agent", "Remote"]
    assert [line.split(maxsplit=2) for line in skills[1:]] == [["chat", "Chat", "To chat"], ["sum", "Sum", "To sum"]]
    answer = command(
        daemon, "discover", remote.card_url, "--token-env", "MINE", "--json", env={"MINE": "of-this-process"}
    ).json
    assert answer["preview"]["endpoint"] == f"{remote.url}/rpc"
    assert [asked.headers.get("authorization") for asked in remote.requests] == [None, "Bearer of-this-process"]
    assert daemon.read("")["outbounds"] == []
    command(daemon, "discover", remote.card_url, "--token-env", "REMOTE_TOKEN", status=2)  # that is the daemon's
    assert "cannot be reached" in command(daemon, "discover", "http://127.0.0.1:1", status=1).err


def test_a_token_comes_from_a_variable_a_file_or_standard_input_and_is_never_shown(
    daemon: DaemonProcess, remote: Remote, outbound: str, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("of-the-file\n")
    for arguments, more, token in (
        (["--token-env", "MINE"], {"env": {"MINE": "of-the-variable"}}, "of-the-variable"),
        (["--token-file", str(path)], {}, "of-the-file"),
        (["--token-file", "-"], {"stdin": "of-dash\n"}, "of-dash"),
        ([], {"stdin": "of-stdin\n"}, "of-stdin"),
    ):
        told = command(daemon, "token", "set", "remote", *arguments, **more)
        assert told.out == 'outbound connection "remote" token set\n'
        assert row(daemon, outbound)["tokenSet"] is True
        command(daemon, "refresh", "remote")
        assert remote.requests[-1].headers["authorization"] == f"Bearer {token}"
        assert token not in command(daemon, "show", "remote", "--json").out
    cleared = command(daemon, "token", "clear", "remote", "--json")
    assert cleared.json["ok"] is True
    assert row(daemon, outbound)["tokenSet"] is False


def test_a_terminal_is_asked_for_the_token_and_does_not_show_it(
    daemon: DaemonProcess, remote: Remote, outbound: str
) -> None:
    typed = [("Token: ", "typed-by-hand\n")]
    status, screen = on_terminal(daemon.url, "outbound", "token", "set", "remote", answers=typed)
    assert status == 0, screen
    assert "typed-by-hand" not in screen
    command(daemon, "refresh", "remote")
    assert remote.requests[-1].headers["authorization"] == "Bearer typed-by-hand"


@pytest.mark.parametrize(
    "arguments",
    [
        ["remote", "s3cr3t"],
        ["remote", "--token-file", "-", "--token-env", "PATH"],
        ["remote", "--token-env", "NOT_SET"],
        ["remote", "--token-file", "/nonexistent/file"],
        ["remote"],
    ],
)
def test_a_token_that_is_none_is_wrong_use_and_changes_nothing(
    daemon: DaemonProcess, outbound: str, arguments: list[str]
) -> None:
    daemon.act("outbound.setAuth", id=outbound, token="as-before")
    command(daemon, "token", "set", *arguments, status=2, stdin=" \n")
    assert row(daemon, outbound)["tokenSet"] is True


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_daemon_one_line_names_the_address_and_what_starts_one(name: str) -> None:
    arguments = {
        "list": [],
        "add": ["x", "http://x.example"],
        "discover": ["http://x.example"],
        "update": ["x", "--name", "y"],
        "set": ["x", "--name", "y"],
        "token": ["clear", "x"],
    }
    done = run("http://127.0.0.1:1", "outbound", name, *arguments.get(name, ["x"]))
    assert (done.status, done.out) == (1, ""), done
    (line,) = done.err.splitlines()
    assert "http://127.0.0.1:1" in line
    assert "(A2AD_URL)" in line
    assert "`a2ad serve --listen 127.0.0.1:1` starts one" in line


def test_something_else_at_the_address_is_no_daemon(remote: Remote) -> None:
    for arguments in (["list"], ["add", "x", "http://x.example"]):
        done = run(remote.url, "outbound", *arguments)
        assert (done.status, done.out) == (1, ""), done
        (line,) = done.err.splitlines()
        assert line.startswith(f"a2ad: no a2ad daemon answered at {remote.url} (A2AD_URL): ")
