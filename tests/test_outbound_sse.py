"""The reader of Server-Sent Events by itself (WHATWG HTML, 9.2.6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2ad.outbound.sse import EventReader, EventTooLarge

ENDINGS = [b"\n", b"\r", b"\r\n"]
#: every kind of line, and two events; `{e}` stands for a line ending
TEXT = (
    b"\xef\xbb\xbf: hello{e}id: 7{e}event: frame{e}data: {'a':{e}data:  h\xc3\xa9llo \xf0\x9f\x8c\x8d}{e}{e}"
    b"retry: 10{e}unknown{e}:{e}data{e}data:x:y{e}{e}: the end{e}{e}"
)
EVENTS = [(b"{'a':\n h\xc3\xa9llo \xf0\x9f\x8c\x8d}", "7"), (b"\nx:y", "7")]


def read(*pieces: bytes, limit: int = 1 << 20) -> list[tuple[bytes, str | None]]:
    reader = EventReader(limit)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return [(event.data, event.id) for event in [*events, *reader.end()]]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_line_ending_split_anywhere_gives_the_same_events(ending: bytes) -> None:
    text = TEXT.replace(b"{e}", ending)
    assert read(text) == EVENTS
    assert read(*(text[at : at + 1] for at in range(len(text)))) == EVENTS
    for at in range(len(text)):
        assert read(text[:at], text[at:]) == EVENTS


def test_a_piece_without_bytes_changes_nothing() -> None:
    assert read(b"data: 1\r", b"", b"\n", b"data: 2\r", b"", b"\n\r\n") == [(b"1\n2", None)]


@pytest.mark.parametrize("cut", [b"data: 1\n\n", b"data: 1\n", b"data: 1", b"data: 1\r", b"data: 1\r\n\r"])
def test_a_blank_line_that_is_missing_at_the_end_is_no_loss(cut: bytes) -> None:
    assert read(cut) == [(b"1", None)]


def test_an_event_leaves_with_its_blank_line_and_no_later() -> None:
    reader = EventReader(100)
    assert [event.data for event in reader.feed(b"data: 1\r\r")] == [b"1"]
    assert reader.feed(b"\ndata: 2\r") == []
    assert [event.data for event in reader.feed(b"\n\r")] == [b"2"]
    assert reader.feed(b"\n") == reader.end() == []


def test_an_id_stays_until_there_is_another_and_one_with_a_null_is_passed_over() -> None:
    text = b"data: a\n\nid: 1\ndata: b\n\ndata: c\n\nid: 2\x003\ndata: d\n\nid: 4\n\ndata: e\n\nid\ndata: f\n\n"
    assert read(text) == [(b"a", None), (b"b", "1"), (b"c", "1"), (b"d", "1"), (b"e", "4"), (b"f", "")]


def test_the_id_of_an_event_that_was_cut_does_not_count() -> None:
    reader = EventReader(100)
    events = reader.feed(b"id: 1\ndata: a\n\nid: 2\nda")
    assert [(event.data, event.id) for event in events] == [(b"a", "1")]


@pytest.mark.parametrize("name", [b"Data", b" data", b"data ", b"datas", b"\xef\xbb\xbfdata"])
def test_a_field_with_another_name_is_none_that_is_known(name: bytes) -> None:
    assert read(b"data: 1\n\n" + name + b": 2\n\n") == [(b"1", None)]


def test_an_event_holds_as_much_as_it_may_and_no_more() -> None:
    line = b"data: " + b"x" * 99
    assert read(line + b"\n\n", line + b"\n\n", limit=105) == [(b"x" * 99, None)] * 2
    for pieces in (
        [b"data: " + b"x" * 200 + b"\n\n"],
        [b"x" * 60, b"x" * 60],
        [b"data: xxxx\n"] * 40,
        [b":" + b"x" * 200],
        [b"data\n"] * 200,
    ):
        with pytest.raises(EventTooLarge):
            read(*pieces, limit=105)


def test_what_is_no_data_has_no_end_and_takes_no_room() -> None:
    reader = EventReader(100)
    assert not any(reader.feed(b": " + b"x" * 50 + b"\nevent: y\n") for _ in range(1000))


line = st.binary(max_size=12).map(lambda value: value.replace(b"\r", b"").replace(b"\n", b""))
noise = st.sampled_from([b": ping", b":", b"event: e", b"retry: 1", b"who: knows"])
number = st.none() | st.integers(0, 999).map(str)
event = st.tuples(number, st.lists(line, min_size=1, max_size=3), st.lists(noise, max_size=2))


@given(
    events=st.lists(event, max_size=5),
    endings=st.lists(st.sampled_from(ENDINGS), min_size=1),
    cuts=st.lists(st.integers(0, 400)),
    bom=st.booleans(),
)
def test_any_events_with_any_endings_and_any_split_come_out_as_they_went_in(
    events: list[tuple[str | None, list[bytes], list[bytes]]], endings: list[bytes], cuts: list[int], bom: bool
) -> None:
    lines: list[bytes] = []
    expected: list[tuple[bytes, str | None]] = []
    last = None
    for name, data, between in events:
        last = name if name is not None else last
        lines += [b"id: " + name.encode()] if name is not None else []
        for each in data:
            lines += [b"data: " + each, *between]
        lines.append(b"")
        expected.append((b"\n".join(data), last))
    text, ending = b"\xef\xbb\xbf" if bom else b"", b""
    for at, each in enumerate(lines):
        after_cr = ending == b"\r" and not each
        ending = endings[at % len(endings)]
        # an empty line that ends in LF would be the other half of a CR before it
        ending = b"\r\n" if after_cr and ending == b"\n" else ending
        text += each + ending
    marks = sorted(min(cut, len(text)) for cut in cuts)
    pieces = [text[start:end] for start, end in zip([0, *marks], [*marks, len(text)], strict=True)]
    assert read(*pieces) == expected
