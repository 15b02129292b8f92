"""Which sentences of a long text have no counterpart in a new one, and how much is compared to say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_sql.consolidation.keeping import untold
from memory_sql.languages import wording
from memory_sql.languages.text import sentences
from memory_sql.languages.wording import is_among, pieces
from memory_sql.propagation import speech
from memory_sql.propagation.speech import language_of

LINES = Path(__file__).with_name("ordinary_messages.txt").read_text().splitlines()
SAID = [f"{line.rstrip('.!?')} on day {n}." for n, line in enumerate((line for line in LINES if len(line) > 30), 1)][
    :120
]


class Comparisons:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, compare = 0, wording._are_forms

        def counted(one: str, other: str) -> bool:
            self.count += 1
            return compare(one, other)

        monkeypatch.setattr(wording, "_are_forms", counted)


def told(new: list[str]) -> list[frozenset[str]]:
    return [pieces(part) for part in new]


def test_what_is_kept_word_for_word_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Comparisons(monkeypatch)
    assert untold(" ".join(SAID), told([*SAID[::-1], "Mia owns a sloop."]), "mia", ()) == []
    assert seen.count == 0


def test_what_is_written_anew_is_compared_with_what_begins_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    old, seen = " ".join(SAID), Comparisons(monkeypatch)
    new = [" ".join(f"{word}s" for word in part.rstrip(".").split()) for part in SAID]
    untold(old, told(new), "mia", ())
    words = [pieces(part) for part in sentences(old)]
    pairs = sum(len(one) * len(other) for one in words for other in told(new))
    assert 0 < seen.count < pairs / 20


def test_a_sentence_without_counterpart_is_found_among_many() -> None:
    gone = "Rosa cleans the kitchen windows on Thursdays."
    text = " ".join([*SAID[:60], gone, *SAID[60:]])
    place = sentences(text).index(gone)
    assert untold(text, told(SAID), "mia", ()) == [place]
    assert untold(text, told(SAID), "mia", {place + 1}) == []
    assert untold(text, told([*SAID, "On Thursday, Rosa cleaned the window of the kitchen."]), "mia", ()) == []


@pytest.mark.parametrize(
    ("one", "other", "are_forms"),
    [
        ("planted", "planting", True),
        ("plans", "plan", True),
        ("tea", "teas", False),  # too short to tell
        ("consolidation", "console", False),  # they part too early
        ("1234", "12345", False),  # figures have no forms
        ("überprüfung", "überprüfungen", True),
    ],
)
def test_forms_of_a_word_begin_alike(one: str, other: str, are_forms: bool) -> None:
    assert is_among(one, {other, "harbour"}) == are_forms
    assert is_among(other, {one, "harbour"}) == are_forms


def test_the_text_beside_many_claims_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, judge = list[str](), speech._language_of

    def judged(text: str, expected: str | None = None) -> str | None:
        texts.append(text)
        return judge(text, expected)

    monkeypatch.setattr(speech, "_language_of", judged)
    around = " ".join(SAID[:100])
    assert {language_of(f"Server {n} runs Postgres 18.", around) for n in range(20)} == {"english"}
    assert texts.count(around) == 1
