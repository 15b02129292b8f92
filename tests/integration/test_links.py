"""Links between observations: what formation links, how sure they are, and what a search reaches along them."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.db.queries.search import Sought, given
from memory_sql.db.roles import Roles
from memory_sql.domain.exports import ExportedLink, ExportedObservation
from memory_sql.domain.query import Query
from memory_sql.domain.selection import Selection
from memory_sql.lifecycle.links import decayed, reinforced
from memory_sql.memory import Memory
from memory_sql.retrieval.search import weights_of
from tests.conftest import as_login
from tests.database import rows, serving, statements
from tests.factories import MONDAY, Clock, message
from tests.fakes import Scripted, listing
from tests.spreading import Edge, activated, blended

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
NO_MODEL = Settings(llm="offline", graph=True)
LINKS = "SELECT seq, to_seq, kind, label, confidence FROM memory.links ORDER BY scope_id, seq, to_seq, kind, label"


@pytest.fixture
async def linked(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, Settings(llm="offline", graph=True), clock=clock) as memory:
        yield memory
        assert await memory.admin.verify() == []


async def formed(
    memory: Memory, llm: Scripted, *said: str, conversation_id: str = "s", n: int = 1, **more: Any
) -> None:
    """Each is said, and stored word for word."""
    await memory.add(
        [message(one, n=place) for place, one in enumerate(said, n)], **MIA, conversation_id=conversation_id, **more
    )
    kind = "group_1" if more else "individual"
    llm.then(listing(*((one, kind, [place]) for place, one in enumerate(said, 1))))
    await memory.conversations.form(**ADA, conversation_id=conversation_id)


async def test_what_names_the_same_is_linked(linked: Memory, llm: Scripted) -> None:
    await formed(linked, llm, "The Kangoo is a van.", "Tea is in the pot.", conversation_id="a")
    await formed(linked, llm, "I sold my old Kangoo to Gorran.", conversation_id="b")
    await formed(
        linked,
        llm,
        "Gorran moved to Bergen because of the ferry.",
        "It rains on Gorran in Bergen, therefore he stays.",
        conversation_id="c",
    )
    assert await rows(linked, LINKS) == [
        (1, 2, "time", "", None),
        (3, 1, "entity", "kangoo", None),
        (4, 3, "entity", "gorran", None),
        (4, 5, "cause", "therefore", None),
        (4, 5, "time", "", None),
        (5, 3, "entity", "gorran", None),
        (5, 4, "entity", "bergen", None),
    ]


async def test_people_are_linked_by_whom_it_is_about(linked: Memory, llm: Scripted) -> None:
    """By what a group remembers: in somebody's own scope all is about them."""
    said = [message("Jonas has the key.", n=1, user_id="mia"), message("He is at sea.", n=2, user_id="mia")]
    said.append(message("I row.", n=3, user_id="jonas"))
    await linked.add(said, **MIA, conversation_id="s", group_ids=["crew"])

    def answer(request: Any) -> str:
        people = {turn.person for turn in request.material.turns}
        assert people == {"P1", "P2"}
        found = [
            {"content": text, "sources": [n], "about": ["P2"]}
            for n, text in ((1, "Jonas has the key."), (2, "He is at sea."))
        ]
        return json.dumps({alias: found if alias == "group_1" else [] for alias in request.output.offered})

    llm.then(answer)
    await linked.conversations.form(**ADA, conversation_id="s")
    assert await rows(linked, LINKS) == [(1, 2, "time", "", None), (2, 1, "entity", "", None)]
    await linked.people.rename(agent_id="ada", kind="user", old="jonas", new="jo")
    assert len(await rows(linked, LINKS)) == 2
    await linked.forget(Selection(user_id="jo"), **ADA)
    assert await rows(linked, LINKS) == [(1, 2, "time", "", None)]


async def test_own_name_links_nothing_in_ones_own_scope(linked: Memory, llm: Scripted) -> None:
    await linked.add([message("I sail, says Mia Ek.", n=1, name="Mia Ek")], **MIA, conversation_id="s")
    llm.then(listing(("Mia Ek sails.", "individual", [1]), ("Boats please Mia.", "individual", [1])))
    await linked.conversations.form(**ADA, conversation_id="s")
    assert await rows(linked, LINKS) == [(1, 2, "time", "", None)]


async def test_at_most_ten_newest_are_linked(linked: Memory) -> None:
    for n in range(13):
        await linked.observe(f"The boat of Gorran has {n} oars.", **MIA)
    found = [to for seq, to, kind, *_ in await rows(linked, LINKS) if (seq, kind) == (13, "entity")]
    assert found == list(range(3, 13))


async def test_what_is_said_again_makes_links_surer(linked: Memory, clock: Clock) -> None:
    """C21."""
    await linked.observe("I sold the van to Gorran.", **MIA)
    await linked.observe("I met Gorran.", **MIA)
    await rows(linked, "UPDATE memory.links SET confidence = 0.6, charged_until = created_at")
    clock.goes_on(days=1)
    await linked.observe("I met Gorran.", **MIA)
    kept = "SELECT seq, to_seq, confidence, reinforced_at, charged_until FROM memory.links"
    assert await rows(linked, kept) == [(2, 1, 0.65, clock.now, None)]
    for _ in range(9):
        clock.goes_on(days=1)
        await linked.observe("I met Gorran.", **MIA)
    assert await rows(linked, kept) == [(2, 1, 1.0, clock.now, None)]


async def test_without_the_setting_nothing_is_linked(timed: Memory, llm: Scripted) -> None:
    with statements(timed) as seen:
        await formed(timed, llm, "I sold the van to Gorran.", "Gorran drove off.")
        await timed.observe("I met Gorran.", **MIA)
    assert await rows(timed, LINKS) == []
    assert not [one for one in seen if "links" in one]


async def test_links_take_no_statement_more(linked: Memory, timed: Memory, llm: Scripted) -> None:
    counts = []
    for memory, where in ((timed, "a"), (linked, "b")):
        with statements(memory) as seen:
            await formed(memory, llm, f"I sold the van to Gorran {where}.", conversation_id=where)
            await memory.search("Gorran", **MIA)
            await memory.context(**MIA, message="What of Gorran?")
        counts.append(len(seen))
    assert counts[0] == counts[1]


# How sure they are


VECTORS = [  # B.4: confidence, age in days, what is left, how many windows are charged
    (1.0, 0, 1.0, 0),
    (1.0, 90, 1.0, 0),
    (1.0, 91, 0.9, 1),
    (1.0, 180, 0.9, 1),
    (1.0, 181, 0.8, 2),
    (1.0, 271, 0.7, 3),
    (1.0, 1000, 0.1, 9),
    (0.05, 1000, 0.05, 0),
    (0.1, 1000, 0.1, 0),
    (0.12, 91, 0.1, 1),
    (0.15, 1000, 0.1, 1),
    (None, 90, None, 0),
    (None, 91, 0.9, 1),
]


@pytest.mark.parametrize(("confidence", "days", "left", "windows"), VECTORS)
async def test_confidence_fades_as_in_the_vectors(
    memory: Memory, confidence: float | None, days: int, left: float | None, windows: int
) -> None:
    """R228, R234: the same in Python and SQL."""
    at, until = MONDAY + timedelta(days=days), MONDAY + timedelta(days=90 * windows)
    assert decayed(confidence, MONDAY, at) == (left, until)
    asked = "SELECT confidence, until FROM memory.decayed(CAST(:confidence AS float8), :since, :at)"
    assert await rows(memory, asked, confidence=confidence, since=MONDAY, at=at) == [(left, until)]


@pytest.mark.parametrize(
    ("confidence", "gain", "left"),
    [(0.5, 0.05, 0.55), (0.98, 0.05, 1.0), (None, 0.05, 1.0), (0.5, -0.2, 0.5), (0.0, 0.0, 0.0)],
)
async def test_confidence_rises_as_in_the_vectors(
    memory: Memory, confidence: float | None, gain: float, left: float
) -> None:
    """R227."""
    assert reinforced(confidence, gain) == left
    asked = "SELECT memory.reinforced(CAST(:confidence AS float8), :gain)"
    assert await rows(memory, asked, confidence=confidence, gain=gain) == [(left,)]


SHARES = st.none() | st.integers(0, 100).map(lambda n: n / 100)
DAYS = st.lists(st.integers(1, 400), min_size=1, max_size=12)


@hypothesis_given(SHARES, DAYS)
def test_charging_twice_or_day_by_day_comes_to_the_same(confidence: float | None, days: list[int]) -> None:
    at = MONDAY + timedelta(days=sum(days))
    once = decayed(confidence, MONDAY, at)
    assert decayed(once.confidence, once.until, at) == once
    now, left = MONDAY, (confidence, MONDAY)
    for some in days:
        now += timedelta(days=some)
        left = decayed(*left, now)
    assert left == once
    full = 1.0 if confidence is None else confidence
    assert once.confidence is None or min(0.1, full) <= once.confidence <= full
    assert MONDAY <= once.until <= at


async def kept_links(memory: Memory) -> list[tuple[Any, ...]]:
    return await rows(
        memory, "SELECT scope_id, seq, to_seq, confidence, charged_until FROM memory.links ORDER BY 1, 2, 3"
    )


async def test_maintenance_reduces_it_once_for_each_window(database_url: str, llm: Scripted, clock: Clock) -> None:
    on = Settings(llm="offline", graph=True, link_decay=True, maintenance_batch=2)
    async with Memory(database_url, llm, on, clock=clock) as memory:
        for n in range(4):
            await memory.observe(f"I met Gorran {n} times.", **MIA)
        assert (await memory.work.maintain()).links == 0
        clock.goes_on(days=181)
        assert (await memory.work.maintain(limit=5)).complete is False
        assert (await memory.work.maintain()).links == 1
        once = await kept_links(memory)
        assert [row[3] for row in once] == [0.8] * 6
        assert (await memory.work.maintain()).links == 0
        for _ in range(20):
            clock.goes_on(days=41)
            await memory.work.maintain()
        assert [row[3] for row in await kept_links(memory)] == [0.1] * 6
        at = MONDAY + timedelta(days=810)
        assert {row[4] for row in await kept_links(memory)} == {at}


async def test_it_stays_as_it_is_unless_that_is_on(linked: Memory, clock: Clock) -> None:
    for n in range(2):
        await linked.observe(f"I met Gorran {n} times.", **MIA)
    before = await kept_links(linked)
    clock.goes_on(days=1000)
    assert (await linked.work.maintain()).links == 0
    assert await kept_links(linked) == before


# What a search reaches along them


async def observed(memory: Memory, *said: str) -> list[str]:
    return [(await memory.observe(one, **MIA)).id for one in said]


async def link(memory: Memory, *edges: Edge) -> None:
    """These links and no other."""
    await rows(memory, "DELETE FROM memory.links")
    given = {name: [getattr(edge, name) for edge in edges] for name in Edge._fields}
    await rows(
        memory,
        "INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label, weight, confidence)"
        " SELECT s.agent_key, s.scope_id, e.seq, e.to_seq, e.kind, CASE e.kind WHEN 'entity' THEN 'lantern' ELSE '' END,"
        " e.weight, e.confidence FROM memory.scopes s"
        " CROSS JOIN unnest(CAST(:seq AS integer[]), CAST(:to_seq AS integer[]), CAST(:kind AS text[]),"
        " CAST(:weight AS float8[]), CAST(:confidence AS float8[])) e(seq, to_seq, kind, weight, confidence)",
        **given,
    )


REACHED = """
    SELECT a.seq, a.activation FROM memory.scopes s
    CROSS JOIN LATERAL memory.activated(
        s.agent_key, array_fill(s.scope_id, ARRAY[cardinality(CAST(:seeds AS integer[]))]), CAST(:seeds AS integer[])
    ) a
"""


def any_network(seed: int) -> tuple[list[Edge], list[int]]:
    """Of twelve, and from which of them it begins."""
    of, edges = random.Random(seed), dict[tuple[int, int, str], Edge]()
    for _ in range(of.randrange(4, 24)):
        left, right = sorted(of.sample(range(1, 13), 2))
        kind = of.choice(["entity", "time", "cause"])
        ends = (right, left) if kind == "entity" else (left, right)
        edges[*ends, kind] = Edge(*ends, kind, of.choice([1.0, 1.0, 0.5]), of.choice([None, 1.0, 0.6, 0.2, 0.19, 0.1]))
    return list(edges.values()), of.sample(range(1, 13), of.randrange(1, 5))


async def test_activation_is_that_of_the_formulas(linked: Memory) -> None:
    """R229–R231: on any network the same as written out apart from it."""
    await observed(linked, *(f"Lantern {n}." for n in range(12)))
    reached = 0
    for seed in range(60):
        edges, seeds = any_network(seed)
        await link(linked, *edges)
        found = {seq: round(score, 9) for seq, score in await rows(linked, REACHED, seeds=seeds)}
        assert found == {seq: round(score, 9) for seq, score in activated(edges, seeds).items()}, seed
        reached += len(found)
    assert reached > 100


@pytest.mark.parametrize(
    ("edges", "seeds", "found"),
    [
        ([Edge(1, 2)], [1], {2: 0.7}),
        ([Edge(1, 2), Edge(2, 3), Edge(3, 4), Edge(4, 5)], [1], 3),  # three links, no further
        ([Edge(1, 2, "cause")], [2], {}),
        ([Edge(1, 2, "cause")], [1], {2: 0.7}),
        ([Edge(1, 2, "time", 1.0, 0.2)], [1], {2: 0.14}),
        ([Edge(1, 2, "time", 1.0, 0.19)], [1], {}),
        ([Edge(1, 2, "time", 0.5, 0.5)], [1], {2: 0.175}),
        ([Edge(1, 3), Edge(2, 3)], [1, 2], {3: 1.4}),  # from each
        ([Edge(1, 2), Edge(2, 1, "entity")], [1], {2: 1.4}),  # along each
        ([Edge(1, 2)], [1, 2], {}),
    ],
)
async def test_activation_as_in_the_vectors(
    linked: Memory, edges: list[Edge], seeds: list[int], found: dict[int, float] | int
) -> None:
    await observed(linked, *(f"Lantern {n}." for n in range(5)))
    await link(linked, *edges)
    scores = {seq: round(score, 9) for seq, score in await rows(linked, REACHED, seeds=seeds)}
    assert scores == found if isinstance(found, dict) else len(scores) == found


FIRST = ("The Kangoo is blue.", "The Kangoo has a dent.", "The Kangoo needs oil.")


async def test_search_reaches_what_is_linked_with_the_best_hits(linked: Memory) -> None:
    """R229, R232, R233."""
    *first, key, lock = await observed(linked, *FIRST, "A key hangs in the shed.", "Its lock is new.")
    await link(linked, Edge(3, 4, "time", 1.0, 0.95), Edge(4, 5))
    found = await linked.search("Kangoo", **MIA, top_k=10, explain=True)
    assert {hit.observation.id for hit in found.results[:3]} == set(first)
    assert [hit.observation.id for hit in found.results[3:]] == [key, lock]
    hit = found.results[3]
    assert hit.explanation is not None
    assert hit.explanation.admitted == "graph"
    assert list(hit.explanation.parts) == ["graph"]
    assert sum(hit.explanation.parts.values()) == pytest.approx(hit.score)
    assert [str(link) for link in hit.explanation.links] == [f"{first[2]} → {key} time conf=0.95"]
    seeds = {int(one.observation.id.partition("-")[2]): one.score / found.results[0].score for one in found.results[:3]}
    scores = activated([Edge(3, 4, "time", 1.0, 0.95), Edge(4, 5)], [1, 2, 3])
    expected = [blended(scores[seq], seeds[3]) * found.results[0].score for seq in (4, 5)]
    assert [hit.score for hit in found.results[3:]] == pytest.approx(expected)
    further = found.results[4].explanation
    assert further is not None
    assert [str(link) for link in further.links] == [
        f"{first[2]} → {key} time conf=0.95",
        f"{key} → {lock} time conf=1.00",
    ]


async def test_context_shows_what_is_reached(linked: Memory) -> None:
    *_, key = await observed(linked, *FIRST, "A key hangs in the shed.")
    await link(linked, Edge(3, 4))
    context = await linked.context(**MIA, message="Do you remember the Kangoo?")
    assert key in context.sources


@pytest.mark.parametrize("query", ["Kangoo after:2020", "Kangoo -dent", '"the Kangoo"', "from:mia Kangoo"])
async def test_operators_leave_links_out(linked: Memory, query: str) -> None:
    """What they exclude isn't let in along a link."""
    *_, key = await observed(linked, *FIRST, "A key hangs in the shed.")
    await link(linked, Edge(3, 4))
    found = await linked.search(query, **MIA, top_k=10)
    assert key not in {hit.observation.id for hit in found.results}


async def test_fewer_than_three_hits_reach_nothing(linked: Memory) -> None:
    *_, key = await observed(linked, *FIRST[:2], "A key hangs in the shed.")
    await link(linked, Edge(2, 3))
    assert key not in {hit.observation.id for hit in (await linked.search("Kangoo", **MIA)).results}


async def test_search_without_the_setting_is_the_same_byte_for_byte(linked: Memory, timed: Memory) -> None:
    await observed(linked, *FIRST, "A key hangs in the shed.")
    before = [(await timed.search("Kangoo", **MIA, explain=True)).model_dump_json() for _ in range(2)]
    await link(linked, Edge(3, 4))
    assert (await timed.search("Kangoo", **MIA, explain=True)).model_dump_json() == before[0] == before[1]
    assert '"graph"' not in str(given({}, Query(), Sought(MONDAY, 1), weights_of(Settings(llm="offline")))["query"])


# What isn't walked


@pytest.mark.parametrize("how", ["dispute", "correct", "evict", "quarantine", "fact"])
async def test_what_is_set_aside_is_neither_reached_nor_passed(linked: Memory, how: str) -> None:
    *_, key, lock = await observed(linked, *FIRST, "A key hangs in the shed.", "Its lock is new.")
    await link(linked, Edge(3, 4), Edge(4, 5))
    reached = [key, lock]
    if how == "correct":
        await linked.observations.update(key, **MIA, text="A key hangs in the barn.")
    elif how == "quarantine":
        await linked.observations.quarantine(key, **MIA)
    elif how == "evict":
        await set_status(linked, key, "evicted")
    elif how == "fact":
        await set_status(linked, key, "superseded")
    gone = [] if how == "dispute" else reached
    if how == "dispute":
        await linked.observations.dispute(key, **MIA)
    found = {hit.observation.id for hit in (await linked.search("Kangoo", **MIA, top_k=10)).results}
    assert not found & set(gone)
    assert how != "dispute" or set(reached) <= found


async def test_undone_supersession_is_walked_again(linked: Memory) -> None:
    *_, key, _ = await observed(linked, *FIRST, "A key hangs in the shed.", "Its lock is new.")
    await link(linked, Edge(3, 4))
    await linked.observations.quarantine(key, **MIA)
    await linked.observations.unquarantine(key, **MIA)
    assert key in {hit.observation.id for hit in (await linked.search("Kangoo", **MIA, top_k=10)).results}


async def set_status(memory: Memory, observation_id: str, status: str) -> None:
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, seq, :status FROM memory.observations WHERE 'o' || scope_id || '-' || seq = :one",
        status=status,
        one=observation_id,
    )


# Forgetting, holds, walls, export, undoing


async def canaries(memory: Memory, llm: Scripted) -> None:
    """Three that name Zanzibar, and what was said after each."""
    for n, said in enumerate(("The crate went to Zanzibar.", "A letter came from Zanzibar.", "It is hot in Zanzibar.")):
        await formed(memory, llm, said, f"Tea number {n} was good.", conversation_id=f"c{n}")


async def test_forgetting_takes_links_and_their_names_along(linked: Memory, llm: Scripted) -> None:
    """A name leaves with what names it, wherever else it leads."""
    await canaries(linked, llm)
    assert ("entity", "zanzibar") in {(kind, label) for _, _, kind, label, _ in await rows(linked, LINKS)}
    await linked.forget(Selection(conversation_id="c1"), **ADA)
    assert not [row for row in await rows(linked, LINKS) if {row[0], row[1]} & {3, 4}]
    await linked.forget(Selection(conversation_id="c0"), **ADA)
    await linked.forget(Selection(conversation_id="c2"), **ADA)
    assert await rows(linked, LINKS) == []
    assert await holders(linked, "zanzibar") == []


async def holders(memory: Memory, word: str) -> list[str]:
    """The tables in which the word stands."""
    tables = await rows(memory, "SELECT tablename FROM pg_tables WHERE schemaname = 'memory' ORDER BY 1")
    found = []
    for (table,) in tables:
        sql = f"SELECT count(*) FROM memory.{table} t WHERE t::text ILIKE :word"  # noqa: S608
        if await rows(memory, sql, word=f"%{word}%") != [(0,)]:
            found.append(table)
    return found


async def test_forgetting_everything_leaves_no_link(linked: Memory, llm: Scripted) -> None:
    await canaries(linked, llm)
    await linked.forget(Selection(everything=True), **ADA)
    assert await rows(linked, LINKS) == []


async def test_what_a_hold_keeps_is_not_reached(linked: Memory) -> None:
    *_, key, lock = await observed(linked, *FIRST, "A key hangs in the shed.", "Its lock is new.")
    await link(linked, Edge(3, 4), Edge(4, 5))
    hold = await linked.holds.place(**MIA, reason="Case 7")
    await linked.forget(Selection(observation_id=key), **ADA)
    assert len(await rows(linked, LINKS)) == 2
    found = {hit.observation.id for hit in (await linked.search("Kangoo", **MIA, top_k=10)).results}
    assert not {key, lock} & found
    assert key not in [one.to_id for links in (await exported(linked)).values() for one in links]
    await linked.holds.release(hold.hold_id, **ADA)
    assert await rows(linked, LINKS) == []


async def exported(memory: Memory) -> dict[str, tuple[ExportedLink, ...]]:
    lines = [line async for line in memory.people.export(**MIA)]
    return {line.id: line.links for line in lines if isinstance(line, ExportedObservation)}


async def test_export_says_what_is_linked(linked: Memory) -> None:
    first, second = await observed(linked, "I met Gorran.", "I drove with Gorran.")
    links = await exported(linked)
    assert links[first] == ()
    (one,) = links[second]
    assert (one.to_id, one.kind, one.label, one.confidence) == (first, "entity", "gorran", None)


async def test_nothing_crosses_scopes(linked: Memory, llm: Scripted) -> None:
    """What another knows of the same thing is neither linked nor reached."""
    await observed(linked, *FIRST, "I paid for the Kangoo.", "I drove the Kangoo.")
    theirs = (await linked.observe("I like my Kangoo.", **JONAS)).id
    await formed(linked, llm, "We sail in our Kangoo.", conversation_id="g", group_ids=["crew"])
    owners = await rows(linked, "SELECT DISTINCT s.owner FROM memory.links JOIN memory.scopes s USING (scope_id)")
    assert owners == [("u:mia",)]
    assert theirs not in {hit.observation.id for hit in (await linked.search("Kangoo", **MIA, top_k=10)).results}


async def test_users_behind_walls_follow_links_and_read_none(walled_database: str, roles: Roles, llm: Scripted) -> None:
    async with Memory(as_login(walled_database, roles), llm, NO_MODEL) as walled:
        said = (*FIRST, "A key hangs in the shed.")
        *_, key = [(await walled.observe(one, **MIA, conversation_id="s")).id for one in said]  # one after the other
        async with walled.database.statement(principal={**MIA, "conversation_id": None}) as unit:
            assert (await unit.execute(text("SELECT * FROM memory.links"))).all() == []
            assert len((await unit.execute(text("SELECT seq FROM memory.observations"))).all()) == 4
        assert key in {hit.observation.id for hit in (await walled.search("Kangoo", **MIA, top_k=10)).results}
        assert len((await walled.entities.get("Kangoo", **MIA)).newest) == 3
        assert len(await walled.topics.list(**MIA)) > 3
        assert (await walled.work.maintain()).complete


# Large


HUBS = (
    "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
    " SELECT agent_key, scope_id, n, 'Rope ' || n || '.', now(), 'observe', 2 FROM memory.scopes"
    " CROSS JOIN generate_series(5, CAST(:count AS integer)) n",
    # The first three are hubs, to which all others lead; the others form a chain.
    "INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label)"
    " SELECT agent_key, scope_id, n, h, 'entity', 'hub' FROM memory.scopes"
    " CROSS JOIN generate_series(5, CAST(:count AS integer)) n CROSS JOIN generate_series(1, 3) h",
    "INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label, confidence)"
    " SELECT agent_key, scope_id, n - 1, n, 'time', '', 0.1 FROM memory.scopes"
    " CROSS JOIN generate_series(6, CAST(:count AS integer)) n",
)
ROWS = """
    SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int FROM pg_stat_xact_user_tables
    WHERE schemaname = 'memory' AND relname IN ('links', 'observations')
"""
MOST_ROWS = 2 * 200 + 2 * 20  # links and their observations, and of one more what is read before the limit


@pytest.mark.parametrize("analyzed", [True, False])
@pytest.mark.parametrize(
    "count", [pytest.param(2_000, marks=pytest.mark.slow), pytest.param(250_000, marks=pytest.mark.prove)]
)
async def test_activation_reads_no_more_however_many_links_there_are(
    database_url: str, llm: Scripted, count: int, analyzed: bool
) -> None:
    async with Memory(database_url, llm, NO_MODEL) as memory:
        await observed(memory, *FIRST, "A key hangs in the shed.")
        await rows(memory, "DELETE FROM memory.links")
        for statement in HUBS:
            await rows(memory, statement, count=count)
        if analyzed:
            await rows(memory, "ANALYZE memory.links, memory.observations")
        async with serving(memory) as session:
            before = (await session.execute(text(ROWS))).scalar_one()
            found = (await session.execute(text(REACHED), {"seeds": [1, 2, 3]})).all()
            read = (await session.execute(text(ROWS))).scalar_one() - before
    assert found
    assert read <= MOST_ROWS
