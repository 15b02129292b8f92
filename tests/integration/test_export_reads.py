"""What the export of a person reads depends on what they have: not on what others have, in use or not."""

from __future__ import annotations

import pytest

from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Scripted
from tests.integration.test_dead_rows import KIM, MIA, SETTINGS, cleaned, pages
from tests.recycling import administer, copy

pytestmark = pytest.mark.direct  # plans on a connection of its own
MOST = 1.3
FEW = 500
WHOSE = ("superseded", "active", "active in a group of hers")
_SAID = (
    """
    INSERT INTO memory.observations
        (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version, related_users)
    SELECT agent_key, scope_id, last_seq + n, format('The tea of day %s was green.', last_seq + n), now(), 'observe', 1,
           ARRAY[:who]
    FROM memory.scopes CROSS JOIN generate_series(1, :many) n WHERE owner = :owner
    """,
    """
    INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id)
    SELECT agent_key, scope_id, last_seq + n, :who
    FROM memory.scopes CROSS JOIN generate_series(1, :many) n WHERE owner = :owner
    """,
    """
    INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, superseded_by)
    SELECT agent_key, scope_id, last_seq + n, 'superseded', 1
    FROM memory.scopes CROSS JOIN generate_series(1, :many) n WHERE owner = :owner AND :superseded
    """,
    "UPDATE memory.scopes SET last_seq = last_seq + :many, last_activity_at = now() WHERE owner = :owner",
)
_CONFIRMED = """
    INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id)
    SELECT agent_key, scope_id, n, 'kim' FROM memory.scopes CROSS JOIN generate_series(10, 100, 10) n WHERE owner = 'g:crew'
"""
_READ = """
    SELECT ((SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'memory')
          + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'memory'))::bigint
"""


async def say(memory: Memory, owner: str, who: str, many: int, superseded: bool = False) -> None:
    given = {"owner": owner, "who": who, "many": many, "superseded": superseded}
    for sql in _SAID:
        await rows(memory, sql, **{name: value for name, value in given.items() if f":{name}" in sql})


async def exported(memory: Memory) -> list[str]:
    """Without the header, which says when."""
    return [line.model_dump_json() async for line in memory.people.export(**KIM)][1:]


async def read(memory: Memory) -> tuple[int, int]:
    """How many pages, and how many rows and entries of indexes, were read up to now."""
    return await pages(memory), int((await rows(memory, _READ))[0][0])


async def compare(url: str, whose: str, many: int) -> None:
    """What an export reads beside so many observations of others and beside few; it tells the same."""
    owner, found, told = "u:mia" if whose in WHOSE[:2] else "g:crew", list[tuple[int, int]](), list[list[str]]()
    async with Memory(url, Scripted(), SETTINGS) as memory:
        for who in (KIM, MIA):
            await memory.observe("Tea is hot.", **who)
            await memory.observe("Tea is served.", **who, group_id="crew")
        await say(memory, "u:kim", "kim", 100)
        await say(memory, "g:crew", "mia", 100)
        await rows(memory, _CONFIRMED)
    for more in (0, FEW, many):
        async with Memory(url, Scripted(), SETTINGS) as memory:
            await say(memory, owner, "mia", more, superseded=whose == "superseded")
        async with cleaned(url), Memory(url, Scripted(), SETTINGS) as memory:
            await exported(memory)  # with its plans at hand
            begun = await read(memory)
            told.append(await exported(memory))
            ended = await read(memory)
            found.append((ended[0] - begun[0], ended[1] - begun[1]))
    assert len(told[0]) > 110
    assert all(lines == told[0] for lines in told)
    (_, alone), (few, _), (beside, at_last) = found
    assert beside <= MOST * few, found  # of pages; tables of a page are read without their indexes
    assert at_last <= MOST * alone, found


@pytest.mark.slow
@pytest.mark.parametrize("whose", WHOSE)
async def test_what_others_have_costs_an_export_nothing(database_url: str, whose: str) -> None:
    await compare(database_url, whose, 3_000)


@pytest.mark.prove
@pytest.mark.parametrize("whose", WHOSE)
async def test_thirty_thousand_of_others_cost_an_export_nothing(server_url: str, template: str, whose: str) -> None:
    name = f"{template}_export"
    url = await copy(server_url, template, name)
    try:
        await compare(url, whose, 30_000)
    finally:
        await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")
