"""The panel's files at `/a2a/panel/`, for this machine alone: read into memory once, nothing computed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

import structlog
from aiohttp import ETag, hdrs, web

from a2ad.config.values import PANEL_PATH
from a2ad.web.guard import control_refusal, peer_address, route_path

HOME = f"{PANEL_PATH}/"
#: of the files that are served; others in the package are none of the panel's
TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain",
}
#: scripts, workers, styles and data from this origin and no other; nothing inline, nothing framed, no form that is sent
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    hdrs.CACHE_CONTROL: "no-cache",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    content_type: str
    etag: str


class Panel:
    """Answers `/` and what is below `/a2a/panel`, to those whom the control API answers too."""

    def __init__(self, allowed_hosts: Sequence[str]) -> None:
        self._allowed_hosts = allowed_hosts

    @cached_property
    def _files(self) -> dict[str, _File]:
        """By path. Read with the first request, and not at start-up, which many never ask for a panel."""
        found = dict(_read(files("a2ad.web") / "static", HOME))
        return {HOME: found[f"{HOME}index.html"], **found}

    def answers(self, request: web.BaseRequest, path: str) -> bool:
        """Whether the path is the panel's, where it shares a listener with the A2A endpoints: `/` is the panel's for
        this machine, and for others a path like any other that leads to no agent.
        """
        if path == "/":
            return request.method in {"GET", "HEAD"} and control_refusal(request, self._allowed_hosts) is None
        return path == PANEL_PATH or path.startswith(HOME)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """A file, a redirect to the first page, or why there is none."""
        refusal = control_refusal(request, self._allowed_hosts)
        if refusal is not None:
            log.warning("control.refused", source=peer_address(request), path=request.path, reason=refusal)
            return _plain(403, refusal)
        path = route_path(request)
        file = self._files.get(path)
        if file is None and path not in {"/", PANEL_PATH}:
            return _plain(404, "there is no such file")
        if request.method not in {"GET", "HEAD"}:
            return _plain(405, "only GET and HEAD are answered here", {hdrs.ALLOW: "GET, HEAD"})
        if file is None:
            return _plain(302, HOME, {hdrs.LOCATION: HOME})
        return _answer(request, file)


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, _File]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{prefix}{entry.name}/")
        elif (content_type := TYPES.get(entry.name.rpartition(".")[2])) is not None:
            body = entry.read_bytes()
            yield f"{prefix}{entry.name}", _File(body, content_type, hashlib.blake2b(body, digest_size=12).hexdigest())


def _answer(request: web.BaseRequest, file: _File) -> web.Response:
    known = request.if_none_match or ()
    if any(tag.value in {file.etag, "*"} for tag in known):
        response = web.Response(status=304, headers=HEADERS)
    else:
        response = web.Response(body=file.body, headers=HEADERS, content_type=file.content_type, charset="utf-8")
    response.etag = ETag(file.etag)
    return response


def _plain(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={**HEADERS, **(headers or {})})
