"""Selects the rules for secrets that are worth trying on a text: those with a cue in it. Pure.

A cue contains letters that occur inside a word of the text. Results are cached by word, since most words recur. The cache
is limited, and holds no long words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from memory_sql.languages.anchors import digits_needed_by, letters_in
from memory_sql.privacy.secrets import SecretRule
from memory_sql.privacy.spoken import spoken

MOST_WORDS = 16_384  # in the cache
MOST_LETTERS = 32  # of a word in the cache
_DIGIT = re.compile(r"\d")


class Cues:
    """The rules, and for each word the cues whose letters it contains. `_dull` words contain none."""

    def __init__(self, rules: Sequence[SecretRule]) -> None:
        by_cue: dict[str, set[int]] = {}
        for number, rule in enumerate(rules):
            for cue in rule.cues:
                by_cue.setdefault(cue, set()).add(number)
        self._rules, self._by_cue = rules, by_cue
        self._by_letters: dict[str, list[str]] = {}
        self._bare: list[str] = []  # cues without two adjacent letters
        for cue in by_cue:
            letters = max(letters_in(cue), key=lambda run: (len(run), run), default="")
            (self._by_letters.setdefault(letters, []) if len(letters) > 1 else self._bare).append(cue)
        self._any = re.compile("|".join(map(re.escape, self._by_letters)))
        self._dull: set[str] = set()
        self._telling: dict[str, tuple[str, ...]] = {}

    def rules_of(self, lower: str, words: frozenset[str]) -> list[SecretRule]:
        """The rules in their order."""
        cues = {cue for cue in self._bare if cue in lower}
        for word in words - self._dull:
            known = self._telling.get(word)
            cues.update(self._looked_at(word) if known is None else known)
        cued = {number for cue in cues if cue in lower for number in self._by_cue[cue]} if cues else set[int]()
        if cued and _DIGIT.search(lower) is None:
            cued = {number for number in cued if not _needs_digit(self._rules[number].pattern)}
        return [self._rules[number] for number in sorted(cued)]

    def _looked_at(self, word: str) -> tuple[str, ...]:
        found: tuple[str, ...] = ()
        if self._any.search(word) is not None:
            found = tuple(cue for letters, some in self._by_letters.items() if letters in word for cue in some)
        if len(word) <= MOST_LETTERS:
            self._remember(word, found)
        return found

    def _remember(self, word: str, cues: tuple[str, ...]) -> None:
        if len(self._dull) + len(self._telling) >= MOST_WORDS:
            self._dull, self._telling = set(), {}
        if cues:
            self._telling[word] = cues
        else:
            self._dull.add(word)


@cache
def _needs_digit(pattern: str) -> bool:
    return digits_needed_by(pattern) > 0


@cache
def _cues() -> Cues:
    return Cues(spoken().rules)


def cued(lower: str, words: frozenset[str]) -> list[SecretRule]:
    """The rules worth trying, in order. `lower`: the text in lower case; `words`: its `letters_in`."""
    return _cues().rules_of(lower, words)
