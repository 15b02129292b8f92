"""What a search must never do: show, score or reveal what the user may not see, break, or read without bounds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text as _text

from memory_sql.config import Settings
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
NOW = datetime(2026, 11, 22, tzinfo=UTC)
READ = """
    SELECT relname, seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE schemaname = 'memory'
"""


async def found(memory: Memory, query: str, **more: Any) -> list[str]:
    result = await memory.search(query, **MIA, **more)
    return [hit.observation.content for hit in result.results] + [hit.message.content for hit in result.messages]


async def scores(memory: Memory, query: str, **more: Any) -> list[float]:
    result = await memory.search(query, **MIA, **more)
    return [hit.score for hit in result.results] + [hit.score for hit in result.messages]


async def filled(memory: Memory, count: int, last_seq: int, *zebras: int, agent: str = "ada") -> None:
    """A scope of Mia with so many observations more, numbered up to `last_seq`; those given by number tell of a zebra."""
    await memory.observe("The gate of Mia.", agent_id=agent, user_id="mia")
    given = {"last": last_seq, "agent": agent}
    await rows(
        memory,
        "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
        " SELECT s.agent_key, s.scope_id, n,"
        " format('The gate %s is a %s.', n, CASE WHEN n = ANY (:zebras) THEN 'zebra' ELSE 'hut' END), :at, 'observe', 1"
        " FROM memory.scopes s JOIN memory.agents a USING (agent_key),"
        " generate_series(CAST(:last AS bigint) - :count + 1, :last) n WHERE a.agent_id = :agent",
        **given,
        count=count,
        zebras=list(zebras),
        at=NOW,
    )
    await rows(
        memory,
        "UPDATE memory.scopes SET last_seq = :last"
        " WHERE agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = :agent)",
        **given,
    )


@pytest.mark.parametrize(
    "query", ["very", "down under", "same -boat", "don't", "\u0301", "\u0301\u0302 .\u0301", "\u200d"]
)
async def test_words_that_say_nothing_find_nothing(memory: Memory, query: str) -> None:
    await memory.observe("Boats are blue.", **MIA)
    await memory.add([message()], **MIA, conversation_id="s")
    assert await found(memory, query) == []


async def test_accent_on_nothing_does_not_stop_a_search(memory: Memory) -> None:
    await memory.observe("The gate is red.", **MIA)
    assert await found(memory, "\u0301 gate") == ["The gate is red."]


async def test_message_is_found_in_the_language_of_the_process(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(language="german")) as memory:
        await memory.add([message("Wir haben die Häuser gestrichen.")], **MIA, conversation_id="s")
        assert await found(memory, "gestrichenes Haus") == ["Wir haben die Häuser gestrichen."]


async def test_asking_for_the_past_brings_no_message_whose_retention_is_over(database_url: str, llm: Scripted) -> None:
    clock = [NOW - timedelta(days=40)]
    async with Memory(database_url, llm, Settings(message_retention_days=30), clock=lambda: clock[0]) as memory:
        await memory.add([message("The code of the gate.")], **MIA, conversation_id="s")
        assert await found(memory, "gate") == ["The code of the gate."]
        clock[0] = NOW
        past = NOW - timedelta(days=20)
        assert await found(memory, "gate", as_of=past) == []
        assert "code" not in (await memory.context(**MIA, message="gate", retrieve=True, as_of=past)).xml


async def test_highest_number_of_an_observation_is_found(memory: Memory) -> None:
    await filled(memory, 3, 2**31 - 1)
    assert len(await found(memory, "gate")) == 4


async def test_score_tells_nothing_of_the_words_of_something_quarantined(memory: Memory) -> None:
    """D33. Of a large scope a sample says how common a word is: every tenth observation of this one."""
    await filled(memory, 2559, 2560, 9)
    await filled(memory, 2559, 2560, 9, 2000, agent="bob")
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, 2000, 'quarantined' FROM memory.scopes",
    )
    of_bob = await memory.search("zebra", agent_id="bob", user_id="mia")
    assert [hit.score for hit in of_bob.results] == await scores(memory, "zebra")
    assert len(of_bob.results) == 1


@pytest.mark.slow
async def test_score_tells_nothing_of_messages_that_are_not_shown(memory: Memory) -> None:
    """D33. Of many messages the newest say how common a word is."""
    for session in ("s", "t"):
        turns = [message(f"The gate {n}.", n=n) for n in range(1, 1100)]
        await memory.add(turns, **MIA, conversation_id=session)
    await memory.add([message("A zebra.", n=2000)], **MIA, conversation_id="s")
    await rows(memory, "UPDATE memory.messages SET eligible = false WHERE conversation_id = 't' AND number > 1090")
    before = await scores(memory, "zebra")
    await rows(memory, "UPDATE memory.messages SET content = 'A zebra.' WHERE NOT eligible")
    assert await scores(memory, "zebra") == before
    assert len(before) == 1


@pytest.mark.slow
async def test_every_plan_brings_the_same_bytes(database_url: str, llm: Scripted) -> None:
    """Sums of floating-point numbers depend on their order, and that on the plan."""
    words = "gate boat harbour lamp rope sail wind mast oar net buoy pier quay tide".split()
    told: set[tuple[float, ...]] = set()
    for off in ((), ("enable_hashagg", "enable_hashjoin"), ("enable_sort", "enable_nestloop", "enable_material")):
        async with Memory(database_url, llm) as memory:
            if not told:
                for n in range(40):
                    await memory.observe(" ".join(words[n % 7 : n % 7 + n % 9 + 1]), **MIA, conversation_id=f"s{n % 3}")
            async with memory.database.transaction() as unit:
                for name in off:
                    await unit.execute(_text(f"SET LOCAL {name} = off"))
                told.add(tuple(await scores(memory, " ".join(words), top_k=40, session=unit)))
    assert len(told) == 1


GROUPS = """
    WITH s AS (
        INSERT INTO memory.scopes (agent_key, kind, owner, last_seq)
        SELECT 1, 'group', 'g:x' || n, 200 FROM generate_series(1, 80) n RETURNING agent_key, scope_id
    ), m AS (
        INSERT INTO memory.members (agent_key, scope_id, user_id) SELECT agent_key, scope_id, 'mia' FROM s
    )
    INSERT INTO memory.observations
        (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version, conversation_id)
    SELECT agent_key, scope_id, n, format('The gate %s is %s.', n, CASE n WHEN 3 THEN 'rusty' ELSE 'shut' END), now(),
           'observe', 1, 's'
    FROM s, generate_series(1, 200) n
"""


@pytest.mark.slow
async def test_many_scopes_are_read_only_around_what_is_found(memory: Memory) -> None:
    """Before there are statistics as well: whose scopes they are is looked up once, not once for each of them."""
    await memory.observe("The gate of Mia.", **MIA)
    await rows(memory, GROUPS)
    read: dict[str, int] = {}
    async with memory.database.transaction() as unit:
        for query, hits in (("rusty", 5), ("zebra", 0)):
            assert len((await memory.search(query, **MIA, messages=0, session=unit)).results) == hits
            before, read = read, {row[0]: row[1] for row in await unit.execute(_text(READ))}
            assert read["members"] - before.get("members", 0) <= 5 * 80
            assert read["observations"] - before.get("observations", 0) < (2000 if hits else 100)
