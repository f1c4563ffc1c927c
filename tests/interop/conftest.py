"""A daemon with agents for every occasion, shared by the tests of a module."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess

AGENTS = Path(__file__).with_name("agents_plugin.py").read_text()


@pytest.fixture(scope="session", autouse=True)
def no_proxy() -> Iterator[None]:
    """The official clients and curl must reach the daemon itself, whatever the machine's proxy is."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        yield


@pytest.fixture(scope="module")
def launch_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., DaemonProcess]]:
    """`launch(config="…")` starts a daemon with the agents; it must end cleanly when the module is done."""
    started: list[DaemonProcess] = []

    def start(config: str = "") -> DaemonProcess:
        daemon = DaemonProcess(tmp_path_factory.mktemp("interop"), plugin=AGENTS, config=config)
        started.append(daemon)
        return daemon

    try:
        yield start
        for daemon in started:
            assert daemon.terminate() == 0
            assert "Traceback" not in daemon.log(), daemon.log()
    finally:
        for daemon in started:
            daemon.kill()


@pytest.fixture(scope="module")
def agents(launch_shared: Callable[..., DaemonProcess]) -> DaemonProcess:
    return launch_shared()


@pytest.fixture(scope="module")
def inbound(agents: DaemonProcess) -> str:
    """The id of an inbound with the skills of `agents_plugin.py`."""
    return agents.create_inbound(name="interop", preset="interop")


@pytest.fixture(scope="module")
def protected(agents: DaemonProcess) -> str:
    """Likewise, behind the token `s3cr3t`."""
    inbound = agents.create_inbound(name="protected", preset="interop")
    agents.act("inbound.setAuth", id=inbound, token="s3cr3t")
    return inbound
