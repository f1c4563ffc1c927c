"""Who reaches the control API: this machine alone, by its own names, and no other site's page (`protocol.md` 7)."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import raw

READS = (
    "/a2a/api",
    "/a2a/api/",
    "/a2a/api?taskLimit=1",
    "/a2a/api/presets",
    "/a2a/api/card?id={inbound}",
    "/a2a/api/task?id={task}",
    "/a2a/api/session?contextId={context}",
    "/a2a/api/metrics",
    "/a2a/api/events",
    "/a2a/api/nothing",
    "/a2a/api/card/nothing",
)
CREATE = json.dumps({"action": "inbound.create", "name": "forged", "description": "d", "version": "1"}).encode()
JSON = ("Content-Type", "application/json")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("guard"))
    yield daemon
    daemon.kill()


@pytest.fixture(scope="module")
def reads(shared: DaemonProcess) -> list[str]:
    """Every route that is read, with ids that are there."""
    inbound = shared.create_inbound()
    task = shared.send(inbound, "hello")
    return [path.format(inbound=inbound, task=task["id"], context=task["contextId"]) for path in READS]


def forged(daemon: DaemonProcess) -> list[str]:
    return [row["name"] for row in daemon.read("")["inbounds"] if row["name"] == "forged"]


def refuse(daemon: DaemonProcess, reads: list[str], headers: list[tuple[str, str]], **more: str | None) -> None:
    """Every route refuses a request like this, and an action has no effect."""
    statuses = {}
    for path in reads:
        for method in ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"):
            body = CREATE if method in {"POST", "PUT"} else None
            sent = [JSON, *headers] if body else headers
            answer = raw(daemon.url, method, path, sent, body, read=False, **more)  # type: ignore[arg-type]
            statuses[f"{method} {path}"] = answer.status
            assert "Access-Control-Allow-Origin" not in answer.headers
    assert {path: status for path, status in statuses.items() if status != 403} == {}
    assert forged(daemon) == []


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "evil.test:{port}",
        "localhost.evil.test:{port}",
        "127.0.0.1.evil.test",
        "127.0.0.1@evil.test",
        "evil.test@127.0.0.1:{port}",
        "0.0.0.0:{port}",
        "127.0.0.2:{port}",
        "[::2]:{port}",
        "localhost.",
    ],
)
def test_a_host_that_is_not_the_daemons_own_is_refused_on_every_route(
    shared: DaemonProcess, reads: list[str], host: str
) -> None:
    refuse(shared, reads, [], host=host.format(port=shared.url.rpartition(":")[2]))


def test_a_request_without_a_host_or_with_two_is_refused_on_every_route(
    shared: DaemonProcess, reads: list[str]
) -> None:
    own = shared.url.removeprefix("http://")
    for path in reads:
        for hosts in ([], [("Host", own), ("Host", "evil.test")], [("Host", own), ("Host", own)], [("Host", "")]):
            got = raw(shared.url, "GET", path, hosts, host=None, read=False)
            posted = raw(shared.url, "POST", path, [JSON, *hosts], CREATE, host=None, read=False)
            assert {got.status, posted.status} <= {400, 403}, (path, hosts)
    assert forged(shared) == []


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.test",
        "http://evil.test:{port}",
        "http://localhost",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://localhost:{port}",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:{port}.evil.test",
        "http://127.0.0.1:{port}@evil.test",
        "http://evil.test@127.0.0.1:{port}",
        "http://127.0.0.1:{port}, http://evil.test",
        "file://",
        "http://[",
    ],
)
def test_a_page_of_another_origin_is_refused_on_every_route(
    shared: DaemonProcess, reads: list[str], origin: str
) -> None:
    refuse(shared, reads, [("Origin", origin.format(port=shared.url.rpartition(":")[2]))])


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("mode", ["navigate", "cors", "no-cors"])
def test_what_a_browser_marks_as_from_another_site_is_refused_on_every_route(
    shared: DaemonProcess, reads: list[str], site: str, mode: str
) -> None:
    refuse(shared, reads, [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode)])


@pytest.mark.parametrize("name", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "x-forwarded-for"])
@pytest.mark.parametrize("value", ["127.0.0.1", "203.0.113.9", "for=127.0.0.1", ""])
def test_a_request_that_came_through_a_proxy_is_refused_on_every_route(
    shared: DaemonProcess, reads: list[str], name: str, value: str
) -> None:
    refuse(shared, reads, [(name, value)])


def test_an_address_that_is_not_one_of_the_three_loopback_ones_is_refused_on_every_route(
    shared: DaemonProcess, reads: list[str]
) -> None:
    refuse(shared, reads, [], source="127.0.0.2")


def test_a_second_origin_header_that_is_foreign_is_refused_on_every_route(
    shared: DaemonProcess, reads: list[str]
) -> None:
    refuse(shared, reads, [("Origin", shared.url), ("Origin", "http://evil.test")])


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", "[::1]"])
def test_the_daemons_own_names_pass_with_any_port_on_every_route(
    shared: DaemonProcess, reads: list[str], host: str
) -> None:
    host = host.format(port=shared.url.rpartition(":")[2])

    got = {path: raw(shared.url, "GET", path, host=host, read=False).status for path in reads}

    assert set(got.values()) == {200, 404}
    assert {path for path, status in got.items() if status == 404} == {path for path in reads if "nothing" in path}
    assert raw(shared.url, "POST", "/a2a/api", [JSON], b'{"action":"none"}', host=host).status == 409


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_a_page_of_the_daemons_own_origin_passes_on_every_route(
    shared: DaemonProcess, reads: list[str], name: str
) -> None:
    host = f"{name}:{shared.url.rpartition(':')[2]}"
    own = [("Origin", f"http://{host}"), ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors")]

    got = {raw(shared.url, "GET", path, own, host=host, read=False).status for path in reads}

    assert got == {200, 404}
    assert raw(shared.url, "POST", "/a2a/api", [JSON, *own], b'{"action":"none"}', host=host).status == 409


def test_a_request_that_the_user_made_himself_passes(shared: DaemonProcess, reads: list[str]) -> None:
    own = [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate")]

    assert {raw(shared.url, "GET", path, own, read=False).status for path in reads} == {200, 404}


def test_a_refusal_says_so_and_is_logged_with_its_source(shared: DaemonProcess) -> None:
    answer = raw(shared.url, "GET", "/a2a/api", host="rebound.test")

    assert answer.json["ok"] is False
    assert "Host" in answer.json["message"]
    assert "control.refused" in shared.log()


def test_an_inbound_is_not_guarded_by_the_control_apis_rules(shared: DaemonProcess) -> None:
    inbound = shared.create_inbound()

    card = raw(shared.url, "GET", f"/a2a/{inbound}/agent-card.json", [("X-Forwarded-For", "203.0.113.9")])

    assert card.status == 200


def test_an_allowed_host_passes_and_its_neighbours_do_not(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch(config='[server]\nallowed_hosts = ["panel.test"]\n')
    port = daemon.url.rpartition(":")[2]

    def status(host: str) -> int:
        return raw(daemon.url, "GET", "/a2a/api", host=host).status

    assert [status(f"panel.test:{port}"), status("PANEL.test"), status(f"127.0.0.1:{port}")] == [200, 200, 200]
    assert [status("other.test"), status(f"sub.panel.test:{port}"), status("panel.test.evil.test")] == [403, 403, 403]
    with_origin = [("Origin", f"http://panel.test:{port}")]
    assert raw(daemon.url, "GET", "/a2a/api", with_origin, host=f"panel.test:{port}").status == 200
    assert raw(daemon.url, "GET", "/a2a/api", with_origin).status == 403


def test_loopback_over_ipv6_and_mapped_addresses_is_this_machine(
    launch: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    daemon = launch("--listen", "[::]:0")
    port = daemon.url.rpartition(":")[2]

    assert raw(f"http://[::1]:{port}", "GET", "/a2a/api").status == 200
    with socket.socket(socket.AF_INET6) as mapped:
        mapped.settimeout(30)
        mapped.connect(("::ffff:127.0.0.1", int(port)))
        mapped.sendall(b"GET /a2a/api HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert mapped.recv(12) == b"HTTP/1.1 200"
