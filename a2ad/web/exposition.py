"""The figures as Prometheus reads them: each metric's name, type and meaning, and what it is of `Metrics.read`.

Names after Prometheus's advice: base units, `_total` for what only rises, `process_` for what every process has. No
label has values that a client could choose; `docs/metrics.md` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.registry import Collector, CollectorRegistry

from a2ad.model import TaskState

Reading: TypeAlias = Mapping[str, Any]
#: the values of the labels, and the value: for a histogram as JSON has it
Samples: TypeAlias = Iterable[tuple[tuple[str, ...], Any]]


class Family(NamedTuple):
    """One metric. `name` is without the ending that its type gives it."""

    name: str
    kind: Callable[..., Any]
    meaning: str
    samples: Callable[[Reading], Samples]
    labels: tuple[str, ...] = ()

    def collect(self, reading: Reading) -> Metric:
        unit = next((unit for unit in ("seconds", "bytes") if self.name.endswith(f"_{unit}")), "")
        family = self.kind(self.name, self.meaning, labels=self.labels, **({"unit": unit} if unit else {}))
        for labels, value in self.samples(reading):
            if self.kind is HistogramMetricFamily:
                buckets = [(repr(float(each["le"])), each["count"]) for each in value["buckets"]]
                family.add_metric(labels, [*buckets, ("+Inf", value["count"])], value["sum"])
            else:
                family.add_metric(labels, value)
        metric: Metric = family
        return metric


def _at(*path: str) -> Callable[[Reading], Samples]:
    """One value, where there is one."""

    def samples(reading: Reading) -> Samples:
        value: Any = reading
        for key in path:
            value = value.get(key)
        return [] if value is None else [((), value)]

    return samples


def _each(*path: str) -> Callable[[Reading], Samples]:
    """One value for each key, which is the label."""

    def samples(reading: Reading) -> Samples:
        for _, values in _at(*path)(reading):
            yield from (((key,), value) for key, value in values.items())

    return samples


def _tasks(reading: Reading) -> Samples:
    return [((TaskState(state).word,), count) for state, count in reading["tasks"].items()]


def _started(reading: Reading) -> Samples:
    return [((skill,), counts["started"]) for skill, counts in reading["skills"].items()]


def _ended(reading: Reading) -> Samples:
    return [
        ((skill, state), count)
        for skill, counts in reading["skills"].items()
        for state, count in counts.items()
        if state != "started"
    ]


def _build(reading: Reading) -> Samples:
    return [((), {"version": reading["version"], "python": reading["python"]})]


_COUNTER, _GAUGE, _HISTOGRAM = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
FAMILIES = (
    Family("a2ad_build", InfoMetricFamily, "The versions of a2ad and of Python.", _build),
    Family("a2ad_tasks", _GAUGE, "Tasks in the store, by state.", _tasks, ("state",)),
    Family("a2ad_tasks_in_memory", _GAUGE, "Tasks that are held in memory.", _at("tasksInMemory")),
    Family("a2ad_tasks_started", _COUNTER, "Tasks that were taken on, by skill.", _started, ("skill",)),
    Family("a2ad_tasks_ended", _COUNTER, "Tasks that ended, by skill and final state.", _ended, ("skill", "state")),
    Family("a2ad_task_duration_seconds", _HISTOGRAM, "From a task's first message to its end, by final state.",
           _each("taskSeconds"), ("state",)),
    Family("a2ad_task_first_artifact_seconds", _HISTOGRAM, "From a task's first message to its first artifact.",
           _at("firstArtifactSeconds")),
    Family("a2ad_queued_tasks", _GAUGE, "Tasks that wait for a run.", _at("queued")),
    Family("a2ad_queued_tasks_limit", _GAUGE, "Tasks that may wait for a run (limits.queued).", _at("queuedLimit")),
    Family("a2ad_runs", _GAUGE, "Runs that hold a slot.", _at("runs")),
    Family("a2ad_runs_limit", _GAUGE, "Runs that may hold a slot (limits.runs).", _at("runsLimit")),
    Family("a2ad_runs_started", _COUNTER, "Runs that began.", _at("runsStarted")),
    Family("a2ad_runs_abandoned", _GAUGE, "Runs that did not end when told to, and still go on.", _at("abandonedRuns")),
    Family("a2ad_streams", _GAUGE, "Streams that are open.", _at("streams")),
    Family("a2ad_streams_opened", _COUNTER, "Streams that were opened.", _at("sent", "streams")),
    Family("a2ad_stream_sent_frames", _COUNTER, "Frames that were sent on streams.", _at("sent", "frames")),
    Family("a2ad_stream_sent_bytes", _COUNTER, "Bytes of the frames that were sent on streams.", _at("sent", "bytes")),
    Family("a2ad_peers", _GAUGE, "A2A requests in progress, streams among them.", _at("peers")),
    Family("a2ad_sessions", _GAUGE, "Conversations of agents that are kept open.", _at("sessions")),
    Family("a2ad_inbounds", _GAUGE, "Published agents.", _at("inbounds")),
    Family("a2ad_outbounds", _GAUGE, "Connections to remote agents.", _at("outbounds")),
    Family("a2ad_plugins", _GAUGE, "Plugins that were found.", _at("plugins")),
    Family("a2ad_store_writable", _GAUGE, "1 where the last attempt to write the database worked, else 0.",
           _at("store", "ok")),
    Family("a2ad_store_commit_duration_seconds", _HISTOGRAM, "How long a transaction of the database took.",
           _at("store", "commitSeconds")),
    Family("a2ad_store_commit_operations", _HISTOGRAM, "How many writes a transaction made durable.",
           _at("store", "commitOperations")),
    Family("a2ad_store_commit_failures", _COUNTER, "Transactions that the database did not take.",
           _at("store", "failedCommits")),
    Family("a2ad_outbound_calls_in_progress", _GAUGE, "Calls of remote agents that go on.", _at("outboundCalls")),
    Family("a2ad_outbound_calls", _COUNTER, "Calls of remote agents that are over, by what became of them.",
           _each("outboundResults"), ("result",)),
    Family("a2ad_authentication_failures", _COUNTER, "A2A requests with a wrong token or none.",
           _at("refused", "authentication")),
    Family("a2ad_rate_limited_requests", _COUNTER, "A2A requests past limits.requests_per_minute.",
           _at("refused", "rateLimit")),
    Family("a2ad_plugin_errors", _COUNTER, "Failures of what a plugin brings, by plugin.",
           _each("pluginErrors"), ("plugin",)),
    Family("a2ad_event_loop_lag_seconds", _HISTOGRAM, "How late the event loop was, looked at four times a second.",
           _at("loopLagSeconds")),
    Family("process_cpu_seconds", _COUNTER, "Processor time that the process has used.", _at("process", "cpuSeconds")),
    Family("process_resident_memory_bytes", _GAUGE, "Memory of the process that is resident.",
           _at("process", "residentBytes")),
    Family("process_open_fds", _GAUGE, "File descriptors that are open.", _at("process", "openFds")),
    Family("process_max_fds", _GAUGE, "File descriptors that may be open.", _at("process", "maxFds")),
    Family("process_start_time_seconds", _GAUGE, "When the process began, in seconds since 1970.",
           _at("process", "startTime")),
)  # fmt: skip


_generate_openmetrics: Callable[[CollectorRegistry], bytes] = openmetrics_exposition.generate_latest


class _Collected(Collector):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        return (family.collect(self._reading) for family in FAMILIES)


def prometheus(reading: Reading) -> bytes:
    """As Prometheus's text format 0.0.4."""
    return generate_latest(_registry(reading))


def openmetrics(reading: Reading) -> bytes:
    """As OpenMetrics 1.0.0."""
    return _generate_openmetrics(_registry(reading))


def _registry(reading: Reading) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Collected(reading))
    return registry
