"""The inbound page's chat: what is said streams, is shown for what it is, is answered and canceled."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Keys

from tests.browser.agents_plugin import png
from tests.browser.axe import axe_clean
from tests.browser.chat import say, state_of, turn
from tests.browser.furnish import keep_its_port, with_agents
from tests.browser.panel import Panel
from tests.browser.views import in_both_languages_at_both_widths, in_every_view
from tests.daemon import DaemonProcess

GONE = r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE"
#: counts how often what is read out changes
COUNT = """
window.readings = [];
new MutationObserver(() => window.readings.push(document.querySelector('[data-read-out]').textContent))
    .observe(document.querySelector('[data-read-out]'), {childList: true, characterData: true, subtree: true});
"""


@pytest.fixture(scope="module")
def careful(agents: DaemonProcess) -> str:
    return agents.create_inbound(name="Careful", preset="tools")


# streams


@in_both_languages_at_both_widths
def test_text_streams_as_it_comes_and_statuses_stand_aside(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.show(f"inbound/{inbound}")
    door = f"door {panel.view}"
    say(panel, door, "work")
    panel.find(".said", "before")
    panel.find(".notes", "at the door")
    running = turn(panel, phase="running")
    assert state_of(panel, running) == "TASK_STATE_WORKING"
    assert "after" not in panel.text(running)
    panel.screenshot(f"inbound-chat-streams-{panel.view}")
    axe_clean(panel)
    agents.send(inbound, door, metadata={"skill": "open"})
    panel.find(".said", "before after")
    assert state_of(panel, turn(panel)) == "TASK_STATE_COMPLETED"
    task = panel.find(".came-head a", within=turn(panel)).get_attribute("href")
    task_id = str(turn(panel).get_attribute("data-task"))
    assert str(task).endswith(f"#/tasks/{task_id}")
    assert agents.read(f"/task?id={task_id}")["state"] == "TASK_STATE_COMPLETED"


def test_what_is_said_is_read_out_once_and_not_by_the_word(panel: Panel, much: str) -> None:
    panel.show(f"inbound/{much}")
    panel.script(COUNT)
    assert panel.script("return document.querySelector('[data-read-out]').getAttribute('role')") == "status"
    say(panel, "go", "many")
    panel.until(lambda: panel.script("return window.readings.length"), "what is read out")
    turn(panel)
    (reading,) = panel.script("return window.readings")
    assert reading.startswith(f"{panel.t('state.COMPLETED')}. word0 word1 ")
    assert len(reading) < 500


def test_of_many_statuses_and_artifacts_the_newest_are_shown_first(panel: Panel, much: str) -> None:
    panel.show(f"inbound/{much}")
    say(panel, "go", "chatty")
    one = turn(panel)
    assert "note 119" in panel.text(one)
    assert "note 0\n" not in panel.text(one)
    panel.button(panel.t("inbound.chat.earlier", n=70))
    panel.find('[data-artifact="note-0"]')
    panel.button(panel.t("inbound.chat.statuses.all", n=301))
    panel.find(".notes", "step 150")
    assert len(panel.all(".notes li")) == 200


# what came


@in_every_view
def test_each_kind_of_artifact_is_shown_as_what_it_is(panel: Panel, inbound: str, tmp_path: Path) -> None:
    panel.show(f"inbound/{inbound}")
    say(panel, "show me", "rich")
    one = turn(panel)
    for css, text in (("h3", "Heading"), ("strong", "bold"), ("code", "code"), ("li", "one"), ("td", "1")):
        panel.find(f'[data-artifact="text"] .markdown {css}', text, within=one)
    panel.find('[data-artifact="data"] .tree', '"Oslo"', within=one)
    image = panel.find('[data-artifact="image"] .picture', within=one)
    shown = panel.script("return arguments[0].querySelector('img')", image)
    assert shown.get_attribute("src") == f"data:image/png;base64,{base64.b64encode(png(120, 80)).decode()}"
    panel.until(lambda: panel.script("return arguments[0].naturalWidth", shown) == 120, "the picture")
    file = panel.find('[data-artifact="file"] .file', "report.csv", within=one)
    assert "text/csv" in panel.text(file)
    saves = {"behavior": "allow", "downloadPath": str(tmp_path)}
    panel.driver.execute_cdp_cmd("Browser.setDownloadBehavior", saves)
    panel.click("button", within=file)
    panel.until((tmp_path / "report.csv").exists, "the file")
    assert (tmp_path / "report.csv").read_bytes() == b"a,b\n1,2\n"
    link = panel.find('[data-artifact="link"] a', "more.pdf", within=one)
    assert (link.get_attribute("href"), link.get_attribute("rel")) == (
        "https://example.org/more.pdf",
        "noopener noreferrer",
    )
    panel.screenshot(f"inbound-chat-rich-{panel.view}")
    axe_clean(panel)


@pytest.mark.parametrize(
    ("skill", "state", "reason"),
    [("fail", "TASK_STATE_FAILED", "Out of paper"), ("reject", "TASK_STATE_REJECTED", "Not today")],
)
def test_why_a_task_has_not_succeeded_is_shown(panel: Panel, inbound: str, skill: str, state: str, reason: str) -> None:
    panel.show(f"inbound/{inbound}")
    say(panel, "go", skill)
    one = turn(panel)
    assert state_of(panel, one) == state
    panel.find(".closing.bad", reason, within=one)


def test_an_answer_that_is_a_message_makes_no_task(panel: Panel, inbound: str) -> None:
    panel.show(f"inbound/{inbound}")
    say(panel, "hello", "direct")
    one = turn(panel)
    assert "You said hello" in panel.text(one)
    panel.find(".said", panel.t("inbound.chat.direct"), within=one)
    assert one.get_attribute("data-task") == ""


# questions


@in_both_languages_at_both_widths
def test_a_question_with_options_is_answered_by_a_button(panel: Panel, careful: str) -> None:
    panel.show(f"inbound/{careful}")
    say(panel, "tidy up")
    asked = panel.find(".asked", "May I remove one.txt?")
    done, waiting = (panel.find(f'details.tool-call[data-artifact="tool-call-{n}"]') for n in (1, 2))
    assert (done.get_attribute("data-status"), waiting.get_attribute("data-status")) == ("completed", "working")
    assert "/srv/data" not in panel.text(done)
    panel.click("summary", within=done)
    panel.find(".tree", "/srv/data", within=done)
    assert "one.txt" in panel.text(done)
    panel.screenshot(f"inbound-chat-asks-{panel.view}")
    axe_clean(panel)
    panel.button("Allow once", within=asked)
    panel.gone(".asked")
    last = turn(panel, 2)
    panel.find(".sent", "Allow once", within=last)
    panel.find(".said", "Told: allow_once", within=last)
    panel.find('.tool-call[data-status="failed"]', within=last)
    panel.until(lambda: panel.focused().get_attribute("name") == "text", "the focus where messages are written")
    assert turn(panel, 1).get_attribute("data-task") == last.get_attribute("data-task")


def test_a_question_without_options_is_answered_where_messages_are_written(
    panel: Panel, agents: DaemonProcess, inbound: str
) -> None:
    panel.show(f"inbound/{inbound}")
    say(panel, "weather", "ask")
    panel.find(".asked", "Which city?")
    panel.find(".composer label", panel.t("inbound.chat.answer"))
    say(panel, "Oslo")
    last = turn(panel, 2)
    panel.find(".said", "Sunny in Oslo", within=last)
    task_id = last.get_attribute("data-task")
    assert task_id == turn(panel, 1).get_attribute("data-task")
    assert agents.read(f"/task?id={task_id}")["state"] == "TASK_STATE_COMPLETED"
    assert "Which city?" in panel.text(turn(panel, 1))


def test_a_sign_in_that_is_asked_for_is_shown_and_answered(panel: Panel, inbound: str) -> None:
    panel.show(f"inbound/{inbound}")
    say(panel, "let me in", "login")
    panel.find(".asked", panel.t("inbound.chat.auth"))
    panel.find(".asked", "Log in first")
    say(panel, "done")
    panel.find(".said", "inside", within=turn(panel, 2))


def test_what_was_answered_elsewhere_meanwhile_is_said(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.bring_about("status of 409")
    panel.show(f"inbound/{inbound}")
    say(panel, "weather", "ask")
    panel.find(".asked")
    agents.act("task.answer", id=turn(panel).get_attribute("data-task"), text="Rome")
    say(panel, "Oslo")
    panel.find('[role="alert"]', "The task has ended", within=turn(panel, 2, "failed"))
    panel.find(".said", "Sunny in Rome", within=turn(panel, 1))
    assert panel.find('.composer [name="text"]').get_property("value") == "Oslo"


# cancel, refuse, begin anew


@in_both_languages_at_both_widths
def test_a_task_is_canceled_while_it_runs(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.show(f"inbound/{inbound}")
    say(panel, f"never opened {panel.view}", "work")
    panel.find(".notes", "at the door")
    panel.button(panel.t("inbound.chat.cancel"))
    one = turn(panel)
    assert state_of(panel, one) == "TASK_STATE_CANCELED"
    assert agents.read(f"/task?id={one.get_attribute('data-task')}")["state"] == "TASK_STATE_CANCELED"


def test_what_is_refused_is_said_in_place_and_can_be_sent_again(panel: Panel, agents: DaemonProcess) -> None:
    panel.bring_about("status of 409")
    made = agents.create_inbound(name="Closed", enabled=False)
    panel.show(f"inbound/{made}")
    say(panel, "hello")
    panel.find('[role="alert"]', '"Closed" is disabled', within=turn(panel, 1, "failed"))
    assert panel.find('.composer [name="text"]').get_property("value") == "hello"
    agents.act("inbound.enable", id=made)
    panel.button(panel.t("inbound.chat.send"))
    panel.find(".said", "hello", within=turn(panel, 2))


def test_a_conversation_stays_one_until_a_new_one_is_begun(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    def context(number: int) -> str:
        return str(agents.read(f"/task?id={turn(panel, number).get_attribute('data-task')}")["contextId"])

    panel.show(f"inbound/{inbound}")
    say(panel, "one", "chat")
    turn(panel, 1)
    panel.show("tasks").show(f"inbound/{inbound}")
    panel.choose("language", "zh")
    panel.find(".turn", "one")
    say(panel, "two")
    turn(panel, 2)
    assert context(1) == (first := context(2))
    panel.button(panel.t("inbound.chat.new"))
    panel.gone(".turn")
    panel.until(lambda: panel.focused().get_attribute("name") == "text", "the focus where messages are written")
    say(panel, "three")
    assert context(1) != first


def test_shift_and_enter_begin_a_line_and_send_nothing(panel: Panel, inbound: str) -> None:
    panel.show(f"inbound/{inbound}").click('.composer [name="text"]')
    line = ActionChains(panel.driver).send_keys("one").key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT)
    line.send_keys("two").perform()
    assert panel.find('.composer [name="text"]').get_property("value") == "one\ntwo"
    assert panel.all(".turn") == []
    panel.press(Keys.ENTER)
    panel.find(".sent", "one\ntwo")


# the daemon is gone


def test_a_daemon_that_goes_away_is_said_and_what_has_become_of_the_task_is_shown(
    tmp_path: Path, open_panel: Callable[..., Panel]
) -> None:
    with with_agents(tmp_path) as daemon:
        keep_its_port(daemon)
        made = daemon.create_inbound(name="Weather", preset="pages")
        panel = open_panel(daemon, route=f"inbound/{made}")
        panel.bring_about(GONE)
        say(panel, "never opened", "work")
        panel.find(".notes", "at the door")
        daemon.kill()
        panel.find('[role="alert"]', panel.t("inbound.chat.lost"), within=turn(panel, 1, "lost"))
        panel.screenshot("inbound-chat-lost")
        daemon.start()
        one = turn(panel, 1)
        assert state_of(panel, one) == "TASK_STATE_FAILED"
        panel.find(".closing.bad", "The daemon stopped", within=one)
        say(panel, "weather", "ask")
        panel.find(".asked")
        daemon.restart()
        panel.gone('[data-banner="offline"]')
        say(panel, "Oslo")
        panel.find(".asked", "Which city?", within=turn(panel, 3))  # a run that was begun anew asks anew
        panel.open("overview")
        panel.faults()
