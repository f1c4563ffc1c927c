"""A daemon that cannot start says why in one line and ends: no traceback, no hang, and nothing is harmed."""

import os
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess
from tests.e2e.control_support import failed_start

Launch = Callable[..., DaemonProcess]


def one_line(told: str, *words: str) -> None:
    """One line, and these words are in it."""
    lines = told.splitlines()
    assert len(lines) == 1, told
    for word in words:
        assert word in lines[0]


def configured(folder: Path, text: str | bytes) -> tuple[str, str]:
    path = folder / "bad.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return "--config", str(path)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        told = failed_start(tmp_path, listen=f"127.0.0.1:{port}")

    one_line(told, f"127.0.0.1:{port}")


def test_an_address_that_is_not_this_machines_is_named(tmp_path: Path) -> None:
    one_line(failed_start(tmp_path, listen="192.0.2.1:3080"), "192.0.2.1:3080")


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:-1", "http://127.0.0.1:1"])
def test_an_address_that_is_none_is_used_wrongly(tmp_path: Path, listen: str) -> None:
    assert listen in failed_start(tmp_path, listen=listen)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server\n", ["bad.toml"]),
        (b"\xff\xfe\x00", ["bad.toml"]),
        ("[servers]\n", ["bad.toml", "servers"]),
        ("[server]\nlisten_on = 1\n", ["bad.toml", "server.listen_on"]),
        ("[limits]\nruns = 'many'\n", ["bad.toml", "limits.runs"]),
        ("[limits]\nruns = 0\n", ["bad.toml", "limits.runs"]),
        ("[server]\ncontrol_listen = 'here'\n", ["bad.toml", "server.control_listen"]),
        ("[store]\nurl = 'nonesuch://host/db'\n", ["nonesuch"]),
    ],
)
def test_a_configuration_that_cannot_be_used_is_named_with_its_key(
    tmp_path: Path, text: str | bytes, words: list[str]
) -> None:
    one_line(failed_start(tmp_path, *configured(tmp_path, text)), *words)


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()

    assert "absent.toml" in failed_start(tmp_path, "--config", str(tmp_path / "absent.toml"))
    assert "folder.toml" in failed_start(tmp_path, "--config", str(tmp_path / "folder.toml"))


def test_a_flag_that_is_none_is_used_wrongly(tmp_path: Path) -> None:
    assert "--nonesuch" in failed_start(tmp_path, "--nonesuch")
    assert "loud" in failed_start(tmp_path, "--log-level", "loud")


# the database


def test_a_database_from_a_newer_version_is_refused_and_left_as_it_is(launch: Launch, tmp_path: Path) -> None:
    daemon = launch()
    inbound = daemon.create_inbound()
    assert daemon.terminate() == 0
    database = daemon.state_dir / "a2ad.db"
    with closing(sqlite3.connect(database)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version + 1}")
    before = database.read_bytes()

    one_line(failed_start(tmp_path), "newer", str(version + 1))

    assert database.read_bytes() == before
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    assert [row["id"] for row in launch().read("")["inbounds"]] == [inbound]


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    database = tmp_path / "state" / "a2ad.db"
    database.parent.mkdir(mode=0o700)
    content = b"this is a letter to my aunt\n" * 400
    database.write_bytes(content)

    one_line(failed_start(tmp_path), str(database))

    assert database.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    database = tmp_path / "state" / "a2ad.db"
    database.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE tasks (title TEXT)")
        connection.execute("INSERT INTO tasks VALUES ('buy milk')")
        connection.commit()

    one_line(failed_start(tmp_path), str(database))

    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("tasks",)]
        assert connection.execute("SELECT * FROM tasks").fetchall() == [("buy milk",)]


def test_a_damaged_database_is_refused(launch: Launch, tmp_path: Path) -> None:
    daemon = launch()
    daemon.send(daemon.create_inbound(), "hello")
    assert daemon.terminate() == 0
    database = daemon.state_dir / "a2ad.db"
    content = bytearray(database.read_bytes())
    content[100:] = os.urandom(len(content) - 100)
    database.write_bytes(content)

    one_line(failed_start(tmp_path), str(database))


def test_a_database_path_that_is_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state" / "a2ad.db").mkdir(parents=True)

    one_line(failed_start(tmp_path), "a2ad.db")


def test_an_empty_database_file_is_a_new_one(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "a2ad.db").touch()

    assert launch().read("")["inbounds"] == []


# the state directory


def test_a_state_directory_that_another_daemon_holds_is_refused_and_that_one_goes_on(
    launch: Launch, tmp_path: Path
) -> None:
    holder = launch()
    inbound = holder.create_inbound()

    one_line(failed_start(tmp_path), str(holder.state_dir))

    assert holder.send(inbound, "hello")["status"]["state"] == "TASK_STATE_COMPLETED"
    holder.kill()
    assert [row["id"] for row in launch().read("")["inbounds"]] == [inbound]


@pytest.mark.parametrize("below", ["file", "file/state", "file/deeper/state"])
def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()

    one_line(failed_start(tmp_path, state=tmp_path / below), str(tmp_path / below))


def test_a_state_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    one_line(failed_start(tmp_path, state=Path("/proc/1/a2ad")), "/proc/1/a2ad")


# presets and plugins


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ('id = "p"\n[[presets.skills]]\nid = "chat"\nexecutor = "nonesuch"\n', ["nonesuch", "session"]),
        ('id = "p"\nagent = "nonesuch"\n[[presets.skills]]\nid = "chat"\n', ["nonesuch", "echo"]),
    ],
)
def test_a_preset_with_an_executor_or_agent_that_is_not_there_is_refused_and_the_known_ones_are_named(
    launch: Launch, tmp_path: Path, preset: str, words: list[str]
) -> None:
    before = launch()
    inbound = before.create_inbound()
    assert before.terminate() == 0

    one_line(failed_start(tmp_path, *configured(tmp_path, f"[[presets]]\n{preset}")), *words)

    assert [row["id"] for row in launch().read("")["inbounds"]] == [inbound]


def test_a_broken_plugin_does_not_keep_it_from_starting(launch: Launch) -> None:
    daemon = launch(
        plugin={
            "syntax": "def broken(:\n",
            "missing": "import nonesuch_module\n",
            "leaves": "raise SystemExit(3)\n",
            "raises": "from a2ad import hookimpl\n@hookimpl\n"
            "def a2ad_register_executors(register, config):\n    raise ValueError('no luck')\n",
            "starts": "from a2ad import hookimpl\n@hookimpl\n"
            "def a2ad_startup(daemon):\n    raise ValueError('not today')\n",
        }
    )

    states = {plugin["name"]: plugin["state"] for plugin in daemon.read("")["plugins"]}

    assert {states[name] for name in ("syntax", "missing", "leaves", "raises")} == {"failed"}
    assert daemon.send(daemon.create_inbound(), "hello")["status"]["state"] == "TASK_STATE_COMPLETED"
    assert daemon.terminate() == 0


def test_a_plugin_whose_executor_a_configured_preset_needs_is_named_when_it_breaks(
    launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "weather.py").write_text("import nonesuch_module\n")
    options = configured(tmp_path, '[[presets]]\nid = "p"\n[[presets.skills]]\nid = "chat"\nexecutor = "weather"\n')

    told = failed_start(tmp_path, "--plugins-dir", str(tmp_path / "plugins"), *options, traceback=True)

    assert "nonesuch_module" in told
    assert "weather" in told.splitlines()[-1]


def test_an_inbound_whose_preset_is_gone_does_not_keep_it_from_starting(launch: Launch) -> None:
    preset = '[[presets]]\nid = "special"\n[[presets.skills]]\nid = "chat"\n'
    first = launch(config=preset)
    inbound = first.create_inbound(preset="special")
    assert first.terminate() == 0

    second = launch(config='[[presets]]\nid = "other"\n[[presets.skills]]\nid = "chat"\n')

    (row,) = second.read("")["inbounds"]
    assert "special" in row["error"]
    assert [entry["id"] for entry in second.read("")["attention"]] == [inbound]
    second.act("inbound.update", id=inbound, preset="other")
    assert second.send(inbound, "hello")["status"]["state"] == "TASK_STATE_COMPLETED"
