"""The artifacts of a task, against a model that copies everything: in memory, in the store's segments, on the wire."""

import base64
import json
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2ad import Artifact, TaskState
from a2ad.engine.artifacts import Artifacts, stored_view
from a2ad.engine.encode import InvalidOutput
from a2ad.store import Segment, StoredTask, TaskRow

ROW = TaskRow(
    id="t", inbound_id="i", context_id="c", caller="x", peer="", skill="s", executor="e", state=TaskState.WORKING,
    status=b"{}", created_at=0, updated_at=0, frame_limit=0,
)  # fmt: skip

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.sampled_from(
    ['"', "\\", "\u2028\u0085", "\0"]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
MAPPING = st.dictionaries(TEXT, JSON, max_size=2)
MORE = st.fixed_dictionaries({}, optional={"metadata": MAPPING, "filename": TEXT, "mediaType": TEXT})
PART = st.one_of(
    TEXT.map(lambda text: {"text": text}),
    TEXT.map(lambda text: {"text": text}),
    st.tuples(
        st.one_of(
            TEXT.map(lambda text: {"text": text}),
            JSON.map(lambda value: {"data": value}),
            st.binary(max_size=9).map(lambda raw: {"raw": raw}),
            st.binary(max_size=9).map(lambda raw: {"raw": base64.b64encode(raw).decode()}),
            TEXT.map(lambda text: {"url": f"https://example.org/{text}"}),
        ),
        MORE,
    ).map(lambda both: {**both[1], **both[0]}),
)
EVENT = st.builds(
    Artifact,
    parts=st.lists(PART, max_size=3),
    artifact_id=st.sampled_from(["result", "b", "ä"]),
    name=st.none() | TEXT,
    description=st.none() | TEXT,
    append=st.booleans(),
    last_chunk=st.none() | st.booleans(),
    metadata=st.none() | MAPPING,
)
#: what happens to the artifacts: an event; what has gathered is written, or could not be
STEPS = st.lists(st.one_of(EVENT, EVENT, st.sampled_from(["write", "fail"])), max_size=25)


class Model:
    """Artifacts as plain JSON; the order is that in which they began."""

    def __init__(self) -> None:
        self.artifacts: dict[str, dict[str, Any]] = {}

    def apply(self, event: dict[str, Any], *, append: bool) -> None:
        """As the official client does with an artifactUpdate: metadata adds up."""
        artifact_id = event["artifactId"]
        if not append or artifact_id not in self.artifacts:
            self.artifacts[artifact_id] = {"artifactId": artifact_id, "parts": []}
        held = self.artifacts[artifact_id]
        metadata = {**held.get("metadata", {}), **event.get("metadata", {})}
        held.update({key: value for key, value in event.items() if key != "parts"})
        if "metadata" in held:
            held["metadata"] = metadata
        for part in event["parts"]:
            if set(part) == {"text"} and held["parts"] and set(held["parts"][-1]) == {"text"}:
                held["parts"][-1] = {"text": held["parts"][-1]["text"] + part["text"]}
            else:
                held["parts"].append(part)

    def yielded(self, event: Artifact) -> None:
        parts = [
            {**part, "raw": base64.b64encode(part["raw"]).decode()} if isinstance(part.get("raw"), bytes) else part
            for part in event.parts
        ]
        body = {"artifactId": event.artifact_id, "parts": parts or [{"text": ""}]}
        for key in ("name", "description", "metadata"):
            if getattr(event, key) is not None:
                body[key] = getattr(event, key)
        self.apply(body, append=event.append)

    @property
    def whole(self) -> list[dict[str, Any]]:
        return list(self.artifacts.values())


class Written:
    """What the store does with segments."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    def take(self, segments: list[Segment]) -> None:
        for segment in segments:
            if segment.replace:
                self.segments = [held for held in self.segments if held.artifact_id != segment.artifact_id]
            self.segments.append(segment)
        assert [segment.seq for segment in self.segments] == sorted({segment.seq for segment in self.segments})


def whole(artifacts: Artifacts) -> list[Any]:
    return [json.loads(artifact) for artifact in artifacts.encode()]


def run(steps: list[Any], written: Written) -> tuple[Artifacts, Model, Model]:
    """The artifacts, what they should be, and what a client has made of the frames."""
    artifacts, model, client = Artifacts(), Model(), Model()
    for step in steps:
        if step == "write":
            written.take(artifacts.take_pending())
            assert artifacts.pending_bytes == 0
        elif step == "fail":
            artifacts.give_back(artifacts.take_pending())
        else:
            model.yielded(step)
            frame = artifacts.apply(step, ROW, frame=True)
            assert frame is not None
            update = json.loads(frame)["artifactUpdate"]
            assert (update["taskId"], update["contextId"]) == ("t", "c")
            assert update.get("lastChunk") == step.last_chunk
            assert update["artifact"]["parts"], "the wire wants a part"
            client.apply(update["artifact"], append=update["append"])
    return artifacts, model, client


@settings(max_examples=200, deadline=None, derandomize=True)
@given(STEPS)
def test_artifacts_are_what_was_yielded_whatever_the_order(steps: list[Any]) -> None:
    artifacts, model, _ = run(steps, Written())

    assert whole(artifacts) == model.whole


@settings(max_examples=200, deadline=None, derandomize=True)
@given(STEPS)
def test_a_client_that_applies_the_updates_has_the_same_artifacts(steps: list[Any]) -> None:
    artifacts, _, client = run(steps, Written())

    assert client.whole == whole(artifacts)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(STEPS)
def test_what_is_written_at_any_moment_gives_the_same_artifacts_again(steps: list[Any]) -> None:
    written = Written()
    artifacts, _, _ = run(steps, written)
    written.take(artifacts.take_pending())

    again = Artifacts.from_segments(written.segments)

    assert whole(again) == whole(artifacts)
    assert again.encode() == [bytes(held) for held in stored_view(StoredTask(ROW, (), written.segments)).artifacts]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(STEPS, STEPS)
def test_artifacts_read_from_the_store_go_on_as_if_nothing_had_been(before: list[Any], after: list[Any]) -> None:
    written, at_once = Written(), Written()
    first, _, _ = run(before, written)
    written.take(first.take_pending())
    second = Artifacts.from_segments(written.segments)
    for step in after:
        if step == "write":
            written.take(second.take_pending())
        elif step == "fail":
            second.give_back(second.take_pending())
        else:
            second.apply(step, ROW, frame=False)
    written.take(second.take_pending())
    expected, _, _ = run(before + after, at_once)

    assert whole(second) == whole(expected)
    assert whole(Artifacts.from_segments(written.segments)) == whole(expected)


def test_an_artifact_that_is_replaced_keeps_its_place_when_it_is_read_again() -> None:
    written = Written()
    artifacts = Artifacts()
    for artifact_id in ("a", "b", "a"):
        artifacts.apply(Artifact([{"text": artifact_id}], artifact_id=artifact_id), ROW, frame=False)
        written.take(artifacts.take_pending())

    assert [artifact["artifactId"] for artifact in whole(artifacts)] == ["a", "b"]
    assert whole(Artifacts.from_segments(written.segments)) == whole(artifacts)


def test_what_replaced_another_is_appended_to_once_it_is_read_again() -> None:
    literal = [
        Segment(0, 0, "a", replace=True, head=None, parts=b'[{"text":"old"}]'),
        Segment(1, 0, "a", replace=True, head=None, parts=b'[{"text":"new"}]'),
    ]
    artifacts = Artifacts.from_segments(literal)
    artifacts.apply(Artifact([{"text": " tail"}], artifact_id="a", append=True), ROW, frame=False)
    literal += artifacts.take_pending()

    assert whole(Artifacts.from_segments(literal)) == [{"artifactId": "a", "parts": [{"text": "new tail"}]}]


def test_an_id_may_be_any_string_an_enum_s_member_too() -> None:
    class Name(StrEnum):
        RESULT = "result"

    artifacts = Artifacts()
    for number, text in enumerate(("one", " two", " three")):
        artifacts.apply(Artifact([{"text": text}], artifact_id=Name.RESULT, append=number > 0), ROW, frame=False)

    assert whole(artifacts) == [{"artifactId": "result", "parts": [{"text": "one two three"}]}]


def test_each_artifact_has_an_append_flag_of_its_own() -> None:
    artifacts = Artifacts()
    updates = [
        json.loads(artifacts.apply(Artifact([{"text": "x"}], artifact_id=name, append=True), ROW, frame=True) or b"")
        for name in ("a", "b", "a", "b")
    ]

    assert [update["artifactUpdate"]["append"] for update in updates] == [False, False, True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": [{"text": "a", "url": "b"}]},
        {"parts": [{"text": "ok"}, {}]},
        {"parts": [{"text": "a", "kind": "text"}]},
        {"parts": "text"},
        {"parts": [{"text": 1}]},
        {"parts": [{"text": "\ud83d"}]},
        {"parts": [{"data": 2**64}]},
        {"parts": [{"data": {1, 2}}]},
        {"parts": [{"raw": "!"}]},
        {"parts": [{"text": "a"}], "artifact_id": ""},
        {"parts": [{"text": "a"}], "name": 1},
        {"parts": [{"text": "a"}], "description": "\ud83d"},
        {"parts": [{"text": "a"}], "metadata": [1]},
        {"parts": [{"text": "a"}], "metadata": {"x": {1}}},
    ],
)
def test_what_is_no_valid_artifact_is_refused_and_changes_nothing(wrong: dict[str, Any]) -> None:
    artifacts = Artifacts()
    artifacts.apply(Artifact([{"text": "kept"}]), ROW, frame=False)

    with pytest.raises(InvalidOutput):
        artifacts.apply(Artifact(**wrong), ROW, frame=False)

    assert whole(artifacts) == [{"artifactId": "result", "parts": [{"text": "kept"}]}]
    assert [segment.artifact_id for segment in artifacts.take_pending()] == ["result"]
