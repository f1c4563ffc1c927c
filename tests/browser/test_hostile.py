"""Whatever somebody else has put into a name, a card, a message or an artifact is shown, and does nothing else."""

from collections.abc import Callable, Iterator

import pytest

from tests.browser.agents_plugin import HOSTILE
from tests.browser.chromium import View
from tests.browser.furnish import Furnished, Words, furnished_with
from tests.browser.panel import Panel
from tests.browser.test_everywhere import WIDER
from tests.daemon import DaemonProcess

OVERRIDE = "\u202e"
#: names of at most 10,000 characters are taken
NAMES = (
    f"<img src=x onerror='window.hacked = 20'>{HOSTILE}",
    f"report{OVERRIDE}gnp.exe\u2066\u200b\u0007 شبكة {'W' * 5000}",
)
#: what came in with somebody's text, and not with the panel
FOREIGN = """
const main = document.querySelector('main');
const odd = main.querySelectorAll(
    'script, style, link, base, meta, iframe, object, embed, frame, [style], svg script, #root, form[action]');
const bad = [...document.querySelectorAll('[href], [src], [action]')].filter(each => {
    const address = each.getAttribute('href') ?? each.getAttribute('src') ?? each.getAttribute('action');
    return !/^(#|https?:|mailto:|blob:|data:image[/](?!svg)|[\\w./-]+$)/.test(address);
});
const handles = each => each.getAttributeNames().some(name => /^on/.test(name));
const handlers = [...main.querySelectorAll('*')].filter(handles);
return [...odd, ...bad, ...handlers].map(each => each.outerHTML.slice(0, 200));
"""
#: links that a text has brought lead elsewhere only where they are pressed, and tell nobody from where
OUTWARD = """
return [...document.querySelectorAll('a[href^=http]')].filter(each => !each.href.startsWith(location.origin))
    .filter(each => each.target !== '_blank' || !each.relList.contains('noopener')).map(each => each.outerHTML);
"""
MOST_SHOWN = 2_000_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    words = Words("hostile", NAMES, HOSTILE, f"{OVERRIDE}{HOSTILE}", ("hostile", "sorry", "hostage"))
    with furnished_with(tmp_path_factory.mktemp("hostile"), words) as here:
        yield here


def assert_harmless(panel: Panel) -> None:
    assert panel.script("return window.hacked ?? {}.hacked") is None
    assert panel.script(FOREIGN) == []
    assert panel.script(OUTWARD) == []
    assert OVERRIDE not in panel.text()
    assert panel.faults() == []


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_hostile_words_are_shown_and_not_obeyed(
    open_panel: Callable[..., Panel], hostile: Furnished, phone: bool
) -> None:
    panel = open_panel(hostile.daemon, view=View(phone=phone))
    for route, where in hostile.routes.items():
        panel.show(where)
        panel.find("main", "<img src=x onerror=")
        panel.screenshot(f"hostile-{route.replace('/', '-')}-{panel.view}")
        assert_harmless(panel)
        assert (route, panel.script(WIDER, panel.view.size[0])) == (route, [])


def test_a_text_of_ten_megabytes_does_not_hold_the_page_up(
    open_panel: Callable[..., Panel], agents: DaemonProcess, inbound: str
) -> None:
    sent = agents.send(inbound, "message " * 1_250_000, metadata={"skill": "chat"})["id"]
    made = agents.send(inbound, "go", metadata={"skill": "large"})["id"]
    panel = open_panel(agents)
    for task, part in ((sent, "message message"), (made, "go")):
        panel.show(f"tasks/{task}").find("main", part)
        # it answers, and what it has drawn is the beginning
        assert panel.script("return document.body.textContent.length") < MOST_SHOWN
        panel.show("overview")
