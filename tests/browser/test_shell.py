"""What surrounds every page: languages, themes, the daemon that is gone and back, and what the pages may do."""

from collections.abc import Callable
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.browser.chromium import View
from tests.browser.furnish import keep_its_port
from tests.browser.panel import Panel
from tests.browser.views import CHINESE, in_both_languages, seen_as
from tests.daemon import DaemonProcess

PAPER = "return getComputedStyle(document.documentElement).backgroundColor"
HEADINGS = {"en": "Overview", "zh": "概览"}
UNREACHABLE = r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE"
#: what somebody could try who has got something into a page: each in a page's own words
ATTEMPTS = (
    "put('script').textContent = 'window.hacked = 1'",
    "put('script').src = 'data:text/javascript,window.hacked=1'",
    "put('div').innerHTML = '<button id=bad onclick=\"window.hacked = 1\">'; bad.click()",
    "const a = put('a'); a.href = 'javascript:window.hacked = 1'; a.click()",
    "setTimeout('window.hacked = 1')",
    "put('style').textContent = '* { display: none }'",
    "const form = put('form'); form.action = '/a2a/api'; form.submit()",
    "fetch('https://other.example/').catch(() => 0)",
    "new WebSocket('wss://other.example/').onerror = () => 0",
)
#: where the policy is asked by a call, it is the call that fails
TRY = """
const put = name => document.body.appendChild(document.createElement(name));
try { %s } catch (error) { if (error.name !== 'EvalError') throw error }
"""


# languages


@in_both_languages
def test_the_panel_speaks_the_browsers_language(panel: Panel) -> None:
    assert panel.text("h1") == HEADINGS[panel.view.code]


@seen_as(View("fr-FR"))
def test_a_language_that_it_does_not_have_is_english(panel: Panel) -> None:
    assert panel.text("h1") == HEADINGS["en"]


@in_both_languages
def test_a_language_that_was_chosen_stays(panel: Panel) -> None:
    other = {"en": "zh", "zh": "en"}[panel.view.code]
    panel.choose("language", other)
    panel.find("h1", HEADINGS[other])
    assert panel.script("return document.documentElement.lang").startswith(other)
    panel.open()
    assert panel.text("h1") == HEADINGS[other]
    panel.choose("language", panel.view.code)
    panel.find("h1", HEADINGS[panel.view.code])


def test_another_language_leaves_what_was_typed(panel: Panel) -> None:
    panel.show("inbound/new").fill('[name="description"]', "Half a sentence")
    panel.choose("language", "zh")
    panel.find("h1", panel.t("inbound.new"))
    assert panel.find('[name="description"]').get_property("value") == "Half a sentence"


# themes


@seen_as(View(), View(dark=True))
def test_a_theme_that_was_chosen_goes_before_the_systems_and_stays(panel: Panel) -> None:
    before = panel.script(PAPER)
    panel.choose("theme", "light" if panel.view.dark else "dark")
    panel.until(lambda: panel.script(PAPER) != before, "another background")
    chosen = panel.script(PAPER)
    panel.open("tasks")
    assert panel.script(PAPER) == chosen
    panel.choose("theme", "auto")
    panel.until(lambda: panel.script(PAPER) == before, "the system's background")


# where things are


def test_the_root_leads_to_the_panel(panel: Panel) -> None:
    panel.driver.get(f"{panel.daemon.control}/")
    panel.find("main[data-page=overview] h1")
    assert panel.driver.current_url.startswith(panel.url)


def test_the_history_goes_back_through_the_pages(panel: Panel) -> None:
    panel.show("inbound").show("tasks")
    panel.driver.back()
    panel.find("main[data-page=inbound]")
    assert panel.find("nav [aria-current=page]").get_attribute("href") == f"{panel.url}#/inbound"


@pytest.mark.parametrize(
    "route", ["nowhere", "tasks/%E0%A4%A", "inbound/..%2F..%2Fetc", "%3Cscript%3E", "overview?x=%00"]
)
def test_an_address_that_leads_nowhere_does_no_harm(panel: Panel, route: str) -> None:
    panel.bring_about("status of 40[04]")
    panel.driver.get(f"{panel.url}#/{route}")
    assert panel.text("main h1").strip()


# the daemon is gone, and back


@in_both_languages
def test_a_daemon_that_is_gone_is_said_and_one_that_is_back_is_found(
    open_panel: Callable[..., Panel], launch: Callable[..., DaemonProcess], panel: Panel
) -> None:
    daemon = launch()
    keep_its_port(daemon)
    daemon.create_inbound(name="before")
    panel = open_panel(daemon, view=panel.view, route="inbound")
    panel.find("main", "before")
    panel.script("window.same = true")
    panel.bring_about(UNREACHABLE)
    assert daemon.terminate() == 0
    panel.find('[role="alert"][data-banner="offline"]', panel.t("live.banner"))
    panel.find("main", "before")  # what is known is still there
    panel.screenshot(f"offline-{panel.view}")
    daemon.start()
    panel.gone('[data-banner="offline"]')
    daemon.create_inbound(name="afterwards")
    panel.find("main", "afterwards")
    assert panel.script("return window.same")


def test_a_page_that_is_opened_while_the_daemon_goes_recovers(
    open_panel: Callable[..., Panel], daemon: DaemonProcess
) -> None:
    keep_its_port(daemon)
    panel = open_panel(daemon)
    panel.bring_about(UNREACHABLE)
    daemon.kill()
    panel.find('[data-banner="offline"]')
    panel.script("location.hash = '#/tasks'")
    panel.find("main[data-page=tasks] h1")
    daemon.start()
    panel.gone('[data-banner="offline"]')
    panel.find("main", panel.t("tasks.none"))


def test_what_happens_is_shown_without_asking_for_it(panel: Panel, agents: DaemonProcess) -> None:
    made = agents.create_inbound(name="Just made")
    panel.show("inbound").row(made)
    agents.act("inbound.remove", id=made)
    panel.gone(f'[data-id="{made}"]')


# what the pages may do


def test_the_policy_lets_only_the_panels_own_files_in(panel: Panel) -> None:
    files = [url for url in dict.fromkeys(panel.requests()) if url.startswith(panel.url)]
    assert len(files) > 10
    for url in files:
        with build_opener(ProxyHandler({})).open(url.partition("#")[0]) as answer:
            policy = answer.headers["Content-Security-Policy"]
        rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
        assert rules["default-src"] == "'none'"
        assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
        assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert "unsafe" not in policy


def test_what_is_not_in_the_panels_files_does_not_run(panel: Panel) -> None:
    panel.bring_about("[Cc]ontent [Ss]ecurity [Pp]olicy", "^refused by the policy")
    for attempt in ATTEMPTS:
        before = len(panel.violations())
        panel.script(TRY % attempt)
        panel.until(lambda: len(panel.violations()) > before, attempt)  # noqa: B023 - it is waited for here
        assert panel.script("return window.hacked") is None
    panel.show("tasks")


@seen_as(View(CHINESE, phone=True))
def test_nothing_is_asked_of_another_host(panel: Panel) -> None:
    for page in ("inbound", "outbound", "tasks", "sessions"):
        panel.show(page)
    hosts = {urlsplit(url).netloc for url in panel.requests() if urlsplit(url).scheme.startswith("http")}
    assert hosts == {urlsplit(panel.daemon.control).netloc}
