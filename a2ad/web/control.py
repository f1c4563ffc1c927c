"""The control API, for this machine alone: reads, actions, and the stream of changes (reference 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias, cast

import orjson
import structlog
from aiohttp import hdrs, web
from aiohttp_sse import sse_response

from a2ad.audit import Audit
from a2ad.card import Card
from a2ad.config import Config
from a2ad.config.values import CONTROL_PATH
from a2ad.errors import ActionFailed, ParseError, ProtocolError, TaskNotFound
from a2ad.inbound import Inbound, InboundRegistry
from a2ad.outbound.answer import Observer
from a2ad.plugins import PluginHost
from a2ad.schemas.control import read_action, read_query
from a2ad.schemas.text import loads
from a2ad.web.actions import Actions
from a2ad.web.calls import Performed, stream, until_disconnect, wants_stream
from a2ad.web.changes import Changes
from a2ad.web.follow import Follow
from a2ad.web.guard import BodyError, control_refusal, media_type, peer_address, read_body, route_path
from a2ad.web.metrics import FORMS, Metrics, wanted_form
from a2ad.web.outbound import OutboundActions
from a2ad.web.send_test import Streamed
from a2ad.web.server import check_connected
from a2ad.web.snapshot import Snapshots

BASE = CONTROL_PATH
#: actions that leave the inbounds and outbounds as they are
NO_CHANGES = frozenset({"inbound.sendTest", "inbound.close", "outbound.call", "outbound.discover"})
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

#: what does an action, with its fields; it returns what goes beside `ok: true`, and raises `ActionFailed`
Action: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

log = structlog.get_logger()


class ControlApi:
    """`base_url(request)` is where A2A clients find the inbounds; `card_at(url, inbound)` what they see there."""

    def __init__(
        self,
        config: Config,
        *,
        actions: Actions,
        outbound: OutboundActions,
        snapshots: Snapshots,
        metrics: Metrics,
        inbounds: InboundRegistry,
        host: PluginHost,
        audit: Audit,
        base_url: Callable[[web.BaseRequest], str],
        card_at: Callable[[str, Inbound], Awaitable[Card]],
        follow: Follow,
    ) -> None:
        self._config = config
        self._tests = actions.tests
        self._follow = follow
        self._outbound = outbound
        self._actions = {**actions.by_name, **outbound.by_name}
        self._snapshots = snapshots
        self._metrics = metrics
        self._inbounds = inbounds
        self._host = host
        self._audit = audit
        self._base_url = base_url
        self._card_at = card_at
        self._changes = Changes(snapshots.snapshot)
        self._description: bytes | None = None
        self._reads: dict[str, Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]] = {
            "": self._read_snapshot,
            "/presets": self._read_presets,
            "/card": self._read_card,
            "/task": self._read_task,
            "/task/events": self._follow.task,
            "/tools": self._read_tools,
            "/session": self._read_session,
            "/metrics": self._read_metrics,
            "/events": self._read_events,
            "/openapi.json": self._read_description,
        }

    def stop(self) -> None:
        """End the streams of changes."""
        self._changes.stop()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Every request below `/a2a/api`, or of a listener of its own. Nothing gets past the guard, not to a 404."""
        refusal = control_refusal(request, self._config.server.allowed_hosts)
        if refusal is not None:
            log.warning("control.refused", source=peer_address(request), path=request.path, reason=refusal)
            return _failed(403, refusal)
        path = route_path(request)
        read = self._reads.get(path.removeprefix(BASE).rstrip("/")) if path.startswith(BASE) else None
        if read is None:
            return _failed(404, f"there is nothing at {request.path}")
        try:
            if request.method == "GET":
                return await read(request)
            if request.method == "POST" and read == self._read_snapshot:
                return await self._act(request)
        except ActionFailed as error:
            return _failed(400, str(error), errors=error.errors)
        except TaskNotFound as error:
            return _failed(404, str(error))
        except ProtocolError as error:
            return _failed(503, str(error))
        allowed = "GET, POST" if read == self._read_snapshot else "GET"
        return _failed(405, f"only {allowed} is answered here", headers={hdrs.ALLOW: allowed})

    async def _read_snapshot(self, request: web.BaseRequest) -> web.Response:
        return _answer(200, await self._snapshots.snapshot(read_query(request.query), self._base_url(request)))

    async def _read_presets(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 - a read like the others
        return _answer(200, self._snapshots.presets())

    async def _read_card(self, request: web.BaseRequest) -> web.Response:
        inbound = self._inbounds.get(request.query.get("id", ""))
        if inbound is None:
            return _failed(404, "there is no such inbound server")
        card = await self._card_at(self._base_url(request), inbound)
        return web.Response(body=card.body, headers=HEADERS, content_type="application/json")

    async def _read_task(self, request: web.BaseRequest) -> web.Response:
        return _answer(200, await self._snapshots.task(request.query.get("id", "")))

    async def _read_session(self, request: web.BaseRequest) -> web.Response:
        server_id = request.query.get("serverId") or None
        session = self._snapshots.session(request.query.get("contextId", ""), server_id)
        return _answer(200, session) if session is not None else _failed(404, "there is no such session")

    async def _read_tools(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 - a read like the others
        return _answer(200, self._snapshots.tools())

    async def _read_metrics(self, request: web.BaseRequest) -> web.Response:
        form = wanted_form(request)
        if form is None:
            return _failed(406, f"metrics are {', '.join(FORMS)}")
        headers = {**HEADERS, hdrs.VARY: hdrs.ACCEPT, hdrs.CONTENT_TYPE: form}
        return web.Response(body=await self._metrics.encoded(form), headers=headers)

    async def _read_description(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 - a read like the others
        if self._description is None:
            self._description = await asyncio.to_thread(_describe, tuple(self._reads))
        return web.Response(body=self._description, headers=HEADERS, content_type="application/json")

    async def _read_events(self, request: web.BaseRequest) -> web.StreamResponse:
        """A `snapshot` event at once and after every change; its id names the content, for `Last-Event-ID`."""
        known = request.headers.get("Last-Event-ID")
        query = read_query(request.query)
        with self._changes.watch(query, self._base_url(request)) as view:
            await view.look()
            check_connected(request)
            async with sse_response(
                cast("web.Request", request), ping_interval=self._config.a2a.keepalive_seconds, sep="\n"
            ) as response:
                while response.is_connected() and not self._changes.stopped:
                    if view.tag != known:
                        known = view.tag
                        await response.send(view.body, id=known, event="snapshot")
                    else:
                        await view.wait()
        return response

    async def _act(self, request: web.BaseRequest) -> web.StreamResponse:
        if media_type(request) != "application/json":
            return _failed(415, "Content-Type must be application/json")
        try:
            body = loads(await read_body(request, self._config.limits.body_bytes))
        except BodyError as error:
            return _failed(error.status, "the request body is too large" if error.status == 413 else "timed out")
        except ParseError as error:
            return _failed(400, str(error))
        if not isinstance(body, dict):
            return _failed(409, "the body must be a JSON object with an `action`")
        name = body["action"][:100] if isinstance(body.get("action"), str) else ""
        if name == "outbound.call":
            call = partial(self._call, request, name, body)
            if wants_stream(request):
                return await stream(request, call, keepalive_seconds=self._config.a2a.keepalive_seconds)
            return _answer(*await until_disconnect(request, call))
        if name == "inbound.sendTest" and wants_stream(request):
            return await self._stream_test(request, name, body)
        return _answer(*await self._perform(request, name, body))

    async def _call(
        self, request: web.BaseRequest, name: str, body: dict[str, Any], observer: Observer | None
    ) -> Performed:
        return await self._perform(request, name, body, partial(self._outbound.call, observer=observer))

    async def _stream_test(self, request: web.BaseRequest, name: str, body: dict[str, Any]) -> web.StreamResponse:
        """What is refused before it has begun is an answer like any other."""
        begun: list[Streamed] = []

        async def begin(fields: dict[str, Any]) -> dict[str, Any]:
            begun.append(await self._tests.stream(fields))
            return {"message": f"task {begun[0].task.id} has begun"}

        status, answer = await self._perform(request, name, body, begin)
        return await self._follow.test(request, begun[0]) if begun else _answer(status, answer)

    async def _perform(
        self, request: web.BaseRequest, name: str, body: dict[str, Any], do: Action | None = None
    ) -> Performed:
        """`do` does it in the place of the action itself."""
        try:
            action, fields = read_action(body)
            result = await (do or self._actions[action])(fields)
        except (ActionFailed, ProtocolError) as error:
            self._record(request, name, body, ok=False, message="refused")
            failure = {"ok": False, "message": str(error)}
            if isinstance(error, ActionFailed):
                failure |= {**({"errors": error.errors} if error.errors else {}), **error.more}
            return 409, failure
        except BaseException as error:
            what = "dropped by its caller" if isinstance(error, asyncio.CancelledError) else "failed"
            self._record(request, name, body, ok=False, message=what)
            raise
        self._record(request, name, body, ok=True, message=result["message"], target=result.get("id"))
        return 200, {"ok": True, **result}

    def _record(
        self, request: web.BaseRequest, action: str, body: dict[str, Any], *, ok: bool, message: str,
        target: str | None = None,
    ) -> None:  # fmt: skip
        """Who did what, and what became of it: no field but the id is told, for one might be a token."""
        target = target or body.get("id")
        told = {"action": action, "id": target[:200] if isinstance(target, str) else None, "ok": ok,
                "source": peer_address(request), "message": message}  # fmt: skip
        self._audit.record("control.action", told)
        kind, _, change = action.partition(".")
        if ok and kind in {"inbound", "outbound"} and action not in NO_CHANGES:
            self._host.emit(f"{kind}.changed", {"id": told["id"], "change": change})


def _describe(paths: tuple[str, ...]) -> bytes:
    from a2ad.schemas.openapi import document  # noqa: PLC0415 - what most daemons never need

    return orjson.dumps(document(BASE, paths))


def _answer(status: int, body: Any) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), headers=HEADERS, content_type="application/json")


def _failed(status: int, message: str, *, errors: Any = None, headers: dict[str, str] | None = None) -> web.Response:
    body: dict[str, Any] = {"ok": False, "message": message, **({"errors": errors} if errors else {})}
    return web.Response(
        status=status, body=orjson.dumps(body), headers={**HEADERS, **(headers or {})}, content_type="application/json"
    )
