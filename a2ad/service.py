"""The daemon as a process: its lock, its sockets, its signals, and an end within bounds."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from aiohttp import web

from a2ad.config import Address, Config
from a2ad.daemon import Daemon, start
from a2ad.errors import ActionFailed, StartupError

BACKLOG = 1024
#: an idle connection is closed after this many seconds
KEEPALIVE_SECONDS = 75
#: what is left of the connections when everything else has ended
CONNECTION_SECONDS = 2.0
DEMO = "demo"

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
        sock.bind(where)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise StartupError(f"cannot listen on {address}: {error.strerror or error}") from None
    return sock


def url_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://{Address(host, port)}"


async def serve(config: Config, *, demo: bool, announce: Callable[[str], None]) -> bool:
    """Run until SIGTERM or SIGINT. `announce` gets the lines for the one who started it.

    Returns whether everything has ended; what did not was abandoned. Raises `StartupError`, `ConfigError`.
    """
    stop = _stop_signals()
    control_address = config.control_address()
    sockets = [bind(config.listen_address())]
    runners: list[web.AppRunner] = []
    try:
        listen_url = url_of(sockets[0])
        if control_address is not None:
            sockets.append(bind(control_address))
        async with start(config, control_apart=control_address is not None, listen_url=listen_url) as daemon:
            runners.append(await _listen(daemon.public_app(with_control=control_address is None), sockets[0]))
            if control_address is not None:
                runners.append(await _listen(daemon.control_app(), sockets[1]))
            await _ready(daemon, sockets, announce, demo=demo)
            log.info("daemon.stopping", signal=signal.Signals(await stop).name)
            await _stop(daemon, runners)
        log.info("daemon.stopped")
        return not daemon.engine.abandoned
    finally:
        for sock in sockets:
            sock.close()


async def _ready(daemon: Daemon, sockets: list[socket.socket], announce: Callable[[str], None], *, demo: bool) -> None:
    announce(f"a2ad listening on {url_of(sockets[0])}")
    for sock in sockets[1:]:
        announce(f"a2ad control on {url_of(sock)}")
    if demo:
        await _demo(daemon, url_of(sockets[0]), announce)
    await daemon.host.startup(daemon)


async def _stop(daemon: Daemon, runners: list[web.AppRunner]) -> None:
    """No new connections and no new work; streams told, runs ended or settled; then the connections closed."""
    for runner in runners:
        for site in list(runner.sites):
            await site.stop()
    await daemon.host.shutdown(daemon)
    await daemon.engine.stop()
    daemon.control.stop()
    await asyncio.gather(*(runner.cleanup() for runner in runners))


def _stop_signals() -> asyncio.Future[int]:
    """The first signal asks for an end in order; the second one ends the process as it is."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def on_signal(number: int) -> None:
        if stop.done():
            sys.stderr.flush()
            os._exit(128 + number)
        stop.set_result(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop


async def _listen(app: web.Application, sock: socket.socket) -> web.AppRunner:
    runner = web.AppRunner(
        app, access_log=None, keepalive_timeout=KEEPALIVE_SECONDS, shutdown_timeout=CONNECTION_SECONDS
    )
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
