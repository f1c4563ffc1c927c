"""What an agent or a client sends to hold the panel up, or to break it: the page goes on, and shows what it can."""

import json
from typing import Any

import pytest

from tests.browser.panel import Panel
from tests.daemon import DaemonProcess

#: for each of these marked takes from seconds to minutes, in time that grows with the square of the length
SLOW = ("*_*_a " * 16_000, "a" + " " * 99_000 + "b")
#: of a page, whatever is on it
MOST_ELEMENTS = 40_000


@pytest.fixture(scope="module")
def puppet(agents: DaemonProcess) -> str:
    """The id of a published agent that says what it is told to."""
    return agents.create_inbound(name="Puppet", preset="malice")


def told(agents: DaemonProcess, puppet: str, **words: Any) -> str:
    return str(agents.send(puppet, json.dumps(words))["id"])


def assert_answers(panel: Panel) -> None:
    """The page is what it was opened as, and takes a press."""
    assert panel.t("app.failed") not in panel.text()
    panel.choose("theme", "dark")
    panel.until(lambda: panel.script("return document.documentElement.dataset.theme") == "dark", "a dark page")
    panel.choose("theme", "auto")
    assert panel.script("return document.querySelectorAll('*').length") < MOST_ELEMENTS
    assert panel.faults() == []


@pytest.mark.parametrize("text", SLOW, ids=lambda text: text[:8].strip())
def test_a_text_that_takes_minutes_to_format_is_shown_as_it_is(
    panel: Panel, agents: DaemonProcess, puppet: str, text: str
) -> None:
    task = told(agents, puppet, artifacts=[[{"text": text}], [{"text": "**after it**"}]])
    panel.show(f"tasks/{task}")
    panel.find('[data-artifact="artifact-0"] pre', text[:8].strip())
    assert_answers(panel)
    panel.find('[data-artifact="artifact-1"] strong', "after it")
    assert panel.all('[data-artifact="artifact-0"] pre') != []
    assert_answers(panel)


def test_a_thousand_such_texts_leave_the_page_answering(panel: Panel, agents: DaemonProcess, puppet: str) -> None:
    task = told(agents, puppet, artifacts=[[{"text": "*_*_a " * 2000}] * 50] * 20)
    panel.show(f"tasks/{task}").find('[data-artifact="artifact-19"]')
    for _ in range(3):
        assert_answers(panel)
    panel.show("tasks")


def test_formatted_texts_of_many_tags_do_not_fill_the_page(panel: Panel, agents: DaemonProcess, puppet: str) -> None:
    task = told(agents, puppet, artifacts=[[{"text": "*a*\n\n" * 1000}] * 20])
    panel.show(f"tasks/{task}").find('[data-artifact="artifact-0"] em', "a")
    assert_answers(panel)
