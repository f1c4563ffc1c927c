"""DeepSeek Harness behind an inbound, as anyone with the official client meets it; behind it, a scripted model."""

import json
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
    venv,
)
from tests.interop.sdk import request
from tests.scripted_anthropic import ScriptedModel, scripted_model, tool_results, user_texts

VERSION = "0.2.1rc2"
KEY = "k3y-of-the-model"


@pytest.fixture(scope="module")
def dsh() -> Path:
    return installed(f"dsh-{VERSION}", "bin/dsh", *venv(f"deepseek-harness-runtime-bin=={VERSION}"))


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as model:
        yield model


@pytest.fixture
def start(launch: Callable[..., DaemonProcess], dsh: Path, model: ScriptedModel, tmp_path: Path) -> Callable[..., Any]:
    """Start the daemon, and start it again: DSH keeps its sessions in a directory of the test."""

    def start(**options: Any) -> DaemonProcess:
        env = {
            "DSH_HOME": str(tmp_path / "dsh"),
            "DEEPSEEK_API_KEY": "$DSH_TEST_KEY",
            "DEEPSEEK_BASE_URL": model.url,
            "DSH_TELEMETRY_MODE": "DISABLED",
        }
        config = preset_config({"command": [str(dsh), "--profile", "acp"], "env": env, **options})
        return launch(config=config, env={"DSH_TEST_KEY": KEY})

    return start


def call(name: str, **arguments: Any) -> str:
    return "TOOL TOOLCALL=" + json.dumps({"name": name, "arguments": arguments})


def outside(command: str) -> str:
    """A command that DSH asks permission for."""
    wider = {"sandbox_permissions": "danger-full-access", "justification": "the test wants it"}
    return call("bash", description="Runs it", command=command, **wider)


async def test_a_conversation_with_a_tool_a_permission_a_cancel_and_a_restart(
    start: Callable[..., DaemonProcess], model: ScriptedModel, tmp_path: Path
) -> None:
    daemon = start()
    inbound = daemon.create_inbound(name="harness", preset="acp")
    echo = daemon.create_inbound(name="echo", preset="echo")
    daemon.act("outbound.create", name="helper", agentCardUrl=daemon.endpoint(echo))

    async with talking(daemon, inbound) as client:
        # what tools there are is known once the agent has told its model
        hello = await say(client, "code-apple PLAIN")
        assert (state(hello), text_of(hello)) == ("COMPLETED", "Codes: code-apple.")
        assert "a secret thought" not in json.dumps(hello)
        context = hello["contextId"]
        names = [tool["name"] for tool in model.requests[-1]["tools"]]
        (tool,) = [name for name in names if "helper" in name]

        told = await say(client, f"code-pear {call(tool, prompt='hello, helper')}", context_id=context)
        assert (state(told), text_of(told)) == ("COMPLETED", "Let me see. Codes: code-apple code-pear.")
        (used,) = calls_of(told)
        assert (used["name"], used["arguments"], used["status"]) == (tool, {"prompt": "hello, helper"}, "completed")
        assert "hello, helper" in json.dumps(used["result"])

        marker = tmp_path / "allowed"
        asked = await say(client, f"code-plum {outside(f'touch {marker}')}", context_id=context)
        assert state(asked) == "INPUT_REQUIRED"
        question = asked["status"]["message"]["parts"][1]["data"]
        assert question["tool"]["name"] == "bash"
        assert question["tool"]["arguments"]["command"] == f"touch {marker}"
        assert [option["kind"] for option in question["options"]] == ["allow_once", "reject_once"]
        assert not marker.exists()
        allowed = await say(client, "Allow once", task_id=asked["id"])
        assert (state(allowed), [used["status"] for used in calls_of(allowed)]) == ("COMPLETED", ["completed"])
        assert marker.exists()

        # another one at the operator's door
        other = tmp_path / "allowed by the operator"
        asked = await say(client, f"code-fig {outside(f'touch {json.dumps(str(other))}')}", context_id=context)
        assert state(asked) == "INPUT_REQUIRED"
        (row,) = [row for row in daemon.read("")["attention"] if row["kind"] == "question"]
        assert (row["taskId"], row["tool"]["name"]) == (asked["id"], "bash")
        daemon.act("task.answer", id=asked["id"], option=row["options"][0]["id"])
        until(lambda: daemon.read(f"/task?id={asked['id']}")["state"] == "TASK_STATE_COMPLETED")
        assert other.exists()

        events = client.send_message(request("SLOW", context_id=context))
        slow = (await anext(events)).task
        until(lambda: "SLOW" in user_texts(model.requests[-1])[-1])
        canceled = as_dict(await client.cancel_task(CancelTaskRequest(id=slow.id)))
        assert state(canceled) == "CANCELED"
        until(lambda: model.hung_up == ["SLOW"])

    (agent,) = children(daemon)
    assert daemon.terminate() == 0
    until(lambda: group_is_gone(agent))
    again = start()

    async with talking(again, inbound) as client:
        last = await say(client, "PLAIN", context_id=context)
    assert text_of(last) == "Codes: code-apple code-pear code-plum code-fig."
    assert KEY not in again.log()


@pytest.mark.parametrize("end", ["terminate", "kill"])
async def test_a_permission_that_waits_at_a_restart_is_answered_after_it(
    start: Callable[..., DaemonProcess], model: ScriptedModel, tmp_path: Path, end: str
) -> None:
    daemon = start(after_restart="again", tools=False)
    inbound = daemon.create_inbound(name="harness", preset="acp")
    marker = tmp_path / "allowed"
    async with talking(daemon, inbound) as client:
        asked = await say(client, f"code-apple {outside(f'touch {marker}')}")
    assert state(asked) == "INPUT_REQUIRED"
    (agent,) = children(daemon)
    getattr(daemon, end)()
    until(lambda: group_is_gone(agent))

    again = start(after_restart="again", tools=False)
    async with talking(again, inbound) as client:
        allowed = await say(client, "allow-once", task_id=asked["id"])
    assert (state(allowed), text_of(allowed)) == ("COMPLETED", "Let me see. Codes: code-apple.")
    assert marker.exists()
    assert tool_results(model.requests[-1])


async def test_a_failure_of_the_model_is_that_of_the_task_alone(start: Callable[..., DaemonProcess]) -> None:
    daemon = start(tools=False)
    inbound = daemon.create_inbound(name="harness", preset="acp")
    async with talking(daemon, inbound) as client:
        failed = await say(client, "FAIL")
        assert state(failed) == "FAILED"
        assert failed["status"]["message"]["parts"] == [
            {"text": "The agent reported an error: Internal error: turn failed: scripted failure"}
        ]
        cut = await say(client, "LENGTH", context_id=failed["contextId"])
        assert (state(cut), cut["metadata"]["stopReason"]) == ("COMPLETED", "max_tokens")
