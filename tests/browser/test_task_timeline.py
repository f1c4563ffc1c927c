"""The timeline of a task: what came when, for one who watches and for one who comes later."""

from pathlib import Path

from tests.browser.axe import axe_clean
from tests.browser.panel import Panel
from tests.browser.test_tasks import becomes, begun, ended, sent
from tests.browser.views import in_both_languages, in_both_languages_at_both_widths
from tests.daemon import DaemonProcess


def entries(panel: Panel) -> list[tuple[str, str]]:
    """What each entry is, a status by its state, and what it says."""
    panel.find(".timeline")
    script = """return [...document.querySelectorAll('.timeline li')].map(entry => [
      entry.querySelector('.state')?.dataset.state.replace('TASK_STATE_', '') ?? entry.dataset.kind,
      entry.querySelector('.step').textContent])"""
    return [(what, said) for what, said in panel.script(script)]


def kinds(panel: Panel) -> list[str]:
    return [what for what, _ in entries(panel)]


@in_both_languages_at_both_widths
def test_a_task_that_has_ended_shows_how_it_came_about(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    task = sent(agents, inbound, "rich")["id"]
    panel.show(f"tasks/{task}")

    assert kinds(panel) == ["created", *["artifact"] * 5, "COMPLETED"]
    said = [said for _, said in entries(panel)]
    assert said[0] == panel.t("tasks.created.started")
    assert said[1].startswith("Text ")
    assert said[2].startswith("data ")
    assert panel.t("tasks.came") in said[1]
    panel.screenshot(f"task-timeline-{panel.view}")
    axe_clean(panel)


@in_both_languages
def test_who_watches_sees_the_same_as_who_comes_later(
    panel: Panel, agents: DaemonProcess, inbound: str, tmp_path: Path
) -> None:
    door = str(tmp_path / "door")
    task = begun(agents, inbound, door)
    panel.show(f"tasks/{task}")
    panel.until(lambda: "WORKING" in kinds(panel), "it works")
    ended(agents, inbound, door)
    becomes(panel, "TASK_STATE_COMPLETED")
    panel.until(lambda: kinds(panel)[-1] == "COMPLETED", "its end")
    watched = kinds(panel)
    panel.show("tasks")
    panel.show(f"tasks/{task}")
    becomes(panel, "TASK_STATE_COMPLETED")

    assert watched.count("artifact") == 1
    assert watched[0] == "created"
    panel.until(lambda: kinds(panel) == watched, "the same again")


@in_both_languages
def test_a_task_that_had_to_wait_shows_when_it_started(panel: Panel, agents: DaemonProcess, inbound: str) -> None:
    begun(agents, inbound, f"before {panel.view}")
    first = agents.read("?taskLimit=1")["tasks"][0]
    more = {"contextId": first["contextId"], "metadata": {"skill": "mirror"}}
    second = agents.begin(inbound, "second", **more)["id"]
    panel.show(f"tasks/{second}")
    becomes(panel, "TASK_STATE_SUBMITTED")
    assert entries(panel) == [("created", panel.t("tasks.created"))]

    ended(agents, inbound, f"before {panel.view}")
    becomes(panel, "TASK_STATE_COMPLETED")
    panel.until(lambda: kinds(panel) == ["created", "WORKING", "artifact", "COMPLETED"], "its course")
    panel.show("tasks")
    panel.show(f"tasks/{second}")
    panel.until(lambda: kinds(panel) == ["created", "WORKING", "artifact", "COMPLETED"], "the same again")
