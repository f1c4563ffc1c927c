"""`a2ad plugins` and the commands of plugins, as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from a2ad import __version__
from a2ad.cli.client import NoDaemon, configured_daemon, daemon_at
from a2ad.config import load


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "plugins"
    path.mkdir()
    return path


def write(directory, name, text):
    path = directory / f"{name}.py"
    path.write_text(text)
    return path


def run(tmp_path, *arguments, **environ):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("A2AD_")}
    command = [sys.executable, "-m", "a2ad", *arguments]
    env = {**inherited, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), **environ}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def daemon():
    """Something that answers as the control API does; yields its URL and what it answers."""
    rows = [{"name": "remote", "version": "1", "source": "builtin", "state": "loaded"}]
    answer = {"body": json.dumps({"inbounds": [], "plugins": rows}), "status": 200}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.path.partition("?")[0] in {"/a2a/api", "/a2a/api/metrics"}
            self.send_response(answer["status"] if known else 404)
            self.end_headers()
            self.wfile.write(answer["body"].encode() if known else b"{}")

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", answer
        server.shutdown()
        thread.join()


def test_without_a_daemon_the_command_loads_the_plugins_itself(tmp_path, directory):
    (directory / "broken.py").write_text("print('hello')\nraise SystemExit('two\\nlines \\x1b[31m')")
    write(directory, "good", "from a2ad import hookimpl\n__version__ = '2'\n@hookimpl\ndef a2ad_event(event): pass\n")
    (tmp_path / "a2ad.toml").write_text('[server]\nlisten = "127.0.0.1:1"')
    done = run(tmp_path, "plugins", "--config", str(tmp_path / "a2ad.toml"), "--plugins-dir", str(directory))
    assert done.returncode == 0
    assert "no daemon answered at http://127.0.0.1:1" in done.stderr
    header, builtin, *rows = done.stdout.splitlines()
    broken, good = (row for row in rows if str(directory) in row)
    assert header.split() == ["name", "version", "state", "source", "error"]
    assert builtin.split() == ["a2ad", __version__, "loaded", "builtin", "-"]
    assert broken.split() == [*f"broken - failed {directory}/broken.py".split(), "SystemExit:", "two", "lines", "?[31m"]
    assert good.split() == ["good", "2", "loaded", f"{directory}/good.py", "-"]
    assert header.index("error") == good.index(" -") + 1


def test_the_list_as_json_has_the_rows_of_the_snapshot(tmp_path, directory):
    broken = write(directory, "broken", "print('noise')\n1 / 0")
    environ = {"A2AD_PLUGINS__DIRS": str(directory), "A2AD_SERVER__LISTEN": "127.0.0.1:1"}
    done = run(tmp_path, "plugins", "--json", **environ)
    assert done.returncode == 0
    error = "ZeroDivisionError: division by zero"
    row = {"name": "broken", "version": "", "source": str(broken), "state": "failed", "error": error}
    assert [each for each in json.loads(done.stdout) if str(directory) in each["source"]] == [row]


def test_a_running_daemon_is_asked_and_no_proxy_stands_between(tmp_path, daemon):
    url, _ = daemon
    proxies = {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1", "no_proxy": ""}
    asked = run(tmp_path, "plugins", "--url", f"{url}/", **proxies)
    assert asked.stdout.splitlines()[1].split() == ["remote", "1", "loaded", "builtin", "-"]
    assert run(tmp_path, "plugins", A2AD_URL=url, **proxies).stdout == asked.stdout
    listen = {"A2AD_SERVER__LISTEN": url.removeprefix("http://")}
    assert run(tmp_path, "plugins", **listen, **proxies).stdout == asked.stdout


def test_an_explicit_url_that_does_not_answer_is_named_and_ends_with_status_1(tmp_path):
    for arguments, environ in ((["--url", "http://127.0.0.1:1"], {}), ([], {"A2AD_URL": "http://127.0.0.1:1"})):
        done = run(tmp_path, "plugins", *arguments, **environ)
        assert (done.returncode, done.stdout) == (1, "")
        assert "http://127.0.0.1:1" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_url_that_is_none_is_wrong_use(tmp_path):
    done = run(tmp_path, "plugins", "--url", "file:///etc/passwd")
    assert done.returncode == 2
    assert "file:///etc/passwd" in done.stderr


@pytest.mark.parametrize(
    ("status", "body"), [(200, "<html>"), (200, "[]"), (200, '{"plugins": [1]}'), (403, "{}"), (200, "")]
)
def test_another_server_at_the_address_is_no_daemon(tmp_path, daemon, status, body):
    url, answer = daemon
    answer.update(status=status, body=body)
    done = run(tmp_path, "plugins", "--url", url)
    assert done.returncode == 1
    assert f"no a2ad daemon answered at {url}" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_client_gets_json_or_says_that_there_is_no_daemon(daemon):
    url, _ = daemon
    assert daemon_at(url, "a test").get()["plugins"][0]["name"] == "remote"
    with pytest.raises(NoDaemon, match="404"):
        daemon_at(url, "a test").get("/nothing")


@pytest.mark.parametrize(("health", "status"), [("ok", 0), ("degraded", 1), ("stopping", 1)])
def test_the_status_of_a_daemon_that_is_not_well_is_1(tmp_path, daemon, health, status):
    url, answer = daemon
    store = {"ok": False, "error": "no \x1b[31m room", "since": "2026-01-01T00:00:00.000Z"}
    answer["body"] = json.dumps({"attention": [], "health": {"status": health, "store": store}, "tasks": {}})
    done = run(tmp_path, "status", "--url", url)
    assert done.returncode == status
    assert "no ?[31m room, since 2026-01-01" in done.stdout


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({}, "http://127.0.0.1:3080"),
        ({"server.listen": "0.0.0.0:80"}, "http://127.0.0.1:80"),
        ({"server.listen": "[::]:80"}, "http://[::1]:80"),
        ({"server.control_listen": "127.0.0.1:9"}, "http://127.0.0.1:9"),
        ({"server.public_url": "https://agents.example.org"}, "http://127.0.0.1:3081"),
    ],
)
def test_the_control_api_is_where_the_configuration_puts_it(tmp_path, server, expected):
    daemon = configured_daemon(load(environ={"HOME": str(tmp_path)}, flags=server))
    assert daemon.url == expected
    assert daemon.origin.partition(" from flag ")[0] == (next(iter(server), "the default"))


HELLO = """
import click
from a2ad import hookimpl

@hookimpl
def a2ad_register_commands(cli):
    cli.add_command(click.Command("hello", callback=lambda: click.echo("Hello.")))
"""


def test_a_plugin_adds_a_command_although_another_is_broken(tmp_path, directory):
    write(directory, "broken", "print('noise')\nraise SystemExit(7)")
    write(directory, "greeter", HELLO)
    done = run(tmp_path, "hello", A2AD_PLUGINS__DIRS=str(directory))
    assert (done.returncode, done.stdout) == (0, "Hello.\n")


def test_a_broken_configuration_does_not_break_the_command_line(tmp_path):
    done = run(tmp_path, "hello", A2AD_SERVER__LISTEN="nonsense")
    assert done.returncode == 2
    assert "No such command 'hello'" in done.stderr
