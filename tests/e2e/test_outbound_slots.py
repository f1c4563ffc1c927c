"""Agents that call agents of the same daemon: run slots that are lent meanwhile, and chains that come to an end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.control_support import await_state, get_task, start_task
from tests.e2e.outbound_support import Launch, Pair, connect, launching, said
from tests.lab import at_once, until

ONE_RUN = "[limits]\nruns = 1\n"


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Launch]:
    """`begin(name, **more)` starts a daemon in a folder of that name, once more with its state and on its port."""
    with launching(tmp_path) as start:
        yield start


def test_a_run_that_waits_for_a_tool_lends_its_only_slot(begin: Launch) -> None:
    pair = Pair(begin("one", config="[limits]\nruns = 1\nruns_per_inbound = 1\n"))

    assert said(pair.call("echo one")) == "one"
    assert said(pair.daemon.send(pair.caller, "both a2a__b__chat")) == "0 1"
    tasks = at_once([lambda n=n: pair.call(f"echo {n}") for n in range(6)])
    assert [said(task) for task in tasks] == [str(n) for n in range(6)]


def test_a_chain_that_calls_itself_ends_at_a_depth_of_eight(begin: Launch) -> None:
    daemon = begin("one", config=ONE_RUN)
    inbound = daemon.create_inbound(name="chain", preset="caller")
    connect(daemon, daemon.endpoint(inbound), name="self")

    task = daemon.send(inbound, "chain a2a__self__chat")

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert said(task).endswith("error: agents have called agents 8 times in a row: the chain ends here")
    rows = daemon.read(f"?taskServerId={inbound}")["tasks"]
    assert len(rows) == 9
    assert {row["state"] for row in rows} == {"TASK_STATE_COMPLETED"}


def test_a_chain_of_two_daemons_counts_through_both(begin: Launch) -> None:
    daemons = [begin(name, config=ONE_RUN) for name in ("one", "two")]
    inbounds = [daemon.create_inbound(name="chain", preset="caller") for daemon in daemons]
    for number, daemon in enumerate(daemons):
        connect(daemon, daemons[1 - number].endpoint(inbounds[1 - number]), name="next")

    task = daemons[0].send(inbounds[0], "chain a2a__next__chat")

    assert said(task).endswith("error: agents have called agents 8 times in a row: the chain ends here")
    assert [len(daemon.read("")["tasks"]) for daemon in daemons] == [5, 4]


class Staggered:
    """An agent on a daemon with one run slot: its first call is answered while somebody else has the slot, so that it
    waits for it; then it makes a second call. `end()` lets the other one go.
    """

    def __init__(self, begin: Launch, folder: Path, *, second_here: bool) -> None:
        self.pair = Pair(begin("one", config=ONE_RUN), begin("two"))
        daemon = self.daemon = self.pair.daemon
        here = daemon.create_inbound(name="here", preset="remote")
        connect(daemon, daemon.endpoint(here), name="here")
        first, second, last = (folder / name for name in ("first", "second", "last"))
        tool = "a2a__here__chat" if second_here else "a2a__b__chat"
        plan = json.dumps(["a2a__b__chat", f"gate {first}", str(second), tool, "echo two"])
        self.task = start_task(daemon, self.pair.caller, f"staggered {plan}")
        until(lambda: self.pair.remote_tasks("WORKING"))
        other = start_task(daemon, here, f"gate {last}")
        await_state(daemon, other, "WORKING")
        first.touch()
        until(lambda: daemon.read("/metrics")["queued"] == 1)
        second.touch()
        self.end = last.touch

    def answer(self) -> str:
        def ended() -> dict[str, Any] | None:
            task: dict[str, Any] = get_task(self.daemon, self.pair.caller, self.task)
            return task if task["status"]["state"] == "TASK_STATE_COMPLETED" else None

        return said(until(ended, within=20))


def test_a_second_call_that_comes_and_goes_while_the_slot_is_waited_for_loses_nothing(
    begin: Launch, tmp_path: Path
) -> None:
    run = Staggered(begin, tmp_path, second_here=False)
    until(lambda: len(run.pair.remote_tasks("COMPLETED")) == 2 and run.daemon.read("/metrics")["outboundCalls"] == 0)

    run.end()

    assert run.answer() == "open two"


def test_a_second_call_to_this_daemon_while_the_slot_is_waited_for_gets_its_answer(
    begin: Launch, tmp_path: Path
) -> None:
    run = Staggered(begin, tmp_path, second_here=True)
    until(lambda: run.daemon.read("/metrics")["outboundCalls"] == 1)

    run.end()

    assert run.answer() == "open two"
