"""A view as CSV: every row and cell as in the view, from one moment, and nobody else's."""

from __future__ import annotations

import asyncio
import csv
import io
import stat
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, table

from memory_sql.db.ddl import VIEWS
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.fakes import Scripted

TEXTS = ['She said "no, thanks", twice.', "First line\nsecond; =1+1, ünïcode 🐝", "=cmd|' /C calc'!A0"]


RETRIEVED = """
    INSERT INTO memory.observation_retrievals (agent_key, scope_id, seq, day, surface, times)
    SELECT agent_key, scope_id, seq, current_date, 'search', 1 FROM memory.observations
"""
FEEDBACK = """
    INSERT INTO memory.observation_feedback (agent_key, scope_id, seq, day, total, times)
    SELECT agent_key, scope_id, seq, current_date, 1, 1 FROM memory.observations
"""


async def filled(memory: Memory) -> None:
    for text in TEXTS:
        await memory.observe(text, agent_id="ada", user_id="mia", tags=["a b", 'c"d'], metadata={"n": 1})
    await memory.observe("Eve's own.", agent_id="eve", user_id="mia")


async def count(memory: Memory, view: str) -> int:
    ((found,),) = await rows(memory, str(select(func.count()).select_from(table(view, schema="memory"))))
    return int(found)


async def exported(memory: Memory, view: str, **more: Any) -> list[dict[str, str]]:
    to = io.BytesIO()
    written = await memory.admin.export(view, to, **more)
    read = list(csv.DictReader(io.StringIO(to.getvalue().decode("utf-8"), newline="")))
    assert written == len(read)
    return read


async def test_cells_come_out_as_they_are(memory: Memory) -> None:
    await filled(memory)
    read = await exported(memory, "v_observations", agent_id="ada")
    assert sorted(row["content"] for row in read) == sorted(TEXTS)
    assert {row["metadata"] for row in read} == {'{"n": 1}'}
    assert {row["tags"] for row in read} == {'{"a b","c\\"d"}'}
    assert all(row["created_at"].endswith("+00") for row in read)
    assert {row["agent_id"] for row in await exported(memory, "v_observations")} == {"ada", "eve"}


@pytest.mark.parametrize("view", VIEWS)
async def test_every_view_has_its_columns_and_rows(memory: Memory, view: str) -> None:
    await filled(memory)
    to = io.BytesIO()
    written = await memory.admin.export(view, to)
    assert written == await count(memory, view)
    columns = await rows(
        memory,
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:view) AND attnum > 0 ORDER BY attnum",
        view=f"memory.{view}",
    )
    assert to.getvalue().decode().splitlines()[0] == ",".join(name for (name,) in columns)


@pytest.mark.parametrize("view", ["agents", "v_observations; DROP SCHEMA memory", "V_OBSERVATIONS", ""])
async def test_what_is_no_view_of_ours_is_refused(memory: Memory, view: str) -> None:
    with pytest.raises(InputError, match="there is no view"):
        await memory.admin.export(view, io.BytesIO())
    with pytest.raises(InputError, match="v_imports is of all agents"):
        await memory.admin.export("v_imports", io.BytesIO(), agent_id="ada")


class Full(io.BytesIO):
    def write(self, _: Any) -> int:
        raise OSError(28, "No space left on device")


async def test_disk_that_is_full_here_is_not_the_databases(memory: Memory) -> None:
    await filled(memory)
    with pytest.raises(InputError, match="the rows can't be written: No space left on device"):
        await memory.admin.export("v_observations", Full())
    assert len(await exported(memory, "v_observations")) == len(TEXTS) + 1


@pytest.mark.parametrize("is_closed", [False, True])
async def test_file_that_takes_no_bytes_ends_the_export(memory: Memory, *, is_closed: bool) -> None:
    """The driver waited for ever, whatever the error in the middle of its copy."""
    await filled(memory)
    to: Any = io.BytesIO() if is_closed else io.StringIO()
    if is_closed:
        to.close()
    async with asyncio.timeout(10):
        with pytest.raises((TypeError, ValueError)):
            await memory.admin.export("v_observations", to)
    assert len(await exported(memory, "v_observations")) == 4


def test_file_by_the_command_line_is_whole_and_nobody_elses(database_url: str, tmp_path: Path) -> None:
    memory_sql("observe", TEXTS[1], "--agent", "ada", "--user", "mia", "--url", database_url)
    file = tmp_path / "ada.csv"
    told = memory_sql("admin", "export", "v_observations", file, "--agent", "ada", "--url", database_url)
    assert told.out == f"{file}: 1 row of v_observations\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with file.open(newline="", encoding="utf-8") as read:
        (row,) = csv.DictReader(read)
    assert row["content"] == TEXTS[1]
    memory_sql("admin", "export", "v_nothing", tmp_path / "none.csv", "--url", database_url, code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["ada.csv"]


@pytest.mark.slow
async def test_what_is_withdrawn_is_in_no_view(memory: Memory, llm: Scripted) -> None:
    """Of a forgotten user whom a legal hold covers: neither a word nor a count of what is kept for it alone."""
    agent: dict[str, Any] = {"agent_id": "ada"}
    spoken = [{"id": "1", "role": "user", "content": "I hide my ruby under the mast.", "name": "Ruby"}]
    await memory.add(spoken, **agent, user_id="mia", conversation_id="s")
    await memory.observe("Mia hides her ruby.", **agent, user_id="mia", tags=["ruby"], metadata={"stone": "ruby"})
    scope = await memory.observe("Mia hides a ruby and a pearl.", **agent, user_id="mia")
    llm.then("Mia hides a ruby and a pearl.")
    await memory.scopes.consolidate(**agent, scope_id=scope.scope.id)
    await rows(memory, RETRIEVED)
    await rows(memory, FEEDBACK)
    assert "ruby" in str(await exported(memory, "v_observations"))
    await memory.holds.place(**agent, user_id="mia")
    await memory.forget(Selection(user_id="mia"), **agent)
    for view in VIEWS:
        found = [
            row for row in await exported(memory, view) if scope.id in row.values() or "ruby" in str(row).casefold()
        ]
        assert [row for row in found if row.get("kind") not in ("status", "forget")] == [], view
