"""Honest answers come out unchanged, in every walk of life and language; harmful ones are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.consolidation.accounting import NONE_SPENT, Refusal, Spent, account
from memory_sql.consolidation.answers import ConsolidatedText, NamedLeftOut, NumberedText
from memory_sql.consolidation.checks import accounted_for, checked_text, kept_of, refused_as
from memory_sql.consolidation.keeping import Kept
from memory_sql.consolidation.replacing import Replaced, Shown, replaced
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.domain.scopes import AbsorbedObservation, PendingObservation
from memory_sql.languages.text import count_tokens, sentences
from memory_sql.llm import Request
from memory_sql.llm.answers import read
from tests.honest_consolidations import CASES, Case

SETTINGS = Settings(llm="offline")
NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def judged(
    case: Case, settings: Settings = SETTINGS, max_words: int = 500, spent: Spent = NONE_SPENT
) -> tuple[Kept, Refusal | None, Replaced]:
    known = [AbsorbedObservation(n, text, moment) for n, (moment, text) in enumerate(case.known, 1)]
    inputs = [PendingObservation(len(known) + n, text, moment) for n, (moment, text) in enumerate(case.new, 1)]
    shown = Shown(inputs, known, case.current)
    task = ConsolidationTask(
        "individual",
        case.whose,
        case.current,
        tuple(NumberedText(n, item.observed_at, item.content) for n, item in enumerate(inputs, 1)),
        max_words,
        case.now,
        known=tuple(NumberedText(n, item.observed_at, item.content) for n, item in enumerate(known, 1)),
    )
    answer = read(json.dumps(case.answer), ConsolidatedText)
    text = checked_text(answer.text, "b0undary", settings)
    named = replaced(answer.contradictions, answer.same_as, shown)
    accounted = accounted_for(answer, named, task, shown, spent)
    refused = refused_as(text, task, accounted, settings)
    return kept_of(text, answer, task, shown, accounted, settings), refused, named


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_honest_answer_comes_out_unchanged(case: Case) -> None:
    kept, refused, named = judged(case)
    assert refused is None, refused
    assert (kept.text, dict(kept.left_out), kept.waits) == (case.answer["text"], {}, frozenset())
    assert dict(named.refused) == {}
    assert len(named.contradictions) == len(case.answer.get("contradictions", ()))
    assert len(named.repetitions) == len(case.answer.get("same_as", ()))


def played(shared: Path) -> list[Case]:
    lines = (shared / "data/played/answers.jsonl").read_text(encoding="utf-8").splitlines()
    calls = [json.loads(line) for line in lines]
    return [_played(call) for call in calls if call["kind"] == "consolidation"]


def _played(call: dict[str, Any]) -> Case:
    given = [(datetime.fromisoformat(item["observed_at"].split()[0]), item["text"]) for item in call["given"]]
    current = None if call["current"] == "(nothing yet)" else json.loads(call["current"])
    return Case(call["of"], call["of"].split()[-1], current, given, call["answer"], now=NOW)


def test_all_that_was_played_comes_out_unchanged(shared: Path) -> None:
    cases = played(shared)
    assert len(cases) == 9
    for case in cases:
        kept, refused, named = judged(case)
        assert (refused, kept.text) == (None, case.answer["text"]), case.name
        assert dict(named.refused) == {}, case.name


OLD = " ".join(f"Mia looks after garden number {n} near the harbour." for n in range(1, 31))


def told(text: str, *left_out: dict[str, Any], new: str = "Mia sold her boat.", **more: Any) -> Case:
    return Case("x", "mia", OLD, [(NOW, new)], {"text": text, "left_out": left_out, **more}, now=NOW)


def gone(why: str, numbers: range, **by: str) -> list[dict[str, Any]]:
    return [{"what": f"s{n}", "why": why, **by} for n in numbers]


KEPT_ONE = "Mia looks after garden number 1 near the harbour."


def garden(n: int) -> str:
    return f"Mia looks after garden number {n} near the harbour."


@pytest.mark.parametrize("listed", [False, True])
def test_what_goes_beyond_a_quarter_is_put_back_whether_it_is_listed_or_not(listed: bool) -> None:
    """Silence isn't better than an honest list, and nothing is lost by either; a quarter may go where it is said."""
    text = " ".join([*map(garden, range(16, 31)), "She sold her boat."])
    kept, refused, _ = judged(told(text, *(gone("slight", range(1, 16)) if listed else ())))
    assert refused is None
    missing = [n for n in range(1, 31) if garden(n) not in kept.text]
    assert missing == (list(range(1, 8)) if listed else [])
    assert "She sold her boat." in kept.text


def test_twenty_nine_of_thirty_dropped_as_slight_do_not_go() -> None:
    kept, _, _ = judged(told(f"{garden(1)} She sold her boat.", *gone("slight", range(2, 31))))
    assert len([n for n in range(1, 31) if garden(n) in kept.text]) == 23
    assert kept.lost == 0


def test_a_quarter_may_go_as_over_or_slight() -> None:
    text = " ".join(map(garden, range(1, 24)))
    kept, refused, _ = judged(told(text, *gone("over", range(24, 28)), *gone("slight", range(28, 31))))
    assert (refused, kept.text, kept.put_back) == (None, text, 0)


def test_three_versions_without_a_word_take_nothing_away() -> None:
    text = OLD
    for n in range(3):
        some = " ".join(sentences(text)[: 20 - n])
        case = Case("x", "mia", text, [(NOW, f"Mia sold boat {n}.")], {"text": f"{some} Mia sold boat {n}."}, now=NOW)
        kept, refused, _ = judged(case)
        assert refused is None
        text = kept.text
    assert [n for n in range(1, 31) if garden(n) not in text] == []


def test_what_was_overtaken_may_go_whole() -> None:
    """The answer says by what, and that speaks of it."""
    new = "Mia gave up all the gardens near the harbour."
    assert judged(told(new, *gone("overtaken", range(1, 31), by="n1"), new=new))[1] is None
    assert judged(told(new, *gone("overtaken", range(1, 31), by="n2"), new=new))[1] is not None
    boat = "Mia sold her boat."
    assert judged(told(boat, *gone("overtaken", range(1, 31), by="n1")))[1] is not None


def test_what_shrinks_without_a_word_is_refused() -> None:
    _, refused, _ = judged(told(KEPT_ONE))
    assert refused is not None
    assert not refused.review
    assert "left_out" in refused.told
    assert "garden" not in refused.reason + refused.told


def test_short_answer_that_lists_nothing_but_keeps_most_passes() -> None:
    text = (
        "Mia looks after gardens 1 to 30 near the harbour. " + " ".join(OLD.split(". ")[:13]) + ". She sold her boat."
    )
    assert judged(told(text))[1] is None


def test_lower_limit_on_words_is_no_reason_to_refuse() -> None:
    text = " ".join(OLD.split()[:40])
    assert judged(told(text), max_words=60)[1] is None
    assert judged(told(" ".join(OLD.split()[:20])), max_words=60)[1] is not None


def test_most_of_what_is_new_is_no_slight_matter() -> None:
    new = [(NOW, f"Mia planted tree number {n} on the hill today.") for n in range(1, 11)]
    case = Case("x", "mia", None, new, {"text": "Mia planted tree number 1.", "left_out": []}, now=NOW)
    case.answer["left_out"] = [{"what": f"n{n}", "why": "slight"} for n in range(2, 11)]
    refused = judged(case)[1]
    assert refused is not None
    assert refused.review


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ("The rent is 1,980 euros.", "The rent is 1980 euros."),
        ("Die Miete beträgt 1.980 Euro.", "Die Miete beträgt 1980 Euro."),
        ("Le loyer est de 1 980 euros.", "Le loyer est de 1980 euros."),
        ("Mia has two children.", "Mia has 2 children."),
        ("Mia hat drei Kinder.", "Mia hat 3 Kinder."),
        ("They meet at 2 pm.", "They meet at 14:00."),
        ("They meet at 14:30.", "They meet at 2:30 pm."),
        ("The budget is 12k.", "The budget is 12,000 euros."),
        ("The price is 24.50.", "The price is 24,5."),
        ("Call +49 170 1234567.", "Call 0049 1701234567."),
        ("The account is DE89 3704 0044 0532 0130 00.", "The account is DE89370400440532013000."),
        ("The meeting is next Friday.", "The meeting is on 2026-12-04."),
        ("The meeting is tomorrow.", "The meeting is on 2026-11-24."),
        ("They met yesterday.", "They met on 2026-11-22."),
        ("The trip is on 8 May 2027.", "The trip is on 2027-05-08."),
        ("Das Treffen ist nächsten Freitag.", "Das Treffen ist am 2026-12-04."),
        ("See https://www.example.org/plan.", "See example.org/plan and https://example.org/plan."),
        ("Write to Ana@Example.org.", "Write to ana@example.org."),
        ("Version 1.2.3 runs on Postgres 18.", "Postgres 18 carries version 1.2.3."),
        ("The race is in week 7.", "The race is in week 7, as said on 2026-11-23."),
        ("Der Kurs beginnt um 16.15 Uhr.", "Der Kurs beginnt um 16:15."),
        ("Der Kurs beginnt um 16:15.", "Der Kurs beginnt um 16.15 Uhr."),
        ("Le cours commence à 16 h 15.", "Le cours commence à 16:15."),
    ],
)
def test_what_stands_there_by_value_is_grounded(new: str, text: str) -> None:
    case = Case("x", "mia", None, [(NOW, new)], {"text": text}, now=NOW)
    assert judged(case)[0].left_out["figures"] == judged(case)[0].left_out["links"] == 0


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ("The rent is 1,980 euros.", "The rent is 2,180 euros."),
        ("The rent is 1,980 euros.", "The rent is 198 euros."),
        ("The meeting is next Friday.", "The meeting is on 2027-02-05."),
        ("Call 0170 1234567.", "Call 0170 1234568."),
        ("They meet at 2 pm.", "They meet at 15:00."),
        ("Ana lives in Kiel.", "Ana lives in Kiel, at number 12."),
    ],
)
def test_sentence_with_a_figure_that_stands_nowhere_is_left_out(new: str, text: str) -> None:
    tea = "Mia likes tea with milk."
    case = Case("x", "mia", None, [(NOW, new), (NOW, tea)], {"text": f"{tea} {text}"}, now=NOW)
    kept, refused, _ = judged(case)
    assert refused is None
    assert (kept.text, kept.waits, dict(kept.left_out)) == (tea, frozenset({1}), {"figures": 1})


def test_sentence_with_a_link_that_stands_nowhere_is_left_out() -> None:
    new = [(NOW, "The plan is at https://example.org/plan.")]
    case = Case("x", "mia", None, new, {"text": "See https://evil.example/plan and joe@evil.example."}, now=NOW)
    assert judged(case)[0].left_out == {"links": 1}


def figures_of(new: list[str], text: str, *figures: dict[str, Any], current: str | None = None) -> int | None:
    """How many sentences are left out for their figures; None: none."""
    said = [(NOW, one) for one in new]
    answer = {"text": text, "figures": list(figures)}
    return judged(Case("x", "club", current, said, answer, now=NOW))[0].left_out["figures"] or None


def test_sum_is_grounded_where_the_answer_names_what_it_adds() -> None:
    new = ["Ana paid 40 euros.", "Ben paid 85 euros."]
    text = "Ana paid 40 and Ben 85 euros, 125 in all."
    assert figures_of(new, text, {"figure": "125", "of": ["n1", "n2"]}) is None
    assert figures_of(new, text, {"figure": 125, "of": [1, 2], "was": None}) is None
    assert figures_of(new, text) is None  # nor need it name them
    assert figures_of(new, text.replace("125", "130"), {"figure": "130", "of": ["n1", "n2"]}) is not None
    assert figures_of(["Ana paid 40 and Ben 85 euros."], text, {"figure": "125", "of": ["n1"]}) is None


def test_what_is_left_is_grounded_where_the_answer_names_what_it_comes_of() -> None:
    new = ["The budget is 40,000 euros.", "They spent 1,980 euros on the booth.", "The print cost 20 euros."]
    text = "Of 40,000 euros 38,000 are left."
    assert figures_of(new, text, {"figure": "38,000", "of": ["n1", "n2", "n3"]}) is None
    assert figures_of(new, text.replace("38,000", "38,500"), {"figure": "38,500", "of": ["n1", "n2"]}) is not None
    assert (
        figures_of(["The club has 40 members, 12 have paid."], "28 have not paid.", {"figure": "28", "of": ["n1"]})
        is None
    )


def test_what_words_stand_for_may_be_added_up() -> None:
    new = ["Der Dachdecker bekommt anderthalbtausend Euro.", "Der Maurer bekommt 980 Euro."]
    words = {"figure": "1500", "of": ["n1"], "was": "anderthalbtausend"}
    total = {"figure": "2480", "of": ["n1", "n2"]}
    assert figures_of(new, "Zusammen sind es 2.480 Euro.", words, total) is None
    assert figures_of(new, "Zusammen sind es 2.480 Euro.", total) is not None


@pytest.mark.parametrize(
    ("new", "text", "figure", "was"),
    [
        ("They meet at half past eight.", "They meet at 8:30.", "8:30", "half past eight"),
        ("They meet at half past eight.", "They meet at 08.30.", "8.30", "Half past eight"),
        ("They meet at a quarter to 9.", "They meet at 8:45.", "8:45", "quarter to 9"),
        ("Treffen um halb sieben abends.", "Das Treffen ist um 18:30.", "18:30", "halb sieben abends"),
        ("小李晚上八点半跑步。", "小李20:30跑步。", "20:30", "晚上八点半"),
        ("Kokous on puoli kahdeksalta.", "Kokous on klo 19.30.", "19.30", "puoli kahdeksalta"),
        ("It lasts a fortnight.", "It lasts 14 days.", "14 days", "a fortnight"),
        ("It takes 2 and a half hours.", "It takes 2.5 hours.", "2.5", "2 and a half hours"),
        ("Two licences of 490 euros each.", "The 2 licences cost 980 euros.", "980", "Two licences of 490 euros each"),
        ("La répétition est à vingt heures trente.", "La répétition est à 20 h 30.", "20 h 30", "vingt heures trente"),
        ("They meet on Christmas Eve.", "They meet on 2026-12-24.", "2026-12-24", "Christmas Eve"),
        ("Der Laden schließt um 2 Uhr nachmittags.", "Der Laden schließt um 14 Uhr.", "14", "2 Uhr nachmittags"),
        ("Mia was born in the summer of '87.", "Mia was born in 1987.", "1987", "summer of '87"),
        ("She won the second prize.", "She won the 2nd prize.", "2nd", "second"),
    ],
)
def test_figure_that_stands_for_words_is_grounded(new: str, text: str, figure: str, was: str) -> None:
    assert figures_of([new], text, {"figure": figure, "of": ["n1"], "was": was}) is None
    assert (
        figures_of(["Mia is at sea with all of the others."], text, {"figure": figure, "of": ["n1"], "was": was})
        is not None
    )


def test_words_may_stand_in_the_text_so_far() -> None:
    named = {"figure": "12:00", "of": ["s1"], "was": "noon"}
    assert figures_of(["Mia sails."], "They meet at 12:00. Mia sails.", named, current="They meet at noon.") is None
    assert figures_of(["Mia sails."], "They meet at 12:00. Mia sails.", current="They meet at noon.") is not None


RENT = "The rent is high, as Mia told us again on Sunday, and 1,980 euros of it are for heating."


@pytest.mark.parametrize(
    ("figure", "was"),
    [
        ("2180", "rent is steep"),  # other words
        ("2180", "rent on Sunday"),  # that don't stand beside one another
        ("2180", ""),
        ("2180", "1,980 euros"),  # another number
        ("1992", "1,980 euros"),
        ("1980 2180", "1,980 euros"),
        ("2180", "is high, as Mia told us again on Sunday"),  # more than eight
        ("2180", "igh"),
        ("21801234", "high"),  # an account
        ("1 2180 3", "high"),
        ("1987-04-03", "Sunday"),  # far away
    ],
)
def test_figure_is_not_made_up_by_quoting_something(figure: str, was: str) -> None:
    text = f"The rent is {figure}."
    assert figures_of([RENT], text, {"figure": figure, "of": ["n1"], "was": was}) is not None


@pytest.mark.parametrize(
    ("new", "text", "figure", "was"),
    [
        ("They meet at 8:30 sharp.", "They meet at 9:45.", "9:45", "at 8:30 sharp"),
        ("They meet on 2026-11-27 at the pier.", "They meet on 2026-12-24.", "2026-12-24", "on 2026-11-27"),
    ],
)
def test_time_or_day_is_not_moved_by_quoting_it(new: str, text: str, figure: str, was: str) -> None:
    assert figures_of([new], text, {"figure": figure, "of": ["n1"], "was": was}) is not None


def test_words_are_quoted_for_one_figure() -> None:
    both = [{"figure": figure, "of": ["n1"], "was": "half past eight"} for figure in ("8:30", "9:45")]
    assert figures_of(["They meet at half past eight."], "They meet at 8:30 or 9:45.", *both) is not None
    assert figures_of(["They meet at half past eight."], "They meet at 8:30.", *both) is None


def test_words_of_what_is_not_named_or_not_shown_count_for_nothing() -> None:
    new = ["Mia sails.", "They meet at noon."]
    for of in (["n1"], ["n3"], ["k1"], ["s1"], []):
        assert figures_of(new, "They meet at 12:00.", {"figure": "12:00", "of": of, "was": "noon"}) is not None


def test_secret_is_masked_in_a_text_as_in_messages() -> None:
    case = Case(
        "x", "mia", None, [(NOW, "The password is hunter2hunter.")], {"text": "Mia's password: hunter2hunter"}, now=NOW
    )
    assert judged(case)[0].text == "Mia's password: [secret: password]"
    assert judged(case, Settings(llm="offline", secrets="keep"))[0].text == "Mia's password: hunter2hunter"


def test_instructions_are_the_same_to_the_byte_and_the_prompt_short() -> None:
    """So that providers can cache them; what changes from call to call stands in the prompt."""
    requests = [_request(case) for case in CASES]
    assert len({request.instructions for request in requests}) == 1
    assert count_tokens(requests[0].instructions) <= 740
    for case, request in zip(CASES, requests, strict=True):
        said = sum(len(text) for _, text in (*case.new, *case.known)) + len(case.current or "")
        lines = len(case.new) + len(case.known) + 6
        assert len(request.prompt) <= said + 60 * lines + 700


def _request(case: Case) -> Request[ConsolidatedText]:
    new, known = (
        tuple(NumberedText(n, moment, text) for n, (moment, text) in enumerate(items, 1))
        for items in (case.new, case.known)
    )
    return ConsolidationTask("individual", case.whose, case.current, new, 500, case.now, known=known).request("any")


def test_what_is_left_of_a_sentence_does_not_stand_beside_it() -> None:
    """Sentences that were cut were put back beside what was left of them, so that each version doubled the text."""
    kept, refused, _ = judged(told(f"{'Mia looks after a garden. ' * 30}She sold her boat."))
    assert refused is None
    assert sorted(sentences(kept.text)) == sorted([*map(garden, range(1, 31)), "She sold her boat."])


def test_week_in_which_much_went_leaves_less_to_go() -> None:
    text, slight = " ".join(map(garden, range(5, 31))), gone("slight", range(1, 5))
    assert garden(1) not in judged(told(text, *slight))[0].text
    kept, refused, _ = judged(told(text, *slight), spent=Spent(words=70))
    assert (refused, [garden(n) in kept.text for n in range(1, 5)]) == (None, [True] * 4)
    kept, _, _ = judged(told(text, *slight), spent=Spent(words=70, no_room=40))
    assert garden(1) not in kept.text


def test_where_others_speak_only_a_contradiction_overtakes() -> None:
    new = "Mia gave up all the gardens near the harbour."
    theirs = Spent(is_own=False)
    kept, _, _ = judged(told(new, *gone("overtaken", range(1, 31), by="n1"), new=new), spent=theirs)
    assert len([n for n in range(1, 31) if garden(n) in kept.text]) == 23
    was = {"newer": "n1", "older": "k1", "was": "looks after garden", "now": "gave up"}
    case = told(new, contradictions=[was], new=new)
    kept, _, _ = judged(replace(case, known=[(NOW - timedelta(days=1), garden(7))]), spent=theirs)
    assert [n for n in range(1, 31) if garden(n) not in kept.text] == [7]


def test_plan_that_has_ended_lets_one_sentence_go() -> None:
    """However many of a group's sentences its maker has put into it."""
    things = (("key", "drawer"), ("rope", "shed"), ("lamp", "cabin"), ("pump", "cellar"), ("chart", "library"))
    kept_in = [f"The {what} of the yard is kept in the {where} behind the harbour office." for what, where in things]
    plan = AbsorbedObservation(1, f"Mia will see whether all holds: {' '.join(kept_in)}", NOW, "fulfilled")
    left_out = [NamedLeftOut(what=f"s{n}", why="over") for n in range(1, 5)]
    found = account(left_out, (), kept_in, Shown((), ended=(plan,)), "crew", Spent(is_own=False))
    assert round(found.replaced, 1) == 0.2
    assert found.explained == {1, 2}
