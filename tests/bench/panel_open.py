"""How long until the panel shows what there is, with few tasks in the database and with many?

    python tests/bench/panel_open.py [--tasks 10 10000] [--rounds 7] [--messages 100]

In Debian's Chromium, which runs already: from the start of the navigation until the page has its contents and two
frames have been painted after it, first with an empty cache, then again as a page that is loaded anew. Then a client
sends messages one after the other while the page is open. Printed: milliseconds, and the longest time for which the
page did not answer (the browser counts from 50 ms; 0 is less). The numbers of tasks take turns.
"""

import argparse
import shutil
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.stored import store_tasks
from tests.bench.support import show
from tests.browser.chromium import Browser, View
from tests.browser.panel import Panel
from tests.daemon import DaemonProcess

PAGES = ("overview", "tasks")
#: when a page had its contents, in milliseconds since its navigation began, and for how long it has not answered
WATCH = """
window.__longest = 0;
new PerformanceObserver(list => {
    for (const entry of list.getEntries()) window.__longest = Math.max(window.__longest, entry.duration);
}).observe({type: 'longtask', buffered: true});
const there = () => {
    const main = document.querySelector('main[data-page]');
    const sign = {overview: 'h1', tasks: '[data-id]'}[main?.dataset.page];
    return sign && main.querySelector(sign) && !main.querySelector('[aria-busy=true], p.muted[role=status]');
};
const watch = new MutationObserver(() => {
    if (!there()) return;
    watch.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => { window.__shown = performance.now(); }));
});
watch.observe(document, {childList: true, subtree: true});
"""


class Opened:
    """The panel of one daemon."""

    def __init__(self, browser: Browser, daemon: DaemonProcess, inbound: str) -> None:
        self._browser = browser
        self._daemon = daemon
        self._inbound = inbound

    def shown(self, page: str) -> tuple[float, float]:
        """Milliseconds until it shows this page, with nothing in the cache and with everything."""
        driver = self._browser.fresh(View())
        driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        self._panel = Panel(driver, self._daemon, View(), Path())
        return self._load(page), self._load(page)

    def _load(self, page: str) -> float:
        self._panel.open(page)
        return float(self._panel.until(lambda: self._panel.script("return window.__shown"), f"the page {page}"))

    def longest(self, messages: int) -> float:
        """The longest time without an answer while so many messages are sent, in milliseconds."""
        self._panel.script("window.__longest = 0")
        for number in range(messages):
            self._daemon.send(self._inbound, f"message {number}")
        return float(self._panel.script("return window.__longest"))


def one_round(panels: dict[int, Opened], messages: int, figures: dict[str, list[float]]) -> None:
    for count, panel in panels.items():
        for page in PAGES:
            first, again = panel.shown(page)
            figures[f"{page}, {count:,} tasks: opened"].append(first)
            figures[f"{page}, {count:,} tasks: opened again"].append(again)
        figures[f"{page}, {count:,} tasks: longest wait meanwhile"].append(panel.longest(messages))


def measure(args: Any, folder: Path, stack: ExitStack) -> dict[str, list[float]]:
    browser = Browser()
    stack.callback(browser.close)
    browser.fresh(View()).execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    panels = {}
    for count in args.tasks:
        state = folder / str(count)
        state.mkdir()
        inbound, *_ = store_tasks(state, count)
        daemon = DaemonProcess(state)
        stack.callback(daemon.kill)
        panels[count] = Opened(browser, daemon, inbound)
    figures: dict[str, list[float]] = defaultdict(list)
    for _ in range(args.rounds):
        one_round(panels, args.messages, figures)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 10_000], help="tasks in the database")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=100, help="sent while the page is open")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        with ExitStack() as stack:
            figures = measure(args, folder, stack)
    finally:
        shutil.rmtree(folder)
    for name, values in figures.items():
        show(name, values, "ms")


main()
