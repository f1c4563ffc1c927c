"""axe-core: what a machine can find out about whether everybody can use a page."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.browser.panel import Panel
from tests.cache import CACHE

VERSION = "4.14.1"
INSTALLS_WITHIN = 300
#: all rules at first, and of another theme what colours alone decide
RUN = """
const [rules, done] = arguments;
const options = {resultTypes: ['violations'], ...(rules ? {runOnly: {type: 'rule', values: rules}} : {})};
axe.run(document, options).then(result => done(result.violations), error => done(String(error)));
"""
COLOURS = ["color-contrast", "link-in-text-block"]
#: of its four levels, those that keep somebody from something
WORST = {"serious", "critical"}


def axe_source() -> str:
    """The script, from the registry that npm is set up for, once into a cache of the user's. Skips without npm."""
    file = CACHE / f"axe-core-{VERSION}" / "node_modules/axe-core/axe.min.js"
    if not file.exists():
        if not (shutil.which("node") and shutil.which("npm")):
            pytest.skip("axe-core is installed with npm, which needs Node.js")
        folder = file.parents[2]
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        command = ["npm", "install", *options, "--prefix", str(folder), f"axe-core@{VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALLS_WITHIN, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return Path(file).read_text()


def axe_clean(panel: Panel) -> None:
    """Fails where the page that is open, light or dark, keeps somebody out."""
    assert axe_faults(panel) == []


def axe_faults(panel: Panel) -> list[str]:
    """Why `axe_clean` would fail."""
    before = panel.view
    found = _run(panel)
    panel.look(replace(before, dark=not before.dark))
    found += _run(panel, COLOURS)
    panel.look(before)
    return found


def _run(panel: Panel, rules: list[str] | None = None) -> list[str]:
    if not panel.script("return 'axe' in window"):
        panel.script(axe_source())
    found = panel.driver.execute_async_script(RUN, rules)
    assert isinstance(found, list), found
    theme = "dark" if panel.view.dark else "light"
    return [f"{theme}: {_told(violation)}" for violation in found if violation["impact"] in WORST]


def _told(violation: dict[str, Any]) -> str:
    where = [f"    {node['html'][:300]}\n    {node['failureSummary']}" for node in violation["nodes"][:5]]
    return "\n".join((f"{violation['impact']}: {violation['id']}: {violation['help']}", *where))
