"""One connection to a remote agent: its card, kept fresh in the background, and where and with what it is called."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import structlog

from a2ad.credentials import is_token, read_secret
from a2ad.errors import RemoteAway, RemoteError, RemoteRefused
from a2ad.outbound.card import FetchedCard, RemoteCard, RemoteSkill, fetch_card, parse_card
from a2ad.outbound.client import Endpoint, endpoint_of
from a2ad.outbound.net import Net, origin_of
from a2ad.outbound.text import MESSAGE, Mask, line
from a2ad.store import OutboundRecord

#: pauses between tries to connect, in seconds; each is drawn between half and all of it
PAUSE, LONGEST_PAUSE = 1.0, 300.0
#: how often a connected remote is asked for its card, at most, in seconds; and sooner where a call finds it stale
REFRESH_SECONDS, STALE_SECONDS = 15.0, 1.0

log = structlog.get_logger()


class Connection:
    """`changed()` is called when its state, its card or its last error became another."""

    def __init__(
        self, record: OutboundRecord, net: Net, set_token: Callable[[], str | None], changed: Callable[[], None]
    ) -> None:
        self.record = record
        self._net = net
        self._set_token = set_token
        self._changed = changed
        #: what is known of the remote, from this process or from one before
        self.card: RemoteCard | None = _kept(record, self.mask)
        self.last_error: str | None = None
        #: calls that are going on, and those that nobody waits for, until the remote's task is canceled
        self.calls: set[asyncio.Task[Any]] = set()
        self.abandoned: set[asyncio.Task[None]] = set()
        self._fetched: FetchedCard | None = None
        self._fetched_at = 0.0
        self._wake = asyncio.Event()
        self._first = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[FetchedCard] | None = None
        self._tried_at = 0.0

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def state(self) -> str:
        """`disabled`, `error`, `connected` or `connecting` (`protocol.md` 7)."""
        if not self.record.enabled:
            return "disabled"
        if self.last_error is not None:
            return "error"
        return "connected" if self._fetched is not None else "connecting"

    @property
    def skills(self) -> tuple[RemoteSkill, ...]:
        """Every skill of the remote, the disabled ones too."""
        return self.card.skills if self.card is not None else ()

    @property
    def token(self) -> str | None:
        """The one that was set, else that of the variable."""
        return token_of(self.record, self._set_token())

    @property
    def mask(self) -> Mask:
        return Mask([self.token or ""])

    @property
    def body(self) -> bytes | None:
        """The card as it was fetched last."""
        return self._fetched.body if self._fetched is not None else self.record.card

    def start(self) -> None:
        """Connect in the background, and stay connected."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())

    def stop(self) -> None:
        """Connect no more. Who waits for the connection is told."""
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None
        self._first.set()
        self._first = asyncio.Event()
        self._fetched = None
        self.last_error = None

    def abandon(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a call be ended that nobody waits for."""
        task = asyncio.create_task(job)
        self.abandoned.add(task)
        task.add_done_callback(self.abandoned.discard)
        return task

    def wake(self) -> None:
        """Connect anew, now."""
        self._wake.set()

    def suspect(self) -> None:
        """Something went wrong: its card may say something else now. Not asked for more often than it may be stale."""
        if asyncio.get_running_loop().time() - self._tried_at > STALE_SECONDS:
            self.wake()

    def accept(self, fetched: FetchedCard) -> None:
        """Take this for the card from now on."""
        self._fetched = fetched
        self._fetched_at = asyncio.get_running_loop().time()
        self.card = fetched.card
        self._first.set()
        self._set_error(None)

    async def fetch(self) -> FetchedCard:
        """The card as it is now; those who ask at the same time get the same. Raises `RemoteError`."""
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch())
        fetching = self._fetching
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if fetching.cancelled() and task is not None and not task.cancelling():
                raise RemoteRefused(f"the connection {self.record.name!r} was disabled or taken away") from None
            raise

    async def _fetch(self) -> FetchedCard:
        self._tried_at = asyncio.get_running_loop().time()
        try:
            fetched = await fetch_card(
                self._net,
                self.record.agent_card_url,
                token=usable_token(self.record, self._set_token()),
                known=self._fetched if self.last_error is None else None,
            )
        except RemoteError as error:
            self._first.set()
            if not isinstance(error, RemoteAway):
                self._fetched = None  # it is there, and says something else now
            self._set_error(line(str(error), MESSAGE, self.mask))
            raise
        self.accept(fetched)
        return fetched

    async def _keep(self) -> None:
        failures = 0
        pause = 0.0 if self._fetched is None else max(REFRESH_SECONDS, self._fetched.fresh_seconds)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()
            try:
                fetched = await self.fetch()
            except RemoteError as error:
                failures += 1
                pause = min(LONGEST_PAUSE, PAUSE * 2 ** min(failures - 1, 20)) * random.uniform(0.5, 1)  # noqa: S311
                if isinstance(error, RemoteAway) and error.retry_after is not None:
                    pause = min(LONGEST_PAUSE, max(pause, error.retry_after))
            except Exception as error:
                log.exception("outbound.fault", connection=self.record.name)
                self._first.set()
                self._set_error(f"internal error: {type(error).__name__}")
                pause = LONGEST_PAUSE
            else:
                failures = 0
                pause = max(REFRESH_SECONDS, fetched.fresh_seconds)

    def _set_error(self, error: str | None) -> None:
        if error is not None and error != self.last_error:
            log.warning("outbound.error", connection=self.record.name, id=self.id, error=error)
        elif error is None and self.last_error is not None:
            log.info("outbound.connected", connection=self.record.name, id=self.id)
        self.last_error = error
        self._changed()

    async def endpoint(self) -> Endpoint:
        """Where to call it; waits for a connection that is being made. Raises `RemoteError`."""
        if not self.record.enabled:
            raise RemoteRefused(f"the connection {self.record.name!r} is disabled")
        await self._first.wait()
        if not self.record.enabled:
            raise RemoteRefused(f"the connection {self.record.name!r} was disabled or taken away")
        fetched = self._fetched
        if fetched is None:
            raise RemoteRefused(f"there is no connection to {self.record.name!r}: {self.last_error}")
        age = asyncio.get_running_loop().time() - self._fetched_at
        if age > max(STALE_SECONDS, fetched.fresh_seconds):
            self.wake()
        origins = {origin_of(url) for url in (self.record.agent_card_url, *self.record.token_origins)}
        return endpoint_of(fetched, usable_token(self.record, self._set_token()), origins)


def token_of(record: OutboundRecord, set_token: str | None) -> str | None:
    """The bearer token: the one that was set, else that of the variable that the record names; None without either."""
    return set_token or (read_secret(record.bearer_token_env) if record.bearer_token_env else None)


def usable_token(record: OutboundRecord, set_token: str | None) -> str | None:
    """As `token_of`. Raises `RemoteRefused` where there is to be one, and is not, or no header can carry it."""
    token = token_of(record, set_token)
    if token is None and record.bearer_token_env:
        raise RemoteRefused(f"the variable {record.bearer_token_env} is not set")
    if token is not None and not is_token(token):
        raise RemoteRefused(f"the variable {record.bearer_token_env} holds no token")
    return token


def _kept(record: OutboundRecord, mask: Mask) -> RemoteCard | None:
    if record.card is None:
        return None
    try:
        return parse_card(record.card, mask)
    except RemoteError:
        return None
