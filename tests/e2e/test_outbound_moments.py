"""What changes while a call or a connection is on its way: it is told, nothing hangs, and nothing is mixed up."""

import http.client
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import Background, get_task, start_task, until
from tests.e2e.outbound_support import Pair, launching, said
from tests.hostile import no_faults
from tests.remote import (
    HANG,
    Exchange,
    Gate,
    Remote,
    Script,
    answer,
    artifact,
    call,
    connect,
    parts_of,
    row,
    snapshot,
    status,
    stream,
    watched,
)
from tests.remote import http as http_answer

DONE = snapshot("COMPLETED", "", parts_of("done"))

#: a policy that decides about `decide FILE` once there is such a file
PLUGIN = """
import asyncio
from pathlib import Path
from a2ad import hookimpl


@hookimpl
async def a2ad_outbound_call(call):
    word, _, rest = call.text.partition(" ")
    if word == "decide":
        Path(f"{rest}.asked").touch()
        while not Path(rest).exists():
            await asyncio.sleep(0.01)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("moments"), plugin=PLUGIN) as process:
        yield process


@pytest.fixture
def remote(daemon: DaemonProcess) -> Iterator[Remote]:
    with no_faults(daemon), Remote() as found:
        yield found


def served_after(gate: Gate, remote: Remote) -> Script:
    """The remote's card, once the gate is open."""

    async def script(exchange: Exchange) -> None:
        await gate.passed()
        await http_answer(200, json.dumps(remote.card).encode())(exchange)

    return script


def calls(daemon: DaemonProcess) -> int:
    return int(daemon.read("/metrics")["outboundCalls"])


# the operator changes his mind


@pytest.mark.parametrize("action", ["disable", "remove"])
def test_a_call_that_waits_for_a_connection_is_told_where_that_will_not_come(
    daemon: DaemonProcess, remote: Remote, action: str
) -> None:
    gate = Gate()
    remote.on("GET", served_after(gate, remote))
    outbound = connect(daemon, remote, enabled=False)
    daemon.act("outbound.enable", id=outbound)
    assert row(daemon, outbound)["state"] == "connecting"
    pending = Background(call, daemon, outbound, status=409)
    until(lambda: calls(daemon) == 1, "the call waits")
    daemon.act(f"outbound.{action}", id=outbound)
    assert "taken away" in pending.result()["message"]
    assert calls(daemon) == 0
    assert not remote.asked("SendStreamingMessage")
    gate.open()


def test_a_connection_that_is_enabled_again_while_it_was_being_made_is_made(
    daemon: DaemonProcess, remote: Remote
) -> None:
    gate = Gate()
    remote.on("GET", served_after(gate, remote)).on("SendStreamingMessage", answer(DONE))
    outbound = connect(daemon, remote, enabled=False)
    for action in ("enable", "disable", "enable"):
        daemon.act(f"outbound.{action}", id=outbound)
    pending = Background(call, daemon, outbound)
    until(lambda: calls(daemon) == 1, "the call waits")
    gate.open()
    assert pending.result()["text"] == "done"


def test_a_refresh_whose_connection_is_disabled_meanwhile_is_told(daemon: DaemonProcess, remote: Remote) -> None:
    gate = Gate()
    outbound = connect(daemon, remote)
    remote.on("GET", served_after(gate, remote))
    before = len(remote.requests)
    pending = Background(
        daemon.request, "POST", f"{daemon.url}/a2a/api", {"action": "outbound.refresh", "id": outbound}
    )
    until(lambda: len(remote.requests) > before, "the card is asked for")
    daemon.act("outbound.disable", id=outbound)
    gate.open()
    got, told = pending.result()
    assert (got, told["ok"]) == (409, False)
    assert row(daemon, outbound)["state"] == "disabled"


def test_a_call_about_which_a_policy_decides_ends_with_its_connection(daemon: DaemonProcess, remote: Remote) -> None:
    remote.on("SendStreamingMessage", answer(DONE))
    outbound = connect(daemon, remote)
    pending = Background(call, daemon, outbound, "decide never", status=409)
    until((daemon.folder / "never.asked").exists, "the policy is asked")
    daemon.act("outbound.remove", id=outbound)
    assert pending.result()["message"] == "the connection 'remote' was taken away meanwhile"
    (daemon.folder / "never").touch()
    assert calls(daemon) == 0
    assert not remote.asked("SendStreamingMessage")


def test_a_call_that_a_policy_allows_after_its_connection_was_disabled_is_told(
    daemon: DaemonProcess, remote: Remote
) -> None:
    remote.on("SendStreamingMessage", answer(DONE))
    outbound = connect(daemon, remote)
    pending = Background(call, daemon, outbound, "decide late", status=409)
    until((daemon.folder / "late.asked").exists, "the policy is asked")
    daemon.act("outbound.disable", id=outbound)
    (daemon.folder / "late").touch()
    assert pending.result()["message"] == "the connection 'remote' is disabled"
    assert not remote.asked("SendStreamingMessage")


def test_a_token_that_is_changed_during_a_call_is_masked_all_the_same(daemon: DaemonProcess, remote: Remote) -> None:
    """The remote of a running call knows the token from before it."""
    old, new = "the-token-before", "the-token-behind"
    gate = Gate()
    words = [artifact(f"it was {old[:6]}"), artifact(f"{old[6:]}.", append=True)]
    ended = snapshot("COMPLETED", f"{old}", parts_of(f"it was {old}."))
    remote.on("SendStreamingMessage", stream(snapshot("WORKING", "here"), gate, *words, status("WORKING", old), ended))
    outbound = connect(daemon, remote)
    daemon.act("outbound.setAuth", id=outbound, token=old)
    seen: list[tuple[str, Any]] = []
    for event in watched(daemon, outbound):
        if event[1].get("message") == "here":
            daemon.act("outbound.setAuth", id=outbound, token=new)
            gate.open()
        seen.append(event)
    (asked,) = remote.asked("SendStreamingMessage")
    assert asked.headers["authorization"] == f"Bearer {old}"
    assert "".join(update.get("text", "") for kind, update in seen if kind == "progress") == "it was ***."
    assert (seen[-1][0], seen[-1][1]["text"]) == ("result", "it was ***.")
    assert old not in json.dumps([seen, daemon.read("")])


# who called


def test_a_call_that_its_caller_drops_is_in_the_audit_trail(daemon: DaemonProcess, remote: Remote) -> None:
    remote.on("SendStreamingMessage", stream(snapshot("WORKING"), HANG))
    outbound = connect(daemon, remote)
    client = http.client.HTTPConnection(daemon.url.removeprefix("http://"))
    body = json.dumps({"action": "outbound.call", "id": outbound, "text": "hello"})
    client.request("POST", "/a2a/api", body, {"Content-Type": "application/json"})
    until(lambda: remote.asked("SendStreamingMessage"), "the message is there")
    client.close()

    def told() -> list[str]:
        lines = [line for line in daemon.log().splitlines() if "control.action" in line and outbound in line]
        return [line for line in lines if "dropped by its caller" in line]

    (line,) = until(told, "it is logged")
    assert "outbound.call" in line
    until(lambda: remote.asked("CancelTask"), "the task is canceled")


# names


def tool_names(daemon: DaemonProcess) -> dict[tuple[str, str], str]:
    """The name of each (connection, skill); the snapshot has the same."""
    found = {(tool["connection"], tool["skill"]): tool["name"] for tool in daemon.read("/tools")}
    rows = daemon.read("")["outbounds"]
    assert found == {(each["id"], skill): name for each in rows for skill, name in each["tools"].items()}
    return found


def test_tools_keep_their_names_over_restarts_and_later_cards_whoever_was_first(
    launch: Callable[..., DaemonProcess],
) -> None:
    gate = Gate()
    with Remote() as slow, Remote() as quick:
        slow.on("GET", served_after(gate, slow))
        daemon = launch()
        pending = Background(connect, daemon, slow)
        until(lambda: slow.requests, "its card is asked for")
        second = connect(daemon, quick)
        gate.open()
        first = pending.result()
        names = tool_names(daemon)
        assert names[second, "chat"] == "a2a__remote__chat"
        assert re.fullmatch(r"a2a__remote__chat_[0-9a-f]{8}", names[first, "chat"])

        slow.card["skills"] += [{"id": "a b"}]
        daemon.act("outbound.refresh", id=first)
        quick.card["skills"] = [{"id": "a b"}, {"id": "a_b"}, *quick.card["skills"]]
        daemon.act("outbound.refresh", id=second)
        later = tool_names(daemon)
        assert names.items() <= later.items()
        assert later[first, "a b"] == "a2a__remote__a_b"
        assert len(set(later.values())) == 5
        assert daemon.terminate() == 0

        daemon = launch()
        until(lambda: {each["state"] for each in daemon.read("")["outbounds"]} == {"connected"}, "both are connected")
        assert tool_names(daemon) == later
        daemon.act("outbound.remove", id=second)
        assert tool_names(daemon) == {key: name for key, name in later.items() if key[0] == first}
        assert daemon.terminate() == 0


# the end of the daemon


def test_a_skill_whose_id_has_the_token_hides_nothing_after_a_restart(launch: Callable[..., DaemonProcess]) -> None:
    """Its card is kept without the token, so that the id is another one when it is read again."""
    with Remote() as remote:
        secret = "s3cr3t-of-the-remote"
        remote.card["skills"] += [{"id": f"take-{secret}", "name": "take", "description": "d", "tags": ["t"]}]
        daemon = launch(env={"A2AD_TEST_TOKEN": secret})
        outbound = connect(daemon, remote, bearerTokenEnv="A2AD_TEST_TOKEN")
        before = tool_names(daemon)
        assert row(daemon, outbound)["state"] == "connected"
        daemon.kill()
        gate = Gate()
        remote.on("GET", served_after(gate, remote))
        daemon = launch(env={"A2AD_TEST_TOKEN": secret})
        assert row(daemon, outbound)["state"] == "connecting"
        assert before.items() <= tool_names(daemon).items()
        assert secret not in json.dumps(daemon.read(""))
        gate.open()


def test_a_run_that_calls_a_tool_may_finish_after_sigterm(tmp_path: Path) -> None:
    """Within limits.shutdown_seconds, as every run (design.md)."""
    gate = tmp_path / "gate"
    with launching(tmp_path) as begin:
        pair = Pair(begin("one", config="[limits]\nshutdown_seconds = 60\n"), begin("two"))
        prompt = json.dumps({"prompt": f"gate {gate}"})
        task_id = start_task(pair.daemon, pair.caller, f"call a2a__b__chat {prompt}")
        until(lambda: pair.remote_tasks("WORKING"), "the remote works")
        pair.daemon.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(pair.daemon), "it takes no new work")
        assert pair.daemon.process.poll() is None
        gate.touch()
        assert pair.daemon.process.wait(60) == 0
        assert [task["state"] for task in pair.remote_tasks()] == ["TASK_STATE_COMPLETED"]
        pair.daemon = begin("one")
        task = get_task(pair.daemon, pair.caller, task_id)
        assert (task["status"]["state"], said(task)) == ("TASK_STATE_COMPLETED", "open")


def refuses(daemon: DaemonProcess) -> bool:
    """Whether there is nobody who takes a connection."""
    client = http.client.HTTPConnection(daemon.url.removeprefix("http://"), timeout=30)
    try:
        client.connect()
    except ConnectionRefusedError:
        return True
    finally:
        client.close()
    return False
