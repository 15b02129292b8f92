"""What kind of memory an observation is, and how important, by rules over what is stored of it. Pure.

The words are in [kinds] and [importance] of each language's file. A change to the rules or to their words raises `RULES`;
`work.maintain` then classifies anew what an older version has classified.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from memory_sql.config.kinds import ObservationKind
from memory_sql.languages.data import of_all, table
from memory_sql.languages.tables import FunctionWords, Importance, Kinds, Pattern, ToldBy, Words
from memory_sql.languages.text import one_line

RULES = 1
CONFIDENCE: Mapping[str, float] = {"said": 0.95, "implied": 0.8, "guessed": 0.5}  # the tiers of B.4: ≥ .95, ≥ .70, ≥ .40

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
LONGEST_TRIVIAL = 100  # of greetings and fillers alone

_FIGURES = re.compile(r"\d{2}")
_WORD = re.compile(r"[^\W\d_]+(?:'t)?")
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

    kind: ObservationKind | None
    importance: float | None
    by: int | None


def classification_of(
    text: str, category: str | None, tags: Collection[str], fact_key: str | None, given: Classified
) -> Classified:
    """What was given, and by the rules what wasn't."""
    by_rules = given.kind is None and given.importance is None
    kind = given.kind or ("fact" if fact_key is not None else kind_of(text, category, tags))
    importance = importance_of(text, category, tags) if given.importance is None else given.importance
    return Classified(kind, importance, RULES if by_rules else None)


def kind_of(text: str, category: str | None = None, tags: Collection[str] = ()) -> ObservationKind:
    """An episode, which happened once, or a note, which holds until something else does (R216–R221).

    By the first of these that says something: a marker of time, the category, the tags (those of notes first), a verb that
    tells what happened, a word of notes; else an episode.
    """
    says = _Sayings(text)
    if says.any("temporal") or (says.any("weekday") and not says.any("habitual")):
        return "episode"
    if category in OWN_KINDS:
        return OWN_KINDS[category]
    if category in NOTES or category in EPISODES:
        return "note" if category in NOTES else "episode"
    marked, known = {tag.casefold() for tag in tags}, _tags()
    if not marked.isdisjoint(known.note | known.episode):
        return "episode" if marked.isdisjoint(known.note) else "note"
    if says.any("happened"):
        return "episode"
    return "note" if says.any("note") else "episode"


def importance_of(text: str, category: str | None = None, tags: Collection[str] = ()) -> float:
    """0 to 1, to two decimals (B.4): .9 is critical, .7 high, .4 normal, .2 low, less is trivial."""
    says, size = _Sayings(text), _size(text)
    if size <= SHORTEST or (size <= LONGEST_TRIVIAL and says.only("trivial")):
        return TRIVIAL / 1000
    marks = {"critical": CRITICAL, "high": HIGH, "hedging": HEDGED, "first_person": FIRST_PERSON}
    points = START + sum(worth for mark, worth in marks.items() if says.any(mark)) + OF_CATEGORY.get(category or "", 0)
    points += TECHNICAL * (bool(_FIGURES.search(text)) or says.any("technical"))
    points += min(MOST_FOR_LENGTH, max(0, size - LONG))
    points += TAGGED * len({tag.casefold() for tag in tags} & _tags().important)
    return (min(1000, max(0, points)) + 5) // 10 / 100


def _plain(text: str) -> str:
    return one_line(text).replace("’", "'").strip()


def _size(text: str) -> int:
    """In characters of a script with letters."""
    said = _plain(text)
    return len(said) + 2 * len(_DENSE.findall(said))


class _Language(NamedTuple):
    """`patterns` by the names of the fields of `Kinds` and `Importance`."""

    small: Words
    patterns: Mapping[str, Pattern]


class _Sayings:
    """What a text says in its language; in several where it has as many small words of each, or none of any."""

    def __init__(self, text: str) -> None:
        self._said, self._languages = _plain(text), _languages_of(text)

    def any(self, what: str) -> bool:
        return any(language.patterns[what].search(self._said) for language in self._languages if what in language.patterns)

    def only(self, what: str) -> bool:
        """Nothing is left of it without that."""
        left = (language.patterns[what].sub("", self._said) for language in self._languages if what in language.patterns)
        return any(not _LETTER.search(rest) for rest in left)


def _languages_of(text: str) -> Sequence[_Language]:
    known = _languages()
    for name, letters in _SCRIPTS:
        if letters.search(text):
            return [known[name]] if name in known else []
    words = [word.lower() for word in _WORD.findall(text)]
    counts = {name: sum(word in language.small for word in words) for name, language in known.items() if language.small}
    most = max(counts.values())
    return [known[name] for name, count in counts.items() if count == most]


@cache
def _languages() -> Mapping[str, _Language]:
    return {name: _Language(_small(name), dict(_patterns(name))) for name in of_all(Kinds)}


def _small(language: str) -> Words:
    small = table(language, FunctionWords)
    return small.common | small.telling | small.claiming | table(language, ToldBy).words


def _patterns(language: str) -> Iterator[tuple[str, Pattern]]:
    """A pattern for each mark, of all its phrases; matched without regard to case."""
    for one in (table(language, Kinds), table(language, Importance)):
        for name, phrases in one._asdict().items():
            if isinstance(phrases, Mapping) and phrases:
                yield name, re.compile("|".join(phrases.values()), re.IGNORECASE)


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
