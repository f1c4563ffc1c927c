"""Plugins that try to take the daemon along, in every place where it calls them: it goes on, and so do others."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import await_state, start_task, text_of, until
from tests.hostile import ended_task, state_and_text
from tests.hostile_plugins import EVENTS, GATES, IMPORTS, KINDS, LIMITS, PLUGIN


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """One daemon that has all of them, and in the end ends in order."""
    started = DaemonProcess(
        tmp_path_factory.mktemp("hostile"),
        plugin={"plugin": PLUGIN, **GATES, **EVENTS, **IMPORTS},
        config=f"{LIMITS}runs_per_inbound = 2\ntask_bytes = 2_000_000\n",
    )
    yield started
    try:
        assert started.terminate() == 0, started.log()[-3000:]
    finally:
        started.kill()


class Agents(dict[str, str]):
    """The inbound of a preset, published when it is first asked for."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self._daemon = daemon

    def __missing__(self, preset: str) -> str:
        self[preset] = self._daemon.create_inbound(preset=preset)
        return self[preset]


@pytest.fixture
def agents(shared: DaemonProcess) -> Iterator[Agents]:
    """Each test has its own. Afterwards others are served, and every slot that it took is free again."""
    agents = Agents(shared)
    before = shared.read("/metrics")["runs"]
    yield agents
    assert state_and_text(shared.send(agents["standard"], "hello"))[0] == "COMPLETED"
    until(lambda: shared.read("/metrics")["runs"] <= before, "the slots are free", within=10)


def _send(daemon: DaemonProcess, inbound: str, text: str) -> tuple[str, str]:
    task_id = start_task(daemon, inbound, text)
    return state_and_text(await_settled(daemon, inbound, task_id))


def await_settled(daemon: DaemonProcess, inbound: str, task_id: str) -> Any:
    """The task once it has ended or waits for an answer."""

    def settled() -> Any:
        task = daemon.rpc(inbound, "GetTask", {"id": task_id})["result"]
        return None if state_and_text(task)[0] in {"SUBMITTED", "WORKING"} else task

    return until(settled, "the task ends or waits", within=10)


def test_a_plugin_that_raises_anything_at_import_or_registration_is_left_out(
    shared: DaemonProcess, agents: Agents
) -> None:
    found = {plugin["name"]: plugin for plugin in shared.read("")["plugins"]}
    for name in IMPORTS:
        assert found[name]["state"] == "failed"
        assert found[name]["error"]
    for name in ("plugin", *GATES, *EVENTS):
        assert found[name]["state"] == "loaded"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("place", "state"),
    [
        ("first", "FAILED"),
        ("awaiting", "FAILED"),
        ("awaiting-task", "FAILED"),
        ("terminal", "COMPLETED"),
        ("question", "INPUT_REQUIRED"),
        ("task", "COMPLETED"),
        ("callback", "COMPLETED"),
        ("artifact", "FAILED"),
        ("closing", "FAILED"),
        ("asked", "FAILED"),
        ("failed", "FAILED"),
    ],
)
def test_whatever_an_executor_raises_is_its_tasks_alone(
    shared: DaemonProcess, agents: Agents, place: str, state: str, kind: str
) -> None:
    got, text = _send(shared, agents["blows"], f"{place} {kind}")
    assert got == state
    assert text or state == "COMPLETED"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("agent", ["call", "thread"])
def test_what_is_raised_by_the_call_or_in_its_thread_fails_the_task(
    shared: DaemonProcess, agents: Agents, agent: str, kind: str
) -> None:
    got, text = _send(shared, agents[agent], kind)
    assert got == "FAILED"
    assert text


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_raised_while_it_is_canceled_changes_nothing(shared: DaemonProcess, agents: Agents, kind: str) -> None:
    task_id = start_task(shared, agents["blows"], f"finally {kind}")
    await_state(shared, task_id, "WORKING")
    answer = shared.rpc(agents["blows"], "CancelTask", {"id": task_id})
    assert state_and_text(answer["result"])[0] == "CANCELED"


@pytest.mark.parametrize("text", ["5", "exits", "never", "no method", "evasive"])
def test_an_iterator_that_cannot_be_closed_ends_its_task_all_the_same(
    shared: DaemonProcess, agents: Agents, text: str
) -> None:
    assert _send(shared, agents["closing"], text)[0] in {"COMPLETED", "FAILED"}


@pytest.mark.parametrize("kind", [f"gate-{how} {kind}" for how in ("sync", "async") for kind in KINDS])
def test_a_gate_that_raises_anything_denies(shared: DaemonProcess, agents: Agents, kind: str) -> None:
    assert _send(shared, agents["standard"], kind)[0] == "REJECTED"


@pytest.mark.parametrize("text", ["deny surrogate", "deny nothing", "deny number", "odd text", "odd unshowable"])
def test_a_gate_that_answers_nonsense_denies_in_words_that_can_be_sent(
    shared: DaemonProcess, agents: Agents, text: str
) -> None:
    assert _send(shared, agents["standard"], text)[0] == "REJECTED"


@pytest.mark.parametrize("text", ["notes", "bare notes", "chunks", "empty chunks", "artifacts", "the same again"])
def test_a_task_without_an_end_fails_at_its_limit_and_others_are_served_meanwhile(
    shared: DaemonProcess, agents: Agents, text: str
) -> None:
    task_id = start_task(shared, agents["rows"], text)
    served = 0
    while _row(shared, task_id)["state"] == "TASK_STATE_WORKING":
        assert state_and_text(shared.send(agents["standard"], "hello"))[0] == "COMPLETED"
        served += 1
        assert served < 1000
    state, why = state_and_text(ended_task(shared, agents["rows"], task_id))
    assert state == "FAILED"
    assert "task_bytes" in why or "10000 artifacts" in why


def _row(daemon: DaemonProcess, task_id: str) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = daemon.read("?taskLimit=500")["tasks"]
    return next(task for task in tasks if task["id"] == task_id)


def test_a_reader_that_keeps_up_gets_every_note_with_ids_that_rise_by_one(
    shared: DaemonProcess, agents: Agents
) -> None:
    sent = {"message": {"role": "ROLE_USER", "parts": [{"text": "1500"}]}}
    frames = list(shared.stream(agents["count"], "SendStreamingMessage", sent))

    ids = [number for number, _ in frames]
    assert all(later == earlier + 1 for earlier, later in pairwise(ids))
    updates = [envelope["result"].get("statusUpdate", {}) for _, envelope in frames]
    notes = [text for update in updates if update and (text := state_and_text(update)[1])]
    assert notes == [str(number) for number in range(1500)]


def test_a_question_that_its_executor_gives_up_is_passed_over(shared: DaemonProcess, agents: Agents) -> None:
    task_id = start_task(shared, agents["givesup"], "go")
    task = ended_task(shared, agents["givesup"], task_id)
    assert state_and_text(task)[0] == "COMPLETED"
    assert text_of(task) == "0 1 2 done"


def test_asking_behind_the_runs_back_fails_the_task_and_gives_the_slot_back(
    shared: DaemonProcess, agents: Agents
) -> None:
    for _ in range(4):  # more than there are slots
        state, text = _send(shared, agents["asksbehind"], "go")
        if state == "INPUT_REQUIRED":  # for the moment, until it yields
            state, text = state_and_text(ended_task(shared, agents["asksbehind"], _newest(shared)))
        assert (state, bool(text)) == ("FAILED", True)


def test_a_question_that_nobody_awaits_ends_with_its_run(shared: DaemonProcess, agents: Agents) -> None:
    for _ in range(4):
        task_id = start_task(shared, agents["asksbehind"], "INPUT only")
        assert state_and_text(ended_task(shared, agents["asksbehind"], task_id))[0] in {"COMPLETED", "FAILED"}


def _newest(daemon: DaemonProcess) -> str:
    return str(daemon.read("?taskLimit=1")["tasks"][0]["id"])


@pytest.mark.parametrize("text", ["sleep", "artifact", *KINDS])
def test_after_a_reply_nothing_counts_and_the_slot_comes_back(shared: DaemonProcess, agents: Agents, text: str) -> None:
    for _ in range(3):  # more than there are slots
        params = {"message": {"role": "ROLE_USER", "parts": [{"text": text}]}}
        answer = shared.rpc(agents["replies"], "SendMessage", params)["result"]
        assert answer["message"]["parts"] == [{"text": f"re: {text}"}]
    assert shared.rpc(agents["replies"], "ListTasks", {})["result"]["totalSize"] == 0
