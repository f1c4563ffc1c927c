"""The snapshot for those who watch it: read once a second for all who ask the same, encoded once, sent if it is new.

However many there are, they take no more than a part of the event loop's time: A2A clients share it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import structlog

from a2ad.errors import ResourceExhausted

#: how often it is looked whether something has changed, in seconds; and for how many looks' time none is made after one
CHANGE_SECONDS, REST = 1.0, 4
#: who may watch at the same time
MOST_WATCHERS = 200
RETRY_AFTER = 5

log = structlog.get_logger()


class View:
    """One page of the snapshot. `tag` names the content, `body` is its JSON; both are empty before the first look."""

    def __init__(self, read: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        self.tag = self.body = ""
        self.watchers = 0
        self._read = read
        self._changed = asyncio.Event()
        self._looking = asyncio.Lock()
        self._looked_at = 0.0

    async def look(self) -> None:
        """See what there is, at this moment or a later one. Raises what the reading does."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with self._looking:
            if self._looked_at > asked:
                return  # somebody has looked since
            self._looked_at = loop.time()
            body = orjson.dumps(await self._read())
            tag = hashlib.blake2b(body, digest_size=9).hexdigest()
            if tag != self.tag:
                self.tag, self.body = tag, body.decode()
                self.wake()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait(self) -> None:
        """Until there is something else, or a second has passed."""
        try:
            async with asyncio.timeout(CHANGE_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return


class Changes:
    """`read(query, base_url)` makes a snapshot."""

    def __init__(self, read: Callable[[Mapping[str, Any], str], Awaitable[Mapping[str, Any]]]) -> None:
        self._read = read
        self._views: dict[tuple[bytes, str], View] = {}
        self._watchers = 0
        self._ticking: asyncio.Task[None] | None = None
        self.stopped = False

    def stop(self) -> None:
        """Nothing more is looked at; those who wait go on."""
        self.stopped = True
        if self._ticking is not None:
            self._ticking.cancel()
        for view in self._views.values():
            view.wake()

    @contextmanager
    def watch(self, query: Mapping[str, Any], base_url: str) -> Iterator[View]:
        """The page that the query asks for. Raises `ResourceExhausted`."""
        if self._watchers >= MOST_WATCHERS:
            raise ResourceExhausted(
                f"{MOST_WATCHERS} streams of changes are open: there is room for no more", retry_after=RETRY_AFTER
            )
        key = (orjson.dumps(query, option=orjson.OPT_SORT_KEYS), base_url)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = View(lambda: self._read(query, base_url))
        view.watchers += 1
        self._watchers += 1
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick())
        try:
            yield view
        finally:
            self._watchers -= 1
            view.watchers -= 1
            if not view.watchers:
                del self._views[key]

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while self._views:
            began = loop.time()
            for view in list(self._views.values()):
                try:
                    await view.look()
                except Exception as error:  # noqa: BLE001 - the store is away, say: the next look may find it there
                    log.warning("changes.not_seen", error=str(error))
            await asyncio.sleep(max(CHANGE_SECONDS, REST * (loop.time() - began)))
        self._ticking = None
