"""How the hooks of plugins are called, and what happens where they fail, hang or answer nonsense."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import click
import pytest
from structlog.testing import capture_logs

from a2ad import Artifact, Decision, Deny, Executor, OutboundCall, hookimpl
from a2ad.config import load
from a2ad.plugins import PluginHost, observers

DECISION = Decision("in", "task", "context", "chat", {"parts": []}, "", "127.0.0.1", "operator")
CALL = OutboundCall("connection", "tool", "skill", "text", "operator")


def make_host(tmp_path, builtins=(), gate_seconds=5.0):
    host = PluginHost(load(environ={"HOME": str(tmp_path)}, flags={"limits.gate_seconds": gate_seconds}).config)
    host.load(builtins)
    return host


def plugin(**hooks):
    """A plugin object; the functions' arguments count, as in a module."""
    return SimpleNamespace(**{f"a2ad_{name}": hookimpl(hook) for name, hook in hooks.items()})


# Cards, events, commands


async def test_each_plugin_changes_the_card_and_what_went_wrong_is_undone(tmp_path):
    kept = []

    def rename(card):
        card["name"] = "renamed"
        card["skills"][0]["tags"].append("more")
        kept.append(card)

    def raises(card, inbound):
        card["skills"].clear()
        raise RuntimeError("no")

    def no_json(card):
        card["object"] = object()

    def exits(card):
        card.clear()
        raise SystemExit

    async def is_async(card):
        card.clear()

    def describe(card, inbound):
        card["description"] = inbound

    hooks = [rename, raises, no_json, exits, is_async, describe]
    host = make_host(tmp_path, builtins=[(hook.__name__, plugin(agent_card=hook)) for hook in hooks])
    card = {"name": "original", "skills": [{"tags": ["chat"]}]}
    with capture_logs() as logs:
        result = await host.agent_card(card, "an inbound")
    assert result == {"name": "renamed", "skills": [{"tags": ["chat", "more"]}], "description": "an inbound"}
    assert card == {"name": "original", "skills": [{"tags": ["chat"]}]}
    assert sorted(entry["plugin"] for entry in logs) == ["exits", "is_async", "no_json", "raises"]
    kept[0]["name"] = "changed later"
    assert result["name"] == "renamed"


async def test_a_card_that_no_plugin_changes_is_the_card_itself(tmp_path):
    card = {"name": "original"}
    assert await make_host(tmp_path).agent_card(card, None) is card


def test_every_observer_hears_of_an_event_although_others_fail(tmp_path):
    heard = []

    def raises(event):
        raise RuntimeError("no")

    def exits(event):
        raise SystemExit

    async def is_async(event):
        raise AssertionError("never awaited, and closed")

    def hears(event):
        heard.append(event)

    def hears_nothing_of_it():
        heard.append(None)

    hooks = [hears_nothing_of_it, raises, exits, is_async, hears]
    host = make_host(tmp_path, builtins=[(hook.__name__, plugin(event=hook)) for hook in hooks])
    assert host.has_observers
    with capture_logs() as logs:
        host.emit("task.state", {"id": "t"})
        assert host.drain(10)
    event = next(each for each in heard if each is not None)
    assert None in heard
    assert (event.name, event.data) == ("task.state", {"id": "t"})
    assert event.at.endswith("Z")
    assert sorted(entry["plugin"] for entry in logs) == ["exits", "is_async", "raises"]
    assert {entry["hook"] for entry in logs} == {"a2ad_event"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_interrupt_that_an_observer_raises_is_its_own_failure(tmp_path, error):
    heard = []

    def event():
        raise error

    after = plugin(event=lambda: heard.append("told"))
    host = make_host(tmp_path, builtins=[("after", after), ("core", plugin(event=event))])
    host.emit("task.state", {})
    assert host.drain(10)
    assert heard == ["told"]


def test_an_observer_that_hangs_holds_up_nobody_and_is_named(tmp_path):
    heard, free = [], threading.Event()
    builtins = [
        ("hangs", plugin(event=lambda: free.wait(30))),
        ("hears", plugin(event=lambda event: heard.append(event.data["n"]))),
    ]
    host = make_host(tmp_path, builtins=builtins)
    with capture_logs() as logs:
        for n in range(observers.WAITING + 5):
            host.emit("task.state", {"n": n})
            if n % 1000 == 0:
                host._observers[0].drain(time.monotonic() + 10)
        assert not host.drain(0.01)
    free.set()
    assert host.drain(10)
    assert heard == list(range(observers.WAITING + 5))
    assert {entry["plugin"] for entry in logs} == {"hangs"}
    assert len([entry for entry in logs if "misses events" in entry["event"]]) == 1


async def test_a_card_does_not_wait_for_a_plugin_that_hangs(tmp_path):
    free = threading.Event()
    builtins = [
        ("changes", plugin(agent_card=lambda card: card.update(name="changed"))),
        ("hangs", plugin(agent_card=lambda: free.wait(30))),
    ]
    host = make_host(tmp_path, builtins=builtins)
    host._gate_seconds = 0.1
    with capture_logs() as logs:
        assert await host.agent_card({"name": "original"}, None) == {"name": "changed"}
    free.set()
    assert [entry["plugin"] for entry in logs] == ["hangs"]


def test_without_observers_an_event_costs_nothing(tmp_path):
    host = make_host(tmp_path)
    assert not host.has_observers
    host.emit("task.state", None)


async def test_tryfirst_is_called_first(tmp_path):
    called = []

    @hookimpl(tryfirst=True)
    def a2ad_agent_card():
        called.append("first")

    def agent_card():
        called.append("second")

    builtins = [("a", SimpleNamespace(a2ad_agent_card=a2ad_agent_card)), ("b", plugin(agent_card=agent_card))]
    await make_host(tmp_path, builtins=builtins).agent_card({}, None)
    assert called == ["first", "second"]


def test_a_plugin_that_fails_to_add_its_commands_adds_none(tmp_path):
    def adds(cli):
        cli.add_command(click.Command("good"))

    def fails(cli):
        cli.add_command(click.Command("half"))
        raise SystemExit

    def replaces(cli):
        cli.add_command(click.Command("status"))

    hooks = [adds, fails, replaces]
    host = make_host(tmp_path, builtins=[(hook.__name__, plugin(register_commands=hook)) for hook in hooks])
    status = click.Command("status")
    cli = click.Group(commands=[status])
    with capture_logs() as logs:
        host.register_commands(cli)
    assert sorted(cli.commands) == ["good", "status"]
    assert cli.commands["status"] is status
    assert sorted(entry["plugin"] for entry in logs) == ["fails", "replaces"]


# Gates


def gate_host(tmp_path, *gates, seconds=5.0):
    builtins = [(gate.__name__, plugin(inbound_task=gate)) for gate in gates]
    return make_host(tmp_path, builtins=builtins, gate_seconds=seconds)


async def test_every_gate_is_asked_sync_or_async_and_any_denial_wins(tmp_path):
    asked = []

    def sync_allows(decision):
        asked.append(decision.skill)

    async def async_allows():
        asked.append("async")

    async def denies(decision):
        await asyncio.sleep(0)
        return Deny("not on Sundays")

    def awaitable(decision):
        return async_allows()

    host = gate_host(tmp_path, sync_allows, async_allows, awaitable)
    assert host.has_gates
    assert await host.inbound_task(DECISION) is None
    assert asked == ["async", "async", "chat"]
    assert await gate_host(tmp_path, sync_allows, denies, async_allows).inbound_task(DECISION) == Deny("not on Sundays")
    assert asked == ["async", "async", "chat", "async", "chat"]


async def test_outbound_calls_have_gates_of_their_own(tmp_path):
    def outbound_call(call):
        return Deny(f"no {call.tool}")

    host = make_host(tmp_path, builtins=[("policy", plugin(outbound_call=outbound_call))])
    assert not host.has_gates
    assert await host.outbound_call(CALL) == Deny("no tool")


def raises():
    raise RuntimeError("the password is swordfish")


def exits():
    raise SystemExit(1)


def stops():
    raise StopIteration


async def async_exits():
    raise SystemExit(1)


async def cancels_itself():
    raise asyncio.CancelledError


def answers_false():
    return False


def answers_the_class():
    return Deny


def answers_a_number():
    return Deny(5)


async def answers_a_coroutine():
    return raises_later()


async def raises_later():
    raise AssertionError("never awaited, and closed")


FAULTY = [
    raises,
    exits,
    stops,
    async_exits,
    cancels_itself,
    answers_false,
    answers_the_class,
    answers_a_number,
    answers_a_coroutine,
]


@pytest.mark.parametrize("gate", FAULTY, ids=lambda gate: gate.__name__)
async def test_a_faulty_gate_denies_without_showing_why_and_the_log_has_it(tmp_path, gate):
    host = gate_host(tmp_path, gate)
    with capture_logs() as logs:
        denial = await host.inbound_task(DECISION)
    assert denial == Deny(f"policy plugin {gate.__name__} failed")
    [entry] = logs
    assert (entry["plugin"], entry["hook"]) == (gate.__name__, "a2ad_inbound_task")
    assert "swordfish" not in denial.reason
    if gate is raises:
        assert "swordfish" in str(entry["exc_info"])


async def test_a_gate_that_blocks_denies_in_time_and_the_loop_goes_on(tmp_path):
    release = threading.Event()

    def blocks():
        release.wait(30)

    host = gate_host(tmp_path, blocks, seconds=0.05)
    deciding = asyncio.create_task(host.inbound_task(DECISION))
    turns = 0
    while not deciding.done():
        await asyncio.sleep(0)
        turns += 1
    release.set()
    assert deciding.result() == Deny("policy plugin blocks did not decide in time")
    assert turns > 10


async def test_a_gate_that_blocks_for_ever_does_not_gather_threads_without_end(tmp_path):
    release = threading.Event()

    def blocks():
        release.wait(30)

    host = gate_host(tmp_path, blocks, seconds=0.05)
    before = threading.active_count()
    denials = await asyncio.gather(*(host.inbound_task(DECISION) for _ in range(100)))
    assert {denial.reason for denial in denials} == {"policy plugin blocks did not decide in time"}
    assert threading.active_count() - before <= 32
    release.set()


async def test_an_async_gate_that_does_not_heed_its_cancellation_denies_in_time(tmp_path):
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    host = gate_host(tmp_path, stubborn, seconds=0.05)
    assert await host.inbound_task(DECISION) == Deny("policy plugin stubborn did not decide in time")
    release.set()


async def test_a_decision_that_nobody_waits_for_any_more_cancels_its_gate(tmp_path):
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def waits():
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    deciding = asyncio.create_task(gate_host(tmp_path, waits).inbound_task(DECISION))
    await asked.wait()
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    await asyncio.wait_for(cancelled.wait(), 10)


HANGS = """
import time
from a2ad import hookimpl

@hookimpl
def a2ad_inbound_task(decision):
    time.sleep(600)
"""


def test_a_gate_that_hangs_does_not_keep_the_process_alive(tmp_path):
    (tmp_path / "hangs.py").write_text(HANGS)
    flags = {"plugins.dirs": [str(tmp_path)], "limits.gate_seconds": 0.05}
    script = f"""
import asyncio
from a2ad.config import load
from a2ad.plugins import PluginHost, observers
host = PluginHost(load(environ={{"HOME": "/"}}, flags={flags}).config)
host.load(())
print(asyncio.run(host.inbound_task(None)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "did not decide in time" in done.stdout


# Life cycle


async def test_start_and_stop_reach_every_plugin_although_others_fail(tmp_path):
    called = []

    def sync_hook(daemon):
        called.append(daemon)

    async def async_hook():
        called.append("async")

    async def raises(daemon):
        raise SystemExit

    hooks = [sync_hook, raises, async_hook]
    builtins = [(hook.__name__, plugin(startup=hook, shutdown=hook)) for hook in hooks]
    host = make_host(tmp_path, builtins=builtins)
    with capture_logs() as logs:
        await host.startup("the daemon")
        await host.shutdown("the daemon")
    assert called == ["async", "the daemon"] * 2
    assert [(entry["plugin"], entry["hook"]) for entry in logs] == [
        ("raises", "a2ad_startup"),
        ("raises", "a2ad_shutdown"),
    ]


async def test_a_start_up_hook_that_takes_long_goes_on_and_a_shutdown_hook_is_cancelled(tmp_path):
    release, finished, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def startup():
        await release.wait()
        finished.set()

    async def shutdown():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    builtins = [("slow", plugin(startup=startup, shutdown=shutdown))]
    host = make_host(tmp_path, builtins=builtins, gate_seconds=0.02)
    with capture_logs() as logs:
        await host.startup(None)
        release.set()
        await asyncio.wait_for(finished.wait(), 10)
        await host.shutdown(None)
        await asyncio.wait_for(cancelled.wait(), 10)
    assert [entry["hook"] for entry in logs] == ["a2ad_startup", "a2ad_shutdown"]


async def test_a_start_up_hook_that_never_ends_is_cancelled_at_the_close(tmp_path):
    cancelled = asyncio.Event()

    async def startup():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    host = make_host(tmp_path, builtins=[("slow", plugin(startup=startup))], gate_seconds=0.02)
    await host.startup(None)
    await host.close()
    await asyncio.wait_for(cancelled.wait(), 10)


async def test_every_executor_is_closed_once_although_others_fail_or_hang(tmp_path):
    class Work(Executor):
        closed = 0

        async def execute(self, request):
            yield Artifact(parts=[])

        async def close(self):
            self.closed += 1

    class Fails(Work):
        async def close(self):
            raise SystemExit

    class Hangs(Work):
        async def close(self):
            await asyncio.Event().wait()

    good = Work()

    def register_executors(register):
        for name, executor in {"one": good, "two": good, "fails": Fails(), "hangs": Hangs()}.items():
            register(name, executor)

    core = plugin(register_executors=register_executors)
    host = make_host(tmp_path, builtins=[("core", core)], gate_seconds=0.2)
    with capture_logs() as logs:
        await host.close()
        await host.close()
    assert good.closed == 1
    assert sorted(entry["executor"] for entry in logs) == ["fails", "hangs"]
