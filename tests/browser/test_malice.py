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
    task = told(agents, puppet, artifacts=[[{"text": "*_*_a " * 2000, "filename": "a"}] * 50] * 20)
    panel.show(f"tasks/{task}").find('[data-artifact="artifact-19"]')
    for _ in range(3):
        assert_answers(panel)
    panel.show("tasks")


def test_formatted_texts_of_many_tags_do_not_fill_the_page(panel: Panel, agents: DaemonProcess, puppet: str) -> None:
    task = told(agents, puppet, artifacts=[[{"text": "- **a**\n" * 1000}]] * 20)
    panel.show(f"tasks/{task}").find('[data-artifact="artifact-0"] li:first-child strong', "a")
    assert_answers(panel)


#: what no text can be made of by itself
ODD = {"toString": 1, "valueOf": 2, "__proto__": {"a": 1}}


@pytest.mark.parametrize("route", ["overview", "tasks"])
def test_a_question_of_objects_in_the_place_of_texts_can_be_answered(
    panel: Panel, agents: DaemonProcess, puppet: str, route: str
) -> None:
    options = [{"id": "yes", "name": ODD}, {"id": ODD, "name": ODD}, {"id": ODD, "name": "no"}]
    task = told(agents, puppet, asks={"question": "Well?", "options": options, "deadline": ODD, "tool": ODD})
    panel.show(route if route == "overview" else f"tasks/{task}")
    asked = panel.find(f'[data-question="{task}"]')
    assert [panel.text(each) for each in panel.all(".options button", within=asked)] == ["yes", "no"]
    assert_answers(panel)
    panel.click(".options button", "yes", within=panel.find(f'[data-question="{task}"]'))
    panel.until(lambda: agents.read(f"/task?id={task}")["state"] == "TASK_STATE_COMPLETED", "its end")


@pytest.mark.parametrize("deadline", [9e99, -1, [], "x" * 100_000, True])
def test_a_deadline_that_is_none_is_shown_and_breaks_nothing(
    panel: Panel, agents: DaemonProcess, puppet: str, deadline: Any
) -> None:
    task = told(agents, puppet, asks={"question": "Well?", "options": [], "deadline": deadline})
    panel.show(f"tasks/{task}").find(f'[data-question="{task}"]')
    assert_answers(panel)
    agents.cancel(puppet, task)


def test_tool_calls_and_metadata_of_objects_are_shown(panel: Panel, agents: DaemonProcess, puppet: str) -> None:
    call = {"name": "look", "status": ODD, "arguments": ODD, "result": ODD}
    task = told(agents, puppet, artifacts=[[{"data": call}], [{"data": ODD}]], id="tool-call")
    panel.show(f"tasks/{task}").click(".tool-call summary")
    panel.find(".tool-call .tree")
    assert_answers(panel)
    task = told(agents, puppet, metadata={"usage": {"a": ODD, "b": 1}, "stopReason": ODD, "more": ODD})
    panel.show(f"tasks/{task}").find("main", panel.t("tasks.metadata"))
    assert_answers(panel)


def test_a_task_that_is_busy_is_followed_to_what_it_asks(panel: Panel, agents: DaemonProcess, puppet: str) -> None:
    task = str(agents.begin(puppet, "busy")["id"])
    panel.show(f"tasks/{task}").find(f'[data-question="{task}"]')
    assert_answers(panel)
    assert len(panel.script("return [...document.querySelectorAll('.timeline li')].map(each => each.innerText)")) <= 201
    panel.find('[data-artifact="one"] .tree-leaf', "0")
    panel.find('[data-artifact="three"]', "all told")
    panel.click("main button", panel.t("tasks.cancel"))
    panel.button(panel.t("tasks.cancel"), within=panel.find("dialog[open]"))
    panel.until(lambda: agents.read(f"/task?id={task}")["state"] == "TASK_STATE_CANCELED", "its end")


def test_a_task_that_was_opened_first_is_followed_while_it_is_busy(
    panel: Panel, agents: DaemonProcess, puppet: str
) -> None:
    task = str(agents.begin(puppet, "busy later")["id"])
    panel.show(f"tasks/{task}").find(f'[data-question="{task}"]')
    agents.act("task.answer", id=task, text="go on")
    panel.find('[data-artifact="three"]', "all told")
    assert_answers(panel)
    assert 100 < panel.script("return document.querySelectorAll('.timeline li').length") <= 201
    panel.find(".timeline .step", "step 1999")
    agents.cancel(puppet, task)


MOST_SHOWN = 500_000
LONG = "n" * 1_000_000


def assert_bounded(panel: Panel) -> None:
    assert_answers(panel)
    assert panel.script("return document.querySelector('main').textContent.length") < MOST_SHOWN


def test_names_keys_and_lists_without_end_are_cut(panel: Panel, agents: DaemonProcess, puppet: str) -> None:
    file = {"raw": "QQ==", "filename": LONG, "mediaType": LONG}
    link = {"url": f"https://other.example/{LONG}"}
    data = {"data": {LONG: LONG, "numbers": [0] * 1_000_000}}
    task = told(agents, puppet, artifacts=[[file], [link], [data]], name=LONG)
    panel.show(f"tasks/{task}").find('[data-artifact="artifact-2"] .tree', "1000000")
    assert_bounded(panel)
    task = told(agents, puppet, metadata={"usage": {f"figure {i}": i for i in range(50_000)}})
    panel.show(f"tasks/{task}").find("main", panel.t("tasks.metadata"))
    assert_bounded(panel)


def test_a_question_with_options_without_end_shows_the_first(panel: Panel, agents: DaemonProcess, puppet: str) -> None:
    options = [{"id": f"option {i}"} for i in range(20_000)] + [{"id": LONG}]
    task = told(agents, puppet, asks={"question": "Which?", "options": options})
    panel.show(f"tasks/{task}").find(f'[data-question="{task}"]', panel.t("tree.more", n=19_901))
    assert_bounded(panel)
    agents.cancel(puppet, task)


@pytest.mark.parametrize(
    "code", [0xAD, 0x34F, 0x115F, 0x17B4, 0x180E, 0x2028, 0x2800, 0x3164, 0xFFA0, 0x1D173, 0xE0100]
)
def test_what_cannot_be_seen_is_shown(panel: Panel, agents: DaemonProcess, puppet: str, code: int) -> None:
    task = told(agents, puppet, artifacts=[[{"text": f"a{chr(code)}b \u0645\u200c\u0646 \U0001f468\u200d\U0001f469"}]])
    panel.show(f"tasks/{task}").find(
        '[data-artifact="artifact-0"]', f"a⟨U+{code:04X}⟩b \u0645\u200c\u0646 \U0001f468\u200d"
    )
