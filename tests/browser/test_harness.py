"""What the other tests rely on: that a fault of a page is seen, and that a browser that has died is replaced."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.browser.axe import axe_faults
from tests.browser.chromium import Browser, View
from tests.browser.keyboard import tab_through
from tests.browser.panel import Panel
from tests.daemon import DaemonProcess

FAULTS = {
    "console.error('it went wrong')": "it went wrong",
    "setTimeout(() => { throw new Error('nobody caught it') })": "nobody caught it",
    "document.body.setAttribute('style', 'color: red')": "refused by the policy: style-src-attr",
    "new Image().src = 'https://other.example/pixel.png'": "a request to another host: https://other.example/pixel.png",
    "fetch('/a2a/api/task?id=none')": "status of 404",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_page_is_seen(panel: Panel, fault: str) -> None:
    panel.script(fault)
    panel.until(lambda: any(FAULTS[fault] in each for each in panel.faults()), FAULTS[fault])
    panel.forget()


def test_axe_sees_what_keeps_somebody_out(panel: Panel) -> None:
    panel.script("document.querySelector('main').insertAdjacentHTML('beforeend', '<input>')")
    assert any("label" in each for each in axe_faults(panel))


def test_a_stop_that_nobody_sees_is_seen(panel: Panel) -> None:
    panel.script("document.querySelector('main').append(document.createElement('button'))")
    panel.script("document.styleSheets[0].insertRule('main > button:focus-visible { outline: none !important }')")
    assert "<button></button>" in tab_through(panel)[1]


def test_a_browser_that_died_is_replaced(
    browser: Browser, open_panel: Callable[..., Panel], agents: DaemonProcess
) -> None:
    before = browser.fresh(View())
    os.killpg(before.service.process.pid, signal.SIGKILL)
    again = open_panel(agents, route="tasks")
    assert again.driver is not before
    assert again.text("h1") == "Tasks"
