"""The journal of forgetting says what happened, no more and no less: the table of docs/forgetting.md, a test for each row."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from memory_sql.config import Settings
from memory_sql.db.migrate import renew
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConfigurationError, RestoredError
from memory_sql.lifecycle import journal
from memory_sql.memory import Memory
from tests.conftest import administer, named
from tests.database import rows
from tests.fakes import Parrot
from tests.integration.test_forgetting import aclosing_of, copy_of, everything, say, str_url

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA = Selection(user_id="mia")
RUBY = "I hide my ruby."


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "forgotten.jsonl"


@pytest.fixture
async def memory(database_url: str, parrot: Parrot, path: Path) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", consolidation_threshold=2, forget_journal=path)
    async with Memory(database_url, parrot, settings) as opened:
        await say(opened, RUBY)
        yield opened
        assert list(await opened.admin.verify()) == []


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def told(path: Path) -> list[bool]:
    """Of each forgetting that it names, whether it says that it was committed."""
    return [committed for _, committed in journal.begun(path).entries]


async def reopened(memory: Memory, parrot: Parrot) -> None:
    """Any other process opens it."""
    async with Memory(str_url(memory), parrot, memory.settings):
        pass


@pytest.mark.parametrize("where", ["missing/forgotten.jsonl", "."])
async def test_journal_that_has_no_place_is_told_when_memory_is_opened(
    memory: Memory, parrot: Parrot, tmp_path: Path, where: str
) -> None:
    settings = memory.settings.model_copy(update={"forget_journal": tmp_path / where})
    with pytest.raises(ConfigurationError, match=r"forget_journal: .*directory") as told:
        await Memory(str_url(memory), parrot, settings).open()
    assert str(tmp_path) in str(told.value)
    restoring = await Memory(str_url(memory), parrot, settings).open(restoring=True)  # it may be given another file
    await restoring.close()


@pytest.mark.parametrize("mode", ["create_savepoint", "conditional_savepoint", "rollback_only", "control_fully"])
@pytest.mark.parametrize("ends", ["commit", "rollback", "savepoint"])
async def test_session_joined_into_an_outer_transaction_says_what_that_did(
    memory: Memory, parrot: Parrot, path: Path, mode: Any, ends: str
) -> None:
    """The session's own commit says nothing, unless it controls the transaction."""
    async with memory.database.engine.connect() as connection:
        outer = await connection.begin()
        inner = await connection.begin_nested() if ends == "savepoint" else None
        await _forgotten_in(connection, memory, mode)
        controls = mode == "control_fully" and ends != "savepoint"
        assert told(path) == [True] * controls
        if inner is not None and inner.is_active:
            await inner.rollback()
        if outer.is_active:
            await (outer.rollback() if ends == "rollback" else outer.commit())
    is_gone = "ruby" not in await everything(memory)
    assert told(path) == [True] * is_gone
    assert is_gone or ends != "commit"
    await reopened(memory, parrot)


async def _forgotten_in(connection: AsyncConnection, memory: Memory, mode: Any) -> None:
    async with AsyncSession(connection, join_transaction_mode=mode) as session:
        await memory.forget(MIA, **ADA, session=session)
        await session.commit()


async def test_connection_of_the_hosts_own_is_followed_to_its_commit(memory: Memory, path: Path) -> None:
    async with memory.database.engine.begin() as connection:
        session = AsyncSession(connection)
        await memory.forget(MIA, **ADA, session=session)
        assert told(path) == []
    assert told(path) == [True]
    await session.close()


class FullDisk:
    """From that line on the disk is full, until it isn't any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.left, self._append = at, journal._append
        monkeypatch.setattr(journal, "_append", self)

    def __call__(self, path: Path, line: Any) -> None:
        if self.left <= 0:
            raise ConfigurationError(f"the journal of forgetting can't be written: {os.strerror(errno.ENOSPC)}")
        self.left -= 1
        self._append(path, line)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("by", ["open", "maintain"])
@pytest.mark.parametrize("at", [0, 1])
async def test_what_a_full_disk_or_a_crash_kept_from_the_journal_is_written_later(
    memory: Memory, parrot: Parrot, path: Path, monkeypatch: pytest.MonkeyPatch, joined: bool, by: str, at: int
) -> None:
    """In one's own transaction nothing is forgotten unless its first line is written; what has happened is reported."""
    if not joined and at == 0:
        pytest.skip("nothing is forgotten: test_nothing_is_forgotten_where_the_journal_cannot_be_written")
    disk = FullDisk(monkeypatch, at)
    async with AsyncSession(memory.database.engine) as session:
        given: dict[str, Any] = {"session": session} if joined else {}
        receipt = await memory.forget(MIA, **ADA, **given)
        await session.commit()
    assert receipt.counts["observations"] == 1
    assert told(path) == [False] * at
    await reopened(memory, parrot)  # which it can't write either
    disk.left = 100
    await (reopened(memory, parrot) if by == "open" else memory.work.maintain())
    assert told(path) == [True]
    lines = lines_of(path)
    await memory.work.maintain()
    assert lines_of(path) == lines
    assert await rows(memory, "SELECT 1 FROM memory.events WHERE jsonb_exists(detail, 'entry')") == []


@pytest.mark.slow
async def test_copy_beside_the_original_forgets_nothing_of_it(
    memory: Memory, parrot: Parrot, path: Path, server_url: str
) -> None:
    """Opened, it is closed by what the original forgets, and both ways out are named; with an id of its own it goes on."""
    name = f"copy_{os.getpid()}"
    url = await copy_of(memory, server_url, name)
    try:
        await memory.forget(MIA, **ADA)
        with pytest.raises(RestoredError, match=r"restore-check.*--incarnation .*memory-sql db renew") as refused:
            await Memory(url, parrot, memory.settings).open()
        assert list(refused.value.copied_from.values()) == [1]
        copy = await Memory(url, parrot, memory.settings).open(restoring=True)
        async with aclosing_of(copy):
            assert await copy.admin.restore_check(path) == []
            assert "ruby" in await everything(copy)
        await renew(url)
        async with Memory(url, parrot, memory.settings) as own:
            assert "ruby" in await everything(own)
            await say(own, "I sail a sloop.", user="jonas", session="t")
            await own.forget(Selection(user_id="jonas"), **ADA)
        await reopened(memory, parrot)
        async with Memory(url, parrot, memory.settings) as own:
            assert (await own.admin.journal_status()).others == 1
    finally:
        await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.slow
async def test_two_of_one_template_do_not_concern_each_other(
    template: str, server_url: str, parrot: Parrot, path: Path
) -> None:
    names, settings = [f"twin_{n}_{os.getpid()}" for n in range(2)], Settings(llm="offline", forget_journal=path)
    for name in names:
        await administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        async with (
            Memory(named(server_url, names[0]), parrot, settings) as one,
            Memory(named(server_url, names[1]), parrot, settings) as other,
        ):
            for memory in (one, other):
                await say(memory, RUBY)
            await one.forget(MIA, **ADA)
            await reopened(other, parrot)
            assert await other.admin.restore_check(path, unsure=True) == []
            assert "ruby" in await everything(other)
    finally:
        for name in names:
            await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["user", "conversation"])
@pytest.mark.parametrize("renamed_again", [False, True])
async def test_id_that_somebody_else_had_before_is_theirs_in_an_older_backup(
    memory: Memory, parrot: Parrot, path: Path, server_url: str, kind: Any, renamed_again: bool
) -> None:
    """Mia was renamed after the backup; whoever came as mia then, and was forgotten, wasn't there yet."""
    old, new = ("mia", "mia2") if kind == "user" else ("s", "s2")
    name = f"before_{kind}_{renamed_again}_{os.getpid()}".casefold()
    url = await copy_of(memory, server_url, name)
    try:
        await memory.people.rename(**ADA, kind=kind, old=old, new=new)
        whose = {"user": "mia", "session": "t"} if kind == "user" else {"user": "nia", "session": "s"}
        await say(memory, "I hide a pearl.", first=9, **whose)
        target = old
        if renamed_again:
            target = "later"
            await memory.people.rename(**ADA, kind=kind, old=old, new=target)
        chosen: dict[str, Any] = {f"{kind}_id": target}
        await memory.forget(Selection(**chosen), **ADA)
        assert "pearl" not in await everything(memory)
        restored = await Memory(url, parrot, memory.settings).open(restoring=True)
        async with aclosing_of(restored):
            (incarnation,) = (await restored.admin.journal_status(path)).copied_from
            await restored.admin.restore_check(path, incarnation=incarnation)
            assert "ruby" in await everything(restored)
            assert list(await restored.admin.verify()) == []
    finally:
        await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


async def test_journal_holds_ids_and_no_text(memory: Memory, path: Path) -> None:
    await memory.forget(MIA, **ADA)
    lines = lines_of(path)
    (entry, done) = map(json.loads, lines)
    assert "ruby" not in "".join(lines)
    assert (entry["users"], done) == (["mia"], {"id": entry["id"], "done": True})


async def test_what_is_known_of_the_journal_is_not_read_again(memory: Memory, parrot: Parrot, path: Path) -> None:
    """What comes after it is; another file, or a shorter one, from its beginning."""
    for n in range(3):
        entry = journal.Entry(
            id=f"old {n}", at=memory._runtime.now(), agent_id="bob", users=("mia",), database="another"
        )
        journal.plan(path, entry)
        journal.done(path, entry.id)
    await memory.work.maintain()
    ((upto, tail),) = await rows(memory, "SELECT journal_read, journal_tail FROM memory.installation")
    assert (upto, bytes(tail)) == (size_of(path), journal.tail_of(path, upto))
    await memory.forget(MIA, **ADA)
    scanned = list(journal.scan(path, upto))
    assert len(scanned) == 2
    await memory.work.maintain()
    assert await rows(memory, "SELECT journal_read FROM memory.installation") == [(size_of(path),)]
    await rows(memory, "DELETE FROM memory.events WHERE kind = 'forget'")
    await rows(
        memory, "UPDATE memory.installation SET journal_read = :upto, journal_tail = :tail", upto=upto, tail=tail
    )
    with pytest.raises(RestoredError):  # a backup knows what was known when it was made
        await reopened(memory, parrot)
    text = lines_of(path)
    _rewrite(path, text[-2:])
    with pytest.raises(RestoredError):
        await reopened(memory, parrot)
    await memory.admin.restore_check(path)
    await reopened(memory, parrot)


def size_of(path: Path) -> int:
    return path.stat().st_size


def _rewrite(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


async def test_line_said_twice_cut_off_or_ended_late_is_read_on_from(
    memory: Memory, parrot: Parrot, path: Path
) -> None:
    """Two processes may write down what is lacking; a full disk cuts a line off; a plan may be committed much later."""
    plan = {"id": "late", "at": "2026-01-01T00:00:00Z", "agent_id": "bob", "database": "another"}
    _rewrite(path, [json.dumps(plan), '{"id": "cut o'])
    await memory.forget(MIA, **ADA)
    await memory.work.maintain()
    (event,) = await rows(memory, "SELECT detail ->> 'id' FROM memory.events WHERE kind = 'forget'")
    for again in (event[0], "late", "late"):
        journal.done(path, again)
        await memory.work.maintain()
        assert await rows(memory, "SELECT journal_read FROM memory.installation") == [(size_of(path),)]
    await reopened(memory, parrot)
