"""What does a start take beyond the import of what the daemon is built on?

    python tests/bench/start.py [--tasks 10 1000000] [--rounds 5]

For each number of stored tasks: from the start of the process until it says that it listens; beside it the same
interpreter that imports aiohttp.web and the daemon's other dependencies, and says so. The daemon's modules are
compiled before, as those of an installed package are. Printed: milliseconds of each, of the clock and of CPU, and the
differences.
"""

import argparse
import compileall
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from importlib.metadata import requires
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import a2ad
from tests.bench.stored import store_tasks
from tests.bench.support import cpu_seconds, show
from tests.daemon import DaemonProcess

ALONE = "the import alone"


def dependencies() -> list[str]:
    """The modules of the packages that a2ad depends on, without its extras, and what it takes from the library."""
    names = [
        line.replace(">", ";").partition(";")[0].strip().replace("-", "_")
        for line in requires("a2ad") or []
        if "extra ==" not in line
    ]
    return ["aiohttp.web", "sqlite3", *names]


def importing(modules: list[str]) -> tuple[float, float]:
    """Milliseconds until an interpreter has imported these, and its CPU until then."""
    code = f"import {', '.join(modules)}; print('done', flush=True)"
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        return _since(begun, process.pid)


def listening(folder: Path) -> tuple[float, float]:
    """Milliseconds until a daemon listens, with what is stored in this folder, and its CPU until then."""
    begun = time.perf_counter()
    daemon = DaemonProcess(folder)
    took = _since(begun, daemon.process.pid)
    assert daemon.terminate() == 0
    return took


def _since(begun: float, pid: int) -> tuple[float, float]:
    return (time.perf_counter() - begun) * 1000, cpu_seconds(pid) * 1000


def measure(folders: dict[int, Path], rounds: int) -> None:
    modules = dependencies()
    print(f"imported alone: {', '.join(modules)}")
    figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(rounds):
        figures[ALONE].append(importing(modules))
        for count, folder in folders.items():
            figures[f"listening, {count:,} tasks"].append(listening(folder))
    medians = {}
    for name, values in figures.items():
        took, cpu = zip(*values, strict=True)
        medians[name] = show(name, took, "ms"), show(f"{name}: CPU", cpu, "ms")
    (alone, alone_cpu) = medians.pop(ALONE)
    for name, (took, cpu) in medians.items():
        print(f"{f'{name} - {ALONE}':52} {took - alone:12.2f} ms, CPU {cpu - alone_cpu:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    compileall.compile_dir(Path(a2ad.__file__).parent, quiet=1)
    folders = {count: Path(tempfile.mkdtemp()) for count in args.tasks}
    try:
        for count, folder in folders.items():
            store_tasks(folder, count)
        measure(folders, args.rounds)
    finally:
        for folder in folders.values():
            shutil.rmtree(folder)


main()
