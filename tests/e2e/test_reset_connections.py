"""A client that resets its connection as soon as it has asked is no neighbour: nobody knows where it was."""

import json
import socket
import struct
from collections.abc import Callable

import pytest

from tests.daemon import DaemonProcess

REQUESTS = 40


@pytest.fixture
def address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # nothing is sent
            found = str(sock.getsockname()[0])
        except OSError:
            found = "127.0.0.1"
    if found.startswith("127."):
        # it is as good where every request of this machine counts as a stranger's
        found = "127.0.0.2"
    return found


def ask_and_reset(address: str, port: int, path: str, body: object) -> None:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    with socket.create_connection((address, port)) as sock:
        sock.sendall(head.encode() + b"\r\n\r\n" + data)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_it_reaches_the_control_api_no_more_than_any_other_stranger(
    launch: Callable[..., DaemonProcess], address: str
) -> None:
    daemon = launch("--listen", "0.0.0.0:0")
    port = int(daemon.url.rpartition(":")[2])
    daemon.url = daemon.control = f"http://127.0.0.1:{port}"
    create = {"action": "inbound.create", "name": "evil", "description": "x", "version": "1"}
    for _ in range(REQUESTS):
        ask_and_reset(address, port, "/a2a/api", create)

    # the ones before this one have been accepted by then
    assert daemon.create_inbound(name="good")
    assert [row["name"] for row in daemon.read("")["inbounds"]] == ["good"]


def test_it_does_not_get_around_the_limit_of_requests(launch: Callable[..., DaemonProcess], address: str) -> None:
    daemon = launch("--listen", "0.0.0.0:0", config="[limits]\nrequests_per_minute = 5\n")
    port = int(daemon.url.rpartition(":")[2])
    daemon.url = daemon.control = f"http://127.0.0.1:{port}"
    inbound = daemon.create_inbound()
    message = {"message": {"role": "ROLE_USER", "parts": [{"text": "hello"}]}}
    for number in range(REQUESTS):
        call = {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": message}
        ask_and_reset(address, port, f"/a2a/{inbound}", call)

    assert daemon.send(inbound, "hello")
    # those whose address is known still have one limit, all the others another one; and the one of this very machine
    assert daemon.read("")["taskTotal"] <= 5 + 5 + 1
