"""The daemon's figures (`protocol.md` 7): as JSON, or as Prometheus and OpenMetrics write them."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from aiohttp import web

from a2ad import __version__
from a2ad.config import Config
from a2ad.engine import Engine
from a2ad.errors import StoreUnavailable
from a2ad.executors.pool import SessionPool
from a2ad.figures import Figures
from a2ad.inbound import InboundRegistry
from a2ad.model import TaskState
from a2ad.outbound.registry import OutboundRegistry
from a2ad.plugins import PluginHost
from a2ad.web.accept import media_ranges, quality
from a2ad.web.peers import Peers
from a2ad.web.process import process_figures
from a2ad.web.sse import Streams

JSON = "application/json"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
#: content types, the one that is given where a client takes several alike first; and how they are asked for
FORMS = {
    JSON: ("application/json", {}),
    OPEN_METRICS: ("application/openmetrics-text", {"version": "1.0.0", "charset": "utf-8"}),
    PROMETHEUS: ("text/plain", {"version": "0.0.4", "charset": "utf-8"}),
}


def wanted_form(request: web.BaseRequest) -> str | None:
    """The content type of `FORMS` that the client wants most, None where it takes none of them."""
    ranges = media_ranges(request)
    wanted = {form: quality(ranges, *asked) for form, asked in FORMS.items()}
    best = max(wanted, key=wanted.__getitem__)
    return best if wanted[best] else None


class Metrics:
    """Reads everything, changes nothing. Tasks are counted by state over all that are stored, all else since start."""

    def __init__(
        self,
        config: Config,
        *,
        figures: Figures,
        engine: Engine,
        inbounds: InboundRegistry,
        host: PluginHost,
        outbounds: OutboundRegistry,
        pool: SessionPool,
        peers: Peers,
        streams: Streams,
    ) -> None:
        self._config = config
        self._figures = figures
        self._engine = engine
        self._inbounds = inbounds
        self._host = host
        self._outbounds = outbounds
        self._pool = pool
        self._peers = peers
        self._streams = streams
        self._started = time.monotonic()

    async def encoded(self, form: str) -> bytes:
        """The figures in one of `FORMS`."""
        if form == JSON:
            return orjson.dumps(await self.read())
        encode = await asyncio.to_thread(_encoder, form)
        return encode(await self.read())

    async def read(self) -> dict[str, Any]:
        """The body of `GET /a2a/api/metrics` as JSON: `docs/metrics.md`."""
        return {
            "version": __version__,
            "python": platform.python_version(),
            "uptimeSeconds": round(time.monotonic() - self._started, 3),
            "tasks": await self._stored_tasks(),
            **self._now(),
            **self._since_start(),
            "process": process_figures(),
        }

    async def _stored_tasks(self) -> dict[str, int]:
        """By state; nothing where the store cannot be read just now, which must not take all else away."""
        counts = {state.value: 0 for state in TaskState}
        try:
            for (_, state), n in (await self._engine.store.counts()).items():
                counts[state.value] += n
        except StoreUnavailable:
            return {}
        return counts

    def _now(self) -> dict[str, Any]:
        scheduler, limits = self._engine.scheduler, self._config.limits
        return {
            "tasksInMemory": len(self._engine.live),
            "runs": scheduler.running,
            "runsLimit": limits.runs,
            "queued": scheduler.queued,
            "queuedLimit": limits.queued,
            "abandonedRuns": len(self._engine.abandoned),
            "streams": len(self._streams),
            "peers": sum(1 for _ in self._peers),
            "sessions": sum(1 for _ in self._pool),
            "inbounds": len(self._inbounds),
            "outbounds": len(self._outbounds),
            "outboundCalls": sum(len(connection.calls) for connection in self._outbounds),
            "plugins": len(self._host.plugins),
        }

    def _since_start(self) -> dict[str, Any]:
        figures = self._figures
        tasks, commits = figures.tasks, figures.commits
        plugins = [plugin.name for plugin in self._host.plugins]
        return {
            "history": tasks.minutes.to_json(),
            "skills": tasks.skills(),
            "taskSeconds": {state.word: histogram.to_json() for state, histogram in tasks.seconds.items()},
            "firstArtifactSeconds": tasks.first_artifact.to_json(),
            "runsStarted": figures.runs,
            "sent": {"streams": figures.streams, "frames": figures.frames, "bytes": figures.bytes},
            "store": {
                "ok": self._engine.store.health.error is None,
                "commitSeconds": commits.seconds.to_json(),
                "commitOperations": commits.operations.to_json(),
                "failedCommits": commits.failures,
            },
            "outboundResults": figures.outbound_calls.to_json(),
            "refused": {"authentication": figures.authentication_failures, "rateLimit": figures.rate_limited},
            "pluginErrors": self._host.errors.to_json(plugins),
            "loopLagSeconds": figures.loop_lag.to_json(),
        }


def _encoder(form: str) -> Callable[[Mapping[str, Any]], bytes]:
    """Only who asks for text pays for the library that writes it: its import takes long enough to be noticed."""
    from a2ad.web import exposition  # noqa: PLC0415

    return exposition.openmetrics if form == OPEN_METRICS else exposition.prometheus
