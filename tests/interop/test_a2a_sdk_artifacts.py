"""The pieces of an artifact, put together as the official package does it, are what GetTask gives."""

from collections.abc import Iterator
from typing import Any

import pytest
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import StreamResponse, Task
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interop.sdk import parse_strictly
from tests.lab import Lab, script


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("artifacts"))
    yield started
    started.kill()


def _merged(task: Task) -> list[dict[str, Any]]:
    """Its artifacts, with neighbouring plain texts made one, and no metadata where there is nothing in it."""
    artifacts: list[dict[str, Any]] = []
    for artifact in task.artifacts:
        read = json_format.MessageToDict(artifact)
        parts: list[dict[str, Any]] = []
        for part in read.pop("parts", []):
            if parts and set(part) == set(parts[-1]) == {"text"}:
                parts[-1] = {"text": parts[-1]["text"] + part["text"]}
            else:
                parts.append(part)
        metadata = read.pop("metadata", {})
        artifacts.append({**read, "parts": parts, **({"metadata": metadata} if metadata else {})})
    return artifacts


def _put_together(lab: Lab, steps: list[list[Any]]) -> tuple[Task, Task]:
    """What a reader has put together from the pieces of a task, and the task as it is in the end."""
    task, last = Task(), Task()
    for _, envelope in lab.stream(lab.agent, "SendStreamingMessage", script(*steps)):
        event = parse_strictly(envelope["result"], StreamResponse())
        if event.HasField("artifact_update"):
            append_artifact_to_task(task, event.artifact_update)
        elif event.HasField("task"):
            last.CopyFrom(event.task)
    got = parse_strictly(lab.rpc(lab.agent, "GetTask", {"id": last.id})["result"], Task())
    assert got == last
    return task, got


def _piece(metadata: Any, *, append: bool = True, artifact_id: str = "a", parts: Any = None) -> list[Any]:
    return ["artifact", {"parts": parts or [{"text": "x"}], "artifact_id": artifact_id, "append": append,
                         "metadata": metadata}]  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "metadata"),
    [
        ([{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
        ([{"a": 1, "b": 1}, {"b": 2}, {"c": None}], {"a": 1, "b": 2, "c": None}),
        ([{"a": {"x": 1, "y": 1}}, {"a": {"x": 2}}], {"a": {"x": 2}}),
        ([{"a": [1, 2]}, {"a": [3]}], {"a": [3]}),
        ([{"a": 1}, None, {}, {"b": 2}], {"a": 1, "b": 2}),
        ([None, None, {"b": 2}], {"b": 2}),
    ],
)
def test_the_metadata_of_pieces_adds_up(lab: Lab, pieces: list[Any], metadata: dict[str, Any]) -> None:
    put, got = _put_together(lab, [_piece(each) for each in pieces])

    assert json_format.MessageToDict(got.artifacts[0].metadata) == metadata
    assert _merged(put) == _merged(got)
    assert _merged(got)[0]["parts"] == [{"text": "x" * len(pieces)}]


def test_an_artifact_that_is_replaced_loses_its_metadata(lab: Lab) -> None:
    put, got = _put_together(lab, [_piece({"a": 1}), _piece({"b": 2}, append=False), _piece({"c": 3})])
    assert json_format.MessageToDict(got.artifacts[0].metadata) == {"b": 2, "c": 3}
    assert _merged(put) == _merged(got)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=4,
)
maybe_metadata = st.none() | st.dictionaries(st.sampled_from("abc"), values, max_size=3)
part = st.one_of(
    st.builds(lambda text: {"text": text}, st.text(max_size=5)),
    st.builds(lambda text: {"text": text, "mediaType": "text/markdown"}, st.text(min_size=1, max_size=5)),
    st.builds(lambda data: {"data": data}, values),
)
pieces = st.builds(
    _piece,
    maybe_metadata,
    append=st.sampled_from([True, True, True, False]),
    artifact_id=st.sampled_from(["a", "b"]),
    parts=st.lists(part, min_size=1, max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(pieces, min_size=1, max_size=8))
def test_a_reader_that_puts_the_pieces_together_has_the_task(lab: Lab, steps: list[list[Any]]) -> None:
    put, got = _put_together(lab, steps)
    assert _merged(put) == _merged(got)
