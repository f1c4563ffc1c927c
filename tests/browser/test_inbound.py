"""The inbound page: publish, edit, switch on and off, protect, look at the card, remove."""

from collections.abc import Callable
from typing import Any

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.support.ui import Select

from tests.browser.axe import axe_clean
from tests.browser.chromium import View
from tests.browser.keyboard import assert_modal, press_on
from tests.browser.panel import Panel
from tests.browser.test_hostile import NAMES, assert_harmless
from tests.browser.views import at_both_widths, in_both_languages, in_both_languages_at_both_widths, in_every_view
from tests.daemon import DaemonProcess, message

REFUSED = "status of 409"
VARIABLE = "A2A_TOKEN_OF_THE_PANELS_TESTS"


def row_of(daemon: DaemonProcess, inbound_id: str) -> dict[str, Any]:
    return next(row for row in daemon.read("")["inbounds"] if row["id"] == inbound_id)


def published(daemon: DaemonProcess, name: str) -> list[dict[str, Any]]:
    return [row for row in daemon.read("")["inbounds"] if row["name"] == name]


def choose(panel: Panel, name: str, label: str) -> None:
    Select(panel.find(f'select[name="{name}"]')).select_by_visible_text(label)


def status_of(daemon: DaemonProcess, inbound_id: str, token: str | None = None) -> int:
    """Of a client's call with this token."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message("hello")}}
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return daemon.request("POST", daemon.endpoint(inbound_id), call, headers=headers)[0]


# the list


def test_where_there_is_no_agent_the_page_leads_to_the_first_one(
    daemon: DaemonProcess, open_panel: Callable[..., Panel]
) -> None:
    panel = open_panel(daemon, route="inbound")
    panel.find(".empty", panel.t("inbound.none"))
    panel.button(panel.t("inbound.new"))
    panel.find("h1", panel.t("inbound.new"))


@in_both_languages_at_both_widths
def test_the_list_says_how_each_agent_is(panel: Panel, agents: DaemonProcess) -> None:
    serving = agents.create_inbound(name="Serving")
    off = agents.create_inbound(name="Off", enabled=False)
    wrong = agents.create_inbound(name="Wrong", authTokenEnv="NOBODY_HAS_SET_THIS")
    agents.act("inbound.setAuth", id=serving, token="a-token")
    panel.show("inbound")
    for inbound_id, state in ((serving, "serving"), (off, "disabled"), (wrong, "error")):
        row = panel.row(inbound_id)
        assert panel.find("[data-state]", within=row).get_attribute("data-state") == state
        assert f"{agents.endpoint(inbound_id)}/agent-card.json" in panel.text(row)
    assert panel.t("inbound.token.state.set") in panel.text(panel.row(serving))
    assert panel.t("inbound.token.none") in panel.text(panel.row(off))
    assert "the variable NOBODY_HAS_SET_THIS is not set" in panel.text(panel.row(wrong))
    panel.screenshot(f"inbound-list-{panel.view}")
    axe_clean(panel)
    for inbound_id in (serving, off, wrong):
        agents.act("inbound.remove", id=inbound_id)


def test_the_cards_address_is_copied(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.show("inbound").click("button.copy", within=panel.row(inbound))
    panel.find("button.copy.copied", within=panel.row(inbound))
    assert panel.copied() == f"{agents.endpoint(inbound)}/agent-card.json"


@in_both_languages
def test_an_agent_is_disabled_and_enabled_from_the_list(panel: Panel, agents: DaemonProcess) -> None:
    made = agents.create_inbound(name="Switched")
    panel.show("inbound")
    for action, state, message_ in (("disable", "disabled", "disabled"), ("enable", "serving", "enabled")):
        panel.button(panel.t(f"inbound.{action}.name", name="Switched"))
        panel.find('.notice[role="status"]', f'"Switched" {message_}')
        panel.find(f'[data-id="{made}"] [data-state="{state}"]')
        assert row_of(agents, made)["enabled"] is (state == "serving")
    agents.act("inbound.remove", id=made)


def test_a_button_keeps_the_focus_while_it_works(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    label = panel.show("inbound").t("inbound.disable.name", name="Weather")
    panel.script("arguments[0].focus()", panel.find(f'[data-id="{inbound}"] button[aria-label="{label}"]'))
    panel.press(Keys.ENTER)
    panel.find(f'[data-id="{inbound}"] [data-state="disabled"]')
    panel.press(Keys.ENTER)
    panel.find(f'[data-id="{inbound}"] [data-state="serving"]')


# publish


@in_both_languages_at_both_widths
def test_an_agent_is_published_with_what_was_filled_in(panel: Panel, agents: DaemonProcess) -> None:
    panel.bring_about(REFUSED)
    name, path = f"Reports {panel.view}", f"/agents/{panel.view}"
    panel.show("inbound").button(panel.t("inbound.new"))
    panel.find("h1", panel.t("inbound.new"))
    panel.button(panel.t("inbound.create"))
    for field in ("name", "description"):
        panel.find(f'[data-field="{field}"] .errors', panel.t("form.required"))
        assert panel.find(f'[name="{field}"]').get_attribute("aria-invalid") == "true"
    panel.until(lambda: panel.focused().get_attribute("name") == "name", "the focus at the first mistake")
    panel.screenshot(f"inbound-new-{panel.view}")
    axe_clean(panel)

    panel.fill('[name="name"]', name)
    panel.fill('[name="description"]', "Writes reports")
    panel.fill('[name="version"]', "2.1")
    choose(panel, "preset", "Pages")
    panel.fill('[name="endpointPath"]', path)
    panel.find('[name="enabled"]').click()
    panel.button(panel.t("inbound.create"))
    panel.find('.notice[role="status"]', f'"{name}" created')
    panel.find("h1", name)
    (row,) = published(agents, name)
    assert panel.driver.current_url.endswith(f"#/inbound/{row['id']}")
    assert {key: row[key] for key in ("description", "version", "preset", "endpointPath", "enabled")} == {
        "description": "Writes reports",
        "version": "2.1",
        "preset": "pages",
        "endpointPath": path,
        "enabled": False,
    }


def test_name_and_description_are_all_that_it_takes(panel: Panel, agents: DaemonProcess) -> None:
    panel.show("inbound/new").fill('[name="name"]', "Plain")
    panel.fill('[name="description"]', "Says what it hears")
    panel.press(Keys.TAB)
    panel.button(panel.t("inbound.create"))
    panel.find("h1", "Plain")
    (row,) = published(agents, "Plain")
    assert (row["enabled"], row["preset"], row["version"]) == (True, "standard", "1.0.0")
    assert "authTokenEnv" not in row


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("endpointPath", "no slash", "must be an absolute path"),
        ("endpointPath", "/a2a/api/mine", "is one of the daemon's own paths"),
        ("authTokenEnv", "two words", "must be the name of a variable"),
    ],
)
def test_what_the_daemon_refuses_stands_at_its_field(panel: Panel, field: str, value: str, problem: str) -> None:
    panel.bring_about(REFUSED)
    panel.show("inbound/new").fill('[name="name"]', "Never")
    panel.fill('[name="description"]', "Never")
    panel.fill(f'[name="{field}"]', value)
    panel.button(panel.t("inbound.create"))
    panel.find(f'[data-field="{field}"] .errors', problem)
    assert panel.text("main").count(problem) == 1
    panel.button(panel.t("form.cancel"))
    panel.find("h1", panel.t("inbound.title"))


def test_an_agent_whose_variable_is_missing_is_published_and_says_so(panel: Panel) -> None:
    panel.show("inbound/new").fill('[name="name"]', "Needy")
    panel.fill('[name="description"]', "Needs a variable")
    panel.fill('[name="authTokenEnv"]', VARIABLE)
    panel.button(panel.t("inbound.create"))
    panel.find('.notice[role="status"]', "it is not served")
    panel.find('.about [role="alert"]', f"the variable {VARIABLE} is not set")
    panel.find(".about", panel.t("inbound.token.state.missing", variable=VARIABLE))


def test_an_agent_is_published_with_the_keyboard_alone(panel: Panel, agents: DaemonProcess) -> None:
    panel.show("inbound")
    press_on(panel, ".page-actions a")
    panel.find("h1", panel.t("inbound.new"))
    while panel.focused().get_attribute("name") != "name":
        panel.tab()
    panel.press("Keys alone", Keys.TAB, "Typed", Keys.SHIFT + Keys.TAB + Keys.NULL)
    panel.press(Keys.ENTER)
    panel.find("h1", "Keys alone")
    assert published(agents, "Keys alone")[0]["description"] == "Typed"


# one agent


@at_both_widths
def test_what_was_edited_is_saved_and_nothing_else_is_sent(panel: Panel, agents: DaemonProcess) -> None:
    panel.bring_about(REFUSED)
    made = agents.create_inbound(name=f"Old {panel.view}", description="Before")
    taken = agents.create_inbound(name="Taken")
    panel.show(f"inbound/{made}?tab=edit").fill('[name="name"]', "New")
    agents.act("inbound.update", id=made, description="Changed elsewhere")
    panel.find("main", "Changed elsewhere")
    panel.button(panel.t("inbound.save"))
    panel.find('.notice[role="status"]', '"New" updated')
    panel.find("h1", "New")
    assert row_of(agents, made)["description"] == "Changed elsewhere"
    panel.fill('[name="endpointPath"]', f"/a2a/{taken}")
    panel.button(panel.t("inbound.save"))
    panel.find('[data-field="endpointPath"] .errors', "is taken by another inbound server")
    panel.fill('[name="endpointPath"]', f"/moved/{panel.view}")
    choose(panel, "preset", "Pages")
    panel.button(panel.t("inbound.save"))
    panel.find(".about", f"/moved/{panel.view}/agent-card.json")
    assert row_of(agents, made)["preset"] == "pages"
    panel.screenshot(f"inbound-edit-{panel.view}")
    for inbound_id in (made, taken):
        agents.act("inbound.remove", id=inbound_id)


def test_one_agent_is_disabled_and_enabled(panel: Panel, agents: DaemonProcess) -> None:
    made = agents.create_inbound(name="One")
    panel.show(f"inbound/{made}").button(panel.t("inbound.disable"))
    panel.find('.notice[role="status"]', '"One" disabled')
    panel.find('.about [data-state="disabled"]')
    panel.find(".chat", panel.t("inbound.chat.not"))
    assert status_of(agents, made) == 404
    panel.button(panel.t("inbound.enable"))
    panel.find('.about [data-state="serving"]')
    assert status_of(agents, made) == 200


@in_both_languages_at_both_widths
def test_to_remove_an_agent_asks_first_and_says_what_is_lost(panel: Panel, agents: DaemonProcess) -> None:
    made = agents.create_inbound(name="Gone")
    for text in ("one", "two"):
        agents.send(made, text)
    panel.show(f"inbound/{made}").button(panel.t("inbound.remove.ask"))
    panel.find("dialog[open]", panel.t("inbound.remove.tasks.count", n=2))
    panel.screenshot(f"inbound-remove-{panel.view}")
    axe_clean(panel)
    panel.press(Keys.ESCAPE)
    panel.gone("dialog[open]")
    assert row_of(agents, made)
    panel.button(panel.t("inbound.remove.ask"))
    panel.button(panel.t("inbound.remove"), within=panel.find("dialog[open]"))
    panel.find("h1", panel.t("inbound.title"))
    panel.find('.notice[role="status"]', '"Gone" removed')
    assert published(agents, "Gone") == []


def test_the_question_before_removal_keeps_the_focus(panel: Panel, inbound: str) -> None:
    panel.show(f"inbound/{inbound}")
    assert_modal(panel, lambda: press_on(panel, ".page-actions button", panel.t("inbound.remove.ask")))


def test_an_agent_that_is_not_there_is_said_to_be_so(panel: Panel) -> None:
    panel.show("inbound/nobody-00000000").find("h1", panel.t("inbound.unknown"))
    panel.button(panel.t("inbound.all"))
    panel.find("h1", panel.t("inbound.title"))


# the token


@in_both_languages
def test_a_token_is_set_and_never_shown_again(panel: Panel, agents: DaemonProcess) -> None:
    made = agents.create_inbound(name="Secret")
    panel.show(f"inbound/{made}?tab=token")
    field = panel.find('[name="token"]')
    assert (field.get_attribute("type"), field.get_attribute("autocomplete")) == ("password", "off")
    panel.fill('[name="token"]', "open-sesame")
    panel.button(panel.t("inbound.token.set"))
    panel.find('.notice[role="status"]', "token set")
    panel.find(".token", panel.t("inbound.token.state.set"))
    assert panel.find('[name="token"]').get_property("value") == ""
    assert [status_of(agents, made, token) for token in (None, "wrong", "open-sesame")] == [401, 401, 200]
    panel.open(f"inbound/{made}?tab=token")
    assert "open-sesame" not in panel.script("return document.documentElement.outerHTML")

    panel.button(panel.t("inbound.token.clear"))
    panel.find("dialog[open]", panel.t("inbound.token.clear.open"))
    panel.button(panel.t("inbound.token.clear"), within=panel.find("dialog[open]"))
    panel.find('.notice[role="status"]', "token cleared")
    panel.find(".token", panel.t("inbound.token.state.none"))
    assert status_of(agents, made) == 200


@at_both_widths
def test_a_token_is_made_and_shown_once_before_it_is_set(panel: Panel, agents: DaemonProcess) -> None:
    made = agents.create_inbound(name="Random")
    panel.show(f"inbound/{made}?tab=token")
    tokens = []
    for _ in range(2):
        panel.button(panel.t("inbound.token.make"))
        tokens.append(panel.text(".made code"))
        panel.until(lambda: panel.find('[name="token"]').get_property("value") == panel.text(".made code"), "it")
    assert len(tokens[1]) >= 40
    assert tokens[0] != tokens[1]
    panel.screenshot(f"inbound-token-{panel.view}")
    axe_clean(panel)
    assert status_of(agents, made) == 200
    panel.button(panel.t("inbound.token.set"))
    panel.find('.notice[role="status"]', "token set")
    panel.gone(".made")
    assert tokens[1] not in panel.script("return document.documentElement.outerHTML")
    assert [status_of(agents, made, token) for token in (None, *tokens)] == [401, 401, 200]


def test_a_token_that_cannot_be_sent_is_refused_at_its_field(panel: Panel, agents: DaemonProcess) -> None:
    panel.bring_about(REFUSED)
    made = agents.create_inbound(name="Refused")
    panel.show(f"inbound/{made}?tab=token").button(panel.t("inbound.token.set"))
    panel.find('[data-field="token"] .errors', panel.t("inbound.token.empty"))
    panel.fill('[name="token"]', "two words")
    panel.button(panel.t("inbound.token.set"))
    panel.find('[data-field="token"] .errors', "must be visible ASCII characters")
    assert row_of(agents, made)["tokenSet"] is False


# the card


@in_every_view
def test_the_card_is_shown_as_clients_see_it(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    panel.show(f"inbound/{inbound}?tab=card")
    card = agents.read(f"/card?id={inbound}")
    readable = panel.text(panel.find(".agent-card", card["description"]))
    for part in (card["name"], card["version"], card["supportedInterfaces"][0]["url"], "streaming"):
        assert part in readable
    for skill in card["skills"]:
        assert skill["id"] in panel.text(panel.row(skill["id"]))
    panel.click(".raw-card summary")
    raw = panel.text(panel.find(".raw-card pre"))
    assert panel.script("return JSON.parse(arguments[0])", raw) == card
    panel.screenshot(f"inbound-card-{panel.view}")
    axe_clean(panel)


def test_the_card_follows_what_is_changed(panel: Panel, agents: DaemonProcess) -> None:
    made = agents.create_inbound(name="First")
    panel.show(f"inbound/{made}?tab=card").find(".agent-card", panel.t("inbound.card.security.none"))
    agents.act("inbound.setAuth", id=made, token="a-token")
    panel.find(".agent-card", panel.t("inbound.card.security.token"))
    agents.act("inbound.update", id=made, name="Second")
    panel.find(".agent-card", "Second")


def test_tabs_are_gone_through_with_the_arrow_keys(panel: Panel, inbound: str) -> None:
    panel.show(f"inbound/{inbound}")
    panel.script("document.querySelector('[role=tab][aria-selected=true]').focus()")
    for tab in ("card", "edit", "token", "try"):
        panel.press(Keys.ARROW_RIGHT)
        panel.find('[role="tab"][aria-selected="true"]', panel.t(f"inbound.tab.{tab}"))
    assert panel.focused().get_attribute("role") == "tab"


# others' words


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_hostile_names_are_shown_on_every_tab_and_in_every_question(
    open_panel: Callable[..., Panel], agents: DaemonProcess, phone: bool
) -> None:
    made = [agents.create_inbound(name=name, description=name, preset="hostile") for name in NAMES]
    for inbound_id in made:
        panel = open_panel(agents, view=View(phone=phone))
        for tab in ("try", "card", "edit", "token"):
            panel.show(f"inbound/{inbound_id}?tab={tab}").find(".page-head")
            panel.find('[role="tabpanel"] > *')
            assert_harmless(panel)
        panel.button(panel.t("inbound.remove.ask"))
        panel.find("dialog[open]")
        assert_harmless(panel)
        panel.screenshot(f"inbound-hostile-{panel.view}")
        panel.button(panel.t("inbound.remove"), within=panel.find("dialog[open]"))
        panel.find("h1", panel.t("inbound.title"))
        panel.find('.notice[role="status"]', "removed")
        assert_harmless(panel)
