"""What kind of memory an observation is, and how important, by rules over what is stored of it. Pure.

The words are in [kinds] and [importance] of each language's file. A change to the rules or to their words raises `RULES`;
`work.maintain` then classifies anew what an older version has classified.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from memory_sql.config.kinds import ObservationKind
from memory_sql.languages.anchors import Anchored, letters_in
from memory_sql.languages.data import of_all, table
from memory_sql.languages.tables import NOTHING, FunctionWords, Importance, Kinds, Pattern, ToldBy, Words
from memory_sql.languages.text import one_line

RULES = 1
CONFIDENCE: Mapping[str, float] = {
    "said": 0.95,
    "implied": 0.8,
    "guessed": 0.5,
}  # the tiers of B.4: ≥ .95, ≥ .70, ≥ .40

# B.4's. A category that is itself a kind is that kind, and what C14 adds holds until something takes its place: a note.
NOTES = frozenset(
    "preference constraint goal habit policy standard belief decision principle commitment relationship skill correction"
    " entity rule reasoning".split()
)
EPISODES = frozenset("event action observation issue bug incident moment".split())
OWN_KINDS: Mapping[str, ObservationKind] = {"fact": "fact", "procedure": "procedure"}

# Importance in thousandths, so that it comes out the same everywhere.
START, TRIVIAL = 500, 100
CRITICAL, HIGH, HEDGED = 200, 120, -150
FIRST_PERSON, TECHNICAL, TAGGED = 50, 30, 50
OF_CATEGORY: Mapping[str, int] = {
    "correction": 150,
    "principle": 120,
    "rule": 110,
    "preference": 100,
    "commitment": 100,
    "procedure": 100,
    "reasoning": 90,
    "decision": 80,
    "relationship": 50,
    "skill": 50,
    "moment": 30,
    "entity": 20,
}
LONG, MOST_FOR_LENGTH = 200, 100  # a thousandth for each character beyond
SHORTEST = 10  # characters; what has no more is trivial
LONGEST_TRIVIAL = 60  # of greetings and fillers alone

_FIGURES = re.compile(r"\d{2}")
_LETTER = re.compile(r"[^\W_]")
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")  # a character that says as much as three letters
_SCRIPTS = (  # languages that are told by their letters, in this order
    ("japanese", re.compile(r"[\u3040-\u30ff]")),
    ("korean", re.compile(r"[\uac00-\ud7a3]")),
    ("chinese", re.compile(r"[\u3400-\u9fff]")),
    ("russian", re.compile(r"[\u0400-\u04ff]")),
)


class Classified(NamedTuple):
    """`by` as `observations.classified_by`: None where one of the two is the host's, or neither was given."""

    kind: str | None
    importance: float | None
    by: int | None


def classification_of(
    text: str, category: str | None, tags: Collection[str], fact_key: str | None, given: Classified
) -> Classified:
    """What was given, and by the rules what wasn't. `kind` None: nothing says it, and what would be a guess isn't stored."""
    if given.kind is not None and given.importance is not None:
        return given
    says, is_new = _Sayings(text), given.kind is None and given.importance is None
    kind = "fact" if fact_key is not None else _kind(says.marks, category, tags)
    importance = _importance(says, category, tags) if given.importance is None else given.importance
    return Classified(given.kind or kind, importance, RULES if is_new else None)


def kind_of(text: str, category: str | None = None, tags: Collection[str] = ()) -> ObservationKind:
    """An episode, which happened once, or a note, which holds until something else does (R216–R221).

    By the first of these that says something: a marker of time, the category, the tags (those of notes first), a verb that
    tells what happened, a word of notes; else an episode.
    """
    return _kind(_Sayings(text).marks, category, tags) or "episode"


def _kind(marks: Collection[str], category: str | None, tags: Collection[str]) -> ObservationKind | None:
    """None: no step says anything."""
    if "temporal" in marks or ("weekday" in marks and "habitual" not in marks):
        return "episode"
    if (own := OWN_KINDS.get(category or "")) is not None:
        return own
    if category in NOTES or category in EPISODES:
        return "note" if category in NOTES else "episode"
    marked, known = {tag.casefold() for tag in tags}, _tags()
    if not marked.isdisjoint(known.note | known.episode):
        return "episode" if marked.isdisjoint(known.note) else "note"
    if "happened" in marks:
        return "episode"
    return "note" if "note" in marks else None


def importance_of(text: str, category: str | None = None, tags: Collection[str] = ()) -> float:
    """0 to 1, to two decimals (B.4): .9 is critical, .7 high, .4 normal, .2 low, less is trivial."""
    return _importance(_Sayings(text), category, tags)


def _importance(says: _Sayings, category: str | None, tags: Collection[str]) -> float:
    size = len(says.said) + 2 * len(_DENSE.findall(says.said))
    if size <= SHORTEST or (size <= LONGEST_TRIVIAL and says.is_trivial()):
        return TRIVIAL / 1000
    worth = {"critical": CRITICAL, "high": HIGH, "hedging": HEDGED, "first_person": FIRST_PERSON}
    points = START + sum(worth.get(mark, 0) for mark in says.marks) + OF_CATEGORY.get(category or "", 0)
    points += TECHNICAL * (bool(_FIGURES.search(says.said)) or "technical" in says.marks)
    points += min(MOST_FOR_LENGTH, max(0, size - LONG))
    points += TAGGED * len({tag.casefold() for tag in tags} & _tags().important)
    return (min(1000, max(0, points)) + 5) // 10 / 100


class _Sayings:
    """What a text says in its language; in several where it has as many small words of each, or none of any.

    Of several only the first has a first person: Mia is a name in most, and "my" in one.
    """

    def __init__(self, text: str) -> None:
        self.said = one_line(text).replace("’", "'").strip()
        lower = self.said.lower()
        words = letters_in(lower)
        self._languages = _languages_of(lower, words)
        self.marks = {
            mark
            for language in self._languages
            for mark, pattern in _marks(language).worth_trying(lower, words)
            if (mark != "first_person" or language == self._languages[0]) and _compiled(pattern).search(self.said)
        }

    def is_trivial(self) -> bool:
        """Nothing is left of it without greetings and fillers."""
        patterns = map(_trivial, self._languages)
        return any(each.match(self.said) and not _LETTER.search(each.sub("", self.said)) for each in patterns)


def _languages_of(lower: str, words: Collection[str]) -> Sequence[str]:
    for name, letters in _SCRIPTS:
        if letters.search(lower):
            return [name]
    counts = {name: len(small.intersection(words)) for name, small in _small_words().items()}
    most = max(counts.values())
    return [name for name, count in counts.items() if count == most]


@cache
def _small_words() -> Mapping[str, Words]:
    """By which each language is told, of those that aren't told by their letters."""
    told_by_letters = {name for name, _ in _SCRIPTS}
    return {name: _small(name) for name in of_all(Kinds) if name not in told_by_letters}


def _small(language: str) -> Words:
    small = table(language, FunctionWords)
    return small.common | small.telling | small.claiming | table(language, ToldBy).words


@cache
def _marks(language: str) -> Anchored[tuple[str, str]]:
    """The names of the fields of `Kinds` and `Importance`, with the patterns that find each."""
    fields = {**table(language, Kinds)._asdict(), **table(language, Importance)._asdict()}
    return Anchored(
        ((mark, pattern), pattern)
        for mark, phrases in fields.items()
        if mark != "trivial" and isinstance(phrases, Mapping)
        for pattern in phrases.values()
    )


@cache
def _trivial(language: str) -> Pattern:
    return _compiled("|".join(table(language, Importance).trivial.values()) or NOTHING.pattern)


@cache
def _compiled(pattern: str) -> Pattern:
    return re.compile(pattern, re.IGNORECASE)


class _Tags(NamedTuple):
    note: Words
    episode: Words
    important: Words


@cache
def _tags() -> _Tags:
    """Of all languages together: a host's tags needn't be in the language of the text."""
    kinds, importance = of_all(Kinds).values(), of_all(Importance).values()
    return _Tags(
        Words().union(*(words.note_tags for words in kinds)),
        Words().union(*(words.episode_tags for words in kinds)),
        Words().union(*(words.tags for words in importance)),
    )
