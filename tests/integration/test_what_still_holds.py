"""What still holds of an observation that a consolidation overtakes stays, as an observation of its own."""

import json
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.consolidation import consolidation
from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.selection import Selection
from memory_sql.errors import StaleError
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY, message
from tests.fakes import Scripted, listing
from tests.integration.test_consolidation_replacing import MIA, consolidated, found, known, observed, statuses

OLD, NEW = "The team meets on Tuesdays at 10:00 in room 4.", "The team meets on Thursdays."
STILL, TOLD = "The team meets at 10:00 in room 4.", "The team meets on Thursdays at 10:00 in room 4."
OTHER_WORDS = "The team meets at 10:00 in the red room."


def answer(text: str, *, older: str | None = "k1", was: str = "on Tuesdays", still: Any = STILL) -> str:
    named = {"newer": "n1", "older": older, "was": was, "now": "on Thursdays", "still": still}
    return json.dumps({"text": text, "contradictions": [named]})


# As a strong model answers the prompt as it is sent: known, new, was, now, still.
HONEST: tuple[tuple[str, str, str, str, str | None], ...] = (
    (OLD, NEW, "meets on Tuesdays", "meets on Thursdays", STILL),
    ("Mia lives in Lyon.", "Mia moved to Oslo.", "lives in Lyon", "lives in Oslo", None),
    (
        "Mia works at Bosch in Graz, cycles to work and eats lunch with Ole.",
        "Mia started at Siemens in Linz.",
        "works at Bosch in Graz",
        "works at Siemens in Linz",
        None,  # nobody can say that she still cycles there or sees Ole
    ),
    (
        "The offsite is on 2027-05-06 in Malmö; Piet books the hotel for 14 people, without breakfast.",
        "The offsite was moved to 2027-05-13.",
        "on 2027-05-06",
        "on 2027-05-13",
        "The offsite is in Malmö; Piet books the hotel for 14 people, without breakfast.",
    ),
    (
        "Die Chorprobe ist montags um 19:30 in der Aula der Kepler-Schule.",
        "Die Chorprobe beginnt ab Januar schon um 18:45.",
        "um 19:30",
        "um 18:45 ab Januar",
        "Die Chorprobe ist montags in der Aula der Kepler-Schule.",
    ),
    (
        "Chloé prend 5 mg de ramipril le matin et ne mange pas de noix.",
        "Le médecin de Chloé a arrêté le ramipril.",
        "prend 5 mg de ramipril le matin",
        "ne prend plus de ramipril",
        "Chloé ne mange pas de noix.",
    ),
    (
        "Lucía vive en Sevilla con su hijo Hugo y su gata Nube.",
        "Lucía se mudó a Cádiz con Hugo y Nube.",
        "vive en Sevilla",
        "vive en Cádiz",
        "Lucía vive con su hijo Hugo y su gata Nube.",
    ),
    ("Анна пьёт кофе без сахара.", "Анна больше не пьёт кофе.", "пьёт кофе", "не пьёт кофе", None),
    ("团队每周二10点在4号会议室开会。", "团队改为每周四开会。", "每周二", "每周四", "团队10点在4号会议室开会。"),
    (
        "ミアはリヨンに住み、猫を二匹飼っている。",
        "ミアはオスロに引っ越した。",
        "リヨンに住み",
        "オスロに住む",
        "ミアは猫を二匹飼っている。",
    ),
    (
        "민수는 서울에 살고 매일 녹차를 마신다.",
        "민수는 부산으로 이사했다.",
        "서울에 살고",
        "부산에 산다",
        "민수는 매일 녹차를 마신다.",
    ),
)


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", formation_min_messages=1)


async def moved(memory: Memory, llm: Scripted, reply: str = answer(TOLD), **more: Any) -> int:
    """The day of the team's meeting has changed, and not its hour and room."""
    scope = await observed(memory, OLD, **more)
    await consolidated(memory, llm, scope, OLD)
    await observed(memory, NEW, day=2)
    await consolidated(memory, llm, scope, reply)
    return scope


async def active(memory: Memory) -> list[str]:
    found = await rows(memory, "SELECT content FROM memory.v_observations WHERE status = 'active' ORDER BY seq")
    return [content for (content,) in found]


async def verified(memory: Memory) -> None:
    assert list(await memory.admin.verify()) == []


@pytest.mark.slow
async def test_what_still_holds_is_an_observation_of_its_own(memory: Memory, llm: Scripted) -> None:
    scope = await moved(memory, llm, tags=["team"], kind="fact")
    assert sorted(await active(memory)) == sorted([NEW, STILL])
    assert await statuses(memory) == {1: 2}
    assert (STILL, "active") in await found(memory, "in which room does the team meet")
    (part,) = [o for o in await memory.observations.list(**MIA) if o.content == STILL]
    assert (part.observed_at, part.tags, part.kind, part.pending) == (MONDAY, ("team",), "fact", False)
    traced = await rows(memory, "SELECT observation_id, part_of FROM memory.v_observations WHERE part_of IS NOT NULL")
    assert traced == [(f"o{scope}-3", f"o{scope}-1")]
    (version, *_) = await memory.scopes.history(**MIA)
    assert [item.still for item in version.contradictions] == [STILL]
    assert len(llm.requests) == 2  # the text tells it already: nobody is asked again
    await verified(memory)


async def test_it_is_classified_by_its_own_text(memory: Memory, llm: Scripted) -> None:
    await moved(memory, llm, tags=["team"], category="relationship", confidence=0.8)
    await rows(memory, "UPDATE memory.observations SET until = '2030-01-01' WHERE seq = 1")
    (part,) = [o for o in await memory.observations.list(**MIA) if o.content == STILL]
    assert (part.category, part.confidence, part.until, part.classified_by) == ("relationship", 0.8, None, 0)
    assert (await memory.work.maintain()).classified == 1
    assert (await memory.observations.get(part.id, **MIA)).importance == 0.58  # .5, .05 for the category, .03 for 10:00


@pytest.mark.parametrize("nothing", [None, "", "null"])
async def test_nothing_stays_where_nothing_still_holds(memory: Memory, llm: Scripted, nothing: Any) -> None:
    await moved(memory, llm, answer(NEW, still=nothing))
    assert await active(memory) == [NEW]
    assert await memory.work.reviews(agent_id="ada") == []
    await verified(memory)


@pytest.mark.parametrize(("older", "newer", "was", "now", "still"), HONEST)
async def test_honest_answers_come_out_as_they_are_meant(
    memory: Memory, llm: Scripted, older: str, newer: str, was: str, now: str, still: str | None
) -> None:
    scope = await observed(memory, older)
    await consolidated(memory, llm, scope, older)
    await observed(memory, newer, day=2)
    told = newer if still is None else f"{newer} {still}"

    async def honest(request: Request[Any]) -> str:
        """The observation by its number where it is shown, else the words of the text."""
        named = {"newer": "n1", "older": "k1" if known(request) else None, "was": was, "now": now, "still": still}
        return json.dumps({"text": told, "contradictions": [named]})

    llm.then(honest)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")
    assert await active(memory) == [newer, *([] if still is None else [still])]
    assert await memory.work.reviews(agent_id="ada") == []
    await verified(memory)


@pytest.mark.slow
async def test_undo_takes_it_back_and_a_second_time_does_not_double_it(memory: Memory, llm: Scripted) -> None:
    scope = await moved(memory, llm)
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope}")
    assert sorted(await active(memory)) == sorted([OLD, NEW])
    await verified(memory)
    await consolidated(memory, llm, scope, answer(TOLD))
    assert sorted(await active(memory)) == sorted([NEW, STILL])
    await verified(memory)
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope}")
    await consolidated(memory, llm, scope, answer(NEW, still=None))
    assert await active(memory) == [NEW]
    await verified(memory)


async def test_it_gives_way_where_the_older_one_is_reinstated(memory: Memory, llm: Scripted) -> None:
    scope = await moved(memory, llm)
    await memory.observations.reinstate(f"o{scope}-1", **MIA)
    assert sorted(await active(memory)) == sorted([OLD, NEW])
    await verified(memory)


async def test_it_gives_way_where_what_overtook_the_older_one_is_forgotten(memory: Memory, llm: Scripted) -> None:
    scope = await moved(memory, llm)
    await memory.forget(f"o{scope}-2", agent_id="ada", wait=False)
    assert await active(memory) == [OLD]
    await verified(memory)


@pytest.mark.parametrize("seq", [1, 3])
async def test_one_is_not_forgotten_without_the_other(memory: Memory, llm: Scripted, seq: int) -> None:
    scope = await moved(memory, llm)
    await memory.forget(f"o{scope}-{seq}", agent_id="ada", wait=False)
    assert await rows(memory, "SELECT content FROM memory.observations") == [(NEW,)]
    await verified(memory)


async def formed(memory: Memory, llm: Scripted, reply: str = answer(TOLD)) -> int:
    """As `moved`, from two conversations."""
    for n, (said, text) in enumerate([("We meet Tuesdays, 10:00, room 4", OLD), ("Thursdays it is", NEW)], 1):
        llm.then(listing((text, "individual")))
        await memory.add([message(said, n=n)], **MIA, conversation_id=f"talk{n}")
        await memory.conversations.form(agent_id="ada", conversation_id=f"talk{n}")
        ((scope,),) = await rows(memory, "SELECT scope_id FROM memory.scopes WHERE kind = 'individual'")
        await consolidated(memory, llm, scope, OLD if n == 1 else reply)
    return int(scope)


async def test_forgetting_the_message_takes_both(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm)
    ((part,),) = await rows(memory, "SELECT count(*) FROM memory.evidence WHERE seq = 3 AND conversation_id = 'talk1'")
    assert part == 1
    await verified(memory)
    await memory.forget(Selection(conversation_id="talk1"), agent_id="ada", wait=False)
    assert await rows(memory, "SELECT content FROM memory.observations") == [(NEW,)]
    assert await rows(memory, "SELECT count(*) FROM memory.messages WHERE content ~ 'room'") == [(0,)]
    await verified(memory)


@pytest.mark.slow
async def test_what_is_formed_again_takes_the_place_of_both(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm)
    llm.then(listing(("The team sits in room 4.", "individual")))
    await memory.conversations.form(agent_id="ada", conversation_id="talk1", again=True)
    assert sorted(await active(memory)) == sorted([NEW, "The team sits in room 4."])
    await verified(memory)


@pytest.mark.slow
@pytest.mark.parametrize("seq", [1, 3])
async def test_quarantine_of_one_takes_both_and_its_end_brings_back_the_whole(
    memory: Memory, llm: Scripted, seq: int
) -> None:
    """The text that had overtaken it goes with the quarantine, and asks again once that has ended."""
    scope = await moved(memory, llm)
    await memory.observations.quarantine(f"o{scope}-{seq}", **MIA)
    assert await active(memory) == [NEW]
    await verified(memory)
    await memory.observations.unquarantine(f"o{scope}-{seq}", **MIA)
    assert await active(memory) == [OLD, NEW]
    await verified(memory)


async def test_it_is_as_private_as_the_older_one(memory: Memory, llm: Scripted) -> None:
    scope = await moved(memory, llm, sensitivity="sensitive")
    (part,) = [o for o in await memory.observations.list(**MIA) if o.content == STILL]
    assert part.sensitivity == "sensitive"
    await memory.observations.mark(f"o{scope}-2", private=True, **MIA)
    assert all(o.confidential for o in await memory.observations.list(**MIA))
    await verified(memory)


async def test_it_is_disputed_where_the_older_one_was(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, OLD)
    await consolidated(memory, llm, scope, OLD)
    await memory.observations.dispute(f"o{scope}-1", **MIA)
    await observed(memory, NEW, day=2)
    await consolidated(memory, llm, scope, answer(TOLD))
    (part,) = [o for o in await memory.observations.list(**MIA) if o.content == STILL]
    assert part.verification == "disputed"
    await verified(memory)


@pytest.mark.parametrize("seq", [None, 1, 3])
async def test_a_hold_on_one_keeps_both(memory: Memory, llm: Scripted, seq: int | None) -> None:
    scope = await moved(memory, llm)
    held: dict[str, Any] = {"user_id": "mia"} if seq is None else {"observation_id": f"o{scope}-{seq}"}
    hold = await memory.holds.place(agent_id="ada", **held)
    await memory.forget(f"o{scope}-1", agent_id="ada", wait=False)
    kept = await rows(memory, "SELECT seq, status FROM memory.observation_states WHERE withdrawn_by IS NOT NULL")
    assert sorted(kept) == [(1, "withdrawn"), (3, "withdrawn")]
    await verified(memory)
    await memory.holds.release(hold.hold_id, agent_id="ada")
    assert await rows(memory, "SELECT content FROM memory.observations") == [(NEW,)]


async def test_what_is_in_other_words_waits_for_a_person(memory: Memory, llm: Scripted) -> None:
    await moved(memory, llm, answer(TOLD, still=OTHER_WORDS))
    assert await active(memory) == [NEW]
    (review,) = await memory.work.reviews(agent_id="ada")
    assert (review.kind, review.why, review.says, review.instead_of) == ("contradiction", "still", OTHER_WORDS, OLD)
    await verified(memory)
    await memory.work.decide(review.id, agent_id="ada", accept=True)
    assert sorted(await active(memory)) == sorted([NEW, OTHER_WORDS])
    assert await memory.work.reviews(agent_id="ada") == []
    await verified(memory)


async def test_what_a_person_refuses_does_not_hold(memory: Memory, llm: Scripted) -> None:
    await moved(memory, llm, answer(TOLD, still=OTHER_WORDS))
    (review,) = await memory.work.reviews(agent_id="ada")
    await memory.work.decide(review.id, agent_id="ada", accept=False)
    assert (await active(memory), await memory.work.reviews(agent_id="ada")) == ([NEW], [])
    await verified(memory)


async def test_words_of_the_text_leave_what_else_their_observation_says(memory: Memory, llm: Scripted) -> None:
    await moved(memory, llm, answer(TOLD, older=None))
    assert sorted(await active(memory)) == sorted([NEW, STILL])
    await verified(memory)


@pytest.mark.parametrize("accept", [True, False])
async def test_another_authors_word_keeps_what_still_holds_when_it_is_accepted(
    memory: Memory, llm: Scripted, accept: bool
) -> None:
    crew: dict[str, Any] = {"agent_id": "ada", "group_id": "crew"}
    first = await memory.observe(OLD, user_id="mia", observed_at=MONDAY, **crew)
    await consolidated(memory, llm, first.scope.key, OLD)
    await memory.observe(NEW, user_id="jon", observed_at=MONDAY + timedelta(days=1), **crew)
    await consolidated(memory, llm, first.scope.key, answer(TOLD, older=None))
    (review,) = await memory.work.reviews(agent_id="ada")
    assert (review.why, review.says, review.still) == ("too_many", NEW, STILL)
    await memory.work.decide(review.id, agent_id="ada", accept=accept)
    assert sorted(await active(memory)) == sorted([NEW, STILL] if accept else [NEW, OLD])
    assert await rows(memory, "SELECT related_users FROM memory.observations WHERE part_of IS NOT NULL") == (
        [(["mia"],)] if accept else []
    )
    await verified(memory)


async def test_what_is_overtaken_before_any_text_told_it_leaves_its_part_too(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, OLD)
    await observed(memory, NEW, day=2)
    named = {"newer": "n2", "older": "n1", "was": "on Tuesdays", "now": "on Thursdays", "still": STILL}
    await consolidated(memory, llm, scope, json.dumps({"text": TOLD, "contradictions": [named]}))
    assert await active(memory) == [NEW, STILL]
    await verified(memory)
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope}")
    assert await active(memory) == [OLD, NEW]
    await verified(memory)


async def test_a_part_may_be_overtaken_in_its_turn(memory: Memory, llm: Scripted) -> None:
    scope = await moved(memory, llm)
    await observed(memory, "The team meets at 11:30.", day=4)
    room = "The team meets in room 4."

    async def again(request: Request[Any]) -> str:
        older = f"k{known(request).index(STILL) + 1}"
        named = {"newer": "n1", "older": older, "was": "at 10:00", "now": "at 11:30", "still": room}
        return json.dumps({"text": "The team meets on Thursdays at 11:30 in room 4.", "contradictions": [named]})

    llm.then(again)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")
    assert await active(memory) == [NEW, "The team meets at 11:30.", room]
    await verified(memory)
    await memory.forget(f"o{scope}-1", agent_id="ada", wait=False)
    assert await active(memory) == [NEW, "The team meets at 11:30."]
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(2,)]
    await verified(memory)


async def test_the_same_said_by_another_is_no_part_and_stays(memory: Memory, llm: Scripted) -> None:
    scope = await moved(memory, llm)
    await memory.observe(STILL, **MIA, observed_at=MONDAY + timedelta(days=5))
    await memory.forget(f"o{scope}-1", agent_id="ada", wait=False)
    assert await active(memory) == [NEW, STILL]
    await verified(memory)


async def test_what_has_come_meanwhile_waits_on(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, OLD)
    await consolidated(memory, llm, scope, OLD)
    await observed(memory, NEW, day=2)

    async def while_asked(_: Any) -> str:
        await observed(memory, "Mia likes tea.", day=3)
        return answer(TOLD)

    llm.then(while_asked)
    llm.then(json.dumps({"text": f"{TOLD} Mia likes tea."}))
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")
    assert sorted(await active(memory)) == sorted([NEW, STILL, "Mia likes tea."])
    assert not any(o.pending for o in await memory.observations.list(**MIA))
    await verified(memory)


async def test_verify_finds_a_part_that_stands_beside_the_whole(memory: Memory, llm: Scripted) -> None:
    await moved(memory, llm)
    await rows(memory, "UPDATE memory.observation_states SET status = 'active', superseded_by = NULL WHERE seq = 1")
    assert "parts_follow_what_they_are_part_of" in {item.invariant for item in await memory.admin.verify()}


async def test_it_is_written_once_whatever_dies(memory: Memory, llm: Scripted) -> None:
    """An apply that isn't committed leaves nothing; one that comes late, or twice, is refused with all that it wrote."""
    scope_id = await observed(memory, OLD)
    await consolidated(memory, llm, scope_id, OLD)
    await observed(memory, NEW, day=2)
    async with memory.database.transaction(principal=SERVICE) as unit:
        scope = await ScopeRepository(unit).claim_of("ada", scope_id, timedelta(minutes=1))
        assert scope is not None
        loaded = await consolidation.load(unit, "ada", scope, memory.settings, MONDAY, "asked")
    assert loaded is not None
    llm.then(answer(TOLD))
    decided = await consolidation.decide(llm, loaded, memory.settings)
    async with memory.database.transaction(principal=SERVICE) as unit:
        await consolidation.apply(unit, loaded, decided, memory.settings, MONDAY)
        await unit.rollback()
    assert await active(memory) == [OLD, NEW]
    async with memory.database.transaction(principal=SERVICE) as unit:
        await consolidation.apply(unit, loaded, decided, memory.settings, MONDAY)
    with pytest.raises(StaleError):
        async with memory.database.transaction(principal=SERVICE) as unit:
            await consolidation.apply(unit, loaded, decided, memory.settings, MONDAY)
    assert await active(memory) == [NEW, STILL]
    await verified(memory)
