"""A query as the search statement takes it, and how much each reason to find something counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date

from memory_sql.languages.dates import Days
from memory_sql.languages.words import Term


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search looks, in either arm, and where a reason counts in full.

    A scope of at most `whole` observations is read whole, for what stands around a match; of others what stands within
    `around` of the `best` matches. In a scope of more than `large` only the rarest words are looked up, as long as all of
    them together are found at most so often. A statement says all that it can with `full_words`; of the points for being
    new half are left after `half_days`.
    """

    whole: int = 1000
    large: int = 2000
    best: int = 300
    around: int = 5
    full_words: int = 20
    half_days: int = 30


@dataclass(frozen=True, slots=True)
class Weights:
    """Reasons to find something. 0 takes one out of the score.

    A text's own words count by BM25: `k1` bounds what one can count for, `b` says how much a long text takes off.

    The next four multiply the rarity (IDF) of words that stand elsewhere: in the turn before, if that asks; in the second
    turn before and behind (BM25); within five turns; in the conversation. The next are points: the speaker is the one who is
    named in the query; a day is told and the query asks when; it was said in, or speaks of, the time that is named; a
    statement says more the longer it is, a question nothing; what was said today. `disputed` and `archived` are shares of
    the score that are taken off (B.4). `source`: what a message inherits of the score of an observation made of it.
    `terms`: the share that a word counts for which stands only in an observation's search cues. `vector`: points for
    each standard deviation that an observation lies nearer to the query in meaning than the last of the 50 nearest.
    """

    k1: float = 0.6
    b: float = 0.4
    asked: float = 0.7
    near: float = 0.2
    window: float = 0.4
    conversation: float = 0.3
    speaker: float = 6.0
    when: float = 3.0
    date: float = 8.0
    substance: float = 3.0
    recency: float = 0.0
    disputed: float = 0.12
    archived: float = 0.08
    source: float = 0.5
    terms: float = 0.8
    vector: float = 1.2
    bounds: Bounds = Bounds()


@dataclass(frozen=True, slots=True)
class Query:
    """What was asked for. `left_out` says which words are not looked for, and why.

    `names`: every word of it, for the speakers that may be among them. `spans` are the days that it names. `phrases` must
    stand in a text, `without` must not; `said_by`, `after`, `before` (not included) and `tags` have to hold. Messages
    come from `outside` that conversation; `language` is theirs, where the agent's own settings name none. `text`: what was
    asked, without operators, for those who don't read it word by word. `superseded` observations are found as well; with
    `scope` only that one is searched, with `absorbed` only what is in use there and in its text.
    """

    text: str = ""
    terms: tuple[Term, ...] = ()
    names: tuple[str, ...] = ()
    asks_when: bool = False
    spans: tuple[Days, ...] = ()
    phrases: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    said_by: str | None = None
    after: date | None = None
    before: date | None = None
    tags: tuple[str, ...] = ()
    outside: str | None = None
    scope: int | None = None
    absorbed: bool = False
    superseded: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)
    language: str = "english"

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(term.text for term in self.terms)

    def __bool__(self) -> bool:
        """False: there is nothing to look for. Only to leave things out is not a search."""
        return bool(self.terms or self.spans or self.phrases or self.said_by or self.tags or self.after or self.before)

    def to_json(self, weights: Weights) -> str:
        """As memory.search takes it."""
        return json.dumps(
            {
                "terms": [{"words": term.words, "extra": term.extra} for term in self.terms],
                "names": self.names,
                "when": self.asks_when,
                "spans": _multirange(self.spans),
                "phrases": self.phrases,
                "without": self.without,
                "said_by": self.said_by,
                "after": None if self.after is None else f"{self.after}",
                "before": None if self.before is None else f"{self.before}",
                "tags": self.tags,
                "outside": self.outside,
                "scope": self.scope,
                "absorbed": self.absorbed,
                "superseded": self.superseded,
                "language": self.language,
                "weights": _numbers(weights),
            }
        )


def _numbers(weights: Weights) -> dict[str, float]:
    numbers = asdict(weights)
    bounds = numbers.pop("bounds")
    return {**numbers, **bounds}


def _multirange(spans: Iterable[Days]) -> str:
    return "{" + ",".join(f"[{days.first},{days.last}]" for days in spans) + "}"
