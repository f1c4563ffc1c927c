"""The audit trail: policy decisions, authentication failures and control actions, in the log and in the store.

What is recorded is written here by name; no request body, and so no secret, is ever among it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import structlog

from a2ad.model import as_unicode, now_ms
from a2ad.plugins import PluginHost
from a2ad.store import Store

log = structlog.get_logger()


class Audit:
    def __init__(self, store: Store, host: PluginHost) -> None:
        self._store = store
        self._host = host

    def record(self, kind: str, data: Mapping[str, Any]) -> None:
        """Log it, keep it, and tell the plugins that listen. A trail that cannot be kept stops nobody's work."""
        data = {name: _text(value) if isinstance(value, str) else value for name, value in data.items()}
        log.info(kind, **data)
        written = asyncio.ensure_future(self._store.audit(now_ms(), kind, orjson.dumps(data)))
        written.add_done_callback(_tell_failure)
        self._host.emit(kind, data)


def _text(value: str) -> str:
    """What a client or a plugin brings may be no Unicode, and long."""
    return as_unicode(value[:2000])


def _tell_failure(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.warning("audit.not_kept", error=str(error))
