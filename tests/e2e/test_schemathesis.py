"""Schemathesis against a real daemon: what it makes of the description, by every check that it has."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess, running

#: real ids, so that more than the 404s are tried; of a stream that never ends, the first event
SETTINGS = """
[[operations]]
include-path = "/a2a/api/events"
max-stream-events = 1

[[operations]]
include-path = "/a2a/api/card"
parameters = {{ "query.id" = "{inbound}" }}

[[operations]]
include-path-regex = "/a2a/api/task"
parameters = {{ "query.id" = "{task}" }}
"""
SEED = 20261201
#: a bound that only a hang reaches, in seconds
PATIENCE = 300


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with running(tmp_path) as started:
        yield started
        assert "Traceback" not in started.log(), started.log()


def test_schemathesis_finds_nothing(daemon: DaemonProcess, tmp_path: Path) -> None:
    inbound = daemon.create_inbound()
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(SETTINGS.format(inbound=inbound, task=daemon.send(inbound, "hello")["id"]))
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "run"]
    command += [
        f"{daemon.control}/a2a/api/openapi.json",
        "--checks",
        "all",
        "--seed",
        str(SEED),
        "--max-examples",
        "25",
    ]
    command += ["--request-timeout", "20", "--generation-database", "none", "--no-color", "--warnings", "off"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path, check=False)

    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr
    assert "10 selected / 10 total" in ended.stdout.replace("\n", " "), ended.stdout
