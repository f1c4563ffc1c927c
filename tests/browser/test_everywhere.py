"""What holds for every page of the panel, in each language, width and theme: a page that is added has it, too."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.browser.axe import axe_faults
from tests.browser.chromium import View
from tests.browser.furnish import Furnished
from tests.browser.panel import PAGES, Panel
from tests.browser.views import CHINESE, ENGLISH, EVERY_VIEW

#: roles of what is used, and of what is read as one thing
NAMED = {"button", "checkbox", "combobox", "dialog", "image", "link", "listbox", "navigation", "radio", "searchbox"}
NAMED |= {"spinbutton", "switch", "tab", "tablist", "tabpanel", "textbox"}
OUTLINE = """
const shown = css => [...document.querySelectorAll(css)].filter(each => each.checkVisibility());
return {
    mains: shown('main').length, headings: shown('h1').length, first: shown('h1,h2,h3,h4,h5,h6')[0]?.localName,
    banners: shown('body header').filter(each => !each.closest('main, article, section')).length,
    navigations: shown('nav[aria-label]').filter(each => !each.closest('main')).length,
    language: document.documentElement.lang, title: document.title.trim() !== '',
};
"""
WELL_FORMED = {"mains": 1, "headings": 1, "first": "h1", "banners": 1, "navigations": 1, "title": True}
#: what reaches past the window and cannot be brought into it, and how wide the page is
WIDER = """
const held = each => each && each !== document.body
    && (getComputedStyle(each).overflowX !== 'visible' || held(each.parentElement));
const beyond = each => each.checkVisibility() && each.getBoundingClientRect().right > arguments[0] + 1
    && each.getBoundingClientRect().left >= 0 && !held(each.parentElement);
const width = Math.max(document.documentElement.scrollWidth, innerWidth);
const found = [...document.body.querySelectorAll('*')].filter(beyond).map(each => each.outerHTML.slice(0, 200));
return width > arguments[0] ? [`the page: ${width}`, ...found] : found;
"""
ONE_OF_EACH = pytest.mark.parametrize("view", [View(), View(CHINESE, phone=True)], ids=str)

Visits = Callable[[View], Iterator[tuple[str, Panel]]]


@pytest.fixture
def visits(open_panel: Callable[..., Panel], furnished: Furnished) -> Visits:
    """`visits(view)`: the panel at one route after the other, each with its name."""

    def one_by_one(view: View) -> Iterator[tuple[str, Panel]]:
        panel = open_panel(furnished.daemon, view=view)
        for route, where in furnished.routes.items():
            yield route, panel.show(where)

    return one_by_one


def names(panel: Panel) -> list[tuple[str, str]]:
    """The role and the name of everything on the page that is used, as a screen reader is told them."""
    nodes: list[dict[str, Any]] = panel.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    told = [(node["role"]["value"], node["name"]["value"].strip()) for node in nodes if "name" in node]
    return [(role, name) for role, name in told if role in NAMED]


@pytest.mark.parametrize("view", EVERY_VIEW, ids=str)
def test_every_page_is_seen_without_a_fault(visits: Visits, view: View) -> None:
    for route, panel in visits(view):
        panel.screenshot(f"{route.replace('/', '-')}-{view}")
        assert panel.faults() == []


@ONE_OF_EACH
def test_axe_finds_nothing_serious(visits: Visits, view: View) -> None:
    assert {route: found for route, panel in visits(view) if (found := axe_faults(panel))} == {}


@ONE_OF_EACH
def test_a_page_has_its_landmarks_its_title_and_one_first_heading(visits: Visits, view: View) -> None:
    wanted = WELL_FORMED | {"language": {ENGLISH: "en", CHINESE: "zh-CN"}[view.language]}
    assert {route: panel.script(OUTLINE) for route, panel in visits(view) if panel.script(OUTLINE) != wanted} == {}


@ONE_OF_EACH
def test_everything_that_is_used_has_a_name(visits: Visits, view: View) -> None:
    for route, panel in visits(view):
        found = names(panel)
        assert {"link", "navigation", "combobox"} <= {role for role, _ in found}
        assert (route, [role for role, name in found if not name]) == (route, [])


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_nothing_is_wider_than_a_phone(visits: Visits, language: str) -> None:
    view = View(language, phone=True)
    assert {route: found for route, panel in visits(view) if (found := panel.script(WIDER, view.size[0]))} == {}


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_no_text_is_missing(visits: Visits, language: str) -> None:
    """What has no text is shown by its key."""
    for route, panel in visits(View(language)):
        keys = set(panel.texts("en"))
        assert (route, keys & set(panel.text().split())) == (route, set())


def test_the_navigation_leads_to_every_page_that_is_tested_here(panel: Panel) -> None:
    links = [str(link.get_attribute("href")).partition("#/")[2] for link in panel.all("nav a[href^='#/']")]
    assert tuple(links) == PAGES


def test_both_languages_have_the_same_texts_with_the_same_gaps(panel: Panel) -> None:
    english, chinese = panel.texts("en"), panel.texts("zh")
    # Chinese has one form for every number
    assert {_counted(key) for key in chinese} == {_counted(key) for key in english}
    assert {key for key in english.keys() & chinese.keys() if _gaps(english[key]) != _gaps(chinese[key])} == set()


def _counted(key: str) -> str:
    return key.removesuffix(".one").removesuffix(".other")


def _gaps(text: str) -> set[str]:
    return {piece.partition("}")[0] for piece in text.split("{")[1:]}


def test_dark_and_light_are_two_looks_of_one_page(panel: Panel) -> None:
    paper = "return getComputedStyle(document.documentElement).backgroundColor"
    light = panel.script(paper)
    panel.look(replace(panel.view, dark=True))
    panel.until(lambda: panel.script(paper) != light, "another background")
