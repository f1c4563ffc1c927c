"""A client that puts a task together from its stream, as naively as can be."""

from __future__ import annotations

import copy
import json
from typing import Any

from a2ad.engine import Reader


class Client:
    """Reads a stream as a naive client does: what it has of the task is in `task`."""

    def __init__(self, task_id: str, reader: Reader, *, snapshot: bool) -> None:
        """`snapshot`: its first frame is one, and has a number that others have too."""
        self.task_id = task_id
        self.reader = reader
        self.snapshot = snapshot
        self.batches: list[list[tuple[int, dict[str, Any]]]] = []
        self.raw: list[tuple[int, bytes]] = []
        self.task: dict[str, Any] = {}
        self.ended = False

    async def drain(self) -> None:
        """Take what is there."""
        while self.reader.ready and not self.ended:
            batch = await self.reader.take()
            self.ended = not batch
            self.raw += [(frame.number, frame.result) for frame in batch]
            self.batches.append([(frame.number, json.loads(frame.result)) for frame in batch])
            for _, result in self.batches[-1]:
                self._apply(result)

    @property
    def replayed(self) -> list[tuple[int, dict[str, Any]]]:
        """What came with the snapshot."""
        return self.batches[0][1:] if self.snapshot else []

    def numbered(self) -> list[tuple[int, bytes]]:
        """The frames that have a number of their own."""
        return self.raw[1:] if self.snapshot else self.raw

    def live_numbers(self) -> list[int]:
        return [number for batch in self.batches[self.snapshot :] for number, _ in batch]

    @property
    def frames(self) -> list[tuple[int, dict[str, Any]]]:
        return [frame for batch in self.batches for frame in batch]

    def _apply(self, result: dict[str, Any]) -> None:
        ((kind, body),) = result.items()
        body = copy.deepcopy(body)
        if kind == "task":
            self.task = body
        elif kind == "statusUpdate":
            assert body["taskId"] == self.task["id"]
            self.task["status"] = body["status"]
        else:
            self._apply_artifact(body)

    def _apply_artifact(self, update: dict[str, Any]) -> None:
        artifacts = self.task.setdefault("artifacts", [])
        new = update["artifact"]
        held = next((artifact for artifact in artifacts if artifact["artifactId"] == new["artifactId"]), None)
        if held is None:
            artifacts.append(new)
        elif not update["append"]:
            artifacts[artifacts.index(held)] = new
        else:
            held.update({key: value for key, value in new.items() if key != "parts"})
            for part in new["parts"]:
                if set(part) == {"text"} == set(held["parts"][-1]):
                    held["parts"][-1] = {"text": held["parts"][-1]["text"] + part["text"]}
                else:
                    held["parts"].append(part)
