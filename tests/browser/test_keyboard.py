"""The panel without a mouse."""

from collections.abc import Callable

import pytest
from selenium.webdriver import Keys

from tests.browser.chromium import View
from tests.browser.furnish import ROUTES, Furnished
from tests.browser.keyboard import assert_modal, press_on, tab_through
from tests.browser.panel import Panel
from tests.browser.views import at_both_widths


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
@pytest.mark.parametrize("route", ROUTES)
def test_tab_stops_at_everything_in_its_order_and_is_seen_there(
    open_panel: Callable[..., Panel], furnished: Furnished, route: str, phone: bool
) -> None:
    panel = open_panel(furnished.daemon, view=View(phone=phone), route=furnished.routes[route])
    places, unseen = tab_through(panel)
    assert places == list(range(panel.script("return window.__stops.length")))
    assert unseen == []


@at_both_widths
def test_the_first_stop_leads_past_the_navigation(panel: Panel) -> None:
    link = panel.tab()
    assert link.is_displayed()
    assert panel.script("return arguments[0].getBoundingClientRect().top >= 0", link)
    assert panel.text(link) == panel.t("app.skip")
    panel.press(Keys.ENTER)
    panel.until(lambda: panel.focused().tag_name == "main", "the focus on the content")
    assert panel.script("return location.hash") == "#/overview"
    panel.tab()
    assert panel.script("return document.activeElement === document.body || !!document.activeElement.closest('main')")


def test_another_page_begins_at_its_heading(panel: Panel) -> None:
    press_on(panel, "nav a[href='#/tasks']")
    panel.find("main[data-page=tasks]")
    panel.until(lambda: panel.focused().tag_name == "h1", "the focus on the heading")


def test_a_dialog_keeps_the_focus_and_gives_it_back(open_panel: Callable[..., Panel], furnished: Furnished) -> None:
    panel = open_panel(furnished.daemon, route="sessions")
    assert_modal(panel, lambda: press_on(panel, "main [data-id] button", panel.t("sessions.close")))
