"""What an agent says, as a client of the daemon gets it."""

import base64
import json
from pathlib import Path

import pytest

from tests.daemon import message
from tests.lab import until

PIXEL = base64.b64encode(b"\x89PNG not really").decode()


def test_text_is_streamed_in_order_to_the_last_piece(running):
    acp = running("resume")
    frames = [
        frame["result"]
        for _, frame in acp.daemon.stream(acp.inbound, "SendStreamingMessage", {"message": message("count 3000")})
    ]

    pieces = [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]
    texts = [part["text"] for piece in pieces for part in piece["artifact"]["parts"]]
    assert "".join(texts) == "".join(f"{n} " for n in range(3000))
    assert [piece["lastChunk"] for piece in pieces[-2:]] == [False, True]
    assert acp.text(frames[-1]["task"]) == "".join(texts)


def test_one_process_serves_many_conversations_at_the_same_time(running):
    acp = running("resume")
    first = acp.begin("hang")
    acp.reach(first, "WORKING")
    others = [acp.begin(f"say {n}") for n in range(8)]

    assert [acp.text(acp.reach(task, "COMPLETED")) for task in others] == [f"{n} " for n in range(8)]
    assert acp.state(acp.cancel(first["id"])) == "CANCELED"
    assert len(acp.pids()) == 1
    sessions = {note["params"]["cwd"] for note in acp.heard("session/new")}
    assert len(sessions) == len(acp.heard("session/new")) >= 9
    assert all(Path(cwd).is_relative_to(acp.daemon.state_dir) for cwd in sessions)


def test_a_conversation_is_one_session_of_the_agent(running):
    acp = running("resume")
    first = acp.send("say one")
    assert acp.say("say two; heard", contextId=first["contextId"]) == "two say one | say two; heard"


def test_thoughts_plans_and_what_is_not_known_are_not_projected(running):
    acp = running("resume")
    task = acp.send("think of a secret; say done")
    assert acp.text(task) == "done "
    assert "secret" not in json.dumps(task["artifacts"])


def test_a_tool_call_is_one_artifact_whole_and_told_once(running):
    acp = running("resume")
    frames = acp.daemon.stream(acp.inbound, "SendStreamingMessage", {"message": message("tool grep; fail rm; say x")})
    updates = [frame["result"]["artifactUpdate"] for _, frame in frames if "artifactUpdate" in frame["result"]]

    calls = [
        (update["artifact"]["artifactId"], update["artifact"]["parts"][0]["data"])
        for update in updates
        if update["artifact"]["artifactId"] != "result"
    ]
    assert calls == [
        ("tool-call-t1", {"name": "grep", "arguments": None, "status": "working", "result": None}),
        ("tool-call-t1", {"name": "grep", "arguments": {"path": "x"}, "status": "working", "result": None}),
        ("tool-call-t1", {"name": "grep", "arguments": {"path": "x"}, "status": "completed", "result": "found"}),
        ("tool-call-t2", {"name": "rm", "arguments": None, "status": "working", "result": None}),
        ("tool-call-t2", {"name": "rm", "arguments": None, "status": "failed", "result": {"why": "no"}}),
    ]


def test_an_image_that_the_agent_shows_is_an_artifact(running):
    task = running("resume").send(f"image {PIXEL}; say look")
    assert {artifact["artifactId"]: artifact["parts"] for artifact in task["artifacts"]} == {
        "file-1": [{"raw": PIXEL, "mediaType": "image/png"}],
        "result": [{"text": "look "}],
    }


@pytest.mark.parametrize(
    ("reason", "state", "metadata"),
    [
        ("end_turn", "COMPLETED", None),
        ("max_tokens", "COMPLETED", {"stopReason": "max_tokens"}),
        ("max_turn_requests", "FAILED", {"stopReason": "max_turn_requests"}),
        ("refusal", "REJECTED", {"stopReason": "refusal"}),
        ("cancelled", "CANCELED", {"stopReason": "cancelled"}),
    ],
)
def test_why_a_turn_stopped_is_how_the_task_ends(running, reason, state, metadata):
    task = running("resume").send(f"say partial; stop {reason}")
    assert (running("resume").state(task), task.get("metadata")) == (state, metadata)
    assert running("resume").text(task) == "partial "


def test_usage_is_in_the_metadata_of_the_task(running):
    usage = running("resume").send("usage; say x")["metadata"]["usage"]
    assert usage == {"inputTokens": 7, "outputTokens": 2, "contextTokens": 50, "contextSize": 1000}


def test_what_comes_after_the_end_of_a_turn_is_not_in_the_next(running):
    acp = running("resume")
    first = acp.send("say one; late too-late")
    until(lambda: any("late" in note for note in acp.notes()))
    assert acp.say("say two", contextId=first["contextId"]) == "two "


PARTS = [
    {"text": "blocks"},
    {"data": {"a": [1]}},
    {"url": "https://example.org/x"},
    {"raw": PIXEL, "mediaType": "image/png", "filename": "p.png"},
    {"raw": base64.b64encode(b"1,2").decode(), "mediaType": "text/csv", "filename": "../t.csv"},
]


@pytest.mark.parametrize("images", [True, False])
def test_the_parts_of_a_message_are_blocks_of_the_prompt(running, images):
    acp = running(*(["images"] if images else []))
    task = acp.daemon.rpc(acp.inbound, "SendMessage", {"message": {"role": "ROLE_USER", "parts": PARTS}})["result"]
    assert acp.state(task["task"]) == "COMPLETED"
    text, data, url, image, table = acp.heard("session/prompt")[-1]["prompt"]

    assert (text, data, url) == (
        {"type": "text", "text": "blocks"},
        {"type": "text", "text": '{"a": [1]}'},
        {"type": "text", "text": "https://example.org/x"},
    )
    if images:
        assert image == {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    else:
        assert (image["type"], image["mimeType"], image["size"]) == ("resource_link", "image/png", 15)
    assert {name: table[name] for name in ("type", "name", "mimeType", "size")} == {
        "type": "resource_link",
        "name": "t.csv",
        "mimeType": "text/csv",
        "size": 3,
    }
    path = Path(table["uri"].removeprefix("file://"))
    assert path.read_bytes() == b"1,2"
    assert path.is_relative_to(acp.heard("session/new")[-1]["params"]["cwd"])


def test_the_mode_of_the_preset_is_set_however_the_agent_offers_modes(running):
    for flag in ("modes", "mode-options"):
        assert json.loads(running(flag, mode="careful").say("session"))["mode"] == "careful"
    assert json.loads(running("modes").say("session"))["mode"] == "plain"


def test_a_mode_that_the_agent_does_not_have_is_named(running):
    assert running("modes", mode="bold").fails("say x") == "The agent has no mode 'bold'; it has: plain, careful"


def test_sessions_live_in_the_directory_of_the_preset(running, tmp_path):
    acp = running("resume", cwd=str(tmp_path))
    assert json.loads(acp.say("session"))["cwd"] == str(tmp_path)
    assert [note["cwd"] for note in acp.notes() if "start" in note] == [str(tmp_path)]
