"""Retained messages: who owns them, who sees them, how long their texts are kept, and what is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text as sql_text

from memory_sql.config import Settings
from memory_sql.db.locks import lock_agent
from memory_sql.db.principals import service
from memory_sql.domain.results import MaintainResult
from memory_sql.domain.selection import Selection
from memory_sql.errors import LockTimeoutError, NotFoundError, StaleError
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.commands import memory_sql
from tests.database import rows, statements
from tests.factories import MONDAY, conversation, message
from tests.fakes import Parrot, Scripted, extracted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
SHOWN = (
    "SELECT m.conversation_id, m.message_id FROM memory.agents a"
    " CROSS JOIN memory.visible_conversations(:agent, :user, CAST(:as_of AS timestamptz)) v"
    " CROSS JOIN memory.retention_start(a.settings, :days, now()) since"
    " CROSS JOIN LATERAL memory.messages_since(a.agent_key, v.conversation_id, since, CAST(:as_of AS timestamptz)) m"
    " WHERE a.agent_id = :agent ORDER BY m.conversation_id, m.number"
)

CHANGES = sql_text(
    "SELECT n_tup_upd AS updated, n_tup_hot_upd AS in_page FROM pg_stat_xact_user_tables WHERE relname = 'conversations'"
)


async def shown(
    memory: Memory, user: str | None, *, agent: str = "ada", days: float | None = 30, as_of: Any = None
) -> Any:
    return await rows(memory, SHOWN, agent=agent, user=user, days=days, as_of=as_of)


async def visible(memory: Memory, user: str, agent: str = "ada") -> set[tuple[str, str]]:
    found = await rows(
        memory,
        "SELECT conversation_id, 'u:' || user_id FROM memory.visible_conversations(:agent, :user)",
        agent=agent,
        user=user,
    )
    return {(conversation_id, owner) for conversation_id, owner in found}


# Whose they are, and what is stored with them


async def test_message_knows_its_conversations_user_its_language_and_its_words(memory: Memory) -> None:
    await memory.configure(**ADA, language="german")
    await memory.add([message("Zwei Boote.", n=1), message("Ja.", n=2, user_id="jonas")], **MIA, conversation_id="s")
    stored = await rows(
        memory, "SELECT owner, language, search_extra, search::text FROM memory.messages ORDER BY number"
    )
    assert stored == [("u:mia", "german", "", "'boot' 'zwei'"), ("u:mia", "german", "", "'ja'")]


async def test_further_words_to_find_a_message_by_are_stored_with_it(memory: Memory) -> None:
    await memory.add([message("Hello")], **MIA, conversation_id="s")
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
        ("gate4711", "'gate' 'gate4711'")
    ]


# Who sees them


async def test_who_took_part_sees_a_conversation_and_no_other_member_of_its_group(memory: Memory) -> None:
    await memory.add([message()], **MIA, conversation_id="s", group_ids=["harbor"])
    await memory.add([message(n=2)], **JONAS, conversation_id="t", group_ids=["harbor"])
    await memory.add([message(n=3, user_id="eva")], **JONAS, conversation_id="t")
    await memory.add([message()], agent_id="bob", user_id="mia", conversation_id="b")
    assert await visible(memory, "mia") == {("s", "u:mia")}
    assert await visible(memory, "jonas") == await visible(memory, "eva") == {("t", "u:jonas")}
    assert await visible(memory, "mia", "bob") == {("b", "u:mia")}
    assert await visible(memory, "mia", "nobody") == await visible(memory, "nobody") == set()
    assert await shown(memory, None) == []
    assert await shown(memory, "mia") == [("s", "m1")]
    assert await shown(memory, "eva") == [("t", "m2"), ("t", "m3")]


@pytest.mark.parametrize("user", ["mi", "m%", "MIA", "u:mia", "harbor", "{mia}", ""])
async def test_id_that_is_like_a_participants_sees_nothing(memory: Memory, user: str) -> None:
    await memory.add([message()], **MIA, conversation_id="s", group_ids=["harbor"])
    assert await visible(memory, user) == set()


async def test_user_sees_the_conversations_of_the_ids_that_stand_for_them_and_not_the_other_way_round(
    memory: Memory,
) -> None:
    await memory.add([message()], **MIA, conversation_id="s")
    await memory.add([message()], **ADA, user_id="anon", conversation_id="t")
    await memory.people.merge(**ADA, user_id="anon", into_user_id="mia")
    assert await visible(memory, "mia") == {("s", "u:mia"), ("t", "u:anon")}
    assert await visible(memory, "anon") == {("t", "u:anon")}
    await memory.people.rename(**ADA, kind="user", old="mia", new="maria")
    assert await visible(memory, "maria") == {("s", "u:maria"), ("t", "u:anon")}
    await memory.people.unmerge(**ADA, user_id="anon")
    assert await visible(memory, "maria") == {("s", "u:maria")}
    assert await memory.admin.verify() == []


async def test_search_may_show_only_what_was_said_to_be_remembered(memory: Memory) -> None:
    await memory.add(
        [message("Be kind.", n=1, role="system"), message(n=2), message(n=3, trigger="cron")],
        **MIA,
        conversation_id="s",
    )
    await memory.add([message(n=4)], **MIA, conversation_id="t", excluded=True)
    assert await shown(memory, "mia") == [("s", "m2")]
    await memory.conversations.exclude(**ADA, conversation_id="t", excluded=False)
    assert await shown(memory, "mia") == [("s", "m2")]  # what was said meanwhile stays out
    await memory.conversations.exclude(**ADA, conversation_id="s")
    assert await shown(memory, "mia") == []


async def test_what_stands_behind_something_quarantined_is_not_shown(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(3), **MIA, conversation_id="s")
    llm.then(extracted(("Likes boats.", "individual", [1]), ("Likes tea.", "individual", [3])))
    formed = await memory.conversations.form(**ADA, conversation_id="s")
    await memory.observations.quarantine(formed.observations[0].id, **MIA)
    assert await shown(memory, "mia") == [("s", "m2"), ("s", "m3")]
    await memory.observations.unquarantine(formed.observations[0].id, **MIA)
    assert await shown(memory, "mia") == [("s", "m1"), ("s", "m2"), ("s", "m3")]


async def test_as_of_shows_what_had_been_stored(memory: Memory) -> None:
    await memory.add([message()], **MIA, conversation_id="s")
    then = memory.now()
    await memory.add([message(n=2)], **MIA, conversation_id="s")
    await memory.add([message(n=3)], **MIA, conversation_id="t")
    assert await shown(memory, "mia", as_of=then) == [("s", "m1")]


CROWD = (
    "INSERT INTO memory.agents (agent_id) SELECT 'agent' || n FROM generate_series(1, 500) n",
    "INSERT INTO memory.conversations (agent_key, conversation_id, user_id, participants)"
    " SELECT agent_key, 'mias', 'mia', '{mia}' FROM memory.agents WHERE agent_id <> 'ada'",
    "INSERT INTO memory.conversations (agent_key, conversation_id, user_id, participants)"
    " SELECT agent_key, 'b' || n, 'u' || n, ARRAY['u' || n] FROM memory.agents, generate_series(1, :others) n"
    " WHERE agent_id = 'ada'",
    "INSERT INTO memory.messages (agent_key, conversation_id, number, message_id, role, content, weight, said_at, owner)"
    " SELECT agent_key, conversation_id, 1, 'm', 'user', 'Tea', 1, now(), 'u:' || user_id FROM memory.conversations"
    " WHERE conversation_id <> 's'",
    "ANALYZE",
)
READ = (
    "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_xact_user_tables"
    " WHERE schemaname = 'memory' AND relname = 'conversations'"
)


ONE_TOKEN = (
    "CREATE OR REPLACE FUNCTION memory.user_tokens(p_agent bigint, p_users text[]) RETURNS bigint[]"
    " LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN ARRAY[1::bigint]"
)


async def plan_of(memory: Memory, sql: str, **parameters: Any) -> str:
    return "\n".join(line for (line,) in await rows(memory, f"EXPLAIN {sql}", **parameters))


@pytest.mark.slow
@pytest.mark.parametrize("others", [2_000, 40_000])
async def test_conversations_of_a_user_are_found_by_an_index_however_many_others_there_are(
    memory: Memory, others: int
) -> None:
    """Those of other users of the agent, and those of users of other agents who go by the same id."""
    await memory.add([message("Tea.")], **MIA, conversation_id="s")
    for sql in CROWD:
        await rows(memory, sql, **({"others": others} if ":others" in sql else {}))
    told = await plan_of(memory, "SELECT * FROM memory.visible_conversations('ada', 'mia')")
    assert "Bitmap Index Scan on conversations_participants_idx" in told
    assert "conversations_pkey" not in told
    assert "Function Scan" not in told.replace("Function Scan on unnest", "")
    async with memory.database.transaction() as unit:
        await memory.search("tea", **MIA, session=unit)  # planning looks at the ends of indexes
        before = await unit.scalar(sql_text(READ))
        found = await memory.search("tea", **MIA, session=unit)
        assert await unit.scalar(sql_text(READ)) - before == 1
    assert [hit.message.conversation_id for hit in found.messages] == ["s"]


async def test_named_conversation_and_message_are_found_by_their_keys(memory: Memory) -> None:
    await memory.add([message()], **MIA, conversation_id="s")
    for sql in CROWD:
        await rows(memory, sql, **({"others": 500} if ":others" in sql else {}))
    told = await plan_of(
        memory,
        "SELECT m.content FROM memory.visible_conversations('ada', 'u7', NULL, 'b7') v"
        " CROSS JOIN LATERAL memory.messages_since(v.agent_key, v.conversation_id, '-infinity', NULL) m WHERE m.number = 1",
    )
    assert "Index Scan using conversations_pkey" in told
    assert "Index Scan using messages_pkey" in told
    assert "Seq Scan on messages" not in told


@pytest.mark.open
async def test_users_whose_tokens_are_the_same_see_nothing_of_each_other(memory: Memory) -> None:
    await memory.add([message()], **MIA, conversation_id="s")
    await memory.add([message()], **JONAS, conversation_id="t")
    await memory.add([message()], agent_id="bob", user_id="mia", conversation_id="b")
    async with memory.database.transaction() as unit:
        await unit.execute(sql_text("DROP INDEX memory.conversations_participants_idx"))
        await unit.execute(sql_text(ONE_TOKEN))
        seen = await unit.execute(sql_text("SELECT conversation_id FROM memory.visible_conversations('ada', 'mia')"))
        assert [row.conversation_id for row in seen] == ["s"]
        found = await memory.search("harbour", **MIA, session=unit)
        assert {hit.message.conversation_id for hit in found.messages} == {"s"}
        await unit.rollback()


async def test_index_on_participants_leaves_updates_of_a_conversation_in_their_page(memory: Memory) -> None:
    """A conversation is written with every message; what changes is in no index but the due one."""
    await memory.add(conversation(3), **MIA, conversation_id="s")
    async with memory.database.transaction() as unit:
        before = (await unit.execute(CHANGES)).one()
        for n in range(4, 8):
            await memory.add([message(n=n, role="system")], **MIA, conversation_id="s", session=unit)
        after = (await unit.execute(CHANGES)).one()
    assert (after.updated - before.updated, after.in_page - before.in_page) == (4, 4)


# Reading them


async def test_messages_are_listed_newest_first_page_by_page(memory: Memory) -> None:
    await memory.add(conversation(4), **MIA, conversation_id="s")
    await memory.add([message("Late.", n=9, name="Jo", user_id="jonas")], **MIA, conversation_id="t")
    first = await memory.conversations.messages(**MIA, limit=2)
    assert [(m.conversation_id, m.id) for m in first] == [("t", "m9"), ("s", "m4")]
    assert first[0].model_dump() == {
        "conversation_id": "t", "id": "m9", "number": 1, "role": "user", "speaker": "Jo", "user_id": "jonas",
        "content": "Late.", "said_at": MONDAY + timedelta(minutes=9), "given_at": None,
    }  # fmt: skip
    rest = await memory.conversations.messages(**MIA, before=first[-1])
    assert [m.id for m in rest] == ["m3", "m2", "m1"]
    assert [m.id for m in await memory.conversations.messages(**MIA, conversation_id="t")] == ["m9"]
    assert [m.id for m in await memory.conversations.messages(**JONAS)] == ["m9"]
    assert await memory.conversations.messages(**JONAS, conversation_id="s") == []
    assert await memory.conversations.messages(agent_id="nobody", user_id="mia") == []


async def test_messages_said_at_one_moment_stand_on_one_page_only(memory: Memory) -> None:
    at_once = [{**message(n=n), "created_at": MONDAY} for n in range(1, 6)]
    for session in ("a", "b"):
        await memory.add(at_once, **MIA, conversation_id=session)
    seen: list[Any] = []
    while page := await memory.conversations.messages(**MIA, limit=3, before=seen[-1] if seen else None):
        seen += page
    assert [(m.conversation_id, m.number) for m in seen] == [(s, n) for s in "ba" for n in range(5, 0, -1)]


async def test_messages_are_one_statement(memory: Memory) -> None:
    await memory.add([message()], **MIA, conversation_id="s")
    with statements(memory) as sent:
        await memory.conversations.messages(**MIA)
    assert len(sent) == 1


async def test_observation_leads_to_its_messages_that_the_user_may_see(memory: Memory, llm: Scripted) -> None:
    await memory.configure(**ADA, shared_conversations=True)
    await memory.add(conversation(3), **MIA, conversation_id="s", group_ids=["harbor"])
    llm.then(extracted(("Boats.", "group_1", [1, 3])))
    (boats,) = (await memory.conversations.form(**ADA, conversation_id="s")).observations
    await memory.add([message("Boats.", n=7)], **JONAS, conversation_id="t", group_ids=["harbor"])
    llm.then(extracted(("Boats.", "group_1", [1])))
    await memory.conversations.form(**ADA, conversation_id="t")
    assert [(m.conversation_id, m.id) for m in await memory.observations.sources(boats.id, **MIA)] == [
        ("s", "m1"),
        ("s", "m3"),
    ]
    assert [(m.conversation_id, m.id) for m in await memory.observations.sources(boats.id, **JONAS)] == [("t", "m7")]
    assert [m.id for m in await memory.observations.sources(boats.id, **MIA, limit=1)] == ["m3"]
    stated = await memory.observe("Tea.", **MIA)
    assert await memory.observations.sources(stated.id, **MIA) == ()
    with pytest.raises(NotFoundError):
        await memory.observations.sources(stated.id, **JONAS)


# For how long


class Clock:
    now = MONDAY

    def __call__(self) -> datetime:
        return self.now

    def goes_on(self, days: float) -> None:
        self.now += timedelta(days=days)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def timed(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    """On a clock that a test may set on; looks into its own work at the end."""
    async with Memory(database_url, llm, Settings(llm="offline"), clock=clock) as opened:
        yield opened
        assert await opened.admin.verify() == []


STUBS = "SELECT conversation_id, message_id FROM memory.messages WHERE content IS NULL ORDER BY conversation_id, number"


async def stubs(memory: Memory) -> list[str]:
    return [f"{conversation_id}:{message_id}" for conversation_id, message_id in await rows(memory, STUBS)]


async def test_text_goes_when_its_time_is_over_and_the_message_stays_known(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    said = [message("My ruby is red.", n=1, name="Mia"), message("Noted.", n=2, role="assistant")]
    await timed.add(said, **MIA, conversation_id="s")
    await timed.add([{"role": "user", "content": "Again."}], **MIA, conversation_id="s", idempotency_key="k")
    await rows(timed, "UPDATE memory.messages SET search_extra = 'rubin'")
    llm.then(extracted(("Likes red.", "individual", [1])))
    (red,) = (await timed.conversations.form(**ADA, conversation_id="s")).observations
    epochs = await rows(timed, "SELECT epoch FROM memory.conversations UNION ALL SELECT epoch FROM memory.scopes")
    clock.goes_on(days=30)
    assert await timed.work.maintain() == MaintainResult(messages=0, complete=True)  # 30 days are not over at their end
    assert len(await timed.conversations.messages(**MIA)) == 3
    clock.goes_on(days=0.001)
    assert await timed.conversations.messages(**MIA) == []  # also before the sweep
    assert await timed.observations.sources(red.id, **MIA) == ()
    assert await timed.work.maintain() == MaintainResult(messages=3, complete=True)

    kept = await rows(
        timed, "SELECT content, speaker, search_extra, search::text, role FROM memory.messages ORDER BY number"
    )
    assert kept == [(None, None, "", None, "user"), (None, None, "", None, "assistant"), (None, None, "", None, "user")]
    assert "ruby" not in str(await rows(timed, "SELECT t::text FROM memory.messages t"))
    assert (await timed.observations.get(red.id, **MIA)).source.message_ids == ("m1",)
    assert await rows(timed, "SELECT number FROM memory.evidence") == [(1,)]
    assert (
        await rows(timed, "SELECT epoch FROM memory.conversations UNION ALL SELECT epoch FROM memory.scopes") == epochs
    )
    assert await rows(timed, "SELECT text_since FROM memory.conversations") == [(None,)]
    assert (await timed.add(said, **MIA, conversation_id="s")).duplicates == 2
    again = await timed.add([{"role": "user", "content": "Again."}], **MIA, conversation_id="s", idempotency_key="k")
    assert (again.accepted, again.duplicates) == (0, 1)
    assert await timed.work.maintain() == MaintainResult(messages=0, complete=True)
    await timed.add([message("New.", n=9)], **MIA, conversation_id="s")
    assert [m.id for m in await timed.conversations.messages(**MIA)] == ["m9"]


async def test_text_stays_until_it_has_been_formed_and_goes_where_it_never_will_be(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    await timed.add([message("Be kind.", n=1, role="system"), *conversation(3, first=2)], **MIA, conversation_id="s")
    await timed.add(conversation(2), **MIA, conversation_id="x")
    await timed.add([message(n=3)], **MIA, conversation_id="x", excluded=True)
    clock.goes_on(days=31)
    assert (await timed.work.maintain()).messages == 4
    assert await stubs(timed) == ["s:m1", "x:m1", "x:m2", "x:m3"]
    assert await timed.conversations.messages(**MIA) == []  # over, though its text is still there
    llm.then(extracted())
    assert (await timed.conversations.form(**ADA, conversation_id="s")).messages == 4
    assert "Turn 4" in str(llm.requests[0])
    await timed.conversations.exclude(**ADA, conversation_id="x", excluded=False)
    assert (
        await timed.conversations.form(**ADA, conversation_id="x")
    ).messages == 3  # of which nothing is left to be asked about
    assert (await timed.work.maintain()).messages == 3


@pytest.mark.parametrize("days", [30, None, 0])
async def test_agents_own_setting_goes_before_the_process(
    database_url: str, llm: Scripted, clock: Clock, days: float | None
) -> None:
    own: dict[str, Any] = {"thirty": 30, "ever": "forever", "none": 0, "default": None}
    async with Memory(database_url, llm, Settings(llm="offline", message_retention_days=days), clock=clock) as memory:
        for agent, given in own.items():
            await memory.configure(agent_id=agent, message_retention_days=given)
            await memory.add(
                [message(role="system"), message(n=2)], agent_id=agent, user_id="mia", conversation_id=agent
            )
        expected = {"thirty": 30, "ever": None, "none": 0, "default": days}
        for later in (1, 31):
            clock.goes_on(days=later)
            for agent, kept in expected.items():
                over = kept is not None and kept < (1 if later == 1 else 32)
                assert len(await memory.conversations.messages(agent_id=agent, user_id="mia")) == (not over), (
                    agent,
                    later,
                )
        await memory.work.maintain()
        gone = {f"{agent}:m1" for agent, kept in expected.items() if kept is not None}
        assert set(await stubs(memory)) == gone  # only what is skipped: nothing has been formed
        assert await memory.admin.settings(agent_id="ever") == {"message_retention_days": None}
        await memory.configure(agent_id="ever", message_retention_days=None)
        assert await memory.admin.settings(agent_id="ever") == {}


async def test_nothing_is_kept_longer_than_it_takes_to_form_where_retention_is_off(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    await timed.configure(**ADA, message_retention_days=0, formation_window_messages=2)
    await timed.add(conversation(3), **MIA, conversation_id="s")
    await timed.add(conversation(1), **MIA, conversation_id="t")
    await timed.holds.place(**ADA, conversation_id="t")
    clock.goes_on(days=0.001)
    assert await timed.conversations.messages(**MIA) == []
    llm.then(extracted(("Boats.", "individual")), extracted())
    await timed.conversations.form(**ADA, conversation_id="s")
    assert await stubs(timed) == ["s:m1", "s:m2", "s:m3"]
    assert "Turn 3" in str(llm.requests[1])
    llm.then(extracted())
    await timed.conversations.form(**ADA, conversation_id="t")
    assert await stubs(timed) == ["s:m1", "s:m2", "s:m3"]


@pytest.mark.parametrize(("process", "before", "after"), [(30, None, 0), (0, "forever", None), (0, None, "forever")])
async def test_retention_that_changes_while_the_model_answers(
    database_url: str, process: float, before: Any, after: Any
) -> None:
    """It is formed anew, as if the change had come first: the sweep after that change has passed over it."""
    parrot, settings = Parrot(), Settings(llm="offline", message_retention_days=process)

    async def change() -> None:
        await memory.configure(**ADA, message_retention_days=after)
        await memory.work.maintain()

    async with Memory(database_url, parrot, settings) as memory:
        await memory.configure(**ADA, message_retention_days=before)
        await memory.add(conversation(1), **MIA, conversation_id="s")
        parrot.meanwhile = change
        with pytest.raises(StaleError):
            await memory.conversations.form(**ADA, conversation_id="s")
        assert await stubs(memory) == []
        await memory.conversations.form(**ADA, conversation_id="s")
        assert await stubs(memory) == ([] if after == "forever" else ["s:m1"])


async def test_retention_is_that_of_the_agent_when_the_answer_is_applied(
    database_url: str,
) -> None:
    """Whoever changed it at the moment at which the conversation was taken didn't see that it was being formed."""
    parrot, ends = Parrot(), """UPDATE memory.agents SET settings = '{"message_retention_days": 0}'"""
    async with Memory(database_url, parrot, Settings(llm="offline")) as memory:
        await memory.add(conversation(1), **MIA, conversation_id="s")
        parrot.meanwhile = lambda: rows(memory, ends)
        await memory.conversations.form(**ADA, conversation_id="s")
        assert await stubs(memory) == ["s:m1"]


async def test_whoever_has_locked_the_agent_lets_no_text_stay(database_url: str) -> None:
    settings = Settings(llm="offline", message_retention_days=0, lock_timeout_seconds=0.2)
    async with Memory(database_url, Parrot(), settings) as memory:
        await memory.add(conversation(1), **MIA, conversation_id="s")
        async with memory.database.transaction(principal=service("ada")) as unit:
            await lock_agent(unit, 1)
            with pytest.raises(LockTimeoutError):
                await memory.conversations.form(**ADA, conversation_id="s")
        await memory.conversations.form(**ADA, conversation_id="s")
        assert await stubs(memory) == ["s:m1"]


@pytest.mark.parametrize(
    ("held", "kept"),
    [
        ({"user_id": "mia"}, ["s:m1", "s:m2"]),
        ({"user_id": "jonas"}, ["s:m3"]),
        ({"conversation_id": "s"}, ["s:m1", "s:m2", "s:m3"]),
        ({"group_id": "harbor"}, ["s:m1", "s:m2", "s:m3"]),
        ({"observation_id": "boats"}, ["s:m2"]),
    ],
    ids=["user", "other user", "conversation", "group", "observation"],
)
async def test_what_a_hold_covers_keeps_its_text_until_it_is_released(
    timed: Memory, llm: Scripted, clock: Clock, held: dict[str, Any], kept: list[str]
) -> None:
    talk = [message(n=1), message(n=2), message(n=3, user_id="jonas")]
    await timed.add(talk, **MIA, conversation_id="s", group_ids=["harbor"])
    llm.then(extracted(("Boats.", "individual_P1", [2])))
    (boats,) = (await timed.conversations.form(**ADA, conversation_id="s")).observations
    target: dict[str, Any] = {name: boats.id if value == "boats" else value for name, value in held.items()}
    hold = await timed.holds.place(**ADA, **target)
    clock.goes_on(days=31)
    everything = {"s:m1", "s:m2", "s:m3"}
    assert (await timed.work.maintain()).messages == 3 - len(kept)
    assert set(await stubs(timed)) == everything - {*kept}
    assert await timed.conversations.messages(**MIA) == []  # held is not shown
    await timed.holds.release(hold.hold_id, **ADA)
    assert (await timed.work.maintain()).messages == len(kept)
    assert set(await stubs(timed)) == everything


async def test_sweep_goes_on_in_batches_past_what_has_to_stay(database_url: str, llm: Scripted, clock: Clock) -> None:
    settings = Settings(llm="offline", maintenance_batch=2)
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        for n in range(5):  # the first two have nothing that may go
            role = "user" if n < 2 else "system"
            await memory.add([message(n=i, role=role) for i in range(5)], **MIA, conversation_id=f"s{n}")
        await memory.add([message(role="system")], agent_id="bob", user_id="mia", conversation_id="b")
        clock.goes_on(days=31)
        assert await memory.work.maintain(agent_id="nobody") == MaintainResult(messages=0, complete=True)
        assert await memory.work.maintain(limit=3) == MaintainResult(messages=3, complete=False)
        assert await memory.work.maintain(limit=1) == MaintainResult(messages=1, complete=False)
        with statements(memory) as sent:
            assert await memory.work.maintain(agent_id="ada") == MaintainResult(messages=11, complete=True)
        batches = len([one for one in sent if "end_retention" in one])
        # s0 and s1, which have to stay; the rest of s2; s3; s4; then nothing is left
        assert batches == 2 + 1 + 3 + 3 + 1
        assert await memory.work.maintain() == MaintainResult(messages=1, complete=True)
        assert len(await stubs(memory)) == 16
        assert await memory.admin.verify() == []


@pytest.mark.parametrize("keeps", [False, True])
async def test_each_message_of_a_long_conversation_is_looked_at_once(
    database_url: str, llm: Scripted, clock: Clock, keeps: bool
) -> None:
    settings = Settings(llm="offline", maintenance_batch=10, keep_verbatim=keeps)
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        await memory.add([message(n=n, role="system") for n in range(60)], **MIA, conversation_id="s")
        await memory.observe("Mia takes the boat.", **MIA, category="decision", confidence=0.9)
        await rows(
            memory,
            "INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number)"
            " SELECT agent_key, scope_id, seq, 's', n FROM memory.observations CROSS JOIN generate_series(1, 45) n",
        )
        clock.goes_on(days=31)
        with statements(memory) as sent:
            assert (await memory.work.maintain()).messages == (15 if keeps else 60)
        assert (
            sum("end_retention" in one for one in sent) == 6 + 1 + 1
        )  # the last ones find no message, and no conversation
        written = "SELECT max(n) FROM (SELECT count(*) AS n FROM memory.messages GROUP BY xmin) m"
        assert await rows(memory, written) == [(10,)]
        marked = "SELECT count(*) FROM memory.messages WHERE verbatim AND content IS NOT NULL"
        assert await rows(memory, marked) == [(45 if keeps else 0,)]


async def test_sweep_passes_over_what_somebody_works_on(timed: Memory, clock: Clock) -> None:
    for session in ("s", "t"):
        await timed.add([message(role="system")], **MIA, conversation_id=session)
    await timed.add([message(role="system")], agent_id="bob", user_id="mia", conversation_id="b")
    clock.goes_on(days=31)
    async with timed.database.transaction() as other:
        await timed.add([message(n=2)], **MIA, conversation_id="s", session=other)
        await timed.holds.place(agent_id="bob", conversation_id="b", session=other)
        assert await timed.work.maintain() == MaintainResult(messages=1, complete=True)
    assert await stubs(timed) == ["t:m1"]
    assert (await timed.work.maintain()).messages == 1
    assert await stubs(timed) == ["s:m1", "t:m1"]  # what is held since stays


async def test_formation_under_way_is_not_refused_by_a_sweep(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await timed.add(
        [message("Be kind.", n=1, role="system"), message("I like boats.", n=2)], **MIA, conversation_id="s"
    )
    clock.goes_on(days=31)
    swept: list[int] = []

    async def meanwhile(_: object) -> str:
        swept.append((await timed.work.maintain()).messages)
        return extracted(("Likes boats.", "individual"))

    llm.then(meanwhile)
    formed = await timed.conversations.form(**ADA, conversation_id="s")
    assert swept == [1]
    assert [o.content for o in formed.observations] == ["Likes boats."]
    assert await stubs(timed) == ["s:m1"]


@pytest.mark.slow
async def test_sweeps_and_writers_at_once_neither_wait_for_one_another_for_ever_nor_lose_anything(
    database_url: str,
) -> None:
    parrot = Parrot()
    settings = Settings(llm="offline", message_retention_days=0, maintenance_batch=3, pool_size=12)
    async with Memory(database_url, parrot, settings) as memory:

        async def form(n: int) -> None:
            formed = None
            while formed is None:
                with suppress(StaleError):  # a forgetting took what the model was shown
                    formed = await memory.conversations.form(**ADA, conversation_id=f"s{n}")

        async def live(n: int) -> None:
            for turn in range(4):
                await memory.add(
                    [message(f"Boat {n} {turn}.", n=turn)], **MIA, conversation_id=f"s{n}", group_ids=["g"]
                )
                await form(n)
            if n % 3 == 0:
                await memory.forget(Selection(conversation_id=f"s{n}"), **ADA, wait=False)

        async def sweep() -> None:
            for _ in range(20):
                await memory.work.maintain()

        async with asyncio.timeout(60):
            await asyncio.gather(*(live(n) for n in range(6)), sweep(), sweep())
        await memory.work.maintain()
        assert len(await stubs(memory)) == 24
        contents = {content for (content,) in await rows(memory, "SELECT content FROM memory.observations")}
        assert contents == {f"Boat {n} {turn}." for n in (1, 2, 4, 5) for turn in range(4)}
        assert await memory.admin.verify() == []


async def test_worker_ends_retention_at_once_and_then_again_and_again(
    database_url: str, llm: Scripted, clock: Clock
) -> None:
    async def has_stubs(memory: Memory, count: int) -> None:
        async with asyncio.timeout(30):
            while len(await stubs(memory)) < count:  # noqa: ASYNC110 (no event tells us)
                await asyncio.sleep(0.01)

    settings = Settings(llm="offline", maintenance_minutes=0.001)
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        await memory.add([message(role="system")], **MIA, conversation_id="s")
        clock.goes_on(days=31)
        stop = asyncio.Event()
        working = asyncio.create_task(Worker(memory).run(stop))
        await has_stubs(memory, 1)
        await memory.add([message(n=2, role="system")], **MIA, conversation_id="s")
        clock.goes_on(days=31)
        await has_stubs(memory, 2)
        stop.set()
        await working
        await memory.add([message(n=3, role="system")], **MIA, conversation_id="s")
        clock.goes_on(days=31)
        await Worker(memory).run_once()
        assert len(await stubs(memory)) == 3


# What is forgotten, and what it leaves


async def test_forgetting_takes_the_words_that_a_message_is_found_by(memory: Memory) -> None:
    await memory.add([message("My ruby."), message("My boat.", n=2, user_id="jonas")], **MIA, conversation_id="s")
    await rows(memory, "UPDATE memory.messages SET search_extra = 'rubin'")
    await memory.forget(Selection(conversation_id="s", message_id="m1"), **ADA)
    found = await rows(memory, "SELECT content, search_extra, search::text FROM memory.messages ORDER BY number")
    assert found == [(None, "", None), ("My boat.", "rubin", "'boat' 'rubin'")]
    assert [m.id for m in await memory.conversations.messages(**MIA)] == ["m2"]
    assert await memory.admin.verify() == []


# From the command line


@pytest.mark.slow
def test_commands_list_messages_and_end_their_retention(database_url: str) -> None:
    at: tuple[object, ...] = ("--url", database_url)
    mia: tuple[object, ...] = ("--agent", "ada", "--user", "mia", *at)
    llm = Scripted(extracted(("Likes tea.", "individual")))

    async def fill() -> str:
        settings = Settings(llm="offline", message_retention_days=None)
        async with Memory(database_url, llm, settings, clock=Clock()) as memory:
            said = [message("Be kind.", role="system"), message("Tea.\u202e!", n=2, name="Mia")]
            await memory.add(said, **MIA, conversation_id="s")
            await memory.configure(**ADA, message_retention_days="forever")
            return (await memory.conversations.form(**ADA, conversation_id="s")).observations[0].id

    tea = asyncio.run(fill())
    assert memory_sql("conversation", "messages", *mia).out == "s  m2  2026-03-02 09:02 UTC  Mia: Tea.!\n"
    assert memory_sql("conversation", "messages", *mia, "--conversation", "s", "--json").value["id"] == "m2"
    assert memory_sql("observation", "sources", tea, *mia, "--json").value["content"] == "Tea.!"
    assert memory_sql("conversation", "messages", *mia, "--conversation", "t").out == "no messages\n"
    assert "no observation o9-9" in memory_sql("observation", "sources", "o9-9", *mia, code=1).err
    assert 'message_retention_days = "forever"' in memory_sql("admin", "settings", "--agent", "ada", *at).out
    assert memory_sql("work", "maintain", *at).out == "0 messages lost their texts\n"
    memory_sql("configure", "--agent", "ada", "--set", "message_retention_days=0.5", *at)
    assert memory_sql("work", "maintain", "--limit", 1, *at).out == "1 message lost its text; there may be more\n"
    assert memory_sql("work", "maintain", "--json", *at).value == {
        "messages": 1,
        "episodes": 0,
        "links": 0,
        "guidelines": 0,
        "unlearned": 0,
        "evicted": 0,
        "counts": 0,
        "requested": 0,
        "classified": 0,
        "expired": 0,
        "stages": 0,
        "archived": 0,
        "tiers": 0,
        "examples": [],
        "dry_run": False,
        "complete": True,
    }


async def test_messages_from_before_a_change_of_language_are_found(memory: Memory) -> None:
    """Where no scope tells of the language in which they were indexed: nothing has been formed of them yet."""
    await memory.add([message("She likes sailing boats.")], **MIA, conversation_id="s")
    await memory.configure(agent_id="ada", language="german")
    for _ in range(2):
        await memory.add([message("Sie mag Segelboote.", n=2)], **MIA, conversation_id="s")
    assert await rows(memory, "SELECT languages FROM memory.agents") == [(["english", "german"],)]
    await memory.configure(agent_id="ada", language=None, formation_messages=10)
    await memory.configure(agent_id="ada", language="french")
    for query, found in (("sailed boat", "m1"), ("Segelboot", "m2")):
        assert (await memory.search(query, **MIA)).messages[0].message.id == found


async def test_messages_from_before_another_default_language_are_found(database_url: str) -> None:
    """The service's own default isn't recorded anywhere but on what was stored under it."""
    for n, (language, text) in enumerate(
        [("english", "She likes sailing boats."), ("german", "Sie mag Segelboote."), ("french", "Elle aime le café.")]
    ):
        async with Memory(database_url, settings=Settings(language=language)) as memory:
            await memory.add([message(text, n=n)], **MIA, conversation_id="s")
    async with Memory(database_url, settings=Settings(language="french")) as memory:
        for query, found in (("sailed boat", "m0"), ("Segelboot", "m1"), ("aimer", "m2")):
            assert (await memory.search(query, **MIA)).messages[0].message.id == found


async def test_of_messages_in_new_languages_at_once_each_is_noted_once(database_url: str) -> None:
    """None waits for another: where somebody holds the agent's row, the next one notes it."""
    names = ("dutch", "french", "german", "italian")
    async with AsyncExitStack() as stack:
        many = [await stack.enter_async_context(Memory(database_url, settings=Settings(language=n))) for n in names]
        await asyncio.gather(
            *(memory.add([message("Tea.", n=n)], **MIA, conversation_id=f"{n}") for n, memory in enumerate(many * 3))
        )
        for n, memory in enumerate(many):
            await memory.add([message("Milk.", n=n + 100)], **MIA, conversation_id=f"{n}")
        ((noted,),) = await rows(many[0], "SELECT languages FROM memory.agents")
    assert sorted(noted) == sorted(names)
