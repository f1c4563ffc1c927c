"""CancelTask while someone else holds the database and many tasks stream: its caller is told while the lock is still
held, and the tasks are canceled when it is gone (issue 3, "Recovery").
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.e2e.control_support import Background, until
from tests.lab import Lab, error

STREAMING, CANCELED = 40, 6


@pytest.fixture
def lab(tmp_path: Any) -> Iterator[Lab]:
    started = Lab(tmp_path, config="[limits]\nruns_per_inbound = 64\n")
    yield started
    started.kill()


def test_a_cancel_is_told_of_the_lock_while_it_is_held_and_done_afterwards(lab: Lab) -> None:
    tasks = [lab.begin(["count", 100_000, 0.02]) for _ in range(STREAMING)]
    for task_id in tasks:
        until(lambda task_id=task_id: lab.get(task_id).get("artifacts"), f"{task_id} streams")

    with closing(sqlite3.connect(lab.state_dir / "a2ad.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        first = [Background(lab.cancel, task_id) for task_id in tasks[: CANCELED // 2]]
        told = [call.result() for call in first]
        assert lab.read("")["health"]["status"] == "degraded"
        # now that it is known, others need not find out for themselves
        more = [Background(lab.cancel, task_id) for task_id in tasks[CANCELED // 2 : CANCELED]]
        told += [call.result() for call in more]
        new = lab.ask_for(["text", "new"], messageId="while locked")
        assert [error(answer) for answer in [*told, new]] == [(-32603, "STORE_UNAVAILABLE")] * (CANCELED + 1)
        assert {lab.get(task_id)["status"]["state"] for task_id in tasks} == {"TASK_STATE_WORKING"}
        other.execute("ROLLBACK")

    until(lambda: lab.read("")["health"]["status"] == "ok", "it recovers by itself")
    for task_id in tasks[:CANCELED]:
        lab.reach(task_id, "CANCELED")
    assert {lab.get(task_id)["status"]["state"] for task_id in tasks[CANCELED:]} == {"TASK_STATE_WORKING"}
    assert lab.listed()["totalSize"] == STREAMING
    for task_id in tasks[CANCELED:]:
        assert lab.cancel(task_id)["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert lab.terminate() == 0
