"""The panel as somebody who looks at it has it: what is on the page, and what the page did behind it."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.browser.chromium import View, look, resize
from tests.daemon import DaemonProcess

Found = TypeVar("Found")
#: for whatever a page does, in seconds: a bound that only a fault passes
WITHIN = 20.0
#: of the navigation, in its order
PAGES = ("overview", "inbound", "outbound", "tasks", "sessions")
#: of a screenshot, from its top down: Chromium draws nothing that is much taller
MOST_PIXELS = 8000
HAS_ARRIVED = """
const main = document.querySelector(`main[data-page="${arguments[1]}"]`);
return location.hash === arguments[0] && main?.querySelector('h1')
    && !main.querySelector('[aria-busy=true], p.muted[role=status]');
"""
BUTTON = """
const called = each => (each.getAttribute('aria-label') ?? each.innerText).trim() === arguments[1];
return [...(arguments[0] ?? document).querySelectorAll('button, summary, a[href]')]
    .find(each => each.checkVisibility() && called(each));
"""
TEXTS = "import(arguments[0]).then(texts => arguments[1](texts.default))"
TRANSLATE = "import(arguments[0]).then(i18n => i18n.t(arguments[1], arguments[2])).then(arguments[3])"
LOCAL_SCHEMES = {"about", "blob", "chrome-error", "data"}


class Panel:
    """The panel of a daemon in a browser. What waits, waits for a condition; `AssertionError` says which one."""

    def __init__(self, driver: Chrome, daemon: DaemonProcess, view: View, screenshots: Path) -> None:
        self.driver = driver
        self.daemon = daemon
        self.view = view
        self.url = f"{daemon.control}/a2a/panel/"
        self._screenshots = screenshots
        self._brought_about: list[str] = []
        self._console: list[dict[str, Any]] = []
        self._asked: list[str] = []
        self._violations: list[str] = []

    # to open

    def open(self, route: str = "overview") -> "Panel":
        """Load the panel at a route (`tasks`, `inbound/demo-1`), and wait for its page."""
        self._keep_violations()
        self.driver.get("about:blank")  # a change of the fragment alone loads nothing
        self.driver.get(f"{self.url}#/{route}")
        return self._arrived(route)

    def show(self, route: str) -> "Panel":
        """Go to a route within the page that is open, as a link would."""
        self.script("location.hash = arguments[0]", f"#/{route}")
        return self._arrived(route)

    def _arrived(self, route: str) -> "Panel":
        self.until(lambda: self.script(HAS_ARRIVED, f"#/{route}", re.split(r"[/?]", route)[0]), f"the page {route}")
        return self

    def texts(self, code: str) -> dict[str, str]:
        """All texts of the panel in a language, by their keys."""
        return dict(self.driver.execute_async_script(TEXTS, f"{self.url}lib/{code}.js"))

    def t(self, key: str, **params: Any) -> str:
        """A text of the panel's, in the language that it is in now."""
        return str(self.driver.execute_async_script(TRANSLATE, f"{self.url}lib/i18n.js", key, params))

    def look(self, view: View) -> "Panel":
        """Turn the window, or the system's colours, under the open page."""
        self.view = view
        look(self.driver, view)
        return self

    def choose(self, name: str, value: str) -> None:
        """One of the options of a `<select>` with this name: `language`, `theme`."""
        Select(self.find(f'select[name="{name}"]')).select_by_value(value)

    # what is there

    def until(self, condition: Callable[[], Found], what: str) -> Found:
        """What the condition gives as soon as that is true of it."""
        waiting = WebDriverWait(self.driver, WITHIN, 0.05, [StaleElementReferenceException])
        try:
            return waiting.until(lambda _: condition())
        except TimeoutException:
            raise AssertionError(f"{what}: not within {WITHIN:g} s\n{self.describe()}") from None

    def all(self, css: str, *, within: WebElement | None = None) -> list[WebElement]:
        """What is visible of a selector now."""
        found = (within or self.driver).find_elements("css selector", css)
        return [element for element in found if element.is_displayed()]

    def find(self, css: str, text: str | None = None, *, within: WebElement | None = None) -> WebElement:
        """The first visible one of a selector, whose text contains this one; waited for."""

        def look_for() -> WebElement | None:
            found = self.all(css, within=within)
            return next((each for each in found if text is None or text in self.text(each)), None)

        return self.until(look_for, f"{css} with {text!r}" if text else css)  # type: ignore[return-value]

    def gone(self, css: str) -> None:
        """Wait until nothing of a selector is visible."""
        self.until(lambda: not self.all(css), f"no {css}")

    def row(self, row_id: str) -> WebElement:
        """The row of an inbound, a task …; waited for."""
        return self.find(f'[data-id="{row_id}"]')

    def click(self, css: str, text: str | None = None, *, within: WebElement | None = None) -> None:
        """Click on what `find` finds, also where the page is just drawing it anew."""

        def try_it() -> bool:
            self._click(self.find(css, text, within=within))
            return True

        self.until(try_it, f"a click on {css}")

    def button(self, label: str, *, within: WebElement | None = None) -> None:
        """Click on the button that is called this, by its text or its `aria-label`."""

        def try_it() -> bool:
            found = self.script(BUTTON, within, label)
            if found is None or not found.is_enabled():
                return False
            self._click(found)
            return True

        self.until(try_it, f"a button {label!r}")

    def _click(self, element: WebElement) -> None:
        """In the middle of the window: at a phone's width the navigation lies over what is at its lower edge."""
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def fill(self, css: str, text: str, *, within: WebElement | None = None) -> None:
        """Put this text into an input or a text area in the place of what it has."""
        field = self.find(css, within=within)
        field.clear()
        field.send_keys(text)

    def text(self, element: WebElement | str = "body") -> str:
        """As it is read on the page, with the attributes that are read to those who do not see it left out."""
        if isinstance(element, str):
            element = self.find(element)
        return str(self.script("return arguments[0].innerText", element) or "")

    def script(self, source: str, *arguments: Any) -> Any:
        """Run a function's body in the page; its policy holds for what the page does, not for this."""
        return self.driver.execute_script(source, *arguments)

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus."""
        actions = ActionChains(self.driver, duration=0)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def tab(self, *, back: bool = False) -> WebElement:
        """Move the focus on; returns what has it then."""
        if back:
            ActionChains(self.driver, duration=0).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
        else:
            self.press(Keys.TAB)
        return self.focused()

    def focused(self) -> WebElement:
        return self.driver.switch_to.active_element

    def screenshot(self, name: str) -> Path:
        """The page from its top to its end, as `<name>.png` among the run's screenshots."""
        height = self.script("return Math.max(innerHeight, document.documentElement.scrollHeight)")
        # a window as high as the page: what is fixed to its end stands there
        resize(self.driver, self.view, min(height, MOST_PIXELS))
        self._screenshots.mkdir(parents=True, exist_ok=True)
        path = self._screenshots / f"{name}.png"
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", {})["data"]))
        resize(self.driver, self.view)
        return path

    # what the page did

    def bring_about(self, *patterns: str) -> None:
        """This test makes the console say something that matches these: it is no fault then. Chromium itself reports
        every answer of 400 and above there (`status of 409`), and a daemon that is gone (`ERR_CONNECTION_REFUSED`).
        """
        self._brought_about += patterns

    def forget(self) -> None:
        """What the page has done so far was meant, whatever it is."""
        self.faults()
        self._console, self._asked, self._violations = [], [], []

    def faults(self) -> list[str]:
        """Errors on the console, breaches of the page's policy, and requests that went past the daemon."""
        self._read_logs()
        self._keep_violations()
        found = [entry["message"] for entry in self._console if entry["level"] == "SEVERE"]
        found += [f"refused by the policy: {each}" for each in self._violations]
        found = [each for each in found if not any(re.search(pattern, each) for pattern in self._brought_about)]
        return found + [f"a request to another host: {url}" for url in self.requests() if not self._is_ours(url)]

    def violations(self) -> list[str]:
        """What the page's policy has refused: the kind, and what it was."""
        self._keep_violations()
        return self._violations

    def copied(self) -> str:
        """What was copied last."""
        wanted = {"origin": self.daemon.control, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
        self.driver.execute_cdp_cmd("Browser.grantPermissions", wanted)
        return str(self.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])"))

    def requests(self) -> list[str]:
        """The addresses of everything that was asked for since the test began, `data:` and `blob:` included."""
        self._read_logs()
        return self._asked

    def _is_ours(self, url: str) -> bool:
        return urlsplit(url).scheme in LOCAL_SCHEMES or url.startswith(f"{self.daemon.control}/")

    def _read_logs(self) -> None:
        self._console += self.driver.get_log("browser")
        for entry in self.driver.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                self._asked.append(event["params"]["request"]["url"])
            elif event["method"] in {"Network.webSocketCreated", "Network.webTransportCreated"}:
                self._asked.append(event["params"]["url"])

    def _keep_violations(self) -> None:
        """Those of the page that is open, before it is left."""
        self._violations += self.script("return (window.__violations ?? []).splice(0)")

    def describe(self) -> str:
        """Where the page is and what stands on it, for the message of a test that failed."""
        text = self.script("return document.body?.innerText ?? ''")
        return f"{self.driver.current_url}\n{text[:2000]}"
