"""The outbound page: an agent is looked up, connected, and let go again; the daemon is connected to itself."""

from collections.abc import Callable
from typing import Any

from selenium.webdriver import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from tests.browser.axe import axe_clean
from tests.browser.panel import Panel
from tests.browser.views import in_both_languages, in_both_languages_at_both_widths
from tests.daemon import DaemonProcess

TOKEN = "s3cret-0f-the-rem0te"
NOWHERE = "http://127.0.0.1:9/a2a/nobody"


def _found(daemon: DaemonProcess, outbound_id: str) -> dict[str, Any]:
    """The connection in the snapshot; empty where it is not there."""
    return next((dict(each) for each in daemon.read("")["outbounds"] if each["id"] == outbound_id), {})


def card(panel: Panel, title: str, **gaps: Any) -> WebElement:
    """A part of the page, by its heading."""
    wanted = panel.t(title, **gaps)
    return panel.until(
        lambda: next((each for each in panel.all("main section.card") if panel.text(each).startswith(wanted)), None),
        f"a card {wanted!r}",
    )


def look_up(panel: Panel, url: str, token: str = "") -> None:
    panel.fill('.connect input[name="agentCardUrl"]', url)
    panel.fill('.connect input[name="token"]', token)
    panel.button(panel.t("outbound.discover"))


# to connect


@in_both_languages_at_both_widths
def test_an_agent_is_looked_up_and_connected(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.show("outbound")
    panel.button(panel.t("outbound.new"))
    look_up(panel, agents.endpoint(inbound), TOKEN)
    preview = panel.find(".preview", "Weather by city")
    assert agents.endpoint(inbound) in panel.text(preview)
    assert "rich" in panel.text(preview)
    panel.screenshot(f"outbound-preview-{panel.view}")
    axe_clean(panel)

    name = f"weather {panel.view}"
    panel.fill('.settle input[name="name"]', name)
    panel.fill('.settle input[name="timeoutMs"]', "120000")
    panel.find(".settle .hint", panel.t("outbound.timeout.hint", time="2").partition("2")[0])
    Select(panel.find('.settle select[name="preset"]')).select_by_visible_text("Pages")
    panel.button(panel.t("outbound.connect.do"))
    panel.find("main h1", name)
    panel.find('main header .state[data-state="connected"]')

    made = next(each for each in agents.read("")["outbounds"] if each["name"] == name)
    assert (made["timeoutMs"], made["preset"], made["tokenSet"]) == (120_000, "pages", True)
    assert panel.driver.current_url.endswith(f"#/outbound/{made['id']}")
    assert TOKEN not in panel.driver.page_source
    panel.show("outbound")
    assert panel.t("state.connected") in panel.text(panel.row(made["id"]))
    panel.screenshot(f"outbound-list-{panel.view}")
    agents.act("outbound.remove", id=made["id"])
    panel.gone(f'[data-id="{made["id"]}"]')


@in_both_languages
def test_what_is_not_there_says_so_and_can_be_set_up_all_the_same(panel: Panel, agents: DaemonProcess) -> None:
    panel.bring_about("status of 409")
    panel.show("outbound?new=1")
    look_up(panel, NOWHERE)
    panel.find('[data-field="agentCardUrl"] .errors', "cannot be reached")
    assert panel.focused().get_attribute("name") == "agentCardUrl"
    panel.button(panel.t("outbound.blind"))
    panel.fill('.settle input[name="name"]', "later")
    panel.button(panel.t("outbound.connect.do"))
    panel.find('main header .state[data-state="disabled"]')
    assert panel.t("outbound.card.none") in panel.text("main")
    made = next(each for each in agents.read("")["outbounds"] if each["name"] == "later")
    agents.act("outbound.remove", id=made["id"])


def test_fields_say_what_is_wrong_with_them(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.bring_about("status of 409")
    panel.show("outbound?new=1")
    look_up(panel, agents.endpoint(inbound))
    panel.fill('.settle input[name="name"]', "x")
    panel.press(Keys.BACKSPACE)
    panel.fill('.settle input[name="timeoutMs"]', "soon")
    panel.fill('.settle input[name="bearerTokenEnv"]', "no variable")
    panel.button(panel.t("outbound.connect.do"))
    panel.find('.settle [data-field="name"] .errors', panel.t("form.required"))
    panel.until(lambda: panel.focused().get_attribute("name") == "name", "the focus at the mistake")
    panel.fill('.settle input[name="name"]', "two words: too many")
    panel.button(panel.t("outbound.connect.do"))
    panel.find('.settle [data-field="timeoutMs"] .errors', "must be a whole number")
    panel.find('.settle [data-field="bearerTokenEnv"] .errors', "must be the name of a variable")
    panel.until(lambda: panel.focused().get_attribute("name") == "timeoutMs", "the focus at the first mistake")
    axe_clean(panel)
    assert agents.read("")["outbounds"] == []


# the list, and what can be done there


@in_both_languages
def test_a_connection_is_refreshed_disabled_and_enabled_from_the_list(
    panel: Panel, agents: DaemonProcess, inbound: str, connection: str
) -> None:
    panel.bring_about("status of 409")
    panel.show("outbound")
    row = panel.row(connection)
    assert panel.t("outbound.tools.of", tools=14, skills=14) in panel.text(row)
    panel.button(panel.t("outbound.refresh.of", name="weather"))
    panel.find(".notice.done", "refreshed")
    panel.button(panel.t("outbound.disable.of", name="weather"))
    panel.find(f'[data-id="{connection}"] .state[data-state="disabled"]')
    panel.find(".notice.done", "disabled")
    panel.button(panel.t("outbound.enable.of", name="weather"))
    panel.find(f'[data-id="{connection}"] .state[data-state="connected"]')

    agents.act("inbound.disable", id=inbound)
    panel.button(panel.t("outbound.refresh.of", name="weather"))
    panel.find('.notice.failed[role="alert"]', "there is no agent card")
    panel.find(f'[data-id="{connection}"] .row-error', "there is no agent card")
    agents.act("inbound.enable", id=inbound)
    panel.button(panel.t("outbound.refresh.of", name="weather"))
    panel.find(f'[data-id="{connection}"] .state[data-state="connected"]')


def test_without_connections_it_says_how_one_is_made(panel: Panel) -> None:
    panel.show("outbound")
    panel.find(".empty", panel.t("outbound.none.help"))


# one connection


@in_both_languages_at_both_widths
def test_a_connection_is_disabled_enabled_and_removed_once_one_is_sure(
    panel: Panel, agents: DaemonProcess, connection: str
) -> None:
    panel.show(f"outbound/{connection}")
    panel.button(panel.t("outbound.disable"))
    panel.find('main header .state[data-state="disabled"]')
    assert not panel.find(".call-form textarea").is_enabled()
    panel.button(panel.t("outbound.enable"))
    panel.find('main header .state[data-state="connected"]')
    panel.button(panel.t("outbound.refresh"))
    panel.find(".notice.done", "refreshed")

    panel.button(panel.t("outbound.remove"))
    dialog = panel.find("dialog[open]")
    assert panel.t("outbound.remove.lost") in panel.text(dialog)
    panel.screenshot(f"outbound-remove-{panel.view}")
    panel.press(Keys.ESCAPE)
    panel.gone("dialog[open]")
    assert _found(agents, connection)
    panel.button(panel.t("outbound.remove"))
    panel.button(panel.t("outbound.remove"), within=panel.find("dialog[open]"))
    panel.find("main h1", panel.t("outbound.title"))
    panel.gone(f'[data-id="{connection}"]')
    assert not _found(agents, connection)


@in_both_languages
def test_a_token_is_set_and_cleared_and_never_shown(panel: Panel, agents: DaemonProcess, connection: str) -> None:
    panel.bring_about("status of 409")
    panel.show(f"outbound/{connection}")
    part = card(panel, "outbound.token")
    panel.fill('input[name="token"]', "não", within=part)
    panel.button(panel.t("outbound.token.do"), within=part)
    panel.find('[data-field="token"] .errors', "must be visible ASCII")
    panel.fill('input[name="token"]', TOKEN, within=part)
    panel.button(panel.t("outbound.token.do"), within=part)
    panel.find(".notice.done", "token set", within=part)
    panel.find(".card-aside", panel.t("outbound.token.set"), within=part)
    assert _found(agents, connection)["tokenSet"] is True
    assert panel.find('input[name="token"]', within=part).get_property("value") == ""
    assert TOKEN not in panel.driver.page_source

    panel.button(panel.t("outbound.token.clear"), within=part)
    dialog = panel.find("dialog[open]")
    assert panel.t("outbound.token.clear.lost") in panel.text(dialog)
    panel.button(panel.t("outbound.token.clear"), within=dialog)
    panel.find(".notice.done", "token cleared")
    panel.find(".card-aside", panel.t("outbound.token.unset"), within=part)
    assert _found(agents, connection)["tokenSet"] is False


@in_both_languages
def test_settings_are_saved_and_name_the_tools_anew(panel: Panel, agents: DaemonProcess, connection: str) -> None:
    panel.bring_about("status of 409")
    panel.show(f"outbound/{connection}")
    part = card(panel, "outbound.settings")
    panel.fill('input[name="timeoutMs"]', "0", within=part)
    panel.button(panel.t("outbound.settings.save"))
    panel.find('[data-field="timeoutMs"] .errors', "must be 1 to", within=part)

    panel.fill('input[name="timeoutMs"]', "5000", within=part)
    panel.fill('input[name="name"]', "rain", within=part)
    panel.fill('textarea[name="tokenOrigins"]', "https://agent.example\nhttps://other.example:8443", within=part)
    panel.button(panel.t("outbound.settings.save"))
    panel.find(".notice.done", "updated", within=part)
    panel.find("main h1", "rain")
    panel.find(".skill .tool", "a2a__rain__chat")
    saved = _found(agents, connection)
    assert (saved["timeoutMs"], saved["name"]) == (5000, "rain")
    assert saved["tokenOrigins"] == ["https://agent.example:443", "https://other.example:8443"]

    panel.fill('input[name="bearerTokenEnv"]', "NO_SUCH_VARIABLE", within=part)
    panel.button(panel.t("outbound.settings.save"))
    panel.find('main header .state[data-state="error"]')
    panel.find(f'[aria-label="{panel.t("outbound.error")}"]', "NO_SUCH_VARIABLE is not set")
    panel.screenshot(f"outbound-error-{panel.view}")


# skills


@in_both_languages_at_both_widths
def test_skills_are_turned_off_and_on(panel: Panel, agents: DaemonProcess, connection: str) -> None:
    panel.show(f"outbound/{connection}")
    for skill in ("chat", "rich"):
        panel.click(f'.skill[data-id="{skill}"] input[type="checkbox"]')
        panel.find(f'.skill.off[data-id="{skill}"]')
        panel.until(lambda: panel.find(".skill input").is_enabled(), "the next one's turn")
    assert _found(agents, connection)["disabledSkills"] == ["chat", "rich"]
    assert "a2a__weather__rich" not in {tool["name"] for tool in agents.read("/tools")}
    panel.screenshot(f"outbound-skills-{panel.view}")
    axe_clean(panel)
    panel.click('.skill[data-id="chat"] input[type="checkbox"]')
    panel.gone('.skill.off[data-id="chat"]')
    assert _found(agents, connection)["disabledSkills"] == ["rich"]


@in_both_languages
def test_a_skill_is_reworded_and_said_as_the_agent_says_it_again(
    panel: Panel, agents: DaemonProcess, connection: str
) -> None:
    panel.bring_about("status of 409")
    panel.show(f"outbound/{connection}")
    panel.button(panel.t("outbound.override.of", name="chat"))
    form = panel.find(".override")
    panel.fill('input[name="name"]', "x" * 201, within=form)
    panel.button(panel.t("outbound.override.save"))
    panel.find('.override [data-field="name"] .errors', "200")
    panel.fill('input[name="name"]', "Small talk", within=form)
    panel.fill('textarea[name="description"]', "For a <b>rainy</b> day", within=form)
    panel.button(panel.t("outbound.override.save"))
    panel.find('.skill[data-id="chat"] h3', "Small talk")
    panel.find('.skill[data-id="chat"]', "For a <b>rainy</b> day")
    panel.find('.skill[data-id="chat"] .notice.done', "updated")
    wanted = {"name": "Small talk", "description": "For a <b>rainy</b> day"}
    assert _found(agents, connection)["skillOverrides"] == {"chat": wanted}

    panel.button(panel.t("outbound.override.of", name="Small talk"))
    for field in ('input[name="name"]', 'textarea[name="description"]'):
        panel.fill(field, "x", within=panel.find(".override"))
        panel.press(Keys.BACKSPACE)
    panel.button(panel.t("outbound.override.save"))
    panel.find('.skill[data-id="chat"] h3', "chat")
    panel.until(lambda: _found(agents, connection)["skillOverrides"] == {}, "the agent's own words")


def test_a_tools_name_is_there_to_be_copied(panel: Panel, agents: DaemonProcess, connection: str) -> None:
    panel.show(f"outbound/{connection}")
    tools = _found(agents, connection)["tools"]
    assert panel.text(panel.find('.skill[data-id="chat"] .tool bdi')) == tools["chat"] == "a2a__weather__chat"
    panel.click('.skill[data-id="chat"] .copy')
    panel.find('.skill[data-id="chat"] .copy.copied')


# what is not there


@in_both_languages
def test_an_unknown_connection_says_so(panel: Panel) -> None:
    panel.show("outbound/out-nothing")
    panel.find(".empty", panel.t("outbound.unknown"))
    panel.button(panel.t("outbound.all"))
    panel.find("main h1", panel.t("outbound.title"))


def test_a_connection_that_is_removed_meanwhile_says_so(panel: Panel, agents: DaemonProcess, connection: str) -> None:
    panel.show(f"outbound/{connection}")
    agents.act("outbound.remove", id=connection)
    panel.find(".empty", panel.t("outbound.gone"))


def test_a_card_that_means_ill_only_shows(open_panel: Callable[..., Panel], agents: DaemonProcess) -> None:
    words = '\u202e<img src=x onerror="window.hacked = 1">' + "w" * 150
    mean = agents.create_inbound(name=words, description=words * 5, preset="hostile")
    made = agents.act("outbound.create", name=words, agentCardUrl=agents.endpoint(mean))["id"]
    panel = open_panel(agents, route="outbound?new=1")
    look_up(panel, agents.endpoint(mean))
    panel.find(".preview")
    panel.show(f"outbound/{made}")
    panel.find(".skill")
    assert panel.script("return document.documentElement.scrollWidth <= innerWidth")
    assert panel.script("return window.hacked") is None
    agents.act("outbound.remove", id=made)
