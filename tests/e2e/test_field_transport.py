"""Connections that break, bodies at the limit, sockets that listen: no half rows, no noise (protocol.md 2, 3)."""

import itertools
import json
import random
import socket
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import raw
from tests.hostile import FAULTS, no_faults
from tests.lab import WITHIN, Lab, connect, error, head, result, script, text_of, until

SEND, STREAM = "SendMessage", "SendStreamingMessage"
JSON = ("Content-Type", "application/json")
Launch = Callable[..., DaemonProcess]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("transport"), config="[limits]\nruns_per_inbound = 64\n")
    yield started
    started.kill()


def _request(lab: Lab, method: str, params: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    return head(lab.endpoint(lab.agent), *lines) + body


def _reset(sock: socket.socket) -> None:
    """Gone without a word: the kernel sends RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def _read_to(sock: socket.socket, mark: bytes, at_a_time: int = 65536) -> None:
    got, ends = b"", time.monotonic() + WITHIN
    while mark not in got:
        piece = sock.recv(at_a_time)
        assert piece, got
        assert time.monotonic() < ends, got
        got += piece


def _at_rest(lab: Lab) -> None:
    """Nobody is connected any more, and nothing runs."""
    until(lambda: lab.read("/metrics")["peers"] == 0)
    until(lambda: lab.read("/metrics")["runs"] == 0)


def _all_tasks(lab: Lab) -> list[dict[str, Any]]:
    pages = [lab.listed(pageSize=100, includeArtifacts=True)]
    while token := pages[-1]["nextPageToken"]:
        pages.append(lab.listed(pageSize=100, includeArtifacts=True, pageToken=token))
    return [task for page in pages for task in page["tasks"]]


def test_of_messages_that_are_dropped_at_any_moment_every_one_is_whole_or_was_never_there(tmp_path: Path) -> None:
    luck = random.Random(300)
    lab = Lab(tmp_path)
    sent = {f"d-{number}": luck.choice((SEND, STREAM)) for number in range(300)}
    steps = ["count", 5, 0.003], ["note", "half way"], ["text", "."]
    params = {name: script(*steps, messageId=name, contextId=f"c-{n % 50}") for n, name in enumerate(sent)}

    def drop(name: str, cut: int | None, seconds: float) -> None:
        sock = connect(lab.url)
        sock.sendall(_request(lab, sent[name], params[name])[:cut])
        time.sleep(seconds)  # the moment is what is tried
        _reset(sock)

    try:
        # one in five goes before its last bytes are sent
        drops = [(name, -luck.randrange(1, 200) if luck.random() < 0.2 else None, luck.random() * 0.05)
                 for name in sent]  # fmt: skip
        with no_faults(lab), ThreadPoolExecutor(10) as pool:
            for done in [pool.submit(drop, *each) for each in drops]:
                done.result()
            _at_rest(lab)
        tasks = {task["history"][0]["messageId"]: task for task in _all_tasks(lab)}

        assert 100 < len(tasks) < 300
        assert {name for name, cut, _ in drops if cut is not None}.isdisjoint(tasks)
        for name, task in tasks.items():
            assert (name, task["status"]["state"]) == (name, "TASK_STATE_COMPLETED")
            assert text_of(task) == "0.1.2.3.4.."
            assert [entry["parts"][0].get("text") for entry in task["history"]] == [None, "half way"]
            assert [lab.noted("run", task["id"]), lab.noted("done", task["id"])] == [1, 1]
        assert lab.noted("run") == lab.listed(pageSize=1)["totalSize"] == len(tasks)

        # sent again, each is what it was, or is new
        again = {name: result(lab.rpc(lab.agent, SEND, params[name]))["task"] for name in sent}
        assert {name: again[name] for name in tasks} == tasks
        assert len({task["id"] for task in again.values()}) == lab.noted("run") == 300
        assert lab.terminate() == 0
        _no_half_rows(lab.state_dir / "a2ad.db")
    finally:
        lab.kill()


def _no_half_rows(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        assert {"tasks", "messages", "artifacts"} <= set(tables)
        for table in tables:
            if "task_id" in [column[1] for column in connection.execute(f"PRAGMA table_info({table})")]:
                stray = f"SELECT count(*) FROM {table} WHERE task_id NOT IN (SELECT id FROM tasks)"
                assert (table, connection.execute(stray).fetchone()) == (table, (0,))
        for table in ("messages", "artifacts"):
            without = f"SELECT count(*) FROM tasks WHERE id NOT IN (SELECT task_id FROM {table})"
            assert (table, connection.execute(without).fetchone()) == (table, (0,))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# aborts at certain moments

ABORTS = 100


@pytest.mark.parametrize("method", [SEND, STREAM])
def test_clients_that_are_gone_when_their_answer_begins_make_no_noise(lab: Lab, method: str) -> None:
    """The answer is prepared for a connection that is closed, or that is being closed at that very moment."""
    luck = random.Random(100)
    with no_faults(lab):
        for round_ in range(4):
            gate = f"prepare-{method}-{round_}"
            # with a stream it is the first frame that nobody takes: the task waits for its turn or runs
            steps = [["wait", gate], ["text", "x"]]
            socks = []
            for number in range(ABORTS // 4):
                sock = connect(lab.url)
                sock.sendall(_request(lab, method, script(*steps, contextId=f"{gate}-{number % 10}")))
                if method == STREAM:
                    time.sleep(luck.random() * 0.002)  # the moment is what is tried
                    _reset(sock)
                else:
                    socks.append(sock)
            if method == SEND:
                until(lambda: lab.read("/metrics")["peers"] >= ABORTS // 4)
                early = len(socks) // 2
                for sock in socks[:early]:
                    _reset(sock)
                lab.open(gate)
                for sock in socks[early:]:
                    _reset(sock)
            lab.open(gate)
            _at_rest(lab)
    assert {task["status"]["state"] for task in _all_tasks(lab)} <= {"TASK_STATE_COMPLETED"}


def test_clients_that_go_in_the_middle_of_a_stream_make_no_noise(lab: Lab) -> None:
    with no_faults(lab):
        for round_ in range(4):
            gate = f"mid-{round_}"
            socks = []
            for number in range(ABORTS // 4):
                sock = connect(lab.url)
                sock.sendall(_request(lab, STREAM, script(["text", "a"], ["wait", gate], ["large", 10_000, 30])))
                socks.append((sock, number % 3))
            for sock, kind in socks:
                _read_to(sock, b"artifactUpdate")
                if kind == 0:
                    _reset(sock)
            lab.open(gate)
            for sock, kind in socks:
                if kind == 1:
                    _reset(sock)
                elif kind == 2:
                    sock.recv(1000)
                    _reset(sock)
            _at_rest(lab)
    assert {task["status"]["state"] for task in _all_tasks(lab)} == {"TASK_STATE_COMPLETED"}


def test_clients_that_go_as_their_stream_ends_make_no_noise(lab: Lab) -> None:
    with no_faults(lab):
        for number in range(ABORTS):
            sock = connect(lab.url)
            sock.sendall(_request(lab, STREAM, script(["text", "x"])))
            # the last frame and the end of the body are on their way
            _read_to(sock, b"COMPLETED", 1 << (6 + number % 8))
            _reset(sock)
        _at_rest(lab)


def test_the_log_of_all_that_has_no_error(lab: Lab) -> None:
    assert [fault for fault in (*FAULTS, "Error") if fault in lab.log()] == []


# bodies: the limit is more than aiohttp's own of 1 MiB

LIMIT = 3_000_000


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    started = DaemonProcess(tmp_path_factory.mktemp("limited"), config=f"[limits]\nbody_bytes = {LIMIT}\n")
    yield started
    started.kill()


def _filled(made: Callable[[str], Any], size: int) -> tuple[bytes, str]:
    """A JSON body of exactly this size, and the text that fills it."""
    text = "x" * (size - len(json.dumps(made(""))))
    return json.dumps(made(text)).encode(), text


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT, LIMIT + 1])
@pytest.mark.parametrize("framing", ["length", "few chunks", "many chunks"])
def test_a_body_is_read_to_the_limit_and_not_past_it(limited: DaemonProcess, size: int, framing: str) -> None:
    inbound = limited.create_inbound()
    call, text = _filled(
        lambda text: {"jsonrpc": "2.0", "id": 7, "method": SEND, "params": {"message": message(text)}}, size
    )
    assert len(call) == size
    action, _ = _filled(lambda text: {"action": "inbound.update", "id": inbound, "version": "2", "x": text}, size)
    step = {"length": 0, "few chunks": 1_000_000, "many chunks": 1000}[framing]

    def post(target: str, body: bytes) -> Any:
        pieces = [body[n : n + step] for n in range(0, len(body), step)] if step else body
        return raw(limited.url, "POST", target, [JSON], pieces)

    answer, acted = post(f"/a2a/{inbound}", call), post("/a2a/api", action)

    listed = result(limited.rpc(inbound, "ListTasks", {}))["totalSize"]
    version = limited.read(f"/card?id={inbound}")["version"]
    if size > LIMIT:
        assert (answer.status, error(answer.json)[1], answer.json["id"]) == (413, "REQUEST_TOO_LARGE", None)
        assert (acted.status, acted.json["ok"]) == (413, False)
        assert (listed, version) == (0, "1.0.0")
    else:
        assert (answer.status, answer.json["id"]) == (200, 7)
        assert text_of(answer.json["result"]["task"]) == text
        assert acted.status == 200
        assert (listed, version) == (1, "2")


# where it listens


@pytest.mark.parametrize(
    ("options", "config", "hosts"),
    [
        ([], "", ["127.0.0.1"]),
        (["--listen", "0.0.0.0:0"], "", ["0.0.0.0"]),
        (["--listen", "[::1]:0"], "", ["::1"]),
        ([], '[server]\ncontrol_listen = "127.0.0.1:0"\n', ["127.0.0.1", "127.0.0.1"]),
        (["--listen", "0.0.0.0:0"], '[server]\ncontrol_listen = "127.0.0.1:0"\n', ["0.0.0.0", "127.0.0.1"]),
        (["--listen", "0.0.0.0:0"], '[server]\npublic_url = "https://a.example"\n', ["0.0.0.0", "127.0.0.1"]),
        (["--listen", "0.0.0.0:0"], '[server]\ntrusted_proxies = ["10.0.0.1"]\n', ["0.0.0.0", "127.0.0.1"]),
    ],
)
def test_the_process_listens_where_it_says_and_has_no_other_socket_that_listens(
    launch: Launch, options: list[str], config: str, hosts: list[str]
) -> None:
    if "::1" in hosts and not Path("/proc/net/if_inet6").read_text():
        pytest.skip("this machine has no IPv6")
    daemon = launch(*options, config=config)
    said = [daemon.url] + ([daemon.await_control()] if len(hosts) > 1 else [])

    assert [url.removeprefix("http://").rpartition(":")[0].strip("[]") for url in said] == hosts
    expected = sorted((host, int(url.rpartition(":")[2])) for host, url in zip(hosts, said, strict=True))
    assert sorted(_listening(daemon.process.pid)) == expected


def _listening(pid: int) -> Iterator[tuple[str, int]]:
    """Every address on which a socket of this process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        target = str(descriptor.readlink())
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    lines = {name: Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6", "unix")}
    for name, line in itertools.chain.from_iterable(((name, line) for line in lines[name]) for name in ("tcp", "tcp6")):
        (
            _,
            address,
            _,
            state,
            *_,
        ) = fields = line.split()
        if state == "0A" and fields[9] in inodes:
            packed, _, port = address.partition(":")
            words = bytes.fromhex(packed)
            family = socket.AF_INET if name == "tcp" else socket.AF_INET6
            host = b"".join(words[n : n + 4][::-1] for n in range(0, len(words), 4))
            yield socket.inet_ntop(family, host), int(port, 16)
    for line in lines["unix"]:
        fields = line.split()
        if fields[6] in inodes and int(fields[3], 16) & 0x10000:  # it accepts connections
            yield fields[-1], 0
