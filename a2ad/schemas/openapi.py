"""The control API's description: an OpenAPI 3.1 document, made from the schemas that read its requests (`control`) and
those of its answers (`rows`). Imported when it is asked for: the daemon can do without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema, fields, validate

from a2ad import __version__
from a2ad.schemas import control, rows, wire

Json: TypeAlias = dict[str, Any]
Events: TypeAlias = Mapping[str, type[Schema]]

OPENAPI = "3.1.0"
DESCRIPTION = """What the panel and the command line use. It answers to this machine alone: a request from another
address, through a proxy, with a foreign `Host` or from another site's page is refused with 403."""
#: what any request may come to, and what some may
REFUSALS = {
    400: "What was sent cannot be read.",
    403: "The request does not come from this machine, or comes from another site.",
    404: "There is nothing of this id.",
    405: "The path answers to another method.",
    406: "`Accept` excludes all that it is answered as.",
    408: "The body did not come in time.",
    409: "The action was not done; `errors` names the fields that are wrong, if any are.",
    413: "The body is larger than `limits.body_bytes`.",
    415: "The body is not `application/json`.",
    503: "The database cannot be read just now, or the daemon is stopping.",
}
EVERYWHERE = (403, 405)
ACT_ERRORS = (400, 408, 409, 413, 415)


class _Id(Schema):
    id = fields.String(required=True)


class _SessionQuery(Schema):
    context_id = fields.String(required=True, data_key="contextId")
    server_id = fields.String(data_key="serverId")


@dataclass(frozen=True, slots=True)
class Read:
    """A GET: what it answers with, one of it or (`many`) a list, or the events of its stream by name; `texts` are
    further media types of the answer.
    """

    summary: str
    answer: type[Schema] | None = None
    many: bool = False
    events: Events = field(default_factory=dict)
    query: type[Schema] | None = None
    errors: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """An action: what it answers with once it is done, and the events of its stream by name, where there is one."""

    summary: str
    answer: type[Schema] = rows.DoneTo
    events: Events = field(default_factory=dict)


READS: dict[str, Read] = {
    "": Read("Everything there is now, with a page of the tasks", rows.Snapshot, query=control.Page, errors=(400, 503)),
    "/presets": Read("The ways to run an agent", rows.Preset, many=True),
    "/card": Read("The agent card of an inbound, as clients see it", wire.AgentCard, query=_Id, errors=(404,)),
    "/task": Read(
        "A task with its timeline, artifacts and history", rows.TaskDetail, query=_Id, errors=(404, 503)
    ),
    "/task/events": Read(
        "The frames of a task as they happen, the task as it is first, until it has ended. With `Last-Event-ID`, the"
        " status frames after that one again",
        events={"frame": wire.StreamResponse, "end": rows.Nothing}, query=_Id, errors=(404, 503),
    ),
    "/tools": Read("The tools that agents have of the outbound connections", rows.Tool, many=True),
    "/session": Read("A live session", rows.Session, query=_SessionQuery, errors=(404,)),
    "/metrics": Read(
        "Figures of the daemon; as text for Prometheus where `Accept` asks for it",
        rows.Metrics, texts=("application/openmetrics-text", "text/plain"), errors=(406,),
    ),
    "/events": Read(
        "The snapshot now and after every change; an event's id names its content, for `Last-Event-ID`",
        events={"snapshot": rows.Snapshot}, query=control.Page, errors=(400, 503),
    ),
    "/openapi.json": Read("This document", rows.Document),
}  # fmt: skip

ACTS: dict[str, Act] = {
    "inbound.create": Act("Publish an agent"),
    "inbound.update": Act("Change what is given of an inbound"),
    "inbound.remove": Act("Cancel an inbound's tasks, and delete it with them"),
    "inbound.enable": Act("Serve it"),
    "inbound.disable": Act("Take its routes away; running tasks go on"),
    "inbound.setAuth": Act("Set its bearer token; without one, or with an empty one, clear it"),
    "inbound.sendTest": Act(
        "Send a message to it as a client does, and wait for the task",
        rows.Tested,
        {"request": wire.JsonRpcRequest, "frame": wire.JsonRpcResponse, "result": rows.Tested},
    ),
    "inbound.close": Act("Close a client's connection; its task goes on", rows.Done),
    "outbound.create": Act("Connect to a remote agent"),
    "outbound.update": Act("Change what is given of a connection"),
    "outbound.remove": Act("Delete a connection"),
    "outbound.enable": Act("Connect, and offer its tools"),
    "outbound.disable": Act("Take its tools away"),
    "outbound.refresh": Act("Fetch its agent card anew"),
    "outbound.setAuth": Act("Set its bearer token; without one, or with an empty one, clear it"),
    "outbound.discover": Act("Fetch an agent card, and keep nothing of it", rows.Discovered),
    "outbound.call": Act(
        "Send a text to the remote agent, and wait for its answer; it ends with its client",
        rows.Called,
        {"progress": rows.Progress, "result": rows.Called},
    ),
    "task.answer": Act("Answer what a task asks: with a text, or with one of its options"),
    "task.cancel": Act("Stop a task, and mark it as canceled", rows.Done),
    "session.cancel": Act("Cancel the active tasks of a context", rows.Done),
    "session.close": Act("The same, and close its sessions", rows.Done),
}


def document(base: str, paths: Iterable[str]) -> Json:
    """The description of these paths below `base`, and of every action."""
    return _Description(base).of(paths)


class _Description:
    def __init__(self, base: str) -> None:
        self._base = base
        plugin: Any = MarshmallowPlugin(schema_name_resolver=_name)  # its converter has no types
        self._spec = APISpec(
            "a2ad control API",
            __version__,
            OPENAPI,
            plugins=[plugin],
            info={"description": DESCRIPTION, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        )
        self._converter = plugin.converter
        self._converter.add_attribute_function(_own_attributes)

    def of(self, paths: Iterable[str]) -> Json:
        for status, text in REFUSALS.items():
            content = _json(self._ref(rows.Failed))
            self._spec.components.response(_refusal(status), {"description": text, "content": content})
        for path in paths:
            operations = {"get": self._get(path, READS[path])}
            if not path:
                operations["post"] = self._post()
            self._spec.path(self._base + path, operations=operations)
        for key, name in self._converter.refs.items():
            self._spec.components.schemas[name] |= _described(key[0])
        found: Json = self._spec.to_dict()
        return found

    def _ref(self, schema: type[Schema]) -> Json:
        found: Json = self._converter.resolve_nested_schema(schema)
        return found

    def _get(self, path: str, read: Read) -> Json:
        parameters = [] if read.query is None else self._converter.schema2parameters(read.query, location="query")
        if read.query is control.Page:
            parameters = [{**parameter, "allowEmptyValue": True} for parameter in parameters]
        if read.events:
            parameters.append({"in": "header", "name": "Last-Event-ID", "schema": {"type": "string"}})
            content = self._stream([read.events])
        else:
            assert read.answer is not None
            answer = self._ref(read.answer)
            content = _json({"type": "array", "items": answer} if read.many else answer)
            content |= {text: {"schema": {"type": "string"}} for text in read.texts}
        return {
            "operationId": "".join(["read", *map(str.capitalize, re.findall(r"\w+", path or "snapshot"))]),
            "summary": read.summary,
            "parameters": parameters,
            "responses": {"200": {"description": read.summary, "content": content}, **_refusals(read.errors)},
        }

    def _post(self) -> Json:
        bodies = {name: self._body(name, schema, ACTS[name]) for name, schema in control.ACTIONS.items()}
        answers = {act.answer: self._ref(act.answer) for act in ACTS.values()}
        request = {"oneOf": list(bodies.values()), "discriminator": {
            "propertyName": "action", "mapping": {name: body["$ref"] for name, body in bodies.items()}}}  # fmt: skip
        content = _json({"anyOf": list(answers.values())}) | self._stream(act.events for act in ACTS.values())
        return {
            "operationId": "act",
            "summary": "Do an action",
            "description": "An action that says so is answered with a stream where `Accept` asks for"
            " `text/event-stream`; what is refused before it has begun is JSON in any case.",
            "requestBody": {"required": True, "content": _json(request)},
            "responses": {"200": {"description": "It is done.", "content": content}, **_refusals(ACT_ERRORS)},
        }

    def _body(self, action: str, schema: control.Action, act: Act) -> Json:
        body: Json = self._converter.schema2jsonschema(schema)
        body["properties"] = {"action": {"const": action}, **body["properties"]}
        body["required"] = ["action", *body.get("required", ())]
        body |= {"description": act.summary, "x-answer": self._ref(act.answer)}
        if act.events:
            body["x-events"] = self._events(act.events)
        if schema.one_of:
            body["oneOf"] = [{"required": [name]} for name in schema.one_of]
        kind, _, verb = action.partition(".")
        name = f"{kind.capitalize()}{verb[0].upper()}{verb[1:]}"
        self._spec.components.schema(name, body)
        return {"$ref": f"#/components/schemas/{name}"}

    def _stream(self, kinds: Iterable[Events]) -> Json:
        """What each event is: OpenAPI 3.1 has no words of its own for a stream, but JSON Schema for JSON in a text."""
        events = [_event(name, schema) for events in kinds for name, schema in self._events(events).items()]
        return {"text/event-stream": {"schema": {"anyOf": events, "description": "Each event of the stream."}}}

    def _events(self, events: Events) -> Json:
        """The JSON of each event's `data`, by its `event`."""
        return {name: self._ref(schema) for name, schema in events.items()}


def _event(name: str, data: Json) -> Json:
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    properties = {"event": {"const": name}, "id": {"type": "string"}, "data": text}
    return {"type": "object", "properties": properties, "required": ["event", "data"]}


def _name(schema: Schema | type[Schema]) -> str:
    return (schema if isinstance(schema, type) else type(schema)).__name__


def _described(schema: type[Schema]) -> Json:
    text = schema.__dict__.get("__doc__")
    return {"description": " ".join(text.split())} if text else {}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _refusal(status: int) -> str:
    return f"Refused{status}"


def _refusals(statuses: Iterable[int]) -> Json:
    return {str(status): _refusal(status) for status in sorted({*statuses, *EVERYWHERE})}


def _own_attributes(_: Any, one: fields.Field[Any], ret: Json) -> Json:
    """What apispec does not know of fields and validators here."""
    if isinstance(one, control.Fixed):
        return {"not": {}}
    if isinstance(one, fields.Dict):
        if "maxLength" in ret:
            ret["maxProperties"] = ret.pop("maxLength")
        longest = [each.max for each in getattr(one.key_field, "validators", ()) if isinstance(each, validate.Length)]
        return {"propertyNames": {"maxLength": longest[0]}} if longest else {}
    if "pattern" in ret:  # Python's, which is held against the beginning, in JSON Schema's words
        return {"pattern": "^" + ret["pattern"].replace(r"\Z", "$")}
    return {}
