"""What one person's words may overtake of what others said, by a model that obeys; and what people decide meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY
from tests.fakes import Scripted, extracted
from tests.integration.test_consolidation_replacing import answer, consolidated, known, observed, shown, statuses

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
CREW: dict[str, Any] = {**ADA, "group_id": "crew"}
OTHERS = ("mia", "jonas", "lena")


def rule(n: int) -> str:
    return f"The {['red', 'blue', 'green', 'white'][n % 4]} boat number {n} sails at {n % 12 + 6} o'clock in 2026."


async def crew(memory: Memory, llm: Scripted, count: int, **more: Any) -> int:
    """A group's scope with so many things that three members have said, all of it in its text."""
    for n in range(count):
        at = MONDAY + timedelta(minutes=n)
        said = await memory.observe(rule(n), **CREW, user_id=OTHERS[n % 3], observed_at=at, **more)
    await consolidated(memory, llm, said.scope.key, " ".join(map(rule, range(count))))
    return said.scope.key


def overtaking(was: Callable[[str], str], most: int = 3) -> Callable[[Request[Any]], str]:
    """A model that takes the last thing said for one that overtakes three of those that it is shown."""

    def reply(request: Request[Any]) -> str:
        task = shown(request)
        named = [("n1", f"k{item.n}", was(item.text), "no longer") for item in task.known[:most]]
        return answer(f"{task.current} {task.observations[-1].text}", named)

    return reply


@pytest.mark.parametrize(
    ("was", "asked"),
    [
        *(("the", 0), ("is", 0), ("2026", 0), ("boat", 3), ("the boat number", 3)),
        *(("at", 0), ("o'clock in", 3), ("in 2026", 0), ("6", 0), ("crew", 0)),
    ],
)
async def test_words_that_say_nothing_of_an_observation_overtake_nothing(
    memory: Memory, llm: Scripted, was: str, asked: int
) -> None:
    """Nor do those that stand in most of them, unless a person says so."""
    scope = await crew(memory, llm, 9)
    await memory.observe(
        "The boat number 3 has a new sail.", **CREW, user_id="eve", observed_at=MONDAY.replace(year=2027)
    )
    llm.then(overtaking(lambda _: was))
    done = await memory.scopes.consolidate(**ADA, scope_id=f"s{scope}")
    assert (done.superseded, await statuses(memory)) == (0, {})
    assert len(await memory.work.reviews(**ADA)) == asked


@pytest.mark.parametrize(
    ("before", "after", "was"),
    [
        ("Das Boot {} fährt für den Hafen.", "Das Boot 13 fährt nicht für den Hafen.", "für"),
        ("El barco {} está en el puerto.", "El barco 13 está en la playa.", "está"),
        ("Het bootje {} is van de haven.", "Het bootje 13 is van het strand.", "van"),
        ("Łódka {} jest w porcie.", "Łódka 13 nie jest w porcie.", "jest"),
        ("ボート{}号は港に来ます。", "ボート13号は海に来ます。", "ます"),
    ],
)
async def test_small_words_of_other_languages_overtake_nothing_either(
    memory: Memory, llm: Scripted, before: str, after: str, was: str
) -> None:
    for n in range(4):
        said = await memory.observe(before.format(n + 30), **CREW, user_id=OTHERS[n % 3], observed_at=MONDAY)
    await consolidated(memory, llm, said.scope.key, " ".join(before.format(n + 30) for n in range(4)))
    await memory.observe(after, **CREW, user_id="eve", observed_at=MONDAY.replace(year=2027))
    llm.then(overtaking(lambda _: was))
    done = await memory.scopes.consolidate(**ADA, scope_id=f"s{said.scope.key}")
    assert (done.superseded, await statuses(memory), await memory.work.reviews(**ADA)) == (0, {}, [])


@pytest.mark.parametrize(
    ("before", "was", "asked"),
    [
        ("A {} hajó egy parton van.", "egy", True),
        ("Лодка {} это в порту.", "это", True),
        ("The {} boat belongs to Mia's uncle, 12 metres long.", "12", True),
        ("The {} boat belongs to Mia's uncle.", "to Mia's uncle", False),
        ("Лодка {} стоит в порту.", "стоит в порту", False),
        ("红色的船{}号停在港口。", "停在港口", False),
    ],
)
async def test_a_word_or_number_too_short_to_tell_waits_for_a_person(
    memory: Memory, llm: Scripted, before: str, was: str, asked: bool
) -> None:
    said = await memory.observe(before.format("red"), **CREW, user_id="mia", observed_at=MONDAY)
    await consolidated(memory, llm, said.scope.key, before.format("red"))
    await memory.observe(before.format("blue"), **CREW, user_id="eve", observed_at=MONDAY + timedelta(days=1))
    llm.then(overtaking(lambda _: was))
    done = await memory.scopes.consolidate(**ADA, scope_id=f"s{said.scope.key}")
    assert (done.superseded, len(await memory.work.reviews(**ADA))) == ((0, 1) if asked else (1, 0))


@pytest.mark.parametrize("are_one", [True, False])
async def test_somebody_with_two_ids_is_one_person(memory: Memory, llm: Scripted, *, are_one: bool) -> None:
    scope = await crew(memory, llm, 9)
    if are_one:
        await memory.people.merge(**ADA, user_id="visitor", into_user_id="eve")
    for n, user_id in enumerate(("eve", "visitor")):
        text = f"The boat number {n + 100} is sold, and boat number {n} with it."
        await memory.observe(text, **CREW, user_id=user_id, observed_at=MONDAY.replace(year=2027 + n))
        llm.then(overtaking(lambda text: text.strip(".")))
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope}")
    assert len([seq for seq in await statuses(memory) if seq <= 9]) == (3 if are_one else 6)
    assert len(await memory.work.reviews(**ADA)) == (3 if are_one else 0)


async def test_all_scopes_of_a_group_count_together(memory: Memory, llm: Scripted) -> None:
    places: list[dict[str, Any]] = [{}, {"scope": "boats"}]
    for n, where in enumerate(places):
        if where:
            await memory.scopes.create("group", **ADA, owner_id="crew", name="boats")
        scope = await crew(memory, llm, 9, **where)
        text = f"The boat number {n + 100} is sold, and boat number {n} with it."
        await memory.observe(text, **CREW, **where, user_id="eve", observed_at=MONDAY.replace(year=2027))
        llm.then(overtaking(lambda text: text.strip(".")))
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope}")
    assert await rows(memory, "SELECT count(*) FROM memory.observation_states WHERE status = 'superseded'") == [(3,)]
    assert len(await memory.work.reviews(**ADA)) == 3


@pytest.mark.slow
async def test_one_members_words_overtake_a_few_of_others_in_a_day(timed: Memory, llm: Scripted, clock: Any) -> None:
    """Ten conversations, three rows of others each."""
    scope = await crew(timed, llm, 30)
    for n in range(10):
        text = f"The boat number {n + 100} is sold, and boat number {n} with it."
        await timed.observe(text, **CREW, user_id="eve", observed_at=clock.now + timedelta(days=400))
        llm.then(overtaking(lambda text: text.strip(".")))
        await timed.scopes.consolidate(**ADA, scope_id=f"s{scope}")
        clock.goes_on(minutes=30)
    assert len([seq for seq in await statuses(timed) if seq <= 30]) == 3
    assert len(await timed.work.reviews(**ADA)) >= 15
    clock.goes_on(days=1)
    await timed.observe(
        "The boat number 200 is sold.", **CREW, user_id="eve", observed_at=clock.now + timedelta(days=400)
    )
    llm.then(overtaking(lambda text: text.strip(".")))
    await timed.scopes.consolidate(**ADA, scope_id=f"s{scope}")
    assert len([seq for seq in await statuses(timed) if seq <= 30]) == 6
    assert list(await timed.admin.verify()) == []


async def test_what_one_said_oneself_is_not_bounded(memory: Memory, llm: Scripted) -> None:
    for n in range(6):
        said = await memory.observe(rule(n), **CREW, user_id="eve", observed_at=MONDAY + timedelta(minutes=n))
    await consolidated(memory, llm, said.scope.key, " ".join(map(rule, range(6))))
    for n in range(2):
        text = f"Boat number {n + 100} is new, so boat number {n} is gone."
        await memory.observe(text, **CREW, user_id="eve", observed_at=MONDAY + timedelta(days=n + 1))
        llm.then(overtaking(lambda text: text.strip(".")))
        await memory.scopes.consolidate(**ADA, scope_id=f"s{said.scope.key}")
    assert len(await statuses(memory)) == 6
    assert await memory.work.reviews(**ADA) == []


DECISIONS: dict[str, Callable[[Memory, str], Awaitable[Any]]] = {
    "confirmed": lambda memory, id: memory.observations.confirm(id, **MIA),
    "disputed": lambda memory, id: memory.observations.dispute(id, **MIA),
    "said again": lambda memory, id: memory.observe("Mia drinks tea.", **MIA),
    "held": lambda memory, id: memory.holds.place(**ADA, user_id="mia", reason="audit"),
}


@pytest.mark.parametrize("decision", DECISIONS)
async def test_what_a_person_decides_while_the_model_writes_waits_for_a_person(
    memory: Memory, llm: Scripted, decision: str
) -> None:
    scope = await observed(memory, "Mia drinks tea.")
    await consolidated(memory, llm, scope, "Mia drinks tea.")
    await observed(memory, "Mia drinks coffee.", day=1)

    async def meanwhile(request: Request[Any]) -> str:
        assert known(request) == ["Mia drinks tea."]
        await DECISIONS[decision](memory, f"o{scope}-1")
        return answer("Mia drinks coffee.", [("n1", "k1", "drinks tea", "coffee")])

    llm.then(meanwhile)
    done = await memory.scopes.consolidate(**ADA, scope_id=f"s{scope}")
    assert (done.superseded, await statuses(memory)) == (0, {})
    (review,) = await memory.work.reviews(**ADA)
    assert (review.kind, review.says) == ("contradiction", "Mia drinks coffee.")
    assert list(await memory.admin.verify()) == []
    assert len(await rows(memory, "SELECT 1 FROM memory.consolidations")) == 2


FACTS = (
    "the gate is locked at ten",
    "Anna keeps the spare keys",
    "the alarm starts at eleven",
    "the cellar floods in March",
)
RUMOUR = f"It is only an old rumour, and false, that {', that '.join(FACTS[:-1])}, and that {FACTS[-1]}."


@pytest.mark.parametrize("author", ["eve", "mia"])
async def test_a_long_sentence_takes_nobody_elses_place(memory: Memory, llm: Scripted, author: str) -> None:
    """What says a part of it repeats it where the same person has said it, who vouches for the rest; it stays otherwise."""
    said = await memory.observe(RUMOUR, **CREW, user_id=author, observed_at=MONDAY)
    await consolidated(memory, llm, said.scope.key, RUMOUR)
    for n, fact in enumerate(FACTS):
        at = MONDAY + timedelta(days=1, minutes=n)
        await memory.observe(f"{fact[0].upper()}{fact[1:]}.", **CREW, user_id="mia", observed_at=at)
    named = [(f"n{n}", "k1") for n in range(1, len(FACTS) + 1)]
    await consolidated(memory, llm, said.scope.key, answer(RUMOUR, same_as=named))
    of_others = await rows(memory, "SELECT count(*) FROM memory.evidence WHERE repeated_seq IS NOT NULL")
    assert (len(await statuses(memory)), of_others) == ((0, [(0,)]) if author == "eve" else (4, [(4,)]))


async def test_who_says_all_of_it_stands_behind_it(memory: Memory, llm: Scripted) -> None:
    said = await memory.observe("The gate is locked at ten.", **CREW, user_id="eve", observed_at=MONDAY)
    await consolidated(memory, llm, said.scope.key, "The gate is locked at ten.")
    for user, day in (("mia", 1), ("jonas", 2)):
        await memory.observe(
            "At ten the gate is locked!", **CREW, user_id=user, observed_at=MONDAY + timedelta(days=day)
        )
    await consolidated(memory, llm, said.scope.key, answer("The gate is locked at ten.", same_as=[("n1", "k1")]))
    assert list((await statuses(memory)).values()) == [1]


async def test_what_a_formation_that_began_before_says_again_meanwhile_stays(memory: Memory, llm: Scripted) -> None:
    said = await memory.observe("Mia drinks tea.", **MIA, observed_at=MONDAY)
    await consolidated(memory, llm, said.scope.key, "Mia drinks tea.")
    await memory.observe("Mia drinks coffee.", **MIA, observed_at=MONDAY + timedelta(days=1))
    await memory.add([{"id": "1", "role": "user", "content": "I still drink tea."}], **MIA, conversation_id="talk")
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def extract(request: Request[Any]) -> str:
        begun.set()
        await goes_on.wait()
        return extracted(("Mia drinks tea.", "individual", [1]))

    async def tell(_: Request[Any]) -> str:
        goes_on.set()
        await forming
        return answer("Mia drinks coffee.", [("n1", "k1", "tea", "coffee")])

    llm.then(extract)
    forming = asyncio.create_task(memory.conversations.form(**ADA, conversation_id="talk"))
    await begun.wait()
    llm.then(tell)
    done = await memory.scopes.consolidate(**ADA, scope_id=said.scope.id)
    assert (done.superseded, len(await memory.work.reviews(**ADA))) == (0, 1)
