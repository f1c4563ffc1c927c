"""`GET /a2a/api/metrics`: figures that add up after known traffic, and the forms in which they are given."""

import http.client
import json
import re
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import Background, await_state, start_task, until
from tests.e2e.outbound_support import connect
from tests.lab import exchange

ROOT = Path(__file__).parents[2]
SECRET = "s3cr3t-of-the-inbound"
#: limits that only who comes through the trusted proxy can meet
CONFIG = '[server]\ntrusted_proxies = ["127.0.0.1"]\n[limits]\nrequests_per_minute = 3\n'
HOSTILE = 'a"b\\c\n{d="e"} # HELP ' + "x" * 500
PLUGIN = f"""
import asyncio
from pathlib import Path

from a2ad import (Agent, AgentSession, Artifact, Deny, Executor, InputRequired, TaskFailed, TextDelta, hookimpl)


class Traffic(Executor):
    async def execute(self, request):
        word, _, rest = request.text.partition(" ")
        if word == "fail":
            raise TaskFailed("the disk is full")
        if word == "raise":
            raise ValueError("a bug")
        if word == "ask":
            raise InputRequired("which one?")
        for number in range(3):
            yield Artifact(parts=[{{"text": f"{{number}} {{rest}}"}}], append=True)
        if word == "wait":
            while not Path(rest).exists():
                await asyncio.sleep(0.01)


class Session(AgentSession):
    async def prompt(self, parts, attachments):
        yield TextDelta("about to fail")
        raise ValueError("a bug of the agent")


class Faulty(Agent):
    async def open(self, context):
        return Session()


@hookimpl
def a2ad_register_executors(register):
    register("traffic", Traffic())


@hookimpl
def a2ad_register_agents(register):
    register("faulty", lambda preset: Faulty())


@hookimpl
def a2ad_register_presets(register):
    skills = [{{"id": "chat", "executor": "traffic"}}, {{"id": {HOSTILE!r}, "executor": "traffic"}}]
    register("traffic", {{"skills": skills}})
    register("faulty", {{"agent": "faulty"}})


@hookimpl
def a2ad_inbound_task(decision):
    return Deny("not that") if decision.text == "deny" else None
"""
OBSERVER = """
from a2ad import hookimpl


@hookimpl
def a2ad_event(event):
    if event.name == "auth.failed":
        raise RuntimeError("it does not like failures")
"""


def scrape(daemon: DaemonProcess, accept: str | None = "text/plain") -> tuple[int, str, str]:
    """Status, content type and text of the answer to this `Accept`."""
    address = urlsplit(daemon.control)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    try:
        connection.request("GET", "/a2a/api/metrics", headers={} if accept is None else {"Accept": accept})
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The value of each series, by name and labels."""
    found = {}
    for family in parse_prometheus(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


class Figures:
    def __init__(self, daemon: DaemonProcess) -> None:
        self.text = scrape(daemon)[2]
        self._found = samples(self.text)

    def __call__(self, name: str, **labels: str) -> float:
        return self._found[name, frozenset(labels.items())]

    def by(self, name: str, label: str) -> dict[str, float]:
        """The series of a name that are not 0, by one of their labels."""
        return {dict(labels)[label]: value for (found, labels), value in self._found.items() if found == name and value}


class Driven(NamedTuple):
    """A daemon, and what it said as text and as JSON after known traffic."""

    daemon: DaemonProcess
    figures: Figures
    reading: dict[str, Any]


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    folder = tmp_path_factory.mktemp("metrics")
    plugins = {"traffic": PLUGIN, "observer": OBSERVER, "broken": "import nonesuch_module\n"}
    daemon = DaemonProcess(folder, plugin=plugins, config=CONFIG)
    try:
        daemon.await_control()
        drive(daemon, folder)
        yield Driven(daemon, Figures(daemon), daemon.read("/metrics"))
        assert daemon.terminate() == 0
    finally:
        daemon.kill()


@pytest.fixture
def busy(driven: Driven) -> DaemonProcess:
    return driven.daemon


def drive(daemon: DaemonProcess, folder: Path) -> None:
    inbound = daemon.create_inbound(preset="traffic")
    for _ in range(4):
        daemon.send(inbound, "say it")
    daemon.send(inbound, "say it", metadata={"skill": HOSTILE})
    daemon.send(inbound, "fail")
    daemon.send(inbound, "raise")
    assert daemon.send(inbound, "deny")["status"]["state"] == "TASK_STATE_REJECTED"
    assert daemon.send(inbound, "ask")["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    waiting = start_task(daemon, inbound, f"wait {folder / 'never'}")
    until(lambda: daemon.read(f"/task?id={waiting}")["artifacts"], "it has begun to speak")
    daemon.act("task.cancel", id=waiting)
    assert len(list(daemon.stream(inbound, "SendStreamingMessage", {"message": message("say it")}))) > 3
    faulty = daemon.create_inbound(preset="faulty")
    assert daemon.send(faulty, "hello")["status"]["state"] == "TASK_STATE_FAILED"

    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).encode()
    daemon.act("inbound.setAuth", id=faulty, token=SECRET)
    for token in ("Bearer wrong-token", "", f"Bearer {SECRET}"):
        exchange(daemon.endpoint(faulty), body=call, headers={"Authorization": token} if token else {})
    statuses = [
        exchange(daemon.endpoint(inbound), body=call, headers={"X-Forwarded-For": "203.0.113.5"}).status
        for _ in range(5)
    ]
    assert statuses == [200, 200, 200, 429, 429]

    remote = connect(daemon, daemon.endpoint(inbound), name="self")
    daemon.act("outbound.call", id=remote, text="say it")
    daemon.act("outbound.call", id=remote, text="fail", status=409)
    (folder / "other").mkdir()
    other = DaemonProcess(folder / "other")
    away = connect(daemon, other.endpoint(other.create_inbound()), name="away")
    other.kill()
    daemon.act("outbound.call", id=away, text="hello", status=409)
    until(lambda: daemon.read("/metrics")["pluginErrors"]["observer"] == 2, "the observer has failed")


def test_tasks_add_up_by_state_and_by_skill(driven: Driven) -> None:
    figures = driven.figures

    # 4 + 1 + the stream + the outbound call; fail + raise + the agent + the outbound call
    states = {"completed": 7, "failed": 4, "canceled": 1, "rejected": 1, "input_required": 1}
    assert figures.by("a2ad_tasks", "state") == states
    hostile = HOSTILE[:100]
    assert figures.by("a2ad_tasks_started_total", "skill") == {"chat": 13, hostile: 1}
    assert figures("a2ad_tasks_ended_total", skill=hostile, state="completed") == 1
    for state, count in {"completed": 6, "failed": 4, "canceled": 1, "rejected": 1}.items():
        assert figures("a2ad_tasks_ended_total", skill="chat", state=state) == count
        assert figures("a2ad_task_duration_seconds_count", state=state) == states[state]
    assert figures("a2ad_task_duration_seconds_bucket", state="completed", le="+Inf") == 7
    # all that completed, the one that was canceled, and the agent that began to speak
    assert figures("a2ad_task_first_artifact_seconds_count") == 9
    assert figures("a2ad_runs_started_total") == 13
    assert (figures("a2ad_runs"), figures("a2ad_queued_tasks"), figures("a2ad_queued_tasks_limit")) == (0, 0, 1000)


def test_the_history_has_sixty_minutes_and_all_that_began_and_ended(driven: Driven) -> None:
    history = driven.reading["history"]

    assert len(history) == 60
    starts = [datetime.fromisoformat(row["at"]).timestamp() for row in history]
    assert starts == [starts[0] + 60 * n for n in range(60)]
    assert starts[0] % 60 == 0
    sums = {key: sum(row[key] for row in history) for key in history[0] if key != "at"}
    assert sums == {"started": 14, "completed": 7, "failed": 4, "canceled": 1, "rejected": 1}
    assert list(history[0]) == ["at", "started", "completed", "failed", "canceled", "rejected"]


def test_refusals_calls_and_plugin_errors_add_up(driven: Driven) -> None:
    figures = driven.figures

    assert figures("a2ad_authentication_failures_total") == 2
    assert figures("a2ad_rate_limited_requests_total") == 2
    assert figures.by("a2ad_outbound_calls_total", "result") == {"completed": 1, "failed": 1, "away": 1}
    assert figures("a2ad_outbound_calls_in_progress") == 0
    # the executor that raised, the agent that did; the observer, twice; the one that could not be loaded
    assert figures.by("a2ad_plugin_errors_total", "plugin") == {"traffic": 2, "observer": 2, "broken": 1}
    assert figures("a2ad_plugin_errors_total", plugin="a2ad") == 0


def test_what_streams_sent_and_the_store_wrote_adds_up(busy: DaemonProcess) -> None:
    before = Figures(busy)
    inbound = next(row["id"] for row in busy.read("")["inbounds"] if row["preset"] == "traffic")
    frames = list(busy.stream(inbound, "SendStreamingMessage", {"message": message("say it")}))
    after = Figures(busy)

    def grown(name: str) -> float:
        return after(name) - before(name)

    assert grown("a2ad_streams_opened_total") == 1
    assert grown("a2ad_stream_sent_frames_total") == len(frames)
    assert grown("a2ad_stream_sent_bytes_total") > len(
        json.dumps([frame for _, frame in frames], separators=(",", ":"))
    )
    # the task with its message, and its end; what the policy said
    assert grown("a2ad_store_commit_operations_sum") >= 3
    assert 0 < grown("a2ad_store_commit_duration_seconds_count") <= grown("a2ad_store_commit_operations_sum")
    assert grown("a2ad_store_commit_operations_count") == grown("a2ad_store_commit_duration_seconds_count")
    assert (after("a2ad_store_commit_failures_total"), after("a2ad_store_writable")) == (0, 1)
    assert after("a2ad_streams") == 0
    grows = until(lambda: Figures(busy)("a2ad_event_loop_lag_seconds_count") > 1, "the loop is looked at")
    assert grows


def test_the_process_is_described(busy: DaemonProcess) -> None:
    figures = Figures(busy)
    process = Path(f"/proc/{busy.process.pid}")

    assert figures("process_cpu_seconds_total") > 0
    assert figures("process_resident_memory_bytes") > 1 << 20
    assert abs(figures("process_open_fds") - len(list((process / "fd").iterdir()))) < 20
    assert figures("process_open_fds") < figures("process_max_fds")
    assert abs(figures("process_start_time_seconds") - process.stat().st_ctime) < 120


def test_the_text_has_a_help_and_a_type_for_each_metric_and_json_says_the_same(busy: DaemonProcess) -> None:
    text, reading = scrape(busy)[2], busy.read("/metrics")
    families = list(parse_prometheus(text))

    assert all(family.documentation and family.type != "unknown" for family in families)
    assert len({family.name for family in families}) == len(families)
    sent = {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}
    assert sent["a2ad_stream_sent_frames_total"] == reading["sent"]["frames"]
    assert sent["a2ad_rate_limited_requests_total"] == reading["refused"]["rateLimit"]
    assert sum(reading["tasks"].values()) == sum(samples(text)[key] for key in samples(text) if key[0] == "a2ad_tasks")


def test_openmetrics_says_the_same_and_reads_as_such(busy: DaemonProcess) -> None:
    status, content_type, text = scrape(busy, "application/openmetrics-text")

    assert (status, content_type) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert text.endswith("# EOF\n")
    families = {family.name: family for family in parse_openmetrics(text)}
    assert families["a2ad_build"].type == "info"
    assert families["a2ad_task_duration_seconds"].unit == "seconds"
    assert families["a2ad_stream_sent_bytes"].unit == "bytes"
    assert {family.name.removesuffix("_info") for family in parse_prometheus(scrape(busy)[2])} == set(families)


JSON = "application/json"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("application/json, text/plain, */*", JSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("text/plain", TEXT),
        ("TEXT/Plain; Version=0.0.4", TEXT),
        ("text/*", TEXT),
        ("application/json;q=0.5, text/plain", TEXT),
        ("application/json;q=0.5, text/plain;q=0.4", JSON),
        ("text/plain;q=0.9, */*;q=0.1", TEXT),
        ("*/*, application/json;q=0", OPEN),
        ("application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", TEXT),
        (PROMETHEUS_3, OPEN),
        ("text/plain;version=0.0.4;q=1;x=y, application/json;q=0.1", TEXT),
        ("text/plain;q=nan, application/json;q=0.5", TEXT),
        ("text/plain;q=7, application/json;q=0.5", TEXT),
        (",;;q=,=,/", None),
        ("image/png", None),
        ("text/plain;q=0", None),
        ("text/plain;version=9", None),
    ],
)
def test_the_form_is_the_one_that_accept_wants_most(busy: DaemonProcess, accept: str | None, given: str | None) -> None:
    status, content_type, text = scrape(busy, accept)

    if given is None:
        assert (status, content_type.partition(";")[0]) == (406, JSON)
        assert json.loads(text)["ok"] is False
    else:
        assert (status, content_type) == (200, given)


def test_no_label_has_what_a_client_could_choose(busy: DaemonProcess) -> None:
    before = samples(scrape(busy)[2]).keys()
    inbound = next(row["id"] for row in busy.read("")["inbounds"] if row["preset"] == "traffic")
    for number in range(20):
        word = f"chosen-{number}"
        params = {"message": message(word, contextId=word, messageId=word, metadata={"skill": word})}
        busy.rpc(inbound, "SendMessage", params, headers={"Authorization": f"Bearer {word}", "User-Agent": word})
        busy.send(inbound, "say it", contextId=word, metadata={word: word})
        busy.rpc(inbound, word, {})
        exchange(f"{busy.url}/{word}", "GET")
        busy.request("POST", busy.url + f"/a2a/{word}", {"jsonrpc": "2.0", "id": word, "method": word})
    text = scrape(busy)[2]

    assert samples(text).keys() == before
    assert "chosen" not in text
    for secret in (SECRET, "wrong-token", "203.0.113", "127.0.0.1", inbound):
        assert secret not in text
        assert secret not in json.dumps(busy.read("/metrics"))


def test_a_restart_begins_anew_but_tasks_by_state_are_there(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin=PLUGIN)
    try:
        inbound = daemon.create_inbound(preset="traffic")
        for text in ("say it", "say it", "fail", "ask"):
            daemon.send(inbound, text)
        daemon.restart()
        figures, history = Figures(daemon), daemon.read("/metrics")["history"]
        (asked,) = daemon.read("?taskState=TASK_STATE_INPUT_REQUIRED")["tasks"]
        daemon.act("task.cancel", id=asked["id"])
        again = Figures(daemon)
    finally:
        daemon.kill()

    assert figures.by("a2ad_tasks", "state") == {"completed": 2, "failed": 1, "input_required": 1}
    assert figures.by("a2ad_tasks_started_total", "skill") == {}
    assert figures.by("a2ad_tasks_ended_total", "skill") == {}
    assert figures("a2ad_task_duration_seconds_count", state="completed") == 0
    assert all(row["started"] == row["completed"] == 0 for row in history)
    # what an earlier process began ends in this one, and does not begin
    assert again.by("a2ad_tasks_started_total", "skill") == {}
    assert again("a2ad_tasks_ended_total", skill="chat", state="canceled") == 1


def test_a_database_that_is_locked_shows(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin=PLUGIN)
    try:
        inbound = daemon.create_inbound(preset="traffic")
        daemon.send(inbound, "say it")
        with sqlite3.connect(daemon.state_dir / "a2ad.db", isolation_level=None) as holder:
            holder.execute("BEGIN IMMEDIATE")
            sent = Background(daemon.rpc, inbound, "SendMessage", {"message": message("say it")})
            until(lambda: not Figures(daemon)("a2ad_store_writable"), "the daemon has noticed")
            away = Figures(daemon)
            holder.execute("ROLLBACK")
        holder.close()
        sent.result()
        until(lambda: Figures(daemon)("a2ad_store_writable"), "the database is back")
        assert away("a2ad_store_commit_failures_total") >= 1
        assert away.by("a2ad_tasks", "state") == {"completed": 1}
    finally:
        daemon.kill()


def test_runs_queue_and_streams_are_those_of_now(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, plugin=PLUGIN, config="[limits]\nruns = 2\nqueued = 7\n")
    try:
        inbound, gate = daemon.create_inbound(preset="traffic"), tmp_path / "gate"
        frames = daemon.stream(inbound, "SendStreamingMessage", {"message": message(f"wait {gate}")})
        next(frames)
        others = [start_task(daemon, inbound, f"wait {gate}") for _ in range(3)]
        figures = Figures(daemon)
        gate.touch()
        for task_id in others:
            await_state(daemon, task_id, "COMPLETED")
        list(frames)
    finally:
        daemon.kill()

    now = [figures(f"a2ad_{name}") for name in ("runs", "runs_limit", "queued_tasks", "queued_tasks_limit", "streams")]
    assert now == [2, 2, 2, 7, 1]
    assert figures.by("a2ad_tasks", "state") == {"working": 2, "submitted": 2}


def test_the_text_form_is_made_by_a_library_that_is_loaded_with_the_first_scrape_alone(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, env={"PYTHONVERBOSE": "1"})
    try:
        daemon.read("/metrics")
        before = daemon.log()
        scrape(daemon)
        after = daemon.log()
    finally:
        daemon.kill()

    assert "import 'prometheus_client" not in before
    assert "import 'prometheus_client" in after


def test_docs_list_every_metric_as_it_is(busy: DaemonProcess) -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (\w*) ?\| ([`\w, ]*?) ?\| (.+) \|$",
        (ROOT / "docs/metrics.md").read_text(),
        re.MULTILINE,
    )
    documented = {name: (kind, set(re.findall(r"\w+", labels))) for name, kind, _, labels, _ in rows}
    families = list(parse_prometheus(scrape(busy)[2]))
    given = {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for family in families
    }

    assert documented == given
    assert len(rows) == len(documented)
    for name, _, unit, _, _ in rows:
        named = next((unit for unit in ("seconds", "bytes") if f"_{unit}" in name), "")
        assert unit == named, name
