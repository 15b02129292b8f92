"""Databases that earlier releases filled, brought up to date by this one."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from memory_sql.config import Settings
from memory_sql.db import migrate, recorded
from memory_sql.db.recorded import REVISION
from memory_sql.errors import HeldError, InputError
from memory_sql.memory import Memory
from migrations import release
from tests.migrations.databases import contents, downgrade, psql, upgrade
from tests.migrations.keeping import ANSWER, ASKED, KEPT, MIA, live, rows_of

# ruff: noqa: ASYNC240 (small files)
pytestmark = [pytest.mark.open, pytest.mark.slow]
SCRIPTS = list(ScriptDirectory.from_config(migrate.alembic_config()).walk_revisions())[::-1]
HISTORY = [script.revision for script in SCRIPTS]
FILES = sorted(KEPT.glob("*.sql"), key=lambda path: HISTORY.index(path.stem))
NEXT = "b0000000003c"


async def holds_all(url: str) -> None:
    async with Memory(url, settings=Settings(llm="offline")) as memory:
        assert list(await memory.admin.verify(hashes=True)) == []
        assert ANSWER in str(await memory.context(message=ASKED, **MIA))
        assert [hold.target for hold in await memory.holds.list(agent_id="ada")] == ["mia"]
        assert await memory.people.list(agent_id="ada") != []
        await memory.observe("Mia has a dinghy.", **MIA)
        await memory.work.maintain()
        assert list(await memory.admin.verify(hashes=True)) == []


async def goes_back(url: str, revision: str) -> None:
    """By name only, and never while a hold is open. What the older schema has is what was there."""
    with pytest.raises(HeldError):
        await downgrade(url, revision)
    async with Memory(url, settings=Settings(llm="offline")) as memory:
        await memory.holds.release(1, agent_id="ada")
    with pytest.raises(InputError, match="nothing was changed"):
        await downgrade(url, revision, drop=False)
    await downgrade(url, revision)
    assert await asyncio.to_thread(migrate.current, url) == revision


def counted(contents: str) -> int:
    return int(contents.partition(" ")[0])


def test_each_released_revision_is_kept() -> None:
    """`make release` keeps it, for the migration after it."""
    frozen, kept = release.released(), {path.stem for path in FILES}
    assert [one.revision for one in SCRIPTS if Path(one.path).name in frozen and one.revision not in kept] == []


@pytest.mark.parametrize("kept", FILES, ids=lambda path: path.stem)
async def test_what_a_release_left_is_upgraded_and_works(empty_database: str, kept: Path) -> None:
    await upgrade(empty_database, kept.stem)
    psql(empty_database, kept.read_text("utf-8"))
    before = await contents(empty_database)
    await upgrade(empty_database)
    after = await contents(empty_database)
    assert [name for name in before if name in after and counted(after[name]) < counted(before[name])] == []
    await holds_all(empty_database)
    if kept.stem != HISTORY[-1]:
        await goes_back(empty_database, kept.stem)


async def test_what_this_code_leaves_is_kept_and_upgraded_by_the_next_migration(
    database_url: str, empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with a migration that adds a column, which stands for whatever comes next."""
    await live(database_url)
    await upgrade(empty_database, REVISION)
    psql(empty_database, rows_of(database_url))
    assert await contents(empty_database) == await contents(database_url)
    shutil.copytree(migrate.scripts(), tmp_path / "migrations")
    monkeypatch.setattr(migrate, "scripts", lambda: tmp_path / "migrations")
    made = command.revision(migrate.alembic_config(), "Say where it was read", rev_id=NEXT)
    assert made is not None
    assert not isinstance(made, list)
    path = Path(made.path)
    up = 'op.add_column("prices", sa.Column("note", sa.Text()), schema="memory")'
    down = 'op.drop_column("prices", "note", schema="memory")'
    path.write_text(path.read_text().replace("    pass", f"    {up}", 1).replace("    pass", f"    {down}", 1))
    await upgrade(empty_database)
    with monkeypatch.context() as newer:
        newer.setattr(recorded, "REVISION", NEXT)
        await holds_all(empty_database)
        await goes_back(empty_database, REVISION)
    async with Memory(empty_database, settings=Settings(llm="offline")) as memory:
        assert ANSWER in str(await memory.context(message=ASKED, **MIA))
        assert list(await memory.admin.verify(hashes=True)) == []
