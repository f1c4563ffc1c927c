"""ListTasks (protocol.md 3)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.lab import Lab, result, violations


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("lists"))
    yield started
    started.kill()


@pytest.fixture
def agent(lab: Lab) -> Iterator[str]:
    """An agent of the test's own, so that it lists what it made."""
    former, lab.agent = lab.agent, lab.create_inbound(preset="lab")
    yield lab.agent
    lab.agent = former


def _make(lab: Lab, count: int, *steps: list[Any], **more: Any) -> list[dict[str, Any]]:
    return [result(lab.ask_for(*(steps or (["text", "x"],)), **more))["task"] for _ in range(count)]


def _walk(lab: Lab, **params: Any) -> list[dict[str, Any]]:
    """All pages, one after the other."""
    pages = [lab.listed(**params)]
    while pages[-1]["nextPageToken"]:
        pages.append(lab.listed(**params, pageToken=pages[-1]["nextPageToken"]))
        assert len(pages) < 200
    return pages


def _ids(page: dict[str, Any]) -> list[str]:
    return [task["id"] for task in page["tasks"]]


def test_an_agent_without_tasks_lists_none(lab: Lab, agent: str) -> None:
    assert lab.listed() == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


def test_the_newest_update_comes_first_and_ties_go_by_id(lab: Lab, agent: str) -> None:
    first, second, third = (lab.begin(["wait", f"{agent}-{n}"]) for n in range(3))
    for gate, task_id in ((1, second), (0, first), (2, third)):
        lab.open(f"{agent}-{gate}")
        lab.reach(task_id, "COMPLETED")
    _make(lab, 30)

    tasks = lab.listed()["tasks"]

    keys = [(task["status"]["timestamp"], task["id"]) for task in tasks]
    times = [key[0] for key in keys]
    assert times == sorted(times, reverse=True)
    assert keys in (sorted(keys, reverse=True), sorted(sorted(keys), key=lambda key: key[0], reverse=True))
    assert [task["id"] for task in tasks[-3:]] == [third, first, second]


def test_pages_hold_each_task_once_and_the_total_of_all(lab: Lab, agent: str) -> None:
    made = {task["id"] for task in _make(lab, 23)}

    for size in (1, 5, 22, 23, 24, 100):
        pages = _walk(lab, pageSize=size)
        listed = [task_id for page in pages for task_id in _ids(page)]
        assert sorted(listed) == sorted(made)
        assert {page["totalSize"] for page in pages} == {23}
        assert {page["pageSize"] for page in pages} == {size}
        assert all(len(page["tasks"]) == size for page in pages[:-1])
        assert len(pages) == -(-23 // size)


def test_a_page_has_50_tasks_where_nothing_is_said(lab: Lab, agent: str) -> None:
    _make(lab, 53)
    pages = _walk(lab)
    assert [len(page["tasks"]) for page in pages] == [50, 3]
    for size in (0, 101, -1, "x"):
        assert violations(lab.rpc(agent, "ListTasks", {"pageSize": size})) == ["pageSize"]


def test_filters_combine(lab: Lab, agent: str) -> None:
    _make(lab, 3, contextId="A")
    _make(lab, 2, ["raise", "TaskFailed", "x"], contextId="A")
    _make(lab, 4, contextId="B")
    asked = _make(lab, 1, ["ask", "?"], contextId="B")[0]

    for params, total in (
        ({}, 10),
        ({"contextId": "A"}, 5),
        ({"contextId": "C"}, 0),
        ({"status": "TASK_STATE_COMPLETED"}, 7),
        ({"status": 3}, 7),
        ({"status": "TASK_STATE_FAILED"}, 2),
        ({"status": "TASK_STATE_CANCELED"}, 0),
        ({"status": "TASK_STATE_FAILED", "contextId": "A"}, 2),
        ({"status": "TASK_STATE_FAILED", "contextId": "B"}, 0),
        ({"status": "TASK_STATE_INPUT_REQUIRED", "contextId": "B"}, 1),
        ({"status": "TASK_STATE_COMPLETED", "context_id": "A", "status_timestamp_after": "2000-01-01T00:00:00Z"}, 3),
        ({"statusTimestampAfter": "2999-01-01T00:00:00Z"}, 0),
        ({"contextId": "A", "statusTimestampAfter": "2999-01-01T00:00:00Z"}, 0),
        ({"status": "TASK_STATE_UNSPECIFIED", "contextId": ""}, 10),
    ):
        pages = _walk(lab, **params, pageSize=2)
        assert {page["totalSize"] for page in pages} == {total}, params
        assert sum(len(page["tasks"]) for page in pages) == total, params
    lab.cancel(asked["id"])
    assert lab.listed(status="TASK_STATE_INPUT_REQUIRED")["totalSize"] == 0
    assert lab.listed(status="TASK_STATE_CANCELED")["totalSize"] == 1


def test_a_timestamp_includes_its_own_moment_at_any_offset(lab: Lab, agent: str) -> None:
    tasks = _make(lab, 5)
    for task in tasks:
        moment = datetime.fromisoformat(task["status"]["timestamp"])
        expected = sorted(t["id"] for t in tasks if datetime.fromisoformat(t["status"]["timestamp"]) >= moment)
        for zone in (UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=11))):
            after = moment.astimezone(zone).isoformat(timespec="milliseconds")
            assert sorted(_ids(lab.listed(statusTimestampAfter=after))) == expected
        later = (moment + timedelta(milliseconds=1)).isoformat()
        assert task["id"] not in _ids(lab.listed(statusTimestampAfter=later))
        nearly = task["status"]["timestamp"].replace("Z", "001Z")
        assert task["id"] not in _ids(lab.listed(statusTimestampAfter=nearly))


def test_artifacts_are_absent_unless_they_are_asked_for(lab: Lab, agent: str) -> None:
    task = _make(lab, 1)[0]

    for params in ({}, {"includeArtifacts": False}, {"includeArtifacts": None}):
        assert "artifacts" not in lab.listed(**params)["tasks"][0]
    assert lab.listed(includeArtifacts=True)["tasks"] == [task]
    assert lab.listed(include_artifacts=True, historyLength=0)["tasks"][0]["artifacts"] == task["artifacts"]
    _make(lab, 1, ["note", "no artifact"])
    assert "artifacts" not in lab.listed(includeArtifacts=True)["tasks"][0]


def test_pages_stay_right_while_tasks_are_added_and_updated(lab: Lab, agent: str) -> None:
    waiting = [lab.begin(["wait", f"{agent}-later"]) for _ in range(6)]
    settled = [task["id"] for task in _make(lab, 12)]
    found = []
    token = ""
    for round_ in range(40):
        page = lab.listed(pageSize=2, pageToken=token)
        found += _ids(page)
        token = page["nextPageToken"]
        if not token:
            break
        _make(lab, 1)
        if round_ == 1:
            lab.open(f"{agent}-later")
            for task_id in waiting:
                lab.reach(task_id, "COMPLETED")
    else:
        raise AssertionError("the pages do not end")

    assert len(found) == len(set(found)), "a task was listed twice"
    assert set(settled) <= set(found), "a task that did not change was left out"
    assert lab.listed(pageSize=1)["totalSize"] > 18


def test_a_token_works_again_and_again(lab: Lab, agent: str) -> None:
    _make(lab, 5)
    token = lab.listed(pageSize=2)["nextPageToken"]
    assert lab.listed(pageSize=2, pageToken=token) == lab.listed(pageSize=2, pageToken=token)
    assert lab.listed(pageSize=3, pageToken=token)["nextPageToken"] == ""


@pytest.mark.parametrize("token", ["zzz", "0", "-1", "é", "\0", "eyJ9", "AAAA", "x" * 10_000, "' OR 1=1", "=", " "])
def test_a_token_that_was_not_issued_is_refused(lab: Lab, agent: str, token: str) -> None:
    _make(lab, 3)
    issued = lab.listed(pageSize=1)["nextPageToken"]

    for wrong in (token, issued + token, issued[:-1] + token, issued[: len(issued) // 2]):
        assert violations(lab.rpc(agent, "ListTasks", {"pageToken": wrong})) == ["pageToken"]


def test_a_token_belongs_to_its_agent_and_its_filters(lab: Lab, agent: str) -> None:
    _make(lab, 3, contextId="A")
    _make(lab, 3, contextId="B")
    token = lab.listed(pageSize=1, contextId="A")["nextPageToken"]
    other = lab.create_inbound(preset="lab")

    for params in ({}, {"contextId": "B"}, {"contextId": "A", "status": "TASK_STATE_COMPLETED"},
                   {"contextId": "A", "statusTimestampAfter": "2000-01-01T00:00:00Z"}):  # fmt: skip
        assert violations(lab.rpc(agent, "ListTasks", {**params, "pageToken": token})) == ["pageToken"]
    assert violations(lab.rpc(other, "ListTasks", {"contextId": "A", "pageToken": token})) == ["pageToken"]
    assert len(lab.listed(pageToken=token, contextId="A")["tasks"]) == 2


def test_a_token_is_good_after_a_restart_too(tmp_path: Any) -> None:
    first = Lab(tmp_path)
    tasks = [task["id"] for task in _make(first, 4)]
    page = first.listed(pageSize=2)
    first.kill()

    second = Lab(tmp_path)
    try:
        second.agent = first.agent
        rest = second.listed(pageSize=2, pageToken=page["nextPageToken"])
        assert sorted(_ids(page) + _ids(rest)) == sorted(tasks)
    finally:
        second.kill()


def test_an_agent_lists_its_own_tasks_alone(lab: Lab, agent: str) -> None:
    other = lab.create_inbound(preset="lab")
    _make(lab, 2, contextId="shared")
    _make(lab, 3, contextId="shared", inbound=other)

    assert lab.listed()["totalSize"] == 2
    assert lab.listed(contextId="shared")["totalSize"] == 2
    assert result(lab.rpc(other, "ListTasks", {}))["totalSize"] == 3
