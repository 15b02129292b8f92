"""docs/sqlalchemy.md: each block on a filled database, and the mapped classes that the page describes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, inspect, select
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

import memory_sql
from memory_sql import models
from memory_sql.config import Settings
from memory_sql.db.models import Base
from memory_sql.db.roles import Roles
from memory_sql.db.urls import asyncpg_url
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.database import owners_url
from tests.factories import message
from tests.fakes import Scripted, extracted

PAGE = (Path(__file__).parents[2] / "docs" / "sqlalchemy.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TEXT = "Mia drinks green tea."
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that all blocks together make, as a module."""
    names: dict[str, Any] = {"__name__": "sqlalchemy_page"}
    for block in BLOCKS:
        exec(compile(block, "docs/sqlalchemy.md", "exec", dont_inherit=True), names)
    return names


async def fill(url: str, settings: Settings) -> None:
    """Mia's scope with two observations, one of them superseded, and two versions of a text; a group's; Jonas's."""
    llm = Scripted()
    llm.then(extracted(("Mia likes green tea.", "individual")), TEXT, TEXT)
    async with Memory(url, llm, settings) as memory:
        await memory.add([message("I like green tea.")], **MIA, conversation_id="monday", group_ids=["harbor"])
        await memory.conversations.form(agent_id="ada", conversation_id="monday")
        scope = (await memory.observe("Mia lives in Kiel.", **MIA, fact_key="home")).scope.id
        await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
        await memory.observe("Mia lives in Bremen.", **MIA, fact_key="home")
        await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
        await memory.observe("The demo is in April.", agent_id="ada", group_id="harbor")
        await memory.observe("Jonas is left-handed.", agent_id="ada", user_id="jonas")
        await memory.observe("Bob knows Mia as well.", agent_id="bob", user_id="mia")


@pytest.fixture
async def engine(database_url: str, settings: Settings, page: dict[str, Any]) -> AsyncIterator[AsyncEngine]:
    await fill(database_url, settings)
    engine = create_async_engine(asyncpg_url(owners_url(database_url)))
    async with engine.begin() as connection:
        await connection.run_sync(page["Base"].metadata.create_all)
    yield engine
    await engine.dispose()


@pytest.fixture
async def session(engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(engine) as opened:
        yield opened


async def test_own_table_joins_scopes(page: dict[str, Any], session: AsyncSession) -> None:
    customer = page["Customer"]
    session.add_all([customer(customer_id=name, plan=plan) for name, plan in (("mia", "gold"), ("jonas", "free"))])
    assert await page["texts_by_plan"](session, "gold") == {"mia": TEXT}
    assert await page["texts_by_plan"](session, "free") == {"jonas": None}


@pytest.mark.slow
async def test_own_table_joins_observations_by_their_public_id(page: dict[str, Any], session: AsyncSession) -> None:
    found = await session.scalar(select(models.ObservationRow).where(models.ObservationRow.content.contains("Kiel")))
    assert found is not None
    assert found.observation_id == f"o{found.scope_id}-{found.seq}"
    session.add(page["Customer"](customer_id="mia", plan="gold"))
    await session.flush()
    session.add(page["Bookmark"](observation_id=found.observation_id, customer_id="mia"))
    assert await page["bookmarked"](session, "mia") == ["Mia lives in Kiel."]


@pytest.mark.slow
async def test_a_scope_is_loaded_with_observations_states_and_evidence(
    page: dict[str, Any], engine: AsyncEngine, session: AsyncSession
) -> None:
    sent: list[str] = []
    event.listen(engine.sync_engine, "before_cursor_execute", lambda _c, _x, sql, *_: sent.append(sql))
    assert await page["active"](session, "mia") == {"Mia likes green tea.": 1, "Mia lives in Bremen.": 1}
    assert len([sql for sql in sent if sql.startswith("SELECT")]) == 4
    scope = await page["scope_of"](session, "mia")
    superseded = next(one for one in scope.observations if one.state is not None)
    assert (superseded.content, superseded.state.status) == ("Mia lives in Kiel.", "superseded")


@pytest.mark.slow
async def test_observations_are_counted_by_week(page: dict[str, Any], session: AsyncSession) -> None:
    weeks = await page["by_week"](session)
    assert sum(weeks.values()) == 4
    assert all(monday.weekday() == 0 for monday in weeks)


@pytest.mark.slow
async def test_versions_of_a_text_are_listed(page: dict[str, Any], session: AsyncSession) -> None:
    assert [(number, words) for number, _, words in await page["versions"](session, "mia")] == [(1, 4), (2, 4)]


@pytest.mark.slow
async def test_lineage_leads_to_what_an_observation_was_made_of(page: dict[str, Any], session: AsyncSession) -> None:
    o, s = models.ObservationRow, models.ScopeRow
    made, source = [
        await session.scalar(select(o).join(o.scope).where(s.owner == owner).order_by(o.seq).limit(1))
        for owner in ("g:harbor", "u:jonas")
    ]
    assert made is not None
    assert source is not None
    link = models.LineageRow(agent_key=made.agent_key, scope_id=made.scope_id, seq=made.seq)
    link.source_scope_id, link.source_seq = source.scope_id, source.seq
    session.add(link)
    assert await page["origins"](session) == [(made.observation_id, source.observation_id)]


@pytest.mark.slow
async def test_visible_scopes_are_those_of_the_user(page: dict[str, Any], session: AsyncSession) -> None:
    assert await page["visible"](session, "mia") == ["g:harbor", "u:mia"]
    assert await page["visible"](session, "jonas") == ["u:jonas"]


async def test_behind_walls_a_principal_sees_what_is_theirs(
    page: dict[str, Any], walled_database: str, roles: Roles, settings: Settings
) -> None:
    await fill(walled_database, settings)
    engine = create_async_engine(asyncpg_url(as_login(walled_database, roles)))
    async with AsyncSession(engine) as session:
        assert list(await session.scalars(select(models.ScopeRow.owner))) == []
        assert await page["seen_by"](session, "mia") == ["g:harbor", "u:mia"]
        assert len((await page["scope_of"](session, "mia")).observations) == 3
        await session.rollback()
        assert list(await session.scalars(select(models.ScopeRow.owner))) == []
        assert await page["seen_by"](session, "jonas") == ["u:jonas"]
    await engine.dispose()


@pytest.mark.slow
async def test_what_was_not_loaded_raises(session: AsyncSession) -> None:
    found = await session.scalar(select(models.ObservationRow).limit(1))
    assert found is not None
    with pytest.raises(InvalidRequestError, match="lazy='raise'"):
        _ = found.scope
    with pytest.raises(InvalidRequestError, match="raiseload"):
        _ = found.search


def test_relationships_are_only_for_reading() -> None:
    relationships = [one for mapper in Base.registry.mappers for one in mapper.relationships]
    assert relationships
    assert all(one.viewonly and one.lazy == "raise" for one in relationships)


def test_every_table_is_public_and_on_the_page() -> None:
    tables = {mapper.class_.__name__: mapper for mapper in Base.registry.mappers}
    assert sorted(tables) == models.__all__
    rows = dict(re.findall(r"^\| `(\w+Row)` \|.*\|([^|]*)\|$", PAGE, re.MULTILINE))
    assert {name: set(re.findall(r"`(\w+)`", cells)) for name, cells in rows.items()} == {
        name: set(inspect(mapper.class_).relationships.keys()) for name, mapper in tables.items()
    }


def test_no_name_of_a_table_is_that_of_a_value() -> None:
    assert not set(models.__all__) & set(memory_sql.__all__)
