"""Answers held against the control API's own description."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

BASE = "/a2a/api"
Json = Any


class Description:
    """The document, with every object closed that the document leaves open for later versions: what is answered now is
    what is described, and nothing else. `seen` are the properties of each schema that some answer had.
    """

    def __init__(self, document: Json) -> None:
        self.document = document
        self.schemas: dict[str, Json] = {name: _closed(it) for name, it in document["components"]["schemas"].items()}
        self.seen: defaultdict[str, set[str]] = defaultdict(set)

    def read(self, path: str) -> Json:
        """The schema of what a GET answers with."""
        return self.document["paths"][BASE + path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]

    def events(self, path: str) -> Mapping[str, Json]:
        """The schemas of a stream's events."""
        content = self.document["paths"][BASE + path]["get"]["responses"]["200"]["content"]
        kinds = [each["properties"] for each in content["text/event-stream"]["schema"]["anyOf"]]
        return {kind["event"]["const"]: kind["data"]["contentSchema"] for kind in kinds}

    def actions(self) -> Mapping[str, Json]:
        """The schemas of the requests, by action."""
        body = self.document["paths"][BASE]["post"]["requestBody"]["content"]["application/json"]["schema"]
        mapping = body["discriminator"]["mapping"]
        assert [each["$ref"] for each in body["oneOf"]] == list(mapping.values())
        return {name: self._named(reference) for name, reference in mapping.items()}

    def check(self, schema: Json, value: Any) -> None:
        """Fails where the value is not as the schema says."""
        whole = {**schema, "components": {"schemas": self.schemas}}
        errors = sorted(Draft202012Validator(whole, format_checker=FormatChecker()).iter_errors(value), key=str)
        assert not errors, (errors[0].json_path, errors[0].message, schema)
        self._see(schema, value)

    def _named(self, reference: str) -> Json:
        return self.schemas[reference.removeprefix("#/components/schemas/")]

    def _see(self, schema: Json, value: Any, name: str = "") -> None:
        if isinstance(schema, bool):
            return
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            self._see(self._named(schema["$ref"]), value, name)
            return
        for each in schema.get("anyOf", ()):
            if value is not None and each.get("type") != "null":
                self._see(each, value)
        if isinstance(value, list):
            for each in value:
                self._see(schema.get("items", {}), each)
        elif isinstance(value, dict):
            properties = schema.get("properties", {})
            self.seen[name] |= value.keys() & properties.keys()
            for key, each in value.items():
                self._see(properties.get(key, schema.get("additionalProperties", True)), each)


def _closed(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(each) for key, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
