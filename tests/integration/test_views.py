"""The views of users, events and latency: their numbers in small stories. The views of runs are in `test_run_views.py`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.db.ddl import VIEWS
from memory_sql.db.principals import service
from memory_sql.db.roles import Roles
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.database import rows, statements
from tests.factories import MONDAY, conversation, message
from tests.fakes import Scripted, extracted
from tests.integration.test_verify import Clock, Life

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
JONAS: dict[str, Any] = {"agent_id": "ada", "user_id": "jonas"}
USERS = """
    SELECT user_id, stands_for, conversations, messages, observations, contributed, groups
    FROM memory.v_users WHERE agent_id = 'ada' ORDER BY user_id"""
SEEN = "SELECT user_id, first_seen_at, last_seen_at FROM memory.v_users WHERE agent_id = 'ada' ORDER BY user_id"
LATENCY = """
    SELECT day, step, items, p50_seconds, p90_seconds, p99_seconds, slowest_seconds
    FROM memory.v_latency WHERE agent_id = 'ada' ORDER BY day, step"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memory(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, Settings(llm="offline"), clock=clock) as opened:
        yield opened


# Messages


TOLD = """
    SELECT number, message_id, role, user_id, speaker, content, formation
    FROM memory.v_messages WHERE agent_id = 'ada' AND conversation_id = 'a' ORDER BY number"""


async def test_messages_show_their_text_while_it_is_kept(memory: Memory, llm: Scripted) -> None:
    said = [message("Hello.", n=1), message("Be kind.", n=2, role="system"), message("Ship.", n=3)]
    await memory.add(said[:2], **MIA, conversation_id="a", group_ids=["harbor"])
    llm.then(extracted(("Ship.", "individual")))
    await memory.conversations.form(agent_id="ada", conversation_id="a")
    await memory.add(said[2:], **JONAS, conversation_id="a")
    assert [(*row[:4], *row[5:]) for row in await rows(memory, TOLD)] == [
        (1, "m1", "user", "mia", "Hello.", "formed"),
        (2, "m2", "system", None, "Be kind.", "skipped"),
        (3, "m3", "user", "jonas", "Ship.", "waiting"),
    ]
    await memory.holds.place(agent_id="ada", user_id="jonas", reason="case 7")
    for user in ("mia", "jonas"):
        await memory.forget(Selection(user_id=user), agent_id="ada")
    found = {row[0]: row[3:6] for row in await rows(memory, TOLD)}
    assert (found[1], found[3]) == ((None, None, None), (None, None, None))
    assert await rows(memory, "SELECT content FROM memory.messages WHERE number = 3") == [("Ship.",)]


async def test_users_see_their_own_messages(
    walled_database: str, roles: Roles, llm: Scripted, settings: Settings
) -> None:
    async with Memory(as_login(walled_database, roles), llm, settings) as walled:
        await walled.add([message("Mia's.", n=1)], **MIA, conversation_id="a")
        await walled.add([message("Jonas's.", n=1)], **JONAS, conversation_id="b")
        for who, seen in ((MIA, "Mia's."), (JONAS, "Jonas's.")):
            async with walled.database.transaction(principal={**who, "conversation_id": None}) as unit:
                assert list(await unit.scalars(text("SELECT content FROM memory.v_messages"))) == [seen]


# Numbers


async def test_no_number_has_more_decimals_than_anybody_reads(memory: Memory, clock: Clock, llm: Scripted) -> None:
    await memory.add(conversation(4), **MIA, conversation_id="a")
    clock.goes_on(seconds=1 / 3)
    llm.then(extracted(("Boats.", "individual")))
    await memory.conversations.form(agent_id="ada", conversation_id="a")
    await memory.models.set_price("scripted", input_per_million=0.7, output_per_million=1.3, currency="EUR")
    for query in ("zebra", "boats", "yak"):
        await memory.search(query, agent_id="ada", user_id="mia")
        await memory.context(agent_id="ada", user_id="mia", message=query)
    await rows(
        memory,
        "INSERT INTO memory.retrievals"
        " SELECT agent_key, current_date, 'search', 'asked', 7, 3, 1.0 / 3, 0.1 FROM memory.agents",
    )
    for view in VIEWS:
        found = await rows(memory, f"SELECT to_jsonb(v)::text FROM memory.{view} v")  # noqa: S608 (ours)
        assert not re.search(r'": -?\d+\.\d{7,}', str(found)), (view, found)


# Users


async def test_user_was_last_seen_when_they_last_spoke(memory: Memory) -> None:
    await memory.add([message("Old.", n=1), message("Older.", n=0)], **MIA, conversation_id="a")
    assert await rows(memory, SEEN) == [("mia", MONDAY, MONDAY + timedelta(minutes=1))]


async def test_users_are_who_wrote_is_remembered_or_belongs_to_a_group(memory: Memory, clock: Clock) -> None:
    await memory.add(conversation(4), **MIA, conversation_id="a", group_ids=["harbor"])
    clock.goes_on(days=1)
    await memory.add([message("Hello.", n=9)], **JONAS, conversation_id="a")
    await memory.observe("Lena sails.", agent_id="ada", user_id="lena")
    await memory.observe("Boats.", **MIA)
    again = [await memory.observe("Tea.", agent_id="ada", group_id="harbor", user_id=user) for user in ("mia", "jonas")]
    assert again[0].id == again[1].id
    await memory.groups.add_member("harbor", agent_id="ada", user_id="nils")
    await memory.groups.remove_member("harbor", agent_id="ada", user_id="nils")
    assert await rows(memory, USERS) == [
        ("jonas", None, 1, 1, 0, 1, 0),
        ("lena", None, 0, 0, 1, 1, 0),
        ("mia", None, 1, 2, 1, 2, 1),
        ("nils", None, 0, 0, 0, 0, 0),
    ]
    first, last, late = (MONDAY + timedelta(minutes=minutes) for minutes in (1, 3, 9))
    assert [row for row in await rows(memory, SEEN) if row[1]] == [("jonas", late, late), ("mia", first, last)]


async def test_id_that_stands_for_another_says_so(memory: Memory) -> None:
    await memory.observe("Boats.", agent_id="ada", user_id="visitor")
    await memory.people.merge(agent_id="ada", user_id="visitor", into_user_id="mia")
    assert [row[:2] for row in await rows(memory, USERS)] == [("visitor", "mia")]
    await memory.people.unmerge(agent_id="ada", user_id="visitor")
    assert [row[:2] for row in await rows(memory, USERS)] == [("visitor", None)]


@pytest.mark.parametrize("held", [False, True])
async def test_who_was_forgotten_is_not_there(memory: Memory, held: bool) -> None:
    """Nor while a legal hold keeps what they said."""
    await memory.add(conversation(4), **MIA, conversation_id="a", group_ids=["harbor"])
    await memory.add([message("Hello.", n=9)], **JONAS, conversation_id="a")
    await memory.observe("Boats.", **MIA)
    if held:
        await memory.holds.place(**MIA)
    await memory.forget(Selection(user_id="mia"), agent_id="ada")
    assert [row[0] for row in await rows(memory, USERS)] == ["jonas"]


async def test_list_of_users_is_that_of_the_view_page_by_page(memory: Memory) -> None:
    await memory.add(conversation(4), **MIA, conversation_id="a", group_ids=["harbor"])
    await memory.add([message("Hello.", n=9)], **JONAS, conversation_id="a")
    for user in ("lena", "visitor", "zoe"):
        await memory.observe("Boats.", agent_id="ada", user_id=user)
    await memory.observe("Tea.", agent_id="bob", user_id="nobody of ada's")
    await memory.people.merge(agent_id="ada", user_id="visitor", into_user_id="mia")
    await memory.forget(Selection(user_id="zoe"), agent_id="ada")
    with statements(memory) as seen:
        listed = [*await memory.people.list(agent_id="ada", limit=3)]
    assert len(seen) == 1
    listed += await memory.people.list(agent_id="ada", after=listed[-1].user_id, limit=3)
    assert [(u.user_id, u.stands_for, u.conversations, u.observations, u.groups) for u in listed] == [
        (user, stands_for, conversations, observations, groups)
        for user, stands_for, conversations, _, observations, _, groups in await rows(memory, USERS)
    ]
    assert [u.last_active_at for u in listed] == [MONDAY, None, MONDAY, None]
    assert list(await memory.people.list(agent_id="ada", after="visitor")) == []
    assert list(await memory.people.list(agent_id="nobody")) == []
    with pytest.raises(InputError, match="limit"):
        await memory.people.list(agent_id="ada", limit=1001)


async def test_agents_are_listed_page_by_page(memory: Memory) -> None:
    for agent in ("c", "a", "b"):
        await memory.observe("Boats.", agent_id=agent, collective=True)
    assert [agent.id for agent in await memory.admin.agents(limit=2)] == ["a", "b"]
    assert [agent.id for agent in await memory.admin.agents(after="b")] == ["c"]


async def test_who_serves_one_agent_sees_no_other(
    walled_database: str, roles: Roles, llm: Scripted, settings: Settings
) -> None:
    async with Memory(as_login(walled_database, roles), llm, settings) as walled:
        assert walled.database.walled
        for agent in ("ada", "bob"):
            await walled.observe("Boats.", agent_id=agent, user_id="mia")
        assert [agent.id for agent in await walled.admin.agents()] == ["ada", "bob"]
        assert [user.observations for user in await walled.people.list(agent_id="bob")] == [1]
        for principal, seen in ((service(None), 2), (service("ada"), 1), ({"user_id": "mia", **NOWHERE}, 0)):
            async with walled.database.transaction(principal=principal) as unit:
                assert len((await unit.execute(text("SELECT 1 FROM memory.v_users"))).all()) == seen
                if seen == 1:
                    assert (await unit.scalars(text("SELECT agent_id FROM memory.agents"))).all() == ["ada"]


NOWHERE: dict[str, Any] = {"agent_id": "nobody", "conversation_id": None}


# Events


async def test_events_name_their_observation_and_scope_and_outlive_them(memory: Memory) -> None:
    boats = await memory.observe("Boats.", **MIA)
    await memory.observations.dispute(boats.id, **MIA, actor="mia", reason="I never said boats.")
    await memory.forget(boats.id, agent_id="ada")
    found = await rows(
        memory,
        "SELECT kind, actor, scope_kind, owner_id, observation_id, v.detail ->> 'to', v::text ~ 'never said'"
        " FROM memory.v_events v WHERE agent_id = 'ada' ORDER BY event_id",
    )
    assert found[0] == ("verification", "mia", "individual", "mia", boats.id, "disputed", False)
    assert [row[0] for row in found[1:]] == ["forget"]


# Latency


async def test_latency_is_from_stored_to_the_first_run_that_read_it(
    memory: Memory, clock: Clock, llm: Scripted
) -> None:
    day = MONDAY.date()
    await memory.add(conversation(2), **MIA, conversation_id="a")
    clock.goes_on(seconds=60)
    await memory.add([*conversation(2, first=3), message("Be kind.", n=9, role="system")], **MIA, conversation_id="a")
    clock.goes_on(seconds=40)
    assert await rows(memory, LATENCY) == []
    llm.then(extracted(("Tea.", "individual")))
    formed = await memory.conversations.form(agent_id="ada", conversation_id="a")
    clock.goes_on(days=1)
    llm.then("Mia drinks tea.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=formed.observations[0].scope.id)
    llm.then(extracted(("Boats.", "individual")))
    await memory.conversations.form(agent_id="ada", conversation_id="a", again=True)
    assert await rows(memory, LATENCY) == [
        (day, "formation", 4, 70.0, 100.0, 100.0, 100.0),
        (day + timedelta(days=1), "consolidation", 1, 86400.0, 86400.0, 86400.0, 86400.0),
    ]


@pytest.mark.slow
async def test_numbers_add_up_after_a_busy_life(database_url: str) -> None:
    life = Life(database_url)
    async with life.memory as memory:
        async for _ in life.chapters():
            pass
        for view, key in (
            ("v_users", "agent_id, user_id"),
            ("v_latency", "agent_id, day, step"),
            ("v_events", "event_id"),
        ):
            (row,) = await rows(memory, f"SELECT count(*), count(DISTINCT ({key})) FROM memory.{view}")  # noqa: S608
            assert row[0] == row[1] > 0
        assert await rows(memory, SUMS) == await rows(memory, COUNTS)


SUMS = "SELECT (SELECT sum(messages) FROM memory.v_users), (SELECT count(*) FROM memory.v_events)"
COUNTS = "SELECT (SELECT count(user_id) FROM memory.messages), (SELECT count(*) FROM memory.events)"
