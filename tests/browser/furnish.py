"""A daemon with something on each page of its panel: agents, connections, tasks in each state, a session, a stream."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.browser.panel import PAGES
from tests.daemon import DaemonProcess, running

PLUGINS = {
    "interop_agents": Path(__file__).parents[1] / "interop/agents_plugin.py",
    "pages_agents": Path(__file__).with_name("agents_plugin.py"),
    "talk_agents": Path(__file__).with_name("talk_plugin.py"),
    "malice_agents": Path(__file__).with_name("malice_plugin.py"),
}
CONFIG = """
[limits]
body_bytes = 33554432
"""
#: every page, and one thing of each that has a page of its own: the keys of `Furnished.routes`
ROUTES = (*PAGES, "inbound/one", "outbound/one", "tasks/done", "tasks/waiting")


@dataclass(frozen=True)
class Words:
    """What stands where somebody else chooses the words."""

    preset: str = "pages"
    names: tuple[str, ...] = ("Weather", "Reports")
    description: str = "Answers what it is asked"
    sent: str = "What was sold in Oslo last week?"
    #: skills: one that completes, one that fails, one that asks
    skills: tuple[str, str, str] = ("rich", "fail", "ask")


@dataclass
class Furnished:
    """A daemon, and where its panel shows what."""

    daemon: DaemonProcess
    inbounds: list[str] = field(default_factory=list)
    routes: dict[str, str] = field(default_factory=lambda: {page: page for page in PAGES})


def keep_its_port(daemon: DaemonProcess) -> None:
    """Once it is started again it is where the page that is open looks for it."""
    daemon.command[daemon.command.index("--listen") + 1] = urlsplit(daemon.url).netloc


@contextmanager
def with_agents(folder: Path) -> Iterator[DaemonProcess]:
    """A daemon with the presets of `agents_plugin.py`; afterwards it has to end in order, with nothing in its log."""
    plugins: Mapping[str, str] = {name: file.read_text() for name, file in PLUGINS.items()}
    with running(folder, plugin=plugins, config=CONFIG) as daemon:
        yield daemon
        assert "Traceback" not in daemon.log(), daemon.log()


@contextmanager
def furnished_with(folder: Path, words: Words) -> Iterator[Furnished]:
    """A daemon with all of it, and a client's stream that stays open until the end."""
    with with_agents(folder) as daemon:
        here = Furnished(daemon)
        for name in words.names:
            about = {"name": name, "description": words.description, "version": "1.0.0", "preset": words.preset}
            here.inbounds.append(daemon.create_inbound(**about))
        first = here.inbounds[0]
        daemon.act("inbound.create", **about, authTokenEnv="A_TOKEN_THAT_IS_MISSING")
        here.routes["inbound/one"] = f"inbound/{first}"
        here.routes["outbound/one"] = f"outbound/{_connect(daemon, words, here.inbounds)}"
        here.routes["tasks/done"] = f"tasks/{_task(daemon, first, words, words.skills[0])}"
        for skill in ("chat", "reject", *words.skills[1:]):
            here.routes["tasks/waiting"] = f"tasks/{_task(daemon, first, words, skill)}"
        working = daemon.begin(first, words.sent, metadata={"skill": "work"})["id"]
        with closing(daemon.subscribe(first, working)) as frames:
            next(frames)
            yield here
            daemon.cancel(first, working)


def _task(daemon: DaemonProcess, inbound: str, words: Words, skill: str) -> str:
    return str(daemon.send(inbound, words.sent, metadata={"skill": skill})["id"])


def _connect(daemon: DaemonProcess, words: Words, inbounds: list[str]) -> str:
    """Connections to the daemon's own agents; the last one's agent is gone afterwards. Returns the first one's id."""
    made = []
    for name, inbound in zip(words.names, inbounds, strict=True):
        made.append(str(daemon.act("outbound.create", name=name, agentCardUrl=daemon.endpoint(inbound))["id"]))
    daemon.act("inbound.disable", id=inbounds[-1])
    daemon.act("outbound.refresh", id=made[-1], status=409)
    return made[0]
