"""The parameters of the A2A methods (A2A 1.0.1, a2a.proto), read as ProtoJSON is (`protocol.md` 2.9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from a2ad.errors import InvalidParams
from a2ad.model import STATE_NUMBERS, TaskState
from a2ad.schemas.protojson import (
    Fields,
    Violations,
    any_value,
    base64_bytes,
    boolean,
    enum,
    identifier,
    int32,
    repeated,
    string,
    struct,
)

DEFAULT_PAGE, MAX_PAGE = 50, 100
_FILTERS = frozenset({"contextId", "status", "statusTimestampAfter", "pageToken"})
#: of one message
MAX_PARTS = 5000
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)",
)


@dataclass(slots=True)
class SendMessageParams:
    """`message` has the known fields only, `parts[].raw` as bytes; ids that were empty or absent are None."""

    message: dict[str, Any]
    message_id: str | None
    context_id: str | None
    task_id: str | None
    skill: Any
    accepted_output_modes: tuple[str, ...]
    history_length: int | None
    return_immediately: bool
    wants_push: bool


@dataclass(frozen=True, slots=True)
class GetTaskParams:
    id: str
    history_length: int | None


@dataclass(frozen=True, slots=True)
class ListTasksParams:
    """`after` is in milliseconds since 1970, inclusive."""

    context_id: str | None
    state: TaskState | None
    page_size: int
    page_token: str
    history_length: int | None
    after: int | None
    include_artifacts: bool


@dataclass(frozen=True, slots=True)
class TaskIdParams:
    id: str


Params: TypeAlias = Mapping[str, Any]
_NOTHING: Mapping[str, Any] = {}


def _timestamp(value: Any, path: str, violations: Violations) -> int:
    """RFC 3339 with any offset, to milliseconds since 1970, rounded up."""
    match = _RFC3339.fullmatch(string(value, path, violations))
    try:
        if match is None:
            raise ValueError
        date, clock, fraction, zone = match.groups()
        moment = datetime.fromisoformat(f"{date}T{clock}{'+00:00' if zone in 'Zz' else zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        violations.append((path, "must be an RFC 3339 timestamp, such as 2026-12-01T09:30:00Z"))
        return 0
    nanos = int((fraction or "").ljust(9, "0"))
    return int(moment.timestamp()) * 1000 - (-nanos // 1_000_000)


def _history_length(value: Any, path: str, violations: Violations) -> int:
    length = int32(value, path, violations)
    if length < 0:
        violations.append((path, "must not be negative"))
    return length


_part_fields = Fields(
    {
        "text": string,
        "raw": base64_bytes,
        "url": string,
        "data": any_value,
        "metadata": struct,
        "filename": string,
        "mediaType": string,
    },
    keep_null=("data",),
)


def read_part(value: Any, path: str, violations: Violations) -> dict[str, Any]:
    """One part: exactly one of text, raw, url and data."""
    part = _part_fields(value, path, violations)
    if type(value) is dict and ("text" in part) + ("raw" in part) + ("url" in part) + ("data" in part) != 1:
        violations.append((path, "must have exactly one of text, raw, url and data"))
    return part


_role = enum({"ROLE_USER": "ROLE_USER", "ROLE_AGENT": "ROLE_AGENT"}, {1: "ROLE_USER", 2: "ROLE_AGENT"}, "ROLE_USER")


def _user_role(value: Any, path: str, violations: Violations) -> Any:
    role = _role(value, path, violations)
    if role == "ROLE_AGENT":
        violations.append((path, "must be ROLE_USER"))
    return role


_message_fields = Fields(
    {
        "messageId": identifier,
        "contextId": identifier,
        "taskId": identifier,
        "role": _user_role,
        "parts": repeated(read_part, MAX_PARTS),
        "metadata": struct,
        "extensions": repeated(string),
        "referenceTaskIds": repeated(identifier),
    },
    required=("role", "parts"),
)


def _message(value: Any, path: str, violations: Violations) -> dict[str, Any]:
    message = _message_fields(value, path, violations)
    if isinstance(value, dict) and value.get("parts") == []:
        violations.append((f"{path}.parts", "must have at least one part"))
    return message


_configuration = Fields(
    {
        "acceptedOutputModes": repeated(string),
        "historyLength": _history_length,
        "returnImmediately": boolean,
        "taskPushNotificationConfig": struct,
    }
)
_send = Fields(
    {"tenant": string, "message": _message, "configuration": _configuration, "metadata": struct}, required=("message",)
)
_get = Fields({"tenant": string, "id": identifier, "historyLength": _history_length})
_task_id = Fields({"tenant": string, "id": identifier, "metadata": struct})
_list = Fields(
    {
        "tenant": string,
        "contextId": identifier,
        "status": enum(
            {"TASK_STATE_UNSPECIFIED": "", **{state.value: state for state in TaskState}},
            {0: "", **STATE_NUMBERS},
            "a task state, such as TASK_STATE_COMPLETED",
        ),
        "pageSize": int32,
        "pageToken": string,
        "historyLength": _history_length,
        "statusTimestampAfter": _timestamp,
        "includeArtifacts": boolean,
    }
)


def send_message(params: Params, further: Callable[[dict[str, Any]], Violations] | None = None) -> SendMessageParams:
    """Parameters of SendMessage and SendStreamingMessage. Raises `InvalidParams` with all violations.

    `further` is asked what else is wrong with the message, where something is: as far as it could be read.
    """
    violations: Violations = []
    found = _send(params, "", violations)
    if violations:
        raise InvalidParams(violations + (further(found.get("message", {})) if further is not None else []))
    message = found["message"]
    configuration = found.get("configuration", _NOTHING)
    metadata = message.get("metadata", _NOTHING)
    return SendMessageParams(
        message=message,
        message_id=message.get("messageId") or None,
        context_id=message.get("contextId") or None,
        task_id=message.get("taskId") or None,
        skill=metadata.get("skill"),
        accepted_output_modes=tuple(configuration.get("acceptedOutputModes", ())),
        history_length=configuration.get("historyLength"),
        return_immediately=configuration.get("returnImmediately", False),
        wants_push="taskPushNotificationConfig" in configuration,
    )


def _required_id(fields: Fields, params: Params) -> dict[str, Any]:
    violations: Violations = []
    found = fields(params, "", violations)
    if not found.get("id") and not any(field == "id" for field, _ in violations):
        violations.append(("id", "is required"))
    if violations:
        raise InvalidParams(violations)
    return found


def get_task(params: Params) -> GetTaskParams:
    found = _required_id(_get, params)
    return GetTaskParams(id=found["id"], history_length=found.get("historyLength"))


def task_id(params: Params) -> TaskIdParams:
    """Parameters of CancelTask and SubscribeToTask."""
    return TaskIdParams(id=_required_id(_task_id, params)["id"])


def list_tasks(params: Params, further: Callable[[ListTasksParams], Violations] | None = None) -> ListTasksParams:
    """`further` is asked what else is wrong, where something is, but not with the filters."""
    violations: Violations = []
    found = _list(params, "", violations)
    page_size = found.get("pageSize", DEFAULT_PAGE)
    if not 1 <= page_size <= MAX_PAGE and not any(field == "pageSize" for field, _ in violations):
        violations.append(("pageSize", f"must be 1 to {MAX_PAGE}"))
    wanted = ListTasksParams(
        context_id=found.get("contextId") or None,
        state=found.get("status") or None,
        page_size=page_size,
        page_token=found.get("pageToken", ""),
        history_length=found.get("historyLength"),
        after=found.get("statusTimestampAfter"),
        include_artifacts=found.get("includeArtifacts", False),
    )
    if violations:
        filters_read = _FILTERS.isdisjoint(field for field, _ in violations)
        raise InvalidParams(violations + (further(wanted) if further is not None and filters_read else []))
    return wanted
