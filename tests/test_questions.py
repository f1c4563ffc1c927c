"""Which option an answer names: exactly one, or none; it might be a permission."""

from typing import Any

import pytest

from a2ad.engine.questions import chosen

YES = {"id": "yes", "name": "Allow once", "kind": "allow_once"}
NO = {"id": "no", "name": "Reject", "kind": "reject_once"}
#: told apart by case alone
UPPER = {"id": "Y", "name": "Always", "kind": "allow_always"}
LOWER = {"id": "y", "name": "Not yet", "kind": "reject_once"}


@pytest.mark.parametrize(
    ("options", "parts", "option"),
    [
        ([YES, NO], [{"text": "no"}], NO),
        ([YES, NO], [{"text": " REJECT. "}], NO),
        ([YES, NO], [{"data": "yes"}], YES),
        ([YES, NO], [{"data": {"option": "no"}}, {"text": "because I say so"}], NO),
        ([YES, NO], [{"text": "no"}, {"data": {"optionId": "no"}}], NO),
        ([UPPER, LOWER], [{"text": "y"}], LOWER),
        ([UPPER, LOWER], [{"text": "Y"}], UPPER),
        ([UPPER, LOWER], [{"text": "not yet"}], LOWER),
        # what another one is called by is no match for its own id
        ([YES, {"id": "x", "name": "yes", "kind": "reject_once"}], [{"text": "yes"}], YES),
    ],
)
def test_it_is_the_one_that_is_named(options: list[Any], parts: list[Any], option: Any) -> None:
    assert chosen(parts, options) is option


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ([YES, NO], [{"text": "maybe"}]),
        ([YES, NO], [{"text": ""}, {"data": None}, {"url": "https://example.org/yes"}]),
        ([YES, NO], [{"text": "no"}, {"data": "yes"}]),
        ([YES, NO], [{"text": "yes"}, {"text": "no"}]),
        ([{**UPPER, "id": "YES"}, {**LOWER, "id": "yEs"}], [{"text": "yes"}]),
        ([YES, {**NO, "name": "Allow once"}], [{"text": "Allow once"}]),
        ([{"name": None, "id": 3}], [{"text": "3"}]),
        ([], [{"text": "yes"}]),
    ],
)
def test_what_names_none_or_more_than_one_is_none(options: list[Any], parts: list[Any]) -> None:
    assert chosen(parts, options) is None
