"""What a host passed to store something also selects it: written as it was passed, not as it is stored."""

from __future__ import annotations

import unicodedata
from typing import Any
from uuid import UUID

import pytest

from memory_sql.domain.selection import Selection
from memory_sql.errors import InvalidIdError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows

ADA: dict[str, Any] = {"agent_id": "ada"}
KEY = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
COMPOSED = "Zoë"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


@pytest.mark.parametrize("tag", ["  Rum ", "dark\trum", "ru\u200bm"])
async def test_tag_is_found_as_it_was_passed(memory: Memory, tag: str) -> None:
    said = await memory.observe("Likes rum.", **ADA, user_id="mia", tags=[tag])
    await memory.observe("Likes tea.", **ADA, user_id="mia", tags=["tea"])
    assert (await memory.forget(Selection(tag=tag), **ADA, dry_run=True)).observations == (said.id,)
    assert (await memory.observations.quarantine(Selection(tag=tag), **ADA)).observations == (said.id,)
    assert (await memory.forget(Selection(tag=tag), **ADA)).observations == (said.id,)


async def test_search_finds_a_tag_however_its_words_are_spaced(memory: Memory) -> None:
    said = await memory.observe("Likes rum.", **ADA, user_id="mia", tags=["dark\t rum"], speaker="Mia  Ek")
    for query in ('rum tag:"dark\t rum"', 'rum from:"Mia  Ek"'):
        found = await memory.search(query, **ADA, user_id="mia")
        assert [one.observation.id for one in found.results] == [said.id]


@pytest.mark.parametrize("key", [str(KEY).upper(), KEY, 5])
async def test_fact_key_is_found_as_it_was_passed(memory: Memory, key: str | int | UUID) -> None:
    said = await memory.observe("Likes rum.", **ADA, user_id="mia", fact_key=key)
    assert (await memory.forget(Selection(fact_key=key), **ADA)).observations == (said.id,)


async def test_query_is_read_without_what_is_not_seen(memory: Memory) -> None:
    said = await memory.observe("Likes ru\u200bm.", **ADA, user_id="mia")
    assert (await memory.forget(Selection(query="ru\u200bm"), **ADA)).observations == (said.id,)


@pytest.mark.parametrize(
    "selection",
    [
        Selection(user_id=DECOMPOSED),
        Selection(conversation_id=DECOMPOSED),
        Selection(group_id=DECOMPOSED),
        Selection(conversation_id="s", message_id=DECOMPOSED),
        Selection(fact_key=DECOMPOSED),
        Selection(user_id=DECOMPOSED, tag="rum"),
    ],
)
async def test_id_that_finds_nothing_is_refused_with_the_way_out(memory: Memory, selection: Selection) -> None:
    """Otherwise it would look as if all had been forgotten, while it stands under the composed form."""
    await memory.observe("Likes rum.", **ADA, user_id=COMPOSED, fact_key=COMPOSED, tags=["rum"])
    for dry_run in (True, False):
        with pytest.raises(InvalidIdError, match=r"pass unicodedata.normalize\('NFC', "):
            await memory.forget(selection, **ADA, dry_run=dry_run)
    if selection.message_id is None:
        with pytest.raises(InvalidIdError, match="normal form C"):
            await memory.observations.quarantine(selection, **ADA)
    assert await rows(memory, "SELECT count(*) FROM memory.events WHERE kind = 'forget'") == [(0,)]


async def test_id_that_finds_nothing_of_any_agent_is_refused(memory: Memory) -> None:
    await memory.observe("Likes rum.", **ADA, user_id=COMPOSED)
    with pytest.raises(InvalidIdError, match="normal form C"):
        await memory.people.forget(DECOMPOSED)
    assert (await memory.people.forget("nobody")).agents == {}


async def test_older_id_that_would_be_refused_now_is_still_found(memory: Memory) -> None:
    said = await memory.observe("Likes rum.", **ADA, user_id="zoe")
    await rows(memory, "UPDATE memory.scopes SET owner = :owner", owner=f"u:{DECOMPOSED}")
    await rows(memory, "UPDATE memory.evidence SET user_id = :id", id=DECOMPOSED)
    assert (await memory.forget(Selection(user_id=DECOMPOSED), **ADA, dry_run=True)).observations == (said.id,)
    assert (await memory.people.forget(DECOMPOSED)).agents["ada"].observations == (said.id,)


def test_commands_refuse_it_as_well(database_url: str) -> None:
    at = ("--url", database_url)
    memory_sql("observe", "Likes rum.", "--agent", "ada", "--user", COMPOSED, *at)
    for whose in (("--agent", "ada"), ("--all-agents",)):
        told = memory_sql("forget", *whose, "--user", DECOMPOSED, "--yes", *at, code=1)
        assert "normal form C" in told.err
