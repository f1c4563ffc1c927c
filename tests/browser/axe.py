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
#: WCAG 2.0 to 2.2 at A and AA, and what axe-core's authors hold for good practice
RUN = """
const done = arguments[0];
axe.run(document, {resultTypes: ['violations']}).then(result => done(result.violations), error => done(String(error)));
"""
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
    before = panel.view
    for dark in (before.dark, not before.dark):
        panel.look(replace(before, dark=dark))
        found = [_told(violation) for violation in _violations(panel) if violation["impact"] in WORST]
        assert not found, "\n".join(("dark:" if dark else "light:", panel.driver.current_url, *found))
    panel.look(before)


def _violations(panel: Panel) -> list[dict[str, Any]]:
    if not panel.script("return 'axe' in window"):
        panel.script(axe_source())
    found = panel.driver.execute_async_script(RUN)
    assert isinstance(found, list), found
    return found


def _told(violation: dict[str, Any]) -> str:
    where = [f"    {node['html'][:300]}\n    {node['failureSummary']}" for node in violation["nodes"][:5]]
    return "\n".join((f"{violation['impact']}: {violation['id']}: {violation['help']}", *where))
