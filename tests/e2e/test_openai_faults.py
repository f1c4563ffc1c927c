"""The agent `openai` and endpoints that are busy, cut off, clumsy or hostile: what is tried again, and what fails."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.daemon import DaemonProcess, message, running
from tests.e2e.control_support import start_task, until
from tests.e2e.openai_support import KEY, Agents, calls_of, preset, said, state_of, until_left, why
from tests.hostile import no_faults
from tests.remote import HANG, RESET, Exchange, Remote, Script, silence
from tests.remote import http as http_answer
from tests.scripted_llm import DONE, ScriptedModel, asks, call, delta, event, fails, says, streams, usage

#: a test's own bounds, since the real ones are minutes
IMPATIENT = """
from a2ad.agents.openai import endpoint
from a2ad import hookimpl

endpoint.SILENCE_SECONDS = 0.5

@hookimpl
def a2ad_startup(daemon):
    pass
"""
OK = says("fine")
END = [delta({}, "stop"), usage(), DONE]


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedModel]:
    with ScriptedModel() as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, scripted: ScriptedModel) -> Iterator[Agents]:
    environment = {"SCRIPTED_KEY": KEY}
    with running(tmp_path_factory.mktemp("faults"), config=preset(scripted), env=environment) as daemon:
        yield Agents(daemon, scripted)


@pytest.fixture
def agents(shared: Agents) -> Iterator[Agents]:
    shared.model.requests.clear()
    with no_faults(shared.daemon):
        yield shared
        # the daemon is none the worse, and no key has left it
        shared.model.answers()
        assert state_of(shared.ask("hi")) == "COMPLETED"
        assert KEY not in shared.daemon.log()


def outcome(agents: Agents, *scripts: Script) -> tuple[Any, int]:
    """The task, and how often the endpoint was asked for it."""
    agents.model.answers(*scripts)
    task = agents.ask("hi")
    return task, len(agents.model.bodies)


# tried again


@pytest.mark.parametrize(
    "first",
    [
        fails(429, "slow down"),
        fails(408, "too slow"),
        fails(500, "oh"),
        http_answer(529),
        http_answer(502, b"<html>", Content_Type="text/html"),
        streams(RESET),
        streams(),
        streams({"role": "assistant", "content": ""}, {"reasoning_content": "hm"}, RESET),
        streams({"reasoning_content": "hm"}),
        streams(*call("a2a__b__chat", {"prompt": "x"})[:2]),
        streams(b'data: {"choices": [{"index": 0, "delta": {"con'),
        streams("<think>not passed on"),
        streams(DONE),
        streams(event({"error": {"code": 503, "message": "overloaded"}})),
        streams(delta({}, "insufficient_system_resource"), DONE),
    ],
)
def test_what_may_go_better_is_tried_again_while_nothing_was_passed_on(agents: Agents, first: Script) -> None:
    task, asked = outcome(agents, first, OK)
    assert (state_of(task), said(task), asked) == ("COMPLETED", "fine", 2)
    assert agents.model.bodies[0] == agents.model.bodies[1]


@pytest.mark.parametrize("date", [False, True])
def test_retry_after_is_heeded(agents: Agents, date: bool) -> None:
    wanted = format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True) if date else "1"
    task, asked = outcome(agents, fails(429, "slow down", Retry_After=wanted), OK)
    assert (said(task), asked) == ("fine", 2)
    first, second = agents.model.asked("POST")
    assert second.at - first.at >= (0.6 if date else 1)


def test_a_retry_after_that_is_too_long_fails_and_says_so(agents: Agents) -> None:
    task, asked = outcome(agents, fails(429, "Rate limit reached", Retry_After="3600"))
    assert (state_of(task), asked) == ("FAILED", 1)
    assert why(task) == (
        "The model failed: its endpoint answers HTTP 429 Too Many Requests: Rate limit reached"
        " (it asks to come back in 3600 s)"
    )


def test_what_stays_broken_fails_with_the_providers_words(agents: Agents) -> None:
    task, asked = outcome(agents, fails(503, "The server is overloaded"))
    assert (state_of(task), asked) == ("FAILED", 5)
    assert why(task) == (
        "The model failed: its endpoint answers HTTP 503 Service Unavailable: The server is overloaded (tried 5 times)"
    )


def test_an_endpoint_that_is_not_there_fails_and_one_that_comes_back_works(
    launch: Callable[..., DaemonProcess],
) -> None:
    with ScriptedModel() as model:
        port = model.port
        daemon = launch(config=preset(model), env={"SCRIPTED_KEY": KEY})
    agents = Agents(daemon, model)
    task = agents.ask("hi", contextId="c")
    assert state_of(task) == "FAILED"
    assert f"http://127.0.0.1:{port} cannot be reached" in why(task)

    task_id = start_task(daemon, agents.inbound(), "hi", contextId="c")
    until(lambda: "openai.retry" in daemon.log().partition("openai.failed")[2], "it is tried again")
    with ScriptedModel(port=port):
        until(lambda: daemon.read(f"/task?id={task_id}")["state"].endswith("COMPLETED"), "it works")


# cut


def test_a_stream_that_is_cut_after_text_fails_and_keeps_the_text(agents: Agents) -> None:
    for cut in ([RESET], [], [b'data: {"choi']):
        agents.model.requests.clear()
        task, asked = outcome(agents, streams("half an ", "answer", *cut), OK)
        assert (state_of(task), said(task), asked) == ("FAILED", "half an answer", 1)
        assert "broke" in why(task)


def test_a_stream_that_is_cut_behind_its_end_is_complete(agents: Agents) -> None:
    for end in ([], [RESET], [usage()], [DONE[:-2]], [b'data: {"ch']):
        task, _ = outcome(agents, streams("fine", delta({}, "stop"), *end))
        assert (state_of(task), said(task)) == ("COMPLETED", "fine")


def test_an_endpoint_that_does_not_hang_up_is_not_waited_for(agents: Agents) -> None:
    script, left = until_left(streams("fine", *END))
    task, _ = outcome(agents, script)
    assert (state_of(task), said(task)) == ("COMPLETED", "fine")
    assert left.wait(30)
    task, _ = outcome(agents, streams("fine", delta({}, "stop"), HANG))
    assert (state_of(task), said(task)) == ("COMPLETED", "fine")


def test_a_connection_is_used_again_where_the_endpoint_keeps_it(agents: Agents) -> None:
    async def two_on_one(exchange: Exchange) -> None:
        body = b"".join([delta({"content": "fine"}), *END])
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b"
        await exchange.write(answer % (len(body), body))
        await agents.model._read(exchange._reader)
        await exchange.write(answer % (len(body), body))

    agents.model.answers(two_on_one)
    assert [said(agents.ask("hi")) for _ in range(2)] == ["fine", "fine"]
    assert len(agents.model.bodies) == 1


def test_what_follows_the_end_of_an_answer_is_not_read(agents: Agents) -> None:
    for flood in (b"x" * 65536, DONE * 1000, delta({"content": "more"}) * 100):
        task, _ = outcome(agents, endless(flood, first=b"".join([delta({"content": "fine"}), *END])))
        assert (state_of(task), said(task)) == ("COMPLETED", "fine")


# errors


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (fails(401, "Authentication Fails"), "HTTP 401 Unauthorized: Authentication Fails"),
        (fails(402, "Insufficient Balance"), "HTTP 402 Payment Required: Insufficient Balance"),
        (http_answer(404, b"nothing\x1b[31m\nhere", Content_Type="text/plain"), "HTTP 404 Not Found: nothing[31m here"),
        (http_answer(400, b"\xff\xfe"), "HTTP 400 Bad Request"),
        (http_answer(400, b'{"errors": [{"message": "the first"}]}'), "HTTP 400 Bad Request: the first"),
        (http_answer(422, b'{"detail": [{"loc": ["x"], "msg": "is required"}]}'), "Entity: is required"),
        (http_answer(200, b'{"detail": "Not here"}'), "no chat completion: Not here"),
        (http_answer(400, b'{"error": "flat"}'), "HTTP 400 Bad Request: flat"),
        (http_answer(400, b'[{"error": {"message": "in a list"}}]'), "HTTP 400 Bad Request: in a list"),
        (http_answer(422, b'{"detail": "of another kind"}'), "HTTP 422 Unprocessable Entity: of another kind"),
        (http_answer(400, b'{"message": "bare"}'), "HTTP 400 Bad Request: bare"),
        (http_answer(418, b'{"error": {"message": ["no", "text"]}}'), "HTTP 418 I'm a Teapot"),
        (http_answer(200, b'{"error": {"message": "in disguise"}}'), "reports an error: in disguise"),
        (streams(event({"error": {"message": "in the stream"}})), "reports an error: in the stream"),
        (streams(b"event: error\n" + event({"error": {"message": "named"}})), "reports an error: named"),
    ],
)
def test_the_providers_error_fails_the_task_in_its_words_and_is_not_tried_again(
    agents: Agents, script: Script, told: str
) -> None:
    task, asked = outcome(agents, script)
    assert (state_of(task), asked) == ("FAILED", 1)
    assert told in why(task)


@pytest.mark.parametrize("code", [None, 500])
def test_an_error_after_text_fails_and_keeps_the_text(agents: Agents, code: int | None) -> None:
    error = event({"error": {"message": "the disk is full", "code": code}, "choices": [{"finish_reason": "error"}]})
    task, asked = outcome(agents, streams("half", error, DONE), OK)
    assert (state_of(task), said(task), asked) == ("FAILED", "half", 1)
    assert why(task) == "The model failed: its endpoint reports an error: the disk is full"


# junk


def endless(piece: bytes, content_type: str = "text/event-stream", first: bytes = b"") -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.head(200, Content_Type=content_type)
        await exchange.write(first)
        while True:
            await exchange.write(piece)

    return script


async def endless_head(exchange: Exchange) -> None:
    await exchange.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await exchange.write(b"X-Junk: " + b"x" * 4000 + b"\r\n")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (http_answer(200, b"<html>log in</html>", Content_Type="text/html"), "answers with text/html"),
        (http_answer(200, b"hello", Content_Type=""), "no chat completion"),
        (http_answer(200, b"{}"), "no chat completion"),
        (http_answer(200, b"[[]]"), "no chat completion"),
        (http_answer(200, b'{"choices": ['), "not valid JSON"),
        (http_answer(200, b'{"a":' * 5000), "not valid JSON"),
        (streams(b"data: hello\n\n"), "not valid JSON"),
        (streams(b"data: [1]\n\n"), "no chat completion"),
        (streams(b"data: \xff\xfe\n\n"), "not valid JSON"),
        (streams(b"data: " + b'{"a":' * 5000 + b"\n\n"), "not valid JSON"),
        (streams(b"data: [" + b"{}," * 200_000 + b"{}]\n\n"), "not valid JSON"),
        (streams(delta({}, "SAFETY"), DONE), "ends with the reason 'SAFETY'"),
        (endless(b"x" * 65536), "larger than"),
        (endless(b"data: " + b"x" * 65536 + b"\n"), "larger than"),
        (endless(b" " * 65536, "application/json"), "larger than"),
        (endless(delta({"tool_calls": [{"function": {"name": "a"}}]})), "calls more than 1000 tools"),
        (endless(delta({"reasoning_content": "x" * 65536})), "longer than"),
        (endless_head, "no HTTP"),
        (endless(b": comment\n\n" * 1000), "without an event"),
        (endless(b"data: {}\n\n" * 1000), "longer than"),
    ],
)  # fmt: skip
def test_what_is_no_answer_fails_the_task_and_nothing_else(agents: Agents, script: Script, told: str) -> None:
    task, asked = outcome(agents, script, OK)
    assert (state_of(task), asked) == ("FAILED", 1), task
    assert told in why(task)


def test_text_without_end_is_cut_off_and_kept(agents: Agents) -> None:
    agents.model.answers(endless(delta({"content": "x" * 65536})))
    task = agents.ask("hi")
    assert state_of(task) == "FAILED"
    assert "longer than" in why(task)
    assert 0 < len(said(task)) <= 16 << 20


def test_a_compressed_answer_that_nobody_asked_for_is_no_answer(agents: Agents) -> None:
    task, _ = outcome(agents, http_answer(200, b"\x1f\x8b\x08" + b"\0" * 50, Content_Encoding="gzip"))
    assert state_of(task) == "FAILED"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_no_redirect_is_followed_with_the_key(agents: Agents, code: int, elsewhere: bool) -> None:
    with Remote() as other:
        target = f"{other.url}/v1/chat/completions" if elsewhere else "/v1/other/chat/completions"
        task, asked = outcome(agents, http_answer(code, Location=target), OK)
        assert (state_of(task), asked) == ("FAILED", 1)
        assert f"redirects (HTTP {code})" in why(task)
        assert other.requests == []


# silence and cancel


def test_an_endpoint_that_is_silent_fails_also_where_it_fills_the_time(launch: Callable[..., DaemonProcess]) -> None:
    async def comments(exchange: Exchange) -> None:
        await exchange.head(200, Content_Type="text/event-stream")
        while True:
            await exchange.write(b": keep-alive\n\n")
            await asyncio.sleep(0.05)

    with ScriptedModel() as model:
        agents = Agents(launch(config=preset(model), plugin=IMPATIENT, env={"SCRIPTED_KEY": KEY}), model)
        for script in (silence, comments, streams("text", HANG), streams(b" ", HANG, content_type="application/json")):
            model.requests.clear()
            task, asked = outcome(agents, script)
            assert (state_of(task), asked) == ("FAILED", 1)
            assert why(task) == "The model failed: its endpoint has said nothing for 0.5 s"


@pytest.mark.parametrize(
    "before", [[], [streams()], [streams({"reasoning_content": "hm"})], [streams(*call("a2a__b__chat", "{"))]]
)
def test_a_cancel_ends_the_request_on_the_wire(agents: Agents, before: list[Script]) -> None:
    script, left = until_left(*before)
    agents.model.answers(script)
    task_id = start_task(agents.daemon, agents.inbound(), "hi")
    until(lambda: agents.model.bodies, "the endpoint is asked")

    canceled = agents.daemon.rpc(agents.inbound(), "CancelTask", {"id": task_id})["result"]

    assert left.wait(30), "the request went on"
    assert state_of(canceled) == "CANCELED"


def test_a_cancel_ends_the_pause_before_the_next_try(agents: Agents) -> None:
    agents.model.answers(fails(429, "slow down", Retry_After="55"))
    task_id = start_task(agents.daemon, agents.inbound(), "hi")
    until(lambda: "seconds=55" in agents.daemon.log(), "it waits")
    canceled = agents.daemon.rpc(agents.inbound(), "CancelTask", {"id": task_id})["result"]
    assert (state_of(canceled), len(agents.model.bodies)) == ("CANCELED", 1)


def test_a_stop_of_the_daemon_ends_the_request_and_keeps_the_conversation(launch: Callable[..., DaemonProcess]) -> None:
    with ScriptedModel() as model:
        config, environment = f"[limits]\nshutdown_seconds = 1\n{preset(model)}", {"SCRIPTED_KEY": KEY}
        daemon = launch(config=config, env=environment)
        agents = Agents(daemon, model)
        agents.ask("one", contextId="c")
        script, left = until_left(streams("half"))
        model.answers(script)
        frames = daemon.stream(agents.inbound(), "SendStreamingMessage", {"message": message("two", contextId="c")})
        next(frame for _, frame in frames if "artifactUpdate" in frame["result"])
        assert daemon.terminate() == 0
        assert left.wait(30), "the request went on"
        model.answers()
        again = launch(config=config, env=environment)
        assert said(again.send(agents.inbound(), "three", contextId="c")) == "message 3: three"
        assert [each["content"] for each in model.messages] == ["one", "message 1: one", "two", "half", "three"]


# the key


def test_the_key_is_masked_wherever_the_endpoint_repeats_it(agents: Agents) -> None:
    half = len(KEY) // 2
    pieces = [KEY[:half], KEY[half:]]
    calling = call(KEY, {"prompt": KEY}, KEY)
    scripts: list[list[Script]] = [
        [fails(401, f"Incorrect API key provided: {KEY}.")],
        [fails(400, json.dumps({"authorization": f"Bearer {KEY}"}))],
        [http_answer(400, json.dumps({"error": KEY}).encode())],
        [streams("it is ", *pieces, event({"error": {"message": f"bad key {KEY}"}}))],
        [says("it is ", *pieces)],
        [streams({"reasoning_content": KEY}, "fine", *END)],
        [asks(calling), OK],
        [asks(call("a", f'{{"prompt": "{KEY}')), OK],
        [says(finish=KEY)],
        [fails(429, f"too many for {KEY}", Retry_After="0"), fails(400, KEY)],
        [http_answer(302, Location=f"http://127.0.0.1:1/{KEY}")],
        [http_answer(200, b"x", Content_Type=f"text/{KEY}")],
        [http_answer(400, f"bad key {KEY}".encode(), Content_Type="text/plain")],
        [http_answer(200, json.dumps({"detail": KEY}).encode())],
    ]
    tasks = [outcome(agents, *script)[0] for script in scripts]

    assert [said(tasks[at]) for at in (3, 4)] == ["it is ***", "it is ***"]
    assert next(iter(calls_of(tasks[6]).values()))["arguments"] == {"prompt": "***"}
    shown = [json.dumps(task) for task in tasks]
    shown += [json.dumps(agents.daemon.read(f"/task?id={task['id']}")) for task in tasks]
    shown += [json.dumps(agents.daemon.read("?taskLimit=500")), agents.daemon.log()]
    assert [text for text in shown if KEY in text] == []
    assert [
        file for file in agents.daemon.state_dir.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()
    ] == []
