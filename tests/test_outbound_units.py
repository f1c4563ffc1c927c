"""The pieces of the outbound direction that need no daemon: names, masks, answers, addresses, cards over HTTP."""

import json
import re
from contextlib import suppress
from itertools import permutations
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from a2ad.errors import RemoteError, RemoteInvalid, RemoteRefused
from a2ad.model import TaskState
from a2ad.outbound.answer import ANSWER_BYTES, Answer, Said, Stated, text_of
from a2ad.outbound.card import parse_card
from a2ad.outbound.files import safe_name
from a2ad.outbound.names import name_tools, plain_name
from a2ad.outbound.net import is_public, origin_of
from a2ad.outbound.text import Mask, StreamMask, line
from tests.remote import (
    CONTEXT,
    agent_card,
    artifact,
    parts_of,
    said,
    snapshot,
    status,
    task,
)

# names (reference 3)

word = st.text(st.sampled_from("ab_-: é/"), max_size=4) | st.sampled_from(["", "x" * 70, "x" * 71, "Résumé: fix/it"])
#: connections as they were made: a name, and the skills of each of the cards that it had, one after the other
connections = st.lists(st.tuples(word, st.lists(st.lists(word, max_size=4, unique=True), max_size=3)), max_size=4)


def named(history: list[tuple[str, list[list[str]]]]) -> list[dict[tuple[int, str], str]]:
    """The names after each card, as the registry gives them: who has one keeps it."""
    names: dict[tuple[int, str], str] = {}
    after = []
    for number, (connection, cards) in enumerate(history):
        for skills in cards:
            new = [skill for skill in skills if (number, skill) not in names]
            given = name_tools(new, connection_id=str(number), connection=connection, taken=names.values())
            names |= {(number, skill): name for skill, name in given.items()}
            after.append(dict(names))
    return after


@given(connections)
def test_every_tool_has_a_name_of_its_own_that_models_take_and_keeps_it(
    history: list[tuple[str, list[list[str]]]],
) -> None:
    before: dict[tuple[int, str], str] = {}
    for names in named(history):
        assert len(names) == len(set(names.values()))
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names.values())
        assert before.items() <= names.items()
        before = names


@pytest.mark.parametrize(
    ("skill", "name"),
    [
        ("Résumé: fix/it", "a2a__b__R_sum___fix_it"),
        ("", "a2a__b__"),
        ("x" * 200, "a2a__b__" + "x" * 56),
        ("ok_-9", "a2a__b__ok_-9"),
    ],
)
def test_what_no_model_takes_becomes_an_underscore(skill: str, name: str) -> None:
    assert plain_name("b", skill) == name


def test_a_name_that_is_taken_gets_a_hash_of_who_it_is() -> None:
    first = name_tools(["x y"], connection_id="1", connection="b", taken=())
    second = name_tools(["x y", "x_y"], connection_id="2", connection="b", taken=first.values())
    assert first == {"x y": "a2a__b__x_y"}
    assert all(re.fullmatch(r"a2a__b__x_y_[0-9a-f]{8}", second[skill]) for skill in ("x y", "x_y"))


def test_the_skill_that_has_the_name_letter_for_letter_gets_it() -> None:
    names = name_tools(["delete file", "delete_file"], connection_id="1", connection="b", taken=())
    assert names["delete_file"] == "a2a__b__delete_file"
    assert re.fullmatch(r"a2a__b__delete_file_[0-9a-f]{8}", names["delete file"])


# masks

token = st.text(st.sampled_from('ab"\\'), min_size=1, max_size=6)


@given(token, st.lists(token | st.sampled_from(["x", ""])), st.data())
@example('a"aab', ['a"aa', "b"], None)
def test_a_token_that_comes_in_pieces_is_masked_all_the_same(secret: str, pieces: list[str], data: Any) -> None:
    if data is not None:
        at = data.draw(st.integers(0, len(pieces)))
        cut = data.draw(st.integers(0, len(secret)))
        pieces = [*pieces[:at], secret[:cut], secret[cut:], *pieces[at:]]
    masked = StreamMask(Mask([secret]))
    shown = "".join([*map(masked.feed, pieces), masked.end()])
    assert secret not in shown
    assert secret not in Mask([secret])("".join(pieces))


@given(st.text(st.sampled_from("ab"), min_size=1, max_size=4), st.lists(st.text(st.sampled_from("abx"), max_size=5)))
def test_a_text_in_pieces_is_masked_as_the_whole_is(secret: str, pieces: list[str]) -> None:
    masked = StreamMask(Mask([secret]))
    assert "".join([*map(masked.feed, pieces), masked.end()]) == Mask([secret])("".join(pieces))


def test_what_cannot_become_a_token_is_shown_at_once() -> None:
    masked = StreamMask(Mask(["secret"]))
    assert [masked.feed(piece) for piece in ("hello se", "cond", " secre", "t.")] == ["hello ", "second", " ", "***."]
    assert masked.feed("sec") + masked.end() == "sec"
    assert Mask([""])("nothing") == "nothing"
    assert Mask(["nothing"], shortest=8)("nothing") == "nothing"
    assert Mask(["anything"], shortest=8)("anything") == "***"


@pytest.mark.parametrize(("secret", "name", "hidden"), [
    ("chat1", "chat1", False), ("chat12", "chat12", True), ("chat12", "a-chat12-b", True), ("chat12", "chat1", False),
    ('a"bcd\\', 'a\\"bcd\\\\', True), ("", "chat", False),
])  # fmt: skip
def test_a_name_has_a_token_in_it_only_where_that_is_no_chance(secret: str, name: str, hidden: bool) -> None:
    """A name cannot be masked, only left out: a short token would take away every skill that has it in its id."""
    assert Mask([secret]).hides(name) is hidden


def test_a_line_from_a_card_is_one_line_without_what_is_not_seen() -> None:
    assert line("a\x1b[31m\u202eb\u200b\r\n\tc\u2066\x85d\ufeff", 100) == "a[31mb c d"
    assert line(17, 10) == ""
    assert len(line("x" * 10_000, 1000)) == 1000


# answers

LATER = [status("WORKING", "alpha"), artifact("alpha"), artifact("beta", "b"), status("COMPLETED", "alpha")]
FINAL = snapshot("COMPLETED", "alpha", parts_of("alpha"), parts_of("beta", "b"))


def taken(*frames: Any) -> tuple[Answer, list[Said | Stated]]:
    seen: list[Said | Stated] = []
    told = Answer(seen.append)
    for each in frames:
        told.take_result(each)
    return told, seen


def texts(found: Answer) -> list[str]:
    return [text_of(parts) for parts in found.result_parts()]


def said_of(seen: list[Said | Stated]) -> list[str]:
    return [each.text for each in seen if isinstance(each, Said)]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("final", [True, False])
def test_what_is_said_in_any_order_and_twice_is_told_once(first: bool, final: bool) -> None:
    for order in permutations([*LATER, *([FINAL] if final else [])]):
        if order.index(LATER[0]) > min(order.index(each) for each in (LATER[3], *([FINAL] if final else []))):
            continue  # a task does not work again after its end
        found, seen = taken(*([snapshot("SUBMITTED")] if first else []), *order)
        assert found.state is TaskState.COMPLETED, order
        assert sorted(texts(found)) == ["alpha", "beta"], order
        assert sorted(map(str.strip, said_of(seen))) == ["alpha", "beta"], order


def test_pieces_of_a_stream_are_one_text_also_where_the_task_keeps_them_apart() -> None:
    pieces = [artifact("one "), *(artifact(word, append=True) for word in ("two ", "three"))]
    parts = parts_of([{"text": "one "}, {"text": "two "}, {"text": "three"}])
    found, seen = taken(snapshot("WORKING"), *pieces, snapshot("COMPLETED", "", parts))
    assert texts(found) == ["one two three"]
    assert said_of(seen) == ["one ", "two ", "three"]


def test_a_snapshot_replaces_what_came_before_and_says_what_is_new() -> None:
    found, seen = taken(
        artifact("one "), snapshot("WORKING", "", parts_of("one two ")), artifact("three", append=True), artifact("no")
    )
    assert found.artifacts["a"].parts == [{"text": "no"}]
    assert said_of(seen) == ["one ", "two ", "three", "\nno"]


def test_other_parts_stay_where_they_are() -> None:
    mixed = [{"text": "a"}, {"data": {"n": 42}}, {"text": "b"}, {"text": "c"}, {"url": "http://x"}, {"raw": "eA=="}]
    found, _ = taken(artifact(mixed), artifact("d", append=True), status("COMPLETED"))
    joined = [*mixed[:2], {"text": "bc"}, *mixed[4:], {"text": "d"}]
    assert found.result_parts() == [joined]


def test_parts_that_are_none_are_passed_over() -> None:
    odd = [7, {}, {"text": 7}, {"text": "x", "data": 1}, {"kind": "text"}, {"text": "ok"}, {"data": None}]
    assert taken(artifact(odd), status("COMPLETED"))[0].result_parts() == [[{"text": "ok"}, {"data": None}]]


@pytest.mark.parametrize(
    "closing",
    [
        status("COMPLETED", "done"),
        snapshot("COMPLETED", "done"),
        snapshot("COMPLETED", history=[said("hi", "ROLE_USER"), said("no"), said("done"), said("hi", "ROLE_USER")]),
        snapshot("COMPLETED", "done", history=[said("something else")]),
    ],
)
def test_without_artifacts_the_closing_message_is_the_answer(closing: Any) -> None:
    assert texts(taken(snapshot("WORKING"), closing)[0]) == ["done"]


def test_one_who_speaks_of_another_task_is_not_listened_to() -> None:
    found, _ = taken(
        snapshot("WORKING"), status("FAILED", "no", task_id="t2"), artifact("no", task_id="t2"),
        snapshot("COMPLETED", "", parts_of("no"), task_id="t2"), {"message": said("no")}, artifact("yes"),
    )  # fmt: skip
    assert (found.task_id, found.state, found.settled) == ("t1", TaskState.WORKING, False)
    assert found.artifacts["a"].parts == [{"text": "yes"}]


def test_a_direct_message_is_an_answer_and_what_follows_it_is_not() -> None:
    found, _ = taken({"message": {**said("yes"), "contextId": CONTEXT}}, snapshot("FAILED", "no"))
    assert (found.settled, found.task_id, found.context_id, texts(found)) == (True, None, CONTEXT, ["yes"])


@pytest.mark.parametrize("state", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_state_may_be_a_number(state: int) -> None:
    assert taken(status(state))[0].state is list(TaskState)[state - 1]


@pytest.mark.parametrize(
    "result",
    [
        None, [], "x", {}, {"kind": "task"}, {"task": None}, {"task": {}}, {"task": {"id": "", "status": {}}},
        {"task": {"id": "t1"}}, {"task": {"id": "t" * 2000, "status": {"state": 2}}},
        {"message": "x"},
        {"statusUpdate": {"taskId": "t1"}},
        {"artifactUpdate": {"taskId": "t1"}}, {"artifactUpdate": {"taskId": "t1", "artifact": {}}},
        status("UNSPECIFIED"), status("RESTING"), status(0), status(9), status([]), status(None), status(True),
        snapshot("WORKING", artifacts=["x"]),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error(result: Any) -> None:
    with pytest.raises(RemoteInvalid):
        taken(result)


words = st.sampled_from(["t1", "t2", "", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "ROLE_AGENT", "a"])
leaf = words | st.none() | st.booleans() | st.integers(-1, 9) | st.floats(allow_nan=False)
keys = st.sampled_from(
    ["task", "message", "statusUpdate", "artifactUpdate", "artifact", "artifacts", "artifactId", "status", "state",
     "id", "taskId", "contextId", "parts", "text", "data", "raw", "url", "history", "role", "append"]
)  # fmt: skip
anything = st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner), max_leaves=12)
parts = st.lists(anything | st.fixed_dictionaries({"text": words}), max_size=3)
one = st.fixed_dictionaries({"artifactId": words | anything, "parts": parts | anything})
ended = st.fixed_dictionaries(
    {"state": words | anything}, optional={"message": st.fixed_dictionaries({"parts": parts}) | anything}
)
given_task = st.fixed_dictionaries(
    {"id": words, "status": ended | anything}, optional={"artifacts": st.lists(one) | anything, "history": anything}
)
update = st.fixed_dictionaries({"taskId": words}, optional={"status": ended, "artifact": one, "append": leaf})
some_frame = anything | st.one_of(
    given_task.map(lambda each: {"task": each}),
    update.map(lambda each: {"statusUpdate": each}),
    update.map(lambda each: {"artifactUpdate": each}),
    st.fixed_dictionaries({"message": st.fixed_dictionaries({"parts": parts})}),
)


@given(st.lists(some_frame, max_size=6))
def test_whatever_comes_is_taken_or_refused_and_the_rest_is_still_right(frames: list[Any]) -> None:
    found = Answer(lambda _: None)
    for each in frames:
        with suppress(RemoteInvalid):
            found.take_result(each)
        assert all(isinstance(text, str) for text in texts(found))
        assert isinstance(found.has_files, bool)
    if found.message is None:
        found.task_id = "t1"
        found.take_task(task("COMPLETED", "", parts_of("done")))
        assert (found.settled, texts(found)) == (True, ["done"])


card_keys = st.sampled_from(
    ["name", "description", "version", "skills", "id", "capabilities", "extensions", "uri", "required", "streaming",
     "supportedInterfaces", "url", "protocolBinding", "protocolVersion", "tenant", "preferredTransport"]
)  # fmt: skip
card_words = st.sampled_from(
    ["http://x/", "http://[", "JSONRPC", "1.0", "0.3", "urn:x", "", "\u202e", "urn:a2ad:depth:v1"]
)
card_leaf = card_words | st.none() | st.booleans() | st.integers()
card_json = st.recursive(
    card_leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(card_keys, inner), max_leaves=20
)


@given(st.dictionaries(card_keys, card_json), st.booleans())
def test_whatever_card_comes_is_taken_or_refused(card: dict[str, Any], usable: bool) -> None:
    whole = (
        {**card, "name": "x", "supportedInterfaces": agent_card("http://x/")["supportedInterfaces"]} if usable else card
    )
    try:
        found = parse_card(json.dumps(whole).encode(), Mask([]))
    except RemoteError:
        return
    assert found.endpoint.startswith("http://")
    assert all(isinstance(skill.id, str) for skill in found.skills)


def test_an_answer_has_a_largest_size_whole_or_in_pieces_and_replacing_does_not_add_up() -> None:
    half = "x" * (ANSWER_BYTES // 2 - 1000)
    taken(*[artifact(half)] * 5, *[snapshot("WORKING", "", parts_of(half))] * 3)
    for frames in (
        [artifact(half), artifact(half, append=True), artifact("x" * 3000, append=True)],
        [artifact(half, str(number)) for number in range(3)],
    ):
        with pytest.raises(RemoteInvalid, match="larger than"):
            taken(*frames)
    with pytest.raises(RemoteInvalid, match="more than"):
        taken(*(artifact("", str(number)) for number in range(10_001)))


# addresses


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTP://Agents.Example/x?y#z", "http://agents.example:80"),
        ("https://agents.example:443", "https://agents.example:443"),
        ("https://[::1]:8443/x", "https://[::1]:8443"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "/x", "//h/x", "ftp://h", "file:///etc/passwd", "http://", "http:///x", "http://:80", "http://u@h/",
        "http://h:70000", "http://h:x", "http://h\n/", "http://h /", "http://[::1/", "javascript:1", "http://h:-1",
        "http://good.example\\@bad.example/",
    ],
)  # fmt: skip
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(RemoteRefused):
        origin_of(url)


@given(st.text(st.sampled_from("ab.:/@?#\\[]%0123ⓐ。\u3002"), max_size=12))
@example("h:0")
def test_the_origin_that_is_looked_at_is_the_one_that_is_asked(rest: str) -> None:
    """Else a card could lead a token elsewhere: two readers of URLs that do not agree."""
    url = f"http://{rest}"
    try:
        origin = urlsplit(origin_of(url))
    except RemoteRefused:
        return
    asked = URL(url)
    assert asked.port == origin.port
    assert asked.raw_host == URL(f"http://{origin.netloc}").raw_host


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "2002:808:808::1"])
def test_addresses_of_the_open_internet(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "::1", "::", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::1", "224.0.0.1",
        "ff02::1", "255.255.255.255", "localhost", "",
    ],
)  # fmt: skip
def test_every_other_address_is_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"), ("../../etc/passwd", "passwd"), ("C:\\temp\\x y.txt", "x_y.txt"), ("", "file"),
        ("..", "file"), (".bashrc", "bashrc"), ("a/", "file"), ("Résumé\n.txt", "R_sum_.txt"), ("x" * 300, "x" * 100),
    ],
)  # fmt: skip
def test_a_file_is_named_so_that_it_stays_where_it_is(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    assert "/" not in safe_name(name)
