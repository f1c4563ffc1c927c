"""All that is wrong with the parameters of a call is told at once, each with its path (`protocol.md` 2.9).

And a message that was sent before gives its task, whatever else is wrong with it beyond its form (`protocol.md` 3).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import Lab, error, result, script, violations

FILE = {"raw": "YQ=="}
TOO_LARGE = {"raw": "YWFhYWFhYWFhYWFhYWFhYQ=="}
LIMITS = "[limits]\nattachments = 3\nattachment_bytes = 10\n"
SEND, STREAM = "SendMessage", "SendStreamingMessage"
#: more than this is read in a thread, in bytes (a2ad/web/a2a.py)
LARGE = 1 << 17


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    started = Lab(tmp_path_factory.mktemp("violations"), config=LIMITS)
    yield started
    assert started.terminate() == 0


@pytest.fixture(scope="module")
def asking(lab: Lab) -> str:
    """A task that waits for an answer."""
    return str(result(lab.ask_for(["ask", "well?"]))["task"]["id"])


def wrong(parts: list[Any], skill: Any = "nope", configuration: Any = None, **more: Any) -> dict[str, Any]:
    message = {"role": "ROLE_USER", "parts": parts, "metadata": {"skill": skill}, **more}
    return {"message": message, **({} if configuration is None else {"configuration": configuration})}


SKILL = "message.metadata.skill"
MESSAGES: list[tuple[dict[str, Any], list[str]]] = [
    (wrong([{"text": 5}], configuration={"historyLength": -1}),
     ["message.parts[0].text", "configuration.historyLength", SKILL]),
    (wrong([{"text": "x"}], configuration={"historyLength": -1, "acceptedOutputModes": ["image/png"]}),
     ["configuration.historyLength", SKILL]),
    (wrong([FILE] * 5), ["message.parts[3]", "message.parts[4]", SKILL]),
    (wrong([FILE] * 5, ""), ["message.parts[3]", "message.parts[4]", SKILL]),
    (wrong([TOO_LARGE, FILE, TOO_LARGE]), ["message.parts[0].raw", "message.parts[2].raw", SKILL]),
    (wrong([TOO_LARGE, FILE, FILE, TOO_LARGE]),
     ["message.parts[3]", "message.parts[0].raw", "message.parts[3].raw", SKILL]),
    (wrong([TOO_LARGE, {"text": 5}, {"raw": "!"}, {"url": "u", "text": "t"}, {}]),
     ["message.parts[1].text", "message.parts[2].raw", "message.parts[3]", "message.parts[4]", "message.parts[0].raw",
      SKILL]),
    (wrong([TOO_LARGE], 5), ["message.parts[0].raw", SKILL]),
    (wrong([TOO_LARGE], "script", role="ROLE_AGENT"), ["message.role", "message.parts[0].raw"]),
    (wrong([FILE] * 4, "script", messageId=5, referenceTaskIds="x"),
     ["message.messageId", "message.referenceTaskIds", "message.parts[3]"]),
    # the skill of an answer is not asked for: its task has one
    (wrong([FILE] * 4, taskId="x", role="x"), ["message.role", "message.parts[3]"]),
    # what cannot be read at all leaves the rest to be told
    ({"message": 5, "configuration": {"historyLength": -1}}, ["message", "configuration.historyLength"]),
    ({"message": {"role": 5, "metadata": 5, "parts": 5}},
     ["message.role", "message.metadata", "message.parts"]),
    ({"message": {"role": "ROLE_USER", "metadata": {"skill": "nope"}}}, ["message.parts", SKILL]),
    ({"message": {"role": "ROLE_USER", "metadata": {"skill": "nope"}, "parts": []}}, ["message.parts", SKILL]),
]  # fmt: skip


@pytest.mark.parametrize("method", [SEND, STREAM])
@pytest.mark.parametrize(("params", "fields"), MESSAGES)
def test_all_that_is_wrong_with_a_message_is_told_at_once(
    lab: Lab, method: str, params: dict[str, Any], fields: list[str]
) -> None:
    assert sorted(violations(lab.rpc(lab.agent, method, params))) == sorted(fields)
    assert lab.listed()["totalSize"] == lab.noted("run"), "nothing is recorded"


def test_all_that_is_wrong_with_a_large_message_is_told_at_once(lab: Lab) -> None:
    params = wrong([{"text": "x" * LARGE}, {"text": 5}, TOO_LARGE, *[FILE] * 3], configuration={"historyLength": -1})
    assert sorted(violations(lab.rpc(lab.agent, SEND, params))) == sorted(
        ["message.parts[1].text", "message.parts[2].raw", "message.parts[5]", "configuration.historyLength", SKILL]
    )


@pytest.mark.parametrize("method", [SEND, STREAM])
def test_all_that_is_wrong_with_an_answer_is_told_at_once(lab: Lab, asking: str, method: str) -> None:
    before = lab.get(asking)
    params = wrong([FILE] * 3 + [TOO_LARGE], taskId=asking, contextId="of another")
    assert sorted(violations(lab.rpc(lab.agent, method, params))) == sorted(
        ["message.contextId", "message.parts[3]", "message.parts[3].raw"]
    )
    assert lab.get(asking) == before


@pytest.mark.parametrize(
    ("params", "fields"),
    [
        (
            {"pageSize": 0, "status": "x", "statusTimestampAfter": "x", "historyLength": -1, "pageToken": "zz",
             "includeArtifacts": 5, "contextId": 5, "tenant": 5},
            ["pageSize", "status", "statusTimestampAfter", "historyLength", "includeArtifacts", "contextId", "tenant"],
        ),
        ({"pageSize": 101, "pageToken": "zz"}, ["pageSize", "pageToken"]),
        ({"historyLength": -1, "pageToken": "zz"}, ["historyLength", "pageToken"]),
        ({"includeArtifacts": "true", "pageToken": 5, "pageSize": "1.5"},
         ["includeArtifacts", "pageToken", "pageSize"]),
        ({"pageToken": "zz"}, ["pageToken"]),
    ],
)  # fmt: skip
def test_all_that_is_wrong_with_a_page_is_told_at_once(lab: Lab, params: dict[str, Any], fields: list[str]) -> None:
    assert sorted(violations(lab.rpc(lab.agent, "ListTasks", params))) == sorted(fields)


def test_a_page_token_of_this_server_is_not_among_what_is_wrong(lab: Lab) -> None:
    for _ in range(2):
        result(lab.ask_for(["text", "x"], contextId="paged"))
    token = lab.listed(pageSize=1, contextId="paged")["nextPageToken"]
    assert token

    def told(**params: Any) -> list[str]:
        return violations(lab.rpc(lab.agent, "ListTasks", {"pageSize": 0, "pageToken": token, **params}))

    assert told(contextId="paged") == ["pageSize"]
    assert sorted(told(contextId="other")) == ["pageSize", "pageToken"]


@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask"])
def test_all_that_is_wrong_with_a_task_that_is_asked_for_is_told_at_once(lab: Lab, method: str) -> None:
    length = ["historyLength"] if method == "GetTask" else []
    assert sorted(violations(lab.rpc(lab.agent, method, {"tenant": 5, "historyLength": -1}))) == sorted(
        ["id", "tenant", *length]
    )


# a message that was sent before

AGAIN: list[dict[str, Any]] = [
    wrong([{"text": "x"}]),
    wrong([{"text": "x"}], 5),
    wrong([FILE] * 5),
    wrong([TOO_LARGE] * 5),
    wrong([FILE] * 5, "script"),
    wrong([TOO_LARGE] * 5, "script", taskId="no such task"),
    wrong([{"text": "x"}], "script", taskId="no such task", contextId="nor such a context"),
    wrong([FILE] * 5, "script", contextId="another"),
]


@pytest.mark.parametrize("params", AGAIN)
def test_a_repeated_message_gives_its_task_whatever_is_wrong_with_it(lab: Lab, params: dict[str, Any]) -> None:
    first = result(lab.rpc(lab.agent, SEND, script(["text", "once"], messageId="before")))["task"]
    params = {**params, "message": {**params["message"], "messageId": "before"}}

    assert result(lab.rpc(lab.agent, SEND, params))["task"] == first
    assert [frame for _, frame in lab.collect(STREAM, params)] == [{"task": first}]
    assert lab.noted("run", first["id"]) == 1


@pytest.mark.parametrize("answers", [False, True])
def test_a_repeated_answer_gives_its_task_whatever_is_wrong_with_it(lab: Lab, *, answers: bool) -> None:
    asked = result(lab.ask_for(["ask", "well?"]))["task"]
    answer = f"answer {answers}"
    first = result(lab.ask_for(text="red", taskId=asked["id"], messageId=answer))["task"]
    params = wrong(
        [TOO_LARGE] * 5, messageId=answer, contextId="another", **({"taskId": asked["id"]} if answers else {})
    )

    assert result(lab.rpc(lab.agent, SEND, params))["task"] == first


def test_a_repeated_message_whose_form_is_wrong_is_told_so(lab: Lab) -> None:
    result(lab.rpc(lab.agent, SEND, script(["text", "once"], messageId="form")))
    again = wrong([{"text": 5}], messageId="form", configuration={"historyLength": -1})

    answer = lab.rpc(lab.agent, SEND, again)

    assert error(answer) == (-32602, "INVALID_PARAMS")
    assert sorted(violations(answer)) == ["configuration.historyLength", SKILL, "message.parts[0].text"]
