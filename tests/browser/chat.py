"""The chat of the inbound page: to say something, and to find what came of it."""

from selenium.webdriver import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from tests.browser.panel import Panel


def say(panel: Panel, text: str, skill: str | None = None) -> None:
    """Type it, and send it with Enter."""
    if skill is not None:
        Select(panel.find('select[name="skill"]')).select_by_visible_text(skill)
    panel.fill('.composer [name="text"]', text)
    panel.press(Keys.ENTER)


def turn(panel: Panel, number: int = 1, phase: str = "rest") -> WebElement:
    """A turn, once it is in this phase."""
    return panel.find(f'.turn:nth-child({number})[data-phase="{phase}"]')


def state_of(panel: Panel, one: WebElement) -> str | None:
    return panel.find(".came-head [data-state]", within=one).get_attribute("data-state")
