"""Retained messages: whose they are, who sees them, how long their texts are kept, and what stays of them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text as sql_text

from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import conversation, message
from tests.fakes import Scripted, extracted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
SHOWN = (
    "SELECT session_id, message_id FROM memory.retained_messages(:agent, :user, :days, now(), CAST(:as_of AS timestamptz))"
    " ORDER BY session_id, number"
)

CHANGES = sql_text(
    "SELECT n_tup_upd AS updated, n_tup_hot_upd AS in_page FROM pg_stat_xact_user_tables WHERE relname = 'sessions'"
)


async def shown(
    memory: Memory, user: str | None, *, agent: str = "ada", days: float | None = 30, as_of: Any = None
) -> Any:
    return await rows(memory, SHOWN, agent=agent, user=user, days=days, as_of=as_of)


async def visible(memory: Memory, user: str, agent: str = "ada") -> set[tuple[str, str]]:
    found = await rows(
        memory, "SELECT session_id, owner FROM memory.visible_sessions(:agent, :user)", agent=agent, user=user
    )
    return {(session_id, owner) for session_id, owner in found}


# Whose they are, and what is stored with them


async def test_message_knows_its_sessions_user_its_language_and_its_words(memory: Memory) -> None:
    await memory.configure(**ADA, language="german")
    await memory.add([message("Zwei Boote.", n=1), message("Ja.", n=2, user_id="jonas")], **MIA, session_id="s")
    stored = await rows(
        memory, "SELECT owner, language, search_extra, search::text FROM memory.messages ORDER BY number"
    )
    assert stored == [("u:mia", "german", "", "'boot':2 'zwei':1"), ("u:mia", "german", "", "'ja':1")]


async def test_further_words_to_find_a_message_by_are_stored_with_it(memory: Memory) -> None:
    await memory.add([message("Hello")], **MIA, session_id="s")
    await rows(
        memory,
        "SELECT memory.add_messages('ada', 's', 'mia', '{}', CAST(:messages AS jsonb), s.limits, now(), NULL, NULL, NULL)"
        " FROM (SELECT CAST(:limits AS jsonb) AS limits) s",
        messages='[{"id": "m2", "role": "user", "content": "Gate", "cleaned": [], "weight": 1, "eligible": true,'
        ' "search_extra": "gate4711"}]',
        limits='{"formation_messages": 45, "formation_tokens": 1000, "formation_min_messages": 4,'
        ' "formation_cold_minutes": 10, "formation_max_age_minutes": 120}',
    )
    assert await rows(memory, "SELECT search_extra, search::text FROM memory.messages WHERE message_id = 'm2'") == [
        ("gate4711", "'gate':1 'gate4711':2")
    ]


# Who sees them


async def test_who_took_part_sees_a_session_and_no_other_member_of_its_group(memory: Memory) -> None:
    await memory.add([message()], **MIA, session_id="s", group_ids=["harbor"])
    await memory.add([message(n=2)], **JONAS, session_id="t", group_ids=["harbor"])
    await memory.add([message(n=3, user_id="eva")], **JONAS, session_id="t")
    await memory.add([message()], agent_id="bob", user_id="mia", session_id="b")
    assert await visible(memory, "mia") == {("s", "u:mia")}
    assert await visible(memory, "jonas") == await visible(memory, "eva") == {("t", "u:jonas")}
    assert await visible(memory, "mia", "bob") == {("b", "u:mia")}
    assert await visible(memory, "mia", "nobody") == await visible(memory, "nobody") == set()
    assert await shown(memory, None) == []
    assert await shown(memory, "mia") == [("s", "m1")]
    assert await shown(memory, "eva") == [("t", "m2"), ("t", "m3")]


@pytest.mark.parametrize("user", ["mi", "m%", "MIA", "u:mia", "harbor", "{mia}", ""])
async def test_id_that_is_like_a_participants_sees_nothing(memory: Memory, user: str) -> None:
    await memory.add([message()], **MIA, session_id="s", group_ids=["harbor"])
    assert await visible(memory, user) == set()


async def test_user_sees_the_sessions_of_the_ids_that_stand_for_them_and_not_the_other_way_round(
    memory: Memory,
) -> None:
    await memory.add([message()], **MIA, session_id="s")
    await memory.add([message()], **ADA, user_id="anon", session_id="t")
    await memory.merge_users(**ADA, user_id="anon", into_user_id="mia")
    assert await visible(memory, "mia") == {("s", "u:mia"), ("t", "u:anon")}
    assert await visible(memory, "anon") == {("t", "u:anon")}
    await memory.rename(**ADA, kind="user", old="mia", new="maria")
    assert await visible(memory, "maria") == {("s", "u:maria"), ("t", "u:anon")}
    await memory.unmerge_users(**ADA, user_id="anon")
    assert await visible(memory, "maria") == {("s", "u:maria")}
    assert await memory.verify() == []


async def test_search_may_show_only_what_was_said_to_be_remembered(memory: Memory) -> None:
    await memory.add(
        [message("Be kind.", n=1, role="system"), message(n=2), message(n=3, trigger="cron")], **MIA, session_id="s"
    )
    await memory.add([message(n=4)], **MIA, session_id="t", excluded=True)
    assert await shown(memory, "mia") == [("s", "m2")]
    await memory.exclude(**ADA, session_id="t", excluded=False)
    assert await shown(memory, "mia") == [("s", "m2")]  # what was said meanwhile stays out
    await memory.exclude(**ADA, session_id="s")
    assert await shown(memory, "mia") == []


async def test_what_stands_behind_something_quarantined_is_not_shown(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(3), **MIA, session_id="s")
    llm.then(extracted(("Likes boats.", "individual", [1]), ("Likes tea.", "individual", [3])))
    formed = await memory.form(**ADA, session_id="s")
    await memory.quarantine(formed.observations[0].id, **MIA)
    assert await shown(memory, "mia") == [("s", "m2"), ("s", "m3")]
    await memory.release(formed.observations[0].id, **MIA)
    assert await shown(memory, "mia") == [("s", "m1"), ("s", "m2"), ("s", "m3")]


async def test_as_of_shows_what_had_been_stored(memory: Memory) -> None:
    await memory.add([message()], **MIA, session_id="s")
    then = memory.now()
    await memory.add([message(n=2)], **MIA, session_id="s")
    await memory.add([message(n=3)], **MIA, session_id="t")
    assert await shown(memory, "mia", as_of=then) == [("s", "m1")]


async def test_sessions_of_a_user_are_found_by_an_index_whatever_a_query_begins_with(memory: Memory) -> None:
    await memory.add([message()], **MIA, session_id="s")
    for sql in (
        "INSERT INTO memory.sessions (agent_key, session_id, user_id, participants)"
        " SELECT s.agent_key, 'b' || n, 'u' || n % 100, ARRAY['u' || n % 100] FROM memory.sessions s,"
        " generate_series(1, 20000) n",
        "INSERT INTO memory.messages (agent_key, session_id, number, message_id, role, content, weight, said_at, owner)"
        " SELECT agent_key, session_id, 1, 'm', 'user', 'Tea', 1, now(), 'u:' || user_id FROM memory.sessions"
        " WHERE session_id <> 's'",
        "ANALYZE",
    ):
        await rows(memory, sql)
    plan = await rows(memory, "EXPLAIN SELECT * FROM memory.visible_sessions('ada', 'u7')")
    told = "\n".join(line for (line,) in plan)
    assert "Bitmap Index Scan on sessions_participants_idx" in told
    assert "Function Scan" not in told
    named = await rows(
        memory,
        "EXPLAIN SELECT content FROM memory.retained_messages('ada', 'u7', 30, now()) WHERE session_id = 'b7' AND number = 1",
    )
    told = "\n".join(line for (line,) in named)
    assert "Index Scan using sessions_pkey" in told
    assert "Seq Scan on messages" not in told
    assert "SubPlan" not in told  # the ids of the user are looked up once, not for each session


async def test_index_on_participants_leaves_updates_of_a_session_in_their_page(memory: Memory) -> None:
    """A session is written with every message; what changes is in no index but the due one."""
    await memory.add(conversation(3), **MIA, session_id="s")
    async with memory.database.transaction() as unit:
        before = (await unit.execute(CHANGES)).one()
        for n in range(4, 8):
            await memory.add([message(n=n, role="system")], **MIA, session_id="s", session=unit)
        after = (await unit.execute(CHANGES)).one()
    assert (after.updated - before.updated, after.in_page - before.in_page) == (4, 4)
