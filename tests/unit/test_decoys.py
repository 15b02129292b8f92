"""Decoys: from a fixed table, in the form of the claims, in random positions; a judge that gets one wrong is noticed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from memory_sql.domain.ids import EARLIEST
from memory_sql.errors import JudgeError, UnavailableError
from memory_sql.languages.text import CHARACTERS_PER_TOKEN
from memory_sql.llm import Request
from memory_sql.llm.retry import is_unusable
from memory_sql.privacy.contact import without_contact
from memory_sql.propagation.answers import Claim, Decision, OfferedTarget
from memory_sql.propagation.decoys import judged_languages, missed, mixed, table
from memory_sql.propagation.judge import ask_judge
from memory_sql.propagation.rules import withheld
from memory_sql.propagation.speech import covered, language_of
from memory_sql.propagation.task import PropagationTask
from tests.decoys import verdict
from tests.fakes import Scripted, promoted

NOW = datetime(2027, 3, 9, 9, 0, tzinfo=UTC)
ENGLISH = "The scaffolding comes down on 4 March 2027."
GERMAN = "Das Gerüst an der Westseite bleibt bis Ende Februar 2027 stehen."


def task_of(*texts: str, kind: str = "group", also: tuple[str, ...] = ()) -> PropagationTask:
    alias = "collective" if kind == "collective" else "group_1"
    claims = tuple(Claim(n, text, NOW - timedelta(days=n), (alias,), also) for n, text in enumerate(texts, 1))
    return PropagationTask(claims, (OfferedTarget(alias, kind, "tern"),), NOW)


# The table


@pytest.mark.parametrize(("language", "kind"), list(table()))
def test_decoys_look_like_what_is_judged(language: str, kind: str) -> None:
    """They pass all rules, as claims do; else a model would see no other such text."""
    decoys = table()[language, kind]
    texts = [text for one in decoys for text in one.wordings]
    assert len(texts) == len(set(texts))
    assert [text for text in texts if withheld(text) or without_contact(text) != text] == []
    assert [text for text in texts if language_of(text) != language] == []
    assert min(Counter(one.goes for one in decoys).values()) >= 6
    assert {len(one.wordings) for one in decoys} == {1 if kind == "group" else 3}


def test_all_languages_that_have_rules_have_decoys() -> None:
    assert set(table()) == {(language, kind) for language in covered() for kind in ("group", "everybody")}


# Among the claims


def test_decoys_stand_at_random_places_in_the_form_of_the_claims() -> None:
    task, places = task_of(*[ENGLISH] * 6), Counter[int]()
    for seed in range(200):
        made = mixed(task, 2, Random(seed))
        assert sorted(made.task.decoys.values()) == [False, False, True, True]
        assert [claim.n for claim in made.task.claims] == list(range(1, 11))
        assert all(made.task.claims[n - 1].text == ENGLISH for n in made.numbers.values())
        assert made.numbers.keys() == {1, 2, 3, 4, 5, 6}
        decoys = [claim for claim in made.task.claims if claim.n in made.task.decoys]
        assert len({claim.text for claim in decoys}) == 4
        assert {claim.to for claim in decoys} == {("group_1",)}
        assert all(NOW - timedelta(days=10) < claim.observed_at < NOW for claim in decoys)
        places.update(list(made.task.decoys))
    assert all(40 <= places[n] <= 120 for n in range(1, 11)), places


def test_decoys_of_a_claim_from_the_first_moment_have_its_time() -> None:
    task = task_of(ENGLISH)
    early = replace(task, claims=tuple(replace(claim, observed_at=EARLIEST) for claim in task.claims))
    assert {claim.observed_at for claim in mixed(early, 2).task.claims} == {EARLIEST}


def test_decoys_are_in_the_languages_of_the_claims() -> None:
    def languages(*texts: str) -> set[str | None]:
        tasks = (mixed(task_of(*texts), 2, Random(seed)).task for seed in range(40))
        return {language_of(task.claims[n - 1].text) for task in tasks for n in task.decoys}

    assert languages(GERMAN) == {"german"}
    assert languages(GERMAN, ENGLISH) == {"german", "english"}
    assert languages("De vergadering is verplaatst naar woensdag.") == {"english"}


def test_what_goes_to_everybody_has_decoys_with_other_wordings() -> None:
    task = mixed(task_of(ENGLISH, kind="collective", also=("One.", "Two.")), 2, Random(1)).task
    assert {len(claim.also) for claim in task.claims} == {2}
    assert {claim.to for claim in task.claims} == {("collective",)}


def test_one_draw_of_the_system_differs_from_the_next() -> None:
    prompts = {tuple(claim.text for claim in mixed(task_of(ENGLISH), 2).task.claims) for _ in range(20)}
    assert len(prompts) > 15


def test_prompt_says_nothing_of_decoys() -> None:
    request = mixed(task_of(ENGLISH), 2).task.request("m")
    assert "decoy" not in (request.prompt + request.instructions).casefold()


# Whether the judge got them right


def decisions_of(task: PropagationTask, says: Callable[[str], dict[str, Any]]) -> list[Decision]:
    return [
        Decision.model_validate({"n": claim.n, "to": to, **says(claim.text), "text": claim.text})
        for claim in task.claims
        for to in claim.to
    ]


YES = {"personal": False, "general": True, "valuable": True}
NO = {"personal": True, "general": False, "valuable": False}


@pytest.mark.parametrize(("says", "count"), [(verdict, 0), (lambda _: YES, 2), (lambda _: NO, 2)])
def test_yes_and_no_to_all_are_noticed(says: Callable[[str], dict[str, Any]], count: int) -> None:
    task = mixed(task_of(ENGLISH, ENGLISH), 2).task
    assert missed(task, decisions_of(task, says)) == count


def test_decoy_that_isnt_answered_is_missed() -> None:
    task = mixed(task_of(ENGLISH), 2).task
    assert missed(task, []) == 4


def shown(request: Request[Any]) -> PropagationTask:
    assert isinstance(request.material, PropagationTask)
    return request.material


def yes_to_all(request: Request[Any]) -> str:
    task = shown(request)
    made = [{"n": claim.n, "to": to, **YES, "text": claim.text} for claim in task.claims for to in claim.to]
    return json.dumps({"decisions": made})


def honest(request: Request[Any]) -> str:
    return promoted(shown(request))


async def test_judge_that_misses_a_decoy_is_asked_once_more_with_others() -> None:
    llm = Scripted(yes_to_all, honest)
    judged = await ask_judge(llm, "m", task_of(ENGLISH), wary=False)
    first, second = map(shown, llm.requests)
    assert (len(first.decoys), len(second.decoys), judged.missed, judged.usage.calls) == (4, 8, 1, 2)
    assert second.claims[judged.numbers[1] - 1].text == ENGLISH


async def test_judge_that_misses_decoys_twice_decides_nothing() -> None:
    """It isn't the claims' fault: a failure that is tried again, never halved and never given up."""
    with pytest.raises(JudgeError, match="judged 2 and 4 claims wrongly") as raised:
        await ask_judge(Scripted(yes_to_all, yes_to_all), "m", task_of(ENGLISH), wary=False)
    assert not is_unusable(raised.value)
    usage = raised.value.usage
    assert usage is not None
    assert (raised.value.reason, usage.calls, usage.input_tokens) == ("judge", 2, 200)


async def test_judge_that_missed_some_before_gets_more() -> None:
    llm = Scripted(honest)
    await ask_judge(llm, "m", task_of(ENGLISH), wary=True)
    assert len(shown(llm.requests[0]).decoys) == 8


async def test_unusable_answer_is_asked_for_again_with_the_same_claims() -> None:
    llm = Scripted("no idea", honest)
    judged = await ask_judge(llm, "m", task_of(ENGLISH), wary=False)
    first, second = llm.requests
    assert (first.material, judged.missed) == (second.material, 0)


async def test_outage_after_a_miss_costs_what_was_asked() -> None:
    with pytest.raises(UnavailableError) as raised:
        await ask_judge(Scripted(yes_to_all, UnavailableError("timeout", "no")), "m", task_of(ENGLISH), wary=False)
    assert raised.value.usage is not None
    assert raised.value.usage.calls >= 1


async def test_judge_that_guesses_hardly_ever_decides() -> None:
    """Each of the three criteria by a coin: one in 84 calls with four decoys is right by chance."""
    chance, decided = Random(7), 0
    for _ in range(400):
        task = mixed(task_of(ENGLISH), 2, chance).task
        guessed = decisions_of(task, lambda _: {name: chance.random() < 0.5 for name in YES})
        decided += missed(task, guessed) == 0
    assert decided <= 16


@pytest.mark.parametrize(("claims", "least", "most"), [(1, 60, 400), (30, 60, 400)])
def test_what_decoys_add_to_a_batch(claims: int, least: int, most: int) -> None:
    """In tokens, as `CHARACTERS_PER_TOKEN` counts them, at random draws: about 190, whatever the batch."""
    task = task_of(*[f"The permit for hall {n} was granted on 2 November 2026." for n in range(claims)])
    plain = len(task.request("m").prompt)
    added = [(len(mixed(task, 2).task.request("m").prompt) - plain) / CHARACTERS_PER_TOKEN for _ in range(50)]
    mean = sum(added) / len(added)
    sys.stdout.write(f"{claims} claims: {plain / CHARACTERS_PER_TOKEN:.0f} tokens, decoys add {mean:.0f}\n")
    assert least <= mean <= most


def test_languages_without_decoys_are_judged_by_nobody() -> None:
    assert set(judged_languages()) == {language for language, _ in table()} == {*covered()}
