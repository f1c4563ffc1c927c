"""The panel's files: where they are, who gets them, and what a browser may do with them (`design.md`; issue 7)."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon import DaemonProcess, running
from tests.e2e.control_support import raw

STATIC = Path(__file__).parents[2] / "a2ad/web/static"
HOME = "/a2a/panel/"
FILES = sorted(file.relative_to(STATIC).as_posix() for file in STATIC.rglob("*") if file.is_file())
TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain",
}
NAVIGATION = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("panel")) as daemon:
        yield daemon


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_as_it_is_with_its_type_and_the_headers_that_confine_it(
    shared: DaemonProcess, name: str
) -> None:
    answer = raw(shared.url, "GET", HOME + name)

    assert (answer.status, answer.body) == (200, (STATIC / name).read_bytes())
    assert answer.headers["Content-Type"] == f"{TYPES[name.rpartition('.')[2]]}; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-cache"


def test_the_panel_opens_with_its_page(shared: DaemonProcess) -> None:
    assert raw(shared.url, "GET", HOME).body == (STATIC / "index.html").read_bytes()
    assert raw(shared.url, "GET", f"{HOME}?x=1").status == 200


@pytest.mark.parametrize("path", ["/", "/a2a/panel", "/?x=1"])
def test_the_root_and_the_panel_without_its_slash_lead_there(shared: DaemonProcess, path: str) -> None:
    for method, headers in (("GET", []), ("HEAD", []), ("GET", NAVIGATION)):
        answer = raw(shared.url, method, path, headers)

        assert (answer.status, answer.headers["Location"]) == (302, HOME)


def test_a_file_that_is_known_is_not_sent_again(shared: DaemonProcess) -> None:
    first = raw(shared.url, "GET", f"{HOME}app.js")
    tag = first.headers["Etag"]

    for known in (tag, f'"x", {tag}', f"W/{tag}", "*"):
        again = raw(shared.url, "GET", f"{HOME}app.js", [("If-None-Match", known)])
        assert (again.status, again.body, again.headers["Etag"]) == (304, b"", tag)
        assert again.headers["Cache-Control"] == "no-cache"
    assert raw(shared.url, "GET", f"{HOME}app.js", [("If-None-Match", '"other"')]).status == 200


def test_head_has_the_headers_alone(shared: DaemonProcess) -> None:
    got, head = (raw(shared.url, method, f"{HOME}app.css") for method in ("GET", "HEAD"))

    assert (head.status, head.body) == (200, b"")
    assert {name: got.headers[name] for name in ("Etag", "Content-Type", "Content-Length")} == {
        name: head.headers[name] for name in ("Etag", "Content-Type", "Content-Length")
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_but_reading_is_answered(shared: DaemonProcess, method: str) -> None:
    for path in (HOME, f"{HOME}app.js", "/a2a/panel"):
        answer = raw(shared.url, method, path)

        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "nothing.js",
        "lib",
        "lib/",
        "../control.py",
        "../../daemon.py",
        "%2e%2e/control.py",
        "..%2fcontrol.py",
        "..%5ccontrol.py",
        "lib/../../control.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "app.js%00",
        "app.js/",
        "APP.JS",
        "index.html/..",
    ],
)
def test_what_is_no_file_of_the_panel_is_not_found(shared: DaemonProcess, path: str) -> None:
    answer = raw(shared.url, "GET", HOME + path)

    assert answer.status in {400, 404}
    assert b"import" not in answer.body


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        ([("X-Forwarded-For", "127.0.0.1")], ""),
        ([("Forwarded", "for=127.0.0.1")], ""),
        ([("Origin", "http://evil.test")], ""),
        ([("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")], ""),
        ([], "evil.test"),
        (NAVIGATION, "evil.test"),
    ],
)
def test_whom_the_control_api_refuses_the_panel_refuses_too(
    shared: DaemonProcess, headers: list[tuple[str, str]], host: str
) -> None:
    for path in (HOME, "/a2a/panel", f"{HOME}app.js", f"{HOME}nothing.js"):
        assert raw(shared.url, "GET", path, headers, host=host).status == 403
    assert raw(shared.url, "GET", "/", headers, host=host).status == 404


def test_a_caller_of_another_address_is_refused(launch: Callable[..., DaemonProcess]) -> None:
    daemon = launch()

    assert raw(daemon.url, "GET", HOME, source="127.0.0.2").status == 403
    assert raw(daemon.url, "GET", "/", source="127.0.0.2").status == 404


def test_another_sites_link_opens_the_panel(shared: DaemonProcess) -> None:
    assert raw(shared.url, "GET", HOME, NAVIGATION).status == 200


def test_where_the_control_api_has_a_listener_of_its_own_the_panel_is_there_alone(
    launch: Callable[..., DaemonProcess],
) -> None:
    daemon = launch(config='[server]\ncontrol_listen = "127.0.0.1:0"\n')
    control = daemon.await_control()

    assert raw(control, "GET", "/").headers["Location"] == HOME
    assert raw(control, "GET", HOME).status == 200
    assert raw(control, "POST", "/").status in {404, 405}
    assert raw(control, "GET", "/", host="evil.test").status == 403
    for path in ("/", HOME, "/a2a/panel", f"{HOME}app.js"):
        assert raw(daemon.url, "GET", path).status == 404


def test_the_vendored_libraries_are_those_that_are_named() -> None:
    entries = json.loads((STATIC / "vendor/VERSIONS.json").read_text())

    assert {entry["file"]: entry["sha256"] for entry in entries} == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (STATIC / "vendor").iterdir()
        if file.name != "VERSIONS.json"
    }
    licensed = {entry["package"] for entry in entries if "LICENSE" in entry["file"]}
    assert licensed == {entry["package"] for entry in entries}


def test_no_module_names_another_host_or_one_that_is_not_there() -> None:
    for file in STATIC.rglob("*.js"):
        for name in re.findall(
            r"""^(?:import|export|\} from)\b.*?["']([^"']+)["'];$""", file.read_text(), re.MULTILINE
        ):
            assert (file.parent / name).is_file(), (file, name)


@pytest.mark.parametrize("part", sorted(file.name for file in (STATIC / "lib/en").iterdir()))
def test_every_text_is_there_in_both_languages(part: str) -> None:
    def keys(language: str) -> set[str]:
        found = re.findall(r'^  "([^"]+)":', (STATIC / "lib" / language / part).read_text(), re.MULTILINE)
        assert len(found) == len(set(found)), "a key stands there twice"
        return {key.removesuffix(".one") for key in found if f"{key.removesuffix('.one')}.other" not in found}

    assert keys("en") == keys("zh")
