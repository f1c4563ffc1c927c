"""The conversations of the agent `openai`: within their budget, and such that endpoints accept them."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2ad.agents.openai.conversation import INTERRUPTED, NO_RESULT, Conversation, TurnTooLong, tokens_of
from a2ad.executor import TaskFailed
from tests.scripted_llm import turn_violations


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None, *calls: str) -> dict[str, Any]:
    made = [{"id": each, "type": "function", "function": {"name": "a", "arguments": "{}"}} for each in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}


def result(call_id: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def test_the_oldest_turns_are_dropped_whole_with_their_calls_and_results() -> None:
    conversation = Conversation(300)
    conversation.begin(user("first " + "x" * 200), 10)
    for message in (assistant(None, "1", "2"), result("1"), result("2")):
        conversation.add(message)
    conversation.finish(assistant("one"))
    conversation.begin(user("second " + "x" * 200), 10)
    conversation.finish(assistant("two"))
    conversation.begin(user("third " + "x" * 200), 10)

    told = conversation.messages()

    assert [message["content"][:6] for message in told] == ["second", "two", "third "]
    assert turn_violations(told) == []


def test_a_message_that_is_too_long_by_itself_fails_and_leaves_the_conversation_as_it_was() -> None:
    conversation = Conversation(300)
    conversation.begin(user("first"), 10)
    conversation.finish(assistant("one"))
    before = json.dumps(conversation.state())
    with pytest.raises(TaskFailed, match="context_tokens are 300"):
        conversation.begin(user("x" * 900), 10)
    assert json.dumps(conversation.state()) == before


def test_what_is_too_much_of_the_open_turn_is_left_out_of_its_oldest_tool_answers() -> None:
    conversation = Conversation(760)
    conversation.begin(user("first"), 10)
    conversation.finish(assistant("one"))
    conversation.begin(user("second"), 10)
    for call_id in ("1", "2", "3"):
        conversation.add(assistant("t" * 150, call_id))
        conversation.add(result(call_id, call_id * 450))

    told = conversation.messages()

    assert [message["content"] for message in told if message["role"] == "user"] == ["second"]
    cut, *whole = [message["content"] for message in told if message["role"] == "tool"]
    assert cut.startswith("1")
    assert cut.endswith("of 450 bytes are left out here]")
    assert whole == ["2" * 450, "3" * 450]
    assert sum(map(tokens_of, told)) <= 750
    assert turn_violations(told) == []


def test_a_turn_whose_own_words_fill_the_context_is_not_sent_and_nothing_is_forgotten_for_it() -> None:
    conversation = Conversation(600)
    conversation.begin(user("first"), 10)
    conversation.finish(assistant("one"))
    conversation.begin(user("second"), 10)
    for call_id in ("1", "2"):
        conversation.add(assistant("t" * 900, call_id))
        conversation.add(result(call_id))
    with pytest.raises(TurnTooLong, match="context_tokens are 600"):
        conversation.messages()
    conversation.interrupt(assistant(None))
    conversation.begin(user("third"), 10)

    told = conversation.messages()

    assert [message["content"] for message in told] == ["first", "one", "second", INTERRUPTED, "third"]


def test_chinese_text_counts_a_token_for_each_letter() -> None:
    assert tokens_of(user("汉" * 1000)) - tokens_of(user("")) == 1000


def test_the_state_of_another_kind_of_agent_begins_a_new_conversation() -> None:
    for state in (None, {"turns": 3}, {"session": "x"}, [1], "x"):
        assert Conversation(300, state).state()["turns"] == []


def test_what_one_model_wants_to_see_again_is_not_sent_to_another() -> None:
    conversation = Conversation(3000, None, "one")
    conversation.begin(user("hello"), 0)
    made = assistant(None, "1")
    made["tool_calls"][0]["extra_content"] = made["reasoning"] = "for one"
    conversation.add(made)
    conversation.add(result("1"))
    conversation.finish({**assistant("done"), "reasoning": "for one"})
    state = json.loads(json.dumps(conversation.state()))

    assert "for one" in json.dumps(Conversation(3000, state, "one").messages())
    other = Conversation(3000, state, "other").messages()
    assert other == [user("hello"), assistant(None, "1"), result("1"), assistant("done")]


def test_an_interrupted_turn_keeps_what_was_said_and_says_that_it_was_interrupted() -> None:
    conversation = Conversation(3000)
    conversation.begin(user("hello"), 0)
    conversation.add(assistant("calling", "1", "2"))
    conversation.add(result("2"))
    conversation.interrupt(assistant(None))
    conversation.begin(user("go on"), 0)
    assert conversation.messages() == [
        user("hello"), assistant("calling", "1", "2"), result("2"), result("1", NO_RESULT), assistant(INTERRUPTED),
        user("go on"),
    ]  # fmt: skip


def test_a_turn_without_an_answer_leaves_no_trace() -> None:
    conversation = Conversation(3000)
    conversation.begin(user("hello"), 0)
    conversation.interrupt(assistant(None))
    assert conversation.state()["turns"] == []


def test_where_some_answers_have_reasoning_every_answer_has_some() -> None:
    conversation = Conversation(3000)
    conversation.begin(user("hello"), 0)
    conversation.finish({**assistant("one"), "reasoning_content": "hm"})
    conversation.begin(user("again"), 0)
    conversation.finish(assistant("two"))
    conversation.begin(user("again"), 0)
    answers = [message for message in conversation.messages() if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in answers] == ["hm", " "]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(100, 2000))
def test_whatever_becomes_of_its_turns_a_conversation_is_one_that_endpoints_accept(seed: int, budget: int) -> None:
    chance = random.Random(seed)
    conversation = Conversation(budget)
    for number in range(chance.randrange(1, 12)):
        fixed = chance.randrange(50)
        try:
            conversation.begin(user(f"q{number} " + "x" * chance.randrange(600)), fixed)
        except TaskFailed:
            continue
        for call in range(chance.randrange(4)):
            try:
                told = conversation.messages()
            except TurnTooLong:
                break
            assert turn_violations(told) == []
            assert fixed + sum(map(tokens_of, told)) <= budget
            ids = [f"{number}-{call}-{each}" for each in range(chance.randrange(1, 3))]
            conversation.add(assistant(chance.choice([None, "let me see", "x" * 200]), *ids))
            done = ids if chance.random() < 0.8 else ids[: chance.randrange(len(ids))]
            for each in done:
                conversation.add(result(each, "r" * min(conversation.room(), chance.randrange(1, 2000))))
            if done != ids:
                break
        else:
            if chance.random() < 0.6:
                conversation.finish(assistant(chance.choice(["", "a" * chance.randrange(900)])))
            elif chance.random() < 0.3:
                conversation.drop()
        conversation.interrupt(assistant(chance.choice([None, "half"])))
        conversation = Conversation(budget, json.loads(json.dumps(conversation.state())))
        kept = [message for turn in conversation.state()["turns"] for message in turn]
        assert turn_violations([*kept, user("next")]) == []
        assert sum(map(tokens_of, kept)) <= budget
