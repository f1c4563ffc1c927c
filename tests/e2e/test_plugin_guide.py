"""docs/plugins.md followed to the letter, in an environment where a2ad is installed as a package."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from a2ad.testing import DaemonProcess
from tests.test_docs import GUIDE, PLUGINS, ROOT, blocks, section, shown_plugins

#: installing takes as long as the network does, in seconds
PATIENCE = 600

MODULES = """
import sys

def test_nothing_is_imported_that_is_not_used(request):
    assert request.config.pluginmanager.hasplugin("a2ad")
    unwanted = {"aiohttp", "marshmallow", "sqlite3", "click", "a2ad.testing", "a2ad.config", "a2ad.daemon"}
    assert not unwanted & set(sys.modules)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with a2ad and pytest. It is built from a copy: building leaves files behind."""
    folder = tmp_path_factory.mktemp("guide")
    copy = folder / "a2ad"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "a2ad", copy / "a2ad", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=PATIENCE)
    programs = folder / "venv/bin"
    shell(programs, folder, "pip install --quiet ./a2ad pytest")
    return programs


def shell(programs: Path, folder: Path, script: str, *, status: int = 0) -> str:
    """Paste a script into a shell of that environment; returns what it printed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("A2AD_", "PYTEST_"))}
    done = subprocess.run(
        ["sh", "-eu"],
        input=script,
        cwd=folder,
        env={**environ, "PATH": f"{programs}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status, (script, done.stdout, done.stderr)
    return done.stdout


def states(listed: str) -> list[tuple[str, str]]:
    """Version and state of the plugin `shout` in a list of plugins."""
    rows = [line.split() for line in listed.splitlines() if line.startswith("shout ")]
    return [(row[1], row[2]) for row in rows]


def test_the_guide_leads_from_an_empty_file_to_a_package_that_can_be_published(
    environment: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    (folder / "my-plugins").mkdir(parents=True)
    (folder / "my-plugins/shout.py").write_text(shown_plugins()["shout"])
    assert states(shell(environment, folder, "a2ad plugins --plugins-dir my-plugins")) == [("-", "loaded")]

    new, install, test, publish = (block for block in blocks(section(PLUGINS, GUIDE), "sh") if "curl" not in block)
    shell(environment, folder, new)
    assert (folder / "shout/shout/__init__.py").exists()
    assert states(shell(environment, folder, install)) == [("0.1.0", "loaded")]
    # as a module the command has this folder, which has a `shout` of its own, at the head of the path
    assert states(shell(environment, folder, "python -m a2ad plugins")) == [("0.1.0", "loaded")]
    assert "2 passed" in shell(environment, folder, test)
    assert shell(environment, folder, publish).count("PASSED") == 2
    assert {file.suffix for file in (folder / "shout/dist").iterdir()} == {".whl", ".gz"}

    # what was built is installed elsewhere, without the folder
    shell(environment, folder, "pip uninstall --quiet --yes shout && pip install --quiet shout/dist/*.whl")
    shutil.rmtree(folder / "shout/shout")
    assert "2 passed" in shell(environment, folder, test)
    shell(environment, folder, "pip uninstall --quiet --yes shout")


def test_the_fixtures_cost_nothing_where_they_are_not_used_and_can_be_left_out(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_modules.py").write_text(MODULES)
    assert "1 passed" in shell(environment, tmp_path, "python -m pytest -q -W error")
    (tmp_path / "test_modules.py").write_text("def test_it(a2ad_daemon): pass")
    assert "fixture 'a2ad_daemon' not found" in shell(environment, tmp_path, "pytest -q -p no:a2ad", status=1)


NAMES = [
    ("my-agent", 2, "expected a Python identifier"),
    ("1agent", 2, "expected a Python identifier"),
    ("class", 2, "expected a Python identifier"),
    ("_agent", 2, "expected a Python identifier"),
    ("ägent", 2, "expected a Python identifier"),
    ("../agent", 2, "expected a Python identifier"),
    ("", 2, "expected a Python identifier"),
    ("json", 2, "there is a module json already"),
    ("a2ad", 2, "there is a module a2ad already"),
    ("tests", 2, "there is a module tests already"),
    ("subagent", 2, "there is an executor subagent already"),
    ("standard", 2, "there is a preset standard already"),
    ("taken", 1, "a2ad: taken exists already"),
    ("dangling", 1, "a2ad: dangling exists already"),
]


@pytest.mark.parametrize(("name", "status", "error"), NAMES, ids=range(len(NAMES)))
def test_a_name_that_cannot_be_is_an_error_that_says_why_and_nothing_is_written(
    tmp_path: Path, name: str, status: int, error: str
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(tmp_path.iterdir())
    done = new_plugin(tmp_path, name)
    assert (done.returncode, done.stdout) == (status, "")
    assert error in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_cannot_be_written_is_an_error() -> None:
    done = new_plugin(Path("/proc"), "fine")
    assert (done.returncode, done.stderr) == (1, "a2ad: fine cannot be written: No such file or directory\n")


@pytest.mark.parametrize("name", ["my_agent", "Shout2", "name"])
def test_a_package_of_any_name_is_a_plugin_of_that_name(tmp_path: Path, name: str) -> None:
    assert new_plugin(tmp_path, name).returncode == 0
    daemon = DaemonProcess(tmp_path, plugin={name: (tmp_path / name / name / "__init__.py").read_text()})
    try:
        task = daemon.send(daemon.create_inbound(preset=name), "hello")
        assert task["artifacts"][0]["parts"] == [{"text": "HELLO "}]
    finally:
        daemon.kill()


def new_plugin(folder: Path, name: str) -> "subprocess.CompletedProcess[str]":
    command = [Path(sysconfig.get_path("scripts")) / "a2ad", "plugins", "new", name]
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder / "nowhere")}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)
