"""The JSON-RPC beside the inbound page's chat; and what is too much for a page, or means ill."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from selenium.webdriver.remote.webelement import WebElement

from tests.browser.axe import axe_clean
from tests.browser.chat import say, turn
from tests.browser.chromium import View
from tests.browser.panel import Panel
from tests.browser.talk_plugin import FRAMES
from tests.browser.test_hostile import MOST_SHOWN, assert_harmless
from tests.browser.views import in_both_languages_at_both_widths
from tests.daemon import DaemonProcess

#: of the page as a whole: what 10,000 frames may not add to
MOST_ELEMENTS = 1500


def wire(panel: Panel) -> list[str]:
    """What is in each message of the page of the wire that is shown."""
    return [str(each.get_attribute("data-kind")) for each in panel.all(".wire-entry")]


def raw(panel: Panel, entry: WebElement) -> Any:
    """A message as it is shown."""
    if not panel.all("pre", within=entry):
        panel.click("summary", within=entry)
    return json.loads(panel.text(panel.find("pre", within=entry)))


def test_the_wire_shows_what_a_client_would_have_sent_and_every_frame(
    panel: Panel, agents: DaemonProcess, inbound: str
) -> None:
    panel.show(f"inbound/{inbound}")
    say(panel, "go", "rich")
    task_id = turn(panel).get_attribute("data-task")
    panel.button(panel.t("inbound.wire.show"))
    kinds = wire(panel)
    assert kinds[0] == "SendStreamingMessage"
    assert kinds[1:] == [
        next(iter(frame)) for frame in agents.send_streaming(inbound, "go", metadata={"skill": "rich"})
    ]
    sent, *_, last = panel.all(".wire-entry")
    request = raw(panel, sent)
    assert request["params"]["message"]["parts"] == [{"text": "go"}]
    assert request["params"]["message"]["metadata"] == {"skill": "rich"}
    assert raw(panel, last)["result"]["task"]["id"] == task_id
    panel.click("button.copy", within=last)
    panel.find("button.copy.copied", within=last)
    copied = panel.copied()
    assert "\n" not in copied
    assert json.loads(copied) == raw(panel, last)
    # what the page showed is what came: sent again, it does the same
    answer = agents.rpc(inbound, "SendMessage", {"message": {**request["params"]["message"], "messageId": "again"}})
    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@in_both_languages_at_both_widths
def test_the_wire_stands_beside_the_chat_and_is_remembered(panel: Panel, inbound: str) -> None:
    panel.show(f"inbound/{inbound}").button(panel.t("inbound.wire.show"))
    panel.find(".wire", panel.t("inbound.wire.none"))
    say(panel, "hello", "chat")
    turn(panel)
    panel.find(".wire-entry")
    axe_clean(panel)
    panel.screenshot(f"inbound-wire-{panel.view}")
    panel.open(f"inbound/{inbound}").find(".wire")
    panel.button(panel.t("inbound.wire.show"))
    panel.gone(".wire")


# too much


def test_ten_thousand_frames_do_not_hold_the_page_up(panel: Panel, much: str) -> None:
    panel.show(f"inbound/{much}").button(panel.t("inbound.wire.show"))
    say(panel, "go", "many")
    panel.find(".said", f"word{FRAMES - 1}")
    turn(panel)
    assert panel.script("return document.querySelectorAll('*').length") < MOST_ELEMENTS
    assert len(wire(panel)) < 50
    panel.find(".wire-count", f"{FRAMES:,}"[:4])
    panel.button(panel.t("pager.back"))
    newest = panel.script("return document.querySelector('.wire-entry').dataset.frame")
    assert 0 < int(newest) < FRAMES


# others' words


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_hostile_answers_are_shown_and_not_obeyed(
    open_panel: Callable[..., Panel], agents: DaemonProcess, phone: bool
) -> None:
    made = agents.create_inbound(name="Ill", preset="pages")
    panel = open_panel(agents, view=View(phone=phone), route=f"inbound/{made}")
    panel.button(panel.t("inbound.wire.show"))
    for number, skill in enumerate(("hostile", "sorry", "hostage"), 1):
        say(panel, f"\u202e<img src=x onerror=window.hacked=30> {skill}", skill)
        panel.find(f".turn:nth-child({number})[data-phase=rest]", "<script>window.hacked = 1</script>")
        assert_harmless(panel)
    assert panel.all("img") == []
    panel.screenshot(f"inbound-chat-hostile-{panel.view}")
    panel.click(".asked .options button")
    turn(panel, 4)
    for entry in panel.all(".wire-entry")[:4]:
        panel.click("summary", within=entry)
    assert_harmless(panel)


def test_an_answer_of_ten_megabytes_does_not_hold_the_page_up(panel: Panel, inbound: str) -> None:
    panel.show(f"inbound/{inbound}").button(panel.t("inbound.wire.show"))
    say(panel, "go", "large")
    turn(panel)
    panel.find('[data-artifact="word"]', "xxxx")
    assert panel.script("return document.body.textContent.length") < MOST_SHOWN
    say(panel, "still there", "chat")
    panel.find(".said", "still there", within=turn(panel, 2))
