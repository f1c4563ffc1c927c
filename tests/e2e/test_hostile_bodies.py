"""Bodies that are large, or of very many small values: bounded answers, bounded memory, and others are served."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import Background
from tests.hostile import call, no_faults, peak_memory, state_and_text
from tests.lab import at_once, text_of

MEGABYTES = 500
LIMIT = 10_485_760


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("bodies")) as started:
        yield started


@pytest.fixture(scope="module")
def agent(shared: DaemonProcess) -> str:
    return shared.create_inbound()


@pytest.fixture(scope="module")
def other(shared: DaemonProcess) -> str:
    return shared.create_inbound()


def _filled(before: bytes, item: bytes, after: bytes, *, most: int = 10**9, between: bytes = b",") -> bytes:
    """As many items as the body may have bytes."""
    count = min(most, (LIMIT - len(before) - len(after)) // (len(item) + len(between)))
    return before + between.join([item] * count) + after


ENVELOPE = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":'
MESSAGE = ENVELOPE + b'{"message":{"role":"ROLE_USER","parts":['
LIST = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":'
ONE = b'{"text":"a"}'
BODIES = {
    "a million wrong parts": (_filled(MESSAGE, b"0", b"]}}}", most=1_000_000), -32602),
    "wrong parts": (_filled(MESSAGE, b"0", b"]}}}"), -32602),
    "empty parts": (_filled(MESSAGE, b"{}", b"]}}}"), -32602),
    "right parts": (_filled(MESSAGE, b'{"text":""}', b"]}}}"), -32602),
    "arrays as parts": (_filled(MESSAGE, b"[]", b"]}}}"), -32602),
    "extensions": (_filled(MESSAGE + ONE + b'],"extensions":[', b'""', b"]}}}"), -32602),
    "references": (_filled(MESSAGE + ONE + b'],"referenceTaskIds":[', b"1", b"]}}}"), -32602),
    "output modes": (
        _filled(ENVELOPE + b'{"configuration":{"acceptedOutputModes":[', b'""', b']},"message":{"parts":[]}}}'),
        -32602,
    ),
    "metadata that is none": (_filled(MESSAGE + ONE + b'],"metadata":[', b"{}", b"]}}}"), -32602),
    "the role": (_filled(ENVELOPE + b'{"message":{"role":[', b"[]", b"]}}}"), -32602),
    "a batch": (_filled(b"[", b"{}", b"]"), -32600),
    "the id": (_filled(b'{"jsonrpc":"2.0","method":"ListTasks","id":[', b"1", b"]}"), -32600),
    "the parameters": (_filled(LIST + b"[", b"1", b"]}"), -32600),
    "long numbers": (_filled(LIST + b'{"pageSize":[', b"1234567890123456789", b"]}}"), -32602),
    "numbers past all bounds": (_filled(LIST + b'{"x":[', b"1" * 400, b"]}}"), -32700),
    "no end": (_filled(LIST, b"[", b"", between=b""), -32700),
    "no bottom": (_filled(LIST, b'{"":', b"", between=b""), -32700),
    "deep arrays": (_filled(LIST + b'{"pageSize":[', b"[" * 90 + b"]" * 90, b"]}}"), -32602),
    "deep objects": (_filled(LIST + b'{"pageSize":[', b'{"":' * 90 + b"1" + b"}" * 90, b"]}}"), -32602),
    "text without its end": (_filled(LIST + b'{"x":"', b"\\u0000", b"", between=b""), -32700),
    "wrong fields": (
        LIST + b"{" + b",".join(b'"%d":0' % number for number in range(800_000)) + b',"pageSize":"x"}}',
        -32602,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_very_many_values_gets_a_small_error_and_others_are_served(
    shared: DaemonProcess, agent: str, other: str, name: str
) -> None:
    body, code = BODIES[name]
    Path(f"/proc/{shared.process.pid}/clear_refs").write_text("5")  # its peak is counted from here
    sender = Background(shared.request, "POST", shared.endpoint(agent), body)
    served = 0
    while not sender.done or not served:
        assert state_and_text(shared.send(other, "hello"))[0] == "COMPLETED"
        served += 1

    status, answer = sender.result()
    assert status == 200
    # a daemon may also refuse to read so many values at all
    assert answer["error"]["code"] in {code, -32700}, answer["error"]["message"][:300]
    assert len(json.dumps(answer)) < 10_000
    assert peak_memory(shared) < MEGABYTES


def test_several_such_bodies_at_once_are_answered_too(shared: DaemonProcess, agent: str, other: str) -> None:
    Path(f"/proc/{shared.process.pid}/clear_refs").write_text("5")
    body, code = BODIES["wrong parts"]
    answers = at_once([lambda: shared.request("POST", shared.endpoint(agent), body)] * 3)
    assert [answer["error"]["code"] for _, answer in answers] == [code] * 3
    assert peak_memory(shared) < MEGABYTES
    assert state_and_text(shared.send(other, "hello"))[0] == "COMPLETED"


@pytest.mark.parametrize(
    "part", [0, {}, {"text": 1, "url": 2, "data": 3, "raw": 4, "filename": 5, "mediaType": 6, "metadata": 7}]
)
def test_thousands_of_violations_make_a_bounded_answer(shared: DaemonProcess, agent: str, part: Any) -> None:
    with no_faults(shared):
        answer = shared.rpc(agent, "SendMessage", {"message": {"role": "ROLE_USER", "parts": [part] * 5000}})
    assert answer["error"]["code"] == -32602
    assert "message.parts[0]" in answer["error"]["message"]
    assert len(json.dumps(answer)) < 4_000_000
    assert len(answer["error"]["message"]) < 2000


BOUNDS = {
    "message.parts": 5000,
    "message.extensions": 1000,
    "message.referenceTaskIds": 1000,
    "configuration.acceptedOutputModes": 1000,
}


@pytest.mark.parametrize("field", BOUNDS)
def test_an_array_past_its_bound_is_refused_by_its_name_and_one_at_it_is_taken(
    shared: DaemonProcess, agent: str, field: str
) -> None:
    where, _, name = field.partition(".")

    def send(count: int) -> Any:
        params: dict[str, Any] = {"message": {"role": "ROLE_USER", "parts": [{"text": "a"}]}, "configuration": {}}
        item: Any = {"text": "a"} if name == "parts" else "text/plain"
        params[where][name] = [item] * count
        return shared.rpc(agent, "SendMessage", params)

    assert state_and_text(send(BOUNDS[field])["result"]["task"])[0] == "COMPLETED"
    refused = send(BOUNDS[field] + 1)["error"]
    assert refused["code"] == -32602
    (bad,) = [detail for detail in refused["data"] if "fieldViolations" in detail]
    assert [violation["field"] for violation in bad["fieldViolations"]] == [field]


@pytest.mark.parametrize("history", [None, 0])
def test_a_page_over_large_tasks_is_cut_and_walking_on_gives_every_task_once(
    shared: DaemonProcess, history: int | None
) -> None:
    inbound = shared.create_inbound()
    sizes = [3_000_000, 10, 9_000_000, 3_000_000, 20, 3_000_000, 30]
    for size in sizes:
        shared.send(inbound, "x" * size, configuration={"historyLength": 0})
    Path(f"/proc/{shared.process.pid}/clear_refs").write_text("5")

    params: dict[str, Any] = {"includeArtifacts": True, "pageSize": 100}
    if history is not None:
        params["historyLength"] = history
    found: list[int] = []
    ids: list[str] = []
    pages = 0
    token = ""
    while True:
        page = call_list(shared, inbound, {**params, "pageToken": token} if token else params)
        assert page["totalSize"] == len(sizes)
        assert page["tasks"]
        found += [len(text_of(task)) for task in page["tasks"]]
        ids += [task["id"] for task in page["tasks"]]
        pages += 1
        token = page["nextPageToken"]
        if not token:
            break
    assert found == sizes[::-1]
    assert len(set(ids)) == len(sizes)
    assert 1 < pages < len(sizes)
    assert peak_memory(shared) < MEGABYTES
    assert len(call_list(shared, inbound, {"pageSize": 100, "historyLength": 0})["tasks"]) == len(sizes)


def call_list(daemon: DaemonProcess, inbound: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = daemon.request("POST", daemon.endpoint(inbound), call("ListTasks", params))[1]
    page: dict[str, Any] = answer["result"]
    return page
