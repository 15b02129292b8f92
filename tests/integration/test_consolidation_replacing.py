"""Observations that a consolidation names as overtaken or repeated, whenever they were absorbed."""

import json
from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from sqlalchemy import text as sql

from memory_sql.config import Settings
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.domain.selection import Selection
from memory_sql.errors import StaleError
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows, statements
from tests.factories import MONDAY, message
from tests.fakes import Scripted, listing

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", formation_min_messages=1)


async def observed(memory: Memory, *texts: str, day: int = 0, **more: Any) -> int:
    """Mia's scope, which now holds these."""
    for text in texts:
        found = await memory.observe(text, **MIA, observed_at=MONDAY + timedelta(days=day), **more)
    return found.scope.key


def answer(text: str, contradictions: Any = (), same_as: Any = ()) -> str:
    names = ("newer", "older", "was", "now")
    return json.dumps(
        {
            "text": text,
            "contradictions": [dict(zip(names, item, strict=False)) for item in contradictions],
            "same_as": [{"n": n, "same_as": older} for n, older in same_as],
        }
    )


def shown(request: Request[Any]) -> ConsolidationTask:
    assert isinstance(request.material, ConsolidationTask)
    return request.material


def known(request: Request[Any]) -> list[str]:
    return [item.text for item in shown(request).known]


async def consolidated(memory: Memory, llm: Scripted, scope: int, reply: str) -> Any:
    llm.then(reply)
    return await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")


async def statuses(memory: Memory) -> dict[int, Any]:
    found = await rows(memory, "SELECT seq, superseded_by FROM memory.observation_states WHERE status = 'superseded'")
    return dict(found)


async def found(memory: Memory, query: str, **more: Any) -> list[tuple[str, str]]:
    hits = (await memory.search(query, **MIA, **more)).results
    return [(hit.observation.content, hit.observation.status) for hit in hits]


@pytest.mark.parametrize(
    ("old", "kind", "more"),
    [
        ("Mia's flat is in Oslo.", None, {}),
        ("Mia wants a flat in Oslo.", "note", {}),
        ("Mia took a flat in Oslo last week.", "episode", {}),
        ("Mia gets her flat in Oslo on Thursday 2026-03-19.", "episode", {}),
        ("Mia had a flat in Oslo.", "episode", {"kind": "episode"}),
        ("Mia saw a flat in Oslo.", "episode", {"category": "moment"}),
    ],
)
async def test_of_whatever_kind_the_newer_one_counts_and_the_older_stays_as_it_was(
    memory: Memory, llm: Scripted, old: str, kind: str | None, more: dict[str, Any]
) -> None:
    """What is an episode by its words is often what has changed: who moves again lives in Oslo no longer."""
    scope = await observed(memory, old, **more)
    was = (await memory.observations.list(**MIA))[0]
    assert was.kind == kind
    await consolidated(memory, llm, scope, was.content)
    await observed(memory, "Mia's flat is in Bergen.", day=9)
    await consolidated(memory, llm, scope, answer("Mia's flat is in Bergen.", [("n1", "k1", "in Oslo", "in Bergen")]))
    assert [one.content for one in await memory.observations.list(**MIA)] == ["Mia's flat is in Bergen."]
    assert "Oslo" not in str(await memory.context(**MIA))
    assert (was.content, "superseded") in await found(memory, "Oslo", include_superseded=True)
    is_now = await memory.observations.get(was.id, **MIA)
    words = {"content", "observed_at", "kind", "category", "created_at", "source"}
    assert is_now.model_dump(include=words) == was.model_dump(include=words)


async def test_what_was_absorbed_long_ago_gives_way_and_comes_back(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, "Tern 2.0 ships on 24 April 2027.", "Lena is vegetarian.")
    await consolidated(memory, llm, scope, "Tern 2.0 ships on 24 April 2027. Lena is vegetarian.")
    await observed(memory, "Tern 2.0 ships on 8 May 2027.", day=3)
    overtaken = ("n1", "k1", "ships on 24 April 2027", "ships on 8 May 2027")
    result = await consolidated(
        memory, llm, scope, answer("Tern 2.0 ships on 8 May 2027. Lena is vegetarian.", [overtaken])
    )
    assert known(llm.requests[1]) == ["Tern 2.0 ships on 24 April 2027."]
    assert (result.superseded, await statuses(memory)) == (1, {1: 3})
    assert await found(memory, "when does Tern ship") == [("Tern 2.0 ships on 8 May 2027.", "active")]
    both = await found(memory, "when does Tern ship", include_superseded=True)
    assert both == [("Tern 2.0 ships on 8 May 2027.", "active"), ("Tern 2.0 ships on 24 April 2027.", "superseded")]
    assert list(await memory.admin.verify()) == []
    assert (await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope}")).reinstated == 1
    assert await statuses(memory) == {}
    assert list(await memory.admin.verify()) == []


async def test_known_is_what_the_text_holds_in_that_scope_and_is_active(memory: Memory, llm: Scripted) -> None:
    await memory.observe("Boat of the crew.", agent_id="ada", group_id="crew")
    await memory.observe("Boat of Jonas.", agent_id="ada", user_id="jonas")
    scope = await observed(memory, "Mia's boat is blue.", "Boats are fine.", "Her boat is archived.", "Tea.")
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, 3, 'quarantined' FROM memory.scopes WHERE scope_id = :scope",
        scope=scope,
    )
    await consolidated(memory, llm, scope, "All of it.")
    assert known(llm.requests[0]) == []
    await observed(memory, "The boat is red.", "A pending boat.")
    await consolidated(memory, llm, scope, "All of it, red.")
    assert known(llm.requests[1]) == ["Mia's boat is blue.", "Boats are fine."]


async def test_known_are_at_most_twenty_of_one_statement(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, *(f"Boat number {n} is blue." for n in range(60)))
    await consolidated(memory, llm, scope, "Sixty boats.")
    await observed(memory, *(f"Boat number {n} is red." for n in range(30, 60)), day=1)
    with statements(memory) as sent:
        await consolidated(memory, llm, scope, "Sixty boats.")
    assert len(known(llm.requests[1])) == 20
    assert sum("search_observations" in statement for statement in sent) == 1


async def test_group_has_its_own_known(memory: Memory, llm: Scripted) -> None:
    first = await memory.observe("The crew meets on Monday.", agent_id="ada", group_id="crew", observed_at=MONDAY)
    await consolidated(memory, llm, first.scope.key, "They meet on Monday.")
    later = MONDAY + timedelta(days=1)
    await memory.observe("The crew meets on Tuesday.", agent_id="ada", group_id="crew", observed_at=later)
    given_way = ("n1", "k1", "meets on Monday", "Tuesday")
    result = await consolidated(memory, llm, first.scope.key, answer("They meet on Tuesday.", [given_way]))
    assert result.superseded == 1


async def test_what_was_observed_earlier_overtakes_nothing(memory: Memory, llm: Scripted) -> None:
    """A message that arrives late, of before what is known."""
    scope = await observed(memory, "The meeting is on Tuesday.", day=3)
    await consolidated(memory, llm, scope, "The meeting is on Tuesday.")
    await observed(memory, "The meeting is on Monday.", day=1)
    result = await consolidated(memory, llm, scope, answer("On Monday.", [("n1", "k1", "the meeting is on Tuesday")]))
    assert (result.superseded, await statuses(memory)) == (0, {})


async def test_forgetting_what_was_shown_makes_the_answer_late(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, "Mia drinks tea.")
    await consolidated(memory, llm, scope, "Mia drinks tea.")
    await observed(memory, "Mia drinks coffee, no tea.", day=1)

    async def forgotten(_: Request[Any]) -> str:
        await memory.forget(f"o{scope}-1", agent_id="ada", wait=False)
        return answer("Mia drinks coffee, not tea.", [("n1", "k1", "drinks tea")])

    llm.then(forgotten)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")
    assert list(await memory.admin.verify()) == []


SAID = "I take my tea with milk."


async def said_twice(memory: Memory, llm: Scripted) -> tuple[int, Any]:
    """Mia said the same in two sessions; the second consolidation has noticed."""
    for n, text in enumerate(["Mia takes her tea with milk.", "Mia takes milk with her tea."], 1):
        llm.then(listing((text, "individual")))
        await memory.add([message(SAID, n=n)], **MIA, conversation_id=f"talk{n}")
        await memory.conversations.form(agent_id="ada", conversation_id=f"talk{n}")
        ((scope,),) = await rows(memory, "SELECT scope_id FROM memory.scopes WHERE kind = 'individual'")
        if n == 1:
            await consolidated(memory, llm, scope, "Mia takes her tea with milk.")
    result = await consolidated(memory, llm, scope, answer("Mia takes her tea with milk.", same_as=[("n1", "k1")]))
    return scope, result


async def evidence(memory: Memory) -> list[tuple[Any, ...]]:
    found = await rows(
        memory, "SELECT seq, conversation_id, repeated_seq FROM memory.evidence ORDER BY seq, evidence_id"
    )
    return [tuple(row) for row in found]


async def test_what_repeats_is_evidence_of_the_older_and_no_second_fact(memory: Memory, llm: Scripted) -> None:
    scope, result = await said_twice(memory, llm)
    assert (result.absorbed, result.superseded, await statuses(memory)) == (1, 0, {2: 1})
    assert await evidence(memory) == [(1, "talk1", None), (1, "talk2", 2), (2, "talk2", None)]
    assert await found(memory, "tea") == [("Mia takes her tea with milk.", "active")]
    (version, *_) = await memory.scopes.history(**MIA)
    assert [(item.newer, item.older) for item in version.repetitions] == [(2, 1)]
    assert await rows(memory, "SELECT detail FROM memory.events WHERE kind = 'status'") == [
        ({"from": "active", "to": "superseded", "by": 1, "why": "repeats"},)
    ]
    assert list(await memory.admin.verify()) == []
    undone = await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope}")
    assert (undone.reinstated, await statuses(memory)) == (1, {})
    assert await evidence(memory) == [(1, "talk1", None), (2, "talk2", None)]
    assert [o.content for o in await memory.observations.list(**MIA) if o.pending] == ["Mia takes milk with her tea."]
    assert list(await memory.admin.verify()) == []


@pytest.mark.parametrize(("talk", "left"), [("talk1", 2), ("talk2", 1)])
async def test_forgetting_one_of_two_sources_leaves_the_other(
    memory: Memory, llm: Scripted, talk: str, left: int
) -> None:
    await said_twice(memory, llm)
    await memory.forget(Selection(conversation_id=talk), agent_id="ada", wait=False)
    assert await rows(memory, "SELECT seq, repeated_seq FROM memory.evidence") == [(left, None)]
    assert [o.id.rpartition("-")[2] for o in await memory.observations.list(**MIA)] == [str(left)]
    assert list(await memory.admin.verify()) == []


@pytest.mark.parametrize("seq", [1, 2])
async def test_forgetting_one_of_two_that_say_the_same_leaves_the_other(
    memory: Memory, llm: Scripted, seq: int
) -> None:
    """Whether or not a text had noticed that they do."""
    scope, _ = await said_twice(memory, llm)
    await memory.forget(f"o{scope}-{seq}", agent_id="ada", wait=False)
    left = [o.content for o in await memory.observations.list(**MIA)]
    assert left == ["Mia takes milk with her tea." if seq == 1 else "Mia takes her tea with milk."]
    assert list(await memory.admin.verify()) == []


WORDS = ("Mia takes her tea with milk.", "Mia takes milk with her tea.", "Mia takes her milk with tea.")
SURE = (0.3, 0.5, 0.95)


async def said_thrice(memory: Memory, llm: Scripted, sure: Sequence[float | None] = SURE) -> int:
    """On three days; each time a text has noticed that it was said before."""
    for n, (text, confidence) in enumerate(zip(WORDS, sure, strict=True)):
        scope = await observed(memory, text, day=n, confidence=confidence)
        same = [("n1", "k1")] if n else []
        await consolidated(memory, llm, scope, answer("Mia takes her tea with milk.", same_as=same))
    assert await statuses(memory) == {2: 1, 3: 1}
    return scope


async def said(memory: Memory) -> dict[int, tuple[int, float | None]]:
    """The day on which each active one was said last, and how sure it is."""
    return {
        int(one.id.rpartition("-")[2]): ((one.said_at - MONDAY).days, one.confidence)
        for one in await memory.observations.list(**MIA)
        if one.status == "active"
    }


async def test_what_is_repeated_in_other_words_is_said_again_and_surer(memory: Memory, llm: Scripted) -> None:
    """And no longer a guess that expires."""
    scope = await said_thrice(memory, llm)
    assert await said(memory) == {1: (2, 0.95)}
    maintained = await memory.work.maintain(dry_run=True, at=memory.now() + timedelta(days=400))
    assert maintained.expired == 0
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope}")
    assert await said(memory) == {1: (1, 0.5), 3: (2, 0.95)}
    assert list(await memory.admin.verify()) == []


@pytest.mark.parametrize("sure", [SURE, SURE[::-1], (None, 0.8, None)], ids=str)
@pytest.mark.parametrize("going", [*permutations((2, 3)), (1, 2), (1, 3)], ids=str)
async def test_what_was_said_again_is_what_is_left_says_in_any_order(
    memory: Memory, llm: Scripted, sure: Sequence[float | None], going: tuple[int, int]
) -> None:
    scope, there = await said_thrice(memory, llm, sure), {1, 2, 3}
    for seq in going:
        await memory.forget(f"o{scope}-{seq}", agent_id="ada", wait=False)
        there -= {seq}
        left = {n: (n - 1, sure[n - 1]) for n in there}
        if 1 in there:
            known = [sure[n - 1] for n in there]
            left = {1: (max(there) - 1, max((one for one in known if one is not None), default=None))}
        assert await said(memory) == left
        assert list(await memory.admin.verify()) == []


async def test_repeat_that_the_host_stated_stands_without_the_fact(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, "Mia takes her tea with milk.")
    await consolidated(memory, llm, scope, "Mia takes her tea with milk.")
    await observed(memory, "Mia takes milk with her tea.", day=1)
    await consolidated(memory, llm, scope, answer("Mia takes her tea with milk.", same_as=[("n1", "k1")]))
    assert await statuses(memory) == {2: 1}
    await memory.forget(f"o{scope}-1", agent_id="ada", wait=False)
    assert [o.content for o in await memory.observations.list(**MIA)] == ["Mia takes milk with her tea."]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("Mia takes her tea with rum.", {}),
        ("Mia takes her tea with milk at 5.", {}),
        ("Mia takes milk with her tea.", {"fact_key": "tea"}),
        ("Mia takes milk with her tea.", {"tags": ["drinks"]}),
    ],
    ids=["another word", "another number", "key", "tags"],
)
async def test_what_says_more_is_no_repetition(memory: Memory, llm: Scripted, text: str, more: dict[str, Any]) -> None:
    scope = await observed(memory, "Mia takes her tea with milk.")
    await consolidated(memory, llm, scope, "Mia takes her tea with milk.")
    await observed(memory, text, day=1, **more)
    await consolidated(memory, llm, scope, answer("Mia takes tea.", same_as=[("n1", "k1")]))
    assert await statuses(memory) == {}
    refused = await rows(memory, "SELECT refused FROM memory.runs ORDER BY run_id DESC LIMIT 1")
    assert refused == [({"not_the_same": 1},)]


async def test_more_than_a_fifth_gives_way_only_with_a_person(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, *(f"Boat {n} is blue." for n in range(1, 21)))
    await consolidated(memory, llm, scope, "Twenty boats are blue.")
    await observed(memory, "No boat is blue any more.", day=1)
    everything = [("n1", f"k{n}", "boat is blue") for n in range(1, 21)]
    result = await consolidated(memory, llm, scope, answer("No boat is blue.", everything))
    assert result.superseded == 4  # of 21
    (version, *_) = await memory.scopes.history(**MIA)
    assert [item.held for item in version.contradictions] == [False] * 4 + [True] * 16
    assert await rows(memory, "SELECT count(*) FROM memory.v_contradictions WHERE held") == [(16,)]
    assert list(await memory.admin.verify()) == []


async def test_repeat_counts_again_where_the_older_one_was_formed_anew(memory: Memory, llm: Scripted) -> None:
    """What the other run makes of the first session isn't the same: the second session's word stands for itself."""
    await said_twice(memory, llm)
    llm.then(listing(("Mia owns a tea shop.", "individual")))
    await memory.conversations.form(agent_id="ada", conversation_id="talk1", again=True)
    active = [o.content for o in await memory.observations.list(**MIA)]
    assert sorted(active) == ["Mia owns a tea shop.", "Mia takes milk with her tea."]
    assert (await evidence(memory))[:2] == [(1, "talk1", None), (2, "talk2", None)]
    assert list(await memory.admin.verify()) == []


async def test_repeat_counts_again_where_the_older_one_is_quarantined(memory: Memory, llm: Scripted) -> None:
    scope, _ = await said_twice(memory, llm)
    await memory.observations.quarantine(f"o{scope}-1", **MIA)
    assert [o.content for o in await memory.observations.list(**MIA)] == ["Mia takes milk with her tea."]
    assert list(await memory.admin.verify()) == []


@pytest.mark.parametrize(
    ("entered", "found"),
    [
        pytest.param("NULL", 1, marks=pytest.mark.open),
        ("service", 1),
        ("service of another", 0),
        ("user", 0),
    ],
)
async def test_scope_is_searched_without_a_user_for_the_librarys_own_work_alone(
    memory: Memory, entered: str, found: int
) -> None:
    scope = await observed(memory, "Mia's boat is blue.")
    enter = {
        "service": "SELECT memory.enter('ada', NULL, NULL, true)",
        "service of another": "SELECT memory.enter('bob', NULL, NULL, true)",
        "user": "SELECT memory.enter('ada', 'mia', NULL, false)",
    }
    async with memory.database.transaction() as unit:
        if entered in enter:
            await unit.execute(sql(enter[entered]))
        scopes = "SELECT count(*) FROM memory.searched_scopes('ada', NULL, NULL, NULL, :scope)"
        assert (await unit.execute(sql(scopes), {"scope": scope})).scalar_one() == found
