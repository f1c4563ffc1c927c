"""The SQLite store where something is in its way: locks, foreign files, deletion of a lot."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from a2ad.errors import StartupError, StoreUnavailable
from a2ad.model import TaskState
from a2ad.store import ContextRecord, InboundRecord, MessageRow, Segment, StatusEvent, writer
from a2ad.store.deletion import GROUP
from a2ad.store.sqlite import SqliteStore
from tests.test_store import COMPLETED, WORKING, content, new, opened, query, row, store, then

__all__ = ["store"]

WITHIN = 20.0


@contextmanager
def locked(folder: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else writes to the database, and takes its time."""
    connection = sqlite3.connect(folder / "a2ad.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    finally:
        connection.rollback()
        connection.close()


# locks


async def test_a_lock_of_two_seconds_delays_writes_and_fails_none(store: SqliteStore, tmp_path: Path) -> None:
    with locked(tmp_path):
        writes = [asyncio.ensure_future(store.write(new(row()))) for _ in range(50)]
        done, _ = await asyncio.wait(writes, timeout=2)
        assert not done
        assert (await store.task("none")) is None, "reading goes on"

    assert await asyncio.wait_for(asyncio.gather(*writes), WITHIN) == [None] * 50
    assert store.health.error is None


async def test_a_lock_that_lasts_fails_writes_says_so_and_is_recovered_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BUSY_SECONDS", 0.3)
    async with opened(tmp_path) as store:
        first, second, third = row(), row(), row()
        await store.write(new(first))
        before = content(tmp_path)
        with locked(tmp_path):
            for task in (second, third):
                with pytest.raises(StoreUnavailable):
                    await asyncio.wait_for(store.write(new(task, "m")), WITHIN)
            assert store.health.error is not None
            assert "locked" in store.health.error
            since = store.health.since
            with pytest.raises(StoreUnavailable):
                await store.write(then(first, COMPLETED))
            assert store.health.since == since, "it says when the trouble began"
            assert [task.id for task in await store.unfinished()] == [first.id]
        assert content(tmp_path) == before

        assert await store.write(new(third, "m")) is None
        assert await store.write(then(first, COMPLETED)) is None

        assert (store.health.error, store.health.since) == (None, None)
        assert await store.counts() == {("in", WORKING): 1, ("in", COMPLETED): 1}


async def test_after_the_store_is_closed_a_write_is_refused_and_what_came_before_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        writes = [store.write(new(row())) for _ in range(20)]
        await store.close()
        with pytest.raises(StoreUnavailable):
            await store.write(new(row()))

    assert await asyncio.gather(*writes) == [None] * 20
    assert query(tmp_path, "SELECT count(*) FROM tasks") == [(20,)]


# files


async def test_a_database_that_a_newer_version_wrote_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    connection = sqlite3.connect(tmp_path / "a2ad.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(StartupError, match="newer"):
        async with opened(tmp_path):
            pass

    assert query(tmp_path, "PRAGMA user_version") == [(99,)]


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a2ad.db"
    file.write_bytes(b"this is a letter to my aunt, and no database at all\n" * 40)

    with pytest.raises(StartupError, match=r"a2ad\.db"):
        async with opened(tmp_path):
            pass

    assert file.read_bytes().startswith(b"this is a letter")


async def test_a_database_that_cannot_be_opened_is_a_start_up_error(tmp_path: Path) -> None:
    (tmp_path / "a2ad.db").mkdir()

    with pytest.raises(StartupError, match=r"a2ad\.db"):
        async with opened(tmp_path):
            pass


async def test_the_database_is_its_owner_s_alone(store: SqliteStore, tmp_path: Path) -> None:
    await store.write(new(row()))

    assert {oct(file.stat().st_mode & 0o777) for file in tmp_path.glob("a2ad.db*")} == {"0o600"}


async def test_what_is_kept_is_there_after_the_database_is_opened_again(tmp_path: Path) -> None:
    record = InboundRecord("in", "n", "d", "1", "/a2a/in", "standard", 5, "ENV", enabled=False, token_hash=b"\0\1")
    context = ContextRecord("in", "c", "s", "standard", 1, 2, 3, {"k": [1, None]})
    async with opened(tmp_path) as store:
        secret = store.secret
        await store.save_inbound(record)
        await store.save_context(context)
        task = row()
        await store.write(new(task))

    async with opened(tmp_path) as store:
        assert store.secret == secret
        assert list(await store.inbounds()) == [record]
        assert await store.context("in", "c") == context
        assert [unfinished.id for unfinished in await store.unfinished()] == [task.id]
        await store.delete_inbound("in")
        assert list(await store.inbounds()) == []


# what goes


async def test_what_ended_before_goes_in_groups_with_all_that_belongs_to_it(store: SqliteStore, tmp_path: Path) -> None:
    count = 2 * GROUP + 50
    for start in range(0, count, 50):
        await asyncio.gather(*(
            store.write(
                new(
                    row(state=COMPLETED, updated_at=10, context_id=f"c{start + number}", caller=f"x{number % 3}"),
                    segments=[Segment(0, 0, "a", True, None, b"[]")],
                    attachments=[f"{start + number:04x}", "shared"],
                )
            )
            for number in range(50)
        ))  # fmt: skip
    await store.save_context(ContextRecord("in", "c7", "s", "standard", 1, 2))
    waits, young = (
        row(state=TaskState.INPUT_REQUIRED, updated_at=1, context_id="c8"),
        row(state=COMPLETED, updated_at=20),
    )
    await store.write(new(waits, events=[StatusEvent(1, b"{}")], attachments=["shared"]))
    await store.save_context(ContextRecord("in", "c8", "s", "standard", 1, 2))
    await store.write(new(young))

    groups = []
    while (expired := await store.expire(20)).tasks:
        groups.append(expired)

    assert sum(group.tasks for group in groups) == count
    assert max(group.tasks for group in groups) <= GROUP
    emptied = {pair for group in groups for pair in group.contexts}
    assert emptied == {("in", f"c{number}") for number in range(count) if number != 8}
    assert {task_id for (task_id,) in query(tmp_path, "SELECT id FROM tasks")} == {waits.id, young.id}
    assert query(tmp_path, "SELECT count(*) FROM artifacts") == [(0,)]
    assert query(tmp_path, "SELECT count(*) FROM messages") == [(2,)]
    assert query(tmp_path, "SELECT sha256, task_id FROM attachments") == [("shared", waits.id)]
    assert list(await store.unused_attachments(["0001", "shared", "0002"])) == ["0001", "0002"]
    assert {key: n for key, n in (await store.counts()).items() if n} == {
        ("in", TaskState.INPUT_REQUIRED): 1,
        ("in", COMPLETED): 1,
    }
    assert await store.context("in", "c7") is None
    assert await store.context("in", "c8") is not None


async def test_a_message_is_forgotten_with_its_task(store: SqliteStore) -> None:
    first, second = row(state=COMPLETED), row()
    await store.write(new(first, "m"))
    assert (await store.expire(2000)).tasks == 1

    assert await store.find_message("in", "anonymous", "m") is None
    assert await store.write(new(second, "m")) is None


async def test_a_direct_answer_expires_as_a_task_does(store: SqliteStore, tmp_path: Path) -> None:
    for hidden, state, at in ((True, COMPLETED, 1), (True, WORKING, 1), (True, COMPLETED, 30)):
        await store.write(new(row(hidden=hidden, state=state, updated_at=at)))

    assert (await store.expire(20)).tasks == 1
    assert (await store.expire(20)).tasks == 0

    assert query(tmp_path, "SELECT count(*) FROM tasks") == [(2,)]
    assert {key: n for key, n in (await store.counts()).items() if n} == {}


async def test_an_inbound_s_tasks_go_whatever_their_state_and_no_others(store: SqliteStore, tmp_path: Path) -> None:
    for number in range(GROUP + 20):
        task = row(state=list(TaskState)[number % 8], inbound_id="gone")
        await store.write(new(task, messages=[MessageRow(1, "x", b"{}")], attachments=["f"]))
    kept = row()
    await store.write(new(kept))
    await store.save_context(ContextRecord("gone", "c", "s", "standard", 1, 2))
    await store.save_context(ContextRecord("in", "c", "s", "standard", 1, 2))

    await store.delete_tasks("gone")

    assert query(tmp_path, "SELECT id FROM tasks") == [(kept.id,)]
    assert query(tmp_path, "SELECT DISTINCT task_id FROM messages") == [(kept.id,)]
    assert query(tmp_path, "SELECT count(*) FROM attachments") == [(0,)]
    assert {key: n for key, n in (await store.counts()).items() if n} == {("in", WORKING): 1}
    assert await store.context("gone", "c") is None
    assert await store.context("in", "c") is not None


async def test_the_file_shrinks_once_what_was_in_it_is_gone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for _ in range(100):
            segment = Segment(0, 0, "a", True, None, b'[{"text":"%s"}]' % bytes(100_000).replace(b"\0", b"x"))
            await store.write(new(row(state=COMPLETED), segments=[segment]))
    large = (tmp_path / "a2ad.db").stat().st_size

    async with opened(tmp_path) as store:
        while (await store.expire(2000)).tasks:
            pass

    assert (tmp_path / "a2ad.db").stat().st_size < large / 2


async def test_the_audit_trail_is_kept_in_order_and_goes_with_the_tasks_of_its_time(
    store: SqliteStore, tmp_path: Path
) -> None:
    for at in (10, 20, 30):
        await store.audit(at, "auth.failed", b"{}")

    await store.expire(20)

    assert query(tmp_path, "SELECT at, kind, data FROM audit ORDER BY id") == [
        (20, "auth.failed", b"{}"),
        (30, "auth.failed", b"{}"),
    ]
