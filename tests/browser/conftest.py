"""A browser for the whole run, daemons for its pages, and what every page is held to when its test ends."""

import os
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Browser, View, need_chromium
from tests.browser.furnish import Furnished, Words, furnished_with, with_agents
from tests.browser.panel import Panel
from tests.daemon import DaemonProcess

PANELS = pytest.StashKey[list[Panel]]()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    need_chromium()
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def screenshots(pytestconfig: pytest.Config) -> Path:
    """Where pictures of the pages go: $A2AD_SCREENSHOTS, else beside pytest's cache."""
    return Path(os.environ.get("A2AD_SCREENSHOTS") or pytestconfig.rootpath / ".pytest_cache/screenshots").absolute()


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    """A daemon with something on each page, for tests that change nothing."""
    with furnished_with(tmp_path_factory.mktemp("furnished"), Words()) as here:
        yield here


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """A daemon that the tests of a module share, with the preset `pages`; what a test adds, the others see."""
    with with_agents(tmp_path_factory.mktemp("agents")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def inbound(agents: DaemonProcess) -> str:
    """The id of a published agent of the preset `pages`."""
    return agents.create_inbound(name="Weather", description="Weather by city", preset="pages")


@pytest.fixture(scope="module")
def much(agents: DaemonProcess) -> str:
    """The id of a published agent that says much, of the preset `much`."""
    return agents.create_inbound(name="Much", preset="much")


@pytest.fixture
def connection(agents: DaemonProcess, inbound: str) -> Iterator[str]:
    """The id of a connection of the shared daemon, `weather`, to an agent of its own."""
    made = str(agents.act("outbound.create", name="weather", agentCardUrl=agents.endpoint(inbound))["id"])
    yield made
    if made in {each["id"] for each in agents.read("")["outbounds"]}:
        agents.act("outbound.remove", id=made)


@pytest.fixture
def open_panel(browser: Browser, screenshots: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Panel]]:
    """`open_panel(daemon, view=View(…), route="tasks")`: a panel in a fresh page. One at a time: a second call takes
    the page from the first. When the test ends, its console must hold no error, its policy must have refused nothing,
    and nothing must have been asked of another host.
    """
    opened = request.node.stash.setdefault(PANELS, [])

    def start(daemon: DaemonProcess, *, view: View | None = None, route: str = "overview") -> Panel:
        if opened:
            assert opened[-1].faults() == []
        view = view or View()
        panel = Panel(browser.fresh(view), daemon, view, screenshots)
        opened.append(panel)
        return panel.open(route)

    yield start
    if opened:
        assert opened[-1].faults() == []


@pytest.fixture
def panel(open_panel: Callable[..., Panel], agents: DaemonProcess, inbound: str, request: Any) -> Panel:
    """The overview of the shared daemon, in English on a desktop, or as `views.py`'s marks say."""
    return open_panel(agents, view=getattr(request, "param", View()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """How the page looked when its test failed."""
    report = yield
    for panel in item.stash.get(PANELS, [])[-1:]:
        if report.failed:
            name = re.sub(r"[^\w.-]+", "-", f"failed-{item.name}-{report.when}")
            try:
                report.sections.append(("panel", f"{panel.screenshot(name)}\n{panel.describe()}"))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with the page is what the test is about
                report.sections.append(("panel", f"no picture: {error}"))
    return report
