"""Programs that do not end by themselves, that leave something behind, or that write too much."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support import TELLS_PID, alive, gone, said, state_of, told_pids, wait_for

from a2ad.testing import DaemonProcess, text_of

Run = Callable[..., DaemonProcess]

#: it and its child do not heed SIGTERM
STUBBORN = f"""
import signal, subprocess, sys, time
{TELLS_PID}
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = {TELLS_PID!r} + '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(1000)
'''
subprocess.Popen([sys.executable, "-c", child])
print("begun", flush=True)
time.sleep(1000)
"""

#: its child tidies up when it is told to end, which takes a moment; it has gone itself by then
TIDY = f"""
import subprocess, sys, time
{TELLS_PID}
child = {TELLS_PID!r} + '''
import pathlib, signal, sys, time
def tidy(*_):
    time.sleep(0.5)
    pathlib.Path("tidied-up").touch()
    sys.exit()
signal.signal(signal.SIGTERM, tidy)
pathlib.Path("ready").touch()
time.sleep(1000)
'''
subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(1000)
"""

#: it ends well, and leaves children behind that hold its output: one that is quiet, one that has left the group and
#: never stops writing
LEAVES = f"""
import subprocess, sys
child = {TELLS_PID!r} + "import time; time.sleep(1000)"
chatter = {TELLS_PID!r} + "while True: print('noise', flush=True)"
print("the answer")
sys.stdout.flush()
subprocess.Popen([sys.executable, "-c", child])
if "chatter" in sys.stdin.read():
    subprocess.Popen([sys.executable, "-c", chatter], start_new_session=True)
"""


def test_cancel_ends_the_process_group_also_where_it_does_not_heed_sigterm(run: Run) -> None:
    daemon = run(STUBBORN)
    task = daemon.begin("agent", "go")
    pids = told_pids(daemon.state_dir, 2)
    assert state_of(daemon.cancel("agent", task["id"])) == "CANCELED"
    wait_for(lambda: gone(pids))
    assert daemon.terminate() == 0


def test_a_process_group_has_a_grace_in_which_to_tidy_up(run: Run) -> None:
    daemon = run(TIDY)
    task = daemon.begin("agent", "go")
    pids = told_pids(daemon.state_dir, 2)
    wait_for(lambda: list(daemon.state_dir.rglob("ready")))
    daemon.cancel("agent", task["id"])
    wait_for(lambda: gone(pids))
    assert list(daemon.state_dir.rglob("tidied-up"))


def test_past_its_time_the_process_group_is_ended_and_the_task_fails(run: Run) -> None:
    daemon = run(STUBBORN, timeout_seconds=1.5)
    task = daemon.send("agent", "go")
    assert state_of(task) == "FAILED"
    assert said(task).endswith("took longer than 1.5 seconds")
    assert text_of(task) == "begun\n"
    assert gone(told_pids(daemon.state_dir, 2))


def test_a_program_that_never_stops_writing_is_ended_past_its_time(run: Run) -> None:
    daemon = run(["yes"], timeout_seconds=1)
    task = daemon.send("agent", "go")
    assert said(task) == "yes took longer than 1 seconds"


def test_a_program_that_closes_its_output_is_waited_for(run: Run) -> None:
    daemon = run("import os, sys, time\nprint('early', flush=True)\nos.close(1)\ntime.sleep(0.5)\nsys.exit(5)")
    task = daemon.send("agent", "go")
    assert said(task).endswith("ended with status 5")


def test_what_a_program_leaves_behind_ends_with_it(run: Run) -> None:
    daemon = run(LEAVES)
    task = daemon.send("agent", "go")
    assert (state_of(task), text_of(task)) == ("COMPLETED", "the answer\n")
    wait_for(lambda: gone(told_pids(daemon.state_dir, 1)))


def test_what_has_left_the_group_and_holds_the_output_does_not_hold_up_the_task(run: Run) -> None:
    daemon = run(LEAVES)
    task = daemon.send("agent", "chatter")
    pids = told_pids(daemon.state_dir, 2)
    try:
        assert state_of(task) == "COMPLETED"
        assert text_of(task).startswith("the answer\n")
        wait_for(lambda: gone(pids))  # one was ended, the other has nobody to write to any more
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


def test_a_pipeline_whose_last_part_outlives_the_program_is_heard_to_its_end(run: Run) -> None:
    daemon = run(["bash", "-c", "echo hello > >(sleep 0.3; tr a-z A-Z)"])
    assert text_of(daemon.send("agent", "go")) == "HELLO\n"


def test_a_hundred_megabytes_on_one_line_are_an_answer(run: Run) -> None:
    daemon = run("import sys\nfor _ in range(100): sys.stdout.write('z' * 1_000_000)")
    size, last = 0, None
    for last in daemon.send_streaming("agent", "go"):
        update = last.get("artifactUpdate")
        size += sum(len(part["text"]) for part in update["artifact"]["parts"]) if update else 0
    assert size == 100_000_000
    assert state_of(last["task"]) == "COMPLETED"


def test_a_flood_on_stderr_holds_up_nobody(run: Run) -> None:
    daemon = run("import sys\nfor _ in range(100): sys.stderr.write('z' * 1_000_000)\nprint('done')\nsys.exit(1)")
    task = daemon.send("agent", "go")
    assert text_of(task) == "done\n"
    assert len(said(task)) < 5000


def test_a_daemon_that_stops_leaves_no_process_group_behind(run: Run) -> None:
    daemon = run(STUBBORN, daemon={"config": "[limits]\nshutdown_seconds = 1\n"})
    task = daemon.begin("agent", "go")
    pids = told_pids(daemon.state_dir, 2)
    assert daemon.terminate() == 0
    wait_for(lambda: gone(pids))
    assert "Traceback" not in daemon.log()

    daemon.start()
    assert state_of(daemon.task("agent", task["id"])) == "FAILED"


@pytest.mark.parametrize("ignores", [False, True])
def test_a_daemon_that_is_killed_takes_its_direct_children_along(run: Run, *, ignores: bool) -> None:
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" if ignores else ""
    daemon = run(f"{TELLS_PID}\n{ignore}\nimport time; time.sleep(1000)")
    daemon.begin("agent", "go")
    pids = told_pids(daemon.state_dir, 1)
    daemon.kill()
    wait_for(lambda: gone(pids))


def test_what_goes_wrong_with_one_task_is_nothing_to_the_next(run: Run) -> None:
    daemon = run("import os, sys\nword = sys.stdin.read()\nos.abort() if word == 'die' else print(word, end='')")
    first = daemon.send("agent", "die")
    assert (state_of(first), said(first).rpartition(" ")[2]) == ("FAILED", "SIGABRT")
    assert text_of(daemon.send("agent", "fine", contextId=first["contextId"])) == "fine"


def test_no_descriptor_and_no_zombie_is_left_over(run: Run) -> None:
    daemon = run(["cat"])

    def descriptors() -> int:
        return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))

    def children() -> str:
        return Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children").read_text()

    daemon.send("agent", "first")
    before = descriptors()
    for _ in range(20):
        daemon.send("agent", "again")
    wait_for(lambda: descriptors() <= before)
    assert children() == ""
