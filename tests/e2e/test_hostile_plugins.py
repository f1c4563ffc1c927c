"""Plugins that try to take the daemon along, in every place where it calls them: it goes on, and ends in order."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import Background, await_state, start_task, text_of, until
from tests.hostile import ended_task, state_and_text, threads

Launch = Callable[..., DaemonProcess]
KINDS = ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "Untellable"]
LIMITS = "[limits]\ncancel_grace_seconds = 0.3\ngate_seconds = 1\nshutdown_seconds = 1\n"

#: in every plugin here: `blow("SystemExit")` raises it
HEAD = """
import asyncio, sys, threading, time
from a2ad import *


class Untellable(BaseException):
    def __str__(self): raise RuntimeError("no words")
    __repr__ = __str__


def blow(kind):
    if kind == "SystemExit":
        sys.exit(7)
    raise {"KeyboardInterrupt": KeyboardInterrupt, "GeneratorExit": GeneratorExit, "Untellable": Untellable,
           "CancelledError": asyncio.CancelledError}[kind]("why")


async def blow_later(kind):
    await asyncio.sleep(0)
    blow(kind)
"""

PLUGIN = f'''{HEAD}
OK = {{"text": "fine"}}


class Unreadable(list):
    def __init__(self, kind): super().__init__([OK]); self.kind = kind
    def __iter__(self): blow(self.kind)
    def __len__(self): blow(self.kind)


class Blows(Executor):
    async def execute(self, request):
        place, _, kind = request.text.partition(" ")
        if place == "first":
            blow(kind)
        yield Artifact(parts=[OK])
        if place == "awaiting":
            await blow_later(kind)
        elif place == "terminal":
            yield Status(TaskState.COMPLETED, "the end")
            blow(kind)
        elif place == "question":
            try:
                yield Status(TaskState.INPUT_REQUIRED, "which?")
            finally:
                blow(kind)
        elif place == "finally":
            try:
                await asyncio.sleep(600)
            finally:
                blow(kind)
        elif place == "task":
            for _ in range(5):
                self.kept = asyncio.create_task(blow_later(kind))
            await asyncio.sleep(0.05)
        elif place == "callback":
            for _ in range(5):
                asyncio.get_running_loop().call_soon(blow, kind)
                asyncio.get_running_loop().call_later(0.01, blow, kind)
            await asyncio.sleep(0.05)
        elif place == "artifact":
            yield Artifact(parts=Unreadable(kind))
        elif place == "closing":
            yield Status(TaskState.COMPLETED, Unreadable(kind))
        elif place == "asked":
            yield Status(TaskState.INPUT_REQUIRED, Unreadable(kind))
        elif place == "failed":
            raise TaskFailed(Unreadable(kind))


class Call(Executor):
    """Is no generator function: it raises when it is called."""
    def execute(self, request):
        blow(request.text)


class Thread(Executor):
    def execute(self, request):
        yield Artifact(parts=[OK])
        blow(request.text)


class Odd:
    """An async iterator with one event."""
    def __init__(self): self.events = [Artifact(parts=[OK])]
    def __aiter__(self): return self
    async def __anext__(self):
        if not self.events: raise StopAsyncIteration
        return self.events.pop()


class NoAwaitable(Odd):
    def aclose(self): return 5


class Exits(Odd):
    def aclose(self): sys.exit(3)


class Never(Odd):
    def aclose(self): return asyncio.get_running_loop().create_future()


class NoMethod(Odd):
    aclose = "no method"


class Evasive(Odd):
    def __getattr__(self, name): raise RuntimeError(f"do not ask me for {{name}}")


class Closing(Executor):
    def execute(self, request):
        return {{"5": NoAwaitable, "exits": Exits, "never": Never, "no method": NoMethod,
                "evasive": Evasive}}[request.text]()


class Rows(Executor):
    """Rows of events without an end."""
    async def execute(self, request):
        number = 0
        while True:
            number += 1
            if request.text == "notes":
                yield Status(TaskState.WORKING, "note " * 100)
            elif request.text == "chunks":
                yield Artifact(parts=[{{"text": "chunk " * 100}}], append=True)
            elif request.text == "artifacts":
                yield Artifact(parts=[OK], artifact_id=str(number))
            elif request.text == "empty chunks":
                yield Artifact(parts=[{{"text": ""}}], append=True)
            elif request.text == "the same again":
                yield Artifact(parts=[{{"text": "x" * 500}}])
            elif request.text == "bare notes":
                yield Status(TaskState.WORKING)


class Count(Executor):
    async def execute(self, request):
        for number in range(int(request.text)):
            yield Status(TaskState.WORKING, str(number))


class GivesUp(Executor):
    async def execute(self, request):
        for number in range(3):
            yield Artifact(parts=[{{"text": f"{{number}} "}}], append=True)
            try:
                await asyncio.wait_for(request.ask("which?"), 0.1)
            except TimeoutError:
                yield Status(TaskState.WORKING, "then without")
        yield Artifact(parts=[{{"text": "done"}}], append=True)


class AsksBehind(Executor):
    async def execute(self, request):
        self.asking = asyncio.create_task(request.ask("which?"))
        while "INPUT" not in request.text and not self.asking.done():
            await asyncio.sleep(0.01)
            yield Artifact(parts=[OK])


class Replies(Executor):
    may_reply = True

    async def execute(self, request):
        yield Reply(parts=[{{"text": f"re: {{request.text}}"}}])
        if request.text == "sleep":
            await asyncio.sleep(600)
        elif request.text == "artifact":
            yield Artifact(parts=[OK])
            yield Reply(parts=[OK])
            yield "nonsense"
        elif request.text in {KINDS}:
            blow(request.text)


ALL = {{"blows": Blows, "call": Call, "thread": Thread, "closing": Closing, "rows": Rows, "count": Count,
       "givesup": GivesUp, "asksbehind": AsksBehind, "replies": Replies}}


@hookimpl
def a2ad_register_executors(register):
    for name, kind in ALL.items():
        register(name, kind())


@hookimpl
def a2ad_register_presets(register):
    for name in ALL:
        register(name, {{"skills": [{{"id": "chat", "executor": name}}]}})
'''

GATE = f"""{HEAD}
def decide(text):
    place, _, kind = text.partition(" ")
    if place == "deny":
        return Deny({{"surrogate": "no \\ud800", "nothing": "", "number": 5}}[kind])
    if place == "odd":
        return {{"text": "no", "unshowable": Unshowable()}}[kind]


class Unshowable:
    def __repr__(self): raise RuntimeError("no words")
"""
GATES = {
    "gate_sync": f"""{GATE}
@hookimpl
def a2ad_inbound_task(decision):
    if decision.text.startswith("gate-sync"):
        blow(decision.text.partition(" ")[2])
    return decide(decision.text)
""",
    "gate_async": f"""{GATE}
@hookimpl
async def a2ad_inbound_task(decision):
    if decision.text.startswith("gate-async"):
        await blow_later(decision.text.partition(" ")[2])
""",
}
EVENTS = {
    f"event_{kind}": f"""{HEAD}
@hookimpl
def a2ad_event(event): blow("{kind}")
@hookimpl
def a2ad_agent_card(card, inbound): blow("{kind}")
"""
    for kind in KINDS
}
IMPORTS = {
    **{f"import_{kind}": f'{HEAD}\nblow("{kind}")' for kind in KINDS},
    **{
        f"register_{kind}": f'{HEAD}\n@hookimpl\ndef a2ad_register_executors(register): blow("{kind}")'
        for kind in KINDS
    },
    "import_surrogate": 'raise RuntimeError("\\ud800")',
    "import_group": 'raise BaseExceptionGroup("several", [SystemExit(), KeyboardInterrupt()])',
    "import_chain": f'{HEAD}\ntry:\n    blow("Untellable")\nexcept BaseException as e:\n    raise ValueError("then") from e',
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """One daemon that has all of them, and in the end ends in order."""
    started = DaemonProcess(
        tmp_path_factory.mktemp("hostile"),
        plugin={"plugin": PLUGIN, **GATES, **EVENTS, **IMPORTS},
        config=f"{LIMITS}runs_per_inbound = 2\ntask_bytes = 1_000_000\n",
    )
    yield started
    try:
        assert started.terminate() == 0, started.log()[-3000:]
    finally:
        started.kill()


@pytest.fixture(scope="module")
def agents(shared: DaemonProcess) -> dict[str, str]:
    names = ("blows", "call", "thread", "closing", "rows", "count", "givesup", "asksbehind", "replies", "standard")
    return {name: shared.create_inbound(preset=name) for name in names}


@pytest.fixture(autouse=True)
def others_are_served(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test on the shared daemon another agent answers, and every slot is free."""
    yield
    if "shared" in request.fixturenames:
        daemon, agents = request.getfixturevalue("shared"), request.getfixturevalue("agents")
        assert state_and_text(daemon.send(agents["standard"], "hello"))[0] == "COMPLETED"
        until(lambda: daemon.read("/metrics")["runs"] == 0, "the slots are free", within=20)


def _send(daemon: DaemonProcess, inbound: str, text: str) -> tuple[str, str]:
    task_id = start_task(daemon, inbound, text)
    return state_and_text(await_settled(daemon, inbound, task_id))


def await_settled(daemon: DaemonProcess, inbound: str, task_id: str) -> Any:
    """The task once it has ended or waits for an answer."""

    def settled() -> Any:
        task = daemon.rpc(inbound, "GetTask", {"id": task_id})["result"]
        return None if state_and_text(task)[0] in {"SUBMITTED", "WORKING"} else task

    return until(settled, "the task ends or waits", within=20)


def test_a_plugin_that_raises_anything_at_import_or_registration_is_left_out(
    shared: DaemonProcess, agents: dict[str, str]
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
    shared: DaemonProcess, agents: dict[str, str], place: str, state: str, kind: str
) -> None:
    got, text = _send(shared, agents["blows"], f"{place} {kind}")
    assert got == state
    assert text or state == "COMPLETED"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("agent", ["call", "thread"])
def test_what_is_raised_by_the_call_or_in_its_thread_fails_the_task(
    shared: DaemonProcess, agents: dict[str, str], agent: str, kind: str
) -> None:
    got, text = _send(shared, agents[agent], kind)
    assert got == "FAILED"
    assert text


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_raised_while_it_is_canceled_changes_nothing(
    shared: DaemonProcess, agents: dict[str, str], kind: str
) -> None:
    task_id = start_task(shared, agents["blows"], f"finally {kind}")
    await_state(shared, task_id, "WORKING")
    answer = shared.rpc(agents["blows"], "CancelTask", {"id": task_id})
    assert state_and_text(answer["result"])[0] == "CANCELED"


@pytest.mark.parametrize("text", ["5", "exits", "never", "no method", "evasive"])
def test_an_iterator_that_cannot_be_closed_ends_its_task_all_the_same(
    shared: DaemonProcess, agents: dict[str, str], text: str
) -> None:
    assert _send(shared, agents["closing"], text)[0] in {"COMPLETED", "FAILED"}


@pytest.mark.parametrize("kind", [f"gate-{how} {kind}" for how in ("sync", "async") for kind in KINDS])
def test_a_gate_that_raises_anything_denies(shared: DaemonProcess, agents: dict[str, str], kind: str) -> None:
    assert _send(shared, agents["standard"], kind)[0] == "REJECTED"


@pytest.mark.parametrize("text", ["deny surrogate", "deny nothing", "deny number", "odd text", "odd unshowable"])
def test_a_gate_that_answers_nonsense_denies_in_words_that_can_be_sent(
    shared: DaemonProcess, agents: dict[str, str], text: str
) -> None:
    assert _send(shared, agents["standard"], text)[0] == "REJECTED"


@pytest.mark.parametrize("text", ["notes", "bare notes", "chunks", "empty chunks", "artifacts", "the same again"])
def test_a_task_without_an_end_fails_at_its_limit_and_others_are_served_meanwhile(
    shared: DaemonProcess, agents: dict[str, str], text: str
) -> None:
    task_id = start_task(shared, agents["rows"], text)
    served = 0
    while state_and_text(shared.rpc(agents["rows"], "GetTask", {"id": task_id})["result"])[0] == "WORKING":
        assert state_and_text(shared.send(agents["standard"], "hello"))[0] == "COMPLETED"
        served += 1
        assert served < 1000
    state, why = state_and_text(ended_task(shared, agents["rows"], task_id))
    assert state == "FAILED"
    assert "task_bytes" in why


def test_a_reader_that_keeps_up_gets_every_note_with_ids_that_rise_by_one(
    shared: DaemonProcess, agents: dict[str, str]
) -> None:
    sent = {"message": {"role": "ROLE_USER", "parts": [{"text": "1500"}]}}
    frames = list(shared.stream(agents["count"], "SendStreamingMessage", sent))

    ids = [number for number, _ in frames]
    assert all(later == earlier + 1 for earlier, later in pairwise(ids))
    updates = [envelope["result"].get("statusUpdate", {}) for _, envelope in frames]
    notes = [text for update in updates if update and (text := state_and_text(update)[1])]
    assert notes == [str(number) for number in range(1500)]


def test_a_question_that_its_executor_gives_up_is_passed_over(shared: DaemonProcess, agents: dict[str, str]) -> None:
    task_id = start_task(shared, agents["givesup"], "go")
    task = ended_task(shared, agents["givesup"], task_id)
    assert state_and_text(task)[0] == "COMPLETED"
    assert text_of(task) == "0 1 2 done"


def test_asking_behind_the_runs_back_fails_the_task_and_gives_the_slot_back(
    shared: DaemonProcess, agents: dict[str, str]
) -> None:
    for _ in range(4):  # more than there are slots
        state, text = _send(shared, agents["asksbehind"], "go")
        if state == "INPUT_REQUIRED":  # for the moment, until it yields
            state, text = state_and_text(ended_task(shared, agents["asksbehind"], _newest(shared)))
        assert (state, bool(text)) == ("FAILED", True)


def test_a_question_that_nobody_awaits_ends_with_its_run(shared: DaemonProcess, agents: dict[str, str]) -> None:
    for _ in range(4):
        task_id = start_task(shared, agents["asksbehind"], "INPUT only")
        assert state_and_text(ended_task(shared, agents["asksbehind"], task_id))[0] in {"COMPLETED", "FAILED"}


def _newest(daemon: DaemonProcess) -> str:
    return str(daemon.read("?taskLimit=1")["tasks"][0]["id"])


@pytest.mark.parametrize("text", ["sleep", "artifact", *KINDS])
def test_after_a_reply_nothing_counts_and_the_slot_comes_back(
    shared: DaemonProcess, agents: dict[str, str], text: str
) -> None:
    for _ in range(3):  # more than there are slots
        params = {"message": {"role": "ROLE_USER", "parts": [{"text": text}]}}
        answer = shared.rpc(agents["replies"], "SendMessage", params)["result"]
        assert answer["message"]["parts"] == [{"text": f"re: {text}"}]
    assert shared.rpc(agents["replies"], "ListTasks", {})["result"]["totalSize"] == 0


NOTES = f"""{HEAD}
class Notes(Executor):
    can_resume = True

    async def execute(self, request):
        number = 0
        while True:
            number += 1
            yield Status(TaskState.WORKING, f"{{request.resumed}} {{number}}")
            if number > 700:
                await asyncio.sleep(0.01)


@hookimpl
def a2ad_register_executors(register): register("notes", Notes())
@hookimpl
def a2ad_register_presets(register): register("notes", {{"skills": [{{"id": "chat", "executor": "notes"}}]}})
"""


def test_no_frame_id_is_used_again_after_a_kill_in_the_middle_of_many_notes(launch: Launch) -> None:
    daemon = launch(plugin=NOTES, config=LIMITS)
    inbound = daemon.create_inbound(preset="notes")
    seen: dict[int, str] = {}
    task_id = ""
    for life in range(3):
        if life == 0:
            params: Any = {"message": {"role": "ROLE_USER", "parts": [{"text": "go"}]}}
            stream = daemon.stream(inbound, "SendStreamingMessage", params)
        else:
            last = {"Last-Event-ID": str(max(seen))}
            stream = daemon.stream(inbound, "SubscribeToTask", {"id": task_id}, headers=last)
        count = 0
        for number, envelope in stream:
            if "task" in envelope["result"]:
                task_id = envelope["result"]["task"]["id"]
                continue
            assert number is not None
            text = state_and_text(envelope["result"]["statusUpdate"])[1]
            assert number not in seen, (life, number, text, seen[number])
            seen[number] = text
            count += 1
            if count == 750:
                break
        assert count == 750
        daemon.kill()
        stream.close()  # type: ignore[attr-defined]
        if life < 2:
            daemon = launch(plugin=NOTES, config=LIMITS)


# its end

ENDS = f"""{HEAD}
class Threads(Executor):
    async def execute(self, request):
        if request.text == "left behind":
            threading.Thread(target=time.sleep, args=(600,)).start()
            asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
        yield Artifact(parts=[{{"text": "begun"}}])
        if request.text == "awaited":
            await asyncio.to_thread(time.sleep, 600)
        if request.text == "time.sleep":
            time.sleep(60)
        if request.text == "lock":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        if request.text == "busy":
            while True: pass


class Stuck(Executor):
    def execute(self, request):
        yield Artifact(parts=[{{"text": "begun"}}])
        threading.Event().wait()


ALL = {{"threads": Threads, "stuck": Stuck}}
@hookimpl
def a2ad_register_executors(register):
    for name, kind in ALL.items(): register(name, kind())
@hookimpl
def a2ad_register_presets(register):
    for name in ALL: register(name, {{"skills": [{{"id": "chat", "executor": name}}]}})
"""


@pytest.mark.parametrize("kind", [*KINDS, "unshowable exit"])
def test_what_start_up_and_shutdown_hooks_and_closing_executors_raise_changes_nothing(
    launch: Launch, kind: str
) -> None:
    text = HEAD.replace("sys.exit(7)", "sys.exit(Untellable())") if kind == "unshowable exit" else HEAD
    kind = "SystemExit" if kind == "unshowable exit" else kind
    sync = f"""{text}
class Closes(Executor):
    async def execute(self, request):
        asyncio.get_running_loop().call_soon(blow, "{kind}")
        await asyncio.sleep(0.01)
        yield Artifact(parts=[{{"text": "ok"}}])
    async def close(self): blow("{kind}")
class ClosesLater(Closes):
    async def close(self):
        self.kept = asyncio.create_task(blow_later("{kind}"))
        await blow_later("{kind}")
@hookimpl
def a2ad_register_executors(register): register("closes", Closes()); register("later", ClosesLater())
@hookimpl
def a2ad_register_presets(register): register("closes", {{"skills": [{{"id": "chat", "executor": "closes"}}]}})
@hookimpl
def a2ad_startup(daemon): blow("{kind}")
@hookimpl
def a2ad_shutdown(daemon): blow("{kind}")
"""
    other = f"""{text}
@hookimpl
async def a2ad_startup(daemon):
    daemon.kept = None
    await blow_later("{kind}")
@hookimpl
async def a2ad_shutdown(daemon):
    asyncio.get_running_loop().call_soon(blow, "{kind}")
    await blow_later("{kind}")
"""
    daemon = launch(plugin={"a": sync, "b": other}, config=LIMITS)
    inbound = daemon.create_inbound(preset="closes")
    assert state_and_text(daemon.send(inbound, "hello"))[0] == "COMPLETED"

    assert daemon.terminate() == 0, daemon.log()[-3000:]
    assert "daemon.stopped" in daemon.log()


def test_threads_that_plugins_leave_behind_are_few_and_do_not_keep_the_process(launch: Launch) -> None:
    daemon = launch(plugin=ENDS, config=f"{LIMITS}runs = 6\nruns_per_inbound = 6\n")
    stuck, others = daemon.create_inbound(preset="stuck"), daemon.create_inbound(preset="standard")
    leaves = daemon.create_inbound(preset="threads")
    before = threads(daemon)
    states = []
    for _ in range(40):
        task_id = start_task(daemon, stuck, "go")
        daemon.rpc(stuck, "CancelTask", {"id": task_id})
        states.append(state_and_text(ended_task(daemon, stuck, task_id))[0])
    assert states[:6] == ["CANCELED"] * 6
    assert set(states[6:]) <= {"CANCELED", "FAILED"}
    assert threads(daemon) - before <= 6 + 10  # its own pool may have grown meanwhile
    assert state_and_text(daemon.send(others, "hello"))[0] == "COMPLETED"

    assert state_and_text(daemon.send(leaves, "left behind"))[0] == "COMPLETED"
    awaited = start_task(daemon, leaves, "awaited")
    await_state(daemon, awaited, "WORKING")
    assert daemon.terminate() == 0


@pytest.mark.parametrize("how", ["time.sleep", "lock", "busy"])
def test_where_an_executor_holds_up_the_loop_the_second_signal_ends_the_process(launch: Launch, how: str) -> None:
    daemon = launch(plugin=ENDS, config=LIMITS)
    inbound = daemon.create_inbound(preset="threads")
    stuck = Background(daemon.send, inbound, how)
    until(lambda: "run.blocks_the_loop" in daemon.log(), "the executor holds up the loop")

    daemon.process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        daemon.process.wait(0.3)
    daemon.process.send_signal(signal.SIGTERM)

    assert daemon.process.wait(10) == 128 + signal.SIGTERM
    assert stuck.error() is not None


def test_hooks_that_sleep_at_the_end_share_one_bound(launch: Launch, tmp_path: Path) -> None:
    sleepers = {
        f"sleeps_{number}": f"{HEAD}\n@hookimpl\n" + body
        for number, body in enumerate(
            [
                "async def a2ad_shutdown(daemon): await asyncio.sleep(600)",
                "def a2ad_shutdown(daemon): time.sleep(600)",
                "async def a2ad_shutdown(daemon):\n    while True:\n        try: await asyncio.sleep(600)\n"
                "        except BaseException: pass",
            ]
            * 3
        )
    }
    # added up they would take 27 s, and past 9 s the process is ended with another status
    daemon = launch(plugin=sleepers, config="[limits]\ngate_seconds = 3\nshutdown_seconds = 1\n")
    assert daemon.terminate(60) == 0, daemon.log()[-2000:]
    assert "daemon.stopped" in daemon.log()
