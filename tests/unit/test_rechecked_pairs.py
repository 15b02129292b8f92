"""The set by which rechecks are judged says what it claims to."""

from collections import Counter

from memory_sql.consolidation.holding import holds_of
from memory_sql.languages.wording import stands_in
from tests.rechecking import contradictions, lookalikes


def test_two_hundred_of_each() -> None:
    assert (len(contradictions()), len(lookalikes())) == (200, 200)
    assert Counter(pair.kind for pair in lookalikes()) == {"both": 80, "interval": 40, "people": 40, "part": 40}
    assert len({pair.language for pair in contradictions()}) > 12


def test_no_pair_stands_twice() -> None:
    pairs = [*contradictions(), *lookalikes()]
    assert len({(pair.earlier, pair.later) for pair in pairs}) == 400


def test_what_gives_way_is_in_the_words_of_the_earlier_one() -> None:
    wrong = [pair for pair in [*contradictions(), *lookalikes()] if pair.was and not stands_in(pair.was, pair.earlier)]
    assert wrong == []


def test_what_still_holds_is_in_the_words_of_the_earlier_one() -> None:
    parts = [pair for pair in lookalikes() if pair.kind == "part"]
    assert [pair for pair in parts if not holds_of(pair.still or "", pair.earlier, pair.was)] == []
