"""`inbound.setAuth` and `authTokenEnv`: who is let in, and that the token is nowhere to be read."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import PLUGIN, raw, rpc_status, text_of

TOKEN = "s3cr3t-T0ken.of~the+operator=="
ANOTHER = "another-T0ken"
FROM_ENV = "T0ken-of-the-environment"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(
        tmp_path_factory.mktemp("auth"), plugin=PLUGIN, env={"AGENT_TOKEN": FROM_ENV, "EMPTY_TOKEN": ""}
    )
    yield daemon
    daemon.kill()


def row(daemon: DaemonProcess, inbound: str) -> Any:
    (found,) = [row for row in daemon.read("")["inbounds"] if row["id"] == inbound]
    return found


def admitted(daemon: DaemonProcess, inbound: str, *tokens: str | None) -> list[int]:
    return [rpc_status(daemon, inbound, token)[0] for token in tokens]


def test_a_token_that_is_set_is_needed_at_once_and_after_it_is_cleared_no_more(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound()
    assert admitted(shared, inbound, None) == [200]

    shared.act("inbound.setAuth", id=inbound, token=TOKEN)
    assert row(shared, inbound)["tokenSet"] is True
    assert admitted(shared, inbound, TOKEN, None, "wrong", TOKEN[:-1], f"{TOKEN}x", "") == [200] + [401] * 5

    shared.act("inbound.setAuth", id=inbound, token=ANOTHER)
    assert admitted(shared, inbound, ANOTHER, TOKEN, None) == [200, 401, 401]

    shared.act("inbound.setAuth", id=inbound, token="")
    assert row(shared, inbound)["tokenSet"] is False
    assert admitted(shared, inbound, None, TOKEN) == [200, 200]


@pytest.mark.parametrize("clear", [{}, {"token": ""}, {"token": None}])
def test_a_token_is_cleared_by_an_empty_one_or_none_at_all(shared: DaemonProcess, clear: dict[str, Any]) -> None:
    inbound = shared.create_inbound()
    shared.act("inbound.setAuth", id=inbound, token=TOKEN)

    answer = shared.act("inbound.setAuth", id=inbound, **clear)

    assert "cleared" in answer["message"]
    assert admitted(shared, inbound, None) == [200]


def test_without_the_token_a_request_is_401_with_a_challenge_and_nothing_is_done(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound()
    shared.act("inbound.setAuth", id=inbound, token=TOKEN)
    body = b'{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":{"message":{"role":"ROLE_USER","parts":'
    body += b'[{"text":"x"}]}}}'
    headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")]
    schemes = [f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer ", f"Bearer {TOKEN}, Bearer {TOKEN}", f"Token {TOKEN}"]

    for authorization in [[], *([("Authorization", scheme)] for scheme in schemes)]:
        answer = raw(shared.url, "POST", f"/a2a/{inbound}", [*headers, *authorization], body)
        assert answer.status == 401, authorization
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.json["error"]["code"] == -32040
    assert shared.read(f"?taskServerId={inbound}")["taskTotal"] == 0


def test_the_card_stays_public_and_declares_the_scheme(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound()
    path = f"/a2a/{inbound}/agent-card.json"
    before = raw(shared.url, "GET", path)

    shared.act("inbound.setAuth", id=inbound, token=TOKEN)
    after = raw(shared.url, "GET", path)

    assert "securitySchemes" not in before.json
    assert after.status == 200
    assert after.json["securitySchemes"] == {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    assert after.json["securityRequirements"] == [{"schemes": {"bearer": {"list": []}}}]
    assert before.headers["Etag"] != after.headers["Etag"]
    shared.act("inbound.setAuth", id=inbound)
    assert raw(shared.url, "GET", path).headers["Etag"] == before.headers["Etag"]


def test_a_token_is_nowhere_to_be_read(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch("--log-level", "debug", plugin=PLUGIN, env={"AGENT_TOKEN": FROM_ENV})
    inbound = daemon.create_inbound()
    answers = [json.dumps(daemon.act("inbound.setAuth", id=inbound, token=TOKEN))]
    other = daemon.create_inbound(authTokenEnv="AGENT_TOKEN")
    daemon.act("inbound.setAuth", status=409, id="unknown", token=TOKEN)
    daemon.act("inbound.setAuth", status=409, id=[TOKEN], token=TOKEN)
    assert admitted(daemon, inbound, TOKEN, f"{TOKEN}wrong", None) == [200, 401, 401]
    assert admitted(daemon, other, FROM_ENV, f"{FROM_ENV}wrong") == [200, 401]
    reads = [f"/a2a/api{path}" for path in ("", "/presets", "/metrics", f"/card?id={inbound}", f"/card?id={other}")]
    reads += [f"/a2a/{one}/agent-card.json" for one in (inbound, other)]
    answers += [raw(daemon.url, "GET", path).body.decode() for path in reads]
    answers += [json.dumps(rpc_status(daemon, one, f"{TOKEN}wrong")[1]) for one in (inbound, other)]

    assert daemon.terminate() == 0

    for secret in (TOKEN, FROM_ENV):
        assert [answer for answer in answers if secret in answer] == []
        assert secret not in daemon.log()
        files = [path for path in daemon.state_dir.rglob("*") if path.is_file()]
        assert "a2ad.db" in [path.name for path in files]
        assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_a_token_that_is_set_holds_after_a_restart(launch: Callable[..., DaemonProcess]) -> None:
    first = launch()
    inbound = first.create_inbound()
    first.act("inbound.setAuth", id=inbound, token=TOKEN)
    first.kill()

    second = launch()

    assert row(second, inbound)["tokenSet"] is True
    assert admitted(second, inbound, TOKEN, None, "wrong") == [200, 401, 401]


def test_the_operators_test_message_needs_no_token(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound()
    shared.act("inbound.setAuth", id=inbound, token=TOKEN)

    assert text_of(shared.act("inbound.sendTest", id=inbound, text="hello")["task"]) == "hello"


# authTokenEnv


def test_the_environments_token_is_needed(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(authTokenEnv="AGENT_TOKEN")

    assert admitted(shared, inbound, FROM_ENV, None, "wrong") == [200, 401, 401]
    found = row(shared, inbound)
    assert found["tokenSet"] is True
    assert "error" not in found
    assert "securitySchemes" in raw(shared.url, "GET", f"/a2a/{inbound}/agent-card.json").json


@pytest.mark.parametrize("name", ["NO_SUCH_VARIABLE", "EMPTY_TOKEN"])
def test_a_variable_that_is_not_there_keeps_the_inbound_from_being_served(shared: DaemonProcess, name: str) -> None:
    created = shared.act("inbound.create", name="n", description="d", version="1", authTokenEnv=name)
    inbound = created["id"]

    assert name in created["message"]
    assert admitted(shared, inbound, None, "", "wrong", FROM_ENV) == [404] * 4
    assert raw(shared.url, "GET", f"/a2a/{inbound}/agent-card.json").status == 404
    found = row(shared, inbound)
    assert name in found["error"]
    assert found["enabled"] is True
    (told,) = [entry for entry in shared.read("")["attention"] if entry["id"] == inbound]
    assert name in told["message"]
    assert name in shared.act("inbound.sendTest", status=409, id=inbound, text="hello")["message"]
    assert name in shared.act("inbound.enable", id=inbound)["message"]
    assert admitted(shared, inbound, None) == [404]


def test_a_token_that_was_set_goes_before_the_variable_until_it_is_cleared(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(authTokenEnv="AGENT_TOKEN")

    shared.act("inbound.setAuth", id=inbound, token=TOKEN)
    assert admitted(shared, inbound, TOKEN, FROM_ENV, None) == [200, 401, 401]

    shared.act("inbound.setAuth", id=inbound)
    assert admitted(shared, inbound, FROM_ENV, TOKEN, None) == [200, 401, 401]


def test_a_token_that_was_set_stands_in_for_a_variable_that_is_missing(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound(authTokenEnv="NO_SUCH_VARIABLE")

    shared.act("inbound.setAuth", id=inbound, token=TOKEN)
    assert admitted(shared, inbound, TOKEN, None) == [200, 401]
    assert "error" not in row(shared, inbound)

    shared.act("inbound.setAuth", id=inbound)
    assert admitted(shared, inbound, TOKEN, None) == [404, 404]
    assert "NO_SUCH_VARIABLE" in row(shared, inbound)["error"]


def test_an_update_names_another_variable_or_none(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound()

    shared.act("inbound.update", id=inbound, authTokenEnv="AGENT_TOKEN")
    assert admitted(shared, inbound, FROM_ENV, None) == [200, 401]

    shared.act("inbound.update", id=inbound, authTokenEnv="NO_SUCH_VARIABLE")
    assert admitted(shared, inbound, FROM_ENV, None) == [404, 404]

    shared.act("inbound.update", id=inbound, authTokenEnv="")
    assert admitted(shared, inbound, None) == [200]


def test_a_variable_that_is_gone_at_the_next_start_closes_the_inbound(launch: Callable[..., DaemonProcess]) -> None:
    first = launch(env={"AGENT_TOKEN": FROM_ENV})
    inbound = first.create_inbound(authTokenEnv="AGENT_TOKEN")
    assert admitted(first, inbound, FROM_ENV) == [200]
    first.kill()

    second = launch()
    assert admitted(second, inbound, FROM_ENV, None) == [404, 404]
    assert "AGENT_TOKEN" in row(second, inbound)["error"]
    second.kill()

    third = launch(env={"AGENT_TOKEN": ANOTHER})
    assert admitted(third, inbound, ANOTHER, FROM_ENV, None) == [200, 401, 401]


def test_a_systemd_credential_of_that_name_is_taken(launch: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "agent-token").write_text(f"{TOKEN}\n")
    daemon = launch(env={"CREDENTIALS_DIRECTORY": str(folder)})

    inbound = daemon.create_inbound(authTokenEnv="agent-token")

    assert admitted(daemon, inbound, TOKEN, None) == [200, 401]
