"""Debian's Chromium and its driver: one browser for a whole run, each test with a page that remembers nothing."""

import contextlib
import os
import shutil
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from urllib3.exceptions import HTTPError

CHROMIUM = Path("/usr/bin/chromium")
CHROMEDRIVER = Path("/usr/bin/chromedriver")
#: the longest that a page may take to load and a script to run, in seconds: past it the browser hangs
HANG = 60
FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-proxy-server",
    # whatever a page asks for elsewhere is seen by the tests, and goes nowhere
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
)


@dataclass(frozen=True)
class View:
    """How a page is looked at: the browser's language, the window, the system's colours."""

    language: str = "en-US"
    phone: bool = False
    dark: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in CSS pixels."""
        return (360, 740) if self.phone else (1280, 800)

    @property
    def code(self) -> str:
        """The panel's own name of the language: en or zh."""
        return self.language.partition("-")[0]

    def __str__(self) -> str:
        return "-".join((self.code, "phone" if self.phone else "desktop", *(["dark"] if self.dark else [])))


def need_chromium() -> None:
    """Skip where the browser or its driver is not installed."""
    for program, package in ((CHROMIUM, "chromium"), (CHROMEDRIVER, "chromium-driver")):
        if not program.exists():
            pytest.skip(f"the panel's tests need {program} (Debian's {package})")


class Browser:
    """Starts when it is first needed, and again with a new profile when it has died."""

    def __init__(self) -> None:
        self._driver: Chrome | None = None
        self._profile = ""

    def fresh(self, view: View) -> Chrome:
        """A blank page that shows things like this, with nothing stored and nothing in the logs."""
        try:
            return self._cleared(self._running(), view)
        except (WebDriverException, HTTPError, OSError):
            self.close()
            return self._cleared(self._running(), view)

    def _running(self) -> Chrome:
        if self._driver is None:
            self._profile = tempfile.mkdtemp(prefix="a2ad-chromium-")
            # a session of its own, so that what it leaves behind can be ended as a whole
            service = Service(str(CHROMEDRIVER), popen_kw={"start_new_session": True})
            with pytest.MonkeyPatch.context() as patch:  # whatever the machine's proxy is, not through it
                patch.setenv("no_proxy", "localhost")
                self._driver = Chrome(options=_options(self._profile), service=service)
            self._driver.set_page_load_timeout(HANG)
            self._driver.set_script_timeout(HANG)
            self._driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH_VIOLATIONS})
        return self._driver

    @staticmethod
    def _cleared(driver: Chrome, view: View) -> Chrome:
        with contextlib.suppress(WebDriverException):  # an alert that a test has left open
            driver.switch_to.alert.dismiss()
        for window in driver.window_handles[1:]:
            driver.switch_to.window(window)
            driver.close()
        driver.switch_to.window(driver.window_handles[0])
        address = urlsplit(driver.current_url)
        driver.get("about:blank")
        if address.scheme == "http":
            origin = f"{address.scheme}://{address.netloc}"
            driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        look(driver, view)
        for log in ("browser", "performance"):
            driver.get_log(log)
        return driver

    def close(self) -> None:
        """End the browser with all of its processes, and forget its profile."""
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(WebDriverException, HTTPError, OSError):
                driver.quit()
            driver.service.stop()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.service.process.pid, signal.SIGKILL)
        shutil.rmtree(self._profile, ignore_errors=True)


#: what the page's policy refuses is reported to the page alone where it is no script: kept until it is asked for
WATCH_VIOLATIONS = """
addEventListener('securitypolicyviolation', event => {
    (window.__violations ??= []).push(`${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`);
}, true);
"""


def look(driver: Chrome, view: View) -> None:
    """Show what is open, and what is opened next, like this."""
    resize(driver, view)
    features = {"prefers-color-scheme": "dark" if view.dark else "light", "prefers-reduced-motion": "reduce"}
    wanted = [{"name": name, "value": value} for name, value in features.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
    agent = driver.execute_cdp_cmd("Browser.getVersion", {})["userAgent"]
    language = {"userAgent": agent, "acceptLanguage": view.language}
    driver.execute_cdp_cmd("Emulation.setUserAgentOverride", language)
    driver.execute_cdp_cmd("Emulation.setLocaleOverride", {})
    driver.execute_cdp_cmd("Emulation.setLocaleOverride", {"locale": view.language})


def resize(driver: Chrome, view: View, height: int | None = None) -> None:
    """The window as in the view, or as high as this."""
    metrics = {"width": view.size[0], "height": height or view.size[1], "deviceScaleFactor": 1, "mobile": view.phone}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def _options(profile: str) -> ChromeOptions:
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    if os.geteuid() == 0:  # its sandbox does not run as root
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", {"enableNetwork": True, "enablePage": False})
    options.unhandled_prompt_behavior = "ignore"
    return options
