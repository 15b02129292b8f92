"""What a search finds, in which order and why, among observations and messages, and what it reads for that."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text as _text

from memory_sql.config import Settings
from memory_sql.db.queries.search import Sought, search
from memory_sql.domain.query import Weights
from memory_sql.memory import Memory
from memory_sql.retrieval.query import parse
from tests.database import rows, statements
from tests.factories import MONDAY
from tests.fakes import Scripted, listing

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
JONAS: dict[str, Any] = {"agent_id": "ada", "user_id": "jonas"}
TURNS = (
    ("Mia", "I painted the boathouse at the weekend."),
    ("Jonas", "What colour did you take?"),
    ("Mia", "Falun red, as it was before."),
    ("Jonas", "My sister is coming over from Gothenburg."),
    ("Mia", "Say hello from me, I liked her."),
    ("Jonas", "We will take the ferry to the islands."),
    ("Mia", "Take the early one, it is quieter."),
)


async def observed(memory: Memory, *texts: str, **more: Any) -> None:
    for text in texts:
        await memory.observe(text, **MIA, **more)


async def told(memory: Memory) -> None:
    for n, (speaker, text) in enumerate(TURNS):
        await memory.observe(
            text, **MIA, conversation_id="s", speaker=speaker, observed_at=MONDAY + timedelta(minutes=n)
        )


async def found(memory: Memory, query: str, **more: Any) -> list[str]:
    return [hit.observation.content for hit in (await memory.search(query, **MIA, **more)).results]


async def test_a_rare_word_counts_for_more_than_a_common_one(memory: Memory) -> None:
    await observed(memory, *(f"The harbour has berth {n}." for n in range(8)), "The lighthouse was built in stone.")
    assert (await found(memory, "harbour lighthouse"))[0] == "The lighthouse was built in stone."


@pytest.mark.parametrize(
    ("weights", "first"),
    [
        (Weights(), "Tea."),
        (Weights(k1=0), "Tea"),
        (Weights(b=0), "Tea"),
    ],
    ids=["a long text loses", "no word is bounded", "no length counts"],
)
async def test_constants_of_the_ranking_travel_with_the_weights(memory: Memory, weights: Weights, first: str) -> None:
    await observed(memory, "Tea, which she drinks every morning on the pier by the boathouse.", "Tea.")
    query = parse("tea", memory.now(), UTC)
    async with memory.database.transaction() as unit:
        hits = (await search(unit, {**MIA, "conversation_id": None}, query, Sought(memory.now(), 5), weights)).hits
    assert hits[0].observation.content.startswith(first)
    bounded = weights.k1 > 0 and weights.b > 0
    assert (hits[0].score == hits[1].score) == (not bounded)


async def test_what_stands_around_an_observation_does_not_count(memory: Memory) -> None:
    """It says all of it itself. Around messages much is left unsaid."""
    await told(memory)
    assert not any(text.startswith("Falun red") for text in await found(memory, "Which colour is the boathouse?"))


async def test_name_of_a_speaker_is_a_word_like_any_other(memory: Memory) -> None:
    await told(memory)
    await memory.observe("Jonas takes the ferry.", **MIA, speaker="Mia")
    result = await memory.search("What did Jonas say about the ferry?", **MIA, explain=True)
    assert [hit.explanation.matched for hit in result.results if hit.explanation] == [("Jonas", "ferry"), ("ferry",)]


async def test_the_time_that_is_named_is_when_it_was_said_or_what_it_speaks_of(memory: Memory) -> None:
    await memory.observe("We sailed to Marstrand.", **MIA, observed_at=datetime(2023, 5, 9, tzinfo=UTC))
    await memory.observe("We sailed to Öckerö.", **MIA, observed_at=datetime(2023, 8, 9, tzinfo=UTC))
    await memory.observe("We sailed to Vinga on 20 May 2023.", **MIA, observed_at=datetime(2024, 2, 9, tzinfo=UTC))
    named = await found(memory, "Where did we sail in May 2023?")
    assert set(named[:2]) == {"We sailed to Marstrand.", "We sailed to Vinga on 20 May 2023."}
    assert (await found(memory, "Where did we sail on August 9, 2023?"))[0] == "We sailed to Öckerö."
    assert (await found(memory, "in August 2023"))[0] == "We sailed to Öckerö."


async def test_what_stands_elsewhere_is_not_found(memory: Memory) -> None:
    await observed(memory, "Tea is hot.", "Snow is cold.")
    assert await found(memory, "tea") == ["Tea is hot."]


async def test_operators(memory: Memory) -> None:
    await memory.observe("A blue bike, nearly new.", **MIA, tags=["trip"], speaker="Tom Ek", observed_at=MONDAY)
    await memory.observe("A bike, and a blue car.", **MIA, speaker="Mia", observed_at=MONDAY + timedelta(days=40))
    blue_bike, blue_car = "A blue bike, nearly new.", "A bike, and a blue car."
    assert await found(memory, '"blue bike"') == [blue_bike]
    assert await found(memory, "blue -car") == [blue_bike]
    assert await found(memory, "blue from:tom") == [blue_bike]
    assert await found(memory, 'from:"Tom Ek"') == [blue_bike]
    assert await found(memory, "bike tag:trip") == [blue_bike]
    assert await found(memory, "tag:trip") == [blue_bike]
    assert await found(memory, "bike after:2026-03") == [blue_car]
    assert await found(memory, "bike before:2026-04-01") == [blue_bike]
    assert await found(memory, "-car") == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The server is uteke-cloud-dev.", "uteke-cloud-dev"),
        ("The server is uteke-cloud-dev.", "cloud"),
        ("She writes C++ at work.", "C++"),
        ("It does 80 GB/s.", "gb/s"),
        ("Write to mia@example.org.", "mia@example.org"),
        ("See https://example.org/berths?x=1.", "example.org"),
        ("The café has closed.", "cafe"),
        ("The naive plan failed.", "naïve"),
        ("昨日東京駅に行った", "東京"),
        ("黒い猫がいる", "猫"),
        ("ฉันชอบกินข้าวผัด", "ข้าว"),
        ("ذهبنا إلى المرفأ أمس", "المرفأ"),
        ("मैं हिन्दी बोलता हूँ", "हिन्दी"),
        ("Great work 👍", "👍"),
        ("She went to Oslo.", "go"),
    ],
)
async def test_words_are_found_however_they_are_written(memory: Memory, text: str, query: str) -> None:
    await observed(memory, "Boats are blue.", text, "A C compiler and a forge.")
    assert (await found(memory, query))[0] == text


@pytest.mark.parametrize("query", ["c++ & | ! ( ) : * ' \" <->", "boat " * 2000, "日本 العربية हिन्दी 🎉", "\x00boat"])
async def test_hostile_query_finds_what_its_words_find(memory: Memory, query: str) -> None:
    await observed(memory, "Boats are blue.", "C++ is hard.")
    hits = await found(memory, query)
    assert set(hits) <= {"Boats are blue.", "C++ is hard."}
    assert bool(hits) == ("boat" in query or "c++" in query)


async def test_same_query_brings_the_same_bytes(memory: Memory) -> None:
    await memory.configure(agent_id="ada", deduplicate="newest")
    await observed(memory, *("The gate is shut." if n % 2 else "The gate is open." for n in range(30)))
    first = (await memory.search("gate", **MIA, top_k=20)).model_dump_json()
    ids = [hit.observation.id for hit in (await memory.search("gate", **MIA, top_k=20)).results]
    assert (await memory.search("gate", **MIA, top_k=20)).model_dump_json() == first
    assert len(set(ids)) == 20


async def test_parts_add_up_to_the_score_and_left_out_words_are_named(memory: Memory) -> None:
    await told(memory)
    result = await memory.search("When did Mia take the early ferry?", **MIA, explain=True, top_k=10)
    assert result.left_out == {
        "When": "frames the question",
        "did": "frames the question",
        "the": "frames the question",
    }
    assert len(result.results) > 1
    for hit in result.results:
        assert hit.explanation is not None
        assert sum(hit.explanation.parts.values()) == pytest.approx(hit.score)


async def test_plan_is_told_on_request(memory: Memory) -> None:
    await told(memory)
    assert "Function Scan on search" in (await memory.search("ferry", **MIA, plan=True)).plan[0]
    assert (await memory.search("ferry", **MIA)).plan == ()


async def test_disputed_and_archived_ones_stand_behind(memory: Memory) -> None:
    await observed(memory, "The gate is blue.")
    doubtful = await memory.observe("The gate is grey.", **MIA)
    assert await found(memory, "gate") == ["The gate is grey.", "The gate is blue."]
    await memory.observations.dispute(doubtful.id, **MIA)
    result = await memory.search("gate", **MIA, explain=True)
    assert [hit.observation.content for hit in result.results] == ["The gate is blue.", "The gate is grey."]
    explanation = result.results[1].explanation
    assert explanation is not None
    assert explanation.parts["lifecycle"] == pytest.approx(
        -Weights().disputed * sum(value for name, value in explanation.parts.items() if name != "lifecycle")
    )


async def test_what_was_said_last_breaks_a_tie_and_counts_for_no_more(memory: Memory) -> None:
    old = datetime(2020, 3, 2, tzinfo=UTC)
    await observed(memory, "The gate is shut.")
    await memory.observe("The gate is open.", **MIA, observed_at=old)
    await memory.observe("The gate of the harbour.", **MIA, observed_at=old)
    assert await found(memory, "gate harbour") == ["The gate of the harbour.", "The gate is shut.", "The gate is open."]


# Messages


async def said(memory: Memory, session: str = "s", **who: Any) -> None:
    await memory.add(
        [
            {"id": f"m{n}", "role": "user", "name": speaker, "content": text, "created_at": MONDAY}
            for n, (speaker, text) in enumerate(TURNS)
        ],
        **(who or MIA),
        conversation_id=session,
    )


async def test_messages_are_found_while_they_are_kept(memory: Memory) -> None:
    await said(memory)
    result = await memory.search("What did Jonas say about the ferry?", **MIA)
    assert result.results == ()
    assert result.messages[0].message.content == "We will take the ferry to the islands."
    assert (result.messages[0].message.conversation_id, result.messages[0].message.id) == ("s", "m5")
    assert (await memory.search("ferry", **MIA, messages=0)).messages == ()


async def test_an_answer_is_found_by_the_words_of_its_question(memory: Memory) -> None:
    await said(memory)
    result = await memory.search("Which colour does the boathouse have?", **MIA, explain=True)
    answer = next(hit for hit in result.messages if hit.message.content.startswith("Falun red"))
    assert answer.explanation is not None
    assert answer.explanation.admitted == "asked"
    assert answer.explanation.parts["asked"] > 0
    assert answer.explanation.matched == ()


async def test_second_turn_beside_counts_for_a_turn_and_the_next_does_not(memory: Memory) -> None:
    await said(memory)
    for query, near in (("hello quieter", True), ("hello ferry", False)):
        hits = (await memory.search(query, **MIA, explain=True)).messages[:2]
        assert ["near" in hit.explanation.parts for hit in hits if hit.explanation] == [near, near]


async def test_message_with_two_words_of_the_query_around_it_is_found(memory: Memory) -> None:
    await said(memory)
    hits = (await memory.search("hello quieter", **MIA, explain=True, messages=10)).messages
    (ferry,) = [hit for hit in hits if "ferry" in hit.message.content]
    assert ferry.explanation is not None
    assert (ferry.explanation.admitted, set(ferry.explanation.parts)) == ("window", {"window"})
    assert (await memory.search("hello", **MIA)).messages[1:] == ()


async def test_who_is_named_is_who_said_it_and_no_word_to_look_for(memory: Memory) -> None:
    await said(memory)
    best = (await memory.search("What did Jonas say about the ferry?", **MIA, explain=True)).messages[0]
    assert best.message.content == "We will take the ferry to the islands."
    assert best.explanation is not None
    assert (best.explanation.parts["speaker"], best.explanation.matched) == (Weights().speaker, ("ferry",))


async def test_time_that_is_named_is_when_a_message_was_said(memory: Memory) -> None:
    await said(memory)
    days = [
        {"id": f"d{n}", "role": "user", "content": "We swam.", "created_at": MONDAY + timedelta(days=n)} for n in (3, 9)
    ]
    await memory.add(days, **MIA, conversation_id="later")
    best = (
        await memory.search(f"Did we swim on {MONDAY + timedelta(days=3):%d %B %Y}?", **MIA, explain=True)
    ).messages[0]
    assert best.message.id == "d3"
    assert best.explanation is not None
    assert best.explanation.parts["date"] == Weights().said_on


async def test_message_of_others_is_not_found(memory: Memory) -> None:
    await said(memory)
    assert (await memory.search("ferry", **JONAS)).messages == ()
    assert (await memory.search("ferry", agent_id="bob", user_id="mia")).messages == ()


async def test_message_inherits_from_the_observation_made_of_it(memory: Memory, llm: Scripted) -> None:
    await said(memory)
    llm.then(listing(("Mia's summer house is red.", "individual", [3])))
    await memory.conversations.form(agent_id="ada", conversation_id="s")
    result = await memory.search("summer house", **MIA, explain=True)
    (observation,) = [hit.observation for hit in result.results]
    assert observation.source.message_ids
    by_source = {hit.message.id: hit for hit in result.messages}
    assert set(by_source) == set(observation.source.message_ids)
    for hit in by_source.values():
        assert hit.observations == (observation.id,)
        assert hit.explanation is not None
        assert hit.explanation.admitted == "source"


async def test_message_that_says_what_has_been_corrected_is_not_found(memory: Memory, llm: Scripted) -> None:
    await said(memory)
    llm.then(listing(("The boathouse is painted in Falun red.", "individual", [3])))
    await memory.conversations.form(agent_id="ada", conversation_id="s")
    (wrong,) = (await memory.search("falun", **MIA)).results
    assert [hit.message.id for hit in (await memory.search("falun", **MIA)).messages] == [
        "m2",
        "m0",
    ]  # whose boathouse it is
    await memory.observations.update(wrong.observation.id, text="The boathouse is painted blue.", **MIA)
    assert (await memory.search("falun", **MIA)).messages == ()
    assert "Falun" not in (await memory.context(**MIA, message="Do you remember the falun red?")).xml


async def test_context_shows_messages_that_no_observation_tells_of(memory: Memory) -> None:
    await said(memory)
    context = await memory.context(**MIA, message="Do you remember the ferry?")
    assert "<RetrievedMessages>" in context.xml
    assert "We will take the ferry to the islands." in context.xml
    here = await memory.context(**MIA, conversation_id="s", message="Do you remember the ferry?")
    assert "RetrievedMessages" not in here.xml


async def test_messages_of_the_conversation_take_no_place_from_others(memory: Memory) -> None:
    """The message that asks is in memory already, and the best match for itself."""
    await said(memory)
    asking = [{"id": f"q{n}", "role": "user", "content": "Do you remember the ferry?"} for n in range(8)]
    await memory.add(asking, **MIA, conversation_id="now")
    context = await memory.context(**MIA, conversation_id="now", message="Do you remember the ferry?")
    assert "We will take the ferry to the islands." in context.xml


async def test_search_is_one_statement_with_both_arms(memory: Memory) -> None:
    await said(memory)
    await told(memory)
    with statements(memory) as seen:
        result = await memory.search("ferry", **MIA)
    assert len(seen) == 1
    assert result.results
    assert result.messages


# Sizes


FILL = """
    WITH s AS (
        INSERT INTO memory.scopes (agent_key, kind, owner, last_seq)
        SELECT 1, 'individual', 'u:x' || n, CASE n WHEN 0 THEN 5000 ELSE 20 END FROM generate_series(0, 500) n
        RETURNING agent_key, scope_id, last_seq
    )
    INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
    SELECT agent_key, scope_id, n, format('The gate of boat %s is %s.', n, CASE n % 700 WHEN 3 THEN 'rusty' ELSE 'shut' END),
           now() - n * interval '1 minute', 'observe', 1
    FROM s, generate_series(1, last_seq) n
"""
READ = "SELECT seq_scan, idx_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'memory.observations'::regclass"


@pytest.mark.slow
async def test_large_scope_is_searched_by_its_rarest_words(memory: Memory) -> None:
    """A look-up of all its words would read each of the 5,000; the sample tells which are rare."""
    await memory.observe("The gate of Mia.", **MIA)
    await rows(memory, FILL)
    await rows(memory, "ANALYZE")
    who: dict[str, Any] = {"agent_id": "ada", "user_id": "x0"}
    async with memory.database.transaction() as unit:
        result = await memory.search("gate boat rusty", **who, top_k=7, session=unit)
        ((scans, by_index, read),) = [tuple(row) for row in await unit.execute(_text(READ))]
    assert all("rusty" in hit.observation.content for hit in result.results)
    assert len(result.results) == 7
    assert (scans, by_index >= 1) == (0, True)
    assert read < 1200


@pytest.mark.slow
async def test_commonest_words_of_a_large_scope_bring_the_newest(memory: Memory) -> None:
    await memory.observe("The gate of Mia.", **MIA)
    await rows(memory, FILL)
    result = await memory.search("gate shut", agent_id="ada", user_id="x0")
    assert len(result.results) == 5
    assert all(int(hit.observation.id.split("-")[1]) > 3000 for hit in result.results)


@pytest.mark.slow
async def test_text_index_serves_the_search_among_many_scopes(memory: Memory) -> None:
    await memory.observe("The gate of Mia.", **MIA)
    await rows(memory, FILL)
    await rows(memory, "ANALYZE")
    async with memory.database.transaction() as unit:
        assert len((await memory.search("gate", **MIA, session=unit)).results) == 1
        ((scans, _, read),) = [tuple(row) for row in await unit.execute(_text(READ))]
    assert scans == 0
    assert read < 20


async def test_settings_bound_what_is_found(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(top_k=2, message_retention_days=None)) as memory:
        await observed(memory, *(f"Gate {n}." for n in range(5)))
        assert len((await memory.search("gate", **MIA)).results) == 2


HUNDRED_THOUSAND = """
    WITH s AS (
        INSERT INTO memory.scopes (agent_key, kind, owner, last_seq)
        SELECT 1, 'individual', 'u:y' || n, 20 FROM generate_series(1, 5000) n RETURNING agent_key, scope_id
    )
    INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
    SELECT agent_key, scope_id, n, 'The gate of boat ' || n, now(), 'observe', 1 FROM s, generate_series(1, 20) n;
    INSERT INTO memory.conversations (agent_key, conversation_id, user_id, participants, last_number, formed_number)
    SELECT 1, 'z' || n, 'y' || n, ARRAY['y' || n], 1, 1 FROM generate_series(1, 25000) n;
    INSERT INTO memory.messages (
        agent_key, conversation_id, number, message_id, role, user_id, content, weight, said_at, owner
    )
    SELECT 1, s.conversation_id, n, 'm' || n, 'user', s.user_id, 'The gate of boat ' || n, 1, now(), 'u:' || s.user_id
    FROM memory.conversations s, generate_series(1, 1) n WHERE s.conversation_id LIKE 'z%';
    ANALYZE
"""
HOT = "agents scopes members conversations messages observations observation_states consolidations evidence events".split()
SCANNED = """
    SELECT relname, seq_scan, coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
    WHERE schemaname = 'memory' AND relname = ANY (string_to_array(:hot, ' '))
"""


@pytest.mark.prove
async def test_hot_reads_use_their_indexes_on_a_hundred_thousand_rows(memory: Memory) -> None:
    await said(memory)
    await told(memory)
    for statement in HUNDRED_THOUSAND.split(";"):
        await rows(memory, statement)
    for read in ("search", "context"):
        async with memory.database.transaction() as unit:
            if read == "search":
                result = await memory.search("gate ferry", **MIA, session=unit)
                assert result.results
                assert result.messages
            else:
                context = await memory.context(**MIA, message="Do you remember the ferry?", session=unit)
                assert context.fired
            stats = {row[0]: row[1:] for row in await unit.execute(_text(SCANNED), {"hot": " ".join(HOT)})}
        large = {"scopes", "conversations", "messages", "observations"}
        assert {name: scans for name, (scans, _) in stats.items() if name in large and scans} == {}
        assert max(read for _, read in stats.values()) < 300
