"""Fields of the schemas that describe answers."""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, Schema, fields, validate

from a2ad.model import TaskState


class Row(Schema):
    class Meta:
        unknown = EXCLUDE


def text(**more: Any) -> fields.String:
    return fields.String(required=True, **more)


def maybe(description: str = "", **more: Any) -> fields.String:
    return fields.String(metadata={"description": description} if description else {}, **more)


def flag(**more: Any) -> fields.Boolean:
    return fields.Boolean(required=True, **more)


def count(**more: Any) -> fields.Integer:
    return fields.Integer(required=True, validate=validate.Range(min=0), **more)


def counts(description: str = "", **more: Any) -> fields.Dict:
    metadata = {"description": description} if description else {}
    return fields.Dict(keys=fields.String(), values=count(), required=True, metadata=metadata, **more)


def time(**more: Any) -> fields.DateTime:
    return fields.DateTime(**{"required": True, **more})


def one_of(*values: str) -> fields.String:
    return text(validate=validate.OneOf(values))


def list_of(of: type[Schema] | fields.Field[Any], **more: Any) -> fields.List[Any]:
    item = of if isinstance(of, fields.Field) else fields.Nested(of)
    return fields.List(item, **{"required": True, **more})


def one(of: type[Schema], **more: Any) -> fields.Nested:
    return fields.Nested(of, **{"required": True, **more})


def any_object(**more: Any) -> fields.Dict:
    return fields.Dict(**{"required": True, **more})


def state() -> fields.String:
    return one_of(*(state.value for state in TaskState))
