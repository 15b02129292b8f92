"""What patterns need, derived from the patterns, and never more than is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.languages.anchors import Anchored, Needed, digits_needed_by, letters_in, needed_by
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Dates, Signals
from memory_sql.privacy import personal
from tests.sizes import examples

TEXTS = [line for path in sorted(Path(__file__).parent.glob("*.txt")) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        (r"\bblood\s(?:test|type)\b", {Needed(("blood", "test"), ""), Needed(("blood", "type"), "")}),
        (r"\b(?:in|to)\shospital\b", {Needed(("hospital",), "")}),
        (r"\bself[ -]?harm", {Needed(("self",), "harm"), Needed((), "selfharm")}),
        (r"loans?\b", {Needed((), "loan"), Needed((), "loans")}),
        (r"(?<!\w)Hall\s\d", {Needed(("hall",), "")}),
        (r"(?:^|\b(?:and|please|tomorrow)\s)(?:call|ring)\b", {Needed(("call",), ""), Needed(("ring",), "")}),
        (r"\bsteuer-?id\b", {Needed(("steuer", "id"), ""), Needed(("steuerid",), "")}),
        (r"\bborn\b[^\n]{0,25}may", {Needed(("born",), "may")}),
        (r"\bnon\w+stop\b", {Needed((), "stop")}),
        (r"[a-z]+", {Needed((), "")}),
        (r"(?i)\bborn\b", None),
    ],
)
def test_words_that_a_match_needs_are_told_from_the_pattern(pattern: str, needed: set[Needed] | None) -> None:
    assert needed_by(pattern) == needed


@pytest.mark.parametrize(
    ("pattern", "digits"),
    [
        (r"\d\d-\d", 2),
        (r"(?:19|20)\d\d", 4),
        (r"\d{3,5}|\d", 1),
        (r"a\d?", 0),
        (r"[0-9](?:\d{2})?\d", 2),
        (r"[a\d]", 0),
    ],
)
def test_digits_that_a_match_needs_are_counted(pattern: str, digits: int) -> None:
    assert digits_needed_by(pattern) == digits


def test_letters_are_the_same_runs_in_any_script() -> None:
    text = "R2-D2's naïve_plan — 北京 2024, Ünal²"
    assert letters_in(text) == frozenset(re.findall(r"[^\W\d_]+", text))
    assert letters_in("it’s — 9to5") == {"it", "s", "to"}


PHRASES = [phrase for _, phrase in personal.phrases()] + [
    rf"(?<![\w-])(?:{pattern})(?![\w-])" for table in of_all(Dates).values() for pattern in table.patterns.values()
]
PHRASES += [pattern for signals in of_all(Signals).values() for kind in signals for pattern in kind.values()]
ALL = Anchored((phrase, phrase) for phrase in PHRASES)
WORDS = sorted({word for phrase in PHRASES for word in re.findall(r"[^\W\d_]{2,}", phrase)})


def _missed(text: str) -> list[str]:
    tried = ALL.worth_trying(text, letters_in(text))
    return [phrase for phrase in PHRASES if phrase not in tried and personal.compiled(phrase).search(text)]


@pytest.mark.slow
def test_no_phrase_is_missed_in_messages() -> None:
    assert [text for text in TEXTS if _missed(text.lower())] == []


@examples(100, deadline=2000)
@given(
    st.lists(st.sampled_from([*WORDS, "2024", "7", "12-03", "'s", ", "]), max_size=8),
    st.sampled_from([" ", "-", "", "_", "—"]),
)
def test_no_phrase_is_missed_in_what_its_own_words_make(words: list[str], between: str) -> None:
    assert _missed(between.join(words)) == []
