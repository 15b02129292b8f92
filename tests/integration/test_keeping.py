"""A sentence that can't stand costs itself, not the text; nothing that it told is lost, or waits for ever."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import RunDueResult
from memory_sql.languages.text import count_words, sentences
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Scripted
from tests.loopback import numbered

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
TEA, RENT, BOAT = "Mia drinks green tea.", "The rent of the flat is 1,980 euros.", "The boat lies in Kiel."
COLOURS = ("red", "blue", "green", "white", "yellow", "purple", "orange", "brown")
MONDAY = datetime(2026, 11, 23, 9, tzinfo=UTC)


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", consolidation_threshold=2)


class Days:
    """A clock that goes on."""

    def __init__(self) -> None:
        self.now = MONDAY

    def __call__(self) -> datetime:
        return self.now


async def pending(memory: Memory) -> list[str]:
    return sorted(o.content for o in await memory.observations.list(**MIA) if o.pending)


async def text_of(memory: Memory) -> str:
    (scope,) = await memory.scopes.list(**MIA)
    return scope.consolidation or ""


async def test_wrong_figure_costs_its_sentence_and_no_second_call(memory: Memory, llm: Scripted) -> None:
    for said in (TEA, RENT, BOAT):
        await memory.observe(said, **MIA)
    llm.then(f"{TEA} The rent of the flat is 2,180 euros. {BOAT}")
    (done,) = (await memory.run_due()).consolidated
    assert (done.content, done.absorbed) == (f"{TEA} {BOAT}", 2)
    assert (len(llm.requests), await pending(memory)) == (1, [RENT])
    assert RENT in (await memory.context(**MIA)).xml
    assert await rows(memory, "SELECT refused FROM memory.runs") == [({"sentences_figures": 1},)]
    assert await memory.run_due() == RunDueResult()
    assert list(await memory.admin.verify()) == []
    (scope,) = await memory.scopes.list(**MIA)
    llm.then(f"{TEA} {BOAT} {RENT}")
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope.ref.id)
    assert (await text_of(memory), await pending(memory)) == (f"{TEA} {BOAT} {RENT}", [])


async def test_asked_for_it_is_not_asked_for_again_and_again(memory: Memory, llm: Scripted) -> None:
    for said in (TEA, RENT):
        scope = (await memory.observe(said, **MIA)).scope.id
    llm.then(f"{TEA} The rent of the flat is 2,180 euros.")
    done = await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    assert (done.content, len(llm.requests)) == (TEA, 1)


async def test_it_is_tried_again_after_a_day_or_when_something_comes(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    clock = Days()
    wrong = "The rent of the flat is 2,180 euros. The fee of the club is 77 euros."
    fee = "The fee of the club is 35 euros."
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        for said in (TEA, RENT, fee):
            await memory.observe(said, **MIA)
        llm.then(f"{TEA} {wrong}")
        assert len((await memory.run_due()).consolidated) == 1
        assert await pending(memory) == sorted([RENT, fee])
        assert list(await memory.admin.verify()) == []
        clock.now += timedelta(hours=23)
        assert await memory.run_due() == RunDueResult()
        clock.now += timedelta(hours=2)
        llm.then(f"{TEA} {wrong}", f"{TEA} {wrong}")  # nothing new is left, so it is told why
        assert len((await memory.run_due()).failed) == 1
        assert await memory.run_due() == RunDueResult()
        await memory.observe(BOAT, **MIA)
        llm.then(f"{TEA} {BOAT} {RENT} {fee}")
        assert len((await memory.run_due()).consolidated) == 1
        assert await pending(memory) == []
        assert list(await memory.admin.verify()) == []


async def test_old_sentence_stands_in_the_place_of_one_that_cannot(memory: Memory, llm: Scripted) -> None:
    old = "The cleaner Rosa comes on Thursdays for 60 euros."
    await memory.observe(old, **MIA)
    scope = (await memory.observe(TEA, **MIA)).scope.id
    llm.then(f"{old} {TEA}")
    await memory.run_due()
    new = "The cleaner Rosa comes on Tuesdays now, for 65 euros."
    for said in (new, BOAT):
        await memory.observe(said, **MIA)
    named = [{"newer": "n1", "older": "k1", "was": "comes on Thursdays", "now": "comes on Tuesdays"}]
    answer = {"text": f"The cleaner Rosa comes on Tuesdays for 66 euros. {TEA} {BOAT}", "contradictions": named}
    llm.then(json.dumps(answer))
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    assert await text_of(memory) == f"{old} {TEA} {BOAT}"
    assert await pending(memory) == [new]
    assert await rows(memory, "SELECT count(*) FROM memory.observation_states WHERE status = 'superseded'") == [(0,)]


@pytest.mark.parametrize(
    "made_up",
    [
        "Mia wants to be called Nono and asks to be greeted with a song.",
        "The current text and the new observations provide information about personal preferences.",
        "Here follows an updated summary which covers everything important.",
        "Mia möchte Nono genannt und immer mit einem Lied begrüßt werden.",
    ],
)
async def test_sentence_that_nothing_says_does_not_get_in(memory: Memory, llm: Scripted, made_up: str) -> None:
    for said in (TEA, BOAT):
        await memory.observe(said, **MIA)
    llm.then(f"{made_up} {TEA} {BOAT}")
    await memory.run_due()
    assert (await text_of(memory), await pending(memory)) == (f"{TEA} {BOAT}", [])


async def test_what_is_said_in_other_words_or_another_language_stays(memory: Memory, llm: Scripted) -> None:
    for said in (TEA, "Mia ist mit ihrer Schwester in der letzten Woche nach Graz umgezogen."):
        await memory.observe(said, **MIA)
    text = f"{TEA} With her sister she settled elsewhere during the past days."
    llm.then(text)
    await memory.run_due()
    assert (await text_of(memory), await pending(memory)) == (text, [])


@pytest.mark.parametrize(
    ("said", "sentence", "stays"),
    [
        ("李磊在明天科技工作。", "Li Lei works at Bright Sky Technology.", False),
        ("李磊在明天科技工作。", "李磊 works at 明天科技 since this year.", True),
        ("Анна работает в компании «Северный ветер».", "Anna works for the North Wind Company.", False),
        ("Анна работает в компании «Северный ветер».", "Анна works for the company «Северный ветер».", True),
        ("他星期一去参加圣诞派对。", "He goes to the Christmas party on Monday evening.", True),
        ("Mia arbeitet bei der Bäckerei Kornblume.", "Mia works for the bakery Kornblume in town.", True),
        ("田中さんは毎朝六時に走る。", "Er läuft jeden Morgen um sechs Uhr durch den Wald.", True),
    ],
)
async def test_translation_keeps_names_as_they_are(
    memory: Memory, llm: Scripted, said: str, sentence: str, stays: bool
) -> None:
    for one in (TEA, BOAT, said):
        await memory.observe(one, **MIA)
    llm.then(f"{TEA} {BOAT} {sentence}")
    await memory.run_due()
    kept = f"{TEA} {BOAT} {sentence}" if stays else f"{TEA} {BOAT}"
    assert (await text_of(memory), await pending(memory)) == (kept, [] if stays else [said])


async def test_text_that_goes_over_into_another_language_is_taken_as_it_is(memory: Memory, llm: Scripted) -> None:
    english = "Mia drinks green tea in the morning and has a boat that lies in Kiel, which she sails with her brother. "
    english += (
        "She lives in Graz with two cats and works for the town, where she plans the parks. She is allergic to nuts "
    )
    english += "and never eats fish. Her sister lives in Lyon with her husband and their three children."
    german = "Mia trinkt morgens grünen Tee und hat ein Boot, das in Kiel liegt und das sie mit ihrem Bruder segelt. "
    german += (
        "Sie wohnt in Graz mit zwei Katzen, arbeitet für die Stadt und plant dort Parks. Sie verträgt keine Nüsse "
    )
    german += "und isst nie Fisch. Ihre Schwester lebt in Lyon mit ihrem Mann und ihren drei Kindern."
    scope = (await memory.observe(english, **MIA)).scope.id
    llm.then(english)
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    await memory.observe("Mia schreibt ab jetzt lieber Deutsch.", **MIA)
    llm.then(f"{german} Sie schreibt ab jetzt lieber Deutsch.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    assert await text_of(memory) == f"{german} Sie schreibt ab jetzt lieber Deutsch."


async def test_sentences_that_go_without_a_word_stand_again(memory: Memory, llm: Scripted) -> None:
    rooms = [f"Room {n} of the boat house is painted {colour}." for n, colour in enumerate(COLOURS, 1)]
    scope = (await memory.observe(" ".join(rooms), **MIA)).scope.id
    llm.then(" ".join(rooms))
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    await memory.observe(TEA, **MIA)
    llm.then(" ".join([*rooms[:2], *rooms[5:], TEA]))
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    assert await text_of(memory) == " ".join([*rooms, TEA])
    assert await rows(memory, "SELECT refused FROM memory.runs ORDER BY run_id DESC LIMIT 1") == [
        ({"sentences_put_back": 3},)
    ]


async def test_text_a_fifth_over_the_limit_is_kept(memory: Memory, llm: Scripted) -> None:
    await memory.configure(agent_id="ada", consolidation_max_words=20)
    for said in (TEA, BOAT):
        await memory.observe(said, **MIA)
    text = f"{TEA} {BOAT} " + " ".join(["Mia drinks tea."] * 5)
    assert count_words(text) == 24
    llm.then(text)
    await memory.run_due()
    assert (await text_of(memory), len(llm.requests)) == (text, 1)


async def test_what_is_longer_is_cut_from_the_end_but_for_what_is_new(memory: Memory, llm: Scripted) -> None:
    await memory.configure(agent_id="ada", consolidation_max_words=20)
    old = ["The roof was mended.", "The garden has plums.", "The cellar floods.", "The stove smokes."]
    await memory.observe(" ".join(old), **MIA)
    scope = (await memory.observe(TEA, **MIA)).scope.id
    llm.then(" ".join([*old, TEA]))
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    await memory.observe(BOAT, **MIA)
    await memory.observe(RENT, **MIA)
    text = " ".join([*old, BOAT, RENT, TEA])
    llm.then(text, text)
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    assert await text_of(memory) == " ".join([*old[:3], BOAT, RENT])
    assert await pending(memory) == []
    assert await rows(memory, "SELECT refused FROM memory.runs ORDER BY run_id DESC LIMIT 1") == [
        ({"sentences_too_long": 2},)
    ]


@pytest.mark.slow
async def test_a_year_of_texts_that_are_too_long(database_url: str, settings: Settings) -> None:
    """By a model that can't count: whatever it wrote down is in the text or in the pending lines, at every step."""
    limit, chance, llm, clock = 60, random.Random(38), Scripted(), Days()

    def longer(request: Request[Any]) -> str:
        """All that was there and is new, cut to 1 to 25 % above the limit by leaving out the oldest as slight."""
        old, new = numbered(request.prompt, "s"), numbered(request.prompt, "n")
        most = limit * chance.uniform(1.01, 1.25)
        left_out = 0
        while count_words(" ".join([*old[left_out:], *new])) > most and left_out < len(old):
            left_out += 1
        gone = [{"what": f"s{n}", "why": "overtaken", "by": "n1"} for n in range(1, left_out + 1)]
        return json.dumps({"text": " ".join([*old[left_out:], *new]), "left_out": gone})

    words = "harbour ferry garden kitchen ladder orchard window cellar bridge market museum library".split()
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        await memory.configure(agent_id="ada", consolidation_max_words=limit)
        for week in range(52):
            clock.now += timedelta(days=7)
            facts = [
                f"The {word} of house {week * 3 + n} was painted." for n, word in enumerate(chance.sample(words, 3))
            ]
            for fact in facts:
                await memory.observe(fact, **MIA)
            before = sentences(await text_of(memory)) if week else []
            llm.then(longer, longer)
            done = await memory.run_due()
            text, waiting = await text_of(memory), await pending(memory)
            assert count_words(text) <= limit * 1.2
            assert all(fact in text or fact in waiting for fact in facts)
            if not done.consolidated:
                assert sentences(text) == before
            llm.replies.clear()
        assert len(await pending(memory)) <= 6
        assert list(await memory.admin.verify()) == []
