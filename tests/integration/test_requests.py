"""What a person has asked to forget: quarantined at once, then erased, or taken back."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.ids import observation_id
from memory_sql.domain.results import MaintainResult
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.factories import MONDAY
from tests.fakes import Parrot, Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
WORDS = "please forget that I prefer green tea"


async def stored(memory: Memory) -> list[Any]:
    return await rows(
        memory,
        "SELECT o.agent_key, o.scope_id, o.seq, o.content, o.tags, o.standing, coalesce(t.status, 'active'), t.superseded_by,"
        " coalesce(t.follows, false), coalesce(t.verification, 'unverified') FROM memory.observations o"
        " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq) ORDER BY 1, 2, 3",
    )


def own(user_id: str, observation_id: str) -> Selection:
    return Selection(user_id=user_id, observation_id=observation_id)


@pytest.mark.slow
async def test_only_what_is_the_users_or_was_said_by_them_is_set_aside(memory: Memory) -> None:
    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jon"):
        await memory.groups.add_member("crew", user, **ADA)
    ours = await memory.observe("Mia brings the tent.", **ADA, group_id="crew", user_id="mia")
    mine = await memory.observe("Mia prefers green tea.", **MIA)
    for user, wanted in (("jon", ours.id), ("jon", mine.id), ("mia", "o9999-1"), ("eve", mine.id)):
        for call in (memory.observations.quarantine, memory.observations.unquarantine):
            with pytest.raises(NotFoundError) as raised:
                await call(own(user, wanted), **ADA)
            assert str(raised.value) == str(NotFoundError("observation", wanted))
    with pytest.raises(NotFoundError):
        await memory.observations.quarantine(own("mia", mine.id), agent_id="eva")
    for one in (ours, mine):
        assert (await memory.observations.quarantine(own("mia", one.id), **ADA)).observations == (one.id,)
        with pytest.raises(NotFoundError):
            await memory.observations.quarantine(own("mia", one.id), **ADA)
        assert (await memory.observations.unquarantine(own("mia", one.id), **ADA)).observations == (one.id,)
        with pytest.raises(InputError, match="isn't quarantined"):
            await memory.observations.unquarantine(own("mia", one.id), **ADA)
    assert await memory.work.reviews(**ADA) == []
    assert await memory.admin.verify() == []


async def test_a_user_doesnt_end_what_an_operator_has_set_aside(memory: Memory) -> None:
    mine = await memory.observe("Mia prefers green tea.", **MIA, tags=["odd"])
    await memory.observations.quarantine(own("mia", mine.id), **ADA, request=WORDS)
    assert len(await memory.work.reviews(**ADA)) == 1
    await memory.observations.quarantine(Selection(tag="odd"), **ADA)
    assert await memory.work.reviews(**ADA) == []
    with pytest.raises(InputError, match="an operator has quarantined"):
        await memory.observations.unquarantine(own("mia", mine.id), **ADA)


async def test_a_refused_request_leaves_all_as_it_was(memory: Memory) -> None:
    old = await memory.observe("Mia prefers black tea.", **MIA, observed_at=MONDAY)
    mine = await memory.observations.update(old.id, **MIA, text="Mia prefers green tea.")
    before = await stored(memory)
    await memory.observations.quarantine(own("mia", mine.id), **ADA, request=WORDS)
    found = (await memory.search("green tea", **MIA)).results
    assert [hit.observation.id for hit in found] == [old.id]  # it stands again
    (review,) = await memory.work.reviews(**ADA)
    assert (review.kind, review.why, review.says) == ("request", "asked_to_forget", WORDS)
    await memory.work.decide(review.id, **ADA, accept=False)
    assert await stored(memory) == before
    assert await memory.work.reviews(**ADA) == []
    with pytest.raises(NotFoundError):
        await memory.work.decide(review.id, **ADA, accept=True)
    assert await memory.admin.verify() == []


async def test_an_accepted_request_erases_with_its_words(database_url: str, llm: Scripted, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with Memory(database_url, llm, Settings(forget_journal=journal)) as memory:
        mine = await memory.observe("Mia prefers green tea.", **MIA)
        await memory.observations.quarantine(own("mia", mine.id), **ADA, request=WORDS)
        (review,) = await memory.work.reviews(**ADA)
        await memory.work.decide(review.id, **ADA, accept=True, actor="kim")
        assert await memory.work.reviews(**ADA) == []
        with pytest.raises(NotFoundError):
            await memory.work.decide(review.id, **ADA, accept=True)
        assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(0,)]
        told = await rows(memory, "SELECT kind, actor FROM memory.events WHERE reason IS NOT NULL")
        assert told == []
        assert len(journal.read_text().splitlines()) == 2
        assert await memory.admin.verify() == []


async def test_what_nobody_takes_back_is_erased_in_time(database_url: str, llm: Scripted) -> None:
    now = [MONDAY]

    def clock() -> datetime:
        return now[0]

    async with Memory(database_url, llm, Settings(spoken_erase_days=30), clock=clock) as memory:
        for user in ("mia", "jon"):
            mine = await memory.observe("Their favourite is green tea.", **ADA, user_id=user)
            await memory.observations.quarantine(own(user, mine.id), **ADA, request=WORDS)
            now[0] += timedelta(days=1)
        for days, erased in ((29, 1), (0, 0), (2, 1)):
            now[0] += timedelta(days=days)
            assert await memory.work.maintain() == MaintainResult(messages=0, requested=erased, complete=True)
        assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(0,)]
    async with Memory(database_url, llm, Settings(spoken_erase_days=0), clock=clock) as memory:
        mine = await memory.observe("Their favourite is green tea.", **MIA)
        await memory.observations.quarantine(own("mia", mine.id), **ADA, request=WORDS)
        now[0] += timedelta(days=10_000)
        assert (await memory.work.maintain()).requested == 0


@pytest.mark.parametrize("by", ["time", "decision"])
@pytest.mark.parametrize(("who", "left"), [("jon", 1), ("mia", 0)])
async def test_what_somebody_else_has_said_since_stays(database_url: str, by: str, who: str, left: int) -> None:
    """As it would had they said it before or after all of that."""
    now, said = [MONDAY], {"role": "user", "content": "We keep the boat at the pier."}
    async with Memory(database_url, Parrot(), Settings(spoken_erase_days=30), clock=lambda: now[0]) as memory:
        await memory.groups.create("crew", **ADA)
        await memory.groups.add_member("crew", "jon", **ADA)

        async def say(user: str) -> Any:
            now[0] += timedelta(minutes=1)
            where: dict[str, Any] = {**ADA, "conversation_id": f"{now[0]:%M}"}
            await memory.add([said], **where, user_id=user, group_ids=["crew"])
            await memory.add([{"role": "user", "content": "Good."}], **where, user_id="lea", group_ids=["crew"])
            return await memory.conversations.form(**where)

        await say("mia")
        (mine,) = await rows(memory, "SELECT scope_id, seq FROM memory.observations WHERE content LIKE '%boat%'")
        wanted = observation_id(*mine)
        await memory.observations.quarantine(own("mia", wanted), **ADA, request=WORDS)
        await say(who)
        if by == "time":
            now[0] += timedelta(days=31)
            await memory.work.maintain()
        else:
            (review,) = await memory.work.reviews(**ADA)
            await memory.work.decide(review.id, **ADA, accept=True)
        seen = [one.content for one in await memory.observations.list(**ADA, user_id="jon")]
        assert seen.count(said["content"]) == left
        assert await memory.work.reviews(**ADA) == []
        assert await memory.admin.verify() == []


async def test_decided_and_erased_at_once_it_goes_once(memory: Memory) -> None:
    mine = await memory.observe("Mia prefers green tea.", **MIA)
    await memory.observations.quarantine(own("mia", mine.id), **ADA, request=WORDS)
    (review,) = await memory.work.reviews(**ADA)
    calls = [memory.work.decide(review.id, **ADA, accept=True) for _ in range(3)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert {str(one) for one in done if one} == {str(NotFoundError("review", review.id))}
    assert sorted(type(one).__name__ for one in done) == ["NoneType", "NotFoundError", "NotFoundError"]
    assert await rows(memory, "SELECT count(*) FROM memory.events WHERE kind = 'forget'") == [(1,)]


@pytest.mark.slow
async def test_maintaining_twice_at_once_erases_once(database_url: str, llm: Scripted) -> None:
    now = [MONDAY]
    async with Memory(database_url, llm, Settings(), clock=lambda: now[0]) as memory:
        for n in range(5):
            mine = await memory.observe(f"Mia prefers green tea number {n}.", **MIA)
            await memory.observations.quarantine(own("mia", mine.id), **ADA, request=WORDS)
        now[0] += timedelta(days=31)
        done = await asyncio.gather(*(memory.work.maintain() for _ in range(3)))
        assert sum(one.requested for one in done) == 5
        assert await rows(memory, "SELECT count(*) FROM memory.events WHERE kind = 'forget'") == [(5,)]


async def test_what_a_hold_keeps_is_out_of_use_and_waits_no_more(memory: Memory) -> None:
    mine = await memory.observe("Mia prefers green tea.", **MIA)
    await memory.holds.place(**ADA, observation_id=mine.id)
    await memory.observations.quarantine(own("mia", mine.id), **ADA, request=WORDS)
    (review,) = await memory.work.reviews(**ADA)
    await memory.work.decide(review.id, **ADA, accept=True)
    assert await memory.work.reviews(**ADA) == []
    assert await rows(memory, "SELECT status FROM memory.observation_states") == [("withdrawn",)]


async def test_words_without_an_own_observation_are_refused(memory: Memory) -> None:
    mine = await memory.observe("Mia prefers green tea.", **MIA)
    for wrong, given in ((mine.id, MIA), (Selection(user_id="mia"), ADA)):
        with pytest.raises(InputError, match="request="):
            await memory.observations.quarantine(wrong, **given, request=WORDS)
    wrongly: list[dict[str, Any]] = [{"request": " "}, {"request": WORDS, "reason": "asked"}]
    for asked in wrongly:
        with pytest.raises(InputError, match="request"):
            await memory.observations.quarantine(own("mia", mine.id), **ADA, **asked)
    with pytest.raises(InputError):
        await memory.observations.quarantine(own("mia", mine.id), **MIA)


@pytest.mark.slow
def test_command(database_url: str) -> None:
    def run(*args: object, **options: Any) -> Any:
        return memory_sql(*args, "--agent", "ada", "--url", database_url, **options)

    run("observe", "Mia prefers green tea.", "--user", "mia")
    asked = ("observation", "quarantine", "o1-1", "--request", WORDS, "--from-user")
    assert run(*asked, "jon", code=1).err == "memory-sql: no observation o1-1\n"
    assert run(*asked, "mia").out == "1 observation quarantined: o1-1\n"
    assert WORDS in run("work", "reviews").out
    assert run("work", "decide", "q1-1", "--refuse").out == "q1-1: refused\n"
    assert run("work", "reviews").out == "nothing waits for a person\n"
    assert run(*asked, "mia").out == "1 observation quarantined: o1-1\n"
    assert run("observation", "unquarantine", "o1-1", "--from-user", "mia").out == "1 observation unquarantined: o1-1\n"
