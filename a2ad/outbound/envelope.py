"""JSON-RPC as remotes answer it (A2A 1.0.1, 9): the result, or why there is none."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson

from a2ad.errors import ParseError, RemoteInvalid, RemoteRefused
from a2ad.outbound.net import REFUSAL_BYTES, Response, check_available, origin_of
from a2ad.outbound.text import QUOTED, line
from a2ad.schemas.text import check_depth, loads

#: arrays and objects of an answer: reading it must not hold up the others for long
MAX_CONTAINERS = 100_000


async def check_status(response: Response) -> None:
    """Raises `RemoteAway` for 429 and 5xx, `RemoteRefused` for everything else that is no success."""
    status = response.status
    if 200 <= status < 300:
        return
    origin = origin_of(str(response.url))
    check_available(response)
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > REFUSAL_BYTES:
            break
    try:
        answer = orjson.loads(body)
        said = answer["error"]["message"] if isinstance(answer["error"], dict) else answer["error"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        said = ""
    words = f": {line(said, QUOTED)}" if isinstance(said, str) and said else ""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    raise RemoteRefused(f"{origin} refuses with HTTP {status} {phrase}".rstrip() + words, status=status)


def is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def read_envelope(body: bytes, call_id: int) -> Any:
    """The `result` of a JSON-RPC response. Raises `RemoteRefused` for its error, `RemoteInvalid` for anything else."""
    try:
        envelope = loads(body, MAX_CONTAINERS)
        check_depth(envelope)
    except ParseError as error:
        raise RemoteInvalid(f"the agent's answer is not valid JSON ({error})") from None
    if not isinstance(envelope, dict) or ("result" in envelope) == ("error" in envelope):
        raise RemoteInvalid("the agent's answer is no JSON-RPC response")
    refusal = envelope.get("error")
    # some write the number as a string
    if str(envelope.get("id")) != str(call_id) and not ("error" in envelope and envelope.get("id") is None):
        raise RemoteInvalid("the agent's answer is one to another request")
    if "result" in envelope:
        return envelope["result"]
    if not isinstance(refusal, dict):
        raise RemoteInvalid("the agent's error is no JSON-RPC error")
    said, details = refusal.get("message"), refusal.get("data")
    reasons = [each.get("reason") for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    reason = next((each for each in reasons if isinstance(each, str)), "")
    text = line(said, QUOTED) if isinstance(said, str) and said else "no reason given"
    raise RemoteRefused(f"{text} ({line(str(refusal.get('code')), QUOTED)})", reason=reason)
