"""The control API's actions and page parameters (reference 1.2; `protocol.md` 7), on marshmallow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from marshmallow import EXCLUDE, RAISE, Schema, ValidationError, fields, missing, validate, validates_schema

from a2ad.errors import ActionFailed
from a2ad.model import TaskState

_FILLED = validate.Length(min=1, max=10_000, error="must not be empty, nor longer than {max} characters")


_VARIABLE = validate.Regexp(r"([A-Za-z_][A-Za-z0-9_.-]{0,255})?\Z", error="must be the name of a variable")


class Action(Schema):
    """Unknown fields are ignored, as everywhere on the wire. Of the fields in `one_of` exactly one is needed."""

    one_of: ClassVar[tuple[str, ...]] = ()

    @validates_schema(skip_on_field_errors=True)
    def _one(self, data: dict[str, Any], **_: Any) -> None:
        if self.one_of and sum(name in data for name in self.one_of) != 1:
            first, *others = self.one_of
            raise ValidationError(f"must be given, or {' or '.join(others)} instead; not both", first)

    class Meta:
        unknown = EXCLUDE

    error_messages = {"type": "must be an object"}  # noqa: RUF012 - marshmallow's own way


class _Text(fields.String):
    default_error_messages = {"required": "is required", "null": "must be a string", "invalid": "must be a string"}  # noqa: RUF012


class _Flag(fields.Boolean):
    default_error_messages = {"null": "must be true or false", "invalid": "must be true or false"}  # noqa: RUF012

    def _deserialize(self, value: Any, *_args: Any, **_more: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


class _Id(Action):
    id = _Text(required=True, validate=_FILLED)


class _InboundFields(Action):
    endpoint_path = _Text(data_key="endpointPath")
    preset = _Text(validate=_FILLED)
    auth_token_env = _Text(data_key="authTokenEnv", validate=_VARIABLE)


class _InboundCreate(_InboundFields):
    name = _Text(required=True, validate=_FILLED)
    description = _Text(required=True, validate=_FILLED)
    version = _Text(required=True, validate=_FILLED)
    enabled = _Flag()


class _InboundUpdate(_Id, _InboundFields):
    name = _Text(validate=_FILLED)
    description = _Text(validate=_FILLED)
    version = _Text(validate=_FILLED)


class _SetAuth(_Id):
    token = _Text(allow_none=True, validate=validate.Length(max=4096))


class _SendTest(_Id):
    text = _Text(required=True, validate=_FILLED)
    context_id = _Text(data_key="contextId", validate=_FILLED)
    task_id = _Text(data_key="taskId", validate=_FILLED)
    skill = _Text()
    return_immediately = _Flag(data_key="returnImmediately")


class _Context(_Id):
    server_id = _Text(data_key="serverId", validate=_FILLED)


class _Skills(fields.List[str]):
    default_error_messages = {"invalid": "must be an array of strings", "null": "must be an array of strings"}  # noqa: RUF012

    def __init__(self, **more: Any) -> None:
        super().__init__(_Text(), validate=validate.Length(max=1000), **more)

    def _deserialize(self, value: Any, *args: Any, **more: Any) -> Any:
        return tuple(dict.fromkeys(super()._deserialize(value, *args, **more)))


class Override(Schema):
    class Meta:
        unknown = RAISE

    error_messages = {"type": "must be an object", "unknown": "is neither name nor description"}  # noqa: RUF012
    name = _Text(validate=validate.Length(min=1, max=200))
    description = _Text(validate=validate.Length(max=1000))


class _Milliseconds(fields.Integer):
    default_error_messages = {"invalid": "must be a whole number", "null": "must be a whole number"}  # noqa: RUF012

    def __init__(self, **more: Any) -> None:
        super().__init__(strict=True, validate=validate.Range(1, 86_400_000, error="must be {min} to {max}"), **more)

    def _deserialize(self, value: Any, *args: Any, **more: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.make_error("invalid", input=value)
        return super()._deserialize(value, *args, **more)


class _OutboundFields(Action):
    bearer_token_env = _Text(data_key="bearerTokenEnv", validate=_VARIABLE)
    preset = _Text()
    timeout_ms = _Milliseconds(data_key="timeoutMs")
    disabled_skills = _Skills(data_key="disabledSkills")
    skill_overrides = fields.Dict(
        keys=fields.String(validate=validate.Length(max=1000)),
        values=fields.Nested(Override),
        data_key="skillOverrides",
        validate=validate.Length(max=1000),
        error_messages={"invalid": "must be an object", "null": "must be an object"},
    )
    token_origins = _Skills(data_key="tokenOrigins")


class _OutboundCreate(_OutboundFields):
    name = _Text(required=True, validate=_FILLED)
    agent_card_url = _Text(data_key="agentCardUrl", required=True, validate=_FILLED)
    enabled = _Flag()


class Fixed(fields.Field[Any]):
    """What stands and cannot be changed; `how` says what to do instead."""

    def __init__(self, how: str, **more: Any) -> None:
        super().__init__(**more)
        self._how = how

    def deserialize(self, value: Any, *_args: Any, **_more: Any) -> Any:
        if value is missing:
            return value
        raise ValidationError(f"cannot be changed: {self._how}")


class _OutboundUpdate(_Id, _OutboundFields):
    name = _Text(validate=_FILLED)
    agent_card_url = Fixed("remove the connection and create another one", data_key="agentCardUrl")
    enabled = Fixed("that is outbound.enable and outbound.disable")


class _Discover(Action):
    agent_card_url = _Text(data_key="agentCardUrl", required=True, validate=_FILLED)
    token = _Text(allow_none=True, validate=validate.Length(max=4096))


class _Call(_Id):
    text = _Text(
        required=True,
        validate=validate.Length(1, 1_000_000, error="must not be empty, nor longer than {max} characters"),
    )
    skill = _Text()
    context_id = _Text(data_key="contextId", validate=_FILLED)
    task_id = _Text(data_key="taskId", validate=_FILLED)
    # who calls, where it is not the operator: an agent's session, or a process that names itself
    session = _Text(validate=_FILLED)
    caller = _Text(validate=_FILLED)


class _Answer(_Id):
    one_of = ("text", "option")
    text = _Text(validate=validate.Length(1, 1_000_000, error="must not be empty, nor longer than {max} characters"))
    option = _Text(validate=_FILLED)


ACTIONS: dict[str, Action] = {
    "inbound.create": _InboundCreate(),
    "inbound.update": _InboundUpdate(),
    "inbound.remove": _Id(),
    "inbound.enable": _Id(),
    "inbound.disable": _Id(),
    "inbound.setAuth": _SetAuth(),
    "inbound.sendTest": _SendTest(),
    "inbound.close": _Id(),
    "outbound.create": _OutboundCreate(),
    "outbound.update": _OutboundUpdate(),
    "outbound.remove": _Id(),
    "outbound.enable": _Id(),
    "outbound.disable": _Id(),
    "outbound.refresh": _Id(),
    "outbound.setAuth": _SetAuth(),
    "outbound.discover": _Discover(),
    "outbound.call": _Call(),
    "task.answer": _Answer(),
    "task.cancel": _Id(),
    "session.cancel": _Context(),
    "session.close": _Context(),
}


def read_action(body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The action's name and its fields, snake_case. Raises `ActionFailed` that names every field that is wrong."""
    action = body.get("action")
    if not isinstance(action, str) or not action:
        raise ActionFailed("action is required", {"action": ["is required"]})
    schema = ACTIONS.get(action)
    if schema is None:
        text = f"there is no action {action[:100]!r}"
        raise ActionFailed(text, {"action": [text]})
    try:
        loaded: dict[str, Any] = schema.load(body)
    except ValidationError as error:
        raise _failure(error) from None
    return action, loaded


class _Whole(fields.Integer):
    default_error_messages = {"invalid": "must be a whole number"}  # noqa: RUF012

    def _deserialize(self, value: Any, attr: Any, data: Any, **more: Any) -> int:
        if not (isinstance(value, str) and value.isascii() and value.isdecimal()):
            raise self.make_error("invalid", input=value)
        return int(super()._deserialize(value, attr, data, **more))


class Page(Action):
    """Which tasks of the snapshot."""

    task_limit = _Whole(data_key="taskLimit", load_default=50, validate=validate.Range(1, 500))
    task_offset = _Whole(data_key="taskOffset", load_default=0, validate=validate.Range(0, 2**31))
    task_state = fields.String(data_key="taskState", validate=validate.OneOf([state.value for state in TaskState]))
    task_context_id = fields.String(data_key="taskContextId")
    task_server_id = fields.String(data_key="taskServerId")


_page = Page()


def read_query(query: Mapping[str, str]) -> dict[str, Any]:
    """The task page's parameters. Raises `ActionFailed`, which is a 400 here."""
    try:
        loaded: dict[str, Any] = _page.load({key: value for key, value in query.items() if value != ""})
    except ValidationError as error:
        raise _failure(error) from None
    return loaded


def _failure(error: ValidationError) -> ActionFailed:
    problems = dict(_flat(error.messages_dict, ""))
    return ActionFailed(
        "; ".join(f"{field} {' and '.join(map(str, texts))}" for field, texts in problems.items()), problems
    )


def _flat(problems: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, list[str]]]:
    """Marshmallow nests the problems as the fields are nested; here each has the path of its field."""
    for key, found in problems.items():
        if isinstance(key, int):
            path = f"{prefix}[{key}]"
        elif prefix and key in {"key", "value", "_schema"}:  # of a Dict's entry, of an object as a whole
            path = prefix
        else:
            path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(found, Mapping):
            yield from _flat(found, path)
        else:
            yield path, list(found)
