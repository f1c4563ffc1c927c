"""Meta-tests: what `hookspecs.py` promises, the host keeps, docs/plugins.md says and a test sees from outside."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from a2ad import Decision, OutboundCall, hookimpl, hookspecs
from a2ad.config import load
from a2ad.plugins import PluginHost

SPECS = {name: spec for name, spec in vars(hookspecs).items() if name.startswith("a2ad_")}

TESTS = Path(__file__).parent
DOCUMENTED = (TESTS.parent / "docs/plugins.md").read_text()

DECISION = Decision("in", "task", "context", "chat", {"parts": []}, "", "127.0.0.1", "operator")
CALL = OutboundCall("connection", "tool", "skill", "text", "operator")


@pytest.mark.parametrize("name", SPECS)
def test_every_hook_says_what_it_is_for(name):
    assert inspect.getdoc(SPECS[name])


@pytest.mark.parametrize("name", SPECS)
def test_every_hook_is_documented_with_its_exact_signature(name):
    signature = f"`{name}({', '.join(inspect.signature(SPECS[name]).parameters)})`"
    assert f"\n### {signature}\n" in DOCUMENTED
    assert f"\n| {signature} |" in DOCUMENTED


@pytest.mark.parametrize("name", SPECS)
def test_every_hook_is_covered_by_a_test_from_outside(name):
    text = (TESTS / "e2e/test_hooks.py").read_text()
    tests = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert [each for each in tests if each.startswith(f"test_{name}_")]
    assert f"def {name}(" in text


@pytest.fixture
def recorder():
    """A plugin that implements every hook with all its arguments, and the names of those that were called."""
    called = []
    hooks = {}
    for name, spec in SPECS.items():
        arguments = ", ".join(inspect.signature(spec).parameters)
        namespace = {"called": called}
        exec(f"def {name}({arguments}): called.append({name!r})", namespace)
        hooks[name] = hookimpl(namespace[name])
    return SimpleNamespace(**hooks), called


@pytest.mark.usefixtures("foreign_plugins_only")
async def test_the_host_calls_every_hook_with_the_arguments_of_its_specification(recorder, tmp_path):
    plugin, called = recorder
    host = PluginHost(load(environ={"HOME": str(tmp_path)}).config)
    host.load([("recorder", plugin)])
    assert [info.state for info in host.plugins] == ["loaded"]
    host.register_commands(click.Group())
    await host.agent_card({}, object())
    await host.startup(object())
    assert await host.inbound_task(DECISION) is None
    assert await host.outbound_call(CALL) is None
    host.emit("task.state", {})
    await host.shutdown(object())
    await host.close()
    assert sorted(called) == sorted(SPECS)
