"""The JSON-RPC 2.0 envelope (`protocol.md` 2.6): one request in, one result, error or frame out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from a2ad.engine.encode import one_line
from a2ad.errors import InvalidRequest, ProtocolError
from a2ad.schemas.text import dumps, loads

NO_ID = b"null"


class Call(NamedTuple):
    """`id` is encoded, exactly as it came."""

    id: bytes
    method: str
    params: dict[str, Any]


class Refused(Exception):
    """An envelope that is no request; `id` is the one to answer with."""

    def __init__(self, error: ProtocolError, call_id: bytes = NO_ID) -> None:
        self.error = error
        self.id = call_id


def parse(body: bytes) -> Call:
    """Raises `Refused`."""
    try:
        request = loads(body)
    except ProtocolError as error:
        raise Refused(error) from None
    if not isinstance(request, dict):
        text = "A batch of requests is not supported" if isinstance(request, list) else None
        raise Refused(InvalidRequest(text))
    call_id = request.get("id")
    if "id" not in request or isinstance(call_id, (bool, dict, list)):
        raise Refused(InvalidRequest("`id` must be a string, a number or null"))
    encoded = one_line(dumps(call_id))
    method, params = request.get("method"), request.get("params", {})
    problem = None
    if request.get("jsonrpc") != "2.0":
        problem = '`jsonrpc` must be "2.0"'
    elif not isinstance(method, str):
        problem = "`method` must be a string"
    elif not isinstance(params, dict):
        problem = "`params` must be an object"
    if problem is not None:
        raise Refused(InvalidRequest(problem), encoded)
    return Call(encoded, str(method), params)


def failure(call_id: bytes, error: ProtocolError, *, a2a_dialect: bool) -> bytes:
    envelope: Mapping[str, Any] = {
        "jsonrpc": "2.0",
        "id": orjson.Fragment(call_id),
        "error": error.to_json(a2a_dialect=a2a_dialect),
    }
    return orjson.dumps(envelope)
