"""What commands do with an action's answer, and with what they were given for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from a2ad.cli.terminal import echo_json, show

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon

Row = dict[str, Any]


def act(daemon: Daemon, action: str, as_json: bool, /, **fields: Any) -> Row:
    """The daemon's answer, printed where JSON is wanted, also where it says no."""
    with refusals(as_json):
        answer = daemon.act(action, **fields)
    if as_json:
        echo_json(answer)
    return answer


def act_on_row(daemon: Daemon, action: str, rows: str, wanted: str, as_json: bool, /, **fields: Any) -> None:
    """Do it with the row of `rows`, such as `inbounds`, that is meant, and say what was done."""
    row = daemon.find(rows, wanted)
    done(act(daemon, action, as_json, id=row["id"], **fields), as_json)


@contextmanager
def refusals(as_json: bool) -> Iterator[None]:
    """Where JSON is wanted, a refusal is printed as such, too."""
    from a2ad.cli.client import Refused

    try:
        yield
    except Refused as refused:
        if as_json:
            echo_json(refused.answer)
        raise


def done(answer: Row, as_json: bool) -> None:
    """Say what the daemon did, where the answer is not printed as JSON already."""
    if not as_json:
        show(answer["message"])


def given(fields: Mapping[str, Any]) -> Row:
    """The fields that were given: None was not."""
    return {name: value for name, value in fields.items() if value is not None}


def present(details: Mapping[str, Any]) -> list[tuple[str, object]]:
    """The details that there are, as people read them."""
    words = {True: "yes", False: "no"}
    return [
        (name, words[value] if isinstance(value, bool) else value)
        for name, value in details.items()
        if value not in (None, "")
    ]
