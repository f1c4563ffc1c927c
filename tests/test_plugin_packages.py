"""The packages under plugins/ have no privileges: they use what everybody's plugin may."""

import ast
import tomllib
from pathlib import Path

import pytest

import a2ad
import a2ad.testing

ROOT = Path(__file__).parent.parent / "plugins"
PACKAGES = sorted(file.parent for file in ROOT.glob("*/pyproject.toml"))
#: what may be imported, by module
OFFERED = {"a2ad": set(a2ad.__all__), "a2ad.testing": set(a2ad.testing.__all__)}

packages = pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)


def imports(file: Path) -> set[tuple[str, str]]:
    """What a file imports of a2ad: (module, name)."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "*") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {(node.module, alias.name) for alias in node.names}
    return {(module, name) for module, name in found if module.split(".")[0] == "a2ad"}


@packages
def test_a_plugin_imports_of_a2ad_what_it_exports_and_nothing_else(package: Path) -> None:
    for file in package.rglob("*.py"):
        modules = {"a2ad"} if "tests" not in file.parts else set(OFFERED)
        used = imports(file)
        assert [(file.name, each) for each in used if each[0] not in modules or each[1] not in OFFERED[each[0]]] == []


@packages
def test_a_plugin_is_found_through_the_entry_point_group_of_everybody(package: Path) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert list(project["entry-points"]) == ["a2ad"]
    assert project["name"] == package.name


@packages
def test_a_plugin_is_listed_and_has_tests(package: Path) -> None:
    assert f"]({package.name}/README.md)" in (ROOT / "README.md").read_text()
    assert list(package.glob("tests/test_*.py"))
