"""Everything that is put together, on one page: the composition root.

Two listeners may share one daemon, so its life cycle is a context manager of its own and not an application's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from a2ad.audit import Audit
from a2ad.builtin import check_store_scheme, load_plugins
from a2ad.config import Config
from a2ad.engine import Engine
from a2ad.errors import StartupError, StoreRefused, StoreUnavailable
from a2ad.executors.tools import SessionTools
from a2ad.figures import Figures
from a2ad.inbound import InboundRegistry
from a2ad.outbound.net import Net
from a2ad.outbound.registry import OutboundRegistry
from a2ad.plugins import PluginHost
from a2ad.retention import keep_retention
from a2ad.store import Store, StoreSettings
from a2ad.store.sqlite import open_sqlite
from a2ad.web.a2a import A2AEndpoint
from a2ad.web.actions import Actions
from a2ad.web.control import BASE, ControlApi
from a2ad.web.follow import Follow
from a2ad.web.guard import route_path
from a2ad.web.metrics import Metrics
from a2ad.web.outbound import OutboundActions
from a2ad.web.panel import Panel
from a2ad.web.peers import Peers
from a2ad.web.snapshot import Snapshots
from a2ad.web.sse import Streams

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that has started. This is what `a2ad_startup` and `a2ad_shutdown` get."""

    config: Config
    host: PluginHost
    store: Store
    engine: Engine
    inbounds: InboundRegistry
    outbounds: OutboundRegistry
    endpoint: A2AEndpoint
    control: ControlApi
    panel: Panel
    streams: Streams

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """What A2A clients reach, and what the operator does, where the two share a listener."""
        path = route_path(request)
        if self.panel.answers(request, path):
            return await self.panel.handle(request)
        if path == BASE or path.startswith(f"{BASE}/"):
            return await self.control.handle(request)
        return await self.endpoint.handle(request)

    async def operate(self, request: web.BaseRequest) -> web.StreamResponse:
        """The control API and its panel: all there is on a listener of their own."""
        if self.panel.answers(request, route_path(request)):
            return await self.panel.handle(request)
        return await self.control.handle(request)


@asynccontextmanager
async def start(config: Config, *, listen_url: str, control_url: str) -> AsyncIterator[Daemon]:
    """Open the store, load the plugins, settle what was left behind; on leaving, end it all in order.

    `listen_url` is where A2A clients reach it, as far as this machine can tell, `control_url` where the control API
    is: the same where they share a listener. Raises `StartupError`, `ConfigError`.
    """
    control_apart = control_url != listen_url
    async with AsyncExitStack() as stack:
        host, pool = load_plugins(config)
        host.check_presets()
        figures = Figures()
        figures.tasks.declare(skill.id for preset in host.presets.values() for skill in preset.skills)
        stack.push_async_callback(host.close)

        pool.store = store = await _open_store(config, host, figures)
        stack.push_async_callback(store.close)
        inbounds = InboundRegistry(store, host, config.a2a.default_inbound)
        with _store_needed():
            await inbounds.load()

        audit = Audit(store, host)
        engine = Engine(
            store=store,
            host=host,
            audit=audit,
            figures=figures,
            limits=config.limits,
            state_dir=config.state_dir,
            replay_frames=config.a2a.replay_frames,
        )
        outbounds = OutboundRegistry(
            store=store,
            host=host,
            audit=audit,
            figures=figures,
            net=Net(_own_ports(listen_url, control_url)),
            state_dir=config.state_dir,
        )
        with _store_needed():
            await outbounds.load()
        stack.push_async_callback(outbounds.close)
        pool.tools = tools = SessionTools(pool=pool, engine=engine, outbounds=outbounds, control_url=control_url)
        peers = Peers()
        streams = Streams(
            peers, figures, keepalive_seconds=config.a2a.keepalive_seconds, a2a_dialect=config.a2a.dialect == "a2a"
        )
        endpoint = A2AEndpoint(
            config,
            engine=engine,
            inbounds=inbounds,
            host=host,
            audit=audit,
            figures=figures,
            peers=peers,
            streams=streams,
        )
        control = ControlApi(
            config,
            actions=Actions(engine=engine, inbounds=inbounds, pool=pool, peers=peers),
            outbound=OutboundActions(outbounds, tools),
            snapshots=Snapshots(
                config,
                engine=engine,
                inbounds=inbounds,
                host=host,
                outbounds=outbounds,
                pool=pool,
                peers=peers,
            ),
            metrics=Metrics(
                config,
                figures=figures,
                engine=engine,
                inbounds=inbounds,
                host=host,
                outbounds=outbounds,
                pool=pool,
                peers=peers,
                streams=streams,
            ),
            inbounds=inbounds,
            host=host,
            audit=audit,
            base_url=(lambda _: config.server.public_url or listen_url) if control_apart else endpoint.base_url,
            card_at=endpoint.card_at,
            follow=Follow(engine, streams),
        )
        panel = Panel(config.server.allowed_hosts)
        daemon = Daemon(config, host, store, engine, inbounds, outbounds, endpoint, control, panel, streams)
        with _store_needed():
            await engine.start(inbounds)
        streams.start()
        stack.callback(streams.stop)
        outbounds.start()
        retention = asyncio.create_task(keep_retention(engine, config.store.retention_days))
        stack.callback(retention.cancel)
        yield daemon


@contextmanager
def _store_needed() -> Iterator[None]:
    """What the store cannot give now, the daemon cannot start without."""
    try:
        yield
    except (StoreUnavailable, StoreRefused) as error:
        raise StartupError(f"the database cannot be used: {error}") from None


def _own_ports(listen_url: str, control_url: str) -> dict[int, bool]:
    """The ports of this daemon, and whether one is the control API's alone."""
    ports = {urlsplit(listen_url).port or 0: False}
    if control_url != listen_url:
        ports[urlsplit(control_url).port or 0] = True
    return ports


async def _open_store(config: Config, host: PluginHost, figures: Figures) -> Store:
    settings = StoreSettings(
        url=config.store.url,
        state_dir=config.state_dir,
        synchronous=config.store.synchronous,
        replay_frames=config.a2a.replay_frames,
        commits=figures.commits,
    )
    scheme = check_store_scheme(config, host)
    if scheme == "sqlite":
        return await open_sqlite(settings)
    try:
        opened: Store = await host.stores[scheme](settings)
    except StartupError:
        raise
    except Exception as error:
        log.exception("store.open_failed", scheme=scheme)
        raise StartupError(f"the store for the scheme {scheme!r} cannot be opened: {error}") from None
    return opened
