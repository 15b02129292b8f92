"""Two observations that differ only inside a token are two: an id, a path, a key, code, something quoted."""

from __future__ import annotations

from typing import Any

import pytest

from memory_sql.memory import Memory
from tests.database import rows

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


@pytest.mark.parametrize(
    ("one", "other"),
    [("User id is aB3.", "User id is Ab3."), ("The files are in /tmp/a b.", "The files are in /tmp/a  b.")],
)
async def test_second_one_is_no_duplicate(memory: Memory, one: str, other: str) -> None:
    for text in (one, other, other):
        await memory.observe(text, **MIA)
    assert await rows(memory, "SELECT content FROM memory.observations ORDER BY seq") == [(one,), (other,)]
    assert list(await memory.admin.verify(hashes=True)) == []


@pytest.mark.parametrize("again", ["User id is aB3.", "user ID is  aB3"])
async def test_what_is_set_aside_stays_so_however_it_is_said_again(memory: Memory, again: str) -> None:
    first = await memory.observe("User id is aB3.", **MIA)
    await memory.observations.quarantine(first.id, **MIA)
    await memory.observe(again, **MIA)
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(1,)]
