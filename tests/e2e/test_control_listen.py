"""Where the control API listens (`design.md`, "Configuration"): behind a proxy it has a listener of its own.

A proxy on this machine that adds no header looks like a local caller: so what these tests send to the public port is
just what such a proxy would pass on, with the Host as the proxy has it.
"""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import failed_start, raw, rpc_status

PUBLIC = "https://agents.example.org"
SPELLINGS = [
    "/a2a/api",
    "/a2a/api/",
    "//a2a/api",
    "/a2a//api",
    "/a2a/api//",
    "/a2a%2Fapi",
    "/a2a%2fapi",
    "/%61%32%61/api",
    "/a2a/%61pi",
    "/A2A/api",
    "/a2a/API",
    "/A2A/API",
    "/a2a/./api",
    "/a2a/x/../api",
    "/../a2a/api",
    "/a2a/api?x=1",
    "/a2a/api;x",
    "/a2a/api%00",
    "/a2a/api/presets",
    "/a2a/api/metrics",
    "/a2a/api/events",
    "/a2a/api/card",
    "http://127.0.0.1/a2a/api",
]
CREATE = json.dumps({"action": "inbound.create", "name": "forged", "description": "d", "version": "1"}).encode()
HEADERS: list[list[tuple[str, str]]] = [
    [],
    [("X-Forwarded-For", "127.0.0.1")],
    [("Forwarded", "for=127.0.0.1;host=127.0.0.1")],
    [("X-Real-IP", "127.0.0.1"), ("X-Forwarded-Host", "localhost")],
    [("Origin", PUBLIC)],
    [("X-Original-URL", "/a2a/api"), ("X-Rewrite-URL", "/a2a/api")],
]


def sits_apart(daemon: DaemonProcess) -> None:
    """The control API answers on its own port alone, and nothing else does there."""
    assert daemon.await_control() != daemon.url
    inbound = daemon.create_inbound(name="published")
    path = f"/a2a/{inbound}"
    assert rpc_status(daemon, inbound)[0] == 200
    assert raw(daemon.url, "GET", f"{path}/agent-card.json").status == 200

    for target in SPELLINGS:
        for host, headers in [("localhost", []), ("agents.example.org", []), *(("", some) for some in HEADERS)]:
            read = raw(daemon.url, "GET", target, headers, host=host, read=False)
            posted = raw(daemon.url, "POST", target, [("Content-Type", "application/json"), *headers], CREATE,
                         host=host)  # fmt: skip
            assert read.status in {400, 404}, (target, host, headers, read.status)
            assert posted.status in {400, 404}, (target, host, headers, posted)
    assert [row["name"] for row in daemon.read("")["inbounds"]] == ["published"]

    message = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","parts":'
    message += b'[{"text":"x"}]}}}'
    for target in (path, f"/{path}", f"{path}/agent-card.json", "/.well-known/agent-card.json"):
        assert raw(daemon.control, "GET", target).status == 404
        assert raw(daemon.control, "POST", target, [("Content-Type", "application/json")], message).status == 404
        assert raw(daemon.control, "GET", target, host="evil.test").status in {403, 404}
    assert len(daemon.read("")["tasks"]) == 1


@pytest.mark.parametrize(
    "config", [f'public_url = "{PUBLIC}"', 'trusted_proxies = ["127.0.0.1"]', 'trusted_proxies = ["10.0.0.0/8"]']
)
def test_behind_a_proxy_the_control_api_cannot_be_reached_on_the_public_port_in_any_spelling(
    launch: Callable[..., DaemonProcess], config: str
) -> None:
    sits_apart(launch(config=f"[server]\n{config}\n"))


def test_with_a_control_listener_that_is_configured_neither(launch: Callable[..., DaemonProcess]) -> None:
    sits_apart(launch(config='[server]\ncontrol_listen = "127.0.0.1:0"\n'))


def test_a_control_listener_of_its_own_is_guarded_likewise(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch(config=f'[server]\npublic_url = "{PUBLIC}"\n')
    control = daemon.await_control()

    refused = [
        raw(control, "GET", "/a2a/api", host="agents.example.org"),
        raw(control, "GET", "/a2a/api", [("Origin", PUBLIC)]),
        raw(control, "GET", "/a2a/api", [("Origin", daemon.url)]),
        raw(control, "GET", "/a2a/api", [("X-Forwarded-For", "127.0.0.1")]),
        raw(control, "GET", "/a2a/api", source="127.0.0.2"),
    ]

    assert {answer.status for answer in refused} == {403}
    assert raw(control, "GET", "/a2a/api", [("Origin", control)]).status == 200


def test_rows_and_cards_then_name_the_public_url(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch(config=f'[server]\npublic_url = "{PUBLIC}"\n')
    daemon.await_control()
    inbound = daemon.create_inbound()

    (row,) = daemon.read("")["inbounds"]
    card = daemon.request("GET", f"{daemon.endpoint(inbound)}/agent-card.json")[1]

    assert row["cardUrl"] == f"{PUBLIC}/a2a/{inbound}"
    assert [interface["url"] for interface in card["supportedInterfaces"]] == [f"{PUBLIC}/a2a/{inbound}"]
    assert daemon.read(f"/card?id={inbound}") == card


def test_without_a_public_url_the_rows_name_the_port_that_clients_reach(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch(config='[server]\ntrusted_proxies = ["127.0.0.1"]\n')
    daemon.await_control()
    inbound = daemon.create_inbound()

    assert daemon.read("")["inbounds"][0]["cardUrl"] == daemon.endpoint(inbound)
    interfaces = daemon.read(f"/card?id={inbound}")["supportedInterfaces"]
    assert [interface["url"] for interface in interfaces] == [daemon.endpoint(inbound)]


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:9000", "http://[::1]:9000"])
def test_a_public_url_that_is_loopback_moves_nothing(launch: Callable[..., DaemonProcess], url: str) -> None:
    daemon = launch(config=f'[server]\npublic_url = "{url}"\n')

    assert raw(daemon.url, "GET", "/a2a/api").status == 200


def free_pair() -> tuple[int, int]:
    """Two neighbouring ports that nobody uses."""
    for _ in range(200):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port, port + 1
    raise AssertionError("no two neighbouring ports are free")


def test_it_moves_to_the_port_after_the_public_one(launch: Callable[..., DaemonProcess]) -> None:
    public, control = free_pair()

    daemon = launch(config=f'[server]\npublic_url = "{PUBLIC}"\n', port=public)

    assert daemon.url == f"http://127.0.0.1:{public}"
    assert daemon.await_control() == f"http://127.0.0.1:{control}"


def test_an_explicit_listener_is_where_it_is_said(launch: Callable[..., DaemonProcess]) -> None:
    _, control = free_pair()

    daemon = launch(config=f'[server]\ncontrol_listen = "127.0.0.1:{control}"\npublic_url = "{PUBLIC}"\n')

    assert daemon.await_control() == f"http://127.0.0.1:{control}"


@pytest.mark.parametrize("explicit", [False, True])
def test_a_control_port_that_is_in_use_is_an_error_at_start_up(tmp_path: Path, *, explicit: bool) -> None:
    public, control = free_pair()
    listener = f'control_listen = "127.0.0.1:{control}"\n' if explicit else ""
    (tmp_path / "c.toml").write_text(f'[server]\npublic_url = "{PUBLIC}"\n{listener}')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", control))
        taken.listen()

        told = failed_start(tmp_path, "--config", str(tmp_path / "c.toml"), listen=f"127.0.0.1:{public}")

    assert [str(control) in line for line in told.splitlines()] == [True]
