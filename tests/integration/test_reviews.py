"""What waits for a person: one list, one way to decide."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import Review
from memory_sql.errors import InvalidIdError, NotFoundError
from memory_sql.memory import Memory
from tests.commands import Ran, memory_sql
from tests.database import rows
from tests.factories import MONDAY
from tests.fakes import Scripted

Run = Callable[..., Ran]
ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
OLD = " ".join(f"Mia looks after garden number {n} near the harbour." for n in range(1, 31))
PLANTED = [f"Mia planted tree number {n} on the hill beside the church." for n in range(1, 11)]
SHORT = f"{OLD} {PLANTED[0]}"
LEFT_OUT = [{"what": f"n{n}", "why": "slight"} for n in range(2, 11)]


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", consolidation_threshold=1)


async def with_held_contradictions(memory: Memory, llm: Scripted) -> str:
    for n in range(1, 7):
        scope = (await memory.observe(f"Boat {n} is blue.", **MIA, observed_at=MONDAY)).scope.id
    llm.then("Six boats are blue.")
    await memory.run_due()
    await memory.observe("No boat is blue any more.", **MIA, observed_at=MONDAY + timedelta(days=1))
    named = [{"newer": "n1", "older": f"k{n}", "was": "boat is blue"} for n in range(1, 7)]
    llm.then(json.dumps({"text": "No boat is blue.", "contradictions": named}))
    await memory.run_due()
    return scope


async def with_held_text(memory: Memory, llm: Scripted) -> str:
    scope = (await memory.observe(OLD, **MIA)).scope.id
    llm.then(OLD)
    await memory.run_due()
    for text in PLANTED:
        await memory.observe(text, **MIA)
    llm.then(*[json.dumps({"text": SHORT, "left_out": LEFT_OUT})] * 2)
    assert (await memory.run_due()).failed
    return scope


async def superseded(memory: Memory) -> list[int]:
    found = await rows(memory, "SELECT seq FROM memory.observation_states WHERE status = 'superseded' ORDER BY seq")
    return [seq for (seq,) in found]


async def waiting(memory: Memory) -> list[Review]:
    return list(await memory.work.reviews(**ADA))


async def test_contradiction_beyond_the_bound_is_accepted_and_undone_with_its_version(
    memory: Memory, llm: Scripted
) -> None:
    scope = await with_held_contradictions(memory, llm)
    assert await superseded(memory) == [1, 2, 3]
    first, *others = await waiting(memory)
    assert len(others) == 2
    assert (first.id, first.kind, first.scope_id) == (f"{scope}v2-4", "contradiction", scope)
    assert (first.says, first.instead_of) == ("No boat is blue any more.", "Boat 4 is blue.")
    hits = [hit.observation.content for hit in (await memory.search("blue boat", **MIA)).results]
    assert {"No boat is blue any more.", "Boat 4 is blue."} <= set(hits)  # meanwhile both stand
    await memory.work.decide(first.id, **ADA, accept=True, actor="desk", reason="Repainted.")
    assert await superseded(memory) == [1, 2, 3, 4]
    assert list(await memory.admin.verify()) == []
    assert (await memory.scopes.undo(**ADA, scope_id=scope)).reinstated == 4
    assert (await superseded(memory), await waiting(memory)) == ([], [])
    assert list(await memory.admin.verify()) == []


async def test_refused_contradiction_waits_no_more(memory: Memory, llm: Scripted) -> None:
    await with_held_contradictions(memory, llm)
    first, second, third = await waiting(memory)
    await memory.work.decide(second.id, **ADA, accept=False, actor="desk", reason="Still blue.")
    assert [item.id for item in await waiting(memory)] == [first.id, third.id]
    assert await superseded(memory) == [1, 2, 3]
    told = "SELECT actor, reason, seq, version, detail FROM memory.events WHERE kind = 'review'"
    assert await rows(memory, told) == [("desk", "Still blue.", 5, 2, {"to": "refused", "by": 7})]
    with pytest.raises(NotFoundError):
        await memory.work.decide(second.id, **ADA, accept=True)


async def test_text_that_leaves_out_too_much_waits_and_is_accepted(memory: Memory, llm: Scripted) -> None:
    scope = await with_held_text(memory, llm)
    (review,) = await waiting(memory)
    assert (review.kind, review.why, review.scope_id) == ("text", "left_out", scope)
    assert (review.says, review.instead_of) == (SHORT, OLD)
    context = (await memory.context(**MIA)).xml
    assert OLD in context  # meanwhile the old text and what is pending
    assert PLANTED[9] in context
    assert list(await memory.admin.verify()) == []
    await memory.work.decide(review.id, **ADA, accept=True)
    (version, *_) = await memory.scopes.history(**MIA)
    assert (version.version, version.content) == (2, SHORT)
    assert [o.pending for o in await memory.observations.list(**MIA)] == [False] * 11
    assert await waiting(memory) == []
    assert list(await memory.admin.verify()) == []
    undone = await memory.scopes.undo(**ADA, scope_id=scope)
    assert undone.content == OLD


async def test_refused_text_is_dropped(memory: Memory, llm: Scripted) -> None:
    await with_held_text(memory, llm)
    (review,) = await waiting(memory)
    await memory.work.decide(review.id, **ADA, accept=False)
    assert await waiting(memory) == []
    assert await rows(memory, "SELECT count(*) FROM memory.runs WHERE held IS NOT NULL") == [(0,)]
    with pytest.raises(NotFoundError):
        await memory.work.decide(review.id, **ADA, accept=True)


async def test_text_is_overtaken_by_the_next_version(memory: Memory, llm: Scripted) -> None:
    scope = await with_held_text(memory, llm)
    (review,) = await waiting(memory)
    whole = " ".join([OLD, *PLANTED])
    llm.then(whole)
    await memory.scopes.consolidate(**ADA, scope_id=scope)
    assert await waiting(memory) == []
    with pytest.raises(NotFoundError):
        await memory.work.decide(review.id, **ADA, accept=True)
    assert (await memory.scopes.history(**MIA))[0].content == whole


async def test_text_that_waits_is_forgotten_with_what_it_was_made_of(memory: Memory, llm: Scripted) -> None:
    scope = await with_held_text(memory, llm)
    await memory.forget(f"o{scope[1:]}-2", **ADA, wait=False)
    assert await waiting(memory) == []
    assert await rows(memory, "SELECT count(*) FROM memory.runs WHERE held IS NOT NULL") == [(0,)]
    assert list(await memory.admin.verify()) == []


async def test_text_is_not_kept_when_something_in_it_was_forgotten_meanwhile(memory: Memory, llm: Scripted) -> None:
    """While the model was asked. Nor does its refusal put off what is left to be rewritten."""
    await memory.observe(OLD, **MIA)
    llm.then(OLD)
    await memory.run_due()
    planted = [await memory.observe(text, **MIA) for text in PLANTED]
    short = json.dumps({"text": SHORT, "left_out": LEFT_OUT})

    async def forgotten(_: object) -> str:
        await memory.forget(planted[0].id, **ADA, wait=False)
        return short

    llm.then(short, forgotten)
    assert (await memory.run_due()).failed
    assert await waiting(memory) == []
    assert await rows(memory, "SELECT count(*) FROM memory.runs WHERE held IS NOT NULL") == [(0,)]
    llm.then(" ".join([OLD, *PLANTED[1:]]))
    (consolidated,) = (await memory.run_due()).consolidated
    assert consolidated.absorbed == 9
    assert list(await memory.admin.verify()) == []


async def with_unsaid(memory: Memory, llm: Scripted, sentence: str) -> str:
    for text in PLANTED[:2]:
        scope = (await memory.observe(text, **MIA)).scope.id
    llm.then(f"{PLANTED[0]} {sentence}")
    assert len((await memory.run_due()).consolidated) == 1
    return scope


async def decide(memory: Memory, review: Review, *, accept: bool) -> None:
    await memory.work.decide(review.id, **ADA, accept=accept, actor="desk")


SECOND = "Mia planted tree number 20 on the hill beside the church."
SONG = "Visitors are greeted by a brass band with an elephant."


async def test_sentence_with_a_figure_of_nobodys_waits_and_is_accepted(memory: Memory, llm: Scripted) -> None:
    scope = await with_unsaid(memory, llm, SECOND)
    (review,) = await waiting(memory)
    assert (review.kind, review.why, review.scope_id) == ("text", "unsaid", scope)
    assert (review.says, review.instead_of) == (SECOND, None)
    assert PLANTED[1] in (await memory.context(**MIA)).xml  # meanwhile word for word
    assert list(await memory.admin.verify()) == []
    await decide(memory, review, accept=True)
    assert [item.content for item in await memory.scopes.history(**MIA)] == [f"{PLANTED[0]} {SECOND}", PLANTED[0]]
    assert [o.pending for o in await memory.observations.list(**MIA)] == [False, False]
    assert await waiting(memory) == []
    assert list(await memory.admin.verify()) == []
    assert await rows(memory, "SELECT calls, state, held FROM memory.runs ORDER BY run_id") == [
        (1, "succeeded", None),
        (0, "succeeded", None),
    ]
    assert (await memory.scopes.undo(**ADA, scope_id=scope)).content == PLANTED[0]
    assert list(await memory.admin.verify()) == []


async def test_sentence_that_nothing_says_waits_though_nothing_waits_for_it(memory: Memory, llm: Scripted) -> None:
    for text in PLANTED[:2]:
        await memory.observe(text, **MIA)
    llm.then(" ".join([*PLANTED[:2], SONG]))
    (done,) = (await memory.run_due()).consolidated
    assert (done.content, done.absorbed) == (" ".join(PLANTED[:2]), 2)
    (review,) = await waiting(memory)
    assert (review.why, review.says) == ("unsaid", SONG)
    await decide(memory, review, accept=True)
    assert (await memory.scopes.history(**MIA))[0].content == " ".join([*PLANTED[:2], SONG])
    assert list(await memory.admin.verify()) == []


async def test_refused_sentence_is_dropped(memory: Memory, llm: Scripted) -> None:
    await with_unsaid(memory, llm, SECOND)
    (review,) = await waiting(memory)
    await decide(memory, review, accept=False)
    assert await waiting(memory) == []
    assert await rows(memory, "SELECT count(*) FROM memory.runs WHERE held IS NOT NULL") == [(0,)]
    assert (await memory.scopes.history(**MIA))[0].content == PLANTED[0]


async def test_sentence_waits_until_the_next_version(memory: Memory, llm: Scripted) -> None:
    scope = await with_unsaid(memory, llm, SECOND)
    (review,) = await waiting(memory)
    llm.then(" ".join(PLANTED[:2]))
    await memory.scopes.consolidate(**ADA, scope_id=scope)
    assert await waiting(memory) == []
    with pytest.raises(NotFoundError):
        await decide(memory, review, accept=True)


async def test_sentence_is_forgotten_with_what_it_was_made_of(memory: Memory, llm: Scripted) -> None:
    scope = await with_unsaid(memory, llm, SECOND)
    await memory.forget(f"o{scope[1:]}-2", **ADA, wait=False)
    assert await waiting(memory) == []
    assert await rows(memory, "SELECT count(*) FROM memory.runs WHERE held IS NOT NULL") == [(0,)]
    assert list(await memory.admin.verify()) == []


async def test_sentences_of_a_text_of_which_nothing_is_left_wait(memory: Memory, llm: Scripted) -> None:
    """Two answers say only what nothing says: the text is refused, and a person may let the second in."""
    await memory.observe(PLANTED[1], **MIA)
    llm.then(SECOND, SECOND)
    assert (await memory.run_due()).failed
    (review,) = await waiting(memory)
    assert (review.why, review.says) == ("unsaid", SECOND)
    await decide(memory, review, accept=True)
    assert (await memory.scopes.history(**MIA))[0].content == SECOND
    assert [o.pending for o in await memory.observations.list(**MIA)] == [False]
    assert list(await memory.admin.verify()) == []


async def test_who_lets_a_refused_text_in_sees_what_it_stands_for(memory: Memory, llm: Scripted) -> None:
    """A short text may be written anew: it isn't a sentence beside the old one that is let in."""
    await memory.observe("Jonas keeps bees.", **MIA)
    llm.then("Jonas keeps bees.")
    await memory.run_due()
    await memory.observe(PLANTED[1], **MIA)
    llm.then(SECOND, SECOND)
    assert (await memory.run_due()).failed
    (review,) = await waiting(memory)
    assert (review.why, review.says, review.instead_of) == ("unsaid", SECOND, "Jonas keeps bees.")


async def test_what_a_sentence_overtakes_gives_way_when_it_is_accepted(memory: Memory, llm: Scripted) -> None:
    await memory.observe("The cleaner Rosa comes on Thursdays for 60 euros.", **MIA, observed_at=MONDAY)
    llm.then("The cleaner Rosa comes on Thursdays for 60 euros.")
    await memory.run_due()
    new = "The cleaner Rosa comes on Tuesdays now, for 65 euros."
    await memory.observe(new, **MIA, observed_at=MONDAY + timedelta(days=1))
    await memory.observe(PLANTED[0], **MIA, observed_at=MONDAY + timedelta(days=1))
    named = [{"newer": "n1", "older": "k1", "was": "comes on Thursdays", "now": "comes on Tuesdays"}]
    said = "The cleaner Rosa comes on Tuesdays for 66 euros."
    llm.then(json.dumps({"text": f"{said} {PLANTED[0]}", "contradictions": named}))
    await memory.run_due()
    assert await superseded(memory) == []
    (review,) = await waiting(memory)
    assert review.says == said
    await decide(memory, review, accept=True)
    assert (await memory.scopes.history(**MIA))[0].content == f"{said} {PLANTED[0]}"
    assert await superseded(memory) == [1]
    assert list(await memory.admin.verify()) == []


async def test_other_agents_see_and_decide_nothing(memory: Memory, llm: Scripted) -> None:
    await with_held_contradictions(memory, llm)
    (review, *_) = await waiting(memory)
    await memory.observe("x", agent_id="bob", user_id="mia")
    assert list(await memory.work.reviews(agent_id="bob")) == []
    with pytest.raises(NotFoundError):
        await memory.work.decide(review.id, agent_id="bob", accept=True)
    with pytest.raises(InvalidIdError):
        await memory.work.decide("o1-2", **ADA, accept=True)


@pytest.fixture
def run(database_url: str) -> Run:
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


@pytest.mark.slow
def test_commands(run: Run, database_url: str) -> None:
    assert run("work", "reviews", "--agent", "ada").out == "nothing waits for a person\n"

    async def hold() -> None:
        llm = Scripted()
        async with Memory(database_url, llm, Settings(llm="offline", consolidation_threshold=1)) as memory:
            await with_held_contradictions(memory, llm)

    asyncio.run(hold())
    (first, *_) = run("work", "reviews", "--agent", "ada", "--json").rows
    line, instead, *_ = run("work", "reviews", "--agent", "ada").out.splitlines()
    assert line.startswith(f"{first['id']}  contradiction (too_many), {first['scope_id']}, ")
    assert line.endswith("  No boat is blue any more.")
    assert instead.strip() == "instead of: Boat 4 is blue."
    decide = ("work", "decide", first["id"], "--agent", "ada")
    assert run(*decide, code=1).err == "memory-sql: use either --accept or --refuse\n"
    assert run(*decide, "--accept", "--actor", "desk").out == f"{first['id']}: accepted\n"
    assert run(*decide, "--accept", code=1).err == f"memory-sql: no review {first['id']}\n"
