"""What has ended is kept for `retention_days`, with its files; then it goes. Nothing live is touched."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import structlog

from a2ad.engine import Engine
from a2ad.engine.workdirs import context_dir, task_dirs
from a2ad.errors import StoreUnavailable
from a2ad.model import now_ms
from a2ad.outbound.files import drop_old_files

DAY_SECONDS = 86_400
#: how often it is looked for what has expired, in seconds, at most and at least
LONGEST, SHORTEST = 3600.0, 1.0
#: a file so young may belong to a message that is being recorded, in seconds
FRESH_SECONDS = 600.0
#: files that are looked up in the store at a time
FILES = 500

log = structlog.get_logger()


async def keep_retention(engine: Engine, retention_days: float) -> None:
    """Runs until it is cancelled; with 0 days everything is kept for ever."""
    if not retention_days:
        return
    age = retention_days * DAY_SECONDS
    while True:
        try:
            await _expire(engine, now_ms() - int(age * 1000))
            await _drop_task_dirs(engine, time.time() - age)
            await _drop_unused_files(engine, fresh=min(FRESH_SECONDS, age))
            await asyncio.to_thread(drop_old_files, engine.state_dir, time.time() - age)
        except (StoreUnavailable, OSError):
            log.warning("retention.failed", exc_info=True)
        await asyncio.sleep(min(LONGEST, max(SHORTEST, age / 10)))


async def _expire(engine: Engine, before: int) -> None:
    total = 0
    more = True
    while more:
        expired = await engine.store.expire(before)
        more = expired.more
        total += expired.tasks
        for inbound_id, context_id in expired.contexts:
            folder = context_dir(engine.state_dir, inbound_id, context_id)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    if total:
        engine.ended.clear()
        log.info("retention.expired", tasks=total)


async def _drop_task_dirs(engine: Engine, before: float) -> None:
    for folder in await asyncio.to_thread(_older, task_dirs(engine.state_dir), before):
        if await engine.store.task(folder.name) is None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _drop_unused_files(engine: Engine, *, fresh: float) -> None:
    folder = engine.state_dir / "attachments"
    files = await asyncio.to_thread(_older, folder.glob("??/*"), time.time() - fresh)
    for start in range(0, len(files), FILES):
        group = {file.name: file for file in files[start : start + FILES]}
        for digest in await engine.store.unused_attachments(list(group)):
            await asyncio.to_thread(_unlink_old, group[digest], time.time() - fresh)


def _unlink_old(file: Path, before: float) -> None:
    # it may have come into use again since it was looked up: then it was touched
    if file.stat().st_mtime < before:
        file.unlink()


def _older(paths: Iterable[Path], before: float) -> list[Path]:
    return [path for path in paths if path.stat().st_mtime < before]
