"""Names in texts, and words that tell a cause: by rules."""

from __future__ import annotations

import pytest

from memory_sql.languages.data import of_all
from memory_sql.languages.naming import capitals_in, cause_in, names_in
from memory_sql.languages.tables import Causes

B4 = ["as a result", "led to", "because of", "therefore", "caused", "because"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Nell's appeal has reference PC-40771.", ("Nell", "PC-40771")),
        ("The units are by Larch & Latch.", ("Larch & Latch",)),
        ("Colette at the Bank of Oslo asks.", ("Bank of Oslo",)),
        ("The van is WK17 ODR.", ("WK17 ODR",)),
        ("On Tuesday Jonas and Mia Ek sailed to Bergen in May.", ("Jonas", "Mia Ek", "Bergen")),
        ("I met Tom. There Tom left with Tom.", ("Tom",)),
        ("getUserName fails.", ("getUserName",)),
        ("Tea is in the pot.", ()),
        ("They rowed. It rained. I slept.", ()),
        ("12 boats, 2026-03-02, 5,400.", ()),
        ("由于风暴，围栏倒了。", ()),
        ("", ()),
        ("?! …", ()),
    ],
)
def test_names_are_told_by_capitals_and_figures(text: str, names: tuple[str, ...]) -> None:
    assert names_in(text) == names


def test_german_nouns_are_no_names() -> None:
    text = "Heute legt die Fähre nach Bergen ab, sagt Jonas von der Nordsee Reederei."
    assert names_in(text, "german") == ("Jonas von der Nordsee Reederei",)
    assert capitals_in(text, "german") == frozenset()


def test_what_begins_a_sentence_is_a_name_if_it_is_known_to_be() -> None:
    known = capitals_in("I met Gorran.")
    assert known == {"gorran"}
    assert names_in("Gorran left.", known=known) == ("Gorran",)
    assert names_in("Gorran left.") == ()


def test_at_most_eight_and_none_that_is_very_long() -> None:
    assert len(names_in(f"I saw {', '.join(f'Boat{n}' for n in range(20))}.")) == 8
    assert names_in(f"I saw {'Very' * 40}.") == ()


def test_english_markers_are_those_of_the_sources() -> None:
    """R226: B.4's six, in its order."""
    assert list(of_all(Causes)["english"].markers.values()) == B4


@pytest.mark.parametrize(
    ("language", "example", "marker"),
    [(name, *item) for name, one in of_all(Causes).items() for item in one.markers.items()],
)
def test_each_marker_is_found_in_its_example(language: str, example: str, marker: str) -> None:
    assert cause_in(example) == marker


def test_every_language_has_some() -> None:
    assert len(of_all(Causes)) == 13


@pytest.mark.parametrize("text", ["Mia sailed to Bergen.", "The pump failed to start.", "Tea.", ""])
def test_what_only_looks_like_a_marker_is_none(text: str) -> None:
    assert cause_in(text) is None
