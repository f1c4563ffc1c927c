"""The agent `openai` with a scripted model: text, usage, stop reasons, files, and conversations that go on."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a.helpers import get_artifact_text
from a2a.types import CancelTaskRequest, TaskState

from tests.daemon import DaemonProcess, message, running
from tests.e2e.openai_support import KEY, PLUGIN, TOOL, Agents, launch_agents, preset, said, state_of, until_left, why
from tests.hostile import no_faults
from tests.interop.sdk import connect, request, result_text, send, streamed_text
from tests.remote import Gate
from tests.scripted_llm import MODEL, ScriptedModel, delta, says, streams

WANTED = {"name": TOOL, "arguments": {"prompt": "echo from the tool"}}
PNG = base64.b64encode(b"\x89PNG not quite").decode()


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedModel]:
    with ScriptedModel() as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, scripted: ScriptedModel) -> Iterator[Agents]:
    config = [
        preset(scripted, system="Be brief.", temperature=0.5),
        preset(scripted, "plain", api_key_env=None),
        preset(scripted, "eyes", images=True),
        preset(scripted, "small", context_tokens=1000),
        preset(scripted, "no-key", api_key_env="NOT_SET_ANYWHERE"),
    ]
    with running(tmp_path_factory.mktemp("turns"), config="\n".join(config), env={"SCRIPTED_KEY": KEY}) as daemon:
        yield Agents(daemon, scripted)


@pytest.fixture
def agents(shared: Agents) -> Iterator[Agents]:
    shared.model.requests.clear()
    with no_faults(shared.daemon):
        yield shared
    shared.model.answers()


# a turn


async def test_the_official_client_gets_the_text_as_the_model_says_it(agents: Agents) -> None:
    first, second = Gate(), Gate()
    agents.model.answers(streams("Hello ", first, "wor", second, "ld", delta({}, "stop"), b"data: [DONE]\n\n"))
    pieces = []
    async with await connect(agents.daemon.endpoint(agents.inbound())) as client:
        async for event in client.send_message(request("hi")):
            if text := streamed_text([event]):
                pieces.append(text)
                (first if len(pieces) == 1 else second).open()
            last = event

    assert pieces == ["Hello ", "wor", "ld"]
    assert result_text(last.task) == "Hello world"
    assert last.task.status.state == TaskState.TASK_STATE_COMPLETED


def test_the_endpoint_is_asked_for_what_the_preset_says(agents: Agents) -> None:
    agents.ask("hi")
    agents.ask("hi", "plain")

    asked, plain = agents.model.asked("POST")
    assert asked.target == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json == {
        "model": MODEL,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "authorization" not in plain.headers
    assert set(plain.json) == {"model", "messages", "stream", "stream_options"}


def test_reasoning_is_never_projected(agents: Agents) -> None:
    thoughts = [
        {"reasoning_content": "secret "},
        {"reasoning": "secret"},
        {"content": "<th"},
        {"content": "ink>secret"},
    ]
    agents.model.answers(streams(*thoughts, "</think>\n\n", "Yes", ".", delta({}, "stop")))

    frames = list(agents.daemon.stream(agents.inbound(), "SendStreamingMessage", {"message": message("hi")}))

    assert said(frames[-1][1]["result"]["task"]) == "Yes."
    assert "secret" not in json.dumps(frames)


@pytest.mark.parametrize(
    ("finish", "state", "reason"),
    [
        ("stop", "COMPLETED", "end_turn"),
        ("length", "COMPLETED", "max_tokens"),
        ("content_filter", "REJECTED", "refusal"),
    ],
)
def test_usage_and_the_stop_reason_are_in_the_tasks_metadata(
    agents: Agents, finish: str, state: str, reason: str
) -> None:
    agents.model.answers(says("some ", "text", finish=finish, tokens=(70, 3)))

    task = agents.ask("hi")

    assert (state_of(task), said(task)) == (state, "some text")
    assert task["metadata"] == {"usage": {"inputTokens": 70, "outputTokens": 3}, "stopReason": reason}


def test_an_endpoint_that_counts_nothing_leaves_no_usage(agents: Agents) -> None:
    agents.model.answers(says("text", tokens=None))
    assert "metadata" not in agents.ask("hi")


def test_a_key_that_is_missing_is_named_and_nothing_is_asked(agents: Agents) -> None:
    task = agents.ask("hi", "no-key")
    assert state_of(task) == "FAILED"
    assert "NOT_SET_ANYWHERE" in why(task)
    assert agents.model.bodies == []


def test_a_key_may_be_a_systemd_credential(tmp_path: Path, launch: Callable[..., DaemonProcess]) -> None:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials/model.key").write_text(f"{KEY}\n")
    with ScriptedModel() as model:
        config = preset(model, api_key_env="model.key")
        daemon = launch(config=config, env={"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")})
        assert state_of(Agents(daemon, model).ask("hi")) == "COMPLETED"
        assert model.requests[0].headers["authorization"] == f"Bearer {KEY}"


# conversations


async def test_a_conversation_with_a_tool_a_cancel_and_a_restart_on_the_way(tmp_path: Path) -> None:
    """Three turns through the official client."""
    with ScriptedModel() as model:
        daemon = launch_agents(tmp_path, model, plugin=PLUGIN)
        try:
            agents = Agents(daemon, model)
            agents.connect()
            endpoint = daemon.endpoint(agents.inbound())
            async with await connect(endpoint, streaming=False) as client:
                one = await send(client, "one", context_id="talk")
                two = await send(client, f"TOOL TOOLCALL={json.dumps(WANTED)}", context_id="talk")
            script, left = until_left(streams("half an answer"))
            model.answers(script)
            async with await connect(endpoint) as client:
                async for event in client.send_message(request("never mind", context_id="talk")):
                    if streamed_text([event]):
                        break
                canceled = await client.cancel_task(CancelTaskRequest(id=event.artifact_update.task_id))
            assert await asyncio.to_thread(left.wait, 30), "the request went on"
            model.answers()
            daemon.kill()  # who saw the end of a task may count on the conversation
            daemon = launch_agents(tmp_path, model, plugin=PLUGIN)
            async with await connect(daemon.endpoint(agents.inbound())) as client:
                three = [event async for event in client.send_message(request("three", context_id="talk"))][-1].task
        finally:
            daemon.kill()

    assert result_text(one) == "message 1: one"
    assert get_artifact_text(two.artifacts[0]).startswith("Let me see. message 2: TOOL")
    assert [artifact.artifact_id for artifact in two.artifacts] == ["result", "tool-call-call_1"]
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED
    assert result_text(three) == "message 4: three"
    assert [(each["role"], (each["content"] or "")[:14]) for each in model.messages] == [
        ("user", "one"), ("assistant", "message 1: one"), ("user", "TOOL TOOLCALL="), ("assistant", "Let me see. "),
        ("tool", "from the tool"), ("assistant", "message 2: TOO"), ("user", "never mind"),
        ("assistant", "half an answer"), ("user", "three"),
    ]  # fmt: skip
    # DeepSeek wants the reasoning of its answers again, and some with every answer
    reasoning = [each["reasoning_content"] for each in model.messages if each["role"] == "assistant"]
    assert reasoning == ["a secret thought", " ", "a secret thought", " "]


def test_conversations_are_apart(agents: Agents) -> None:
    agents.ask("one", contextId="a")
    assert said(agents.ask("two", contextId="b")) == "message 1: two"
    assert said(agents.ask("three", contextId="a")) == "message 2: three"
    assert said(agents.ask("four", "plain", contextId="a")) == "message 1: four"


def test_the_oldest_turns_leave_where_the_context_is_full(agents: Agents) -> None:
    for number in range(6):
        task = agents.ask(f"{number} " + "x" * 600, "small", contextId="long")
        assert state_of(task) == "COMPLETED"

    contents = [each["content"] for each in agents.model.messages]
    assert contents[-1].startswith("5 ")
    assert contents[0].startswith("4 ")
    assert len(json.dumps(agents.model.messages)) < 1000 * 3 + 500


def test_a_message_that_is_larger_than_the_context_fails_and_the_next_one_works(agents: Agents) -> None:
    agents.ask("one", "small", contextId="large")
    task = agents.ask("x" * 5000, "small", contextId="large")
    assert state_of(task) == "FAILED"
    assert "context_tokens are 1000" in why(task)
    assert said(agents.ask("two", "small", contextId="large")) == "message 2: two"


def test_what_the_endpoint_refused_is_not_sent_to_it_again(agents: Agents) -> None:
    agents.ask("one", contextId="refused")
    refused = agents.ask("FAIL", contextId="refused")
    agents.model.answers(says("no", finish="content_filter"))
    filtered = agents.ask("filtered", contextId="refused")
    agents.model.answers()
    again = agents.ask("two", contextId="refused")

    assert (state_of(refused), state_of(filtered)) == ("FAILED", "REJECTED")
    assert why(refused) == "The model failed: its endpoint answers HTTP 400 Bad Request: scripted failure"
    assert said(again) == "message 2: two"


def test_a_turn_that_was_canceled_is_kept_as_far_as_it_came_also_after_a_restart(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        script, left = until_left(streams("half an ", "answer"))
        daemon = launch_agents(tmp_path, model)
        try:
            agents = Agents(daemon, model)
            agents.ask("one", contextId="c")
            model.answers(script)
            frames = daemon.stream(agents.inbound(), "SendStreamingMessage", {"message": message("two", contextId="c")})
            task_id = next(frames)[1]["result"]["task"]["id"]
            for _, frame in frames:
                if frame["result"].get("artifactUpdate", {}).get("artifact", {}).get("parts") == [{"text": "answer"}]:
                    break
            canceled = daemon.rpc(agents.inbound(), "CancelTask", {"id": task_id})["result"]
            assert left.wait(30), "the request went on"
            assert (state_of(canceled), said(canceled)) == ("CANCELED", "half an answer")
            daemon.kill()
            model.answers()
            daemon = launch_agents(tmp_path, model)
            assert state_of(daemon.send(agents.inbound(), "three", contextId="c")) == "COMPLETED"
        finally:
            daemon.kill()

        assert [each["content"] for each in model.messages] == [
            "one", "message 1: one", "two", "half an answer", "three"
        ]  # fmt: skip


def test_a_conversation_that_another_agent_had_begins_anew(tmp_path: Path) -> None:
    plugin = """
from a2ad import Agent, AgentSession, TextDelta, TurnEnd, hookimpl

class Other(Agent, AgentSession):
    async def open(self, context):
        return self
    async def prompt(self, parts, attachments):
        yield TextDelta("other")
        yield TurnEnd()
    def state(self):
        return {"turns": 7}

@hookimpl
def a2ad_register_agents(register):
    register("other", lambda preset: Other())
"""
    with ScriptedModel() as model:
        daemon = DaemonProcess(tmp_path, config='[[presets]]\nid = "model"\nagent = "other"\n', plugin=plugin)
        try:
            agents = Agents(daemon, model)
            assert said(agents.ask("one", contextId="c")) == "other"
            assert daemon.terminate() == 0
            daemon = launch_agents(tmp_path, model, plugin=plugin)
            assert said(daemon.send(agents.inbound(), "two", contextId="c")) == "message 1: two"
        finally:
            daemon.kill()


# files


def with_files(*files: Any) -> list[Any]:
    return [{"text": "look"}, *({"raw": raw, "mediaType": kind, "filename": name} for raw, kind, name in files)]


def raw(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FILES = with_files(
    (PNG, "image/png", "a.png"),
    (raw("<svg/>"), "image/svg+xml", "b.svg"),
    (raw("one, two"), "text/plain; charset=utf-8", "c.txt"),
    (raw('{"d": 1}'), "application/json", "d.json"),
    (base64.b64encode(b"%PDF\xff").decode(), "application/pdf", "e.pdf"),
    (raw("x" * 70_000), "text/plain", "f.txt"),
    (base64.b64encode(b"\xff\xfe").decode(), "text/plain", "g.txt"),
)
NAMED = """[Attachment: b.svg, image/svg+xml, 6 bytes]
<svg/>

[Attachment: c.txt, text/plain; charset=utf-8, 8 bytes]
one, two

[Attachment: d.json, application/json, 8 bytes]
{"d": 1}

[Attachment: e.pdf, application/pdf, 5 bytes]

[Attachment: f.txt, text/plain, 70000 bytes]

[Attachment: g.txt, text/plain, 2 bytes]"""


def test_images_are_shown_to_a_model_that_takes_them_and_other_files_named_or_quoted(agents: Agents) -> None:
    agents.ask("", "eyes", parts=FILES, contextId="seen")
    (sent,) = agents.model.messages
    agents.ask("and now?", "eyes", contextId="seen")

    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert sent["content"] == [{"type": "text", "text": f"look\n\n{NAMED}"}, shown]
    assert agents.model.messages[0] == sent


def test_images_are_named_to_a_model_that_takes_none(agents: Agents) -> None:
    agents.ask("", parts=FILES)
    (sent,) = agents.model.messages
    assert sent["content"] == f"look\n\n[Attachment: a.png, image/png, 14 bytes]\n\n{NAMED}"


def test_a_message_of_an_image_alone_is_just_that(agents: Agents) -> None:
    agents.ask("", "eyes", parts=with_files((PNG, "image/png", "a.png"))[1:])
    (sent,) = agents.model.messages
    assert [part["type"] for part in sent["content"]] == ["image_url"]


def test_an_image_whose_file_has_gone_is_named(agents: Agents) -> None:
    unique = base64.b64encode(b"\x89PNG of this test").decode()
    agents.ask("", "eyes", parts=with_files((unique, "image/png", "a.png")), contextId="gone")
    for file in (agents.daemon.state_dir / "attachments").rglob("*"):
        if file.is_file() and file.read_bytes() == base64.b64decode(unique):
            file.unlink()
    agents.ask("and now?", "eyes", contextId="gone")

    assert agents.model.messages[0]["content"] == [
        {"type": "text", "text": "look"}, {"type": "text", "text": "[Attachment: a.png, image/png, 17 bytes]"}
    ]  # fmt: skip


def test_text_data_and_urls_are_one_prompt(agents: Agents) -> None:
    agents.ask("", parts=[{"text": "look at"}, {"data": {"n": [1]}}, {"url": "https://a.example/x.png"}])
    assert agents.model.messages[0]["content"] == 'look at\n{"n":[1]}\nhttps://a.example/x.png'
