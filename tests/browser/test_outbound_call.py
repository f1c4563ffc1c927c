"""The outbound page: an agent is called, answered, and left; the daemon is connected to itself."""

from typing import Any

from selenium.webdriver import Keys
from selenium.webdriver.support.ui import Select

from tests.browser.axe import axe_clean
from tests.browser.panel import Panel
from tests.browser.views import in_both_languages, in_both_languages_at_both_widths
from tests.daemon import DaemonProcess

TOKEN = "s3cret-0f-the-rem0te"


def call(panel: Panel, text: str, skill: str | None = None) -> None:
    """Send this, once a call before it is done."""
    panel.until(lambda: panel.find('.call-form button[type="submit"]').is_enabled(), "the last call's end")
    if skill is not None:
        Select(panel.find('.call-form select[name="skill"]')).select_by_visible_text(skill)
    panel.fill('.call-form textarea[name="text"]', text)
    panel.click('.call-form button[type="submit"]')


def answered(panel: Panel, wanted: str, state: str) -> None:
    """The last call came to this."""
    panel.find(f'.turn:last-child[data-state="{state}"] .answer', wanted)


def newest(daemon: DaemonProcess) -> dict[str, Any]:
    return dict(daemon.read("?taskLimit=1")["tasks"][0])


@in_both_languages_at_both_widths
def test_an_agent_is_called_and_its_words_come_as_it_says_them(
    panel: Panel, agents: DaemonProcess, inbound: str, connection: str
) -> None:
    door = f"gate {panel.view}"
    panel.show(f"outbound/{connection}")
    call(panel, door, "work")
    answered(panel, "before", "TASK_STATE_WORKING")
    panel.find(".turn:last-child", "at the door")
    assert panel.t("outbound.call.leaving") in panel.text(".call-form")
    panel.screenshot(f"outbound-calling-{panel.view}")
    axe_clean(panel)
    agents.send(inbound, door, metadata={"skill": "open"})
    answered(panel, "before after", "TASK_STATE_COMPLETED")

    first = next(each for each in agents.read("?taskLimit=5")["tasks"] if each["skill"] == "work")
    call(panel, "and again", "mirror")
    answered(panel, "and again", "TASK_STATE_COMPLETED")
    assert newest(agents)["contextId"] == first["contextId"]
    panel.button(panel.t("outbound.call.new"))
    panel.gone(".call .context")


@in_both_languages_at_both_widths
def test_an_agent_that_asks_is_answered(panel: Panel, agents: DaemonProcess, connection: str) -> None:
    panel.show(f"outbound/{connection}")
    call(panel, "Weather?", "ask")
    answered(panel, "Which city?", "TASK_STATE_INPUT_REQUIRED")
    panel.find(".waits", panel.t("outbound.call.waits"))
    asked = newest(agents)["id"]
    panel.screenshot(f"outbound-asked-{panel.view}")
    call(panel, "Oslo")
    answered(panel, "Sunny in Oslo", "TASK_STATE_COMPLETED")
    assert newest(agents)["id"] == asked
    panel.gone(".waits")


def test_a_question_can_be_left(panel: Panel, agents: DaemonProcess, connection: str) -> None:
    panel.show(f"outbound/{connection}")
    call(panel, "Weather?", "ask")
    answered(panel, "Which city?", "TASK_STATE_INPUT_REQUIRED")
    asked = newest(agents)["id"]
    panel.button(panel.t("outbound.call.leave"))
    call(panel, "something else", "mirror")
    answered(panel, "something else", "TASK_STATE_COMPLETED")
    assert agents.read(f"/task?id={asked}")["state"] == "TASK_STATE_INPUT_REQUIRED"
    agents.act("task.cancel", id=asked)


@in_both_languages
def test_a_call_that_fails_says_why(panel: Panel, agents: DaemonProcess, inbound: str, connection: str) -> None:
    panel.show(f"outbound/{connection}")
    call(panel, "print it", "fail")
    answered(panel, "Out of paper", "TASK_STATE_FAILED")
    agents.act("inbound.setAuth", id=inbound, token=TOKEN)
    call(panel, "without a token", "mirror")
    panel.find('.turn:last-child [role="alert"]', "401")
    agents.act("inbound.setAuth", id=inbound, token="")
    call(panel, "once more", "mirror")
    answered(panel, "once more", "TASK_STATE_COMPLETED")


@in_both_languages
def test_a_call_is_canceled(panel: Panel, agents: DaemonProcess, connection: str) -> None:
    panel.show(f"outbound/{connection}")
    call(panel, f"never {panel.view}", "work")
    answered(panel, "before", "TASK_STATE_WORKING")
    panel.button(panel.t("outbound.call.stop"))
    panel.find(".turn:last-child", panel.t("outbound.call.stopped"))
    panel.until(lambda: newest(agents)["state"] == "TASK_STATE_CANCELED", "the remote's task canceled")


@in_both_languages_at_both_widths
def test_leaving_the_page_cancels_the_call_and_says_so_before(
    panel: Panel, agents: DaemonProcess, connection: str
) -> None:
    panel.show(f"outbound/{connection}")
    call(panel, f"left {panel.view}", "work")
    answered(panel, "before", "TASK_STATE_WORKING")
    panel.click('nav a[href="#/overview"]')
    dialog = panel.find("dialog[open]")
    assert panel.t("outbound.leave.lost") in panel.text(dialog)
    panel.screenshot(f"outbound-leave-{panel.view}")
    panel.button(panel.t("dialog.back"), within=dialog)
    panel.gone("dialog[open]")
    assert newest(agents)["state"] == "TASK_STATE_WORKING"

    panel.click('nav a[href="#/overview"]')
    panel.button(panel.t("outbound.leave"), within=panel.find("dialog[open]"))
    panel.find('main[data-page="overview"]')
    panel.until(lambda: newest(agents)["state"] == "TASK_STATE_CANCELED", "the remote's task canceled")


def test_a_call_goes_out_with_the_keyboard_alone(panel: Panel, connection: str) -> None:
    panel.show(f"outbound/{connection}")
    panel.find('.call-form textarea[name="text"]').send_keys("by hand", Keys.CONTROL, Keys.ENTER)
    answered(panel, "by hand", "TASK_STATE_COMPLETED")
    assert panel.focused().get_attribute("name") == "text"
