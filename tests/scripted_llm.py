"""A model's endpoint, scripted: it streams chat completions as it is told, and is as strict as the strictest."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Self

from tests.remote import HANG, RESET, Asked, Exchange, Gate, Json, Remote, Script
from tests.remote import http as http_answer

MODEL = "scripted-model"
#: tokens in and out, of each answer
USAGE = (10, 5)
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ScriptedModel(Remote):
    """`answers(…)` says what comes for each request, the last one as often as it is asked; without any, `by_words`.

    Another protocol than chat completions finds its place in `_by_path`.
    """

    def __init__(self, *, port: int = 0) -> None:
        super().__init__(port=port)
        self.base_url = f"{self.url}/v1"
        self.answers()

    def answers(self, *scripts: Script) -> Self:
        return self.on("POST", *[_by_path(script) for script in scripts or (by_words,)])

    @property
    def bodies(self) -> list[Json]:
        """What was asked, oldest first."""
        return [asked.json for asked in self.asked("POST")]

    @property
    def messages(self) -> list[Json]:
        """The messages of the last request, without the instructions."""
        return [message for message in self.bodies[-1]["messages"] if message["role"] != "system"]


def _by_path(completions: Script) -> Script:
    async def script(exchange: Exchange) -> None:
        if not exchange.asked.target.endswith("/chat/completions"):
            await fails(404, "no such path")(exchange)
        elif wrong := violation(exchange.asked):
            await fails(400, f"invalid request: {wrong}")(exchange)
        else:
            await completions(exchange)

    return script


# what strict endpoints accept


def violation(asked: Asked) -> str:
    """What is wrong with a request, empty where nothing is."""
    body = asked.json
    messages = [message for message in body["messages"] if message["role"] != "system"]
    if len(body["messages"]) - len(messages) > 1 or body["messages"][-len(messages)] is not messages[0]:
        return "the instructions come once and first"
    if not body["stream"] or body["stream_options"] != {"include_usage": True}:
        return "it is to be streamed"
    for tool in body.get("tools", ()):
        if not NAME.fullmatch(tool["function"]["name"]) or tool["function"]["parameters"]["type"] != "object":
            return f"no function: {tool}"
    return next(iter(turn_violations(messages)), "")


def turn_violations(messages: Sequence[Json]) -> list[str]:
    """What is wrong with a conversation whose last message waits for an answer."""
    return list(_turns(messages))


def _turns(messages: Sequence[Json]) -> Iterator[str]:
    before, waiting = "assistant", []
    for message in messages:
        role = message["role"]
        if waiting and role != "tool":
            yield f"calls without results: {waiting}"
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"a result without a call: {message}"
            waiting = [call_id for call_id in waiting if call_id != message["tool_call_id"]]
        elif role == before or (role == "user" and before == "tool"):
            yield f"{role} after {before}"
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            yield from _calls(message.get("tool_calls", ()))
        if not message["content"] and not waiting:
            yield f"empty: {message}"
        before = role
    if waiting or before == "assistant":
        yield "there is nothing to answer"


def _calls(calls: Sequence[Json]) -> Iterator[str]:
    for call in calls:
        if not NAME.fullmatch(call["function"]["name"]):
            yield f"no name: {call}"
        if not isinstance(json.loads(call["function"]["arguments"]), dict):
            yield f"no arguments: {call}"


# what it says


def delta(choice: Json | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a stream."""
    choices = [] if choice is None else [{"index": 0, "delta": choice, "finish_reason": finish}]
    return event({"id": "c1", "object": "chat.completion.chunk", "model": MODEL, "choices": choices, **more})


def event(data: Any) -> bytes:
    return b"data: %b\n\n" % (data if isinstance(data, bytes) else json.dumps(data).encode())


def usage(tokens: tuple[int, int] = USAGE) -> bytes:
    return delta(usage={"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)})


DONE = event(b"[DONE]")


def streams(*steps: Any, content_type: str = "text/event-stream") -> Script:
    """Bytes as they are, text and deltas as events; a `Gate`; `RESET`; `HANG`: until the client leaves."""

    async def script(exchange: Exchange) -> None:
        await exchange.head(200, Content_Type=content_type)
        for step in steps:
            if isinstance(step, Gate):
                await step.passed()
            elif step is RESET:
                exchange.reset()
            elif step is HANG:
                await exchange.gone()
            elif isinstance(step, bytes):
                await exchange.write(step)
            else:
                await exchange.write(delta({"content": step} if isinstance(step, str) else step))

    return script


def says(*texts: str, finish: str = "stop", tokens: tuple[int, int] | None = USAGE) -> Script:
    """An answer of these pieces."""
    counted = [usage(tokens)] if tokens is not None else []
    return streams({"role": "assistant", "content": ""}, *texts, delta({}, finish), *counted, DONE)


def call(name: str, arguments: Any, call_id: str = "call_1", index: int = 0) -> list[Json]:
    """The deltas of a function call, its arguments (JSON, or a string as it is) in pieces."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    first = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
    pieces = [{"index": index, "function": {"arguments": text[at : at + 7]}} for at in range(0, len(text), 7)]
    return [{"tool_calls": [piece]} for piece in [first, *pieces]]


def asks(*calls: list[Json], text: str = "", finish: str = "tool_calls") -> Script:
    """An answer that calls functions."""
    deltas = [piece for pieces in calls for piece in pieces]
    return streams(*([text] if text else []), *deltas, delta({}, finish), usage(), DONE)


def fails(status: int, message: str, **headers: str) -> Script:
    error = {"error": {"message": message, "type": "scripted_error", "param": None, "code": None}}
    return http_answer(status, json.dumps(error).encode(), **headers)


async def by_words(exchange: Exchange) -> None:
    """What the last of the words TOOL, LENGTH and FAIL in the user's texts says, else a plain answer.

    `TOOLCALL={"name": …, "arguments": …}` names the call. A plain answer says how many messages the user has sent.
    """
    messages = exchange.asked.json["messages"]
    texts = [text_of(message) for message in messages if message["role"] == "user"]
    words = re.findall(r"\b(TOOL|LENGTH|FAIL)\b", texts[-1])
    word = words[-1] if words else ""
    if word == "FAIL":
        await fails(400, "scripted failure")(exchange)
    elif word == "TOOL" and messages[-1]["role"] == "user":
        wanted = json.loads(texts[-1].partition("TOOLCALL=")[2])
        await asks(call(wanted["name"], wanted["arguments"]), text="Let me see. ")(exchange)
    else:
        said = f"message {len(texts)}: {texts[-1]}"
        if messages[-1]["role"] == "tool":
            said += f" -> {messages[-1]['content']}"
        pieces = re.findall(r"\S+\s*", said)
        thinking = [{"reasoning_content": "a secret thought"}]
        ending = [delta({}, "length" if word == "LENGTH" else "stop"), usage(), DONE]
        await streams(*thinking, *pieces, *ending)(exchange)


def text_of(message: Json) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", f"[{part['type']}]") for part in content)
