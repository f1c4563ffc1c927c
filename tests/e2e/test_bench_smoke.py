"""The measurements of tests/bench run to their end and print their figures: how large these are is not looked at."""

import json
import re
import signal
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser.chromium import CHROMEDRIVER, CHROMIUM
from tests.daemon import message

BENCH = Path(__file__).parents[1] / "bench"
README = (BENCH / "README.md").read_text()
NUMBER = r"[+-]?[\d,]+(\.\d+)?"
#: each command, as small as it can be, and what its lines are: `#` stands for a number
COMMANDS = {
    "chunk_cost.py --chunks 2000 --rounds 1": ["thousand 1: # ms # MB", "thousand 2: # ms # MB", "last / first: #"],
    "fan_out.py --subscribers 5 --chunks 20 --rounds 1": [
        "at once: aiohttp alone # chunks/s [# .. #]",
        "at once: a2ad # chunks/s [# .. #]",
        "at once: a2ad / aiohttp alone #",
        "one by one: a2ad / aiohttp alone #",
    ],
    "idle_responses.py --streams 5 --hold 0.1": ["plain # kB per stream # asyncio tasks # % CPU at rest"],
    "idle_streams.py --streams 5 --hold 0.1 --rounds 1": [
        "aiohttp alone: memory of a stream # kB [# .. #]",
        "a2ad: memory of a stream # kB [# .. #]",
        "a2ad: CPU at rest # % [# .. #]",
        "a2ad: a call among them # ms [# .. #]",
        "a2ad - aiohttp alone # kB",
    ],
    "kills.py --kills 2": ["start to listening: median # s, longest # s", "of these older than the promised # ms: #"],
    "list_tasks.py --tasks 400 --requests 2": ["first page p50 # ms p99 # ms # matches"],
    "memory.py --tasks 20 40 --concurrency 2": [
        "20 tasks: # MB, # MB (# tasks/s)",
        "40 tasks: # MB, # MB (# tasks/s)",
    ],
    "outbound.py --concurrency 1 2 --seconds 0.1 --rounds 1": [
        "1 at a time",
        "2 at a time",
        "outbound.call # ms [# .. #]",
        "outbound.call / SendMessage #",
        "outbound.call / SendStreamingMessage: CPU for each #",
    ],
    "panel_open.py --tasks 3 60 --rounds 1 --messages 2": [
        "overview, 3 tasks: opened # ms [# .. #]",
        "tasks, 60 tasks: opened again # ms [# .. #]",
        "tasks, 60 tasks: longest wait meanwhile # ms [# .. #]",
    ],
    "sizes.py --sizes 10 1000 --seconds 0.1 --rounds 1": [
        "SendMessage, 10 B",
        "SendStreamingMessage, 1,000 B",
        "a2ad, token # calls/s [# .. #]",
        "a2ad / aiohttp alone #",
        "a2ad, token / aiohttp alone #",
    ],
    "slow_reader.py --readers 3 --chunks 100 --rounds 1": [
        "all read: the others get # chunks/s [# .. #]",
        "one stalls: the others lose # %",
        "one is slow: the others lose # %",
    ],
    "start.py --tasks 3 400 --rounds 1": [
        "the import alone # ms [# .. #]",
        "listening, 400 tasks # ms [# .. #]",
        "listening, 400 tasks: CPU # ms [# .. #]",
        "listening, 400 tasks - the import alone # ms, CPU # ms",
    ],
}


NEEDS = {"panel_open.py": (CHROMIUM, CHROMEDRIVER)}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_measurement_prints_its_figures(command: str) -> None:
    script, *options = command.split()
    for program in NEEDS.get(script, ()):
        if not program.exists():
            pytest.skip(f"it needs {program}")
    done = subprocess.run(
        [sys.executable, str(BENCH / script), *options], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for wanted in COMMANDS[command]:
        pattern = re.escape(wanted).replace(r"\#", NUMBER)
        assert any(re.fullmatch(pattern, line) for line in lines), (wanted, done.stdout)


def test_the_daemon_to_be_measured_by_others_says_where_it_is_and_ends_when_it_is_told(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / "serve.py"), "--state", str(tmp_path), "--token", "bench-token"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = urlsplit(process.stdout.readline().removeprefix("bench endpoint ").strip())
            envelope = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "SendMessage",
                "params": {"message": message("stream 2 3")},
            }
            headers = {"Content-Type": "application/json", "Authorization": "Bearer bench-token"}
            with closing(HTTPConnection(url.hostname or "", url.port, timeout=60)) as connection:
                connection.request("POST", url.path, json.dumps(envelope), headers)
                (artifact,) = json.load(connection.getresponse())["result"]["task"]["artifacts"]
            assert artifact["parts"] == [{"text": "xxxxxx"}]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_every_measurement_is_explained_and_tried_here() -> None:
    commands = {path.name for path in BENCH.glob("*.py") if "\nmain()\n" in path.read_text()}
    assert set(re.findall(r"^\| `python tests/bench/(\w+\.py)` \|", README, re.MULTILINE)) == commands
    assert {command.split()[0] for command in COMMANDS} == commands - {"serve.py"}
