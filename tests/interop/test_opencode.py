"""OpenCode behind an inbound: another agent than DeepSeek Harness in about everything that ACP leaves open.

It speaks word by word, asks with all of a call's arguments, tells a call's end twice, takes images, and has modes among
its options.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a.types import CancelTaskRequest

from tests.daemon import DaemonProcess
from tests.interop.acp_support import (
    as_dict,
    calls_of,
    children,
    group_is_gone,
    installed,
    preset_config,
    say,
    state,
    talking,
    text_of,
    until,
)
from tests.interop.sdk import request
from tests.scripted_anthropic import ScriptedModel, scripted_model, user_texts

VERSION = "1.18.33"

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(shutil.which("npm") is None, reason="OpenCode is installed with npm"),
]


@pytest.fixture(scope="module")
def opencode() -> Path:
    return installed(
        f"opencode-{VERSION}",
        "node_modules/.bin/opencode",
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", ".", f"opencode-ai@{VERSION}"],
        ["node", "node_modules/opencode-ai/postinstall.mjs"],
    )


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as model:
        yield model


@pytest.fixture
def start(
    launch: Callable[..., DaemonProcess], opencode: Path, model: ScriptedModel, tmp_path: Path
) -> Callable[..., DaemonProcess]:
    """Start the daemon, and start it again: OpenCode keeps its sessions in a directory of the test."""
    home = tmp_path / "home"
    home.mkdir()
    settings = {
        "model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"bash": "ask"},
        "provider": {
            "scripted": {
                "npm": "@ai-sdk/anthropic",
                "options": {"baseURL": f"{model.url}/v1", "apiKey": "k"},
                "models": {"scripted": {"name": "Scripted"}},
            }
        },
    }
    (home / "opencode.json").write_text(json.dumps(settings))
    env = {
        "HOME": str(home),
        "OPENCODE_CONFIG": str(home / "opencode.json"),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }

    def start(**options: Any) -> DaemonProcess:
        return launch(config=preset_config({"command": [str(opencode), "acp"], "env": env, **options}))

    return start


def call(command: str) -> str:
    arguments = {"command": command, "description": "Runs it"}
    return "TOOL TOOLCALL=" + json.dumps({"name": "bash", "arguments": arguments})


async def test_a_conversation_with_a_permission_a_cancel_and_a_restart(
    start: Callable[..., DaemonProcess], model: ScriptedModel
) -> None:
    daemon = start(mode="build")
    inbound = daemon.create_inbound(name="opencode", preset="acp")
    async with talking(daemon, inbound) as client:
        asked = await say(client, f"code-apple {call('touch allowed')}")
        assert state(asked) == "INPUT_REQUIRED"
        question = asked["status"]["message"]["parts"][1]["data"]
        assert question["tool"]["name"] == "bash"
        assert question["tool"]["arguments"]["command"] == "touch allowed"
        assert [option["kind"] for option in question["options"]] == ["allow_once", "allow_always", "reject_once"]
        allowed = await say(client, "Allow once", task_id=asked["id"])
        assert (state(allowed), text_of(allowed)) == ("COMPLETED", "Let me see. Codes: code-apple.")
        assert [used["status"] for used in calls_of(allowed)] == ["completed"]
        assert set(allowed["metadata"]["usage"]) >= {"inputTokens", "outputTokens"}
        assert len(list(daemon.state_dir.glob("contexts/*/*/allowed"))) == 1
        context = allowed["contextId"]

        events = client.send_message(request("SLOW", context_id=context))
        slow = (await anext(events)).task
        async for event in events:
            if event.HasField("artifact_update"):  # it has begun to speak
                break
        canceled = as_dict(await client.cancel_task(CancelTaskRequest(id=slow.id)))
        assert state(canceled) == "CANCELED"
        assert text_of(canceled).startswith("word0 ")

        failed = await say(client, "FAIL", context_id=context)
        assert failed["status"]["message"]["parts"] == [
            {"text": "The agent reported an error: Internal error: scripted failure"}
        ]

    (agent,) = children(daemon)
    assert daemon.terminate() == 0
    until(lambda: group_is_gone(agent))
    again = start()
    async with talking(again, inbound) as client:
        last = await say(client, "code-pear PLAIN", context_id=context)
    assert text_of(last) == "Codes: code-apple code-pear."
    assert "SLOW" in user_texts(model.requests[-1])


async def test_a_mode_that_it_does_not_have_is_named(start: Callable[..., DaemonProcess]) -> None:
    daemon = start(mode="bold")
    inbound = daemon.create_inbound(name="opencode", preset="acp")
    async with talking(daemon, inbound) as client:
        failed = await say(client, "PLAIN")
    assert failed["status"]["message"]["parts"] == [{"text": "The agent has no mode 'bold'; it has: build, plan"}]
