"""How plugins are found and loaded, with real files and a real installed package."""

from __future__ import annotations

import importlib
import time
from textwrap import dedent, indent
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from a2ad import Artifact, Decision, Deny, Executor, PresetError, __version__, hookimpl
from a2ad.config import load
from a2ad.errors import ConfigError
from a2ad.plugins import PluginHost, PluginInfo

pytestmark = pytest.mark.usefixtures("foreign_plugins_only")

DECISION = Decision("in", "task", "context", "chat", {"parts": []}, "", "127.0.0.1", "operator")

HEADER = "import asyncio\nfrom a2ad import Artifact, Deny, Executor, hookimpl\n"

HOOK = "@hookimpl\ndef a2ad_event(event): pass\n"

EXECUTOR = """
class Work(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "done"}])

@hookimpl
def a2ad_register_executors(register, config):
    register("NAME", Work(), summary="Does work")
"""


class Work(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "done"}])


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "plugins"
    path.mkdir()
    return path


def write(directory, name, text):
    directory.mkdir(exist_ok=True)
    path = directory / f"{name}.py"
    path.write_text(HEADER + dedent(text))
    return path


def make_host(tmp_path, *directories, builtins=(), toml="", **flags):
    file = tmp_path / "a2ad.toml"
    file.write_text(dedent(toml))
    flags = {key.replace("__", "."): value for key, value in flags.items()}
    config = load(file, environ={"HOME": str(tmp_path)}, flags={"plugins.dirs": list(directories), **flags}).config
    host = PluginHost(config)
    host.load(builtins)
    return host


def plugin(**hooks):
    """A plugin object; the functions' arguments count, as in a module."""
    return SimpleNamespace(**{f"a2ad_{name}": hookimpl(hook) for name, hook in hooks.items()})


def executors(**executors):
    def register_executors(register):
        for name, executor in executors.items():
            register(name, executor)

    return plugin(register_executors=register_executors)


def states(host):
    return {info.name: info.state for info in host.plugins}


def failure(host, name):
    [info] = [info for info in host.plugins if info.name == name]
    assert info.state == "failed"
    return info.error


# Finding and loading


GUARD = """
class Guard:
    @hookimpl
    def a2ad_event(self, event): pass
"""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = 1", "implements no hook; a plugin has functions a2ad_… that are marked with @hookimpl"),
        ("def a2ad_event(event): pass", "not marked with @hookimpl: a2ad_event"),
        ("def a2ad_evnt(event): pass\ndef a2ad_event(event): pass", "not marked with @hookimpl: a2ad_event, a2ad_evnt"),
        (GUARD, "in this module itself, not in Guard"),
        (GUARD + "plugin = Guard()", "in this module itself, not in Guard, plugin"),
    ],
)
def test_a_file_that_implements_no_hook_is_no_plugin_and_is_told_why(tmp_path, directory, text, error):
    write(directory, "forgetful", text)
    assert failure(make_host(tmp_path, directory), "forgetful").endswith(error)


def test_a_function_like_a_hook_is_a_plugin_s_own_where_it_has_others(tmp_path, directory):
    write(directory, "mine", "def a2ad_helper(): pass\n@hookimpl\ndef a2ad_event(event): a2ad_helper()")
    assert states(make_host(tmp_path, directory)) == {"mine": "loaded"}


def test_builtins_are_loaded_first_and_then_the_files_in_order_of_their_names(tmp_path, directory):
    write(directory, "second", "__version__ = '2.1'" + EXECUTOR.replace("NAME", "second"))
    first = write(directory, "first", EXECUTOR.replace("NAME", "first"))
    host = make_host(tmp_path, directory, builtins=[("core", executors(work=Work()))])
    assert host.plugins == [
        PluginInfo("core", __version__, "builtin", "loaded"),
        PluginInfo("first", "", str(first), "loaded"),
        PluginInfo("second", "2.1", str(directory / "second.py"), "loaded"),
    ]
    assert list(host.executors) == ["work", "first", "second"]
    assert (host.executors["first"].summary, host.executors["first"].plugin) == ("Does work", "first")
    assert isinstance(host.executors["first"].value, Executor)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package by hand: a module, and beside it its metadata."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def install(distribution, module, text, entry_points):
        (site / f"{module}.py").write_text(HEADER + dedent(text))
        metadata = site / f"{distribution.replace('-', '_')}-1.2.3.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.3\n")
        (metadata / "entry_points.txt").write_text(entry_points)
        importlib.invalidate_caches()
        return site

    return install


def test_an_installed_package_is_loaded_through_its_entry_point(tmp_path, install):
    install(
        "a2ad-rain",
        "a2ad_rain_module",
        EXECUTOR.replace("NAME", "rain"),
        "[a2ad]\nrain = a2ad_rain_module\n[other]\nx = y\n",
    )
    host = make_host(tmp_path)
    assert host.plugins == [PluginInfo("rain", "1.2.3", "entry point rain of a2ad-rain", "loaded")]
    assert host.executors["rain"].plugin == "rain"


def test_an_entry_point_that_cannot_be_imported_is_reported_with_its_version(tmp_path, install):
    install("a2ad-fog", "a2ad_fog_module", "import nowhere_to_be_found", "[a2ad]\nfog = a2ad_fog_module\n")
    [info] = make_host(tmp_path).plugins
    assert info.to_json() == {
        "name": "fog",
        "version": "1.2.3",
        "source": "entry point fog of a2ad-fog",
        "state": "failed",
        "error": "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    }


def test_the_damaged_metadata_of_one_package_hides_no_other(tmp_path, install):
    install("damaged", "damaged_module", "", "[a2ad]\nthis is no entry point\n")
    install("a2ad-snow", "a2ad_snow_module", HEADER + HOOK, "[a2ad]\nsnow = a2ad_snow_module\n")
    with capture_logs() as logs:
        assert states(make_host(tmp_path)) == {"snow": "loaded"}
    assert any("damaged" in entry.get("package", "") for entry in logs)


def test_a_class_is_as_good_as_an_object(tmp_path):
    class Plugin:
        @hookimpl
        def a2ad_register_executors(self, register):
            register("work", Work())

    host = make_host(tmp_path, builtins=[("core", Plugin)])
    assert list(host.executors) == ["work"]


def test_files_that_begin_with_an_underscore_or_a_dot_are_skipped(tmp_path, directory):
    write(directory, "_helper", "1 / 0")
    write(directory, ".hidden", "1 / 0")
    (directory / "notes.txt").write_text("not Python")
    write(directory, "good", HOOK)
    assert states(make_host(tmp_path, directory)) == {"good": "loaded"}


def test_two_directories_may_hold_files_of_the_same_name(tmp_path):
    write(tmp_path / "a", "same", EXECUTOR.replace("NAME", "from a"))
    write(tmp_path / "b", "same", EXECUTOR.replace("NAME", "from b"))
    host = make_host(tmp_path, tmp_path / "a", tmp_path / "b")
    assert [(info.name, info.state) for info in host.plugins] == [("same", "loaded")] * 2
    assert list(host.executors) == ["from a", "from b"]
    assert type(host.executors["from a"].value) is not type(host.executors["from b"].value)


def test_a_directory_that_is_not_there_is_a_failed_plugin(tmp_path, directory):
    write(directory, "good", HOOK)
    host = make_host(tmp_path, tmp_path / "nowhere", directory)
    assert "No such file or directory" in failure(host, "nowhere")
    assert states(host)["good"] == "loaded"


def test_a_file_is_read_anew_each_time_and_nothing_is_written_beside_it(tmp_path, directory):
    write(directory, "edited", EXECUTOR.replace("NAME", "one"))
    assert list(make_host(tmp_path, directory).executors) == ["one"]
    write(directory, "edited", EXECUTOR.replace("NAME", "two"))
    assert list(make_host(tmp_path, directory).executors) == ["two"]
    assert [path.name for path in directory.iterdir()] == ["edited.py"]


def test_a_plugin_may_define_dataclasses_and_use_its_module(tmp_path, directory):
    write(
        directory,
        "data-class",
        """
        from dataclasses import dataclass
        import sys

        @dataclass
        class Point:
            x: "int"

        @hookimpl
        def a2ad_event(event): pass

        assert sys.modules[__name__].Point is Point
        """,
    )
    assert states(make_host(tmp_path, directory)) == {"data-class": "loaded"}


def test_a_disabled_plugin_is_not_imported(tmp_path, directory, install):
    marker = tmp_path / "imported"
    text = f"open({str(marker)!r}, 'w')"
    write(directory, "off", text)
    install("a2ad-dull", "a2ad_dull_module", text, "[a2ad]\ndull = a2ad_dull_module\n")
    off = {"plugins__disabled": ["off", "dull", "core"]}
    host = make_host(tmp_path, directory, builtins=[("core", executors(work=Work()))], **off)
    assert states(host) == {"core": "disabled", "dull": "disabled", "off": "disabled"}
    assert not marker.exists()
    assert not host.executors


def test_a_disabled_name_that_nobody_bears_is_named_in_the_log(tmp_path):
    with capture_logs() as logs:
        make_host(tmp_path, plugins__disabled=["wether"])
    assert [entry["plugin"] for entry in logs] == ["wether"]


def registering(kind, *calls):
    return "\n".join(
        ["@hookimpl", f"def a2ad_register_{kind}(register):", *(indent(dedent(call), "    ") for call in calls)]
    )


BROKEN = {
    "ImportError": ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
    "SyntaxError": ("def (", "SyntaxError: invalid syntax"),
    "a null byte": ("x = '\0'", "null bytes"),
    "RuntimeError": ("raise RuntimeError('out of luck')", "RuntimeError: out of luck"),
    "SystemExit": ("raise SystemExit(3)", "SystemExit: 3"),
    "GeneratorExit": ("raise GeneratorExit", "GeneratorExit"),
    "CancelledError": ("raise asyncio.CancelledError", "CancelledError"),
    "an unknown hook": (
        "@hookimpl\ndef a2ad_inbound_tsk(decision): pass",
        "unknown hook a2ad_inbound_tsk, is it a2ad_inbound_task?",
    ),
    "a hook without its mark": ("def a2ad_event(event): pass", "not marked with @hookimpl: a2ad_event"),
    "an unknown argument": ("@hookimpl\ndef a2ad_event(evnt): pass", "{'evnt'}"),
    "a wrapper": (
        "@hookimpl(wrapper=True)\ndef a2ad_event(event):\n    return (yield)",
        "a2ad_event is a hook wrapper",
    ),
    "an old wrapper": ("@hookimpl(hookwrapper=True)\ndef a2ad_event(event):\n    yield", "is a hook wrapper"),
    "a hook that raises": (registering("executors", "1 / 0"), "ZeroDivisionError: division by zero"),
    "a hook that exits": (registering("agents", "raise SystemExit('bye')"), "SystemExit: bye"),
    "an async hook": (
        "@hookimpl\nasync def a2ad_register_stores(register): pass",
        "a2ad_register_stores must not be async",
    ),
    "an executor that is a class": (
        "class Work(Executor): pass\n" + registering("executors", "register('x', Work)"),
        "executor 'x' must be an instance of Executor, not the class Work",
    ),
    "an executor that is none": (registering("executors", "register('x', 'sunny')"), "not 'sunny'"),
    "an executor without a name": (registering("executors", "register('', None)"), "not ''"),
    "a missing argument": (registering("executors", "register('x')"), "TypeError"),
    "a factory that is none": (registering("agents", "register('x', 5)"), "agent 'x' needs a factory"),
    "a store that is none": (registering("stores", "register('x', None)"), "store 'x' needs a function"),
    "an agent kind that is taken": (
        registering("agents", "register('echo', print)"),
        "agent kind 'echo' is registered",
    ),
    "a name used twice": (
        registering("agents", "register('x', print)", "register('x', print)"),
        "agent kind 'x' is registered already",
    ),
    "a scheme that is taken": (registering("stores", "register('sqlite', print)"), "'sqlite' is registered already"),
    "a preset id that is taken": (
        registering("presets", "register('standard', {})"),
        "preset 'standard' is registered",
    ),
    "a preset that is no mapping": (registering("presets", "register('x', ['y'])"), "must be a mapping, not ['y']"),
    "a preset with an unknown key": (registering("presets", "register('x', {'agnt': 'echo'})"), "agnt"),
}


@pytest.fixture
def core():
    def register_agents(register):
        register("echo", print)

    def register_stores(register):
        register("sqlite", print)

    def register_executors(register):
        register("session", Work())

    return plugin(
        register_agents=register_agents, register_stores=register_stores, register_executors=register_executors
    )


@pytest.mark.parametrize(("text", "error"), BROKEN.values(), ids=BROKEN)
async def test_a_plugin_that_fails_is_reported_and_left_out_entirely(tmp_path, directory, core, text, error):
    half = """
@hookimpl(specname="a2ad_register_executors")
def first(register):
    register("half", HalfWork())

@hookimpl(specname="a2ad_inbound_task")
def gate(decision):
    return Deny("I am still here")

class HalfWork(Executor):
    async def execute(self, request):
        yield Artifact(parts=[{"text": "half"}])
"""
    write(directory, "broken", half + text)
    write(directory, "good", EXECUTOR.replace("NAME", "good"))
    with capture_logs() as logs:
        host = make_host(tmp_path, directory, builtins=[("core", core)])
    assert error in failure(host, "broken")
    assert [entry["plugin"] for entry in logs] == ["broken"]
    assert states(host) == {"core": "loaded", "broken": "failed", "good": "loaded"}
    assert sorted(host.executors) == ["good", "session"]
    assert list(host.agents) == ["echo"]
    assert list(host.presets) == ["standard"]
    assert list(host.stores) == ["sqlite"]
    assert not host.has_gates
    assert await host.inbound_task(DECISION) is None


def test_an_unknown_hook_that_is_marked_optional_is_none_of_our_business(tmp_path, directory):
    write(directory, "modern", "@hookimpl(optionalhook=True)\ndef a2ad_from_the_future(anything): pass")
    assert states(make_host(tmp_path, directory)) == {"modern": "loaded"}


def test_nothing_can_be_registered_after_startup(tmp_path):
    kept = []

    def register_executors(register):
        kept.append(register)

    host = make_host(tmp_path, builtins=[("late", plugin(register_executors=register_executors))])
    with pytest.raises(ValueError, match="start-up only"):
        kept[0]("work", Work())
    assert not host.executors


def test_a_registration_hook_that_hangs_is_named_while_it_hangs(tmp_path):
    hook = ("slow", "a2ad_register_executors")

    def stages(logs):
        return [(entry["plugin"], entry["stage"]) for entry in logs]

    with capture_logs() as logs:

        def register_executors(register):
            deadline = time.monotonic() + 10
            while hook not in stages(logs) and time.monotonic() < deadline:
                time.sleep(0.001)

        slow = plugin(register_executors=register_executors)
        host = make_host(tmp_path, builtins=[("slow", slow)], limits__gate_seconds=0.01)
    assert hook in stages(logs)
    assert states(host) == {"slow": "loaded"}


# Presets


def presets(**presets):
    def register_presets(register):
        for name, mapping in presets.items():
            register(name, mapping)

    return plugin(register_presets=register_presets)


def test_presets_of_plugins_add_to_the_built_in_one(tmp_path, core):
    more = presets(work={"agent": "echo", "skills": [{"id": "dig"}]})
    host = make_host(tmp_path, builtins=[("core", core), ("more", more)])
    host.check_presets()
    assert list(host.presets) == ["standard", "work"]
    assert host.presets["work"].skills[0].id == "dig"
    assert host.default_preset().id == "standard"


def test_configured_presets_replace_the_built_in_one_and_the_marked_one_is_the_default(tmp_path, core):
    toml = """
    [[presets]]
    id = "a"
    [[presets]]
    id = "b"
    default = true
    """
    host = make_host(tmp_path, builtins=[("core", core)], toml=toml)
    host.check_presets()
    assert list(host.presets) == ["a", "b"]
    assert host.default_preset().id == "b"


def test_without_a_mark_the_first_preset_is_the_default(tmp_path):
    host = make_host(tmp_path, toml='[[presets]]\nid = "a"\n[[presets]]\nid = "b"')
    assert host.default_preset().id == "a"


def test_a_configured_preset_with_unknown_names_is_an_error_that_names_the_known_ones(tmp_path, core):
    toml = """
    [[presets]]
    id = "mine"
    agent = "eko"
    [[presets.skills]]
    id = "dig"
    executor = "spade"
    """
    host = make_host(tmp_path, builtins=[("core", core)], toml=toml)
    with pytest.raises(ConfigError) as caught:
        host.check_presets()
    assert caught.value.problems == (
        "preset 'mine': unknown agent 'eko'; known: echo",
        "preset 'mine', skill 'dig': unknown executor 'spade'; known: session",
    )


def test_a_preset_whose_options_its_agent_refuses_is_an_error_that_names_both(tmp_path, core):
    made = []

    def make(preset):
        made.append(preset.id)
        if preset.id == "odd":
            raise RuntimeError("this one cannot be made at all")
        if preset.options:
            raise PresetError(f"the agent picky has no option {', '.join(preset.options)}")

    picky = plugin(register_agents=lambda register: register("picky", make))
    toml = '[[presets]]\nid = "{}"\nagent = "picky"\n'
    host = make_host(tmp_path, builtins=[("core", core), ("picky", picky)], toml=toml.format("odd"))
    host.check_presets()
    assert made == ["odd"], "that is its tasks' failure, not the daemon's"

    toml = toml.format("mine") + "options = { colour = 1 }\n"
    host = make_host(tmp_path, builtins=[("core", core), ("picky", picky)], toml=toml)
    with pytest.raises(ConfigError) as caught:
        host.check_presets()
    assert caught.value.problems == ("preset 'mine': the agent picky has no option colour",)


async def test_a_plugin_whose_preset_has_unknown_names_fails_with_all_that_needs_it(tmp_path, core):
    def register_presets(register):
        register("base", {"agent": "eko"})

    def register_executors(register):
        register("spade", Work())

    def inbound_task(decision):
        return Deny("I am still here")

    base = plugin(register_presets=register_presets, register_executors=register_executors, inbound_task=inbound_task)
    digging = presets(digging={"skills": [{"id": "dig", "executor": "spade"}]})
    good = presets(good={})
    builtins = [("core", core), ("digging", digging), ("base", base), ("good", good)]
    host = make_host(tmp_path, builtins=builtins)
    host.check_presets()
    assert states(host) == {"core": "loaded", "digging": "failed", "base": "failed", "good": "loaded"}
    assert failure(host, "digging") == "preset 'digging', skill 'dig': unknown executor 'spade'; known: session"
    assert list(host.presets) == ["standard", "good"]
    assert list(host.executors) == ["session"]
    assert not host.has_gates
    assert await host.inbound_task(DECISION) is None


# The example


async def test_the_example_plugin_loads_and_answers(tmp_path, core, request):
    host = make_host(tmp_path, request.config.rootpath / "etc/plugins", builtins=[("core", core)])
    host.check_presets()
    assert states(host) == {"core": "loaded", "weather": "loaded"}
    assert [skill.executor for skill in host.presets["weather"].skills] == ["weather"]
    weather = host.executors["weather"].value
    events = [event async for event in weather.execute(SimpleNamespace(text=" Oslo "))]
    assert "".join(event.parts[0]["text"] for event in events) == "Sunny in Oslo"
    assert [event.last_chunk for event in events] == [False, True]
    with pytest.raises(Exception, match="Which city"):
        await anext(weather.execute(SimpleNamespace(text=" ")))
