"""A start on a database in which something is wrong: one task that cannot be read is that task's fault alone, and where
the daemon cannot start at all it says so in one line.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.daemon import DaemonProcess
from tests.e2e.control_support import failed_start
from tests.e2e.test_serve_failures import one_line
from tests.lab import Lab, until

ONE_RUN = "[limits]\nruns = 1\n"


def _change(database: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement, values)


def test_a_database_without_its_tables_is_refused_in_one_line(
    launch: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = launch()
    daemon.send(daemon.create_inbound(), "hello")
    assert daemon.terminate() == 0
    database = daemon.state_dir / "a2ad.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            connection.execute(f"DROP TABLE {table}")
    assert "tasks" in tables

    one_line(failed_start(tmp_path), str(database))
    one_line(failed_start(tmp_path), str(database))


# one task that cannot be read

#: what befalls the tasks that wait, by their place in the line; the others are as they were
DAMAGE = {
    1: "UPDATE messages SET body = CAST('{' AS BLOB) WHERE task_id = ?",
    2: "UPDATE messages SET body = x'ff00fe' WHERE task_id = ?",
    4: "UPDATE messages SET body = x'' WHERE task_id = ?",
    5: "DELETE FROM messages WHERE task_id = ?",
}
WAITING = 6


def test_tasks_that_cannot_be_read_fail_and_the_others_run(tmp_path: Path) -> None:
    dead = Lab(tmp_path, config=ONE_RUN)
    tasks = [dead.begin(["wait", "never"])]
    tasks += [dead.begin(["text", f"number {number}"]) for number in range(1, WAITING + 1)]
    dead.kill()
    for number, statement in DAMAGE.items():
        _change(dead.state_dir / "a2ad.db", statement, tasks[number])

    lab = Lab(tmp_path, config=ONE_RUN)
    try:

        def states() -> list[str]:
            page = lab.rpc(dead.agent, "ListTasks", {"historyLength": 0})["result"]
            found = {task["id"]: task["status"]["state"].removeprefix("TASK_STATE_") for task in page["tasks"]}
            return [found[task_id] for task_id in tasks]

        expected = ["FAILED" if number in {0, *DAMAGE} else "COMPLETED" for number in range(WAITING + 1)]
        until(lambda: states() == expected)
        for number in set(range(1, WAITING + 1)) - set(DAMAGE):
            assert lab.get(tasks[number], dead.agent)["artifacts"][0]["parts"] == [{"text": f"number {number}"}]
        assert [lab.noted("run", task_id) for task_id in tasks[1:]] == [state == "COMPLETED" for state in expected[1:]]
        assert lab.terminate() == 0
    finally:
        lab.kill()
