"""A page without a mouse: where the focus goes, whether it is seen, and that a dialog keeps it."""

from collections.abc import Callable

from selenium.webdriver import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.browser.panel import Panel

#: keeps everything that Tab should stop at, in its order; returns how much that is
FOCUSABLE = """
const css = 'a[href], button, input, select, textarea, summary, [tabindex]';
window.__stops = [...(arguments[0] ?? document).querySelectorAll(css)].filter(each =>
    each.tabIndex >= 0 && !each.disabled && each.checkVisibility({visibilityProperty: true}) && !each.closest('[inert]')
    && !(each.type === 'radio' && !each.checked && document.querySelector(`input[name="${each.name}"]:checked`)));
return window.__stops.length;
"""
#: which of these has the focus, and whether that is seen: -1 is the page itself, -2 something else
STOP = """
const at = document.activeElement;
const place = at === document.body ? -1 : window.__stops.indexOf(at);
const look = getComputedStyle(at);
const ring = (look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) > 0) || look.boxShadow !== 'none';
const box = at.getClientRects()[0] ?? at.getBoundingClientRect();
const [x, y] = [Math.max(box.left, 0) + Math.min(box.width, 20) / 2, box.top + Math.min(box.height, 20) / 2];
const top = document.elementFromPoint(x, y);
const open = top !== null && (at.contains(top) || top.contains(at));
return {place: place === -1 && at !== document.body ? -2 : place, seen: ring && open, what: at.outerHTML.slice(0, 200)};
"""
IN_DIALOG = "return document.activeElement === document.body || !!document.activeElement.closest('dialog[open]')"


def tab_through(panel: Panel) -> tuple[list[int], list[str]]:
    """The stops that Tab makes from the page's top to its end, by their places in the page, and those where nobody
    sees that they have the focus.
    """
    count = panel.script(FOCUSABLE)
    places: list[int] = []
    unseen: list[str] = []
    # what scrolls is a stop of the browser's own
    for _ in range(2 * count + 10):
        panel.press(Keys.TAB)
        stop = panel.script(STOP)
        if stop["place"] == -1 or stop["place"] in places:
            break
        if stop["place"] >= 0:
            places.append(stop["place"])
        if not stop["seen"]:
            unseen.append(stop["what"])
    return places, unseen


def assert_modal(panel: Panel, open_it: Callable[[], WebElement]) -> None:
    """That a dialog takes the focus and keeps it, and that Escape closes it and gives it back. `open_it` opens it by
    the keyboard, and returns what had the focus before.
    """
    opener = open_it()
    dialog = panel.find("dialog[open]")
    assert panel.script("return arguments[0].matches(':modal')", dialog)
    panel.until(lambda: panel.script("return arguments[0].contains(document.activeElement)", dialog), "the focus in it")
    count = panel.script(FOCUSABLE, dialog)
    for back in (False, True):
        for _ in range(count + 2):
            panel.tab(back=back)
            assert panel.script(IN_DIALOG), panel.focused().get_attribute("outerHTML")
    panel.press(Keys.ESCAPE)
    panel.gone("dialog[open]")
    panel.until(lambda: panel.focused() == opener, "the focus where it was before")


def press_on(panel: Panel, css: str, text: str | None = None) -> WebElement:
    """Enter on something; returns it."""
    element = panel.find(css, text)
    panel.script("arguments[0].focus()", element)
    panel.press(Keys.ENTER)
    return element
