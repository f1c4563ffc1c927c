"""With ten thousand tasks in the database, a page has a page of them."""

from collections.abc import Callable
from pathlib import Path

from tests.bench.stored import store_tasks
from tests.browser.panel import PAGES, Panel
from tests.daemon import running

TASKS = 10_000
#: of tasks, and what else a page has rows of
MOST_ROWS = 100


def test_no_more_than_a_page_of_tasks_is_drawn(open_panel: Callable[..., Panel], tmp_path: Path) -> None:
    store_tasks(tmp_path, TASKS)
    with running(tmp_path) as daemon:
        panel = open_panel(daemon)
        for page in PAGES:
            panel.show(page)
            assert len(panel.all("[data-id]")) <= MOST_ROWS
        panel.show("tasks").find("main [data-id]")
        panel.screenshot("tasks-10000")
