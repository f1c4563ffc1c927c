"""Tables on terminals of any width, with characters of any width."""

import sys

import pytest

from a2ad.cli import table as tables
from a2ad.cli.table import cell, cut, table, width
from a2ad.cli.terminal import has_colours


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("漢字", 4),
        ("é", 1),
        ("e\u0301", 1),
        ("ｱ", 1),
        ("\uff21", 2),
        ("🎉", 2),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
        ("", 0),
    ],
)
def test_a_text_takes_the_columns_that_terminals_give_it(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 4, "abc…"),
        ("漢字漢字", 5, "漢字…"),
        ("漢字漢字", 4, "漢…"),
        ("ab", 1, "…"),
        ("ab", 0, ""),
    ],
)
def test_what_is_too_long_is_cut_with_an_ellipsis(text: str, limit: int, shown: str) -> None:
    assert cut(text, limit) == shown
    assert width(cut(text, limit)) <= limit


def test_a_cell_is_one_line_of_printable_characters() -> None:
    assert cell("a\x1b[31m\nb\u202ec\u2066d\x9b\u200b") == "a?[31m b?c?d??"
    assert (cell(None), cell(""), cell(0), cell(" ")) == ("-", "-", "0", "-")


ROWS = [
    {"id": "0123456789abcdef", "state": "failed", "summary": "漢字" * 30},
    {"id": "fedcba9876543210", "state": "completed", "summary": "short"},
]


@pytest.mark.parametrize("columns", [200, 80, 50, 40, 20, 7, 1])
def test_a_table_fits_the_terminal_and_cuts_no_id_that_fits(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "terminal_width", lambda: columns)
    lines = table(("id", "state", "summary"), ROWS)
    assert len(lines) == 3
    assert all(width(line) <= columns for line in lines)
    if columns >= 16:
        assert [line[:16] for line in lines[1:]] == [row["id"] for row in ROWS]
    if columns >= 40:
        assert lines[1].startswith("0123456789abcdef  failed")
    assert ("…" in lines[1]) == (columns not in {200, 20})


TASK = "01a23265-e111-7222-8333-444455556666"
LISTED = {"id": TASK, "name": "my-reports", "state": "input required", "url": "http://127.0.0.1:3080/a2a/reports",
          "inbound": TASK, "error": None}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "header"),
    [
        (160, ["id", "name", "state", "url", "inbound", "error"]),
        (125, ["id", "name", "state", "url", "inbound"]),
        (110, ["id", "name", "state", "inbound"]),
        (100, ["id", "name", "state"]),
        (60, ["id", "name"]),
        (40, ["id"]),
    ],
)
def test_columns_leave_that_say_nothing_and_then_the_weakest_but_no_id_is_cut(
    columns: int, header: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "terminal_width", lambda: columns)
    lines = table(("id", "name", "state", "url", "inbound", "error"), [LISTED], weakest=("url", "inbound"))
    assert lines[0].split() == header
    words = {"state": "input required", "url": "http"}
    assert all(words.get(column, str(LISTED[column] or "-")) in lines[1] for column in header)
    assert all(width(line) <= columns for line in lines)


def test_where_there_is_no_terminal_nothing_is_cut() -> None:
    lines = table(("id", "state", "summary"), ROWS)
    assert lines[1] == f"0123456789abcdef  failed     {'漢字' * 30}"


@pytest.mark.parametrize(
    ("terminal", "environ", "coloured"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"CLICOLOR": "0"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "0"}, False),
        (False, {"CLICOLOR_FORCE": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_follow_what_the_environment_says(
    terminal: bool, environ: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "CLICOLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert has_colours(sys.stdout) is coloured
