"""The daemon as a process: its lock, its sockets, its signals, and an end within bounds."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import structlog
from aiohttp import web

from a2ad.config import Address, Config
from a2ad.config.values import PANEL_PATH, THIS_MACHINE
from a2ad.daemon import Daemon, start
from a2ad.errors import ActionFailed, StartupError
from a2ad.memory import keep_low
from a2ad.web.server import HttpServer
from a2ad.web.sse import SEND_SECONDS

BACKLOG = 1024
#: an idle connection is closed after this many seconds
KEEPALIVE_SECONDS = 75
#: what is left of the connections when everything else has ended
CONNECTION_SECONDS = 2.0
#: how much longer than `limits.shutdown_seconds` the end may take, in seconds
OVERTIME_SECONDS = 8.0
DEMO = "demo"

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

log = structlog.get_logger()


@contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """Hold the state directory, made where it is not there. Raises `StartupError` where another daemon has it."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartupError(f"the state directory {state_dir} cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StartupError(f"another daemon holds the state directory {state_dir}") from None
        yield
    finally:
        os.close(descriptor)


def bind(address: Address) -> socket.socket:
    """A socket that is bound, and listens once the daemon is ready. Raises `StartupError`."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise StartupError(f"cannot listen on {address}: {error.strerror or error}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT") and family in {socket.AF_INET, socket.AF_INET6}:
            # its connections inherit it: the kernel ends one whose client takes nothing of what was sent
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SEND_SECONDS * 1000)
        sock.bind(where)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise StartupError(f"cannot listen on {address}: {error.strerror or error}") from None
    return sock


def url_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://{Address(host, port)}"


def reached_at(sock: socket.socket) -> str:
    """Where it is reached from this machine: also where it listens on every address."""
    host, port = sock.getsockname()[:2]
    return f"http://{Address(THIS_MACHINE.get(host, host), port)}"


async def serve(config: Config, *, demo: bool, announce: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT. `announce` gets the lines for the one who started it.

    What does not heed its end is left behind: the process has to be ended then. Raises `StartupError`, `ConfigError`.
    """
    stop = _stop_signals(config.limits.shutdown_seconds + OVERTIME_SECONDS)
    control_address = config.control_address()
    sockets = [bind(config.listen_address())]
    runners: list[web.ServerRunner] = []
    trimming = asyncio.create_task(keep_low())
    try:
        listen_url = reached_at(sockets[0])
        if control_address is not None:
            sockets.append(bind(control_address))
        shared = control_address is None
        async with start(config, listen_url=listen_url, control_url=reached_at(sockets[-1])) as daemon:
            runners.append(await _listen(daemon.answer if shared else daemon.endpoint.handle, sockets[0]))
            if not shared:
                runners.append(await _listen(daemon.operate, sockets[1]))
            await _ready(daemon, sockets, announce, demo=demo)
            number = await stop
            log.info("daemon.stopping", signal=signal.Signals(number).name, runs=daemon.engine.scheduler.running)
            await _stop(daemon, runners)
        log.info("daemon.stopped")
    finally:
        trimming.cancel()
        for sock in sockets:
            sock.close()


async def _ready(daemon: Daemon, sockets: list[socket.socket], announce: Callable[[str], None], *, demo: bool) -> None:
    announce(f"a2ad listening on {url_of(sockets[0])}")
    for sock in sockets[1:]:
        announce(f"a2ad control on {url_of(sock)}")
    panel = f"{reached_at(sockets[-1])}{PANEL_PATH}/"
    log.info("daemon.ready", panel=panel)
    if demo:
        await _demo(daemon, url_of(sockets[0]), announce)
        announce(f"Or in a browser on this machine: {panel}")
    await daemon.host.startup(daemon)


async def _stop(daemon: Daemon, runners: list[web.ServerRunner]) -> None:
    """No new connections and no new work; streams told, runs ended or settled; then the connections closed."""
    for runner in runners:
        for site in list(runner.sites):
            await site.stop()
    await asyncio.gather(daemon.host.shutdown(daemon), daemon.engine.stop())
    daemon.control.stop()
    await asyncio.gather(*(runner.cleanup() for runner in runners))


def _stop_signals(seconds: float) -> asyncio.Future[int]:
    """The first signal asks for an end in order; the second one ends the process as it is, and so does a thread once
    the end takes longer than `seconds`.

    The handlers are Python's, not the loop's: they run where a plugin holds up the loop, too.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()
    signals: list[int] = []

    def on_signal(number: int, _frame: object) -> None:
        signals.append(number)
        if len(signals) > 1:
            _end_now(128 + number)
        loop.call_soon_threadsafe(stop.set_result, number)
        overtime = threading.Timer(seconds, _end_now, (1,))
        overtime.daemon = True
        overtime.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop


def _end_now(status: int) -> None:
    """What is not settled is settled at the next start."""
    os.write(2, b"a2ad: ended before everything had stopped\n")
    os._exit(status)


async def _listen(handler: Handler, sock: socket.socket) -> web.ServerRunner:
    server = HttpServer(handler, access_log=None, keepalive_timeout=KEEPALIVE_SECONDS)
    runner = web.ServerRunner(server, shutdown_timeout=CONNECTION_SECONDS)
    await runner.setup()
    await web.SockSite(runner, sock, backlog=BACKLOG).start()
    return runner


async def _demo(daemon: Daemon, url: str, announce: Callable[[str], None]) -> None:
    if daemon.inbounds.get(DEMO) is None:
        fields = {"id": DEMO, "name": DEMO, "description": "Says what you say", "version": "0.1.0"}
        try:
            await daemon.inbounds.create(fields)
        except ActionFailed as error:
            announce(f"the demo could not be created: {error}")
            return
    endpoint = f"{url}/a2a/{DEMO}"
    message = '{"role":"ROLE_USER","parts":[{"text":"hello, agent"}]}'
    announce("\nTry it from another terminal, once with a task as the answer and once with a stream:\n")
    for method in ("SendMessage", "SendStreamingMessage"):
        announce(
            f"curl -N {endpoint} -H 'content-type: application/json'"
            f""" -d '{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"message":{message}}}}}'\n"""
        )
