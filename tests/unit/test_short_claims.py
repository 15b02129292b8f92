"""The language of a few words: what is in none that has rules waits for a person, and what is harmless doesn't."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from memory_sql.propagation.letters import likeness
from memory_sql.propagation.speech import covered, language_of

AROUND = {
    "english": "The team meets on Mondays in the office and the release is on Friday.",
    "german": "Das Team trifft sich montags im Büro und die Freigabe ist am Freitag.",
    "french": "L'équipe se réunit le lundi au bureau et la livraison est vendredi.",
    "spanish": "El equipo se reúne los lunes en la oficina y la entrega es el viernes.",
}
ENGLISH = AROUND["english"]


def claims(of_kind: str) -> list[tuple[str, str, str]]:
    """Half, language, claim."""
    lines = (Path(__file__).parent / "short_claims.txt").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line[0] != "#"]
    return [(half, language, text) for half, kind, language, text in rows if kind == of_kind]


def test_private_claims_in_languages_without_rules_wait() -> None:
    """Beside an English text 101 of 123 passed before, alone 39. Half of them were looked at while the rule was written."""
    private = claims("private")
    assert len(private) == 123
    assert len({language for _, language, _ in private} - {*covered()}) >= 30
    for around, most in ((ENGLISH, 6), ("", 8)):
        passed = Counter(half for half, _, text in private if language_of(text, around) is not None)
        sys.stdout.write(f"{'beside English' if around else 'alone'}: {dict(passed)} of 56 and 67 pass\n")
        assert passed["fit"] <= most
        assert passed["check"] <= most


def test_harmless_claims_in_languages_with_rules_do_not() -> None:
    """None did before beside a text of their language, and alone 20 of 80, which have no function word."""
    harmless = claims("harmless")
    assert len(harmless) == 80
    beside = Counter(half for half, language, text in harmless if language_of(text, AROUND[language]) != language)
    alone = Counter(half for half, _, text in harmless if language_of(text) is None)
    sys.stdout.write(f"held beside their language: {dict(beside)} of 40 each; alone: {dict(alone)}\n")
    assert beside["fit"] == 0
    assert beside["check"] <= 1
    assert alone.total() <= 20


@pytest.mark.parametrize(
    "text", ["Siti sedang hamil", "Ahmet hasta", "Linnea on raskaana", "Neha divorce le rahi hai", "Анна беременна"]
)
@pytest.mark.parametrize("around", [*AROUND.values(), ""])
def test_one_chance_word_decides_nothing(text: str, around: str) -> None:
    assert language_of(text, around) is None
    assert language_of(f"{ENGLISH} {text}.") is None


def test_letters_speak_for_their_language() -> None:
    for language, text in AROUND.items():
        assert max(covered(), key=lambda one: likeness(text, one)) == language
    assert likeness("Анна беременна", "english") < 0 == likeness("3:30", "english")
