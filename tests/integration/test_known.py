"""What is known already isn't stored again: it counts as said again."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import date, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memory_sql.config import ScopeSettings, Settings
from memory_sql.domain.selection import Selection
from memory_sql.languages.text import content_digest
from memory_sql.memory import Memory
from tests.database import rows, statements
from tests.factories import MONDAY, Clock, message
from tests.fakes import Scripted, extracted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "harbor"}
EVIDENCE = "SELECT seq, count(*) FROM memory.evidence GROUP BY seq ORDER BY seq"
STATES = "SELECT seq, said_again_at FROM memory.observation_states ORDER BY seq"
TEA, COFFEE = "Mia drinks tea.", "Mia drinks coffee."


async def said(memory: Memory, clock: Clock, *texts: str, **more: Any) -> list[str]:
    """Each an hour after the one before; their ids."""
    ids = []
    for text in texts:
        clock.goes_on(hours=1)
        ids.append((await memory.observe(text, **{**MIA, **more})).id)
    return ids


async def listed(memory: Memory, **at: Any) -> list[str]:
    return [o.content for o in await memory.observations.list(**MIA, **at)]


async def pending(memory: Memory, **at: Any) -> list[str]:
    context = await memory.context(**MIA, **at)
    return [line.text for part in context.parts for line in part.lines]


async def consolidated(memory: Memory, llm: Scripted, text: str) -> None:
    llm.then(text)
    (scope,) = await memory.scopes.list(**MIA)
    await memory.scopes.consolidate(**ADA, scope_id=scope.ref.id)


async def test_tea_coffee_tea_is_one_row_of_tea_newer_than_coffee(timed: Memory, clock: Clock) -> None:
    first, coffee, again = await said(timed, clock, TEA, COFFEE, "mia drinks TEA")
    assert (again, len({first, coffee})) == (first, 2)
    assert await rows(timed, EVIDENCE) == [(1, 2), (2, 1)]
    tea = await timed.observations.get(first, **MIA)
    assert (tea.content, tea.observed_at, tea.said_again_at) == (TEA, MONDAY + timedelta(hours=1), clock.now)
    assert await listed(timed) == [TEA, COFFEE]
    found = await timed.search("what does mia drink", **MIA)
    assert [hit.observation.content for hit in found.results] == [TEA, COFFEE]
    assert [line.split(" (")[0] for line in await pending(timed)] == [f"- {TEA}", f"- {COFFEE}"]  # newest first
    digest = str(await timed.digest(**MIA))
    assert digest.index(TEA) < digest.index(COFFEE)


async def test_digest_finds_what_was_said_again_however_much_came_since(timed: Memory, clock: Clock) -> None:
    await timed.configure(**ADA, digest_newest=2, pending_max=2)
    await said(timed, clock, TEA, "Mia has a sloop.", "Mia moors at berth 12.", "Mia is from Oslo.", TEA)
    assert TEA in str(await timed.digest(**MIA))
    shown = await pending(timed)
    assert any(TEA in text for text in shown)
    assert len([text for text in shown if "Mia" in text]) == 2


async def test_only_the_newest_is_known_as_before(timed: Memory, clock: Clock) -> None:
    await timed.configure(**ADA, deduplicate="newest")
    await said(timed, clock, TEA, TEA, COFFEE, TEA)
    assert await listed(timed) == [TEA, COFFEE, TEA]
    assert await rows(timed, EVIDENCE) == [(1, 2), (2, 1), (3, 1)]
    assert [at for _, at in await rows(timed, STATES)] == []


async def test_nothing_is_known_where_it_is_off(timed: Memory, clock: Clock, llm: Scripted) -> None:
    await timed.configure(**ADA, deduplicate="off")
    await said(timed, clock, TEA, TEA)
    assert await listed(timed) == [TEA, TEA]
    await timed.add([message()], **HERE)
    llm.then(extracted((COFFEE, "individual"), (COFFEE, "individual")))
    formed = await timed.conversations.form(**ADA, conversation_id="harbor")
    assert (len(formed.observations), formed.duplicates) == (1, 1)


async def test_what_was_superseded_stays_so_and_a_new_row_is_made(timed: Memory, clock: Clock) -> None:
    tea, coffee = await said(timed, clock, TEA, COFFEE)
    await timed.observations.supersede(tea, coffee, **MIA)
    (again,) = await said(timed, clock, TEA)
    assert again not in {tea, coffee}
    assert (await timed.observations.get(tea, **MIA)).status == "superseded"
    assert await listed(timed) == [TEA, COFFEE]


async def test_what_holds_no_word_is_like_nothing_else(timed: Memory, clock: Clock) -> None:
    first, second = await said(timed, clock, "!!!", "!!!")
    assert first != second


@pytest.mark.parametrize("other", [
    {"tags": ["hot"]}, {"fact_key": "drink"}, {"metadata": {"cup": "big"}}, {"lane": "buffer"}, {"scope": "work"},
    {"until": date(2099, 3, 6)},
])  # fmt: skip
async def test_what_says_more_is_stored(timed: Memory, clock: Clock, other: dict[str, Any]) -> None:
    (first,) = await said(timed, clock, TEA)
    if "lane" in other:
        (scope,) = await timed.scopes.list(**MIA)
        await timed.scopes.set(scope.ref.id, ScopeSettings(lanes="both"), **ADA)
    await said(timed, clock, COFFEE)
    (second,) = await said(timed, clock, TEA, **other)
    assert first != second
    (third,) = await said(timed, clock, TEA)
    assert third in {first, second}


async def test_day_that_is_meant_tells_apart(timed: Memory, clock: Clock) -> None:
    first, _ = await said(timed, clock, "Mia sails tomorrow.", COFFEE)
    clock.goes_on(days=7)
    (second,) = await said(timed, clock, "Mia sails tomorrow.")
    assert first != second


async def test_buffer_knows_only_its_newest(timed: Memory, clock: Clock) -> None:
    """What exceeds it goes by its place in it, and the last words said come last."""
    await said(timed, clock, TEA)
    (scope,) = await timed.scopes.list(**MIA)
    await timed.scopes.set(scope.ref.id, ScopeSettings(lanes="both"), **ADA)
    first, _, second, third = await said(timed, clock, TEA, COFFEE, TEA, TEA, lane="buffer")
    assert len({first, second}) == 2
    assert second == third


async def test_disputed_one_is_said_anew(timed: Memory, clock: Clock) -> None:
    first, _ = await said(timed, clock, TEA, COFFEE)
    await timed.observations.dispute(first, **MIA)
    (second,) = await said(timed, clock, TEA)
    assert first != second


async def test_private_one_stays_so_whoever_says_it_again(timed: Memory, clock: Clock) -> None:
    first, _ = await said(timed, clock, TEA, COFFEE)
    await timed.observations.mark(first, **MIA, private=True)
    assert await said(timed, clock, TEA) == [first]
    kept = await timed.observations.get(first, **MIA)
    assert (kept.no_propagate, kept.said_again_at) == (True, clock.now)


async def test_more_private_word_of_the_host_makes_it_so(timed: Memory, clock: Clock) -> None:
    first, _ = await said(timed, clock, TEA, COFFEE, sensitivity="public")
    assert await said(timed, clock, TEA, sensitivity="sensitive") == [first]
    assert (await timed.observations.get(first, **MIA)).sensitivity == "sensitive"


async def test_what_is_said_in_confidence_lends_nothing_to_what_may_spread(timed: Memory, clock: Clock) -> None:
    """Else who said it in confidence would be one of those by whom it becomes known to everybody."""
    first, _ = await said(timed, clock, TEA, COFFEE)
    draft = {"owner": "u:mia", "name": "", "place": 0, "content": TEA, "deduplicate": "scope", "confidential": True}
    stored = await saved_as(timed, first, draft)
    assert stored == (3, True)
    assert await rows(timed, EVIDENCE) == [(1, 1), (2, 1), (3, 1)]


async def saved_as(memory: Memory, like: str, draft: dict[str, Any]) -> tuple[int, bool]:
    """Stores the draft with what else the columns of that observation say."""
    seq = int(like.split("-")[1])
    found = await rows(
        memory,
        """SELECT f.seq, f.is_new FROM memory.observations o
        CROSS JOIN LATERAL memory.save_observations(o.agent_key, jsonb_build_array(
            to_jsonb(o) || jsonb_build_object('digest', encode(:digest, 'hex'), 'evidence', '[{"user_id": "mia"}]'::jsonb)
            || CAST(:draft AS jsonb)
        ), NULL, now(), NULL) f WHERE o.seq = :seq""",
        draft=json.dumps(draft),
        digest=content_digest(draft["content"]),
        seq=seq,
    )
    return found[0][0], found[0][1]


async def test_another_person_is_evidence_and_forgetting_them_leaves_it_as_it_was(timed: Memory, clock: Clock) -> None:
    group: dict[str, Any] = {"group_id": "crew"}
    await timed.groups.create("crew", **ADA)
    await timed.groups.add_member("crew", "mia", **ADA)
    await timed.groups.add_member("crew", "jonas", **ADA)
    clock.goes_on(hours=1)
    first = (await timed.observe("The crew drinks tea.", **MIA, **group, confidence=0.5)).id
    before = await timed.observations.get(first, **MIA)
    clock.goes_on(hours=1)
    await timed.observe("The crew drinks coffee.", **MIA, **group)
    clock.goes_on(hours=1)
    again = await timed.observe("The crew drinks tea.", agent_id="ada", user_id="jonas", **group, confidence=0.95)
    assert (again.id, again.confidence, again.said_again_at) == (first, 0.95, clock.now)
    await timed.forget(Selection(user_id="jonas"), **ADA)
    assert await timed.observations.get(first, **MIA) == before


CONFIDENCES = st.one_of(st.none(), st.sampled_from([0.2, 0.5, 0.8, 0.95]))


@pytest.mark.slow
async def test_forgetting_goes_in_any_order(timed: Memory, clock: Clock, llm: Scripted) -> None:
    """Three conversations say it; of each two that are forgotten the same is left, whichever went first."""
    outcomes = dict[frozenset[str], set[tuple[Any, ...]]]()
    for number, order in enumerate(permutations("abc", 2)):
        whose: dict[str, Any] = {"agent_id": f"agent{number}", "user_id": "mia"}
        for hours, name in enumerate("abc", 1):
            said_at = MONDAY + timedelta(hours=hours)
            await timed.add([message(TEA, created_at=said_at)], **whose, conversation_id=name)
            llm.then(extracted((TEA, "individual")))
            await timed.conversations.form(agent_id=whose["agent_id"], conversation_id=name)
            clock.goes_on(minutes=1)
            await timed.observe(f"Something else {hours}.", **whose)
        assert len(await timed.observations.list(**whose)) == 4
        for name in order:
            await timed.forget(Selection(conversation_id=name), agent_id=whose["agent_id"])
        (left,) = [o for o in await timed.observations.list(**whose) if o.content == TEA]
        outcomes.setdefault(frozenset(order), set()).add((left.observed_at, left.said_again_at, left.confidence))
    times = [MONDAY + timedelta(hours=hours) for hours in (1, 2, 3)]
    assert outcomes == {
        frozenset("bc"): {(times[0], None, None)},
        frozenset("ac"): {(times[0], times[1], None)},
        frozenset("ab"): {(times[0], times[2], None)},
    }


async def test_older_saying_that_is_formed_later_makes_nothing_newer(timed: Memory, clock: Clock) -> None:
    clock.goes_on(days=9)
    days = {name: MONDAY + timedelta(days=n) for n, name in enumerate(("tea", "again", "coffee"), 1)}
    first = (await timed.observe(TEA, **MIA, observed_at=days["tea"])).id
    await timed.observe(COFFEE, **MIA, observed_at=days["coffee"])
    again = await timed.observe(TEA, **MIA, observed_at=days["again"])
    assert (again.id, again.said_again_at) == (first, days["again"])
    await timed.observe(TEA, **MIA, observed_at=MONDAY)
    assert (await timed.observations.get(first, **MIA)).said_again_at == days["again"]
    found = await timed.search("mia drinks", **MIA)
    assert [hit.observation.content for hit in found.results] == [COFFEE, TEA]


async def test_confidence_is_that_of_the_surest(timed: Memory, clock: Clock) -> None:
    (first,) = await said(timed, clock, TEA, confidence=0.3)
    await said(timed, clock, COFFEE)
    for given_, then in ((0.2, 0.3), (0.8, 0.8), (None, 0.8), (0.5, 0.8)):
        await said(timed, clock, TEA, confidence=given_)
        assert (await timed.observations.get(first, **MIA)).confidence == then


async def test_what_would_have_expired_is_confirmed(timed: Memory, clock: Clock) -> None:
    (first,) = await said(timed, clock, TEA, confidence=0.3)
    await said(timed, clock, COFFEE)
    await rows(
        timed,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, expires_at)"
        " SELECT agent_key, scope_id, seq, now() FROM memory.observations WHERE seq = 1",
    )
    assert await said(timed, clock, TEA, confidence=0.3) == [first]
    assert await rows(timed, "SELECT expires_at FROM memory.observation_states WHERE seq = 1") == [(None,)]


async def test_past_moment_knows_nothing_of_what_was_said_again_since(timed: Memory, clock: Clock) -> None:
    first, _ = await said(timed, clock, TEA, COFFEE)
    moment = clock.now
    clock.goes_on(days=3)
    await said(timed, clock, TEA)
    assert await listed(timed, as_of=moment) == [COFFEE, TEA]
    assert await listed(timed, as_of=clock.now) == await listed(timed) == [TEA, COFFEE]
    (tea,) = [o for o in await timed.observations.list(**MIA, as_of=moment) if o.id == first]
    assert tea.said_again_at is None
    lines = [f"- {TEA} (today)", f"- {COFFEE} (2026-03-02)"]
    assert await pending(timed) == await pending(timed, as_of=clock.now) == lines
    assert [line.split(" (")[0] for line in await pending(timed, as_of=moment)] == [f"- {COFFEE}", f"- {TEA}"]


async def test_pages_are_read_on_after_something_was_said_again(timed: Memory, clock: Clock) -> None:
    await said(timed, clock, TEA, COFFEE, "Mia drinks rum.", TEA)
    pages, before = list[str](), None
    while page := await timed.observations.list(**MIA, limit=1, before=before):
        pages += [o.content for o in page]
        before = page[-1].position
    assert pages == [TEA, "Mia drinks rum.", COFFEE]


async def test_eviction_takes_what_was_said_longest_ago(timed: Memory, clock: Clock) -> None:
    await timed.configure(**ADA, retention="budget", store_items=2)
    await said(timed, clock, TEA, COFFEE, "Mia drinks rum.", TEA)
    await timed.work.trim(**ADA)
    assert await listed(timed) == [TEA, "Mia drinks rum."]


async def test_what_the_text_still_says_is_not_consolidated_again(timed: Memory, clock: Clock, llm: Scripted) -> None:
    first, _ = await said(timed, clock, TEA, "Mia moors at berth 12.")
    await consolidated(timed, llm, "Mia drinks tea. She moors at berth 12.")
    assert await said(timed, clock, TEA) == [first]
    tea = await timed.observations.get(first, **MIA)
    assert (tea.pending, tea.said_again_at) == (False, clock.now)


async def test_what_the_text_has_lost_is_stored_again(timed: Memory, clock: Clock, llm: Scripted) -> None:
    first, _ = await said(timed, clock, TEA, COFFEE)
    await consolidated(timed, llm, "Mia drinks tea and coffee.")
    await said(timed, clock, "Mia drinks no tea any more.")
    await consolidated(timed, llm, "Mia used to drink tea and now drinks coffee.")
    (second,) = await said(timed, clock, TEA)
    assert second != first
    assert (await timed.observations.get(second, **MIA)).pending


async def test_next_text_is_told_that_it_was_said_again(timed: Memory, clock: Clock, llm: Scripted) -> None:
    """Else the coffee between would be the last word."""
    first, _ = await said(timed, clock, TEA, "Mia moors at berth 12.")
    await consolidated(timed, llm, "Mia drinks tea. She moors at berth 12.")
    await said(timed, clock, "Bertha now prefers coffee.")
    assert await said(timed, clock, TEA) == [first]
    await consolidated(timed, llm, "Mia drinks tea. She moors at berth 12.")
    told: Any = llm.requests[-1].material
    assert [(item.text, item.observed_at) for item in told.known if item.text == TEA] == [(TEA, clock.now)]


async def test_forgetting_what_was_said_again_takes_the_text_that_holds_it(
    timed: Memory, clock: Clock, llm: Scripted
) -> None:
    first, _ = await said(timed, clock, TEA, "Mia moors at berth 12.")
    await consolidated(timed, llm, "Mia drinks tea. She moors at berth 12.")
    await said(timed, clock, TEA)
    llm.then("Mia moors at berth 12.")
    await timed.forget(Selection(observation_id=first), **ADA)
    assert "tea" not in str(await timed.context(**MIA))
    assert (await timed.admin.verify()) == []


async def test_reading_a_message_again_is_no_saying_again(timed: Memory, clock: Clock, llm: Scripted) -> None:
    await timed.add([message(TEA)], **HERE)
    llm.then(extracted((TEA, "individual")))
    await timed.conversations.form(**ADA, conversation_id="harbor")
    await said(timed, clock, COFFEE)
    llm.then(extracted((TEA, "individual")))
    await timed.conversations.form(**ADA, conversation_id="harbor", again=True)
    assert await rows(timed, STATES) == []


async def test_two_at_once_make_one_row(database_url: str, clock: Clock) -> None:
    async with (
        Memory(database_url, Scripted(), Settings(llm="offline"), clock=clock) as one,
        Memory(database_url, Scripted(), Settings(llm="offline"), clock=clock) as other,
    ):
        await one.observe(COFFEE, **MIA)
        made = await asyncio.gather(*(m.observe(TEA, **MIA) for m in (one, other) * 5))
        assert len({o.id for o in made}) == 1
        assert await rows(one, EVIDENCE) == [(1, 1), (2, 10)]


@pytest.mark.slow
async def test_two_formations_at_once_make_one_row(database_url: str, llm: Scripted, clock: Clock) -> None:
    async with Memory(database_url, llm, Settings(llm="offline"), clock=clock) as one:
        names = [f"c{n}" for n in range(8)]
        for name in names:
            await one.add([message(TEA)], **MIA, conversation_id=name)
        llm.then(*(extracted((TEA, "individual"), (COFFEE, "individual")) for _ in names))
        await asyncio.gather(*(one.conversations.form(**ADA, conversation_id=name) for name in names))
        assert await rows(one, EVIDENCE) == [(1, 8), (2, 8)]
        assert (await one.admin.verify()) == []


async def test_what_is_known_costs_no_statement_more(timed: Memory, clock: Clock) -> None:
    await said(timed, clock, TEA, COFFEE)
    counts = []
    for text in ("Mia drinks rum.", TEA):
        with statements(timed) as seen:
            await said(timed, clock, text)
        counts.append(len(seen))
    assert counts[1] <= counts[0] + 1  # what was known is read


@pytest.mark.slow
async def test_it_is_found_by_an_index(timed: Memory, clock: Clock) -> None:
    await said(timed, clock, TEA)
    await rows(
        timed,
        "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version,"
        " content_hash)"
        " SELECT agent_key, scope_id, n, 'Tea ' || n, now(), 'observe', 3, sha256(n::text::bytea)"
        " FROM memory.scopes, generate_series(2, 3000) n",
    )
    await rows(timed, "ANALYZE memory.observations")
    plan = await rows(
        timed,
        "EXPLAIN SELECT 1 FROM memory.observations WHERE agent_key = 1 AND scope_id = 1 AND content_hash = '\\x00'"
        " AND standing = 'active'",
    )
    assert "observations_content_hash_seq_idx" in str(plan)


SAYING = st.tuples(
    st.sampled_from([TEA, COFFEE]), st.sampled_from(["mia", "jonas", "kim"]), st.integers(0, 9), CONFIDENCES
)
Saying = tuple[str, str, int, float | None]
NUMBERS = itertools.count(1)


@pytest.mark.slow
@given(turns=st.lists(st.one_of(SAYING, st.sampled_from(["mia", "jonas", "kim"])), min_size=1, max_size=12))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_rows_are_what_their_evidence_says(timed: Memory, turns: list[Saying | str]) -> None:
    """Whoever says what when, and whoever is forgotten: one row a text, as new and as sure as what is left says."""
    agent: dict[str, Any] = {"agent_id": f"agent{next(NUMBERS)}"}
    model = dict[str, tuple[int, list[tuple[str, int, float | None]]]]()
    await timed.groups.create("crew", **agent)
    for user in ("mia", "jonas", "kim"):
        await timed.groups.add_member("crew", user, **agent)
    for turn in turns:
        if isinstance(turn, str):
            await timed.forget(Selection(user_id=turn), **agent)
            await timed.groups.add_member("crew", turn, **agent)
            left = {text: (first, [one for one in of if one[0] != turn]) for text, (first, of) in model.items()}
            model = {text: (first, of) for text, (first, of) in left.items() if of}
            continue
        text, user, hour, confidence = turn
        at = MONDAY - timedelta(hours=hour)
        await timed.observe(text, **agent, user_id=user, group_id="crew", observed_at=at, confidence=confidence)
        model.setdefault(text, (hour, []))[1].append((user, hour, confidence))
    found = {}
    for one in await timed.observations.list(**agent, user_id="mia"):
        assert one.content not in found
        found[one.content] = one.observed_at, one.said_at, one.confidence
    assert found == {
        text: (
            MONDAY - timedelta(hours=first),
            MONDAY - timedelta(hours=min(first, *(hour for _, hour, _ in of))),
            max((sure for _, _, sure in of if sure is not None), default=None),
        )
        for text, (first, of) in model.items()
    }
