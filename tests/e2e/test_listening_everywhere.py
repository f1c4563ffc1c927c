"""A daemon that listens on every address: the operator is shown where it is reached, never the address of all."""

import json
from collections.abc import Callable

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import raw

ALL = ("0.0.0.0", "[::]")
CONFIG = '[server]\nallowed_hosts = ["0.0.0.0", "agents.example.org"]\n'


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_the_control_api_shows_addresses_that_are_ones(launch: Callable[..., DaemonProcess], listen: str) -> None:
    daemon = launch("--listen", listen, config=CONFIG)
    port = daemon.url.rpartition(":")[2]
    reached = daemon.url = daemon.control = f"http://127.0.0.1:{port}"
    inbound = daemon.create_inbound()
    path = f"/a2a/{inbound}"

    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"0.0.0.0:{port}", "agents.example.org"):
        snapshot = raw(reached, "GET", "/a2a/api", host=host)
        (row,) = snapshot.json["inbounds"]
        card = raw(reached, "GET", f"/a2a/api/card?id={inbound}", host=host)
        (interface,) = card.json["supportedInterfaces"]
        for shown in (row["cardUrl"], interface["url"]):
            assert shown in {f"http://{name}:{port}{path}" for name in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]")}
        for address in ALL:
            assert address not in json.dumps([snapshot.json, card.json])
    task = raw(reached, "GET", f"/a2a/api/task?id={daemon.send(inbound, 'hello')['id']}")
    assert task.status == 200


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_a_control_listener_of_its_own_shows_them_likewise(launch: Callable[..., DaemonProcess], listen: str) -> None:
    daemon = launch("--listen", listen, config='[server]\ncontrol_listen = "127.0.0.1:0"\n')
    port = daemon.url.rpartition(":")[2]
    control = daemon.await_control()
    inbound = daemon.create_inbound()

    (row,) = daemon.read("")["inbounds"]
    card = raw(control, "GET", f"/a2a/api/card?id={inbound}")
    (interface,) = card.json["supportedInterfaces"]

    name = "127.0.0.1" if listen.startswith("0") else "[::1]"
    assert row["cardUrl"] == interface["url"] == f"http://{name}:{port}/a2a/{inbound}"
