"""What the agent `openai` puts together from pieces, calls and answers; and what it takes out: reasoning, keys."""

import json
from typing import Any

import pytest

from a2ad.agents.openai.calls import MAX_CALLS, CallDrafts
from a2ad.agents.openai.keys import Key
from a2ad.agents.openai.reply import Reply
from a2ad.agents.openai.thoughts import ThoughtFilter
from a2ad.errors import RemoteAway, RemoteInvalid, RemoteRefused

KEY = Key("sk-0123456789abcdef")


def piece(index: Any = None, call_id: Any = None, name: Any = None, arguments: Any = None, **more: Any) -> Any:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    found = {"index": index, "id": call_id, "function": function, **more}
    return {key: value for key, value in found.items() if value is not None}


def calls_of(*pieces: Any) -> list[tuple[str, Any]]:
    drafts = CallDrafts()
    for each in pieces:
        drafts.take([each])
    return [(call.name, call.arguments) for call in drafts.finished((), str)]


BOTH = [("a", {"x": 1}), ("b", {"y": 2})]


@pytest.mark.parametrize(
    "pieces",
    [
        # as it should be, also interleaved
        [piece(0, "1", "a", '{"x"'), piece(1, "2", "b", '{"y"'), piece(0, arguments=":1}"), piece(1, arguments=":2}")],
        # numbered from 1; the id and the name with every piece
        [piece(1, "1", "a", '{"x"'), piece(1, "1", "a", ":1}"), piece(2, "2", "b", '{"y":2}')],
        # every call has the number 0, or none
        [piece(0, "1", "a", '{"x":1}'), piece(0, "2", "b", '{"y":2}')],
        [piece(0, "", "a", '{"x":1}'), piece(0, "", "b", '{"y":2}')],
        [piece(None, "1", "a", '{"x":1}'), piece(None, "2", "b", '{"y":2}')],
        [piece(None, "1", "a", '{"x"'), piece(None, "2", "b", '{"y":2}'), piece(None, "1", "", ":1}")],
        # neither numbers nor ids; arguments as an object
        [piece(None, None, "a", '{"x"'), piece(None, None, None, ":1}"), piece(None, None, "b", {"y": 2})],
        # the id comes later
        [piece(0, None, "a", '{"x"'), piece(0, "1", None, ":1}"), piece(1, "2", "b", '{"y":2}')],
    ],
)  # fmt: skip
def test_calls_are_put_together_however_they_are_numbered(pieces: list[Any]) -> None:
    assert calls_of(*pieces) == BOTH


def test_every_call_has_an_id_that_is_its_own_and_can_be_shown() -> None:
    drafts = CallDrafts()
    drafts.take([piece(0, "taken", "a"), piece(1, "no id", "b"), piece(2, "same", "c"), piece(3, "k" * 200, "d")])
    drafts.take([piece(4, None, "e"), piece(5, KEY.value, "f"), piece(6, "functions.g:6", "g")])

    ids = [call.id for call in drafts.finished({"taken"}, KEY.mask)]

    assert (ids[2], ids[6]) == ("same", "functions.g:6")
    assert len(set(ids)) == 7
    assert all(ids[at].startswith("call_") for at in (0, 1, 3, 4, 5))


@pytest.mark.parametrize(
    ("arguments", "trouble"),
    [
        ('{"prompt": "x', "The arguments are not valid JSON"),
        ("prompt=x", "The arguments are not valid JSON"),
        ("[1]", "The arguments must be a JSON object"),
        ('"{}"', "The arguments must be a JSON object"),
        ('{"n": 99999999999999999999999}', "An integer is outside"),
        ('{"a":' * 200 + "1" + "}" * 200, "nested too deeply"),
    ],
)
def test_arguments_that_cannot_be_used_are_shown_to_the_model_and_do_not_go_back_as_they_are(
    arguments: str, trouble: str
) -> None:
    drafts = CallDrafts()
    drafts.take([piece(0, "1", "a", arguments)])
    (call,) = drafts.finished((), str)

    assert call.arguments is None
    assert trouble in call.trouble
    assert arguments[:100] in call.trouble
    assert call.to_json()["function"]["arguments"] == "{}"


def test_no_arguments_are_an_empty_object_and_a_name_that_is_none_goes_back_as_one() -> None:
    drafts = CallDrafts()
    drafts.take([piece(0, "1", "do it, now!", ""), piece(1, "2")])
    first, second = drafts.finished((), str)

    assert (first.arguments, first.name) == ({}, "do it, now!")
    assert first.to_json()["function"]["name"] == "do_it__now_"
    assert second.to_json()["function"]["name"] == "unknown"


def test_what_an_endpoint_adds_to_a_call_goes_back_with_it() -> None:
    drafts = CallDrafts()
    drafts.take([piece(0, "1", "a", "{}", extra_content={"google": {"thought_signature": "x"}})])
    (call,) = drafts.finished((), str)
    assert call.to_json()["extra_content"] == {"google": {"thought_signature": "x"}}


def test_what_an_endpoint_adds_is_not_kept_where_the_key_is_in_it_or_it_is_nested_too_deeply() -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    drafts = CallDrafts()
    for number, extra in enumerate(({"echo": KEY.value}, {KEY.value: 1}, {"deep": deep})):
        drafts.take([piece(number, f"id{number}", "tool", "{}", extra_content=extra)])
    drafts.take([piece(3, "id3", "tool", {"deep": deep})])

    calls = drafts.finished((), KEY.mask)
    assert [call.extra for call in calls] == [None] * 4
    assert calls[3].arguments is None
    assert "nested too deeply" in calls[3].trouble


def test_calls_without_end_are_no_answer() -> None:
    drafts = CallDrafts()
    drafts.take([piece(index, str(index), "a") for index in range(MAX_CALLS)])
    with pytest.raises(RemoteInvalid):
        drafts.take([piece(10**12, "x", "a")])


# reasoning in the text


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("<think>hm, <b>so</b></think>\n\nYes.", "Yes."),
        ("\n <think></think>Yes.", "Yes."),
        ("<think>it never ends", ""),
        ("<think>a</think>  ", ""),
        ("Yes, <think>is a tag</think>.", "Yes, <think>is a tag</think>."),
        ("<thinking> is a tag", "<thinking> is a tag"),
        ("<thi", "<thi"),
        ("  indented", "  indented"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_reasoning_at_the_beginning_of_a_text_is_taken_out(text: str, passed: str, size: int) -> None:
    thoughts = ThoughtFilter()
    pieces = [thoughts.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*pieces, thoughts.end()]) == passed


# what goes wrong, without keys


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"Incorrect API key provided: {KEY.value}. See", "Incorrect API key provided: ***. See"),
        ("Incorrect API key provided: sk-proj-abc*****wxyz.", "Incorrect API key provided: ***."),
        (
            "Authentication Fails, Your api key: ****cdef is invalid",
            "Authentication Fails, Your api key: *** is invalid",
        ),
        ("header 'Bearer abcdef12345' refused", "header 'Bearer ***' refused"),
        ("gsk_abcdefgh and AIzaSyA1234567890abcdefg", "*** and ***"),
        ("token eyJhbGciOiJI.eyJzdWIiOiIx.c2ln expired", "token *** expired"),
        ("the model task-sk is not there: deepseek-v4-flash", "the model task-sk is not there: deepseek-v4-flash"),
        ("two\nlines\x1b[31m", "two lines[31m"),
        (f"{'x' * 3990} {KEY.value}", "x" * 3990 + " ***"),
    ],
)
def test_an_error_is_told_on_one_line_without_what_looks_like_a_key(said: str, told: str) -> None:
    assert KEY.tell(said) == told


def test_a_placeholder_is_no_key() -> None:
    assert Key("ollama").mask("ollama says no") == "ollama says no"


# answers


def reply_of(*chunks: Any) -> tuple[Reply, str]:
    reply = Reply(KEY)
    said = "".join(reply.take(json.dumps(chunk).encode()) for chunk in chunks)
    return reply, said + reply.end()


def chunk(delta: Any, finish: Any = None, **more: Any) -> Any:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk({"content": "ab"}, "stop")],
        [chunk({"content": "a"}), {"choices": []}, chunk({"content": "b"}, ""), chunk({}, "stop")],
        [chunk({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "ab"}]}, "stop")],
        [{"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]}],
        [chunk({"content": "ab", "reasoning": "no"}), {"choices": [{"index": 1, "delta": {"content": "no"}}]}],
        [chunk({"content": "ab"}), chunk(None), chunk({"content": None}), {"choices": None}, {"choices": [3]}],
        [chunk({"content": "ab", "tool_calls": None, "role": 7}, 3), {"usage": "no"}, {"error": None}],
    ],
)
def test_text_is_found_in_whatever_form_it_comes(chunks: list[Any]) -> None:
    reply, said = reply_of(*chunks)
    assert said == reply.text == "ab"
    assert reply.stop_reason == "end_turn"


@pytest.mark.parametrize("size", [1, 5, 100])
def test_the_key_is_taken_out_of_text_and_reasoning(size: int) -> None:
    text = f"the key is {KEY.value}, sk-"
    pieces = [chunk({"content": text[at : at + size]}) for at in range(0, len(text), size)]
    reply, said = reply_of(*pieces, chunk({"reasoning": KEY.value}))
    assert said == "the key is ***, sk-"
    assert KEY.value not in json.dumps(reply.message())


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_no_text_and_goes_back_to_the_endpoint_as_it_was(field: str) -> None:
    reply, said = reply_of(chunk({field: ""}), chunk({field: "hm"}), chunk({"content": "ab"}))
    assert said == "ab"
    assert reply.message() == {"role": "assistant", "content": "ab", field: "hm"}
    assert reply_of(chunk({field: ""}))[0].message()[field] == ""


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", "end_turn"), ("tool_calls", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"),
     ("eos", "end_turn")],
)  # fmt: skip
def test_finish_reasons_have_the_names_that_every_agent_uses(reason: str, stop: str) -> None:
    assert reply_of(chunk({"content": "a"}), chunk({}, reason))[0].stop_reason == stop


def test_a_refusal_in_words_is_text_and_a_refusal() -> None:
    reply, said = reply_of(chunk({"refusal": "I will not."}), chunk({}, "stop"))
    assert (said, reply.stop_reason) == ("I will not.", "refusal")


def test_calls_of_an_answer_that_was_cut_off_are_not_made() -> None:
    drafts = {"tool_calls": [piece(0, "1", "a", '{"x":')]}
    assert reply_of(chunk(drafts), chunk({}, "length"))[0].calls(()) == []
    assert len(reply_of(chunk(drafts), chunk({}, "stop"))[0].calls(())) == 1


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ("no json", RemoteInvalid),
        ("[]", RemoteInvalid),
        ("3", RemoteInvalid),
        ('{"choices":' + "[" * 2000 + "]" * 2000 + "}", RemoteInvalid),
        ('{"error": {"message": "no", "code": "bad"}}', RemoteRefused),
        ('{"error": "no"}', RemoteRefused),
        ('{"error": [{"message": "no"}]}', RemoteRefused),
        ('{"error": {"message": "no", "code": 503}}', RemoteAway),
        ('{"error": {"message": "no", "code": "429"}}', RemoteAway),
        ('{"choices": [{"finish_reason": "insufficient_system_resource"}]}', RemoteAway),
        ('{"choices": [{"delta": {"content": "' + "x" * 100 + '"}}]}', None),
    ],
)
def test_what_is_no_answer_is_an_error_of_its_kind(data: str, error: type[Exception] | None) -> None:
    if error is None:
        assert Reply(KEY).take(data.encode()) == "x" * 100
        return
    with pytest.raises(error):
        Reply(KEY).take(data.encode())


def test_an_answer_is_bounded() -> None:
    megabyte = chunk({"content": "x" * (1 << 20)})
    with pytest.raises(RemoteInvalid, match="longer than"):
        reply_of(*[megabyte] * 17)


def test_an_end_for_a_reason_that_is_not_known_and_without_a_word_is_a_failure() -> None:
    with pytest.raises(RemoteInvalid, match="SAFETY"):
        reply_of(chunk({}, "SAFETY"))


def test_blanks_without_end_before_an_answer_are_passed_on_at_some_point() -> None:
    thoughts = ThoughtFilter()
    passed = [thoughts.feed(" " * 100) for _ in range(200)]
    assert "".join(passed) + thoughts.end() == " " * 20_000
    assert passed[-1], "they are not gathered"


def test_a_count_of_tokens_that_cannot_be_one_is_left_out() -> None:
    reply = Reply(KEY)
    for tokens in (2**64 - 1, 2**53 + 1, -1, 1.5, "7", True, None, float("nan"), float("inf"), 1e300):
        reply.take(json.dumps({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 5}}).encode())
        assert reply.usage is None
    reply.take(b'{"choices": [], "usage": {"prompt_tokens": 10.0, "completion_tokens": 0}}')
    assert reply.usage == (10, 0)


def halved(text: str, template: str) -> Reply:
    """What is said in two events, cut in the middle of the grinning face in it."""
    escaped = json.dumps(text)[1:-1]
    middle = escaped.index("\\ude00")
    reply = Reply(KEY)
    for half in (escaped[:middle], escaped[middle:]):
        reply.take(template.replace("TEXT", half).encode())
    reply.end()
    return reply


def test_a_character_that_comes_in_halves_is_put_together() -> None:
    text = "a\U0001f600b"
    assert halved(text, '{"choices": [{"delta": {"content": "TEXT"}}]}').text == text
    assert halved(text, '{"choices": [{"delta": {"reasoning": "TEXT"}}]}').message()["reasoning"] == text
    call = '{"index": 0, "function": {"name": "a", "arguments": "TEXT"}}'
    arguments = json.dumps({"x": text}, ensure_ascii=False)
    called = halved(arguments, '{"choices": [{"delta": {"tool_calls": [' + call + "]}}]}").calls(())
    assert [each.arguments for each in called] == [{"x": text}]


def test_half_a_character_alone_is_replaced() -> None:
    reply = Reply(KEY)
    said = [
        reply.take(b'{"choices": [{"delta": {"content": "%b"}}]}' % part) for part in (b"x\\ud83d", b"y", b"\\ud83d")
    ]
    assert "".join(said) + reply.end() == "x\ufffdy\ufffd"
    with pytest.raises(RemoteRefused, match="so\ufffd"):
        reply.take(b'{"error": {"message": "so\\ud83d"}}')
