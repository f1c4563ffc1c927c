"""The tasks page: the list and its filters, and one task from its question to its end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.support.ui import Select

from tests.browser.axe import axe_clean
from tests.browser.panel import Panel
from tests.browser.views import in_both_languages, in_both_languages_at_both_widths
from tests.daemon import DaemonProcess

LINKS = 'main tbody tr[data-id="{}"] a.summary'
USAGE = """
from a2ad import Executor, Status, TaskState, hookimpl

class Costly(Executor):
    async def execute(self, request):
        usage = {"inputTokens": 1200, "outputTokens": 34, "cached": {"hits": 3}}
        yield Status(TaskState.COMPLETED, None, {"usage": usage, "stopReason": "max_tokens", "model": "small"})

@hookimpl
def a2ad_register_executors(register):
    register("costly", Costly())

@hookimpl
def a2ad_register_presets(register):
    register("costly", {"agent": "echo", "skills": [{"id": "costly", "executor": "costly"}]})
"""


def sent(daemon: DaemonProcess, inbound: str, skill: str, text: str = "What was sold in Oslo?", **more: Any) -> Any:
    return daemon.send(inbound, text, metadata={"skill": skill}, **more)


def begun(daemon: DaemonProcess, inbound: str, text: str) -> str:
    """A task that works until `ended` is called with the same text."""
    return str(daemon.begin(inbound, text, metadata={"skill": "work"})["id"])


def ended(daemon: DaemonProcess, inbound: str, text: str) -> None:
    sent(daemon, inbound, "open", text)


def rows(panel: Panel) -> list[str]:
    """The ids of the tasks in the list, once those that were asked for are there."""
    ids = "return [...document.querySelectorAll('main tbody tr')].map(row => row.dataset.id)"
    panel.until(lambda: panel.all('.task-rows[aria-busy="false"]'), "the list")
    return list(panel.script(ids))


def state(panel: Panel) -> str:
    return str(panel.find("main header .state").get_attribute("data-state"))


def becomes(panel: Panel, wanted: str) -> None:
    panel.find(f'main header .state[data-state="{wanted}"]')


# the list


@in_both_languages_at_both_widths
def test_tasks_are_filtered_by_state_inbound_and_context(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    other = agents.create_inbound(name="Reports", preset="pages")
    done, failed = sent(agents, inbound, "chat"), sent(agents, other, "fail")
    panel.show("tasks")
    assert {done["id"], failed["id"]} <= set(rows(panel))

    panel.choose("state", "FAILED")
    panel.until(lambda: failed["id"] in rows(panel) and done["id"] not in rows(panel), "those that failed")
    row = panel.row(failed["id"])
    assert panel.t("state.FAILED") in panel.text(row)
    assert "Out of paper" in panel.text(row)
    panel.choose("server", inbound)
    panel.until(lambda: failed["id"] not in rows(panel), "those of one inbound")
    panel.button(panel.t("tasks.clear"))
    panel.until(lambda: {done["id"], failed["id"]} <= set(rows(panel)), "all of them")

    panel.fill('main input[name="context"]', done["contextId"])
    panel.until(lambda: rows(panel) == [done["id"]], "the one of a context")
    assert f"context={done['contextId']}" in panel.driver.current_url
    panel.screenshot(f"tasks-filtered-{panel.view}")
    axe_clean(panel)
    panel.fill('main input[name="context"]', "none-like-it")
    panel.find(".empty", panel.t("tasks.none.filtered"))


def test_a_filter_that_nobody_could_choose_is_passed_over(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    task = sent(agents, inbound, "chat")
    panel.show("tasks?state=NONSENSE&offset=-3&size=1000000")
    assert task["id"] in rows(panel)


@in_both_languages
def test_the_list_is_paged_through(panel: Panel, agents: DaemonProcess) -> None:
    inbound = agents.create_inbound(name="Many", preset="pages")
    for number in range(30):
        sent(agents, inbound, "mirror", f"number {number}")
    panel.show(f"tasks?server={inbound}&size=25")
    first = rows(panel)
    assert len(first) == 25

    panel.button(panel.t("pager.next"))
    panel.until(lambda: len(rows(panel)) == 5, "the last page")
    assert not set(rows(panel)) & set(first)
    assert panel.t("pager.range", **{"from": "26", "to": "30", "total": "30"}) in panel.text("main .pager")
    panel.button(panel.t("pager.back"))
    panel.until(lambda: rows(panel) == first, "the first page")
    Select(panel.find('select[name="size"]')).select_by_visible_text("50")
    panel.until(lambda: len(rows(panel)) == 30, "a page for all")


def test_a_page_that_is_no_more_leads_to_the_last_one(panel: Panel, agents: DaemonProcess) -> None:
    inbound = agents.create_inbound(name="Few", preset="pages")
    task = sent(agents, inbound, "mirror")
    panel.script("location.hash = arguments[0]", f"#/tasks?server={inbound}&offset=500")
    panel.until(lambda: rows(panel) == [task["id"]], "the last page")


def test_the_list_goes_on_and_leaves_focus_and_selection(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    kept = sent(agents, inbound, "chat", "keep me in mind")["id"]
    panel.show("tasks")
    rows(panel)
    panel.script("document.querySelector(arguments[0]).focus()", LINKS.format(kept))
    panel.script("document.querySelector(arguments[0]).dataset.seen = 'before'", LINKS.format(kept))

    new = begun(agents, inbound, "on its way")
    panel.find(f'main tr[data-id="{new}"] .state', panel.t("state.WORKING"))
    assert panel.focused().get_attribute("data-seen") == "before"

    panel.script("getSelection().selectAllChildren(document.querySelector(arguments[0]))", LINKS.format(kept))
    ended(agents, inbound, "on its way")
    panel.until(lambda: panel.t("state.WORKING") not in panel.text("nav") and _stored(agents, new), "its end")
    assert panel.script("return getSelection().toString()") == "keep me in mind"
    panel.script("getSelection().removeAllRanges()")
    panel.find(f'main tr[data-id="{new}"] .state', panel.t("state.COMPLETED"))
    assert panel.focused().get_attribute("data-seen") == "before"


def _stored(daemon: DaemonProcess, task: str) -> bool:
    return bool(daemon.read(f"/task?id={task}")["state"] == "TASK_STATE_COMPLETED")


def test_without_tasks_it_says_how_one_comes_about(daemon: DaemonProcess, open_panel: Callable[..., Panel]) -> None:
    panel = open_panel(daemon, route="tasks")
    panel.find(".empty", panel.t("tasks.none.help"))


# one task


@in_both_languages_at_both_widths
def test_a_running_task_is_followed_to_its_end(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    door = f"door {panel.view}"
    task = begun(agents, inbound, door)
    panel.show("tasks")
    panel.click(LINKS.format(task))
    becomes(panel, "TASK_STATE_WORKING")
    panel.find('[data-artifact="result"]', "before")
    panel.find(".timeline", "at the door")

    ended(agents, inbound, door)
    becomes(panel, "TASK_STATE_COMPLETED")
    panel.find('[data-artifact="result"]', "before after")
    steps = panel.all(".timeline li .state")
    assert [each.get_attribute("data-state") for each in steps][-1] == "TASK_STATE_COMPLETED"
    facts = panel.text(".facts")
    for told in (task, "Weather", "work", panel.t("tasks.duration"), panel.t("tasks.started"), panel.t("tasks.ended")):
        assert told in facts
    panel.screenshot(f"task-followed-{panel.view}")
    axe_clean(panel)


def test_a_task_that_waits_in_the_queue_is_followed_too(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    begun(agents, inbound, "first in line")
    first = agents.read("?taskLimit=1")["tasks"][0]
    second = agents.begin(inbound, "second", contextId=first["contextId"], metadata={"skill": "mirror"})["id"]
    panel.show(f"tasks/{second}")
    becomes(panel, "TASK_STATE_SUBMITTED")
    assert panel.t("tasks.started.yet") in panel.text(".facts")
    ended(agents, inbound, "first in line")
    becomes(panel, "TASK_STATE_COMPLETED")
    panel.find('[data-artifact="mirror"]', "second")


@in_both_languages_at_both_widths
def test_a_task_is_canceled_once_one_is_sure(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    task = begun(agents, inbound, "for ever")
    panel.show(f"tasks/{task}")
    panel.button(panel.t("tasks.cancel"))
    dialog = panel.find("dialog[open]")
    assert panel.t("tasks.cancel.lost") in panel.text(dialog)
    panel.screenshot(f"task-cancel-{panel.view}")
    panel.button(panel.t("dialog.back"), within=dialog)
    panel.gone("dialog[open]")
    assert state(panel) == "TASK_STATE_WORKING"

    panel.button(panel.t("tasks.cancel"))
    panel.button(panel.t("tasks.cancel"), within=panel.find("dialog[open]"))
    panel.find(".notice.done", task)
    becomes(panel, "TASK_STATE_CANCELED")
    assert agents.read(f"/task?id={task}")["state"] == "TASK_STATE_CANCELED"
    assert panel.t("tasks.cancel") not in panel.text("main .page-actions")


def test_a_cancel_that_comes_too_late_says_so_where_it_was_asked(
    panel: Panel, agents: DaemonProcess, inbound: str
) -> None:
    panel.bring_about("status of 409")
    task = begun(agents, inbound, "nearly done")
    panel.show(f"tasks/{task}")
    panel.button(panel.t("tasks.cancel"))
    ended(agents, inbound, "nearly done")
    dialog = panel.find("dialog[open]")
    panel.until(lambda: _stored(agents, task), "its end")
    panel.button(panel.t("tasks.cancel"), within=dialog)
    panel.find('[role="alert"]', "cannot be canceled", within=dialog)


@in_both_languages_at_both_widths
def test_a_question_is_answered_with_a_text(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.bring_about("status of 409")
    task = sent(agents, inbound, "ask")["id"]
    panel.show(f"tasks/{task}")
    panel.find(".question", "Which city?")
    panel.button(panel.t("overview.answer"))
    panel.find(".question .errors", panel.t("form.required"))
    panel.screenshot(f"task-question-{panel.view}")
    axe_clean(panel)

    panel.fill('.question input[name="text"]', "Oslo")
    panel.press(Keys.ENTER)
    panel.find('.notice.done[role="status"]', task)
    becomes(panel, "TASK_STATE_COMPLETED")
    panel.find('[data-artifact="result"]', "Sunny in Oslo")
    said = [(each.get_attribute("data-role"), panel.text(each)) for each in panel.all(".message")]
    assert [role for role, _ in said] == ["user", "agent", "user"]
    assert "Oslo" in said[-1][1]


@in_both_languages
def test_a_question_with_options_is_answered_by_a_button(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    task = sent(agents, inbound, "hostage")["id"]
    panel.show(f"tasks/{task}")
    options = panel.find(".options")
    assert len(panel.all("button", within=options)) == 2
    panel.button("b", within=options)
    becomes(panel, "TASK_STATE_COMPLETED")
    panel.find('[data-artifact="result"]', "b")
    assert panel.script("return window.hacked") is None


def test_what_another_answers_is_seen_here(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    task = sent(agents, inbound, "ask")
    panel.show(f"tasks/{task['id']}")
    panel.find(".question")
    agents.answer(inbound, task, "Bergen")
    panel.find('[data-artifact="result"]', "Sunny in Bergen")
    panel.gone(".question")
    panel.find(".messages", "Bergen")


@in_both_languages
def test_each_artifact_is_shown_as_what_it_is(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    task = sent(agents, inbound, "rich")["id"]
    panel.show(f"tasks/{task}")
    text = panel.find('[data-artifact="text"]')
    assert panel.text(panel.find("strong", within=text)) == "bold"
    assert [panel.text(each) for each in panel.all("td", within=text)] == ["1", "2"]
    assert "Oslo" in panel.text(panel.find('[data-artifact="data"] .tree'))
    picture = panel.find('[data-artifact="image"] img')
    assert str(picture.get_attribute("src")).startswith("data:image/png;base64,")
    panel.until(lambda: picture.get_property("naturalWidth"), "the picture")
    file = panel.text('[data-artifact="file"]')
    assert all(told in file for told in ("report.csv", "text/csv", "8", "The figures"))
    link = panel.find('[data-artifact="link"] a')
    assert (link.get_attribute("href"), link.get_attribute("rel")) == (
        "https://example.org/more.pdf",
        "noopener noreferrer",
    )


def test_a_text_is_shown_as_it_was_written(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.show(f"tasks/{sent(agents, inbound, 'rich')['id']}")
    panel.button(panel.t("tasks.raw"))
    assert "with **bold**, `code` and [a link]" in panel.text('[data-artifact="text"] pre')
    pressed = panel.find('button[aria-pressed="true"]')
    pressed.click()
    panel.find('[data-artifact="text"] strong')


def test_a_file_is_saved_as_it_came(panel: Panel, agents: DaemonProcess, inbound: str, tmp_path: Path) -> None:
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    panel.driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    panel.show(f"tasks/{sent(agents, inbound, 'rich')['id']}")
    panel.click('[data-artifact="file"] button')
    saved = tmp_path / "report.csv"
    panel.until(saved.exists, "the file")
    assert saved.read_bytes() == b"a,b\n1,2\n"


def test_of_ten_megabytes_of_text_the_beginning_is_shown(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.show(f"tasks/{sent(agents, inbound, 'large')['id']}")
    words = panel.find('[data-artifact="words"]')
    before = len(panel.text(words))
    assert before < 10_000
    panel.button(panel.t("text.more"), within=words)
    panel.until(lambda: len(panel.text(words)) > 2 * before, "more of it")


def test_a_task_that_failed_says_why(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.show(f"tasks/{sent(agents, inbound, 'fail')['id']}")
    assert state(panel) == "TASK_STATE_FAILED"
    panel.find(f'[aria-label="{panel.t("tasks.error")}"]', "Out of paper")
    panel.show(f"tasks/{sent(agents, inbound, 'reject')['id']}")
    panel.find(f'[aria-label="{panel.t("tasks.error")}"]', "Not today")


def test_what_the_agent_adds_is_readable(
    launch: Callable[..., DaemonProcess], open_panel: Callable[..., Panel]
) -> None:
    daemon = launch(plugin=USAGE)
    task = daemon.send(daemon.create_inbound(preset="costly"), "x", metadata={"skill": "costly"})["id"]
    panel = open_panel(daemon, route=f"tasks/{task}")
    told = panel.text(panel.find("section.card", panel.t("tasks.metadata")))
    for each in ("tasks.usage.inputTokens", "tasks.usage.outputTokens", "tasks.stop.max_tokens"):
        assert panel.t(each) in told
    assert "1,200" in told
    assert "model" in told
    assert "hits" in told


@in_both_languages
def test_an_unknown_task_says_so(panel: Panel) -> None:
    panel.bring_about("status of 404")
    panel.show("tasks/no-such-task")
    panel.find(".empty", panel.t("tasks.unknown"))
    assert "no-such-task" in panel.text("main")
    panel.button(panel.t("tasks.all"))
    panel.find('main[data-page="tasks"] h1', panel.t("tasks.title"))


@pytest.mark.parametrize("skill", ["chat", "ask"])
def test_a_task_that_is_deleted_meanwhile_says_so(panel: Panel, agents: DaemonProcess, skill: str) -> None:
    panel.bring_about("status of 404")
    short_lived = agents.create_inbound(name="Short-lived", preset="pages")
    task = sent(agents, short_lived, skill)["id"]
    panel.show(f"tasks/{task}")
    panel.find("main header .state")
    agents.act("inbound.remove", id=short_lived)
    panel.find(".notice", panel.t("tasks.gone"))
    panel.gone(".question")


def test_a_task_that_is_deleted_for_its_age_says_so(
    launch: Callable[..., DaemonProcess], open_panel: Callable[..., Panel]
) -> None:
    daemon = launch(config="[store]\nretention_days = 0.00015\n")  # some thirteen seconds
    task = daemon.send(daemon.create_inbound(), "hello")["id"]
    panel = open_panel(daemon, route=f"tasks/{task}")
    panel.bring_about("status of 404")
    becomes(panel, "TASK_STATE_COMPLETED")
    panel.find(".notice", panel.t("tasks.gone"))


def test_the_other_tasks_of_a_context_are_a_press_away(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    one = sent(agents, inbound, "chat")
    two = sent(agents, inbound, "chat", contextId=one["contextId"])
    panel.show(f"tasks/{one['id']}")
    panel.button(panel.t("tasks.context.tasks"))
    panel.until(lambda: set(rows(panel)) == {one["id"], two["id"]}, "both tasks")


def test_the_way_back_leads_to_where_the_task_was_found(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    task = sent(agents, inbound, "fail")["id"]
    panel.show("tasks?state=FAILED")
    panel.click(LINKS.format(task))
    becomes(panel, "TASK_STATE_FAILED")
    panel.button(panel.t("tasks.all"))
    rows(panel)
    assert Select(panel.find('select[name="state"]')).first_selected_option.get_attribute("value") == "FAILED"


def test_a_task_is_found_and_canceled_with_the_keyboard_alone(
    panel: Panel, agents: DaemonProcess, inbound: str
) -> None:
    task = begun(agents, inbound, "by hand")
    panel.show("tasks?state=WORKING")
    rows(panel)
    _tab_to(panel, lambda: task in str(panel.focused().get_attribute("href")))
    panel.press(Keys.ENTER)
    becomes(panel, "TASK_STATE_WORKING")
    _tab_to(panel, lambda: panel.text(panel.focused()) == panel.t("tasks.cancel"))
    panel.press(Keys.ENTER)
    panel.find("dialog[open]")
    _tab_to(panel, lambda: panel.text(panel.focused()) == panel.t("tasks.cancel"))
    panel.press(Keys.ENTER)
    becomes(panel, "TASK_STATE_CANCELED")


def _tab_to(panel: Panel, is_there: Callable[[], bool]) -> None:
    for _ in range(60):
        panel.tab()
        if is_there():
            return
    raise AssertionError("the focus never came there")
