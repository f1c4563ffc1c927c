"""What `a2ad plugins new` writes: a package with an executor, a preset and a test that passes."""

from __future__ import annotations

import keyword
import sys
from importlib.util import find_spec
from pathlib import Path
from string import Template

from a2ad import __version__

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$distribution"
version = "0.1.0"
description = "A plugin for a2ad"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["a2ad>=$version"]

[project.optional-dependencies]
test = ["pytest"]

[project.entry-points.a2ad]
$name = "$name"

[tool.setuptools]
packages = ["$name"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

_README = """\
# $distribution

A plugin for [a2ad](https://pypi.org/project/a2ad/). The daemon finds it once it is installed.

```sh
pip install -e '.[test]'
python -m pytest
```

It brings the executor and the preset `$name`. While `a2ad serve` runs, this publishes an agent with them:

```sh
curl -sS http://127.0.0.1:3080/a2a/api -H 'content-type: application/json' -d '{
  "action": "inbound.create", "name": "$name", "description": "Says it louder", "version": "0.1.0", "preset": "$name"
}'
```
"""

_MODULE = '''\
"""Says it louder."""

from a2ad import Artifact, Executor, hookimpl


class Shout(Executor):
    async def execute(self, request):
        for word in request.text.split():
            yield Artifact(parts=[{"text": word.upper() + " "}], append=True)


@hookimpl
def a2ad_register_executors(register):
    register("$name", Shout(), summary="Says it louder")


@hookimpl
def a2ad_register_presets(register):
    register("$name", {"skills": [{"id": "$name", "executor": "$name"}]})
'''

_TEST = '''\
"""The plugin in a real daemon, seen as its clients see it."""

from a2ad.testing import text_of


def test_it_shouts(a2ad_daemon):
    agent = a2ad_daemon.create_inbound(preset="$name")
    task = a2ad_daemon.send(agent, "hello there")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(task) == "HELLO THERE "


def test_it_shouts_word_by_word(a2ad_daemon):
    agent = a2ad_daemon.create_inbound(preset="$name")
    frames = a2ad_daemon.send_streaming(agent, "hello there")
    updates = [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]
    assert [update["artifact"]["parts"] for update in updates] == [[{"text": "HELLO "}], [{"text": "THERE "}]]
'''


def is_name(name: str) -> bool:
    """Whether a package, a distribution and an entry point can be called so."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name.strip("_") == name


def is_module(name: str) -> bool:
    """Whether Python would find something else under this name."""
    return name == "tests" or name in sys.stdlib_module_names or find_spec(name) is not None


def write_package(name: str) -> Path:
    """Write the package into a new folder of the working directory; returns the folder. Raises `OSError`."""
    files = {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README,
        f"{name}/__init__.py": _MODULE,
        f"tests/test_{name}.py": _TEST,
    }
    folder = Path(name)
    folder.mkdir()
    for path, template in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        text = Template(template).substitute(
            name=name, distribution=name.replace("_", "-").lower(), version=__version__
        )
        (folder / path).write_text(text)
    return folder
