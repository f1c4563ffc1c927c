"""A cancel that meets the moment in which a waiting task's turn comes."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp

from tests.daemon import DaemonProcess, message
from tests.e2e.control_support import until

PLUGIN = """
import asyncio

from a2ad import Artifact, Executor, hookimpl


class Steps(Executor):
    async def execute(self, request):
        for number in range(5):
            yield Artifact(parts=[{"text": str(number)}], append=True, last_chunk=number == 4)
            await asyncio.sleep(0.002)


@hookimpl
def a2ad_register_executors(register, config):
    register("steps", Steps())


@hookimpl
def a2ad_register_presets(register, config):
    register("steps", {"skills": [{"id": "chat", "executor": "steps"}]})
"""


async def test_a_task_that_was_canceled_as_its_turn_came_stays_as_everyone_was_told(
    launch: Callable[..., DaemonProcess],
) -> None:
    daemon = launch(plugin=PLUGIN, config="[limits]\nruns_per_inbound = 2\n")
    inbound = daemon.create_inbound(preset="steps")
    told: dict[str, Any] = {}

    async with aiohttp.ClientSession() as session:

        async def rpc(method: str, params: Any) -> Any:
            envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with session.post(daemon.endpoint(inbound), json=envelope) as response:
                return await response.json()

        async def client(number: int) -> None:
            for turn in range(40):
                wanted = {"message": message(f"{number}.{turn}"), "configuration": {"returnImmediately": True}}
                task_id = (await rpc("SendMessage", wanted))["result"]["task"]["id"]
                # as long as it takes until some of those before it have ended: never the same
                await asyncio.sleep(0.001 * ((number * 7 + turn * 3) % 25))
                answer = await rpc("CancelTask", {"id": task_id})
                if "result" in answer:
                    told[task_id] = answer["result"]

        await asyncio.gather(*(client(number) for number in range(8)))

        def unfinished() -> int:
            return sum(daemon.read(f"?taskState=TASK_STATE_{state}")["taskTotal"] for state in ("SUBMITTED", "WORKING"))

        await asyncio.to_thread(until, lambda: unfinished() == 0, "all have ended")
        now = {task_id: (await rpc("GetTask", {"id": task_id}))["result"] for task_id in told}

    assert told
    assert {task["status"]["state"] for task in told.values()} == {"TASK_STATE_CANCELED"}
    assert [(told[task_id], task) for task_id, task in now.items() if told[task_id] != task] == []
