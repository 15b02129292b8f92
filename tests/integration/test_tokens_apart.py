"""Two observations that differ only inside a token are two: an id, a path, a key, code, something quoted."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from memory_sql.languages.text import former_digest, normal_form
from memory_sql.memory import Memory
from tests.database import rows

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
OLD_HASH = """
    UPDATE memory.observations SET hash_version = 2, content_hash = memory.content_hash(scope_id, decode(:digest, 'hex'))
"""


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
async def test_what_was_set_aside_by_the_form_before_stays_so(memory: Memory, again: str) -> None:
    """Its hash is of a normal form that knew no tokens."""
    first = await memory.observe("User id is aB3.", **MIA)
    await memory.observations.quarantine(first.id, **MIA)
    former = hashlib.sha256(b"user id is ab3").hexdigest()
    await rows(memory, "ALTER TABLE memory.observations DISABLE TRIGGER USER")
    await rows(memory, OLD_HASH, digest=former)
    await rows(memory, "ALTER TABLE memory.observations ENABLE TRIGGER USER")
    await memory.observe(again, **MIA)
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(1,)]


def test_form_before_is_only_known_where_it_was_another() -> None:
    assert former_digest("Mia likes TEA.") is None
    assert former_digest("User id is aB3.") == hashlib.sha256(b"user id is ab3").digest()
    assert normal_form("User id is aB3.") == "user id is aB3"
