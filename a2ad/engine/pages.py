"""Pages of tasks: what ListTasks gives, and the opaque tokens between its pages."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from a2ad.engine.artifacts import stored_view
from a2ad.engine.encode import TaskView
from a2ad.errors import InvalidParams
from a2ad.schemas.a2a import ListTasksParams
from a2ad.store import Store, TaskQuery

_SIGNATURE = 12


@dataclass(frozen=True, slots=True)
class Page:
    """`next_token` is empty at the end; `total` counts all matches."""

    tasks: Sequence[TaskView]
    total: int
    next_token: str


async def list_tasks(store: Store, inbound_id: str, wanted: ListTasksParams) -> Page:
    """Newest update first, ties broken by id. Raises `InvalidParams` for a token that this store did not issue."""
    signer = _Signer(store.secret, inbound_id, wanted)
    page = await store.tasks(
        TaskQuery(
            inbound_id=inbound_id,
            context_id=wanted.context_id,
            state=wanted.state,
            after=wanted.after,
            limit=wanted.page_size,
            cursor=signer.read(wanted.page_token) if wanted.page_token else None,
            history="none" if wanted.history_length == 0 else "all",
            artifacts=wanted.include_artifacts,
        )
    )
    token = ""
    if page.more:
        last = page.tasks[-1].row
        token = signer.make(last.updated_at, last.id)
    return Page([stored_view(task) for task in page.tasks], page.total, token)


def page_violations(store: Store, inbound_id: str, wanted: ListTasksParams) -> list[tuple[str, str]]:
    """What is wrong with the page token: pairs of a JSON path and a sentence about it."""
    try:
        if wanted.page_token:
            _Signer(store.secret, inbound_id, wanted).read(wanted.page_token)
    except InvalidParams as error:
        return list(error.violations)
    return []


class _Signer:
    """A token is the place of a page's last task, signed for one inbound and one set of filters."""

    def __init__(self, secret: bytes, inbound_id: str, wanted: ListTasksParams) -> None:
        filters = (inbound_id, wanted.context_id, wanted.state, wanted.after)
        self._key = hashlib.blake2b(repr(filters).encode(errors="replace"), key=secret).digest()

    def _sign(self, place: bytes) -> bytes:
        return hashlib.blake2b(place, key=self._key, digest_size=_SIGNATURE).digest()

    def make(self, updated_at: int, task_id: str) -> str:
        place = f"{updated_at} {task_id}".encode()
        return base64.urlsafe_b64encode(self._sign(place) + place).rstrip(b"=").decode()

    def read(self, token: str) -> tuple[int, str]:
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            signature, place = raw[:_SIGNATURE], raw[_SIGNATURE:]
            if hmac.compare_digest(signature, self._sign(place)):
                updated_at, _, task_id = place.decode().partition(" ")
                if self.make(int(updated_at), task_id) == token:
                    return int(updated_at), task_id
        except ValueError:
            pass
        raise InvalidParams([("pageToken", "was not issued by this server for these filters")])
