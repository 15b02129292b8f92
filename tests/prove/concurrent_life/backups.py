"""A backup that was taken in the middle of a life: with the journal, what was forgotten since is forgotten there as well."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import make_url, text

from memory_sql.config import Settings
from memory_sql.db.principals import SERVICE
from memory_sql.errors import RestoredError
from memory_sql.memory import Memory
from tests.prove.concurrent_life.judging import words_of
from tests.prove.concurrent_life.world import World

COPY = "life_backup"
END_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()"


async def take(url: str) -> str:
    """A copy of the database as it is, of which nobody may be connected meanwhile. Its URL."""
    name = make_url(url).database or ""
    async with administering(url) as connection:
        await connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            await connection.execute(END_OTHERS, name)
            await connection.execute(f'CREATE DATABASE "{COPY}_{name}" TEMPLATE "{name}"')
        finally:
            await connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    return make_url(url).set(database=f"{COPY}_{name}").render_as_string(hide_password=False)


async def drop(url: str) -> None:
    async with administering(url) as connection:
        await connection.execute(f'DROP DATABASE IF EXISTS "{make_url(url).database}" WITH (FORCE)')


@asynccontextmanager
async def administering(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(
        make_url(url).set(drivername="postgresql", database="template1").render_as_string(hide_password=False)
    )
    try:
        yield connection
    finally:
        await connection.close()


async def restore(url: str, world: World, settings: Settings, journal: Path) -> None:
    """As its page says: it doesn't open before the journal was followed, by somebody who names where it was written."""
    async with Memory(url, settings=settings.model_copy(update={"forget_journal": None})) as memory:
        missing = (await memory.admin.journal_status(journal)).missing
    kept = settings.model_copy(update={"forget_journal": journal})
    if missing:
        try:
            async with Memory(url, settings=kept):
                world.found(f"a backup opens in which {len(missing)} forgettings are missing")
        except RestoredError:
            world.did["backups refused"] += 1
    memory = Memory(url, settings=kept)
    await memory.open(restoring=True)
    try:
        for incarnation in (await memory.admin.journal_status(journal)).copied_from:
            await memory.admin.restore_check(journal, incarnation=incarnation)
        left = await memory.admin.journal_status(journal)
        if left.missing:
            world.found(f"a backup lacks {left.missing[:5]} after its journal was followed")
        for one in await memory.admin.verify():
            world.found(f"a backup whose journal was followed: {one.invariant}: {one.key} {one.detail}")
        async with memory.database.transaction(principal=SERVICE) as unit:
            words = await words_of(lambda statement: unit.execute(text(statement)))
    finally:
        await memory.close()
    gone = {said.token for said in world.ledger.utterances if said.forgotten} & world.ledger.gone()
    brought_back = {said.token for said in world.ledger.utterances if said.gone and not said.forgotten}
    for table, found in words.items():
        for token in sorted(found & gone - brought_back)[:5]:
            said = [str(one) for one in world.ledger.utterances if one.token == token]
            world.found(f"forgotten after the backup, and in its memory.{table}: {token} {said}")
    world.did["words looked for in a backup"] += len(gone)
